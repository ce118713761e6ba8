"""Epsilon of a composition by the distribution of its privacy loss: good to a percent or so.

For plans made of single mechanisms, repeated and one after another, and of Poisson samples of
Gaussians. Sommer, Meiser, Mohammadi 2019 (PoPETs); Koskela, Jalkoe, Honkela 2020
(arXiv:1906.03049) for the Fourier transform.
"""

from __future__ import annotations

import cmath
import math
from typing import NamedTuple

from .amounts import NO_RECORD, Law, height, law_of, noise_alone, summed
from .closed_forms import LAPLACE, STEPS, full_chance, outputs
from .leaves import Atom, leaf_price
from .reading import Node, NoPrice
from .steps import (
    CELLS,
    LEAST_SQUARED,
    Pair,
    allocated_atoms,
    cells,
    chained,
    listed,
    so_often,
)

POINTS = 1 << 12
LEAST_DELTA, PLAIN_DELTA = 1e-17, 1e-4
MOST_PAIRS = 12
MOST_ROWS = 64
WIDE = 200.0


def normal(x: float) -> float:
    """Probability that a standard normal is at most x."""
    return math.erfc(-x / math.sqrt(2)) / 2


def gaussian_pair(squared: float) -> Pair:
    """Losses of Gaussian DP with this mu squared, out to nine deviations."""
    mu = math.sqrt(squared)
    reach = 9 * mu
    return Pair(squared / 2 - reach, squared / 2 + reach, (),
                lambda loss: normal((loss - squared / 2) / mu))


def fixed_pair(rate: float, squared: float) -> Pair:
    """A record that is exchanged, in a sample of fixed size: gains as of one that is removed,
    losses as of one that is added, and nothing else."""
    gains = [one for one in rows_pair(rate, squared, 1, False).atoms if one[0] > 0]
    gains += [(-loss, mass * math.exp(-loss)) for loss, mass in gains]
    return listed([*gains, (0.0, 1 - math.fsum(mass for _, mass in gains))])


def truncated_pair(node: Node, squared: float, exchanged: bool) -> Pair:
    """A record that is removed from a truncated sample, or exchanged for another; in a full
    one it moves twice."""
    rate = node["rate"]
    full = full_chance(rate, node["most"], node["out_of"])
    parts = [(1 - full, rows_pair(rate, squared, 1, exchanged)),
             (full, rows_pair(rate, 4 * squared, 1, exchanged))]
    return listed([(loss, share * mass) for share, pair in parts for loss, mass in pair.atoms])


def drawn(rate: float, rows: int) -> list[float]:
    """Chances that 0, 1, ... of some rows are in a sample."""
    return [math.comb(rows, j) * rate**j * (1 - rate) ** (rows - j) for j in range(rows + 1)]


def rows_pair(rate: float, squared: float, rows: int, exchanged: bool) -> Pair:
    """Several rows that go, or are exchanged, on a sample of Gaussians."""
    mu = math.sqrt(squared)
    law = tuple((j * mu, chance) for j, chance in enumerate(drawn(rate, rows)) if chance > 0)
    return shifted_pair(law, law if exchanged else NO_RECORD)


def shifted_pair(up: Law, down: Law) -> Pair:
    """Normal laws of shifts up, against those of shifts down: atoms of fine cells."""
    low, high = -9.0 - down[-1][0], 9.0 + up[-1][0]
    if high**2 > 600 or len(up) > 2 * MOST_ROWS:
        raise NoPrice("a group of very sharp releases")
    width = (high - low) / CELLS
    atoms = []
    for cell in range(CELLS):
        left = low + width * cell
        middle = left + width / 2
        mass = math.fsum(one * (normal(left + width - shift) - normal(left - shift))
                         for shift, one in up)
        atoms.append((height(up, middle) - height(down, -middle), mass))
    return Pair(atoms[0][0], atoms[-1][0], tuple(atoms))


def whole_steps_pair(node: Node, rows: int = 1) -> Pair:
    """Noise of whole steps under the largest shift; a wide one is as good as continuous."""
    shift: int = node["sensitivity"] * rows
    if node.name == "DiscreteGaussian":
        sigma: float = node["sigma"]
        if sigma > WIDE:
            return gaussian_pair((shift / sigma) ** 2)
        reach = math.ceil(9.6 * sigma)

        def height(step: int) -> float:
            return -step * step / (2 * sigma * sigma)
    else:
        parameter: float = node["parameter"]
        if parameter < 1 / WIDE:
            raise NoPrice("noise of very many whole steps")
        reach = math.ceil(40 / parameter)

        def height(step: int) -> float:
            return -parameter * abs(step)
    steps = range(-reach, reach + 1)
    whole = math.fsum(math.exp(height(step)) for step in steps)
    masses: dict[float, float] = {}
    for step in steps:
        loss = round(height(step) - height(step + shift), 12)
        masses[loss] = masses.get(loss, 0.0) + math.exp(height(step)) / whole
    return Pair(min(masses), max(masses), tuple(masses.items()))


def ranged(node: Node) -> bool:
    """Whether a leaf's losses are of a range that is known, and move with what it picks among."""
    return node.name == "Exponential" or node.fields.get("noise") == "gumbel"


def two_losses(epsilon: float) -> Pair:
    """A coin that tells the truth as often as epsilon lets it."""
    likely = 1 / (1 + math.exp(-epsilon))
    return Pair(-epsilon, epsilon, ((-epsilon, 1 - likely), (epsilon, likely)))


def pair_of(node: Node, relation: str, rows: int = 1, attained: bool = False) -> Pair:
    """The pair of distributions that dominates a leaf, for so many rows; if `attained`, one that
    two candidates have, each ahead by half of the range.

    Raises:
        NoPrice: none is known here.
    """
    found = leaf_price(node, relation)
    epsilon = found.pure * rows
    if found.exact is not None:
        return gaussian_pair(found.exact * rows * rows)
    if node.name in ("DiscreteLaplace", "DiscreteGaussian"):
        return whole_steps_pair(node, rows)
    if not 1e-9 < epsilon < 100 or found.failure:
        raise NoPrice(node.name)
    if found.shape is not None and found.shape[0] == LAPLACE:
        return Pair(-epsilon, epsilon, ((-epsilon, math.exp(-epsilon) / 2), (epsilon, 0.5)),
                    lambda loss: (math.exp((min(loss, epsilon) - epsilon) / 2)
                                  - math.exp(-epsilon)) / 2 if loss > -epsilon else 0.0)
    if attained and ranged(node):
        return two_losses(epsilon / 2)
    if ranged(node):
        return Pair(-epsilon, epsilon, (), lambda loss: (
            math.exp((min(loss, epsilon) - epsilon) / 2) - math.exp(-epsilon))
            / -math.expm1(-epsilon) if loss > -epsilon else 0.0)
    if node.name == "Asserted":  # rows of it are integer noise whose shift they are
        known = outputs((STEPS, found.pure, rows))
        if known:
            return Pair(-epsilon, epsilon, tuple(
                (found.pure * (rows - 2 * x), two) for x, (_, two) in enumerate(known)))
    raise NoPrice(node.name)


def by_blocks(node: Node) -> Node:
    """A `Correlated` on Poisson samples as what covers it: a sampled Gaussian for each time that a
    record may be drawn."""
    rounds = min(node["participations"], -(-node["steps"] // node["separation"]))
    noise = node.inner.inner["noise_multiplier"] / math.hypot(*node["coefficients"])
    once = Node("Gaussian", {"noise_multiplier": noise, "shares": ()}, ())
    return Node("Repeat", {"count": rounds}, (
        Node("PoissonSample", {"rate": node.inner["rate"]}, (once,)),))


class Unit(NamedTuple):
    """A leaf or a sample with what surrounds it: rows of one person, gone or exchanged."""

    node: Node
    relation: str
    rows: int
    exchanged: bool


def collect(unit: Unit, times: int, found: dict[Unit, int]) -> None:
    """Add to `found` how often each leaf of a plan runs, `times` over."""
    node = unit.node
    if node.name in ("Sequential", "Repeat", "Group", "Federated"):
        rows = unit.rows * (node["rows"] if node.name == "Group" else 1)
        for inner in node.inside:
            collect(Unit(inner, unit.relation, rows, unit.exchanged),
                    times * int(node.fields.get("count", 1)), found)
    elif node.name == "LabelOnly" and unit.relation == "replace_label":
        collect(Unit(node.inner, "replace_one", unit.rows, unit.exchanged), times, found)
    elif node.name == "AsReplaceOne" and unit.relation == "replace_one":
        collect(Unit(node.inner, "add_remove", unit.rows, True), times, found)
    elif node.name == "Correlated" and node.inner.name == "PoissonSample":
        if unit.rows > 1 or unit.exchanged:
            raise NoPrice("several rows at once, of correlated noise on samples")
        collect(unit._replace(node=by_blocks(node)), times, found)
    elif node.name == "PartitionSelection":
        collect(unit._replace(node=noise_alone(node)), times * node["groups_per_person"], found)
    elif node.name not in ("Public", "PostProcess"):
        found[unit] = found.get(unit, 0) + times


def pairs_of(plan: Node, relation: str, attained: bool) -> list[tuple[Pair, int]]:
    """Distinct pairs, with Gaussians merged into one."""
    units: dict[Unit, int] = {}
    collect(Unit(plan, relation, 1, False), 1, units)
    found: list[tuple[Pair, int]] = []
    squared = 0.0
    for unit, times in units.items():
        node = unit.node
        steps, law = unit.rows * (2 if unit.exchanged else 1), law_of(node)
        if len(law) > 1 and unit.relation == "add_remove":
            law = summed(law, unit.rows)
            found.append((shifted_pair(law, law if unit.exchanged else NO_RECORD), times))
        elif len(law) == 1:
            squared += times * (steps * law[0][0])**2
        elif node.name == "PoissonSample" and node.inner.name == "Gaussian":
            if unit.relation != "add_remove" or node["rate"] == 1:
                raise NoPrice(node.name)
            found.append((sample_of(node, unit), times))
        elif node.name in STEPPED and is_stepped(node, unit.relation):
            found.append((stepped(node, unit), times))
        elif node.name in ("PoissonSample", "RandomAllocation") and steps == 1:
            found.append((seen_once(node, unit.relation, attained), times))
        elif node.name == "Correlated" and unit.relation in node.prices:
            squared += times * steps**2 * node.prices[unit.relation].exact
        elif node.name == "Gaussian":
            squared += times * (steps / node["noise_multiplier"]) ** 2
        elif node.inside or node.name == "IndividualFilter":
            raise NoPrice(node.name)
        else:
            found.append((pair_of(node, unit.relation, steps, attained), times))
    if squared:
        found.append((gaussian_pair(squared), 1))
    if not found or len(found) > MOST_PAIRS:
        raise NoPrice("a plan of many different mechanisms")
    return found


def seen_once(node: Node, relation: str, attained: bool) -> Pair:
    """A record that leaves a Poisson sample, or one round of an allocation, as the dearest release
    there tells it: all of them, and all rounds, tell no less."""
    pair = max((one for one, _ in pairs_of(node.inner, relation, attained)),
               key=lambda one: one.high)
    rate = node["rate"] if node.name == "PoissonSample" else 1 / node["steps"]
    if pair.high > WIDE or relation != "add_remove":
        raise NoPrice(node.name)
    return listed([(math.log1p(rate * math.expm1(loss)),
                    mass * (rate + (1 - rate) * math.exp(-loss))) for loss, mass in cells(pair)])


STEPPED = {"FixedSizeSample", "TruncatedPoissonSample", "RandomAllocation"}


def is_stepped(node: Node, relation: str) -> bool:
    """Whether a scheme has a pair of its own here: of Gaussian noise, in an allocation not of very
    much, which a list of ratios would make less of."""
    squared = node.inner.prices[relation].exact
    return squared is not None and (node.name != "RandomAllocation" or squared >= LEAST_SQUARED
                                    or node["steps"] == 1)


def stepped(node: Node, unit: Unit) -> Pair:
    """The pair of a scheme; several rows of it, or one that is exchanged, are as many steps."""
    squared, rows = node.inner.prices[unit.relation].exact, unit.rows
    if rows > 1 and unit.exchanged:
        raise NoPrice(node.name)
    if node.name == "RandomAllocation":
        if node["steps"] == 1:
            return gaussian_pair(squared * (rows * (1 + unit.exchanged))**2)
        leaves, comes = allocated_atoms(node["steps"], squared)
        if unit.exchanged:
            leaves = chained(comes, leaves)
        return listed(so_often(leaves, rows))
    if node.name == "FixedSizeSample":
        if node["size"] >= node["out_of"]:
            raise NoPrice(node.name)
        whole = fixed_pair(node["size"] / node["out_of"], squared)
    else:
        if node["rate"] == 1:
            raise NoPrice(node.name)
        whole = truncated_pair(node, squared, unit.exchanged)
    return whole if rows == 1 else listed(so_often(cells(whole), rows))


def sample_of(node: Node, unit: Unit) -> Pair:
    """The pair of a Poisson sample of one Gaussian."""
    if unit.rows > MOST_ROWS:
        raise NoPrice("a large group of rows on a sample")
    return rows_pair(node["rate"], node.inner["noise_multiplier"] ** -2, unit.rows, unit.exchanged)


def moments(parts: list[tuple[list[Atom], int]], tilt: float) -> tuple[float, float, float]:
    """Of the sum of all losses at a tilt: the logarithm of its moment, mean, and variance."""
    log, mean, variance = 0.0, 0.0, 0.0
    for atoms, times in parts:
        top = max(tilt * loss for loss, _ in atoms)
        weights = [mass * math.exp(tilt * loss - top) for loss, mass in atoms]
        total = math.fsum(weights)
        one = math.fsum(weight * loss for weight, (loss, _) in zip(weights, atoms, strict=True))
        one /= total
        log, mean = log + times * (top + math.log(total)), mean + times * one
        variance += times * math.fsum(weight * (loss - one)**2 for weight, (loss, _) in zip(
            weights, atoms, strict=True)) / total
    return log, mean, variance


def tilt_for(parts: list[tuple[list[Atom], int]], delta: float) -> float:
    """Where a saddle point has about this delta; none where sums show enough of it."""
    low, high, goal = 0.0, 1.0, math.log(delta)
    if delta >= PLAIN_DELTA:
        return 0.0

    def rest(tilt: float) -> float:
        log, mean, _ = moments(parts, tilt)
        return log - tilt * mean - goal
    while rest(high) > 0 and high < 1e6:
        low, high = high, 2 * high
    for _ in range(8):
        middle = (low + high) / 2
        low, high = (middle, high) if rest(middle) > 0 else (low, middle)
    return low


def epsilon_of_losses(plan: Node, relation: str, delta: float, attained: bool = False) -> float:
    """The epsilon at `delta` of a plan, to about a percent; if `attained`, what its choices can
    lose one apart from the other, below what they lose together."""
    if delta < LEAST_DELTA:
        raise NoPrice("a composition at so small a delta")
    pairs = pairs_of(plan, relation, attained)
    parts = [(cells(pair), times) for pair, times in pairs]
    tilt = tilt_for(parts, delta)
    log, mean, variance = moments(parts, tilt)
    reach = 10 * math.sqrt(variance) + 2 * max(pair.high - pair.low for pair, _ in pairs)
    step = 2 * reach / POINTS
    if not 0 < step < math.inf:
        raise NoPrice("a plan that loses next to nothing")
    product = [1 + 0j] * POINTS
    for atoms, times in parts:
        own = moments([(atoms, 1)], tilt)[0]
        turned = fourier(grid([(loss, mass * math.exp(tilt * loss - own))
                               for loss, mass in atoms], step))
        product = [one * two**times for one, two in zip(product, turned, strict=True)]
    masses = [value.real / POINTS for value in fourier(product, 1)]
    losses = [(place + POINTS * round((mean / step - place) / POINTS)) * step
              for place in range(POINTS)]
    tail = sorted([(loss, mass * math.exp(min(log - tilt * loss, 600)))
                   for loss, mass in zip(losses, masses, strict=True)], reverse=True)
    return solved(tail, delta)


def solved(tail: list[tuple[float, float]], delta: float) -> float:
    """Where the sum of mass (1 - exp(epsilon - loss)) above epsilon is delta; from the largest loss
    down, since rounding is worse in what is below."""
    above, weighed = 0.0, 0.0
    for loss, mass in tail:
        if loss <= 0 or above - math.exp(min(loss, 700)) * weighed > delta:
            break
        above += mass
        weighed += mass * math.exp(-loss)
    return max(0.0, math.log((above - delta) / weighed)) if above > delta and weighed > 0 else 0.0


def grid(atoms: list[Atom], step: float) -> list[complex]:
    """Masses at whole steps, around a circle; an atom is shared by three of them so that mean
    and variance stay what they are."""
    found = [0j] * POINTS
    if max(atoms)[0] - min(atoms)[0] > 4 * POINTS * step:
        raise NoPrice("a loss that is very wide")
    for loss, mass in atoms:
        near = round(loss / step)
        off = loss / step - near
        for place, share in ((-1, (off - 1) * off / 2), (0, 1 - off * off),
                             (1, (off + 1) * off / 2)):
            found[(near + place) % POINTS] += mass * share
    return found


def fourier(values: list[complex], sign: int = -1) -> list[complex]:
    """Cooley and Tukey's transform of a list of 2^k numbers."""
    size = len(values)
    if size == 1:
        return values
    even, odd = fourier(values[::2], sign), fourier(values[1::2], sign)
    turned = [cmath.exp(sign * 2j * math.pi * k / size) * odd[k] for k in range(size // 2)]
    return [even[k] + turned[k] for k in range(size // 2)] + [
        even[k] - turned[k] for k in range(size // 2)]
