"""Guarantees of the mechanisms, computed in closed form, without sampling."""
