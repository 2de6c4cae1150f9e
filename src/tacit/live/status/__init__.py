"""Status pages of running members."""
