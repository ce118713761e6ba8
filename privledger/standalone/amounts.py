"""Gaussian noise on a sum to which each record adds a random amount, drawn by a public law; and
the noise of a group's count."""

from __future__ import annotations

import math
from typing import Any

from .leaves import Atom, Price, excess
from .reading import Bad, Node, NoPrice, real

Law = tuple[Atom, ...]  # shifts in deviations of the noise, rising, with chances
MOST_AMOUNTS, FEW_AMOUNTS, MOST_SUMS = 256, 12, 256
APART, AWAY = 0.05, 11.0
NO_RECORD: Law = ((0.0, 1.0),)


def amounts(field: Any) -> Law:
    """The law of one record: chances count from the largest amount down, up to 1.

    Raises:
        Bad: a number that it cannot have.
    """
    deviation, each = field["standard_deviation"], field["sensitivities"]
    chances = field["probabilities"]
    if not 0 < len(each) == len(chances) <= MOST_AMOUNTS or not max(each) > 0 or any(
            one != 0 and not 1e-140 <= one <= 1e140 for one in each) or any(
            not real(one) <= 1 for one in chances) or not abs(
            math.fsum(chances) - 1) <= 1e-9 or not 1e-140 <= deviation / max(each) <= 1e140:
        raise Bad("a mixture of Gaussians with a number that it cannot have")
    left, missing = 1.0, max(0.0, 1 - math.fsum(chances))
    law = []
    for place, chance in sorted(zip(each, chances, strict=True), reverse=True):
        share = min(chance + missing, left)
        left, missing = left - share, 0.0
        law.append((place / deviation, share))
    return merged(law)


def merged(parts: list[tuple[float, float]]) -> Law:
    """Equal places once, rising, without those that never happen."""
    found = dict[float, float]()
    for place, chance in parts:
        found[place] = found.get(place, 0.0) + chance
    return tuple(sorted((place, chance) for place, chance in found.items() if chance > 0))


def on_some(rate: float, law: Law) -> Law:
    """The law on a Poisson sample."""
    return merged([(0.0, 1 - rate), *[(place, rate * chance) for place, chance in law]])


def law_of(node: Node) -> Law:
    """Of a mixture of Gaussians, or of one on Poisson samples; else nothing."""
    if node.name == "PoissonSample":
        law = law_of(node.inner)
        return on_some(node["rate"], law) if law else law
    return amounts(node.fields) if node.name == "MixtureOfGaussians" else ()


def summed(law: Law, rows: int) -> Law:
    """Of the sum of the amounts of so many rows.

    Raises:
        NoPrice: of too many.
    """
    found = law
    for _ in range(min(rows, MOST_SUMS) - 1):
        found = merged([(float(f"{place + more:.12g}"), chance * share)
                        for place, chance in found for more, share in law])
        if len(found) > MOST_SUMS:
            break
    if len(found) > MOST_SUMS or rows > MOST_SUMS:
        raise NoPrice("a group of many different amounts")
    return found


def height(law: Law, x: float) -> float:
    """Logarithm of the density of shifted normal noise over that of the noise."""
    logs = [math.log(chance) + place * (x - place / 2) for place, chance in law]
    top = max(logs)
    return top + math.log(math.fsum(math.exp(one - top) for one in logs))


def fewer(law: Law) -> Law:
    """A smaller amount, of few places."""
    width = -(-len(law) // FEW_AMOUNTS)
    return tuple((law[start][0], math.fsum(chance for _, chance in law[start:start + width]))
                 for start in range(0, len(law), width))


def amounts_curve(law: Law, other: Law, order: float) -> float:
    """A Renyi bound that no right one is below, by the trapezoid rule: of a record of one law
    that is exchanged for one of the `other`."""
    law, top = fewer(law), law[-1]
    other = fewer(other)
    simple = (order * top[0]**2 / 2 + order / (order - 1) * math.log(top[1])) * (1 - 1e-9)
    if order * (top[0] + other[-1][0]) > 200:
        return max(0.0, simple)
    low, high = -AWAY - other[-1][0] * order, AWAY + (order + 1) * (top[0] + other[-1][0])
    logs = []
    for place in range(math.floor(low / APART), math.ceil(high / APART) + 1):
        x = place * APART
        below = height(other, -x)
        logs.append(excess(height(law, x) - below, order) + below - x * x / 2)
    most = max(logs)
    moment = most + math.log(math.fsum(math.exp(one - most) for one in logs) * APART
                             / math.sqrt(2 * math.pi))
    whole = math.log1p(math.exp(moment)) if moment < 40 else moment
    return max(0.0, simple, whole / (order - 1) * (1 - 1e-6))


def amounts_price(law: Law, rows: int = 1, exchanged: bool = False) -> Price:
    """Of Gaussian DP and zCDP as much as if the amount were always the largest."""
    squared = (law[-1][0] * rows * (1 + exchanged))**2
    if len(law) == 1:
        return Price(lambda order: order * squared / 2, exact=squared)
    known = dict[float, float]()

    def curve(order: float) -> float:
        if order not in known:
            every = summed(law, rows)
            known[order] = amounts_curve(every, every, order) if exchanged else max(
                amounts_curve(every, NO_RECORD, order), amounts_curve(NO_RECORD, every, order))
        return known[order]
    found = Price(curve, gdp=squared, zcdp=squared / 2)
    found.amounts = law, rows, exchanged
    return found


def mixture_price(node: Node, relation: str) -> Price:
    """A `MixtureOfGaussians`, by the law of the amount that a record adds."""
    if relation != "add_remove":
        raise Bad("a mixture of Gaussians has a price under add_remove only")
    return amounts_price(amounts(node.fields))


def noise_alone(node: Node) -> Node:
    """What a `PartitionSelection` adds to each count: of groups that surely show it costs that."""
    scale, kind = node["scale"], node["noise"]
    if kind == "gaussian":
        return Node("Gaussian", {"noise_multiplier": scale, "shares": ()}, ())
    return (Node("Laplace", {"scale": scale, "l1_sensitivity": 1.0}, ()) if kind == "laplace" else
            Node("Asserted", {"epsilon": 1 / scale, "delta": 0.0}, ()))
