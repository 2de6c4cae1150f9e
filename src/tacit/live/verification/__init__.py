"""Judge a session from what everyone could see of it."""
