"""What `check` and `verify` need to know of a ledger, gathered in the audit's own single pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeAlias

from attrs import asdict, evolve, field, frozen

from privledger.findings import Finding
from privledger.graph import Federated, Node, Trust, holds, trusts
from privledger.ledger import FilterRule, Policy, State, Store, asserted_kinds
from privledger.ledger.auditing import audit_along
from privledger.ledger.checkpoint import receipt_of
from privledger.ledger.codec_lines import Asked, LineOf, asked
from privledger.ledger.events import (
    Aborted,
    Corrected,
    Created,
    Granted,
    Protected,
    Released,
    ScopeOpened,
    Settled,
)
from privledger.ledger.origins import alone_epsilon, claims_of, library_of, outside_of
from privledger.ledger.view import NOT_PRIVATE, Vouched
from privledger.ledger.view_charges import (
    ChargeFigures,
    TableSpend,
    charges_of,
    kinds_of,
    table_spends,
    total_of,
)
from privledger.ledger.view_compared import Comparison
from privledger.ledger.view_figures import CHOSEN, Amount, Figure
from privledger.ledger.view_forecast import fullness
from privledger.ledger.view_plans import plan_or_none
from privledger.ledger.view_releases import lines_of
from privledger.numerals import many
from privledger.reports.receipt import Past
from privledger.reports.verdict import LedgerVerdict


@frozen
class Unverified:
    """Grants or scopes that rest on the same unverified claim.

    Attributes:
        claim: what nobody proved. name: of the first one. grants: how many.
        library, labels, isolation: where from; as in the entry.
    """

    claim: str
    name: str
    learner: str = ""
    table: str = ""
    library: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    isolation: str = ""
    grants: int = 1

    @property
    def text(self) -> str:
        """In one line, with everything that the entry says about it."""
        own = ("library", "version") if self.library else ()
        labels = ", ".join(f"{key}={word}" for key, word in sorted(self.labels) if key not in own)
        several = "" if self.grants == 1 else f", the first of {many(self.grants, 'grant')}"
        return "; ".join([f"{self.claim} in {self.name}{several}", *(
            f"{what} {said}" for what, said in (
                ("learner", self.learner), ("table", self.table), ("labels", labels),
                ("isolation", self.isolation)) if said)])

    def as_dict(self) -> dict[str, object]:
        """JSON values."""
        return asdict(self) | {"labels": dict(self.labels)}


@frozen
class Survey:
    """A ledger in a few numbers, and every fault of it.

    Attributes:
        past: what can be compared with a receipt.
        live: whether anything was granted and not handed back.
        learners, isolation: of grants, in the order they first came. outside: libraries and
            versions of runs elsewhere.
        mechanisms: node types that plans reserved or releases named.
        asserted: asserted nodes and queries, for the policy's `allow_asserted`.
        spent, spent_delta, relation, delta: as the ledger's filter adds up. epsilon: the budget's.
        answers: how many releases there are. vouched: all unverified claims, external runs too.
        noise: where it came from. private: none of it was simulated.
        receipt: the head; None if there is a finding.
        trusts, alone: what plans of federations ask to believe, and the dearest of them alone.
        unverified: what it rests on, alike grants together.
        full: share of the budget, and of each cap, that is gone, in units.

    With a finding, the numbers are those of an account that cannot be trusted, or missing.
    """

    findings: tuple[Finding, ...]
    past: Past
    live: bool = False
    relation: str = ""
    spent: float = 0.0
    spent_delta: float = 0.0
    epsilon: float = 0.0
    delta: float = 0.0
    answers: int = 0
    vouched: Vouched = field(factory=Vouched)
    learners: tuple[str, ...] = ()
    isolation: tuple[str, ...] = ()
    outside: tuple[tuple[str, str], ...] = ()
    mechanisms: tuple[str, ...] = ()
    asserted: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()
    private: bool = False
    tables: tuple[TableSpend, ...] = ()
    windows: tuple[str, ...] = ()
    policy: Policy | None = None
    receipt: dict[str, Any] | None = field(default=None)
    unit: str = "row"
    full: tuple[tuple[str, Figure], ...] = ()
    trusts: tuple[Trust, ...] = ()
    alone: float = 0.0
    unverified: tuple[Unverified, ...] = ()

    @property
    def trusted(self) -> bool:
        """Whether an audit found no fault."""
        return not self.findings

    def verdict(self, findings: Sequence[Finding], compared: Comparison) -> LedgerVerdict:
        """What every surface says first about it.

        Args:
            findings: of the audit, and of the comparison.
        """
        return LedgerVerdict(tuple(findings), Figure(self.spent),
                       Figure(self.epsilon, direction=CHOSEN),
                       Figure(self.delta, "delta", CHOSEN),
                       bool(self.relation) and not self.private, self.answers,
                       self.vouched, compared,
                       trusting=any(one.noise == "shared" for one in self.trusts))


def survey(store: Store, at: int = 0, head: str | None = None) -> Survey:
    """Audit `store` and sum it up: everything is read once and parsed once at most.

    Args:
        at: number of entries that a receipt saw. head: a hash that should be there.
    """
    findings, state, seen = audit_along(store, lambda: _Watch(Past(at, head)))
    if state is None or state.budget is None:
        return Survey(tuple(findings), seen.past)
    charges = seen.charges(state)
    total = total_of(state)
    plans = [kind for one in charges for kind in one.mechanisms or ()]
    asserted = [*seen.asserted, *(text for name, kinds in seen.vouched.items()
                                  for text in claims_of(name, kinds, ""))]
    claims = [*asserted, *(text for name, library in seen.external.items()
                           for text in claims_of(name, (), library))]
    return Survey(
        tuple(findings), seen.past, live=any(not one.handed_back for one in charges),
        relation=state.relation, spent=total.epsilon.value, spent_delta=total.delta.value,
        epsilon=state.budget.epsilon, delta=state.budget.delta, answers=seen.answers,
        vouched=Vouched(
            seen.on_word, len(seen.vouched.keys() | seen.external.keys() | seen.with_word),
            tuple(dict.fromkeys(claims))),
        learners=tuple(seen.learners), isolation=tuple(seen.isolation),
        outside=tuple(seen.outside),
        mechanisms=tuple(dict.fromkeys([*plans, *seen.released])),
        asserted=tuple(dict.fromkeys(asserted)), noise=tuple(seen.noise),
        private=state.mode == "private" and not any(NOT_PRIVATE in text for text in seen.noise),
        tables=table_spends(charges, state.rule, seen.rows),
        windows=state.opened, policy=state.policy,
        receipt=None if findings else receipt_of(state).as_dict(), unit=state.unit,
        full=fullness(state),
        trusts=tuple(dict.fromkeys(one for plan in seen.federated for one in trusts(plan))),
        alone=alone_epsilon(seen.federated, state.relation, state.budget.delta),
        unverified=seen.unverified())


@frozen
class _Like:
    """What grants have in common that differ in names, times and tables only."""

    learner: str
    labels: tuple[tuple[str, str], ...]
    isolation: str
    window: str | None
    delta: float
    kinds: tuple[str, ...]
    units: int
    delta_units: int


_Alike: TypeAlias = tuple[str, int]
"""A table, and the place of what its grants have in common."""


class _Watch:
    """Goes along with an audit. What was seen once of a form is not looked at again."""

    def __init__(self, past: Past) -> None:
        self.past, self.row = past, past.row
        self.learners: dict[str, None] = {}
        self.isolation: dict[str, None] = {}
        self.outside: dict[tuple[str, str], None] = {}
        self.released: dict[str, None] = {}
        self.asserted: dict[str, None] = {}
        self.vouched: dict[str, tuple[str, ...]] = {}  # grant or scope -> kinds of its plan
        self.external: dict[str, str] = {}  # grant -> library and version of an external run
        self.noise: dict[str, None] = {}
        self.rows: dict[str, int | None] = {}
        self._grants: Counter[_Alike] = Counter()
        self._back: Counter[_Alike] = Counter()
        self._likes: dict[_Like, int] = {}
        self._open: dict[str, _Alike] = {}
        self._forms: dict[int, tuple[int, tuple[str, ...]]] = {}
        self.federated: dict[Node, None] = {}
        self.origins: dict[str, _Alike] = {}  # of grants with an unverified claim
        self.answers = self.on_word = 0
        self.with_word: set[str] = set()  # grants with an asserted answer
        self._known: dict[Asked, tuple[int, int]] = {}  # answers, and asserted ones

    def charges(self, state: State) -> tuple[ChargeFigures, ...]:
        """Tallies of the grants that a compact state has forgotten, and every other charge."""
        kept = charges_of(state)
        grants, back = self._grants.copy(), self._back.copy()
        for one in kept:
            place = self._likes.get(_like(one.event)) if isinstance(one.event, Granted) else None
            if place is not None:  # or this watch failed, which is a finding
                alike = one.table, place
                grants[alike] -= 1
                back[alike] -= isinstance(one.end, Aborted) and one.end.gives_back
            if one.corrections:  # what was asserted is what it was really
                self.vouched.pop(one.name, None)
                self._vouch(one.name, one.asserted)
        likes = list(self._likes)
        found = []
        for (table, place), granted in grants.items():
            handed = back.get((table, place), 0)
            if granted > handed:
                found.append(_tally(table, likes[place], state.rule, granted - handed))
            if handed:
                found.append(_tally(table, likes[place], state.rule, handed, back=True))
        return (*found, *kept)

    def unverified(self) -> tuple[Unverified, ...]:
        """The claims, grants with the same origin together."""
        likes, found = list(self._likes), dict[Unverified, Unverified]()
        for name in {**self.vouched, **self.external, **dict.fromkeys(sorted(self.with_word))}:
            library, kinds = self.external.get(name, ""), self.vouched.get(name, ())
            claims = [*dict.fromkeys(kinds), *([f"external run of {library}"] if library else []),
                      *(["an asserted answer"] if name in self.with_word else [])]
            one = Unverified(", ".join(claims), "", library=library)
            if name in self.origins:
                table, place = self.origins[name]
                like = likes[place]
                one = evolve(one, learner=like.learner, table=table, labels=like.labels,
                             isolation=like.isolation)
            known = found.get(one)
            found[one] = evolve(one, name=name) if known is None else evolve(
                known, grants=known.grants + 1)
        return tuple(found.values())

    def on_created(self, line: LineOf[Created], state: State | None) -> tuple[()]:
        self.past.created(line.event)
        self._noise(line.event.noise)
        return ()

    def on_protected(self, line: LineOf[Protected], state: State | None) -> tuple[()]:
        event = line.event
        self.rows[event.data] = event.rows
        return ()

    def on_scope(self, line: LineOf[ScopeOpened], state: State | None) -> tuple[()]:
        self.past.moved()
        event = line.event
        self._believe(event.plan)
        self._vouch(event.scope, tuple(asserted_kinds(kinds_of(event.plan) or ())))
        return ()

    def on_granted(self, line: LineOf[Granted], state: State | None) -> tuple[()]:
        self.past.moved()
        event = line.event
        found = None if line.form is None else self._forms.get(line.form)
        if found is None:
            found = self._granted(event)
            if line.form is not None:
                self._forms[line.form] = found
        alike = event.data, found[0]
        self._vouch(event.grant, found[1])
        library = library_of(event)
        if library:
            self.external[event.grant] = library
        if library or found[1]:
            self.origins[event.grant] = alike
        self._open[event.grant] = alike
        self._grants[alike] += 1
        return ()

    def _granted(self, event: Granted) -> tuple[int, tuple[str, ...]]:
        """What all grants of a form have in common, and what of it is vouched for."""
        like = _like(event)
        self._believe(event.plan)
        self.learners[event.learner] = None
        self.isolation[event.isolation] = None
        self.outside.update(dict.fromkeys(outside_of(event)))
        return self._likes.setdefault(like, len(self._likes)), tuple(asserted_kinds(like.kinds))

    def on_released(self, line: LineOf[Released], state: State | None) -> tuple[()]:
        named = asked(line)
        counts = None if named is None else self._known.get(named)
        if counts is None:
            counts = self._released(line.event)
            if named is not None:
                self._known[named] = counts
        self.answers += counts[0]
        if counts[1]:
            self.on_word += counts[1]
            self.with_word.add(line.event.grant)
            alike = self._open.get(line.event.grant)
            if alike is not None:
                self.origins.setdefault(line.event.grant, alike)
        return ()

    def _released(self, event: Released) -> tuple[int, int]:
        """How many answers these are, and how many of them are asserted."""
        self._noise(event.noise)
        lines = lines_of([event])
        self.released |= dict.fromkeys(sorted({one.kind for one in lines}))
        self.asserted |= {f"{one.mechanism}: {one.question}": None
                          for one in lines if one.asserted}
        return sum(one.count for one in lines), sum(one.count for one in lines if one.vouched)

    def on_settled(self, line: LineOf[Settled], state: State | None) -> tuple[()]:
        self._open.pop(line.event.grant, None)
        return ()

    def on_aborted(self, line: LineOf[Aborted], state: State | None) -> tuple[()]:
        event = line.event
        alike = self._open.pop(event.grant, None)
        if event.gives_back:
            self.past.moved()
            if alike is not None:
                self._back[alike] += 1
        return ()

    def on_corrected(self, line: LineOf[Corrected], state: State | None) -> tuple[()]:
        self.past.moved()
        self._believe(line.event.plan)
        return ()

    def _believe(self, plan: object) -> None:
        """Keep a plan that ran in a federation."""
        found = None if plan is None else plan_or_none(plan)
        if found is not None and holds(found, Federated):
            self.federated[found] = None

    def _vouch(self, name: str, kinds: tuple[str, ...]) -> None:
        if kinds:
            self.vouched[name] = kinds

    def _noise(self, text: object) -> None:
        if text:
            self.noise[str(text)] = None


def _like(event: Granted) -> _Like:
    return _Like(event.learner, tuple(event.labels.items()), event.isolation, event.window,
                 event.delta, kinds_of(event.plan) or (), event.units, event.delta_units)


def _tally(table: str, like: _Like, rule: FilterRule | None, granted: int, *,
           back: bool = False) -> ChargeFigures:
    """So many grants that are alike, and not kept by name; `back` if they were handed back."""
    counted = 0 if back else granted
    return ChargeFigures(
        "", -1, "grant", "aborted" if back else "settled",
        Amount(like.units * counted, like.delta_units * counted, rule),
        Amount(like.units, like.delta_units, rule), table,
        (like.learner,) if like.learner else (), like.kinds, like.labels, like.window,
        delta=like.delta, grants=granted)
