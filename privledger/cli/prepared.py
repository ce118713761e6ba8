"""A run file, read and priced: what `plan`, `run` and `check` begin with. No table is opened."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import nullcontext
from decimal import ROUND_FLOOR, Context, Decimal
from pathlib import Path
from typing import Any

from attrs import evolve, field, frozen

from privledger.broker import RemoteLearner
from privledger.cli.opening import reading
from privledger.cli.output import note
from privledger.errors import InvalidPlan, LedgerMissing, PrivledgerError
from privledger.facts.schema import Schema
from privledger.graph import Node, to_json
from privledger.guard.creating import differing
from privledger.ledger import State
from privledger.ledger.checkpoint import receipt_of
from privledger.plugins import ClaimStep, configured, load_learner
from privledger.reports import PriceFigures, price_plan, release_count
from privledger.reports.too_few import too_few
from privledger.rounding import exact
from privledger.runs import RunFile
from privledger.storage import is_url, shown


@frozen
class Prepared:
    """A run that was priced: no data has been opened.

    Attributes:
        model: the learner with its parameters.
        exists: whether the ledger file is there already, and will be continued.
    """

    run: RunFile
    schema: Schema
    model: Any
    node: Node
    claims: tuple[ClaimStep, ...]
    price: PriceFigures
    ledger: Path | str = field(repr=shown)
    exists: bool
    state: State | None = field(default=None, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """For JSON: what would run, its price and claims, and whether it fits the ledger."""
        info, few = self.model.info, too_few(self.node, self.schema)
        return ({} if few is None else {"too_few": few}) | {
            "run": str(self.run.path), "learner": self.run.learner, "summary": info.summary,
            "paper": info.paper, "params": self.run.params, "ledger": shown(self.ledger),
            "receipt": None if self.state is None else receipt_of(self.state).as_dict(),
            "ledger_exists": self.exists, "price": self.price, "fits": self.price.fits,
            "releases": release_count(self.node), "budget": self.run.budget,
            "claims": [claim_dict(step) for step in self.claims], "plan": to_json(self.node),
        }


def claim_dict(step: ClaimStep) -> dict[str, Any]:
    """A claim as JSON values, with its ratio."""
    return {"step": step.step, "reference": step.reference, "claimed": step.claimed,
            "sound": step.sound, "delta": step.delta, "ratio": step.ratio, "note": step.note}


def build(run: RunFile, schema: Schema) -> Any:
    """An instance of the run's learner; unknown parameters are refused by name."""
    return configured(load_learner(run.learner), run.learner, run.params, schema, run.relation)


def prepare(path: str, data_dir: str | None, ledger: str | None = None,
            make: Callable[[RunFile, Schema], Any] | None = None) -> Prepared:
    """Read the run file and the schema, build the plan, price it. The table is not touched.

    Args:
        make: the learner with its parameters; `build` unless it runs elsewhere.
    """
    run = RunFile.load(path)
    if run.without_delta:
        note("[budget] gives no delta, so it is 0: the learner may use pure epsilon only, and Auto "
             "takes another one. Say delta = 0.0 if that is meant; else a delta well below one in "
             "the number of people, such as 1e-6")
    return priced(run, Schema.load(run.data_path(run.schema, data_dir)), run.ledger_path(ledger),
                  make)


def state_at(place: Path | str) -> State | None:
    """The state of the ledger there; None if there is none. Any other failure is raised."""
    if not is_url(place) and not Path(place).exists():
        return None
    try:
        with reading(place) as opened:
            return opened.state
    except LedgerMissing:
        return None


def priced(run: RunFile, schema: Schema, place: Path | str | None,
           make: Callable[[RunFile, Schema], Any] | None = None) -> Prepared:
    """Build the plan of a run and price it, on top of what the ledger at `place` has spent."""
    run.unit_for(schema)
    schema.rows_for(run.relation)  # what no ledger of this relation protects has no price here
    model = (make or build)(run, schema)
    node = model.plan(schema)
    state = None if place is None else state_at(place)
    if state is not None:
        check_same(run, state, run.unit_for(schema))
    with model.purse.pricing() if isinstance(model, RemoteLearner) else nullcontext():
        price = price_plan(node, run.params["delta"], budget=run.budget, relation=run.relation,
                           filter=run.filter, state=state, data=run.data, labels=run.labels,
                           everywhere=not run.data)
    return Prepared(run, schema, model, node, tuple(model.claimed(schema)), price, place or "",
                    state is not None, state)


def fitting(prepared: Prepared, most: float = math.inf) -> str:
    """What epsilon of this learner would be granted: by its own plans, and the ledger's decision.

    Args:
        most: epsilon that may be spent in all afterwards.
    """
    asked = prepared.run.params.get("epsilon")
    if isinstance(prepared.model, RemoteLearner) or not isinstance(asked, float | int):
        return ""

    def fits(epsilon: float) -> bool:
        run = evolve(prepared.run, params=prepared.run.params | {"epsilon": epsilon})
        try:
            node = build(run, prepared.schema).plan(prepared.schema)
            price = price_plan(node, run.params["delta"], budget=run.budget, relation=run.relation,
                               filter=run.filter, state=prepared.state, data=run.data,
                               labels=run.labels, everywhere=not run.data)
        except PrivledgerError:
            return False
        return price.fits and price.total <= most

    low, high = 0, 1000  # thousandths of what was asked for
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(_thousandths(asked, middle)) else (low, middle)
    if not low:
        return "nothing of this learner fits"
    return f"epsilon {exact(_thousandths(asked, low))} of this learner would fit"


def _thousandths(asked: float, part: int) -> float:
    """A part of an epsilon, to three digits, rounded down: what is printed is what was tried."""
    return float(Decimal(asked * part / 1000).normalize(Context(prec=3, rounding=ROUND_FLOOR)))


def check_same(run: RunFile, state: State, unit: str) -> None:
    """A run file continues a ledger only if it promises the same."""
    for name, asked, there in differing(state, run.budget, run.relation, unit, run.filter):
        raise InvalidPlan("[budget]" if name == "budget" else f"[ledger] {name}", str(asked),
                          f"that of the ledger it continues: {there}")
