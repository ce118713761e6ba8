"""The truth of a record in one of several Gaussian rounds, written apart from the package.

L is the mean of `steps` independent lognormals. Its law by one FFT on a plain fine grid, without
bounds: good to about 1e-6 where deltas are above 1e-8 and the noise is at least .7. A grid of 2^20
points over all ratios of little noise was 1.5e-4 too dear (noise .72, 3 steps).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

FEWEST, MOST, FINE = 1 << 20, 1 << 24, 0.01


@lru_cache(maxsize=2)
def ratio_law(steps, mu):
    """(ratio, mass without the record), for ratios that occur."""
    reach = math.exp(mu * mu / 2 + 7.5 * mu)
    whole = steps + 1.2 * reach + 10 * math.sqrt(steps * math.expm1(mu * mu))
    points = min(MOST, max(FEWEST, 1 << math.ceil(math.log2(whole / FINE))))
    h = whole / points
    edges = np.maximum((np.arange(points + 1) - 0.5) * h, 1e-300)
    one = np.diff(ndtr(np.log(edges) / mu + mu / 2))
    law = np.fft.irfft(np.fft.rfft(one) ** steps, points)
    ratio = np.arange(points) * h / steps
    kept = (law > 1e-18) & (ratio > 0)
    q, ratio = law[kept], ratio[kept]
    q /= q.sum()
    return ratio / (q @ ratio), q


def losses(steps, mu, add):
    """(loss, mass) in the likelier world, for a record that is there or (`add`) is not."""
    ratio, q = ratio_law(steps, mu)
    return (-np.log(ratio), q) if add else (np.log(ratio), q * ratio)


def delta_of(loss, mass, epsilon):
    return float(mass @ np.maximum(0.0, -np.expm1(np.minimum(epsilon - loss, 0.0))))


def epsilon_of(loss, mass, delta):
    if delta_of(loss, mass, 0.0) <= delta:
        return 0.0
    return brentq(lambda at: delta_of(loss, mass, at) - delta, 0.0, 100.0, xtol=1e-12)


def passes(loss, mass, count, step=2e-4, points=1 << 18):
    """The same for `count` passes: losses to the two nearest lattice points, mean kept."""
    place = loss / step
    low = np.floor(place).astype(np.int64)
    share = place - low
    held = np.zeros(points)
    np.add.at(held, low % points, mass * (1 - share))
    np.add.at(held, (low + 1) % points, mass * share)
    law = np.maximum(np.fft.irfft(np.fft.rfft(held) ** count, points), 0.0)
    at = np.arange(points)
    return np.where(at < points // 2, at, at - points) * step, law


def epsilon(steps, noise, delta, count=1):
    """The dearer of both directions."""
    found = []
    for add in (False, True):
        loss, mass = losses(steps, 1 / noise, add)
        if count > 1:
            loss, mass = passes(loss, mass, count)
        found.append(epsilon_of(loss, mass, delta))
    return max(found)
