"""The only place with network, disk and clock."""
