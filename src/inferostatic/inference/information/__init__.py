"""Fisher information."""
