"""Runs of a whole learner: fresh noise in every fit, and no more told than epsilon says."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.facts.schema import Schema
from privledger.rounding import downward, exact, upward
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
    Way,
    delta_of,
    fresh,
    outputs,
    relation_of,
    ways,
)
from privledger.testing.structure import table_probes

EPSILON, FRESH = "epsilon-holds", "fresh-noise"
FITS, QUICK_EPSILON, FALSE_ALARM, QUICK_SECONDS = 2000, 1.0, 1e-6, 0.75
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


def outputs_on(learner: Any, table: Example, probes: Any, fits: int,
               way: Way | None = None) -> NDArray[np.float64]:
    """Outputs of so many private fits on one table, shape (fits, k)."""
    way = ways(learner)[0] if way is None else way
    return np.stack([outputs(way.fit(table), probes) for _ in range(fits)])


def empirical_epsilon(learner: Any, example: Example | None = None, *, pair: Pair | None = None,
                      fits: int = FITS, false_alarm: float = FALSE_ALARM,
                      way: Way | None = None) -> Trial:
    """Fit on both of two neighbouring tables `fits` times, and bound epsilon from below.

    Args:
        example: whose records the pair is made of. pair: neighbouring tables of your own, where
            you know a worse case than equal records with and without one more.
        way: how the learner gets its tables; None for behind a ledger.

    Returns:
        A `Trial`. Its bound is wrong with probability at most `false_alarm`.
    """
    relation = relation_of(learner)
    if pair is None:
        pair = worst_pair(examples_for(learner, example)[0], relation)
    probes = _probes(pair[0])
    first, second = (outputs_on(learner, table, probes, fits, way) for table in pair)
    return Trial(float(learner.epsilon), fits, relation,
                 distinguish(first, second, delta=delta_of(learner), false_alarm=false_alarm))


def check_epsilon_holds(learner: Any, example: Example | None = None, *, pair: Pair | None = None,
                        fits: int | None = None) -> None:
    """Outputs on neighbouring tables prove no more than epsilon; false alarm 1e-6.

    Args:
        fits: per table; None for a quick look with epsilon lowered to 1, which sees whole
            leaks and little less, and looks at plain tables only where guarded fits took less
            than a second: there `answers-alone-decide` says it of every learner, exactly.
    """
    quick = fits is None
    miss = FALSE_ALARM / len(ways(learner))
    if fits is None:
        learner = fresh(learner, epsilon=min(float(learner.epsilon), QUICK_EPSILON))
        fits = runs_needed(1.2 * float(learner.epsilon), miss)
        fits = min(fits, runs_needed(1.2 * QUICK_EPSILON, miss))
    every, start = ways(learner), time.process_time()
    for way in every:
        if way.plain and quick and time.process_time() - start > QUICK_SECONDS:
            return
        trial = empirical_epsilon(learner, example, pair=pair, fits=fits, way=way,
                                  false_alarm=miss)
        if not trial.holds:
            found = trial.evidence
            fail(EPSILON, f"{way.name}, epsilon {upward(trial.claimed, 4)} is claimed, and at "
                          f"least {downward(found.epsilon_low, 4)} is proved at delta "
                          f"{exact(found.delta)}: {found.event} in {found.hits[0]} of "
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
    for way in ways(learner):
        usual = [_always(learner, table, probes, math.ceil(same), way) for table in tables]
        if all(one is not None for one in usual) and not np.array_equal(*usual):
            fail(FRESH, f"{way.name}, fits with the same random_state are equal, and depend on "
                        "the records: the noise is not fresh")


def _always(learner: Any, table: Example, probes: Any, times: int, way: Way) -> Any:
    """What so many fits and one more say, if they all say the same; else None."""
    first = outputs_on(learner, table, probes, 1, way)
    for _ in range(times):
        if not np.array_equal(outputs_on(learner, table, probes, 1, way), first):
            return None
    return first
