"""Prior distributions of the parameters."""
