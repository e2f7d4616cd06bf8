"""Telling people: plots, reports, the paper's experiment and the command line."""
