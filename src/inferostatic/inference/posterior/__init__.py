"""Posteriors of the parameters given observed events."""
