"""Feature maps of the observables, which live inside the model."""
