"""One number that tells trained models apart, the same for a model, its file and its exports."""

import hashlib
import json

import numpy as np

from .estimator import AbstractEstimator

#: Parts of a description that decide what the model answers; the rest is how it came about.
PARTS = ("kind", "architecture", "shapes", "x_names", "theta_names", "centring")


def model_hash(estimator: AbstractEstimator) -> str:
    """SHA-256, in hexadecimal digits, of weights, preprocessing, centring and names."""
    header, arrays = estimator.described()
    found = hashlib.sha256(json.dumps([header[part] for part in PARTS], sort_keys=True).encode())
    for name in sorted(name for name in arrays if name.startswith("network/")):
        array = np.ascontiguousarray(arrays[name])
        found.update(f"{name}{array.dtype.str}{array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()
