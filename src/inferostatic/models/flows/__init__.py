"""Normalising flows for densities."""
