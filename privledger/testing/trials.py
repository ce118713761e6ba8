"""Runs of a whole learner: fresh noise in every fit, and no more told than epsilon says."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.data import Schema
from privledger.testing.distinguishing import Evidence, distinguish, runs_needed
from privledger.testing.examples import (
    Example,
    examples_for,
    extremes,
    same_records,
    worst_pair,
)
from privledger.testing.failing import fail
from privledger.testing.fitting import (
    delta_of,
    fitted_on,
    fresh,
    ledger_for,
    outputs,
    protect,
    relation_of,
)
from privledger.testing.structure import table_probes

EPSILON, FRESH = "epsilon-holds", "fresh-noise"
FITS, QUICK_EPSILON, FALSE_ALARM = 2000, 1.0, 1e-6
Pair = tuple[Example, Example]


@frozen
class Trial:
    """Fits of a learner on two neighbouring tables, and what they prove.

    Attributes:
        claimed: the learner's own epsilon. fits: per table.
    """

    claimed: float
    fits: int
    relation: str
    evidence: Evidence

    @property
    def holds(self) -> bool:
        """Whether nothing was proved against the claim. Not a proof of it."""
        return not self.evidence.epsilon_low > self.claimed


def blank_example(schema: Schema, rows: int = 16) -> Example:
    """Equal records at the middle of the public bounds, targets in turn: for any schema."""
    X: dict[str, NDArray[Any]] = {}
    for column in schema.features:
        value = ((column.lower + column.upper) / 2 if column.kind == "numeric"
                 else column.categories[0])
        X[column.name] = np.array([value] * rows)
    low, high = extremes(schema)
    return Example(schema, X, np.array([low, high] * (rows // 2)))


def _probes(table: Example) -> dict[str, Any]:
    """The first record of the table, and a grid of the schema. Chosen by the kit, so public."""
    grid = table_probes(table)
    return {name: np.concatenate([np.asarray(table.X[name][:1], dtype=grid[name].dtype), column])
            for name, column in grid.items()}


def outputs_on(learner: Any, table: Example, probes: Any, fits: int) -> NDArray[np.float64]:
    """Outputs of so many private fits on one table, shape (fits, k)."""
    return np.stack([outputs(fitted_on(fresh(learner), protect(ledger_for(learner), table)),
                             probes) for _ in range(fits)])


def empirical_epsilon(learner: Any, example: Example | None = None, *, pair: Pair | None = None,
                      fits: int = FITS, false_alarm: float = FALSE_ALARM) -> Trial:
    """Fit on both of two neighbouring tables `fits` times, and bound epsilon from below.

    Args:
        example: whose records the pair is made of. pair: neighbouring tables of your own, where
            you know a worse case than equal records with and without one more.

    Returns:
        A `Trial`. Its bound is wrong with probability at most `false_alarm`.
    """
    relation = relation_of(learner)
    if pair is None:
        pair = worst_pair(examples_for(learner, example)[0], relation)
    probes = _probes(pair[0])
    first, second = (outputs_on(learner, table, probes, fits) for table in pair)
    return Trial(float(learner.epsilon), fits, relation,
                 distinguish(first, second, delta=delta_of(learner), false_alarm=false_alarm))


def check_epsilon_holds(learner: Any, example: Example | None = None, *, pair: Pair | None = None,
                        fits: int | None = None) -> None:
    """Outputs on neighbouring tables prove no more than epsilon; false alarm 1e-6.

    Args:
        fits: per table; None for a quick look with epsilon lowered to 1, which sees whole
            leaks and little less.
    """
    if fits is None:
        learner = fresh(learner, epsilon=min(float(learner.epsilon), QUICK_EPSILON))
        fits = runs_needed(1.2 * float(learner.epsilon))
        fits = min(fits, runs_needed(1.2 * QUICK_EPSILON))
    trial = empirical_epsilon(learner, example, pair=pair, fits=fits)
    if not trial.holds:
        found = trial.evidence
        fail(EPSILON, f"epsilon {trial.claimed:g} is claimed, and at least {found.epsilon_low:.4g} "
                      f"is proved at delta {found.delta:g}: {found.event} in {found.hits[0]} of "
                      f"{found.runs[0]} fits against {found.hits[1]} of {found.runs[1]}")


def check_fresh_noise(learner: Any, example: Example | None = None) -> None:
    """Private fits with one `random_state` differ, unless the outputs ignore the records.

    Outputs may be few (a selector's), so equal ones prove little: a false alarm needs many equal
    fits on a single record, and as many equal, other ones on its opposite. Its probability is
    at most 1e-6, with epsilon lowered to 1.
    """
    learner = fresh(learner, epsilon=min(float(learner.epsilon), QUICK_EPSILON), random_state=7)
    given = examples_for(learner, example)[0]
    low, high = extremes(given.schema)
    tables = same_records(given, 1, low), same_records(given, 1, high)
    probes = _probes(given)
    # Replacing the record is two steps under add-or-remove-one. If every fit gives a with
    # probability p on one table, the other gives it with e^(-steps epsilon) p or more.
    steps = 2.0 if relation_of(learner) == "add_remove" else 1.0
    same = math.log(FALSE_ALARM) / math.log1p(-math.exp(-steps * float(learner.epsilon)))
    usual = []
    for table in tables:
        first = outputs_on(learner, table, probes, 1)
        for _ in range(math.ceil(same)):
            if not np.array_equal(outputs_on(learner, table, probes, 1), first):
                return
        usual.append(first)
    if not np.array_equal(usual[0], usual[1]):
        fail(FRESH, "fits with the same random_state are equal, and depend on the records: the "
                    "noise is not fresh")
