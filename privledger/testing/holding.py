"""The check by replay: the premises of a learner's privacy proof, on paths of its fits."""

from __future__ import annotations

import warnings

from privledger.plugins.learner import Priced
from privledger.testing.examples import Example
from privledger.testing.failing import fail
from privledger.testing.fitting import fresh
from privledger.testing.lockstep import lockstep

LOCK, LOCK_SECONDS = "lockstep-holds", 0.3


def check_lockstep_holds(learner: Priced, example: Example | None = None, *,
                         seconds: float = LOCK_SECONDS) -> None:
    """Fits on neighbouring tables with equal answers lose no more than their releases cost.

    docs/proofs/lockstep.md has the premises. What holds is said of the tables and paths that
    were visited: more of them with more time. Of a learner that is not replayable nothing is said,
    but for a warning.

    Args:
        seconds: of processor time; a few pairs of tables are always looked at.
    """
    found = lockstep(fresh(learner), example, seconds=seconds)
    if found.word == "not replayable":
        warnings.warn(f"{LOCK}: nothing is known of {type(learner).__name__}, as {found.why}",
                      stacklevel=2)
    elif not found.holds:
        place = "the fit" if found.release < 0 else f"release {found.release + 1}"
        fail(LOCK, f"{found.premise}, {place}: {found.why}")
