"""Three pictures, where matplotlib is installed: `pip install 'privledger[plot]'`.

Each function draws on the axes it is given, or on new ones, and returns them. The numbers come
from functions of their own, which need nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from privledger.accounting import check_relation, promise
from privledger.errors import DataError, PrivledgerError
from privledger.graph import Node, certify, label
from privledger.guard import Ledger
from privledger.ledger.state import State
from privledger.ledger.view_charges import left_of
from privledger.ledger.view_figures import CHOSEN, Figure
from privledger.ledger.view_records import data_spend
from privledger.reports import clean

DELTAS = tuple(10.0**power for power in range(-12, 0))


def burn_down_points(ledger: Ledger) -> list[tuple[int, float]]:
    """What was left of the budget, as epsilon, after each entry that moved it.

    Returns:
        Position of the entry (a history has no other clock that can be trusted) and epsilon of
        the largest plan that would still have been granted.
    """
    points, state = [(0, ledger.budget.epsilon)], State()
    for entry in ledger._history.store.read():
        before = state.units
        state.take(entry)
        if state.units != before:
            points.append((state.position, left_of(state).value))
    points.append((state.position, left_of(state).value))
    return points


def burn_down(ledger: Ledger, axes: Any = None) -> Any:
    """What was left of the budget, entry by entry."""
    drawn = _axes(axes)
    positions, left = zip(*burn_down_points(ledger), strict=True)
    drawn.step(positions, left, where="post")
    drawn.set_ylim(bottom=0)
    drawn.set_xlabel("entry of the history")
    drawn.set_ylabel(f"epsilon left at delta {_chosen(ledger.budget.delta)}")
    mark = "" if ledger.mode == "private" else ", NOT PRIVATE (simulation)"
    drawn.set_title(f"budget epsilon {_chosen(ledger.budget.epsilon)}, "
                    f"{promise(ledger.relation, ledger.unit)}{mark}")
    return drawn


def spend_histogram(ledger: Ledger, data: str | None = None, axes: Any = None, *,
                    bins: int = 50) -> Any:
    """How much single records lost to individual filters. CONFIDENTIAL: for auditors.

    Raises:
        DataError: no individual filter counted what records of that table lost.
    """
    state = ledger.state
    spend = data_spend(ledger._history.store, state, data)
    if spend is None:
        raise DataError("no individual filter counted what records of this table lost")
    drawn = _axes(axes)
    drawn.hist(spend.spent, bins=bins)
    drawn.axvline(spend.cap, linestyle="--", label="cap")
    drawn.set_xlabel(state.rule.unit if state.rule else "")
    drawn.set_ylabel("records")
    drawn.set_title(_plain(f"CONFIDENTIAL: what records of {spend.data} lost"))
    drawn.legend()
    return drawn


def curve_points(node: Node, relation: str = "add_remove",
                 deltas: Sequence[float] = DELTAS) -> list[tuple[float, float]]:
    """Delta and the epsilon proved at it; a delta at which nothing is proved is left out."""
    found = []
    for delta in deltas:
        try:
            found.append((delta, certify(node, delta, check_relation(relation)).epsilon))
        except PrivledgerError:
            continue
    return found


def epsilon_delta(node: Node, relation: str = "add_remove", deltas: Sequence[float] = DELTAS,
                  axes: Any = None) -> Any:
    """The (epsilon, delta) curve of a plan: upper bounds.

    Raises:
        DataError: nothing is proved at any of the deltas.
    """
    points = curve_points(node, relation, deltas)
    if not points:
        raise DataError("nothing is proved for this plan at any of these deltas")
    drawn = _axes(axes)
    at, epsilons = zip(*points, strict=True)
    drawn.semilogx(at, epsilons, marker=".")
    drawn.set_xlabel("delta")
    drawn.set_ylabel(f"epsilon, at most ({promise(relation)})")
    drawn.set_title(_plain(label(node)))
    return drawn


def _chosen(value: float) -> str:
    return Figure(value, direction=CHOSEN).text()


def _plain(text: str) -> str:
    """A label that matplotlib does not take for mathematics."""
    return clean(text, limit=100).replace("$", r"\$")


def _axes(axes: Any) -> Any:
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib: pip install 'privledger[plot]'") from None
    # Not pyplot: it would keep every figure, and choose a window system.
    return Figure(layout="constrained").subplots()
