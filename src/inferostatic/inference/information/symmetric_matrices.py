"""Symmetric matrices as vectors of their upper triangles, with means and covariances of those."""

import numpy as np


def pack_triangle(matrices: np.ndarray) -> np.ndarray:
    """The upper triangles, shape (…, d(d+1)/2), of symmetric matrices, shape (…, d, d)."""
    rows, columns = np.triu_indices(matrices.shape[-1])
    return matrices[..., rows, columns]


def unpack_triangle(vector: np.ndarray, dim: int) -> np.ndarray:
    """The symmetric matrix with this upper triangle."""
    matrix = np.zeros((dim, dim))
    rows, columns = np.triu_indices(dim)
    matrix[rows, columns] = vector
    matrix[columns, rows] = vector
    return matrix


def map_congruence(transform: np.ndarray) -> np.ndarray:
    """The linear map of the packed triangle of M to that of T M Tᵀ."""
    dim = transform.shape[1]
    units = np.eye(dim * (dim + 1) // 2)
    return np.stack(
        [pack_triangle(transform @ unpack_triangle(unit, dim) @ transform.T) for unit in units], 1
    )


def relative_eigenvalues(matrix: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """The λ of det(matrix − λ unit) = 0 for a positive definite unit, in ascending order."""
    root = np.linalg.cholesky(unit)
    half = np.linalg.solve(root, matrix)
    return np.linalg.eigvalsh(np.linalg.solve(root, half.T))


def standard_errors(covariance: np.ndarray) -> np.ndarray:
    """Of the diagonal; rounding may leave a constant with a variance just below 0."""
    return np.sqrt(np.maximum(np.diag(covariance), 0))


class Moments:
    """Weighted mean of vectors and the covariance of that mean, from some of them at a time."""

    def __init__(self, size: int) -> None:
        # Sums are taken about the mean of the first part, so that nothing cancels.
        self._about = np.zeros(size)
        self._total, self._squares = 0.0, 0.0
        self._first, self._first_squares = np.zeros(size), np.zeros(size)
        self._second_squares = np.zeros((size, size))

    def add(self, vectors: np.ndarray, weight: np.ndarray) -> None:
        """Vectors, shape (n, size), with a weight for each."""
        if not self._squares:
            self._about = vectors.mean(axis=0)
        away = vectors - self._about
        square = weight**2
        self._total += weight.sum()
        self._squares += square.sum()
        self._first += weight @ away
        self._first_squares += square @ away
        self._second_squares += (away * square[:, None]).T @ away

    @property
    def mean(self) -> np.ndarray:
        """Σwq/Σw."""
        return self._about + self._first / self._total

    @property
    def covariance(self) -> np.ndarray:
        """Σw²(q − q̄)(q − q̄)ᵀ/(Σw)²: the covariance of the mean, for weights of either sign."""
        shift = self._first / self._total
        cross = np.outer(shift, self._first_squares)
        about_mean = self._second_squares - cross - cross.T + self._squares * np.outer(shift, shift)
        return about_mean / self._total**2
