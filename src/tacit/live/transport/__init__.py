"""Frames between members: in memory, or WebSockets over mutual TLS."""
