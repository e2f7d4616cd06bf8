"""Recipes and the compiled loop that trains them."""
