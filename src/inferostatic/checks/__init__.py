"""Whether a trained estimator can be trusted; records only, figures are drawn in telling."""
