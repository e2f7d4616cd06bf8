"""What the functions are for: estimates and intervals from observed events."""
