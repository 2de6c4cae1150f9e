"""Errors, files, arrays, reports: what every floor needs."""
