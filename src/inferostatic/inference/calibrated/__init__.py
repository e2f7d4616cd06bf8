"""Fits whose errors hold for any network, calibrated by simulated events."""
