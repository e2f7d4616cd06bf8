"""What `fit` decides where the user leaves it open: method, size, length, features, decay."""
