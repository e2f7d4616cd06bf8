"""What a model is asked to predict: kernels, pair laws, candidate sets and their targets."""
