"""What a model is asked to predict: kernels, pairs, candidate sets and their targets."""
