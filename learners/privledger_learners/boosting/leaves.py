"""Leaf values from noisy sums: post-processing."""

from __future__ import annotations

from functools import lru_cache

import numpy as np


@lru_cache(maxsize=256)
def _correlation(size: int, correlation: float) -> tuple[np.ndarray, np.ndarray]:
    places = np.arange(size)
    return correlation ** np.abs(places[:, None] - places), places


def posterior_values(
    mass: np.ndarray, unsure: np.ndarray, S: np.ndarray, *, sd_s: float, tau: float,
    rate: float, extra: float, correlation: float,
) -> np.ndarray:
    """Posterior mean of leaf values v, times the learning rate.

    Model: S = a v + noise, a of mean `mass` and variance `unsure`, noise variance
    sd_s^2 + extra * a; prior v ~ N(0, tau^2 R), R[i, j] = correlation^|i - j| (neighbouring
    cells of one ordered feature).

    Args:
        mass, unsure: shape (leaves,). S: shape (leaves,) or (leaves, classes).

    Returns:
        Same shape as S, clipped to twice rate * tau.
    """
    a = mass
    ridge = (sd_s**2 + extra * a) / tau**2 + unsure
    if correlation > 0 and len(a) > 1:
        R, places = _correlation(len(a), correlation)
        system = a[:, None] * R * a
        system[places, places] += ridge
        solved = np.linalg.solve(system, S)
        values = R @ (a[:, None] * solved if S.ndim == 2 else a * solved)
    else:
        weight = a / (a * a + ridge)
        values = weight[:, None] * S if S.ndim == 2 else weight * S
    return np.clip(rate * values, -2 * rate * tau, 2 * rate * tau)


def ratio_values(H: np.ndarray, S: np.ndarray, *, rate: float, regularization: float,
                 clip: float) -> np.ndarray:
    """The paper's leaf: noisy sum over noisy count, the count at least `regularization`."""
    weight = rate / np.maximum(regularization, H)
    values = weight[:, None] * S if S.ndim == 2 else weight * S
    return np.clip(values, -rate * clip, rate * clip)
