"""Whole-data filters: how plans chosen one after another are added up against one cap.

A later plan may depend on earlier outputs, so adding up epsilons by any convenient theorem is
not allowed: the theorem is fixed before the first release (docs/proofs/filters.md).

    gdp     sum of squared Gaussian-DP parameters; exact for unsampled Gaussians
    zcdp    sum of zero-concentrated-DP parameters; pure rounds enter by epsilon tanh(epsilon/2)
    rdp     sum of Renyi bounds at one fixed order
    basic   sum of (epsilon, delta) of whole plans, each plan priced by its best theorem
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Protocol

from attrs import field, frozen

from privledger.accounting import (
    DEFAULT_ORDERS,
    Cost,
    RdpCurve,
    Tradeoff,
    epsilon_at,
    epsilon_from_mu,
    epsilon_from_rdp,
    epsilon_from_zcdp,
    failing,
    gaussian_tradeoff,
    mu_from_epsilon_delta,
    pure_tradeoff,
    rdp_cap,
    renyi_tradeoff,
    zcdp_cap,
    zcdp_tradeoff,
)
from privledger.errors import InvalidValue, UnsupportedNode
from privledger.rounding import (
    MOST_COUNT,
    as_written,
    count,
    down,
    from_units,
    named_up,
    plain_float,
    positive,
    probability,
    room_down,
    units_down,
    units_of_budget,
    units_of_fraction,
    units_up,
    up,
)

# The promise a ledger keeps.

@frozen
class Budget:
    """A cap in (epsilon, delta): epsilon in nats above zero, delta in [0, 1).

    Attributes:
        failure: the part of delta reserved for plans with a delta of their own, in a ledger
            by `gdp`, `zcdp` or `rdp`; what they charge to it adds up, and everything else is
            converted at the rest of delta. A `basic` ledger needs none: all of its delta adds up.
    """

    epsilon: float = field(converter=plain_float)
    delta: float = field(default=0.0, converter=plain_float)
    failure: float = field(default=0.0, converter=plain_float)

    def __attrs_post_init__(self) -> None:
        positive("Budget epsilon", self.epsilon)
        probability("Budget delta", self.delta, zero=True)
        probability("Budget failure", self.failure, zero=True)
        if self.failure and not self.failure < self.delta:
            raise InvalidValue("Budget failure", self.failure, "below delta")

    @property
    def rest(self) -> float:
        """Delta less the reserve, rounded down."""
        if not self.failure:
            return self.delta
        exact = Fraction(self.delta) - Fraction(self.failure)
        found = float(exact)
        return down(found) if Fraction(found) > exact else found

    def split(self, parts: int) -> tuple[Budget, ...]:
        """So many equal budgets that fit into this one together.

        Each is rounded down to a float where a part is none: `1 / 3` is a little less.
        """
        many = count("parts", parts)
        return (Budget(_part(as_written(self.epsilon), many), *(
            _part(Fraction(whole), many) for whole in (self.delta, self.failure))),) * many

    def as_dict(self) -> dict[str, float]:
        """For JSON; a reserve is written where there is one."""
        found = {"epsilon": float(self.epsilon), "delta": float(self.delta)}
        return found | ({"failure": float(self.failure)} if self.failure else {})


def _part(most: Fraction, parts: int) -> float:
    """The largest float that, as it is written too, fits so many times."""
    found = float(most / parts)
    while as_written(found) * parts > most:
        found = down(found)
    return found


DELTA_UNIT = 1 << 512
KINDS = ("gdp", "zcdp", "rdp", "basic")
MOST_ORDER = 1_000_000
"""Above it Renyi bounds leave what floating point can hold; two readers must say the same."""
THEOREMS = {
    "gdp": "fully adaptive Gaussian-DP composition, sum of mu squared below a cap "
           "(Smith and Thakurta 2022; docs/proofs/filters.md)",
    "zcdp": "zero-concentrated-DP filter, all orders at once, pure rounds too "
            "(Whitehouse, Ramdas, Rogers, Wu 2023, arXiv:2203.05481; docs/proofs/filters.md)",
    "rdp": "Renyi filter at one order fixed beforehand "
           "(Feldman and Zrnic 2021, arXiv:2008.11193; docs/proofs/filters.md)",
    "basic": "adaptive basic composition of whole plans "
             "(Rogers, Roth, Ullman, Vadhan 2016, arXiv:1605.08294; docs/proofs/filters.md)",
}


@frozen
class FilterRule:
    """One filter with its caps as scaled integers, rounded down.

    Attributes:
        kind: `gdp`, `zcdp`, `rdp` or `basic`.
        order: Renyi order for `rdp`, else 0.
        budget: the (epsilon, delta) it certifies.
        cap_units: mu squared, rho, Renyi bound or epsilon, in units of 2**-192.
        delta_cap_units: delta for `basic`, else the budget's `failure`, in units of 2**-512.
    """

    kind: str
    order: float
    budget: Budget
    cap_units: int
    delta_cap_units: int = 0

    @property
    def orders(self) -> tuple[float, ...]:
        """The orders a plan must be priced at for this filter: the usual grid and its own."""
        if self.kind != "rdp" or self.order in DEFAULT_ORDERS:
            return DEFAULT_ORDERS
        return tuple(sorted({*DEFAULT_ORDERS, self.order}))

    @property
    def theorem(self) -> str:
        """The theorem that a sum under this filter rests on."""
        return THEOREMS[self.kind]

    @property
    def unit(self) -> str:
        """What is added up, in words."""
        return {"gdp": "mu squared", "zcdp": "zCDP rho",
                "rdp": f"Renyi bound at order {self.order:g}",
                "basic": "epsilon"}[self.kind]

    def price(self, cost: Cost, delta: float) -> tuple[int, int]:
        """Units and delta units that a plan of `cost` takes, rounded up."""
        failed = delta_units_up(cost.failure) if self.kind != "basic" else 0
        if failed and not self.delta_cap_units:
            raise UnsupportedNode("a plan with a delta of its own needs a ledger with "
                                  "filter='basic', or one whose budget has a failure above 0")
        if self.kind == "gdp":
            if not math.isfinite(cost.gdp_squared):
                raise UnsupportedNode("this plan has no Gaussian-DP price; "
                                      "use a ledger with filter='rdp' or 'basic'")
            return units_up(cost.gdp_squared), failed
        if self.kind == "zcdp":
            if not isinstance(cost.rho, Fraction):
                raise UnsupportedNode("this plan has no zero-concentrated-DP price")
            return units_up(cost.rho), failed
        if self.kind == "rdp":
            bound = cost.curve.at(self.order)
            if not math.isfinite(bound):
                raise UnsupportedNode(f"this plan has no Renyi bound at order {self.order:g}")
            return units_up(bound), failed
        part = cost.pure_part if cost.failure == 0 else None
        if part is not None and part <= as_written(self.budget.epsilon):
            return units_of_fraction(part), 0
        share = delta if delta > 0 else self.budget.delta
        if part is not None and not share > 0:
            return units_of_fraction(part), 0
        if not share > 0:
            raise UnsupportedNode("this plan is not pure DP and the budget has delta 0")
        found = Fraction(epsilon_at(cost, share).epsilon)
        return units_of_fraction(found), delta_units_up(share)

    def holds(self, units: int, delta_units: int) -> float:
        """How many charges of this size a new ledger holds, with the share of another one."""
        used = (self.cap_units, units), (self.delta_cap_units, delta_units)
        return min((cap / one for cap, one in used if one), default=float(MOST_COUNT))

    def epsilon_of(self, units: int) -> float:
        """The epsilon, at the budget's delta, that a total of `units` certifies."""
        return _epsilon_of(self.kind, self.order, self.budget.rest, units)

    def left_of(self, spent: int) -> float:
        """Epsilon of the largest plan that is still granted when `spent` units are gone."""
        left = max(0, self.cap_units - spent)
        return room_down(left) if self.kind == "basic" else self.epsilon_of(left)

    def tradeoff(self, units: int, delta_units: int = 0) -> Tradeoff:
        """What a test can find out, at most, from everything that so many units paid for."""
        value = from_units(units)
        if self.kind == "basic":
            return pure_tradeoff(value, min(1.0, self.delta_of(delta_units)))
        return failing(self._currency(value), min(1.0, self.delta_of(delta_units)))

    def _currency(self, value: float) -> Tradeoff:
        if self.kind == "gdp":
            return gaussian_tradeoff(up(math.sqrt(value)) if value else 0.0)
        if self.kind == "zcdp":
            return zcdp_tradeoff(value)
        return renyi_tradeoff(RdpCurve((self.order,), (value,)))

    def delta_of(self, delta_units: int) -> float:
        """The delta that so many delta units are; rounded up."""
        exact = Fraction(delta_units, DELTA_UNIT)
        return up(float(exact)) if Fraction(float(exact)) < exact else float(exact)

    def delta_left_of(self, spent: int) -> float:
        """The delta that is still to be charged when `spent` delta units are gone; rounded down."""
        exact = Fraction(max(0, self.delta_cap_units - spent), DELTA_UNIT)
        return down(float(exact)) if Fraction(float(exact)) > exact else float(exact)


@lru_cache(maxsize=4096)
def _epsilon_of(kind: str, order: float, delta: float, units: int) -> float:
    value = from_units(units)
    if kind == "basic" or value == 0:
        return named_up(units)
    if kind == "gdp":
        return epsilon_from_mu(up(math.sqrt(value)), delta)
    if kind == "zcdp":
        return epsilon_from_zcdp(value, delta)
    return epsilon_from_rdp(RdpCurve((order,), (value,)), delta)[0]


def delta_units_up(delta: float) -> int:
    """A delta in units, never below it."""
    above, below = delta.as_integer_ratio()
    return -(-above * DELTA_UNIT // below)


def fixed_filter(kind: str, budget: Budget, order: float | None = None) -> FilterRule:
    """The filter a caller asked for by name.

    Raises:
        InvalidValue: an unknown kind, a kind that needs delta above 0, or an order that is no
            number.
    """
    return _fixed(kind, budget, None if order is None else positive("order", order))


@lru_cache(maxsize=64)
def _fixed(kind: str, budget: Budget, order: float | None) -> FilterRule:
    if kind not in KINDS:
        raise InvalidValue("filter", kind, f"auto or one of {', '.join(KINDS)}")
    if kind == "basic":
        cap = int(Fraction(budget.delta) * DELTA_UNIT // 1)
        return FilterRule("basic", 0.0, budget, units_of_budget(budget.epsilon), cap)
    if not budget.rest > 0:
        raise InvalidValue("Budget delta", budget.delta, f"above 0 for a {kind} filter")
    reserve = int(Fraction(budget.failure) * DELTA_UNIT // 1)
    if kind == "gdp":
        mu = mu_from_epsilon_delta(budget.epsilon, budget.rest)
        return FilterRule("gdp", 0.0, budget, units_down(down(mu * mu)), reserve)
    if kind == "zcdp":
        return FilterRule("zcdp", 0.0, budget, units_down(zcdp_cap(budget.epsilon, budget.rest)),
                          reserve)
    chosen = best_order(budget) if order is None else positive("order", order)
    if chosen > MOST_ORDER:
        raise InvalidValue("order", chosen, f"at most {MOST_ORDER:g}")
    cap_bound = rdp_cap(budget.epsilon, budget.rest, chosen)
    if not cap_bound > 0:
        raise InvalidValue("order", chosen, "an order at which the budget leaves something")
    return FilterRule("rdp", chosen, budget, units_down(cap_bound), reserve)


def best_order(budget: Budget, orders: Sequence[float] = DEFAULT_ORDERS) -> float:
    """The order at which most Gaussian noise-free rounds fit: the largest cap / order."""
    return max(orders, key=lambda order: rdp_cap(budget.epsilon, budget.rest, order) / order)


FOR_PURE, NEARLY = 4.0, 1.1
"""How many times as many pure plans must fit elsewhere for `basic` to be left, since large ones
fit there only; and how many more of others for a filter that books more for the first."""


def choose_filter(cost: Cost, budget: Budget) -> FilterRule:
    """`auto`: fixed by the first plan, which is chosen before anything private was seen.

    Of the filters (and orders) under which nearly most plans like this one fit, that which books
    least for it; so Gaussian noise takes the exact one. `basic` is for pure plans, as long as not
    many times as many fit elsewhere; for one that fits as a whole only, by its distribution; and
    for what no other has a price of: a delta of its own, where the budget keeps none apart.
    """
    if budget.delta == 0:
        return fixed_filter("basic", budget)
    if cost.mu_squared is not None:
        return fixed_filter("gdp", budget)
    pure = cost.pure_part is not None and cost.pure_part <= as_written(budget.epsilon)
    rules = [fixed_filter("rdp", budget, order) for order in cost.curve.orders
             if rdp_cap(budget.epsilon, budget.rest, order) > 0]
    rules += [fixed_filter(kind, budget) for kind in ("gdp", "zcdp", *["basic"] * pure)]
    fitting = [(_fitting(cost, rule), rule) for rule in rules]
    most = math.floor(max(fits for fits, _ in fitting))
    near = [rule for fits, rule in fitting if fits > 0 and most <= math.floor(
        fits * (FOR_PURE if rule.kind == "basic" else NEARLY))]
    if not near or (most == 0 and _fits_as_a_whole(cost, budget)):
        return fixed_filter("basic", budget)
    return min(near, key=lambda rule: rule.epsilon_of(rule.price(cost, cost.failure)[0])
               * (1 if rule.kind == "basic" else 1.01))


def _fitting(cost: Cost, rule: FilterRule) -> float:
    try:
        return rule.holds(*rule.price(cost, cost.failure))
    except (InvalidValue, UnsupportedNode):
        return 0.0


def _fits_as_a_whole(cost: Cost, budget: Budget) -> bool:
    try:
        return epsilon_at(cost, budget.delta).epsilon <= budget.epsilon
    except (InvalidValue, UnsupportedNode):
        return False


# Caps beside the ledger's own: per table, per person or team, per period.
#
# A cap is a budget for the grants that match it. A request is granted only if it fits the ledger
# and every cap that it matches, all or nothing. Caps add up in the ledger's own filter.
#
# A cap on a table is a guarantee for the records of that table: releases from other tables do not
# depend on them, so only the grants that the cap counts cost them anything. A cap on labels bounds
# what those grants add to whatever else is known; it is a way to share a budget out.
#
# A window is a period with a public name. The owner opens one by an entry of the history; a
# charge belongs to the window that was open when it was reserved. No clock decides: one that
# jumps, or that is set by hand, would free budget. Nothing is given back when a window ends.

_FEW = 20  # caps that are looked at one by one
_LONGEST = 200


def plain_labels(value: object) -> tuple[tuple[str, str], ...]:
    """Labels as sorted pairs of text.

    Raises:
        InvalidValue: not a mapping of short text to short text.
    """
    items = value.items() if isinstance(value, Mapping) else value
    try:
        pairs = tuple(sorted((key, text) for key, text in items))  # type: ignore[attr-defined]
    except (TypeError, ValueError, AttributeError):
        raise InvalidValue("labels", type(value).__name__, "a mapping of text to text") from None
    for key, text in pairs:
        if not (isinstance(key, str) and isinstance(text, str) and key
                and len(key) <= _LONGEST and len(text) <= _LONGEST):
            raise InvalidValue("labels", "an entry", "short text under a short name")
    return pairs


def window_name(value: object) -> str:
    """A public name of a period, such as "2026-Q4".

    Raises:
        InvalidValue: not a short printable text.
    """
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST or (
            not value.isprintable()):
        raise InvalidValue("window", type(value).__name__, "a short printable text")
    return value


class Requested(Protocol):
    """What a cap looks at: a grant's table and its labels."""

    @property
    def data(self) -> str:
        """Name of the table that the plan is about."""
    @property
    def labels(self) -> Mapping[str, str]:
        """The owner's labels on the request, by name."""


@frozen
class Cap:
    """A budget for some of the grants.

    Attributes:
        budget: the promise for what these grants release.
        data: name of the table they are for; None for any.
        labels: what they were requested with, such as {"team": "a", "quarter": "2026-4"};
            a grant matches if it carries all of them. Empty for any.
        window: name of the one window it is for; None for any.
        per_window: every window has this budget anew. What matches is refused until the first
            window is open.
    """

    budget: Budget
    data: str | None = None
    labels: tuple[tuple[str, str], ...] = field(default=(), converter=plain_labels)
    window: str | None = None
    per_window: bool = False

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.budget, Budget):
            raise InvalidValue("Cap budget", type(self.budget).__name__, "a Budget")
        if self.data is not None and not (isinstance(self.data, str) and self.data):
            raise InvalidValue("Cap data", type(self.data).__name__, "the name of a table")
        if self.window is not None:
            window_name(self.window)
        if not isinstance(self.per_window, bool) or (self.per_window and self.window is not None):
            raise InvalidValue("Cap per_window", self.per_window,
                               "true or false, and false with one window named")
        if (self.data is None and not self.labels and self.window is None
                and not self.per_window):
            raise InvalidValue("Cap", "no condition", "for a table, for labels, or for windows")

    def matches(self, window: str | None, request: Requested | None) -> bool:
        """Whether what is charged in a window falls under the cap.

        Args:
            request: a grant; None for a scope, which may serve any table and any request later,
                so it falls under every cap of the window it is paid in.
        """
        if self.window is not None and window != self.window:
            return False
        return request is None or ((self.data is None or request.data == self.data) and all(
            request.labels.get(key) == text for key, text in self.labels))

    def rule(self, ledger: FilterRule) -> FilterRule:
        """The cap in the ledger's own filter; nothing fits if that filter cannot promise it."""
        return _cap_rule(self, ledger)

    @property
    def title(self) -> str:
        """For messages."""
        parts = [] if self.data is None else [f"data {self.data}"]
        parts += [f"{key} {text}" for key, text in self.labels]
        parts += [] if self.window is None else [f"window {self.window}"]
        parts += ["each window"] if self.per_window else []
        return "the cap for " + ", ".join(parts)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: budget, and what the cap is for; `from_dict` reads it."""
        return {**self.budget.as_dict(), "data": self.data, "labels": dict(self.labels),
                "window": self.window, "per_window": self.per_window}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Cap:
        """The cap that `as_dict` wrote; files of version 2 know no windows."""
        budget = Budget(value["epsilon"], value["delta"], value.get("failure", 0.0))
        return cls(budget, value["data"], value["labels"],
                   value.get("window"), value.get("per_window", False))


_filed: dict[int, tuple[tuple[Cap, ...], dict[tuple[str, str] | str | None, list[int]]]] = {}


def matching_caps(caps: tuple[Cap, ...], window: str | None,
                  request: Requested | None) -> Iterable[int]:
    """Places of the caps that match, rising: of a grant, without a look at most others."""
    if request is None or len(caps) < _FEW:
        candidates: Iterable[int] = range(len(caps))
    else:
        found = _filed.get(id(caps))
        if found is None or found[0] is not caps:
            by: dict[tuple[str, str] | str | None, list[int]] = {}
            for place, cap in enumerate(caps):  # each where a request that matches has to look
                by.setdefault(cap.labels[0] if cap.labels else cap.data, []).append(place)
            if len(_filed) >= _FEW:
                _filed.clear()
            found = _filed[id(caps)] = caps, by
        candidates = sorted(place for key in (None, request.data, *request.labels.items())
                            for place in found[1].get(key, ()))
    return [place for place in candidates if caps[place].matches(window, request)]


@lru_cache(maxsize=256)
def _cap_rule(cap: Cap, ledger: FilterRule) -> FilterRule:
    if ledger.kind != "basic" and not cap.budget.rest > 0:
        return FilterRule(ledger.kind, ledger.order, cap.budget, 0)
    if ledger.kind == "rdp":
        if not rdp_cap(cap.budget.epsilon, cap.budget.rest, ledger.order) > 0:
            return FilterRule("rdp", ledger.order, cap.budget, 0)
        return fixed_filter("rdp", cap.budget, ledger.order)
    return fixed_filter(ledger.kind, cap.budget)
