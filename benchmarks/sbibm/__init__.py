"""Accuracy on four tasks of the public benchmark sbibm, whose posteriors are known."""
