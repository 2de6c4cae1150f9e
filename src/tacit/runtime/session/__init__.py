"""The public session file that every member has: read, design, check, cancel."""
