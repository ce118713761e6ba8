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
from privledger.ledger.checkpoint import remembered_receipt
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
from privledger.ledger.view import NOT_PRIVATE, Comparison, View, Vouched, lines_of
from privledger.ledger.view_charges import (
    ChargeFigures,
    TableSpend,
    charges_of,
    fullness,
    kinds_of,
    plan_or_none,
    table_spends,
    total_of,
)
from privledger.ledger.view_figures import CHOSEN, Amount, Figure
from privledger.numerals import many
from privledger.reports.receipt import Past

# One verdict about a ledger, said in one line by `show`, `verify` and the page.
#
# The line says whether the total is within the budget; how many unverified claims it rests on;
# whether the noise was simulated; and which receipt the history was compared with. It is good only
# where nothing is owed. What an unverified claim is, and what counts as none: docs/auditors.md.

GOOD, OPEN, BAD = "good", "open", "bad"
OVER = "never-over-the-cap"
"""The rule that an overspent ledger breaks, by corrections above all."""
_DIGITS = 4
_COUNTED = "it counted"


@frozen
class Clause:
    """A part of the line.

    Attributes:
        text: without a full stop.
        level: `GOOD`, `OPEN` (somebody owes something, or nobody looked), or `BAD`.
    """

    text: str
    level: str


@frozen
class LedgerVerdict:
    """What is to be said about a ledger, whoever says it.

    Attributes:
        findings: what an audit, or a comparison with a receipt, found.
        spent: epsilon of everything spent or reserved. budget, delta: as they were promised.
        simulated: seeded noise was used.
        answers: how many releases there are. vouched: the unverified claims.
        compared: with which receipt, of when; or with none.
        repriced: every plan was priced again; if not, the totals are the ledger's own, and
            answers were not counted.
        publishable: how many answers there were may depend on the rows, and is not said.
        trusting: whether a price rests on other owners' keeping their noise to themselves.
    """

    findings: tuple[Finding, ...]
    spent: Figure
    budget: Figure
    delta: Figure
    simulated: bool
    answers: int
    vouched: Vouched
    compared: Comparison
    repriced: bool = True
    publishable: bool = False
    trusting: bool = False

    @property
    def over(self) -> bool:
        """Whether the only fault is that more was spent than promised."""
        return bool(self.findings) and all(one.rule == OVER for one in self.findings)

    @property
    def word(self) -> str:
        """The verdict in two words."""
        if self.findings:
            return "OVER BUDGET" if self.over else "NOT TRUSTED"
        return NOT_PRIVATE if self.simulated else "within budget"

    @property
    def clauses(self) -> tuple[Clause, ...]:
        """The line, part by part, the worst first."""
        found = [self._budget()]
        if self.simulated:
            bad = Clause(f"{NOT_PRIVATE}: simulation with seeded noise, which protects "
                         "no person", BAD)
            found.insert(1 if self.findings else 0, bad)
        elif not self.findings:
            found.append(Clause("not simulated", GOOD))
        if not self.findings or self.over:
            found += [self._priced(), self._word(), *self._trust()]
        known = self.compared.kind != "nothing"
        return (*found, Clause(self.compared.text, GOOD if known else OPEN))

    @property
    def level(self) -> str:
        """`GOOD` only where nothing is owed. The comparison has its own: its clause's level."""
        levels = {one.level for one in self.clauses[:-1]}
        return BAD if BAD in levels else OPEN if OPEN in levels else GOOD

    @property
    def status(self) -> tuple[Clause, ...]:
        """What holds and what does not, without figures; `attention` has the rest of the line."""
        first, *rest = self.clauses
        whole = Clause(first.text.partition(": epsilon ")[0], first.level)
        return (whole, *(one for one in rest if one.level != OPEN))

    @property
    def attention(self) -> tuple[Clause, ...]:
        """What an auditor still has to look at: every open clause but the first."""
        return tuple(one for one in self.clauses[1:] if one.level == OPEN
                     and not one.text.startswith(_COUNTED))

    @property
    def text(self) -> str:
        """The line: one sentence per clause."""
        return " ".join(f"{sentence(one.text)}." for one in self.clauses)

    def as_dict(self) -> dict[str, Any]:
        """JSON values; what is not said of a publishable page is None."""
        vouched, said = self.vouched, not self.publishable
        return {"verdict": self.word, "line": self.text, "level": self.level,
                "simulated": self.simulated, "answers": self.answers if said else None,
                "vouched_answers": vouched.answers if said else None,
                "vouched_grants": vouched.grants if said else None,
                "vouched": list(vouched.words) if said else None,
                "trusting": self.trusting, "repriced": self.repriced,
                "comparison": self.compared.as_dict()}

    def _budget(self) -> Clause:
        spent = (f"epsilon {self.spent.text(_DIGITS)} of {self.budget.text()} spent at delta "
                 f"{self.delta.text()}")
        found = many(len(self.findings), "finding")
        if self.over:
            return Clause(f"OVER BUDGET: {spent}. {found}", BAD)
        if self.findings:
            return Clause(f"NOT TRUSTED: {found}. Nothing below is certain", BAD)
        if self.simulated:  # nobody is protected by it, so it keeps to no budget
            return Clause(f"{_COUNTED} {spent}", OPEN)
        if self.repriced:
            return Clause(f"within budget: {spent}", GOOD)
        return Clause(f"within budget by its own totals: {spent}", OPEN)

    def _priced(self) -> Clause:
        if self.repriced:
            what = "everything" if self.publishable else "every entry"
            return Clause(f"{what} was re-read and re-priced", GOOD)
        return Clause("every hash was checked, but NOTHING was re-priced: use privledger verify, "
                      "or show --all", OPEN)

    def _trust(self) -> list[Clause]:
        return [Clause("part of the price relies on other owners to keep their noise "
                       "secret", OPEN)] if self.trusting else []

    def _word(self) -> Clause:
        vouched = self.vouched
        if not self.repriced:
            return Clause("unverified claims were not counted", OPEN)
        if vouched.grants and self.publishable:
            return Clause("part of it rests on unverified claims", OPEN)
        if not vouched.grants:
            return Clause("no unverified claims", GOOD)
        if not vouched.answers:
            return Clause(f"unverified claims: the price of {many(vouched.grants, 'grant')}",
                          OPEN)
        return Clause(f"unverified claims: {vouched.answers} of "
                      f"{many(self.answers, 'answer')}, under {many(vouched.grants, 'grant')}",
                      OPEN)


def sentence(clause: str) -> str:
    """With a capital letter."""
    return clause[:1].upper() + clause[1:]


def verdict_of(view: View, findings: Sequence[Finding], *, repriced: bool = True,
               publishable: bool = False) -> LedgerVerdict:
    """Of a ledger that was read with its entries.

    Args:
        findings: of its audit, and of a comparison. repriced, publishable: as in `LedgerVerdict`.
    """
    epsilon, delta = view.promised
    answers = sum(line.count for lines in view.releases.values() for line in lines)
    return LedgerVerdict(tuple(findings), view.spent, epsilon, delta, view.simulated, answers,
                   view.asserted, view.compared, repriced, publishable, view.trusting)


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
class Facts:
    """What the gate looks at: of a ledger, or of a plan before data exist.

    Attributes:
        epsilon, delta: spent, reserved or asked for, by the ledger's own filter.
        relation: what they are stated for.
        learners: names that grants were given to.
        mechanisms: node types that spend.
        asserted: descriptions of asserted nodes and queries: unverified claims.
        simulated: seeded noise.
        refusal: why the run's own ledger would refuse the plan; empty if it would not.
        isolation: how learners were kept from the rows.
        windows: periods that were opened.
        budget_delta: the delta that is promised.
        data: what single tables lose, and how many rows they declare.
        unit: whom the promise is about.
        trusts: what plans of federations ask to believe.
        alone: the dearest of these plans, in epsilon, if every other party gives its noise away.
        outside: libraries, with their versions, whose runs were charged.
        asked: epsilon of a plan by itself; None of a ledger. before: what was spent without it.
    """

    epsilon: float
    delta: float
    relation: str
    learners: tuple[str, ...]
    mechanisms: tuple[str, ...]
    asserted: tuple[str, ...] = ()
    simulated: bool = False
    refusal: str = ""
    isolation: tuple[str, ...] = ()
    windows: tuple[str, ...] = ()
    budget_delta: float = 0.0
    data: tuple[TableSpend, ...] = ()
    unit: str = "row"
    trusts: tuple[Trust, ...] = ()
    alone: float = 0.0
    outside: tuple[tuple[str, str], ...] = ()
    asked: float | None = None
    before: float = 0.0


@frozen
class Survey:
    """A ledger in a few numbers, and every fault of it.

    Attributes:
        past: what can be compared with a receipt.
        facts: what a policy is compared with; learners and levels of isolation in the order they
            first came. epsilon: the budget's.
        live: whether anything was granted and not handed back.
        answers: how many releases there are. vouched: all unverified claims, external runs too.
        noise: where it came from. receipt: the head; None if there is a finding.
        unverified: what it rests on, alike grants together.
        full: share of the budget, and of each cap, that is gone, in units.

    With a finding, the numbers are those of an account that cannot be trusted, or missing.
    """

    findings: tuple[Finding, ...]
    past: Past
    facts: Facts = Facts(0.0, 0.0, "", (), ())
    live: bool = False
    epsilon: float = 0.0
    answers: int = 0
    vouched: Vouched = field(factory=Vouched)
    noise: tuple[str, ...] = ()
    policy: Policy | None = None
    receipt: dict[str, Any] | None = None
    full: tuple[tuple[str, Figure], ...] = ()
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
        facts = self.facts
        return LedgerVerdict(
            tuple(findings), Figure(facts.epsilon), Figure(self.epsilon, direction=CHOSEN),
            Figure(facts.budget_delta, "delta", CHOSEN), facts.simulated, self.answers,
            self.vouched, compared, trusting=any(one.noise == "shared" for one in facts.trusts))


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
    facts = Facts(
        total.epsilon.value, total.delta.value, state.relation, tuple(seen.learners),
        tuple(dict.fromkeys([*plans, *seen.released])), tuple(dict.fromkeys(asserted)),
        state.mode != "private" or any(NOT_PRIVATE in text for text in seen.noise),
        isolation=tuple(seen.isolation), windows=state.opened, budget_delta=state.budget.delta,
        data=table_spends(charges, state.rule, seen.rows), unit=state.unit,
        trusts=tuple(dict.fromkeys(one for plan in seen.federated for one in trusts(plan))),
        alone=alone_epsilon(seen.federated, state.relation, state.budget.delta),
        outside=tuple(seen.outside))
    grants = seen.vouched.keys() | seen.external.keys() | seen.with_word
    return Survey(
        tuple(findings), seen.past, facts, any(not one.handed_back for one in charges),
        state.budget.epsilon, seen.answers,
        Vouched(seen.on_word, len(grants), tuple(dict.fromkeys(claims))), tuple(seen.noise),
        state.policy, None if findings else remembered_receipt(state).as_dict(), fullness(state),
        seen.unverified())


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
