"""An open grant: the only place where a query meets rows. Learners hold a `Session` before it.

Nothing here leaves the guard. What was asked is copied first (guard/mirror.py), the plan is the one
that was stored and read back, and whether rows were touched is noted by the vault.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from attrs import asdict, define, field, frozen
from numpy.typing import NDArray

from privledger.errors import (
    InvalidValue,
    NotGranted,
    UnsupportedNode,
    public_name,
)
from privledger.graph import Context, IndividualFilter, Meter, Node, from_json, to_json
from privledger.graph.meter import filter_caps
from privledger.guard.aggregate import Recipe, add_noise, cell_sums, recipes, square_norms
from privledger.guard.alone import note_over
from privledger.guard.choosing import (
    Asked,
    choose,
    choose_features,
    choose_labels,
    rate_of,
)
from privledger.guard.dataset import Dataset
from privledger.guard.labels import release_labels
from privledger.guard.leaving import guarded
from privledger.guard.members import Members
from privledger.guard.mirror import forget_dead, own_leaf, own_question
from privledger.guard.policing import keep
from privledger.guard.scope import (
    Scope,
    fresh_spend,
    individual_costs,
    spent_before,
)
from privledger.guard.tuned import Best, Trial, best_of
from privledger.guard.vault import Pass, Vault
from privledger.ledger import History, Origins, Receipt, ScopeSpend
from privledger.ledger.history import now
from privledger.ledger.log import ReleaseLog
from privledger.ledger.settle import Settlement, settle
from privledger.ledger.vectors import pack, vector_note
from privledger.mechanisms import Gaussian, Laplace
from privledger.mutex import Mutex
from privledger.noise.source import NoiseSource
from privledger.questions.blocks import clipped
from privledger.questions.cells import follows_records
from privledger.questions.choice import LabelChoice
from privledger.questions.derivation import Step
from privledger.questions.feature_choice import FeatureChoice
from privledger.questions.label_query import LabelQuery
from privledger.questions.query import Query
from privledger.rounding import MOST_COUNT, count
from privledger.tables.chunk import Rows

Answer = NDArray[np.float64]
T = TypeVar("T")


@frozen
class _Taken:
    """What one release reads: contributions after clipping and filtering, and who is in."""

    values: list[NDArray[np.float64] | None]
    cells: NDArray[Any] | None
    mask: NDArray[np.bool_] | None
    n_rows: int


@define(eq=False, repr=False)
class Granted:
    """An open grant, inside the guard.

    Attributes:
        plan: the reserved composition node, as it was stored and read back.
        grant: the ledger's name for the reservation.
        vault: the rows it is for. data: a handle on them, to be shown.
    """

    plan: Node
    grant: str
    vault: Vault
    data: Dataset
    _history: History = field(alias="history")
    _source: NoiseSource = field(alias="source")
    _scope: Scope | None = field(alias="scope", default=None)
    _on_release: Callable[[int], None] | None = field(alias="on_release", default=None)
    _meter: Meter = field(init=False)
    _pass: Pass = field(init=False)
    _log: ReleaseLog = field(init=False, factory=ReleaseLog)
    _spends: dict[str, tuple[Scope, ScopeSpend]] = field(init=False, factory=dict)
    _filters: dict[str, Scope] = field(init=False, factory=dict)
    _members: Members = field(init=False)
    _settlement: Settlement | None = field(init=False, default=None)
    _settled: bool = field(init=False, default=False)
    _vouched: bool = field(init=False, default=True)
    _lock: Mutex = field(init=False, factory=Mutex)
    receipt: Receipt | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self._meter = Meter(self.plan)
        self._members = Members(self._source)
        self._pass = Pass(self.vault.identity, self._history)

    @property
    def covers(self) -> str:
        """Identity of the data the grant is for."""
        return self.vault.identity

    @property
    def active(self) -> bool:
        """Whether releases are still possible: not settled, and not in a forked child."""
        return self._pass.active

    @property
    def touched(self) -> bool:
        """Whether rows were shown under the grant: by the vault's word."""
        return self._pass.touched

    @property
    def releases(self) -> int:
        """How many releases were charged so far."""
        return len(self._log)

    def filtered(self, node: IndividualFilter | None = None) -> Dataset:
        """As `Session.filtered`."""
        with self._lock:
            if self._scope is not None:
                scope = self._scope
            elif node is not None:
                scope = Scope(f"{self.grant}/filter", _own_filter(node))
                known = self._filters.get(scope.name, scope)
                if known.node != scope.node:
                    raise NotGranted("one individual filter per grant; nothing was read")
            else:
                raise NotGranted("no filter was reserved; nothing was read")
            self._filters[scope.name] = scope
        step = Step(Context("filter", scope.name, caps=filter_caps(scope.node)))
        return Dataset(self.data.schema, self.data._vault, (step,), self.data.ledger)

    def release(self, mechanism: Any, query: Any, *, rollover: int = 0) -> Any:
        """As `Session.release`."""
        with self._lock:
            if not self.active:
                raise NotGranted("the grant is over; nothing was read")
            question, leaf = own_question(query, self.vault), own_leaf(mechanism)
            if getattr(question, "asserted", False) and not self._vouched:
                raise NotGranted("a trial that asks something asserted says why, to `best_of`; "
                                 "nothing was read")
            answer: Any
            if isinstance(question, LabelQuery):
                answer = release_labels(self, leaf, question)
            elif isinstance(question, Asked):
                answer = self._choose(leaf, question)
            else:
                answer = self._measure(leaf, question, rollover)
        if self._on_release is not None:
            self._on_release(len(self._log))
        return answer

    def best_of(self, node: Any, candidates: int, trial: Trial, why: str) -> Best | None:
        """As `Session.best_of`."""
        return best_of(self, node, candidates, trial, why)

    def branch(self, plan: Node, vouched: bool) -> Branch:
        """A run inside this grant: a meter for `plan`, and nothing of its own to settle."""
        inner = Branch(plan, self.grant, self.vault, self.data, self._history, self._source)
        inner._vouched, inner._pass = vouched, self._pass
        return inner

    def _measure(self, mechanism: Any, query: Query, rollover: int) -> Answer | list[Answer]:
        """Noisy sums."""
        query.check(self.vault.facts)
        if query.asserted:  # nothing else of a policy can change after the request
            keep(self._history.state.policy, Origins(asserted=(query.label,)))
        # Exact types: a stranger may say that it equals a reserved node and be quieter.
        if type(mechanism) not in (Gaussian, Laplace):
            raise UnsupportedNode(f"no exact sampler for {type(mechanism).__name__} in this "
                                  "version; nothing was read")
        self._check_filters(query.data)
        rollover = int(count("rollover", rollover, least=0, most=MOST_COUNT))
        made = recipes(mechanism, query, self._relation)
        self.charge(mechanism, query.data.chain, query.label, query.cell_count)
        noisy = self._guarded(lambda: self._answer(mechanism, query, made, rollover))
        answers = [_shape(array, query) for array in noisy]
        return answers[0] if len(answers) == 1 else answers

    def _choose(self, mechanism: Any, choice: Asked) -> Any:
        """A selection in every leaf, or of features."""
        choice.check(self.vault.facts)
        if choice.asserted:
            keep(self._history.state.policy, Origins(asserted=(choice.label,)))
        self._check_filters(choice.data)
        if any(step.context.kind == "filter" for step in choice.data.steps):
            raise UnsupportedNode("individual filters take Gaussian releases only")
        rate = rate_of(mechanism, choice, self._relation)
        self.charge(mechanism, choice.data.chain, choice.label, choice.cell_count)

        def answer() -> Any:
            with self.vault.open(self._pass) as rows, np.errstate(all="ignore"):
                members = self._members.of(choice.data, rows)
                if isinstance(choice, FeatureChoice):
                    return choose_features(mechanism, choice, rate, members, self._source)
                if isinstance(choice, LabelChoice):
                    return choose_labels(mechanism, choice, rate, members, self._source)
                return choose(mechanism, choice, rate, members, self._source)

        return self._guarded(answer)

    def _guarded(self, answer: Callable[[], T]) -> T:
        """Run what reads rows. Whatever goes wrong, no text about the records gets out."""
        self._pass.touched = True  # the vault says so too, whoever opens it
        return guarded(answer)

    def _answer(self, mechanism: Any, query: Query, made: tuple[Recipe, ...],
                rollover: int) -> list[NDArray[np.float64]]:
        # Floating-point warnings would tell which records overflow, also as exceptions.
        with self.vault.open(self._pass) as rows, np.errstate(all="ignore"):
            if follows_records(query.cells) and query.data.steps and all(
                    step.context.kind == "part" for step in query.data.steps):
                taken = self._whole(query, mechanism, self._members.of(query.data, rows))
            else:
                taken = self._take(query, mechanism, made, rows, rollover)
            sums = self._sums(query, taken, made)
        return add_noise(mechanism, sums, made, self._source)

    def charge(self, leaf: Any, chain: tuple[Context, ...], question: str, cells: int) -> None:
        """Take one release off the reserved plan and itemise it. In memory, O(1)."""
        self._meter.admit(chain, leaf)
        self._log.add(chain, leaf, question, cells)

    @property
    def _relation(self) -> str:
        return self._history.state.relation

    def _check_filters(self, data: Dataset) -> None:
        for step in data.chain:
            if step.kind == "filter" and step.token not in self._filters:
                raise NotGranted("the handle is behind another grant's filter; nothing was read")
            if step.kind == "filter" and step.caps != filter_caps(self._filters[step.token].node):
                raise NotGranted("a handle whose derivation was changed; nothing was read")

    def _whole(self, query: Query, mechanism: Any, rows: Rows) -> _Taken:
        """Every record of a table: a part is one of its own, so that only its records cost."""
        norm = 1 if isinstance(mechanism, Laplace) else 2
        values = [clipped(block, rows, norm) for block in query.blocks]
        cells = None if query.cells is None else query.cells.index(rows)
        return _Taken(values, cells, None, rows.n)

    def _take(self, query: Query, mechanism: Any, made: tuple[Recipe, ...], rows: Rows,
              rollover: int) -> _Taken:
        norm = 1 if isinstance(mechanism, Laplace) else 2
        values = [clipped(block, rows, norm) for block in query.blocks]
        mask, rate = self._members.mask(query.data, rows)
        filters = [step.context.token for step in query.data.steps
                   if step.context.kind == "filter"]
        if filters:
            if not isinstance(mechanism, Gaussian):
                raise UnsupportedNode("individual filters take Gaussian releases only")
            active = self._filter(filters[0], query, values, made, rows, rate, rollover, mask)
            mask = active if mask is None else mask & active
        if rate < 1.0:
            if filters:
                self._members.check_fresh(query.data)
            sampled = self._members.sample(query.data, rows)
            mask = sampled if mask is None else mask & sampled
        cells = None
        if query.cells is not None:
            cells = query.cells.index(rows)
        return _Taken(values, cells, mask, rows.n)

    def _filter(self, token: str, query: Query, values: list[NDArray[np.float64] | None],
                made: tuple[Recipe, ...], rows: Rows, rate: float,
                rollover: int, part: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        scope, spend = self._spend(token, rows)
        if scope.node.kind == "gdp" and rate < 1.0:
            raise UnsupportedNode("the Gaussian-DP filter takes unsampled rounds only")
        constant = 0.0
        squares = np.zeros(rows.n)
        for block, recipe, array in zip(query.blocks, made, values, strict=True):
            if array is None:
                constant += recipe.weight
            else:
                squares += square_norms(array, block.clip) * recipe.weight
        squares += constant
        if part is not None:
            squares[~part] = 0.0  # a record pays for its own part only
        if rollover > 0:
            _roll_over(squares, spend.left() / (rollover * _per_square(scope, rate)), values)
        top = sum(recipe.weight for recipe in made)
        np.minimum(squares, top, out=squares)
        return spend.admit(individual_costs(squares, scope.node, rate, top))

    def _spend(self, token: str, rows: Rows) -> tuple[Scope, ScopeSpend]:
        found = self._spends.get(token)
        if found is None:
            scope = self._filters[token]
            self._history.room.check_vector(self._history.store, rows.n)
            before = np.zeros(rows.n, dtype=np.int64)
            if self._scope is not None:
                before = self._history.look(lambda state: spent_before(
                    self._history.store, state, scope, self.covers, rows.n, self.grant))
            found = self._spends[token] = scope, fresh_spend(scope.node.cap, before)
        return found

    def _sums(self, query: Query, taken: _Taken,
              made: tuple[Recipe, ...]) -> list[NDArray[np.int64]]:
        cells, n_rows, mask = taken.cells, taken.n_rows, taken.mask
        if mask is not None and mask.all():
            mask = None
        if mask is not None:
            cells = None if cells is None else cells[mask]
            n_rows = int(mask.sum())
        sums = []
        for block, recipe, values in zip(query.blocks, made, taken.values, strict=True):
            kept = values if values is None or mask is None else values[mask]
            sums.append(cell_sums(kept, recipe.grid, cells, query.cell_count, n_rows,
                                  block.width, math.ceil(block.clip / recipe.grid)))
        return sums

    def close(self, failed: type[BaseException] | None = None) -> None:
        """Itemise and settle in one durable transaction. A grant that touched nothing and
        failed is handed back; any other keeps its whole charge.

        Raises:
            NotSettled: the ledger could not be written. Closing again tries again.
        """
        with self._lock:
            if self._settled or not self._pass.at_home:
                return
            self._pass.over = True
            self._members.forget()
            forget_dead(self.vault)
            if self._settlement is None:
                self._settlement = self._end(failed)
            settle(self._history, self._settlement)
            note_over(self.grant)
            self.receipt = self._history.receipt()
            self._settled = True

    def _end(self, failed: type[BaseException] | None) -> Settlement:
        """What is to be written at the end of this grant."""
        refund = failed is not None and not self.touched
        lines: list[tuple[str, dict[str, Any]]] = [
            ("released", body | {"noise": self._source.describe()})
            for body in self._log.bodies(self.grant)
        ]
        body: dict[str, Any] = {"grant": self.grant, "time": now(),
                                "touched": self.touched, "releases": len(self._log)}
        vectors: dict[str, bytes] = {}
        if failed is not None:
            body["error"] = public_name(failed)
            lines.append(("aborted" if refund else "settled", body | {"failed": True}))
        else:
            lines.append(("settled", body))
        for scope, spend in self._spends.values():
            name = f"spend:{self.grant}:{scope.name}"
            vectors[name] = pack(spend.taken(), spend.rounds)
            body_with = lines[-1][1]
            body_with["vector"] = asdict(vector_note(name, vectors[name]))
            body_with["cap"] = scope.node.cap
        return Settlement(self.grant, tuple(lines), vectors, len(self._log))


@define(eq=False, repr=False)
class Branch(Granted):
    """One run inside a grant: its own meter, samples and coins, and nothing to settle.

    Attributes:
        ended: set when the run is over; its handles are worth nothing from then on.
    """

    ended: bool = field(init=False, default=False)

    @property
    def active(self) -> bool:
        """Whether the run and the grant around it still stand."""
        return not self.ended and self._pass.active

    def filtered(self, node: IndividualFilter | None = None) -> Dataset:
        """No individual filter has a proof inside a tuning."""
        raise NotGranted("an individual filter inside a tuning has no proof; nothing was read")

    def close(self, failed: type[BaseException] | None = None) -> None:
        """Nothing: the grant around the run settles."""

    def end(self) -> None:
        """Over, with nothing kept: what a run released is in no entry."""
        self.ended = True
        self._members.forget()


def _own_filter(node: object) -> IndividualFilter:
    """A filter of the guard's own. By exact type: a stranger's caps may be others each time they
    are asked for."""
    if type(node) is not IndividualFilter:
        raise InvalidValue("node", type(node).__name__, "an IndividualFilter")
    copy = from_json(to_json(node))
    assert isinstance(copy, IndividualFilter)
    return copy


def _per_square(scope: Scope, rate: float) -> float:
    """Filter cost per mu squared of an unsampled round; sampled rounds cost no more."""
    return 1.0 if scope.node.kind == "gdp" else scope.node.order / 2


def _roll_over(squares: NDArray[np.float64], allowed: NDArray[np.float64],
               values: list[NDArray[np.float64] | None]) -> None:
    """Scale each record's contributions down to the mu squared it may use this round."""
    factor = np.sqrt(np.minimum(1.0, allowed / np.maximum(squares, 1e-300)))
    factor *= 1 - 2.0**-50
    for place, array in enumerate(values):
        if array is None:
            values[place] = factor.copy()
        else:
            values[place] = array * (factor if array.ndim == 1 else factor[:, None])
    squares *= np.square(factor)


def _shape(array: NDArray[np.float64], query: Query) -> NDArray[np.float64]:
    if query.cells is None:
        array = array[0]
    if array.shape[-1] == 1:
        array = array[..., 0]
    return array
