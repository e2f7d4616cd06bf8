"""The stacks that the training benchmark compares, one worker module for each."""
