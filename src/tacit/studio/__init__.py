"""The web page: plan, watch, compare, and the status of a deployment."""
