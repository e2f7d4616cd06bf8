"""The likelihood of a data set, its maximum and its profiles."""
