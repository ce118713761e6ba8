"""What a node costs in every currency at once, and how costs combine.

A cost holds a pure epsilon, a Gaussian-DP bound, a Renyi curve and privacy losses side by side.
Each currency composes by its own theorem, and only `epsilon_at` and `delta_at` turn one into a
guarantee.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Literal, TypeVar

import numpy as np
from attrs import Factory, evolve, field, frozen

from privledger.accounting.curve import DEFAULT_ORDERS, RdpCurve, check_aligned, sum_curves
from privledger.accounting.deadline import check_time
from privledger.accounting.gaussian import mu_from_pure
from privledger.accounting.pld import (
    NOTHING,
    Losses,
    choices,
    choices_squared,
    dearest,
    moved,
    together,
)
from privledger.errors import InvalidCurve, InvalidValue, RelationMismatch
from privledger.rounding import add_up, multiply_up, non_negative, part_up, sum_fractions, up
from privledger.rounding import count as whole_number

# Neighbouring relations: which pairs of tables a guarantee speaks about.

Relation = Literal["add_remove", "replace_one", "replace_label"]
"""`add_remove`: one table has one record more. `replace_one`: one record differs.
`replace_label`: one record's label differs; features and the number of rows are public."""

RELATIONS: tuple[Relation, ...] = ("add_remove", "replace_one", "replace_label")

LABELS_ONLY = ("LABELS ONLY: features and the number of rows are public; nothing is promised "
               "about whole records")


UNITS = ("row", "person")
"""Whom a promise can be about."""

WHO = {"row": "one row", "person": "one person, with all rows in all tables"}
"""The same in words."""


def check_unit(value: object) -> str:
    """Return `value` as a unit.

    Raises:
        InvalidValue: it is not one of `UNITS`.
    """
    if isinstance(value, str) and value in UNITS:
        return str(value)
    raise InvalidValue("unit", value, "one of " + ", ".join(UNITS))


def promise(relation: str, unit: str = "row") -> str:
    """The relation as reports print it: a promise about labels is never shown without the words.

    One row of data is what a promise is about that says nothing else.

    >>> promise("replace_one")
    'replace_one'
    >>> promise("add_remove", "person")
    'add_remove of one person, with all rows in all tables'
    """
    said = relation if unit == "row" else f"{relation} of {WHO.get(unit, 'an unknown unit')}"
    return f"{said}, {LABELS_ONLY}" if relation == "replace_label" else said


def check_relation(value: object) -> Relation:
    """Return `value` as a relation.

    Raises:
        InvalidValue: it is not one of `RELATIONS`.

    >>> check_relation("add_remove")
    'add_remove'
    """
    for relation in RELATIONS:
        if isinstance(value, str) and value == relation:
            return relation
    raise InvalidValue("relation", value, "one of " + ", ".join(RELATIONS))


def _or_infinite(name: str, value: object) -> float:
    if type(value) is float and value == math.inf:
        return value
    return non_negative(name, value)


def _gdp_of(cost: Cost) -> float:
    """The squared mu that follows from the other fields."""
    if cost.mu_squared is not None:
        return cost.mu_squared
    pure = _or_infinite("pure", cost.pure)
    return math.inf if pure == math.inf else _squared(mu_from_pure(pure))


def _zcdp_of(cost: Cost) -> float:
    """Gaussian DP mu^2/2, or pure epsilon tanh(epsilon/2) [docs/proofs/filters.md]."""
    squared, pure = _or_infinite("gdp_squared", cost.gdp_squared), _or_infinite("pure", cost.pure)
    known = [up(0.5 * squared) if squared else 0.0]
    if pure < math.inf:
        known.append(up(pure * math.tanh(0.5 * pure) * (1 + 1e-15)))
    return 0.0 if pure == 0 else min(known)


def _fraction(rho: Fraction | float) -> Fraction | float:
    if not isinstance(rho, Fraction) and _or_infinite("zcdp", rho) < math.inf:
        return Fraction(rho)
    if not rho >= 0:
        raise InvalidValue("zcdp", "given", "zero or a number above it")
    return rho


def _squared(mu: float) -> float:
    return multiply_up(mu, mu)


LazyCurve = Callable[[], RdpCurve]
LazyRho = Callable[[], Fraction | float]


@frozen
class Cost:
    """The cost of a node, stated for one neighbouring relation.

    Attributes:
        relation: which pairs of tables it speaks about.
        pure: pure epsilon in nats; infinity if there is none.
        mu_squared: squared Gaussian-DP parameter, exact, if everything inside is an unsampled
            Gaussian; None otherwise.
        curve: Renyi bounds in nats. May be given as a function that is called when needed.
        gdp_squared: squared Gaussian-DP parameter that is proved, infinity if none. Adds up
            under sequential composition. Found from the other fields if left out. May be given
            as a function that is called when needed.
        losses: dominating pairs; None if there are none for some part.
        no_losses: why there are none, for a reader.
        failure: probability with which nothing is promised; `pure`, `gdp_squared` and `curve`
            hold outside of it, `losses` include it.
        rho: zero-concentrated-DP parameter that is proved, as a fraction; infinity if none. Adds
            up. Given as `zcdp`, which reads back rounded up; or as a function.
        part: pure epsilon before it was rounded up to `pure`, where that is known.
        pure_part: pure epsilon as a fraction, never below what is proved; None if there is none.

    Raises:
        InvalidValue: a field is negative, NaN, subnormal or not a number.
    """

    relation: Relation
    pure: float
    mu_squared: float | None
    _curve: RdpCurve | LazyCurve = field(alias="curve", repr=False)
    _gdp_squared: float | Callable[[], float] = field(
        default=Factory(_gdp_of, takes_self=True), alias="gdp_squared")
    losses: Losses | None = field(default=None, eq=False, repr=False)
    no_losses: str = field(default="no dominating pair was given", eq=False, repr=False)
    failure: float = 0.0
    _rho: Fraction | float | LazyRho = field(
        default=Factory(_zcdp_of, takes_self=True), alias="zcdp")
    part: Fraction | None = None
    pure_part: Fraction | None = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        check_relation(self.relation)
        _or_infinite("pure", self.pure)
        if self.mu_squared is not None:
            non_negative("mu_squared", self.mu_squared)
        if not callable(self._gdp_squared):
            _or_infinite("gdp_squared", self._gdp_squared)
        non_negative("failure", self.failure)
        if not callable(self._rho):
            object.__setattr__(self, "_rho", _fraction(self._rho))
        if self.part is not None and not (self.part >= 0 and part_up(self.part) == self.pure):
            raise InvalidValue("part", "given", "what pure is rounded up from")
        if not isinstance(self._curve, RdpCurve) and not callable(self._curve):
            raise InvalidCurve("curve", self._curve, "an RdpCurve")
        object.__setattr__(self, "pure_part", self.part if (
            self.part is not None or self.pure == math.inf) else Fraction(self.pure))

    @classmethod
    def zero(cls, relation: Relation, orders: tuple[float, ...] = DEFAULT_ORDERS) -> Cost:
        """The cost of a release that depends on no record."""
        return cls(relation, 0.0, 0.0, RdpCurve.zero(orders), 0.0, NOTHING)

    @property
    def gdp_squared(self) -> float:
        """The squared Gaussian-DP parameter; computed at the first question."""
        if callable(self._gdp_squared):
            check_time()
            object.__setattr__(self, "_gdp_squared",
                               _or_infinite("gdp_squared", self._gdp_squared()))
        assert not callable(self._gdp_squared)
        return self._gdp_squared

    @property
    def rho(self) -> Fraction | float:
        """The zero-concentrated-DP parameter, a fraction; computed at the first question."""
        if callable(self._rho):
            check_time()
            object.__setattr__(self, "_rho", _fraction(self._rho()))
        assert not callable(self._rho)
        return self._rho

    @property
    def zcdp(self) -> float:
        """Rho, rounded up to a float; infinity if none is proved."""
        return part_up(self.rho) if isinstance(self.rho, Fraction) else self.rho

    @property
    def curve(self) -> RdpCurve:
        """Renyi bounds in nats; computed at the first question."""
        if not isinstance(self._curve, RdpCurve):
            check_time()
            object.__setattr__(self, "_curve", self._curve())
        assert isinstance(self._curve, RdpCurve)
        return self._curve

    @property
    def curve_is_known(self) -> bool:
        """Whether the Renyi bounds were computed already: reading them then costs nothing."""
        return isinstance(self._curve, RdpCurve)

    def gdp(self) -> float:
        """The smallest squared mu that is proved; infinity if none is."""
        known = [self.gdp_squared]
        if self.mu_squared is not None:
            known.append(self.mu_squared)
        if self.pure < math.inf:
            known.append(_squared(mu_from_pure(self.pure)))
        return min(known)


def _same_relation(costs: Sequence[Cost]) -> Relation:
    if not costs:
        raise InvalidValue("costs", (), "at least one cost")
    relation = costs[0].relation
    for cost in costs:
        if cost.relation != relation:
            raise RelationMismatch(f"a {cost.relation} cost cannot be added to {relation} ones")
    return relation


def _exact(
    costs: Sequence[Cost], combine: Callable[[list[float]], float]
) -> float | None:
    """Gaussian only if every part is."""
    squares = [cost.mu_squared for cost in costs if cost.mu_squared is not None]
    return combine(squares) if len(squares) == len(costs) else None


def sequential(costs: Sequence[Cost]) -> Cost:
    """All of them on the same records; later ones may depend on earlier outputs.

    Raises:
        RelationMismatch: they are stated for different relations.
        InvalidValue: there is none.

    References:
        Mironov 2017 (arXiv:1702.07476v3), Proposition 1; Dong, Roth, Su 2019
        (arXiv:1905.02383v3), Theorem 3.2.
    """
    costs = tuple(costs)
    relation = _same_relation(costs)
    if len(costs) == 1:
        return costs[0]
    part = _parts(costs, sum_fractions)
    return Cost(
        relation,
        math.inf if part is None else part_up(part),
        _exact(costs, add_up),
        _later(costs, lambda: sum_curves(cost.curve for cost in costs)),
        _squares([(cost, 1) for cost in costs]),
        *_losses(costs, lambda known: together([(part, 1) for part in known])),
        any_fails((cost.failure, 1) for cost in costs),
        _put_off(costs, "_rho", lambda: _rho_of(costs, sum_fractions)),
        part,
    )


_EXACTLY = 256  # coins whose chances are multiplied as fractions


def any_fails(failures: Iterable[tuple[float, int]]) -> float:
    """1 - product of (1 - failure)^times, rounded up: coins of their own, of which none may tell
    (docs/proofs/composition.md)."""
    known = [(failure, times) for failure, times in failures if failure]
    if not known or (len(known) == 1 and known[0][1] == 1):
        return known[0][0] if known else 0.0
    if any(failure >= 1 for failure, _ in known):
        return 1.0
    if sum(times for _, times in known) <= _EXACTLY:
        kept = math.prod(((1 - Fraction(failure)) ** times for failure, times in known),
                         start=Fraction(1))
        return part_up(1 - kept)
    logs = add_up(multiply_up(up(-math.log1p(-failure) * (1 + 4e-16)), up(float(times)))
                  for failure, times in known)
    summed = add_up(multiply_up(failure, up(float(times))) for failure, times in known)
    return min(1.0, summed, up(-math.expm1(-logs) * (1 + 4e-16)))


def _squares(costs: Sequence[tuple[Cost, int]]) -> float | Callable[[], float]:
    """Squared mu add up; those of choices of one range are less together."""
    ranges, rest = list[tuple[float, int]](), list[tuple[Cost, int]]()
    for cost, count in costs:
        known = None if cost.losses is None else choices(cost.losses)
        if known is None:
            rest.append((cost, count))
        else:
            ranges.append((known[0], known[1] * count))

    def added(parts: Sequence[tuple[Cost, int]]) -> float:
        found = [one.gdp_squared if count == 1 else multiply_up(
            one.gdp_squared, up(float(count))) for one, count in parts]
        return found[0] if len(found) == 1 else add_up(found)

    if not ranges:
        return _put_off([one for one, _ in costs], "_gdp_squared", lambda: added(costs))
    return lambda: min(added(costs), add_up([added(rest), choices_squared(ranges)]))


def _parts(
    costs: Sequence[Cost], combine: Callable[[list[Fraction]], Fraction],
) -> Fraction | None:
    """Pure only if every part is."""
    parts = [part for cost in costs if (part := cost.pure_part) is not None]
    return combine(parts) if len(parts) == len(costs) else None


def _rho_of(
    costs: Sequence[Cost], combine: Callable[[list[Fraction]], Fraction],
) -> Fraction | float:
    """Concentrated only if every part is."""
    parts = [cost.rho for cost in costs if isinstance(cost.rho, Fraction)]
    return combine(parts) if len(parts) == len(costs) else math.inf


def _later(costs: Sequence[Cost], curve: LazyCurve) -> RdpCurve | LazyCurve:
    """Put off what may not be needed, but do not pile up what is cheap."""
    return curve() if all(cost.curve_is_known for cost in costs) else curve


Number = TypeVar("Number", bound=Fraction | float)


def _put_off(
    costs: Sequence[Cost], name: str, value: Callable[[], Number],
) -> Number | Callable[[], Number]:
    """The same for a number that some cost holds as a function."""
    return value if any(callable(getattr(cost, name)) for cost in costs) else value()


def _losses(
    costs: Sequence[Cost], combine: Callable[[list[Losses]], Losses]
) -> tuple[Losses | None, str]:
    known = [cost.losses for cost in costs if cost.losses is not None]
    if len(known) == len(costs):
        return combine(known), ""
    return None, next(cost.no_losses for cost in costs if cost.losses is None)


def repeat(cost: Cost, count: int) -> Cost:
    """The same node `count` times in sequence; 0 times costs nothing.

    Raises:
        InvalidValue: `count` is not a whole number of at least 0.
    """
    repeats = whole_number("count", count, least=0)
    if repeats == 0:
        return Cost.zero(cost.relation, cost.curve.orders)
    if repeats == 1:
        return cost
    squared, part = cost.mu_squared, cost.pure_part
    part = None if part is None else part * repeats
    return evolve(
        cost,
        pure=math.inf if part is None else part_up(part),
        part=part,
        mu_squared=None if squared is None else multiply_up(squared, up(float(repeats))),
        curve=_later((cost,), lambda: cost.curve.times(repeats)),
        gdp_squared=_squares([(cost, repeats)]),
        losses=None if cost.losses is None else together([(cost.losses, repeats)]),
        failure=any_fails([(cost.failure, repeats)]),
        zcdp=_put_off((cost,), "_rho",
                      lambda: _rho_of([cost], lambda parts: parts[0] * repeats)),
    )


def maximum(costs: Sequence[Cost]) -> Cost:
    """The most expensive of them in every currency.

    This is parallel composition under add-or-remove-one, if each record belongs to one part
    whatever the other records are: only that part's releases change.

    Raises:
        RelationMismatch: they are stated for different relations.
        InvalidValue: there is none.
    """
    costs = tuple(costs)
    relation = _same_relation(costs)
    distinct = list({id(cost): cost for cost in costs}.values())
    if len(distinct) == 1:
        return distinct[0]

    def curve() -> RdpCurve:
        orders = check_aligned(*(cost.curve for cost in distinct))
        bounds = np.maximum.reduce([cost.curve.as_array() for cost in distinct])
        return RdpCurve.from_array(orders, bounds)

    return Cost(
        relation,
        max(cost.pure for cost in costs),
        _exact(costs, max),
        _later(distinct, curve),
        _put_off(costs, "_gdp_squared", lambda: max(cost.gdp_squared for cost in costs)),
        *_losses(distinct, dearest),
        max(cost.failure for cost in costs),
        _put_off(costs, "_rho", lambda: _rho_of(costs, max)),
        _parts(costs, max),
    )


def pairwise_parallel(
    replace_costs: Sequence[Cost], add_remove_costs: Sequence[Cost]
) -> Cost:
    """Parallel parts under replace-one.

    The new record stays in its part j (cost `replace_costs[j]`), or leaves part i and enters
    another part j (the sum of the two add-or-remove costs).

    Args:
        replace_costs: one for each part, for replace-one.
        add_remove_costs: for the same parts in the same order, for add-or-remove-one.

    Returns:
        A cost for replace-one.

    Raises:
        RelationMismatch: a sequence is stated for another relation.
        InvalidValue: the sequences differ in length or are empty.
    """
    stay, move = tuple(replace_costs), tuple(add_remove_costs)
    if len(stay) != len(move):
        raise InvalidValue("add_remove_costs", len(move), f"{len(stay)} costs, one per part")
    if _same_relation(stay) != "replace_one" or _same_relation(move) != "add_remove":
        raise RelationMismatch("parts need a replace_one and an add_remove cost each")
    staying = maximum(stay)
    if len(move) == 1:
        return staying
    check_aligned(*(cost.curve for cost in (*stay, *move)))
    stacked = np.array([cost.curve.as_array() for cost in move])
    dearest = np.partition(stacked, len(move) - 2, axis=0)[-2:]
    orders = staying.curve.orders
    first, second = (RdpCurve.from_array(orders, row) for row in dearest)
    exact = _exact(move, _two_largest)
    squared, stays = staying.mu_squared, staying.pure_part
    moves = _parts(move, _two_largest_of)
    part = None if stays is None or moves is None else max(stays, moves)
    return Cost(
        "replace_one",
        math.inf if part is None else part_up(part),
        None if squared is None or exact is None else max(squared, exact),
        staying.curve.maximum(first + second),
        _put_off([*stay, *move], "_gdp_squared", lambda: max(
            staying.gdp_squared, _two_largest([cost.gdp_squared for cost in move]))),
        *_losses([*stay, *move], lambda known: moved(known[: len(stay)], known[len(stay):])),
        max(staying.failure, _two_largest([cost.failure for cost in move])),
        _put_off([*stay, *move], "_rho",
                 lambda: max(_rho_of(stay, max), _rho_of(move, _two_largest_of))),
        part,
    )


def _two_largest_of(parts: list[Fraction]) -> Fraction:
    return sum_fractions(sorted(parts)[-2:])


def _two_largest(values: list[float]) -> float:
    return add_up(sorted(values)[-2:])
