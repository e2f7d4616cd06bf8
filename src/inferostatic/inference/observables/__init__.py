"""Optimal observables, templates for pyhf, and reweighting."""
