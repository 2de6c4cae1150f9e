"""Guarantees of the mechanisms, the paper's and further ones, in closed form, without sampling."""
