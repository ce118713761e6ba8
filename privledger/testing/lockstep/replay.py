"""One fit of a lock: a learner on a table of the kit, through a tap, with forced answers.

Nothing inside the guard is replaced but its source of noise. What the learner is handed is
exchanged by an observer, where it leaves the guard.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
from attrs import define, field

from privledger.accounting import Relation
from privledger.errors import public_name
from privledger.graph import Node, Tuning
from privledger.guard import Ledger
from privledger.guard.dataset import Dataset
from privledger.guard.observer import Observer, _observing
from privledger.guard.session import Branch, GrantedPlan
from privledger.guard.teller import Teller
from privledger.guard.vault import Pass, Vault, _vault_of
from privledger.ledger import Budget
from privledger.ledger.log import Chain, ReleaseLog
from privledger.noise.seeded import repeatable
from privledger.people.keys import PeopleKey
from privledger.plugins.learner import Priced
from privledger.tables.chunk import Rows
from privledger.testing.examples import Example
from privledger.testing.fitting import Way, delta_of, fresh, outputs, protect, recording
from privledger.testing.lockstep import rereading
from privledger.testing.lockstep.digest import Digester
from privledger.testing.lockstep.each_one import watched
from privledger.testing.lockstep.kept import Added, Grant, RecordedRun, Release
from privledger.testing.lockstep.sampling import counted
from privledger.testing.lockstep.tap import Tap
from privledger.testing.replaying import facts_of
from privledger.testing.structure import table_probes

AMPLE = 1.0 + 2.0**-30
"""A ledger of a lock holds one fit and no second one."""

KEY = PeopleKey(b"tables of the kit are nobody's data")
"""Public, and good for made-up tables only."""


@define(eq=False)
class Recorder(Observer):
    """What releases of one run said, and what they were made to say.

    Attributes:
        tap: the source of everything drawn.
        told: answers that the learner is handed, in order; none where it gets the guard's own.
    """

    tap: Tap
    told: tuple[object, ...] = ()
    releases: list[Release] = field(factory=list)
    numbers: dict[int, int] = field(factory=dict)
    grants: list[GrantedPlan] = field(factory=list)
    digester: Digester = field(factory=Digester)
    inside: int = 0
    tables: list[Dataset] = field(factory=list)
    added: list[Added] = field(factory=list)

    def opened(self, ledger: object) -> None:
        """Every ledger made meanwhile draws from the tap."""
        assert isinstance(ledger, Teller)
        ledger._source = self.tap

    def protected(self, data: object) -> None:
        assert isinstance(data, Dataset)
        self.tables.append(data)

    def released(self, granted: object, release: Callable[..., object], mechanism: object,
                 query: object, **named: object) -> object:
        """One release by the guard, kept; and what the learner is handed."""
        assert isinstance(granted, GrantedPlan)
        log, place = granted._inside.log, len(self.releases)
        noted, drawn, added = len(log), len(self.tap.draws), len(self.added)
        asked = self.digester.of(mechanism, query, sorted(named.items()))
        one = Release(self._grant(granted), asked, query, mechanism)
        self.releases.append(one)
        self.inside += 1
        try:
            one.truth = release(mechanism, query, **named)
        except BaseException as error:
            one.failed = public_name(type(error))
            raise
        finally:
            self.inside -= 1
            one.draws, one.added = self.tap.draws[drawn:], self.added[added:]
            one.charged = charged_since(log, noted)
            one.digest += self.digester.of(one.charged)
        one.answer = one.truth
        if place < len(self.told):
            one.answer = self.told[place]
        return copy.deepcopy(one.answer)

    def _grant(self, granted: GrantedPlan) -> int:
        number = self.numbers.setdefault(id(granted), len(self.grants))
        if number == len(self.grants):
            self.grants.append(granted)  # kept, so that no identity is used twice
        return number


def charged_since(log: ReleaseLog, first: int) -> list[tuple[Chain, Node]]:
    """What a log of releases itemised after the first `first`: (chain, node) each."""
    nodes = list(log._nodes)
    columns = log.columns()["node"]
    return [nodes[int(place)] for place in columns[first:]]


@define(eq=False)
class Fitting:
    """What is fitted in every run of a lock.

    Attributes:
        learner: unfitted. relation: which tables are neighbours.
        plain: on a plain table, without a ledger of ours. seed: of public randomness.
        released: of the run that is under way.
    """

    learner: Priced
    relation: Relation
    plain: bool = False
    seed: int = 0
    released: list[Release] = field(init=False, factory=list)

    @property
    def delta(self) -> float:
        """What the learner claims beside its epsilon."""
        return delta_of(self.learner)

    @property
    def promise(self) -> tuple[str, str]:
        """Relation and mode of every ledger of a run."""
        return self.relation, "private" if self.plain else "simulation"

    def run(self, table: Example, tap: Tap, told: tuple[object, ...] = (), *,
            again: bool = False) -> RecordedRun:
        """One fit. An error of the fit is part of what is seen.

        Args:
            again: whether both verifiers read the histories, too.
        """
        recorder, run = Recorder(tap, told), RecordedRun(
            table.n_records, people_of(table), table.people is not None)
        self.released = recorder.releases
        watching = watched(recorder.added) if tap.quiet else nullcontext()
        with (repeatable(self.seed), _observing(recorder), watching, counted(run.samples),
              recording() as asked):
            try:
                fitted = self.fitted(table)
            except Exception as error:
                run.failed = public_name(type(error))
            else:
                run.model = model_of(fitted, table)
        run.releases = recorder.releases
        within = {id(draw) for one in run.releases for draw in one.draws}
        run.outside = [draw for draw in tap.draws if id(draw) not in within]
        run.grants = [grant_of(one) for one in recorder.grants]
        idle = [one for one in asked.sessions if all(one is not seen for seen in recorder.grants)]
        run.idle = [grant_of(one) for one in idle]
        run.spent = sum(ledger.spent for ledger in asked.ledgers)
        run.promises = [(ledger.relation, ledger.mode) for ledger in asked.ledgers]
        run.budgets = [ledger.budget for ledger in asked.ledgers]
        run.arrived = [rows_in(data) for data in recorder.tables] if self.plain else []
        run.histories = [rereading.told(ledger) for ledger in asked.ledgers]
        run.wrong = [found for ledger in asked.ledgers for found in rereading.reread(ledger)
                     ] if again else []
        return run

    def fitted(self, table: Example) -> Any:
        """A fit on a ledger for one such fit; or on the plain table."""
        if self.plain:
            return Way("on a plain table", True, self.learner).fit(table)
        learner = fresh(self.learner)
        budget = Budget(float(learner.epsilon) * AMPLE, self.delta)
        ledger = Ledger.create(None, budget=budget,
                               relation=self.relation, mode="simulation", seed=0,
                               **unit_of(table))
        found = learner.fit(protect(ledger, table))
        return learner if found is None else found


def unit_of(table: Example) -> dict[str, Any]:
    """How a ledger is made for a table: whom it speaks of."""
    return {} if table.people is None else {"unit": "person", "people_key": KEY}


def people_of(table: Example) -> int:
    """How many have a coin of their own: people, or rows."""
    return table.n_records if table.people is None else len(np.unique(table.people))


def model_of(fitted: object, table: Example) -> dict[str, object]:
    """All that a fitted learner holds and says, comparable."""
    probes = table_probes(table)
    found = facts_of(fitted, probes)
    found["its outputs"] = outputs(fitted, probes).tobytes()
    return found


def rows_in(data: Dataset) -> Counter[bytes]:
    """The encoded rows behind a handle, and how often each is there."""
    vault: Vault = _vault_of(data._vault)
    with vault.open(Pass(vault.identity, vault._guardian)) as rows:
        assert isinstance(rows, Rows)
        columns = [*rows.features.arrays, *([] if rows.target is None else [rows.target])]
        table = np.stack([np.asarray(one, dtype=np.float64) for one in columns], axis=1)
    return Counter(row.tobytes() for row in table)


def grant_of(session: GrantedPlan) -> Grant:
    """What became of one grant."""
    state = session._history.full().grants[session.grant]
    found = Grant(session.plan, status=state.status, trial=isinstance(session, Branch))
    found.charge, found.items = state.charged, state.releases
    log = session._inside.log
    nodes, columns = list(log._nodes), log.columns()
    found.tunings = tuple(int(cells) for place, cells in zip(
        columns["node"], columns["cells"], strict=True) if isinstance(nodes[place][1], Tuning))
    for scope, spend in session._inside.spends._taken.values():
        found.vectors.append((scope, spend.taken().copy(), spend.rounds.copy()))
    return found
