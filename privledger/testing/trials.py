"""Runs of a whole learner: fresh noise in every fit, and no more told than epsilon says."""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.plugins import Priced
from privledger.rounding import downward, exact, upward
from privledger.tables.schema import Schema
from privledger.testing.examples import Example, examples_for, extremes, same_records
from privledger.testing.fitting import Way, fail, fresh, outputs, relation_of, ways
from privledger.testing.guessing import FALSE_ALARM, Pair, fits_needed, guessing_audit
from privledger.testing.structure import probes_beside

EPSILON, FRESH = "epsilon-holds", "fresh-noise"
QUICK_EPSILON, QUICK_SECONDS = 1.0, 0.75


def blank_example(schema: Schema, rows: int = 16) -> Example:
    """Equal records at the middle of the public bounds, targets in turn: for any schema."""
    X: dict[str, NDArray[Any]] = {}
    for column in schema.features:
        # Room for every category: a longer text, written into an array of short ones, is cut.
        X[column.name] = (np.full(rows, (column.lower + column.upper) // 2 if column.integer
                                  else (column.lower + column.upper) / 2)
                          if column.kind == "numeric" else
                          np.full(rows, column.categories[0], dtype=column.labels.dtype))
    low, high = extremes(schema)
    y = np.array([low, high] * (rows // 2),
                 dtype=float if schema.target.kind == "numeric" else schema.target.labels.dtype)
    return Example(schema, X, y)


def check_epsilon_holds(learner: Priced, example: Example | None = None, *,
                        pair: Pair | None = None, fits: int | None = None) -> None:
    """Who sees the model cannot tell neighbouring tables apart too well; false alarm 1e-6.

    Args:
        fits: at most, on either table; None for a quick look with epsilon lowered to 1. It sees
            whole leaks and little less, gives up where none is in sight, and looks at plain
            tables only where guarded fits took less than a second: there `model-follows-answers`
            says it of every learner, exactly. With a number of fits the bets are against the
            whole plan, on tables several records apart.
    """
    quick = fits is None
    miss = FALSE_ALARM / len(ways(learner))
    if quick:
        learner = fresh(learner, epsilon=min(float(learner.epsilon), QUICK_EPSILON))
    most = fits_needed(min(float(learner.epsilon), QUICK_EPSILON), miss) if fits is None else fits
    every, start = ways(learner), time.process_time()
    for way in every:
        if way.plain and quick and time.process_time() - start > QUICK_SECONDS:
            return
        found = guessing_audit(learner, example, pair=pair, fits=most, way=way, false_alarm=miss,
                               deep=not quick, patient=not quick)
        if not found.holds:
            fail(EPSILON, f"{way.name}, epsilon {upward(found.claimed, 4)} at delta "
                          f"{exact(found.delta)} is claimed, but {found.right} of "
                          f"{found.guesses} guesses between tables {found.records} "
                          f"record{'s' * (found.records > 1)} apart were right, by {found.event}; "
                          f"epsilon is at least {downward(found.epsilon_low, 4)}, or the plan "
                          "is not kept")


def check_fresh_noise(learner: Priced, example: Example | None = None) -> None:
    """Private fits with one `random_state` differ, unless the outputs ignore the records.

    Outputs may be few (a selector's), so equal ones prove little: a false alarm needs many equal
    fits on a single record, and as many equal, other ones on its opposite. Its probability is
    at most 1e-6, with epsilon lowered to 1.
    """
    learner = fresh(learner, epsilon=min(float(learner.epsilon), QUICK_EPSILON), random_state=7)
    given = examples_for(learner, example)[0]
    low, high = extremes(given.schema)
    tables = same_records(given, 1, low), same_records(given, 1, high)
    probes = probes_beside(given)
    # Replacing the record is two steps under add-or-remove-one. If every fit gives a with
    # probability p on one table, the other gives it with e^(-steps epsilon) p or more.
    steps = 2.0 if relation_of(learner) == "add_remove" else 1.0
    same = math.log(FALSE_ALARM) / math.log1p(-math.exp(-steps * float(learner.epsilon)))
    for way in ways(learner):
        usual = [_always(way, table, probes, math.ceil(same)) for table in tables]
        if all(one is not None for one in usual) and not np.array_equal(*usual):
            fail(FRESH, f"{way.name}, fits with the same random_state are equal, and depend on "
                        "the records: the noise is not fresh")


def _always(way: Way, table: Example, probes: Any, times: int) -> Any:
    """What so many fits and one more say, if they all say the same; else None."""
    first = outputs(way.fit(table), probes)
    same = (np.array_equal(outputs(way.fit(table), probes), first) for _ in range(times))
    return first if all(same) else None
