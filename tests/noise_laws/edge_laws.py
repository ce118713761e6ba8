"""Rounded draws at the words on both sides of a rounding edge, in decimal arithmetic.

The words next to the edge between k - 1 and k steps tell a sampler that decides by floats alone
from an exact one: no distance of distributions could.
"""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from typing import Literal

import numpy as np

from tests.noise_laws.distances import FALSE_ALARM, Finding, kolmogorov
from tests.noise_laws.sampler_laws import Bench

_DIGITS = 70
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628620899")


def rounding_edges(bench: Bench) -> list[Finding]:
    """How many words beside an edge give another number than the law says."""
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        return [_edges(bench, "laplace", lambda t: (-t).exp()),
                _edges(bench, "gaussian", normal_tail)]


def normal_tail(t: Decimal) -> Decimal:
    """P(|X| > t), X standard normal, 0 < t < 5: Abramowitz and Stegun 1964, 26.2.11."""
    term, total, odd = t, t, 1
    while term > Decimal(10) ** -_DIGITS:
        odd += 2
        term = term * t * t / odd
        total += term
    return 1 - (2 / _PI).sqrt() * (-t * t / 2).exp() * total


def _edges(bench: Bench, law: Literal["gaussian", "laplace"],
           tail: Callable[[Decimal], Decimal]) -> Finding:
    wrong = draws = 0
    for scale in (0.3, 3.7, 1000 / 3, 2.0**20 / 3):
        words, steps = [], []
        for part in (0.3, 0.7, 1.1, 1.6, 2.3, 3.1):
            k = max(1, round(part * scale))
            edge = int(tail((Decimal(k) - Decimal("0.5")) / Decimal(scale)) * 2**63)
            for sign in (0, 1):
                words += [sign << 63 | edge - 1, sign << 63 | edge + 1]
                steps += [-k if sign else k, 1 - k if sign else k - 1]
        source, _ = bench.over(np.array(words, dtype=np.uint64))
        found = getattr(source, law)(scale, len(words))
        wrong += int((found != np.array(steps)).sum())
        draws += len(words)
    return Finding(float(wrong), 0.0, draws)


def choice_edges(bench: Bench) -> list[Finding]:
    """How many words beside an edge between two candidates choose another one than the law says.

    Candidates down to a chance of 2^-62, where a sum of floats, or a uniform of few bits, ends.
    """
    wrong = draws = 0
    with decimal.localcontext() as context:
        context.prec = _DIGITS
        for far, weights in ((tuple(range(0, 43, 3)), (1,) * 15), ((40, 0, 33), (7, 3, 1 << 20)),
                             ((0, 0.1, 0.7, 25), (5, 1, 1, 900))):
            masses = [weight * (-Decimal(one)).exp()
                      for one, weight in zip(far, weights, strict=True)]
            words, places, upto = [], [], Decimal(0)
            for place, mass in enumerate(masses[:-1]):
                upto += mass
                edge = int(upto / sum(masses) * 2**64)
                words += [edge - 1, edge + 1]
                places += [place, place + 1]
            scores = np.array([-float(one) for one in far])
            starts = np.arange(len(words) + 1, dtype=np.int64) * len(far)
            source, _ = bench.over(np.array(words, dtype=np.uint64))
            found = source.choose(np.tile(scores, len(words)),
                                  np.tile(np.array(weights, dtype=np.int64), len(words)),
                                  starts, 1.0) - starts[:-1]
            wrong += int((found != np.array(places)).sum())
            draws += len(words)
    return [Finding(float(wrong), 0.0, draws)]


def far_tails(bench: Bench) -> list[Finding]:
    """Laplace draws whose first word is zero: the other words decide, and by the same law.

    -log of a uniform number below 2^-63 is 63 log 2 and one more exponential draw.
    """
    size = 200  # all of them are decided by exact arithmetic, which takes its time
    source, _ = bench.over(np.zeros(size, dtype=np.uint64))
    beyond = source.laplace(2.0**30, size) / 2.0**30 - 63 * np.log(2.0)
    distance = kolmogorov(beyond, lambda x: -np.expm1(-np.maximum(x, 0.0)),
                          lambda x: -np.expm1(-np.maximum(x, 0.0)))
    # Dvoretzky, Kiefer, Wolfowitz, with Massart's constant: two-sided.
    return [Finding(distance, float(np.sqrt(np.log(2 / FALSE_ALARM) / (2 * size))), size)]
