"""Members of a session: what drives their machines."""
