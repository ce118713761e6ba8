"""What the fifteen findings share: a row of the table, small guarded tables, exact laws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.polynomial import Polynomial

import privledger as pl
from tests.worlds import schema_of

NUMBERS = schema_of("numbers", {"x": (0.0, 1.0), "z": (0.0, 1.0)}, y=(-1.0, 1.0))
CLASSES = schema_of("classes", {"x": (0.0, 1.0), "z": (0.0, 1.0)}, y=["n", "p"])
N = 20
STRICT = pl.Policy(max_epsilon=1e9, max_delta=1e-5)
"""Nobody may vouch for a cost or a sensitivity."""


@frozen
class Row:
    """One finding: the printed step on its counterexample.

    Attributes:
        claimed: epsilon as printed, at `delta`.
        realised: privacy loss that two neighbouring tables really suffer; infinity for none.
        ledger: what happened when it was tried through the public API.
        repair: the cheapest sound step; `cost` is its epsilon at `delta`.
        shortfall: delta that is missing at the claimed epsilon, where the loss is infinite.
    """

    name: str
    step: str
    where: str
    claimed: float
    realised: float
    ledger: str
    repair: str
    cost: float
    delta: float = 0.0
    shortfall: float = field(default=0.0)

    def cells(self) -> tuple[str, ...]:
        """The row as docs/claimed-versus-sound.md has it."""
        realised = figure(self.realised)
        if self.shortfall:
            realised += f" (delta {figure(self.shortfall)})"
        return (self.name, self.step, self.where, figure(self.claimed), realised, self.ledger,
                self.repair, figure(self.cost))


def figure(value: float) -> str:
    """Four digits, or the word."""
    return "infinite" if math.isinf(value) else f"{value:.4g}"


def guarded(schema: pl.Schema = NUMBERS, epsilon: float = 1e6, delta: float = 1e-5,
            **options: Any) -> tuple[pl.Ledger, pl.Dataset]:
    """Twenty records behind a fresh ledger in memory."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(epsilon, delta), **options)
    place = np.arange(N)
    numeric = schema.target.kind == "numeric"
    y: Any = np.linspace(-1, 1, N) if numeric else np.array(["n", "p"])[place % 2]
    features = {"public_features": True} if ledger.relation == "replace_label" else {}
    return ledger, ledger.protect({"x": place / N, "z": place[::-1] / N}, y, schema, **features)


def refused(attempt: Callable[[], object], kind: type[Exception], data: pl.Dataset,
            ledger: pl.Ledger) -> str:
    """`attempt` must fail with exactly `kind`, read nothing and leave the ledger's total alone."""
    opened, spent = data._vault.opened, ledger.spent
    try:
        attempt()
    except kind as error:
        assert type(error) is kind, error
        assert (data._vault.opened, ledger.spent) == (opened, spent)
        return f"refused: `{kind.__name__}`"
    raise AssertionError("the unsound step was let through")


def charged(plan: Any, schema: pl.Schema = NUMBERS, delta: float = 0.0, **options: Any) -> float:
    """What a fresh ledger takes for `plan`, at the ledger's delta."""
    ledger, data = guarded(schema, delta=delta, **options)
    ledger.request(plan, data).close()
    return ledger.spent


def over_budget(plan: Any, epsilon: float, delta: float = 0.0, **options: Any) -> str:
    """A ledger of the claimed budget refuses the whole plan."""
    ledger, data = guarded(epsilon=epsilon, delta=delta, **options)
    return refused(lambda: ledger.request(plan, data), pl.BudgetExceeded, data, ledger)


def first_of_exponentials(utilities: Sequence[float]) -> np.ndarray:
    """Who is largest after exponential noise of rate 1 on each utility; exact.

    The same law as permute-and-flip. With the best at 0 and y = exp(-value), candidate i wins
    with probability a_i times the integral of the others' (1 - a_j y) over [0, 1].
    """
    accept = np.exp(np.asarray(utilities, dtype=float) - max(utilities))
    found = []
    for place, own in enumerate(accept):
        others = Polynomial([1.0])
        for rest in np.delete(accept, place):
            others *= Polynomial([1.0, -rest])
        found.append(own * others.integ()(1.0))
    return np.array(found)


def worst_loss(first: Sequence[float], second: Sequence[float]) -> float:
    """Largest log-ratio of two laws on the same outcomes, in either direction."""
    return float(np.abs(np.log(np.asarray(first) / np.asarray(second))).max())
