"""Events from files of other programs."""
