"""Confidence sets and upper limits."""
