"""Keys, certificates, and who is in a roster."""
