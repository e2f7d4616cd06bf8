"""The compiled training: steps, epochs, stopping."""
