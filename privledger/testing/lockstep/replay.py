"""One fit of a lock: a learner on a table of the kit, through a tap, with forced answers.

Nothing inside the guard is replaced but its source of noise. What the learner is handed is
exchanged by an observer, where it leaves the guard.
"""

from __future__ import annotations

import copy
import pickle
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from functools import cache
from hashlib import blake2b
from types import ModuleType
from typing import Any

import attrs
import numpy as np
from attrs import Factory, define, field

from privledger.accounting import Relation
from privledger.errors import public_name
from privledger.graph import Context, Node, Tuning, canonical
from privledger.guard import Ledger
from privledger.guard.dataset import Dataset
from privledger.guard.inside import Observer, _observing
from privledger.guard.service import LedgerService
from privledger.guard.session import Branch, GrantedPlan
from privledger.guard.vault import Pass, Vault, _vault_of
from privledger.ledger import Budget
from privledger.ledger.codec import encode
from privledger.ledger.events import Chain
from privledger.ledger.log import ReleaseLog
from privledger.noise.seeded import Generator, generator, repeatable
from privledger.plugins import Priced
from privledger.questions.score import Score
from privledger.standalone.build import one_file
from privledger.tables.chunk import Rows
from privledger.tables.person_keys import PeopleKey
from privledger.tables.schema import Schema
from privledger.testing.examples import Example
from privledger.testing.fitting import (
    Way,
    delta_of,
    fitted_on,
    fresh,
    outputs,
    protect_example,
    recording,
)
from privledger.testing.lockstep.kept import (
    Added,
    Broken,
    Grant,
    GroupSizes,
    RecordedRun,
    Release,
)
from privledger.testing.lockstep.naming import counted_groups
from privledger.testing.lockstep.sampling import counted_sample
from privledger.testing.lockstep.shown import watched
from privledger.testing.lockstep.tap import Steering, Tap
from privledger.testing.structure import table_probes
from privledger.testing.taint import walk

# Digests of questions: equal for equal questions of two runs, whatever handles were called.
#
# Handles carry tokens from a counter of the process; they are numbered by first appearance here.
# Objects that several questions share are told once, and what is added to a score, once each.

_SKIPPED = ("seal", "key", "cache")


@define(eq=False)
class Digester:
    """Of one run. Everything that was told is kept alive, so that no identity is used twice."""

    _seen: dict[int, tuple[int, object]] = field(init=False, factory=dict)
    _tokens: dict[str, int] = field(init=False, factory=dict)
    _told: Counter[int] = field(init=False, factory=Counter)

    def of(self, *values: object) -> bytes:
        """What these say, 16 bytes."""
        found = blake2b(digest_size=16)
        for piece in self._pieces(values):
            found.update(piece)
        return found.digest()

    def _pieces(self, value: object) -> Iterator[bytes]:
        if value is None or isinstance(value, str | bytes | bool | int | float | complex | slice):
            yield repr(value).encode() + b";"
        elif isinstance(value, np.ndarray | np.generic):
            array = np.asarray(value)
            plain = array.tobytes() if array.dtype != object else repr(array.tolist()).encode()
            yield f"{array.dtype}{array.shape}".encode() + plain
        elif isinstance(value, Context):
            token = self._tokens.setdefault(value.token, len(self._tokens))
            yield repr(attrs.evolve(value, token=str(token))).encode()
        elif isinstance(value, dict):
            yield from self._pieces(list(value.items()))
        elif isinstance(value, tuple | list):
            yield f"[{len(value)}".encode()
            for item in value:
                yield from self._pieces(item)
        else:
            fresh = id(value) not in self._seen
            known, _ = self._seen.setdefault(id(value), (len(self._seen), value))
            yield f"{type(value).__name__}{known}".encode()
            if fresh or isinstance(value, Score):
                yield from self._pieces(self._held(value, fresh))

    def _held(self, value: Any, fresh: bool) -> tuple[object, ...]:
        """What an object is made of, the first time; of a running score also what was added since
        it was last asked of."""
        if isinstance(value, Score):
            news = value.updates(self._told[id(value)])
            self._told[id(value)] += len(news)
            return (*((value.loss, value.start, value.center, value.scale) if fresh else ()), news)
        if isinstance(value, Schema):
            return (repr(value),)
        if attrs.has(type(value)):
            return tuple(getattr(value, one.name, None) for one in attrs.fields(type(value))
                         if one.name not in _SKIPPED)
        code = getattr(value, "__code__", None)  # of a function: this, and what it closes over
        held = [*(getattr(value, "__defaults__", None) or ()),
                *(cell.cell_contents for cell in getattr(value, "__closure__", None) or ())]
        return (b"" if code is None else code.co_code, getattr(code, "co_names", ()), tuple(
            item for item in held
            if isinstance(item, str | bool | int | float | np.ndarray | np.generic | tuple)))


# The histories of a lock's runs: alike in every world, and right to a second reader.

_NAMED = re.compile(r"\b(allocation|grant|data|scope|filter|sample|parts?|partition)-[0-9a-f]+")
_OTHER_EACH_TIME = ("time", "uuid", "holder", "vector", "lease", "members", "people")


def history_of(ledger: LedgerService) -> str:
    """What a history says, without times and names that are new in every run.

    Who is in a table and what a record spent are confidential: kept apart, by a hash that is
    left out here.
    """
    names: dict[str, str] = {}

    def numbered(found: re.Match[str]) -> str:
        return names.setdefault(found.group(), f"{found.group(1)}-{len(names)}")

    lines = []
    for entry in ledger._history.store.read():
        held = {key: value for key, value in encode(entry.event).items()
                if key not in _OTHER_EACH_TIME}
        lines.append(_NAMED.sub(numbered, canonical({"kind": entry.event.kind, "body": held})))
    return "\n".join(lines)


@cache
def second_reader() -> ModuleType:
    """The stand-alone verifier, as its one file: it shares no code with the package."""
    found = ModuleType("verify_history")
    exec(compile(one_file(), "verify_history.py", "exec"), vars(found))
    return found


def reread(ledger: LedgerService) -> Iterator[Broken]:
    """P7: both verifiers find nothing wrong with a history, and price it again."""
    for finding in ledger.verify()[:1]:
        yield Broken("P7", -1, f"the history does not verify: {finding.message}")
    store, book = ledger._history.store, second_reader().Book()
    for entry in store.read():
        line = {"position": entry.position, "kind": entry.event.kind, "body": encode(entry.event),
                "previous": entry.previous, "hash": entry.hash}
        book.take(canonical(line).encode("ascii"))
    book.finish(store.vector)
    for _, text in book.faults[:1]:
        yield Broken("P7", -1, f"a second reader finds the history wrong: {text}")


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
    counted: list[GroupSizes] = field(factory=list)

    def opened(self, ledger: object) -> None:
        """Every ledger made meanwhile draws from the tap."""
        assert isinstance(ledger, LedgerService)
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
        counted = len(self.counted)
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
            one.counted = self.counted[counted:]
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
        mode: of the ledgers.
    """

    learner: Priced
    relation: Relation
    plain: bool = False
    seed: int = 0
    mode: str = field(default=Factory(lambda self: "private" if self.plain else "simulation",
                                      takes_self=True))

    @property
    def delta(self) -> float:
        """What the learner claims beside its epsilon."""
        return delta_of(self.learner)

    def run(self, table: Example, recorder: Recorder, *, again: bool = False) -> RecordedRun:
        """One fit. An error of the fit is part of what is seen.

        Args:
            again: whether both verifiers read the histories, too.
        """
        tap, run = recorder.tap, RecordedRun(
            table.n_records, people_of(table), table.people is not None)
        watching = watched(recorder.added) if tap.quiet else nullcontext()
        with (repeatable(self.seed), _observing(recorder), watching, counted_sample(run.samples),
              counted_groups(recorder.counted), recording() as asked):
            try:
                fitted = self.fitted(table)
            except Exception as error:
                run.failed = public_name(type(error))
            else:
                run.model = model_of(fitted, table)
        run.releases = recorder.releases
        within = {id(draw) for one in run.releases for draw in one.draws}
        run.parted = tap.parted
        run.outside = [draw for draw in tap.draws if id(draw) not in within]
        run.grants = [grant_of(one) for one in recorder.grants]
        idle = [one for one in asked.sessions if all(one is not seen for seen in recorder.grants)]
        run.idle = [grant_of(one) for one in idle]
        run.spent = sum(ledger.spent for ledger in asked.ledgers)
        run.ledgers = asked.ledgers
        run.arrived = [rows_in(data) for data in recorder.tables] if self.plain else []
        run.histories = [history_of(ledger) for ledger in asked.ledgers]
        run.wrong = [found for ledger in asked.ledgers for found in reread(ledger)] if again else []
        return run

    def fitted(self, table: Example) -> Any:
        """A fit on a ledger for one such fit; or on the plain table."""
        if self.plain:
            return Way("on a plain table", True, self.learner).fit(table)
        learner = fresh(self.learner)
        ledger = self.ledger(table, Budget(float(learner.epsilon) * AMPLE, self.delta))
        return fitted_on(learner, protect_example(ledger, table))

    def ledger(self, table: Example, budget: Budget, **named: Any) -> Ledger:
        """A ledger in memory for a table, of rows or of people."""
        if table.people is not None:
            named |= {"unit": "person", "people_key": KEY}
        return Ledger.create(None, budget=budget, relation=self.relation, mode=self.mode,
                             seed=0 if self.mode == "simulation" else None, **named)


def fresh_words(rng: Generator) -> Generator:
    """Words of a run of its own."""
    return generator(int(rng.integers(0, 1 << 62)))


def replays(fitting: Fitting, table: Example, rng: Generator, *, reread: bool = False
            ) -> tuple[RecordedRun, Callable[..., RecordedRun]]:
    """A recorded fit, and what makes fits on any table that are handed its answers.

    Args:
        reread: whether both verifiers read its histories.
    """
    tap = Tap(fresh_words(rng), Steering(uniform=0.5))
    real = fitting.run(table, Recorder(tap), again=reread)

    def again(other: Example, *, shared: bool = True) -> RecordedRun:
        script = tuple(tap.draws)
        return fitting.run(other, Recorder(Tap(fresh_words(rng), script=script, shared=shared),
                                           real.answers))

    return real, again


def steady_of(one: RecordedRun, again: RecordedRun) -> frozenset[str]:
    """What repeats between two fits on one table: not times, or names of grants."""
    return frozenset(path for path, value in one.model.items()
                     if again.model.get(path) == value) | {"its outputs"}


def people_of(table: Example) -> int:
    """How many have a coin of their own: people, or rows."""
    return table.n_records if table.people is None else len(np.unique(table.people))


def model_of(fitted: Any, table: Example) -> dict[str, object]:
    """All that a fitted learner holds and says, comparable."""
    found: dict[str, object] = {"its outputs": outputs(fitted, table_probes(table)).tobytes()}
    for path, value in walk(fitted):
        plain = value.tobytes() if isinstance(value, np.ndarray | np.generic) else repr(value)
        found[path] = (found.get(path), plain)
    with suppress(Exception):  # another check says that it must pickle
        found["its pickle"] = pickle.dumps(fitted)
    return found


def rows_in(data: Dataset) -> Counter[bytes]:
    """The encoded rows behind a handle, and how often each is there."""
    vault: Vault = _vault_of(data._vault)
    with vault.open(Pass(vault.identity, vault._guardian)) as rows:
        assert isinstance(rows, Rows)
        texts = [[(*key.names, "")[code] for code in key.codes]  # -1, for none, is the last
                 for key in rows.features.keys.values()]
        columns = [*rows.features.arrays, *([] if rows.target is None else [rows.target])]
        table = np.stack([np.asarray(one, dtype=np.float64) for one in columns], axis=1)
    return Counter(row.tobytes() + repr(told).encode()
                   for row, *told in zip(table, *texts, strict=True))


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
