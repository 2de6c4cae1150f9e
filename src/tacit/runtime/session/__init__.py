"""The public file that every member has: read, designed, checked, cancelled."""
