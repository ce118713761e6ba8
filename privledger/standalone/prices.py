"""A plan's price: bottom up, one rule for every node type.

Exact but for four things, where it is a number that no right price can be below: Renyi bounds of
samples at orders that are not whole, of samples of fixed size, of allocations, and of tuning.
"""

from __future__ import annotations

import math
from typing import Callable  # noqa: UP035

from .amounts import amounts_price, mixture_price, on_some
from .closed_forms import any_fails, full_chance, lesser, mean_runs, of_choices, triangles
from .distributions import by_blocks
from .leaves import (
    Price,
    allocated_curve,
    leaf_price,
    nothing,
    on_poisson,
    pure_curve,
    sampled_gaussian,
    sampled_moments,
)
from .reading import Bad, Node

MOST_STEPS, SCHEMES = 64, {"RandomAllocation", "TruncatedPoissonSample", "Correlated"}
UNSAMPLED = {"IndividualFilter", "Group"} | SCHEMES


def price(node: Node, relation: str) -> Price:
    """What a node costs under a relation; kept at the node, and computed once."""
    found = node.prices.get(relation)
    if found is None:
        found = node.prices[relation] = RULES.get(node.name, leaf_price)(node, relation)
    return found


def only(relation: str, right: str, what: str) -> None:
    """Refuse another relation than the `right` one, by name."""
    if relation != right:
        raise Bad(f"{what} has a price under {right} only")


def combined(parts: list[Price], how: Callable[[list[float]], float]) -> Price:
    """One currency of all parts after another: their sum, or the largest."""
    exact = None if any(one.exact is None for one in parts) else how(
        [one.exact or 0 for one in parts])
    return Price(lambda order: how([one.renyi(order) for one in parts]),
                 how([one.pure for one in parts]), exact, how([one.gdp for one in parts]),
                 how([one.zcdp for one in parts]), how([one.failure for one in parts]))


def in_sequence(parts: list[Price]) -> Price:
    """The price of parts that follow each other: every currency adds up."""
    if len(parts) == 1:
        return parts[0]
    found = combined(parts, math.fsum)
    put_together(found, [(one, 1) for one in parts])
    found.failure = any_fails([(one.failure, 1) for one in parts])
    found.rows = lambda steps: lesser(found.by_steps(steps), tuple(
        map(math.fsum, zip(*[one.rows(steps) for one in parts], strict=True))))
    return found


def put_together(found: Price, parts: list[tuple[Price, int]]) -> None:
    """Squared mu of parts: that of choices of one range is less than their sum."""
    often: dict[float, int] = {}
    for one, times in parts:
        if one.choices is not None:
            often[one.choices[0]] = often.get(one.choices[0], 0) + one.choices[1] * times
    if often:
        rest = [one.gdp * times for one, times in parts if one.choices is None]
        found.gdp = min(found.gdp, math.fsum([*rest, *(of_choices(*one) for one in often.items())]))
        if len(often) == 1 and all(one.choices is not None for one, _ in parts):
            found.choices = next(iter(often.items()))


def dearest(parts: list[Price]) -> Price:
    """The price of one part, whichever: the largest in every currency."""
    return parts[0] if len(parts) == 1 else combined(parts, max)


def sequential(node: Node, relation: str) -> Price:
    """A `Sequential`: sums; an empty one costs nothing."""
    return in_sequence([price(one, relation) for one in node.inside]) if node.inside else nothing()


def repeat(node: Node, relation: str) -> Price:
    """A `Repeat`: `count` times the inner price."""
    one, times = price(node.inner, relation), node["count"]
    if times == 1:
        return one
    found = Price(lambda order: times * one.renyi(order), times * one.pure if one.pure else 0.0,
                  None if one.exact is None else times * one.exact, times * one.gdp if one.gdp
                  else 0.0, times * one.zcdp if one.zcdp else 0.0,
                  any_fails([(one.failure, times)]))
    put_together(found, [(one, times)])
    found.rows = lambda at: lesser(found.by_steps(at), tuple(times * x for x in one.rows(at)))
    return found


def parallel(node: Node, relation: str) -> Price:
    """The dearest part; or the two dearest, where a replaced record may leave one for another."""
    by_index = node["certificate"] == "index"
    if by_index and relation == "add_remove":
        raise Bad("parts by index, under add_remove")
    if by_index or relation == "add_remove":
        return dearest([price(one, relation) for one in list(dict.fromkeys(node.inside))])
    if relation == "replace_label":
        raise Bad("parts that a label may decide, outside of LabelOnly")
    staying = dearest([price(one, "replace_one") for one in list(dict.fromkeys(node.inside))])
    if len(node.inside) == 1:
        return staying
    moving = [price(one, "add_remove") for one in list(dict.fromkeys(node.inside))
              for _ in range(min(2, node.inside.count(one)))]
    two = combined(moving, lambda values: math.fsum(sorted(values)[-2:]))
    return combined([staying, two], max)


def one_of(node: Node, relation: str) -> Price:
    """A `OneOf`: the dearest alternative."""
    return dearest([price(one, relation) for one in list(dict.fromkeys(node.inside))])


def individual(node: Node, relation: str) -> Price:
    """An `IndividualFilter`: its cap, whatever runs under it."""
    only(relation, "add_remove", "an individual filter")
    cap, order = node["cap"], node["order"]
    if node["kind"] == "gdp":
        return Price(lambda at: cap * at / 2, exact=cap)
    return Price(lambda at: cap if at <= order else math.inf, gdp=math.inf, zcdp=math.inf)


def amplified(rate: float, inner: Price) -> Price:
    """The currencies of a sample that need no curve. Balle, Barthe, Gaboardi 2018, Theorem 8."""
    pure = inner.pure
    if pure < 30:
        pure = math.log1p(rate * math.expm1(pure))
    elif pure < math.inf:
        pure = min(pure, pure + math.log(rate + (1 - rate) * math.exp(-pure)))
    usual = Price(lambda order: math.inf, pure)
    return Price(lambda order: math.inf, pure, None, min(inner.gdp, usual.gdp),
                 min(inner.zcdp, usual.zcdp), inner.failure * rate)


def check_sampled(node: Node) -> None:
    """Refuse what has no price under a sample."""
    if node.inner.kinds & UNSAMPLED:
        raise Bad(f"an individual filter, a group or a whole scheme inside a {node.name}")


def poisson(node: Node, relation: str) -> Price:
    """A `PoissonSample`: amplified, except at rate one."""
    only(relation, "add_remove", "a Poisson sample")
    check_sampled(node)
    inner, rate = price(node.inner, relation), node["rate"]
    if rate == 1 or inner.exact == 0:
        return inner
    if inner.amounts is not None:
        return amounts_price(on_some(rate, inner.amounts[0]))
    found, child = sample(node, rate, inner), node.inner
    while child.name == "PoissonSample":  # a sample of a sample is one
        rate, child = rate * child["rate"], child.inner
    return on_poisson(rate, price(child, relation), found)


def sample(node: Node, rate: float, inner: Price) -> Price:
    """A Poisson sample of this rate: exact for one Gaussian, else by moments of the inner curve."""
    found = amplified(rate, inner)
    known: dict[float, float] = {}

    def curve(order: float) -> float:
        if order not in known:
            known[order] = (sampled_gaussian(rate, inner.exact ** -0.5, order)
                            if inner.exact is not None
                            else sampled_moments(rate, inner.renyi, order))
        return known[order]
    found.renyi, found.choices = curve, inner.choices
    return found


def fixed_size(node: Node, relation: str) -> Price:
    """A replaced record that does what no record would: its coming is that of a Poisson sample."""
    only(relation, "replace_one", "a sample of fixed size")
    check_sampled(node)
    waiting, nested = [node.inner], []
    while waiting:
        one = waiting.pop()
        waiting += dict.fromkeys(one.inside)
        if one.name == "Parallel" and one["certificate"] == "index":
            raise Bad("parts by index inside a sample of fixed size")
        nested += [one] if one.name == "FixedSizeSample" else []
    if any(one["out_of"] != node["size"] for one in nested) or (
            nested and "Parallel" in node.inner.kinds):
        raise Bad("a sample of fixed size drawn out of another number of rows")
    inner = price(node.inner, relation)
    if node["size"] == node["out_of"] or inner.exact == 0:
        return inner
    return sample(node, node["size"] / node["out_of"], inner)


def truncated(node: Node, relation: str) -> Price:
    """A `TruncatedPoissonSample` of Gaussians: in a full sample twice the shift."""
    only(relation, "add_remove", "a truncated sample")
    check_sampled(node)
    inner, rate = price(node.inner, relation), node["rate"]
    if inner.exact is None or inner.failure:
        raise Bad("a truncated sample, of other noise than Gaussian")
    full = full_chance(rate, node["most"], node["out_of"])
    if full == 0 or inner.exact == 0:
        return inner if rate == 1 or inner.exact == 0 else sample(node, rate, inner)
    squared = inner.exact
    if rate == 1:
        return Price(lambda order: 2 * squared * order, math.inf, 4 * squared)

    def curve(order: float) -> float:
        low, high = [(order - 1) * sampled_gaussian(rate, shift * squared ** -0.5, order)
                     for shift in (1, 0.5)]
        if high < 30:
            return math.log1p((1 - full) * math.expm1(low) + full * math.expm1(high)) / (order - 1)
        rest = math.log1p(-full) if full < 1 else -math.inf
        terms = [rest + low, math.log(full) + high]
        return (max(terms) + math.log1p(math.exp(min(terms) - max(terms)))) / (order - 1)
    return Price(curve, math.inf, None, 4 * squared, 2 * squared)


def correlated(node: Node, relation: str) -> Price:
    """A `Correlated`: a record moves most in the first steps, as close as they may be."""
    only(relation, "add_remove", "correlated noise")
    if node.inner.name == "PoissonSample":
        return price(by_blocks(node), relation)
    held, steps, apart = node["coefficients"], node["steps"], node["separation"]
    starts = range(0, steps, apart)[:node["participations"]]
    total = 0.0
    for lag in [one for one in starts if one < len(held)]:
        sums, rows = [0.0], range(min(len(held), steps - lag))
        for row in rows:
            other = abs(held[row + lag]) if row + lag < len(held) else 0.0
            sums.append(sums[-1] + abs(held[row]) * other)
        # Steps so early that all rows follow, and the last ones.
        cut = [start for start in starts[-(len(rows) // apart + 1):]
               if start >= lag and steps - start < len(rows)]
        whole = len(starts) - lag // apart - len(cut)
        total += (whole * sums[-1] + math.fsum(sums[steps - start] for start in cut)) * (
            2 if lag else 1)
    squared = total * price(node.inner, relation).gdp
    return Price(lambda order: squared * order / 2, exact=squared)


def allocation(node: Node, relation: str) -> Price:
    """A `RandomAllocation`; by its curve alone it costs less than one round."""
    only(relation, "add_remove", "a random allocation")
    check_sampled(node)
    inner = price(node.inner, relation)
    if inner.failure or node.inner.kinds & {"PoissonSample", "FixedSizeSample", "Tuning"}:
        raise Bad("a random allocation of a sample, of many runs or of a delta")
    if node["steps"] == 1 or inner.exact == 0 or inner.pure == 0:
        return inner
    known = dict[int, float]()

    def curve(order: float) -> float:
        at = math.floor(order)
        if at not in known:
            known[at] = min(allocated_curve(node["steps"], inner.renyi, order), inner.renyi(order))
        return known[at]
    return Price(curve, inner.pure, None, inner.gdp, inner.zcdp)


def several(child: Node, stated: str, steps: int, exchanged: bool = False) -> Price:
    """Tables that are `steps` records apart: pure k epsilon, Gaussian k mu, Renyi by triangles."""
    inner = price(child, stated)
    if inner.amounts is not None:
        law, rows, already = inner.amounts
        return amounts_price(law, rows * (1 if exchanged else steps), exchanged or already)
    if "IndividualFilter" in child.kinds or inner.failure:
        raise Bad("a group, or a change of relation, around a filter or a delta")
    (squared, rho), pure = inner.rows(steps), inner.pure * steps
    whole = pure_curve(pure) if pure < math.inf else None

    def curve(order: float) -> float:
        if inner.exact is not None:
            return squared * order / 2
        best = math.inf if whole is None else whole(order)
        return min(best, triangles(inner.renyi, steps, order)) if steps <= MOST_STEPS else best
    found = Price(curve, pure, None if inner.exact is None else squared, squared, rho)
    found.choices = inner.choices and (inner.choices[0] * steps, inner.choices[1])
    found.rows = lambda more: lesser(found.by_steps(more), inner.rows(steps * more))
    return found


def group(node: Node, relation: str) -> Price:
    """A `Group`: several rows of one person."""
    return price(node.inner, relation) if node["rows"] == 1 else several(
        node.inner, relation, node["rows"])


def as_replace_one(node: Node, relation: str) -> Price:
    """An `AsReplaceOne`: one removal and one addition."""
    only(relation, "replace_one", "AsReplaceOne")
    return several(node.inner, "add_remove", 2, exchanged=True)


def label_only(node: Node, relation: str) -> Price:
    """A `LabelOnly`: under replace-label what the inner plan costs under replace-one."""
    only(relation, "replace_label", "LabelOnly")
    if node.inner.kinds & ({"FixedSizeSample"} | SCHEMES):
        raise Bad("a sample of fixed size, or an allocation, inside LabelOnly")
    return price(node.inner, "replace_one")


def federated(node: Node, relation: str) -> Price:
    """A `Federated`, as declared: what is inside."""
    return price(node.inner, relation)


def tuning(node: Node, relation: str) -> Price:
    """Papernot, Steinke 2022 (arXiv:2110.03620), Theorems 2 and 6, with the best second order."""
    inner = price(node.inner, relation)
    if "IndividualFilter" in node.inner.kinds or inner.failure:
        raise Bad("tuning around a filter or a delta")
    if inner.pure == 0:
        return inner
    shape, success, mean = node["shape"], node["success"], node["mean"]
    poisson_runs = node["distribution"] == "poisson"
    if poisson_runs:
        pure = inner.pure + mean * math.tanh(inner.pure / 2)
    else:
        pure = (2 + shape) * inner.pure
        mean = mean_runs(shape, success)
    both = pure_curve(pure) if pure < math.inf else None

    def curve(order: float) -> float:
        spread = math.log(mean) / (order - 1)
        more = max(0.0, spread) if poisson_runs else spread
        least = min(inner.renyi(at) for at in (order, math.ceil(order))) + more
        return least if both is None else min(least, both(order))
    return Price(curve, pure)


RULES = {"Sequential": sequential, "Repeat": repeat, "Parallel": parallel, "OneOf": one_of,
         "IndividualFilter": individual, "PoissonSample": poisson, "FixedSizeSample": fixed_size,
         "RandomAllocation": allocation, "TruncatedPoissonSample": truncated,
         "Correlated": correlated, "MixtureOfGaussians": mixture_price, "Group": group,
         "AsReplaceOne": as_replace_one, "LabelOnly": label_only, "Federated": federated,
         "Tuning": tuning}


# How long pricing takes, by the counting rule of the format: beyond it nothing is priced.

MOST_EFFORT, FREE_EFFORT = 2500.0, 1.0  # about milliseconds
LIGHT, ALIKE, WITHIN, DISTRIBUTION, PART = 0.15, 0.01, 4.0, 100.0, 8.0
HEAVY = {"PoissonSample": (2.0, 0.3), "FixedSizeSample": (3.0, 0.3), "Tuning": (25.0, 0.5),
         "RandomAllocation": (400.0, 0.3), "TruncatedPoissonSample": (5.0, 0.3),
         "Correlated": (30.0, 30.0), "Group": (1.0, 0.3), "AsReplaceOne": (1.0, 0.3),
         "OneOf": (0.5, 0.5), "MixtureOfGaussians": (150.0, 0.3),
         "DiscreteGaussian": (12.0, 12.0), "DiscreteLaplace": (2.0, 2.0)}
EXACT = {"Gaussian", "Sequential", "Repeat", "PostProcess", "Public"}


class Efforts:
    """Adds up what the plans take that differ from each other."""

    def __init__(self) -> None:
        self.total = 0.0
        self.seen: set[tuple[Node, bool]] = set()

    def add(self, plan: Node | None, kind: str, by_distribution: bool) -> bool:
        """Whether there is time for one more plan."""
        whole = kind == "basic" and by_distribution
        if plan is None or (plan, whole) in self.seen:
            return True
        needed = effort_of(plan, kind in ("rdp", "basic"), whole)
        if needed > FREE_EFFORT:
            self.seen.add((plan, whole))
            self.total += needed - FREE_EFFORT
        return max(needed, self.total) <= MOST_EFFORT


def effort_of(plan: Node, curves: bool, whole: bool) -> float:
    """How much work a plan's price is, in the units of the limits; a node met again is little."""
    total, seen, waiting = 0.0, set(), [(plan, 0.0)]
    while waiting:
        node, within = waiting.pop()
        if node in seen:
            total += ALIKE
        else:
            seen.add(node)
            total += within + HEAVY.get(node.name, (LIGHT, LIGHT))[not curves]
        if curves and node.name in ("PoissonSample", "FixedSizeSample") and not (
                node.inner.kinds <= EXACT):
            within += WITHIN
        waiting += [(one, within) for one in node.inside]
    if whole and not plan.kinds <= EXACT:
        total += DISTRIBUTION + PART * len(seen)
    return total
