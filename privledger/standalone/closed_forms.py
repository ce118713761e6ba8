"""Squared mu and rho of what is not Gaussian: attained by single mechanisms; on samples a little
below, by tests and by outputs put together, since no right price is below those.

Written down here a second time, from docs/proofs/currencies.md.
"""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import NormalDist
from typing import Callable  # noqa: UP035

Both = tuple[float, float]
Shape = tuple[float, ...]  # of a child: kind, size, and steps
LAPLACE, RANGE, STEPS = 0, 1, 2
BANDS, LOOKED_AT = 16, 12
NORMAL = NormalDist()


def lesser(one: tuple[float, ...], other: tuple[float, ...]) -> tuple[float, float]:
    """The smaller squared mu, and the smaller rho."""
    return min(one[0], other[0]), min(one[1], other[1])


def mu_of_pure(epsilon: float) -> float:
    """Dong, Roth, Su 2019 (arXiv:1905.02383), Prop. 2.5: where the two trade-offs touch."""
    if epsilon == 0 or epsilon == math.inf:
        return epsilon
    return 2 * place_of(math.tanh(epsilon / 2), -epsilon - math.log1p(math.exp(-epsilon)))


def place_of(centre: float, log_tail: float) -> float:
    """x with the upper tail exp(log_tail) of a normal law, and `centre` between -x and x."""
    if centre < 1e-3:
        square = math.pi * centre * centre
        return math.sqrt(math.pi / 2) * centre * (1 + square / 12 + 7 * square * square / 480)
    if log_tail > -30:
        return -NORMAL.inv_cdf(math.exp(log_tail))
    low, high = 0.0, math.sqrt(-2 * log_tail) + 1
    for _ in range(200):
        middle = (low + high) / 2
        tail = -middle * middle / 2 - math.log(middle * math.sqrt(2 * math.pi)) + math.log1p(
            -1 / middle**2 + 3 / middle**4 - 15 / middle**6) if middle > 6 else math.log(
            math.erfc(middle / math.sqrt(2)) / 2)
        low, high = (middle, high) if tail > log_tail else (low, middle)
    return low


def gain(loss: float, beta: float) -> float:
    """exp(beta loss) - 1 plus beta (exp(-loss) - 1): its mean under P is the moment less 1."""
    if abs(loss) * (1 + beta) < 0.05:
        return math.fsum((beta**k + beta * (-1) ** k) * loss**k / math.factorial(k)
                         for k in range(2, 14))
    return math.expm1(beta * loss) + beta * math.expm1(-loss)


def past(value: float) -> float:
    """exp(-value) - 1 + value, with all digits."""
    if value < 0.1:
        return sum((-value)**k / math.factorial(k) for k in range(2, 14))
    return math.expm1(-value) + value


def of_laplace(epsilon: float) -> Both:
    """Of Laplace noise, and of the largest of noisy scores."""
    mu = 2 * place_of(-math.expm1(-epsilon / 2), -epsilon / 2 - math.log(2))
    return mu * mu, past(epsilon)


def of_range(eta: float) -> Both:
    """Of losses that span eta: mu is that of pure eta / 2, rho the largest relative entropy."""
    mu = mu_of_pure(eta / 2)
    if eta < 0.1:
        rho = eta**2 / 8 - eta**4 / 576 + eta**6 / 25920
    else:
        rho = eta + math.log(-math.expm1(-eta) / eta) - 1 + eta * math.exp(-eta) / -math.expm1(-eta)
    return mu * mu, min(rho, eta * eta / 8)


def of_choices(eta: float, count: int) -> float:
    """Squared mu of so many choices of one range, a little below: each between two candidates, one
    half of the range ahead; 32 at most together."""
    if not 1e-6 <= eta <= 2:
        return count * of_range(eta)[0]
    blocks = -(-count // 32)
    more, size = count % blocks, count // blocks
    return more * of_coins(eta, size + 1) + (blocks - more) * of_coins(eta, size)


def of_coins(eta: float, count: int) -> float:
    """Of one block of them: the widest gap of the tests by how many came true."""
    if count == 1:
        return of_range(eta)[0]
    right, wrong = 1 / (1 + math.exp(-eta / 2)), 1 / (1 + math.exp(eta / 2))
    law = [[math.comb(count, k) * one**k * other**(count - k) for k in range(count + 1)]
           for one, other in ((wrong, right), (right, wrong))]
    mu = max(apart(math.fsum(law[0][k:]), math.fsum(law[1][k:]), math.fsum(law[1][:k]),
                   math.fsum(law[1][k:]) - math.fsum(law[0][k:])) for k in range(1, count + 1))
    return min(mu * mu * (1 - 1e-9), count * of_range(eta)[0])


def of_steps(epsilon: float, steps: int) -> Both:
    """Of integer noise of parameter epsilon under a whole shift; of so many steps of pure DP."""
    if steps == 1:
        return mu_of_pure(epsilon)**2, epsilon * math.tanh(epsilon / 2)
    ratio, miss = math.exp(-epsilon), -math.expm1(-epsilon)

    def beyond(step: int) -> float:
        centre = (miss - 2 * ratio * math.expm1(-epsilon * (step - 1))) / (1 + ratio)
        return place_of(centre, -epsilon * step - math.log1p(ratio))
    half = steps // 2
    mu = beyond(half + 1) + beyond(half + steps % 2)
    least = max(0.0, past(epsilon * steps) - steps * past(epsilon))
    mean = (steps * miss + (2 * ratio * least / miss if miss else 0.0)) / (1 + ratio)
    return mu * mu, min(epsilon * mean, epsilon * steps * math.tanh(epsilon * steps / 2))


def of_response(epsilon: float, noise: float, buckets: int) -> Both:
    """Of randomised response: a test of one answer, and the largest slope of its Renyi bounds."""
    whole, gap = of_steps(epsilon, 1), 1 - noise
    mu = apart(noise / buckets, 1 - noise + noise / buckets, noise - noise / buckets, gap)
    rho = epsilon * gap
    if buckets > 2 + 4 * math.exp(min(epsilon / 2, 100)):
        right, wrong = gap + noise / buckets, noise / buckets
        rho = highest([(epsilon, right), (-epsilon, wrong)], epsilon, epsilon * gap)
    return min(whole[0], mu * mu), min(whole[1], rho)


def highest(masses: list[tuple[float, float]], top: float, mean: float) -> float:
    """The largest Renyi bound over its order, of some orders, from losses and their chances."""
    rho = 0.0
    for k in range(LOOKED_AT):
        beta = 0.01 * (max(4.0, 2 * top / max(mean, 1e-300)) * 100)**(k / (LOOKED_AT - 1))
        if beta * top > 600:
            break
        moment = math.fsum(chance * gain(loss, beta) for loss, chance in masses)
        rho = max(rho, math.log1p(max(0.0, moment)) / beta / (beta + 1))
    return rho * (1 - 1e-6)


def apart(low: float, high: float, rest: float, gap: float) -> float:
    """How far apart two places of a normal law are, or a little less: chances `low` and `high`
    below them, `rest` above the second, `gap` between."""
    if not 0 < low < high < 1 or not rest > 0:
        return 0.0
    first, last = NORMAL.inv_cdf(low), NORMAL.inv_cdf(high) if high < 0.5 else -NORMAL.inv_cdf(rest)
    if last - first > 1e-4:
        return last - first - 1e-14 * (1 + abs(first) + abs(last))
    near = 0.0 if first < 0 < last else min(abs(first), abs(last))
    return gap * math.sqrt(2 * math.pi) * math.exp(near * near / 2) * (1 - 1e-9)


def outputs(shape: Shape) -> list[tuple[float, float]]:
    """Chances of outputs without and with the record, from the largest ratio: exactly, or of
    neighbouring ones together."""
    kind, size = shape[0], shape[1]
    if kind == STEPS:
        steps = int(shape[2])
        if steps > 2 * BANDS or size * steps > 300:
            return []
        ratio = math.exp(-size)
        base, end = (1 - ratio) / (1 + ratio), 1 / (1 + ratio)
        middle = [base * ratio**(steps - x) for x in range(1, steps)]
        with_it = [end, *reversed(middle), end * ratio**steps]
        return list(zip(reversed(with_it), with_it, strict=True))
    if size > 300:
        return []
    ends = [size * (1 - 2 * k / BANDS) for k in range(BANDS + 1)]
    if kind == LAPLACE:
        rises = [(math.exp(-(loss + size) / 2) / 2, 1 - math.exp((loss - size) / 2) / 2)
                 for loss in ends]
        rises = [(0.0, 0.0), *rises, (1.0, 1.0)]
    else:
        rises = []
        for loss in ends:
            low = math.expm1((size - loss) / 2) / math.expm1(size)
            rises.append((low, low * math.exp(size) / (1 + math.expm1(size) * low)))
    return [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(rises)]


def on_sample(rate: float, shape: Shape, pure: float) -> Both:
    """Of a Poisson sample: a little below what is attained; infinity where nothing is said."""
    known = [one for one in outputs(shape) if min(one) > 0]
    if not known:
        return math.inf, math.inf
    mixed = [(one, (1 - rate) * one + rate * two) for one, two in known]
    losses = [math.log1p(rate * (two / one - 1)) for one, two in known]
    mu = low = gain_of = 0.0
    for one, two in known[:-1]:
        low, gain_of = low + one, gain_of + rate * (two - one)
        high = low + gain_of
        if high > 1 - 1e-6:
            break
        mu = max(mu, apart(low, high, 1 - high, gain_of))
    mean = sum(two * loss for (_, two), loss in zip(mixed, losses, strict=True))
    rho = highest([(loss, two) for (_, two), loss in zip(mixed, losses, strict=True)],
                  max(losses), mean)
    if shape[0] == RANGE:
        rho = min(rho, of_range(pure)[1])
    return mu * mu * (1 - 1e-6), rho


def any_fails(failures: list[tuple[float, int]]) -> float:
    """The chance that one of several coins, each thrown so often, tells all."""
    if any(failure >= 1 for failure, _ in failures):
        return 1.0
    return -math.expm1(math.fsum(times * math.log1p(-failure) for failure, times in failures))


def full_chance(rate: float, most: int, out_of: int) -> float:
    """A bound on the chance that as many of the other records are in a sample: Chernoff's, times
    what Stirling's formula leaves of it, over one less how fast the chances fall."""
    others = out_of - 1
    if most > others:
        return 0.0
    share = most / others
    if share <= rate:
        return 1.0
    distance = share * math.log(share / rate)
    if share < 1:
        distance += (1 - share) * math.log((1 - share) / (1 - rate))
    part, falls = 1.0, (others - most) * rate / ((most + 1) * (1 - rate))
    if most < others and falls < 1:
        part = min(1.0, math.sqrt(others / (2 * math.pi * most * (others - most))) / (1 - falls))
    return max(math.exp(-min(690.0, others * max(0.0, distance))) * part, 1e-300)


def mean_runs(shape: float, success: float) -> float:
    """Mean number of trials of a `Tuning` with this law."""
    if shape == 0:
        return (1 / success - 1) / math.log(1 / success)
    falling = -math.expm1(shape * math.log(success))
    return shape * (1 - success) / (success * falling)


def triangles(curve: Callable[[float], float], steps: int, order: float) -> float:
    """A Renyi bound for `steps` neighbours in a row, by the triangle inequality."""
    total = curve(order * steps)
    for j in range(steps, 1, -1):
        at = order * steps / j
        place = at + (j - 1) * (at - 1)
        total += (at - at / place) / (at - 1) * curve(place)
    return total
