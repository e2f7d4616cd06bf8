"""The reproduction of the paper's experiment."""
