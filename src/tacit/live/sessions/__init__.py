"""The public file of a session: read, design, check, cancel."""
