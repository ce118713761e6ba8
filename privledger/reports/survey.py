"""What `check` and `verify` need to know of a ledger, gathered in the audit's own single pass."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import asdict, evolve, field, frozen

from privledger.findings import Finding
from privledger.graph import Node, Trust, canonical, from_json, to_json, trusts
from privledger.ledger import Policy, State, Store
from privledger.ledger.auditing import audit_along, audit_on
from privledger.ledger.checkpoint import Packed, remembered_receipt
from privledger.ledger.codec_lines import LineOf
from privledger.ledger.entries import parse_body
from privledger.ledger.epochs import SealedStretch, find_epoch, seal_epoch
from privledger.ledger.events import Aborted, Corrected, Created, Granted, ScopeOpened
from privledger.ledger.origins import alone_epsilon, claims_of
from privledger.ledger.view import NOT_PRIVATE, Comparison, Gatherer, View, Vouched
from privledger.ledger.view_charges import (
    ChargeFigures,
    TableSpend,
    fullness,
    plan_or_none,
    said_or_none,
)
from privledger.ledger.view_figures import CHOSEN, Figure
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
        level: `GOOD`, `OPEN` (something is owed, or was not checked), or `BAD`.
    """

    text: str
    level: str


@frozen
class LedgerVerdict:
    """What is to be said about a ledger, by every face.

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
        sealed: the stretch that an earlier audit priced.
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
    sealed: SealedStretch | None = None

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
                "comparison": self.compared.as_dict(),
                **({} if self.sealed is None else {"sealed": asdict(self.sealed)})}

    def _budget(self) -> Clause:
        spent = (f"epsilon {self.spent.text(_DIGITS)} of {self.budget.text()} spent at delta "
                 f"{self.delta.text()}")
        found = many(len(self.findings), "finding")
        if self.over:
            return Clause(f"OVER BUDGET: {spent}. {found}", BAD)
        if self.findings:
            return Clause(f"NOT TRUSTED: {found}. Nothing below is certain", BAD)
        if self.simulated:  # no person is protected by it, so it keeps to no budget
            return Clause(f"{_COUNTED} {spent}", OPEN)
        if self.repriced:
            return Clause(f"within budget: {spent}", GOOD)
        return Clause(f"within budget by its own totals: {spent}", OPEN)

    def _priced(self) -> Clause:
        if self.sealed is not None and not self.publishable:
            return Clause(self.sealed.text, GOOD)
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
            return Clause(f"unverified claims: the price of {many(vouched.grants, 'grant')}", OPEN)
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
    return LedgerVerdict(tuple(findings), view.spent, epsilon, delta, view.simulated, view.answers,
                   view.asserted, view.compared, repriced, publishable, view.trusting,
                   view.sealed)


@frozen
class Unverified:
    """Grants or scopes that rest on the same unverified claim.

    Attributes:
        claim: what is not proved. name: of the first one. grants: how many.
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
        sealed: the stretch that an earlier audit priced.

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
    sealed: SealedStretch | None = None

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
            self.vouched, compared, trusting=any(one.noise == "shared" for one in facts.trusts),
            sealed=self.sealed)


def survey(store: Store, at: int = 0, head: str | None = None, *, whole: bool = False) -> Survey:
    """Audit `store` and sum it up: everything is read once and parsed once at most.

    Args:
        at: number of entries that a receipt saw. head: a hash that should be there.
        whole: price everything again, whatever an earlier audit sealed.
    """
    found = read_once(store, at, head, whole=whole)
    state, view, seen = found.state, found.view, found.seen
    if state is None or view is None:
        return Survey(found.findings, seen.past)
    grants = [one for one in view.charges if one.kind == "grant"]
    claims = {one.name: one for one in view.charges if view.vouched(one)}
    answered = dict.fromkeys(
        f"{line.mechanism}: {line.question}" for name in claims
        for line in view.releases.get(name, ()) if line.asserted)
    asserted = dict.fromkeys([*answered, *(
        text for one in claims.values() for text in claims_of(one.name, one.asserted, ""))])
    words = dict.fromkeys([*asserted, *(
        text for one in claims.values() for text in claims_of(one.name, (), one.library))])
    facts = Facts(
        view.spent.value, view.spent_delta.value, view.relation,
        tuple(dict.fromkeys(one.learner for one in grants)),
        tuple(dict.fromkeys([*(kind for scoped in (False, True) for one in view.charges
                               if scoped is (one.kind == "scope" or one.scope is not None)
                               for kind in one.mechanisms or ()),
                             *(line.kind for part in view.releases.distinct for line in part)])),
        tuple(asserted), view.simulated, isolation=tuple(dict.fromkeys(
            one.isolation for one in grants)),
        windows=view.windows, budget_delta=view.budget.delta, data=view.tables, unit=view.about,
        trusts=tuple(dict.fromkeys(one for plan in seen.federated for one in trusts(plan))),
        alone=alone_epsilon(seen.federated, view.relation, view.budget.delta),
        outside=tuple(dict.fromkeys(
            each for one in grants for each in one.outside)))
    return Survey(
        found.findings, seen.past, facts, view.live, view.budget.epsilon, view.answers,
        evolve(view.asserted, words=tuple(words)), view.noise, view.policy,
        None if found.findings else remembered_receipt(state).as_dict(), fullness(state),
        tuple(_unverified(view, claims)), view.sealed)


def _unverified(view: View, claims: Mapping[str, ChargeFigures]) -> Iterable[Unverified]:
    """The claims, grants with the same origin together: plans, then external runs, then answers."""
    found = dict[Unverified, Unverified]()
    for one in sorted(claims.values(), key=lambda one: (
            (0, "") if one.asserted else (1, "") if one.library else (2, one.name))):
        answered = any(line.vouched for line in view.releases.get(one.name, ()))
        words = [*one.asserted, *([f"external run of {one.library}"] if one.library else []),
                 *(["an asserted answer"] if answered else [])]
        key = Unverified(", ".join(words), "", library=one.library)
        if one.kind == "grant":
            key = evolve(key, learner=one.learner, table=one.table, labels=one.labels,
                         isolation=one.isolation)
        known = found.get(key)
        found[key] = evolve(key, name=one.name) if known is None else evolve(
            known, grants=known.grants + 1)
    return found.values()


@frozen
class Reading:
    """A history that was read once: by every rule of the audit, and for what shows it.

    Attributes:
        state: at the end; None if none follows. view: of it, likewise. seen: what went along.
    """

    findings: tuple[Finding, ...]
    state: State | None
    view: View | None
    seen: _Watch


def read_once(store: Store, at: int = 0, head: str | None = None,
              compared: Comparison | None = None, *, whole: bool = False) -> Reading:
    """Audit `store` and gather its view on the way. What this user's own process found without
    a fault earlier, and sealed, is not priced again, but for what came after.

    Args:
        at: number of entries that a receipt saw. head: a hash that should be there.
        compared: what the history is compared with.
        whole: price everything again.
    """
    findings, sealed, past = list[Finding](), None, Past(at, head)
    state: State | None = None
    epoch = None if whole else find_epoch(store)
    if epoch is not None:
        seen, found = _Watch(past), None
        with suppress(Exception):  # whatever is wrong with it, the history itself is still there
            seen.unpack(epoch.seen)
            found = audit_on(store, seen, epoch)
        if found is not None:
            state, sealed = found[0], epoch.sealed
            seal_epoch(store, *found, sealed, seen.packed)
    if sealed is None:
        findings, state, seen = audit_along(
            store, lambda: _Watch(Past(at, head)), keep=lambda watch, state, kept: seal_epoch(
                store, state, kept, None, watch.packed))
    known = state is not None and state.budget is not None
    return Reading(tuple(findings), state if known else None,
                   seen.view(state, compared, sealed) if state is not None and known else None,
                   seen)


class _Watch(Gatherer):
    """Goes along with an audit: what a view needs, and what a receipt is compared with."""

    def __init__(self, past: Past) -> None:
        super().__init__()
        self.past, self.row = past, past.row
        self.federated: dict[Node, None] = {}
        self.moves = array("q")  # positions of the entries that moved the totals

    def packed(self) -> Packed:
        """What an epoch keeps of it."""
        return {**super().packed(), "moves": self.moves.tobytes(), "uuid": self.past.uuid,
                "federated": [canonical(to_json(plan)) for plan in self.federated]}

    def unpack(self, value: Packed) -> None:
        """Go on from what an epoch kept; `row` is still called for each of its entries."""
        super().unpack(value)
        self.federated = {from_json(parse_body(text)): None for text in value["federated"]}
        self.moves, self.past.uuid = array("q", value["moves"]), value["uuid"]
        self.past.moves_at = sum(position < self.past.at for position in self.moves)

    def on_created(self, line: LineOf[Created], state: State | None) -> tuple[()]:
        self.past.created(line.event)
        return self.noted(line, state)

    def on_aborted(self, line: LineOf[Aborted], state: State | None) -> tuple[()]:
        if line.event.gives_back:
            self._moved(line.position)
        return self.noted(line, state)

    def _moved(self, position: int) -> None:
        self.past.moved()
        self.moves.append(position)

    def _paid(self, line: LineOf[ScopeOpened] | LineOf[Granted] | LineOf[Corrected],
              state: State | None) -> tuple[()]:
        """A plan was paid for; one that ran in a federation is kept."""
        plan = line.event.plan
        self._moved(line.position)
        if said_or_none(plan, trusts):
            self.federated[plan_or_none(plan)] = None
        return self.noted(line, state)

    on_scope = on_granted = on_corrected = _paid
