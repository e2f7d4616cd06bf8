"""Simulated data: what an event set is, and how one is made."""
