"""One module for each stage of the data: its results as sections of a report."""
