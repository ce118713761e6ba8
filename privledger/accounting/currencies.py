"""Gaussian DP and zCDP of mechanisms that are not Gaussian, in closed form.

Each function gives the pair (squared mu, rho), rounded up by about 1e-13, and both are attained but
for one rho that its function names. Proofs: docs/proofs/currencies.md.
"""

from __future__ import annotations

import math

from privledger.accounting.gaussian import mu_from_pure
from privledger.rounding import multiply_up, up

_LOOSE = 1 + 1e-13  # what a dozen elementary operations may have lost
_RANGE = (1 / 8, -1 / 576, 7 / 181440, -1 / 1075200, 1 / 43545600)
"""Of the rho of a range, in powers of its square: signs alternate, terms fall."""

Currencies = tuple[float, float]


def laplace_currencies(epsilon: float) -> Currencies:
    """Laplace noise of epsilon nats, and whatever it dominates: noisy maxima.

    >>> [round(one, 6) for one in laplace_currencies(1.0)]
    [1.061032, 0.367879]
    """
    from scipy.special import erfinv, ndtri_exp

    if epsilon == 0:
        return 0.0, 0.0
    if epsilon < 2:
        mu = math.sqrt(8) * float(erfinv(-math.expm1(-epsilon / 2)))
    else:
        mu = -2 * float(ndtri_exp(-(epsilon / 2 + math.log(2))))
    return _both(mu, _beyond(epsilon))


def range_currencies(eta: float) -> Currencies:
    """Losses that span at most `eta` nats, whichever, chosen after what was seen before.

    >>> [round(one, 6) for one in range_currencies(1.0)]
    [0.389242, 0.123302]
    """
    if eta == 0:
        return 0.0, 0.0
    if eta < 0.5:
        square = eta * eta
        rho = square * sum(one * square**power for power, one in enumerate(_RANGE))
    else:
        # log((e^eta - 1) / eta) - 1 + eta / (e^eta - 1)
        rho = eta + math.log(-math.expm1(-eta) / eta) - 1 + (
            eta * math.exp(-eta) / -math.expm1(-eta))
    return _both(mu_from_pure(0.5 * eta), min(rho, eta * eta / 8))


def steps_currencies(epsilon: float, steps: int) -> Currencies:
    """Discrete Laplace noise of parameter `epsilon` and a shift of whole `steps`.

    So are that many steps of anything that is epsilon-DP; one is all of pure DP.

    >>> [round(one, 6) for one in steps_currencies(1.0, 2)]
    [3.623861, 1.264241]
    """
    if epsilon == 0 or steps == 0:
        return 0.0, 0.0
    if steps == 1:
        mu = mu_from_pure(epsilon)
        return multiply_up(mu, mu), up(epsilon * math.tanh(0.5 * epsilon) * (1 + 1e-15))
    half = steps // 2
    mu = 2 * _quantile(epsilon, half + 1) if steps % 2 else (
        _quantile(epsilon, half + 1) + _quantile(epsilon, half))
    ratio, miss, whole = math.exp(-epsilon), -math.expm1(-epsilon), epsilon * steps
    # steps - 2 q (1 - q^steps) / (1 - q^2), by terms of one sign.
    mean = steps * miss / (1 + ratio) + 2 * ratio / (1 + ratio) * (
        max(0.0, _beyond(whole) - steps * _beyond(epsilon)) / miss)
    return _both(mu, min(epsilon * mean, whole * math.tanh(0.5 * whole)))


def response_currencies(epsilon: float, noise: float, buckets: int) -> Currencies:
    """Randomised response of `buckets` answers, a uniform one with probability `noise`.

    Rho is the relative entropy, or for many buckets what pure DP says: `pld.currencies` has less.
    """
    whole = steps_currencies(epsilon, 1)
    if buckets == 2 or epsilon == 0:
        return whole
    wrong, gap = noise / buckets, 1 - noise
    mu = _between(wrong, noise - wrong, gap) * _LOOSE
    few = buckets <= 2 + 4 * math.exp(min(0.5 * epsilon, 100.0))
    return (min(whole[0], multiply_up(mu, mu)),
            min(whole[1], up(epsilon * gap * _LOOSE)) if few else whole[1])


def _both(mu: float, rho: float) -> Currencies:
    mu = up(mu * _LOOSE)
    return multiply_up(mu, mu), up(rho * _LOOSE)


def _beyond(value: float) -> float:
    """exp(-value) - 1 + value, with all digits."""
    if value > 0.25:
        return math.expm1(-value) + value
    total = 1.0
    for term in range(14, 2, -1):
        total = 1 - value * total / term
    return 0.5 * value * value * total


def _quantile(epsilon: float, place: int) -> float:
    """Where a normal law has the upper tail q^place / (1 + q), q = exp(-epsilon), place >= 1."""
    from scipy.special import erfinv, ndtri_exp

    ratio = math.exp(-epsilon)
    centre = (-math.expm1(-epsilon) - 2 * ratio * math.expm1(-epsilon * (place - 1))) / (1 + ratio)
    if centre < 0.7:
        return math.sqrt(2) * float(erfinv(centre))
    return -float(ndtri_exp(-epsilon * place - math.log1p(ratio)))


def _between(wrong: float, others: float, gap: float) -> float:
    """Phi^-1(1 - others) - Phi^-1(wrong), which are `gap` apart, or a little more: by both ends,
    or by the least density between them."""
    from scipy.special import ndtri

    low, high = float(ndtri(wrong)), -float(ndtri(others))
    far = max(abs(low), abs(high))
    mean = gap * math.sqrt(2 * math.pi) * math.exp(0.5 * far * far * _LOOSE) if far < 37 else (
        math.inf)
    return min(high - low + 1e-14 * (1 + far), mean)
