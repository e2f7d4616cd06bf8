"""Networks: multilayer perceptrons, residual and two-tower networks, particle sets."""
