"""Event weights as functions of the parameters."""
