"""Tables of ln L: polynomials of θ fitted to exact sums over events, with a checked error."""
