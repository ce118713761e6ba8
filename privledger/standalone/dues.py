"""What a plan is charged at least under a filter, or of a budget with a delta."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import lru_cache

from .distributions import epsilon_of_losses, ranged
from .leaves import Price
from .prices import price
from .reading import MALFORMED, Bad, Node, NoPrice, Table

# From a filter's total to epsilon, and from a budget to the cap of a filter.

UNIT, DELTA_UNIT = 2**192, 2**512
SLACK = 10**9  # another machine may round the last digits otherwise
MOST_MEMBERS = 8  # of a choice: each is composed by itself
FILTERS = ("gdp", "zcdp", "rdp", "basic")


def delta_of_mu(mu: float, epsilon: float) -> float:
    """Balle, Wang 2018 (arXiv:1805.06530), Theorem 8; Phi(-x) = erfc(x / sqrt 2) / 2."""
    first = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
    return first - times_tail(epsilon, epsilon / mu + mu / 2)


def times_tail(epsilon: float, x: float) -> float:
    """exp(epsilon) Phi(-x), also where one factor is no float."""
    if x < 25:
        return math.exp(epsilon) * math.erfc(x / math.sqrt(2)) / 2
    series = 1 - 1 / x**2 + 3 / x**4 - 15 / x**6
    return math.exp(epsilon - x * x / 2) / (x * math.sqrt(2 * math.pi)) * series


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The smallest epsilon with delta_of_mu(mu, epsilon) <= delta, by bisection."""
    if not delta > 0:
        raise Bad("Gaussian noise has no price at delta 0")
    if delta < 1e-50:
        raise NoPrice("a Gaussian at delta below 1e-50")
    if mu > 1e4:
        raise NoPrice("a Gaussian of almost no noise")
    low, high = 0.0, 1.0
    if mu == 0 or mu < 2 * delta or delta_of_mu(mu, low) <= delta:
        return 0.0
    while delta_of_mu(mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of_mu(mu, middle) > delta else (low, middle)
    return high


def epsilon_of_renyi(order: float, bound: float, delta: float) -> float:
    """Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), Prop. 12; 0 if total variation <= delta."""
    if min(math.sqrt(bound / 2), math.sqrt(-math.expm1(-bound))) <= delta:
        return 0.0
    rest = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(0.0, bound + rest)


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Order times rho at every order; over the 200 orders that a ledger looks at."""
    best = math.sqrt(-math.log(delta) / rho)
    orders = [1 + max(best * 0.2 * 25 ** (place / 199), 1e-9) for place in range(200)]
    return min(epsilon_of_renyi(order, order * rho, delta) for order in orders)


def epsilon_of(kind: str, total: Fraction, order: float, delta: float) -> float:
    """Epsilon, at `delta`, that a filter's total certifies."""
    if kind == "basic" or not total:
        return float(total)
    if not delta > 0:
        raise Bad(f"a {kind} filter promises nothing at delta 0")
    if kind == "gdp":
        return epsilon_of_mu(math.sqrt(total), delta)
    if kind == "rdp":
        return epsilon_of_renyi(order, float(total), delta)
    return epsilon_of_rho(float(total), delta)


class Caps:
    """Units that a budget allows under one filter."""

    def __init__(self, kind: str, order: float) -> None:
        self.kind, self.order = kind, order

    def of(self, epsilon: float, delta: float, reserve: float) -> tuple[int, int]:
        """Units and delta units, with a little room for another machine's rounding; `reserve`:
        part of delta for plans with one of their own, where not all of it adds up."""
        units = largest(self.kind, self.order, epsilon, beside(delta, reserve))
        allowed = int(Fraction(delta if self.kind == "basic" else reserve) * DELTA_UNIT)
        return units + units // SLACK, allowed


def beside(delta: float, reserve: float) -> float:
    """What is left of delta beside the reserve, rounded down."""
    exact = Fraction(delta) - Fraction(reserve)
    found = float(exact)
    return math.nextafter(found, 0.0) if Fraction(found) > exact else found


@lru_cache(maxsize=256)
def largest(kind: str, order: float, epsilon: float, delta: float) -> int:
    """Units of the largest total that certifies no more than the budget."""
    if kind == "basic":
        return int(Fraction(epsilon) * UNIT)
    if not delta > 0:
        return 0
    if kind == "rdp":
        spread = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        return int(Fraction(max(0.0, epsilon - spread)) * UNIT)
    if kind == "zcdp":
        low, high = 0.0, max(1.0, epsilon)
        for _ in range(70):
            middle = (low + high) / 2
            low, high = ((middle, high) if epsilon_of_rho(middle, delta) <= epsilon
                         else (low, middle))
        return int(Fraction(high) * UNIT)
    low, high = 0.0, 1.0
    epsilon_of_mu(high, delta)  # says so where there is no price
    while delta_of_mu(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of_mu(middle, epsilon) <= delta else (low, middle)
    # The upper end: no digit of what is allowed may be lost to bisection.
    return int(Fraction(high) ** 2 * UNIT)


ATTAINED = {"Gaussian", "Laplace", "PoissonSample", "Sequential", "Repeat", "Group",
            "AsReplaceOne", "LabelOnly", "Federated", "Public", "PostProcess",
            "FixedSizeSample", "TruncatedPoissonSample", "RandomAllocation", "PartitionSelection",
            "MixtureOfGaussians"}


PARTS = {"OneOf", "Parallel"}


def leaner(node: Node) -> Node:
    """A plan with the dearest part in the place of each partition and choice: it costs no more."""
    if node.name in PARTS:
        return leaner(max(node.inside, key=lambda one: next(iter(one.prices.values())).renyi(4.0)))
    return Node(node.name, node.fields, tuple(map(leaner, node.inside)))


class Due:
    """What a plan costs at least, in units of a filter.

    `near` allows for what is not exact; `about` says which node is priced from below only.
    """

    def __init__(self, units: Fraction | int, delta_units: int = 0, near: float = 1e-9,
                 about: str = "") -> None:
        self.units, self.delta_units, self.near, self.about = units, delta_units, near, about


def from_below(plan: Node) -> str:
    """Node types in a plan whose Renyi bound is priced from below; empty if none."""
    rough = plan.kinds & {"FixedSizeSample", "RandomAllocation", "Tuning", "DiscreteLaplace"}
    waiting, seen = [plan], set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.inside
            if node.name == "PoissonSample" and price(node.inner, "add_remove").exact is None:
                rough |= {node.name}
    return ", ".join(sorted(rough))


def due(plan: Node, relation: str, kind: str, order: float, budget: tuple[float, float],
        delta: float, shared: bool = True) -> Due:
    """The price of a plan under one filter; `shared` if it was charged a delta.

    Raises:
        Bad: it has none, so it was never granted. NoPrice: none in this reader.
    """
    found = price(plan, relation)
    if kind != "basic":
        failed = -((-Fraction(found.failure) * DELTA_UNIT) // 1)
        value = {"gdp": found.gdp, "zcdp": found.zcdp}.get(kind)
        value = found.renyi(order) if value is None else value
        if not value < math.inf:
            raise Bad(f"a plan that has no price under a {kind} filter")
        about = from_below(plan) if kind == "rdp" else " ".join(
            plan.kinds & {"PoissonSample"}) if found.pure < math.inf else ""
        if kind == "gdp" and any(map(ranged, nodes_of(plan))):
            about = ", ".join([*filter(None, [about]), "choices"])
        return Due(Fraction(value) * UNIT, failed, 1e-9, about)
    if found.failure == 0 and (found.pure <= budget[0] * (1 - 1e-12)
                               or (found.pure <= budget[0] * (1 + 1e-12) and not shared)):
        return Due(Fraction(found.pure) * UNIT)
    return due_with_delta(plan, relation, found, delta if delta > 0 else budget[1])


def node_failing(plan: Node) -> bool:
    """Whether a plan is nothing but an asserted node that may fail."""
    return plan.name == "Asserted" and plan["delta"] > 0 and plan["epsilon"] < 300


def renyi_only(plan: Node, relation: str) -> bool:
    """Whether something in a plan has a Renyi bound and no distribution of losses."""
    waiting, seen = [plan], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting += node.inside
        if node.name == "AssertedZCDP" or (
                node.name == "IndividualFilter" and node["kind"] == "renyi"):
            return True
        if node.name in ("Tuning", "Group", "AsReplaceOne") and node.prices:
            made = next(iter(node.prices.values()))
            if made.exact is None and made.pure == math.inf and (
                    "Tuning" in node.kinds or (
                        node.fields.get("rows", 2) > 1 and any(map(is_stream, nodes_of(node))))):
                return True
    return False


def is_stream(node: Node) -> bool:
    """Correlated noise on samples: several rows of it may be of groups that overlap."""
    return node.name == "Correlated" and node.inner.name == "PoissonSample"


def nodes_of(plan: Node) -> set[Node]:
    """All nodes of a plan."""
    waiting, seen = [plan], set[Node]()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.inside
    return seen


def by_renyi(plan: Node, found: Price, delta: float) -> float:
    """The best of many orders, those of filters among them: beyond its own one bounds nothing.

    Every sixteenth of 400 orders first, then all about the best: epsilon falls with the order, and
    then it rises. One order of a sample may take a hundredth of a second.
    """
    orders = [1 + 10 ** (place / 60 - 2) for place in range(400)]
    filters = [node["order"] for node in nodes_of(plan) if node.fields.get("kind") == "renyi"]
    known: dict[float, float] = {}

    def epsilon(order: float) -> float:
        if order not in known:
            bound = found.renyi(order)
            known[order] = epsilon_of_renyi(order, bound, delta) if bound < math.inf else math.inf
        return known[order]
    best = min(range(0, 400, 16), key=lambda place: epsilon(orders[place]))
    usable = [epsilon(order) for order in orders[max(0, best - 15):best + 16]]
    usable += [epsilon(order) for order in filters]
    if found.zcdp < math.inf:
        usable.append(epsilon_of_rho(found.zcdp, delta) if found.zcdp else 0.0)
    return min(usable, default=math.inf)


def due_with_delta(plan: Node, relation: str, found: Price, share: float) -> Due:
    """Of a whole plan at its part of delta."""
    if not share > 0:
        if found.failure or found.pure == math.inf:
            raise Bad("a plan that is not pure, and no delta")
        return Due(Fraction(found.pure) * UNIT)
    shared = -((-Fraction(share) * DELTA_UNIT) // 1)
    if found.failure > share * (1 + 1e-12):
        raise Bad("a plan that fails more often than its delta says")
    if found.exact is not None:
        return Due(Fraction(epsilon_of_mu(math.sqrt(found.exact), share)) * UNIT, shared)
    if plan.name in PARTS and len(set(plan.inside)) <= MOST_MEMBERS:
        return max([due_with_delta(one, relation, price(one, relation), share)
                    for one in dict.fromkeys(plan.inside)], key=lambda due: due.units)
    if node_failing(plan):
        # An openly failing coin is the worst of all that are (epsilon, delta)-DP.
        likely = max(0.0, share - found.failure) / (1 - found.failure)
        least = math.log(max(1.0, math.exp(found.pure) - likely * (1 + math.exp(found.pure))))
        return Due(Fraction(least) * UNIT, shared)
    if plan.kinds & PARTS:
        one = leaner(plan)
        return due_with_delta(one, relation, price(one, relation), share)
    if renyi_only(plan, relation):
        least = by_renyi(plan, found, share)
        if found.gdp < math.inf and any(map(is_stream, nodes_of(plan))):
            least = min(least, epsilon_of_mu(math.sqrt(found.gdp), share))
        return Due(Fraction(least if least < math.inf else 0.0) * UNIT, shared, 0.02,
                   "Renyi bounds, roughly")
    try:
        least = min(found.pure, epsilon_of_losses(plan, relation, share))
        if not plan.kinds <= ATTAINED:
            # A distribution that only dominates may say more than Renyi bounds, which count then.
            least = min(least, by_renyi(plan, found, share))
    except NoPrice as what:
        return Due(0, shared, 0.0, f"{what}, of which only the delta is compared")
    if any(map(ranged, nodes_of(plan))):
        # The best bound of choices that are made one after the other lies between this and those.
        least = min(least, epsilon_of_losses(plan, relation, share, attained=True))
    return Due(Fraction(least) * UNIT, shared, 0.02, "a composition, to a percent")


# Plans that ran in a federation: what they cost if every other party gives its noise away.

Promise = tuple[str, str, float, tuple[float, float]]  # relation, filter, order, budget


def alone(node: Node, honest: int = 1) -> Node:
    """A plan without its federations: of noise that `honest` parties share, one share is left."""
    if node.name == "Federated":
        shared = node["noise"] == "shared"
        return alone(node.inner, node["parties"] - node["colluding"] if shared else 1)
    fields = node.fields
    if honest > 1 and node.name == "Gaussian":
        fields = fields | {"noise_multiplier": share_of(fields["noise_multiplier"], honest)}
    return Node(node.name, fields, tuple([alone(one, honest) for one in node.inside]))


def as_released(plan: Node | None, table: Table) -> Node | None:
    """What may be itemised under a plan: of shared noise the whole, or a share each time."""
    if plan is None or "Federated" not in plan.kinds:
        return plan
    if plan.name == "Federated" and plan["noise"] == "shared":
        share = shared(plan.inner, plan["parties"] - plan["colluding"], table)
        return table.made("OneOf", {}, (plan.inner, share))
    inside = [as_released(one, table) for one in plan.inside]
    return table.made(plan.name, plan.fields, tuple([one for one in inside if one is not None]))


def shared(node: Node, honest: int, table: Table) -> Node:
    """A plan with one of `honest` shares of every noise, as the package rounds it."""
    fields = node.fields
    if node.name == "Gaussian":
        fields = fields | {"noise_multiplier": share_of(fields["noise_multiplier"], honest)}
    return table.made(node.name, fields, tuple([shared(one, honest, table) for one in node.inside]))


def share_of(noise: float, honest: int) -> float:
    """Noise over the root of `honest`: exact for squares, else two floats below."""
    root = math.isqrt(honest)
    if root * root == honest:
        return noise / root if honest > 1 else noise
    under = math.nextafter(noise, -math.inf) / math.nextafter(math.sqrt(honest), math.inf)
    return math.nextafter(under, -math.inf)


def federations(plan: Node) -> list[Node]:
    """Every `Federated` of a plan, each once."""
    if "Federated" not in plan.kinds:
        return []
    found, waiting = dict.fromkeys([plan]), [plan]
    while waiting:
        more = [one for one in waiting.pop().inside if one not in found]
        found.update(dict.fromkeys(more))
        waiting += more
    return [one for one in found if one.name == "Federated"]


def alone_at_least(plan: Node, relation: str, delta: float) -> float:
    """Epsilon that a plan costs at least at `delta` if every other party gives its noise away.

    Raises:
        Bad: it has no price. NoPrice: none in this reader.
    """
    own = alone(plan)
    found = due_with_delta(own, relation, price(own, relation), delta)
    if not found.units:
        raise NoPrice(found.about)
    return float(found.units / UNIT) * (1 - max(found.near, 1e-9))


def told(plan: Node, units: int, delta_units: int, delta: float, promise: Promise) -> list[str]:
    """Who took part in a plan, and both of its prices; nothing if it ran in no federation."""
    if "Federated" not in plan.kinds:
        return []
    relation, kind, order, budget = promise
    lines = [f"federated: {one['parties']} parties ({one['colluding']} may collude, "
             f"{one['least_honest']} honest at least), noise {one['noise']}, seen by "
             f"{one['seen_by']}" for one in federations(plan)]
    try:
        own = units
        if any(one["noise"] == "shared" for one in federations(plan)):
            own = max(own, math.ceil(due(alone(plan), relation, kind, order, budget, delta,
                                         delta_units != 0).units))
        prices = [shown(epsilon_of(kind, Fraction(one, UNIT), order, budget[1]))
                  for one in (units, own)]
    except (NoPrice, Bad, *MALFORMED):
        prices = ["not recomputed"] * 2
    return [*lines, f"federated: declared epsilon {prices[0]}, alone epsilon {prices[1]}"]


def shown(value: float) -> str:
    """Six digits, never below what it is."""
    return str(Context(prec=6, rounding=ROUND_CEILING).create_decimal(value).normalize())
