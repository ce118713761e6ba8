"""From the events of a history to everything that is shown.

`state` decides; this shows. Whatever is printed about a ledger (`show`, `top`, `log`, `record`,
`diff`, exports, the page, notebooks, pictures, the pytest plugin, the Python API) is a function of
what stands here, and prints its numbers by `Figure.text`. Charges are whole numbers in the
ledger's own currency, so parts by table, learner, mechanism, team or window add up to the total.

What single records spent is in `view_records`; the moments of a history in `view_timeline`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

from attrs import astuple, define, field, frozen

from privledger.accounting import promise
from privledger.errors import LedgerError, PrivledgerError, UnsupportedNode
from privledger.graph import Node, Sequential, label
from privledger.ledger.checkpoint import Packed
from privledger.ledger.codec import decode, written
from privledger.ledger.codec_lines import LineOf
from privledger.ledger.entries import Entry, parse_body
from privledger.ledger.epochs import SealedStretch
from privledger.ledger.events import (
    EVENTS,
    Event,
    Granted,
    Protected,
    Refused,
    Released,
    ScopeOpened,
    WindowOpened,
    is_readable,
)
from privledger.ledger.filters import Budget, FilterRule
from privledger.ledger.origins import asserted_kinds
from privledger.ledger.policy import Policy
from privledger.ledger.state import State
from privledger.ledger.view_charges import (
    BudgetFigures,
    ChargeFigures,
    FederatedTrust,
    Part,
    TableSpend,
    alone_of,
    budgets_of,
    federated_of,
    grouped_charges,
    left_of,
    plan_of,
    rests_on_others,
    said_of_plan,
    table_spends,
    total_of,
)
from privledger.ledger.view_columns import EndedGrants
from privledger.ledger.view_figures import CHOSEN, Amount, Figure
from privledger.numerals import many

# What was released under grants: equal releases merged, and which rest on unverified claims.

VOUCHED = "asserted:"
"""A question whose sensitivity an author merely vouches for begins like this."""


@frozen
class ReleaseLine:
    """Equal releases under one grant: how often, and what they asked.

    Attributes:
        mechanism: as `label` writes it, with the samples, parts and filters above it.
        question: the text of the query. count: how many such releases there were.
        cells: noisy numbers in each of them.
        asserted: the sensitivity of the query is an unverified claim.
        kind: the mechanism's node type.
    """

    mechanism: str
    question: str
    count: int
    cells: int
    asserted: bool
    kind: str = ""

    @property
    def vouched(self) -> bool:
        """Whether the answer rests on unverified claims: for its query, or for its mechanism."""
        return self.asserted or bool(asserted_kinds([self.kind]))


def _kind_and_label(leaf: Node) -> tuple[str, str]:
    return type(leaf).__name__, label(leaf)


def lines_of(releases: Iterable[Released]) -> tuple[ReleaseLine, ...]:
    """Equal releases of one grant merged, in the order of the first of each.

    Raises:
        PrivledgerError, KeyError, TypeError, ValueError, IndexError: malformed; the audit has a
            finding for it.
    """
    counts: dict[tuple[str, str, str, int], int] = {}
    for released in releases:
        names = []
        for node in released.nodes:
            kind, name = said_of_plan(node.leaf, _kind_and_label)
            under = " > ".join(str(step["kind"]) for step in node.under)
            names.append((kind, f"{name} under {under}" if under else name))
        for place, question, cells in released.items:
            key = (*names[place], str(released.questions[question]), int(cells))
            counts[key] = counts.get(key, 0) + 1
    return tuple(ReleaseLine(mechanism, question, many, cells, question.startswith(VOUCHED), kind)
                 for (kind, mechanism, question, cells), many in counts.items())


class MadeReleases(Mapping[str, tuple[ReleaseLine, ...]]):
    """Grant -> what was released under it, equal releases merged when they are asked for.

    Attributes:
        unread: grants with a release that is malformed: of them nothing is told.
    """

    def __init__(self) -> None:
        self.unread: set[str] = set()
        self._parts: dict[str, tuple[tuple[ReleaseLine, ...], ...]] = {}
        self._alone: dict[int, tuple[tuple[ReleaseLine, ...]]] = {}

    def add(self, grant: str, lines: tuple[ReleaseLine, ...]) -> None:
        """Releases of one entry; grants that released alike share them."""
        alone = self._alone.setdefault(id(lines), (lines,))
        self._parts[grant] = self._parts.get(grant, ()) + alone

    def parts(self, grant: str) -> tuple[tuple[ReleaseLine, ...], ...]:
        """As the entries had them; none of a grant that is not known."""
        return () if grant in self.unread else self._parts.get(grant, ())

    @property
    def distinct(self) -> Iterator[tuple[ReleaseLine, ...]]:
        """Each part that there is, once."""
        return (part for part, in self._alone.values())

    def packed(self) -> Packed:
        """As an epoch keeps them."""
        kinds: dict[tuple[ReleaseLine, ...], int] = {}
        places = {key: kinds.setdefault(part, len(kinds)) for key, (part,) in self._alone.items()}
        return {"unread": sorted(self.unread), "names": list(self._parts),
                "kinds": [[astuple(line) for line in part] for part in kinds],
                "counts": array("i", map(len, self._parts.values())).tobytes(),
                "parts": array("i", [places[id(part)] for parts in self._parts.values()
                                     for part in parts]).tobytes()}

    @classmethod
    def unpacked(cls, value: Packed) -> MadeReleases:
        """The inverse of `packed`."""
        found = cls()
        kinds = [tuple(ReleaseLine(*line) for line in part) for part in value["kinds"]]
        found._alone = {id(part): (part,) for part in kinds}
        places, begin = memoryview(value["parts"]).cast("i"), 0
        same: dict[bytes, tuple[tuple[ReleaseLine, ...], ...]] = {}
        for name, count in zip(value["names"], array("i", value["counts"]), strict=True):
            some = places[begin:begin + count]
            begin, key = begin + count, some.tobytes()
            if key not in same:
                same[key] = tuple(map(kinds.__getitem__, some))
            found._parts[name] = same[key]
        found.unread = set(value["unread"])
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def __getitem__(self, grant: str) -> tuple[ReleaseLine, ...]:
        parts = () if grant in self.unread else self._parts[grant]
        if len(parts) < 2:
            return parts[0] if parts else ()
        counts: dict[tuple[str, str, int, bool, str], int] = {}
        for line in (line for part in parts for line in part):
            key = line.mechanism, line.question, line.cells, line.asserted, line.kind
            counts[key] = counts.get(key, 0) + line.count
        return tuple(ReleaseLine(mechanism, question, count, cells, asserted, kind)
                     for (mechanism, question, cells, asserted, kind), count in counts.items())


# What a history was compared with, and what can therefore not have been seen.
#
# A history that was cut short, or written anew from its beginning, is a valid history: only
# something that was kept elsewhere tells it from the one that was there. So every answer about a
# ledger says first what it was compared with. The stand-alone verifier has the same sentences.

_SHOWN = 12
UNNOTICED = "deleted last entries, a restored backup or a complete rewrite would go unnoticed"


@frozen
class Comparison:
    """What was compared with.

    Attributes:
        kind: `receipt`, `head` or `nothing`.
        time: when the receipt was made, if it says so.
        entries: how many it had seen. head: the hash that must be there.
        signature: `checked`, `not checked`, or None where nothing could be signed.
        cannot_see: what this comparison leaves open, as a clause.
    """

    kind: str
    cannot_see: str
    time: str | None = None
    entries: int | None = None
    head: str | None = None
    signature: str | None = None

    @property
    def text(self) -> str:
        """What was compared with, and what that leaves open; one line."""
        if self.kind == "nothing":
            return f"no receipt was given, so {self.cannot_see}"
        if self.kind == "head":
            return f"compared with the expected head {str(self.head)[:_SHOWN]}: {self.cannot_see}"
        seen = many(self.entries or 0, "entry", "entries")
        which = f"the receipt of {self.time}" if self.time else "a receipt without a date"
        return (f"compared with {which} ({seen}, head {str(self.head)[:_SHOWN]}): "
                f"{self.cannot_see}")

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {"with": self.kind, "time": self.time, "entries": self.entries, "head": self.head,
                "signature": self.signature, "cannot_see": self.cannot_see, "text": self.text}


def comparison(receipt: Mapping[str, Any] | None = None, head: str | None = None, *,
               signed: bool = False) -> Comparison:
    """What a history is compared with.

    Args:
        receipt: as `load_receipt` reads it. head: a hash that is expected, without a receipt.
        signed: the receipt's signature is checked as well.
    """
    if receipt is not None:
        time, entries = receipt.get("time"), int(receipt["entries"])
        return Comparison(
            "receipt", f"entries deleted or rewritten after entry {entries} would go unnoticed",
            time if isinstance(time, str) else None, entries, str(receipt["head"]),
            "checked" if signed else "not checked")
    if head is not None:
        return Comparison("head", "entries deleted or rewritten after it would go unnoticed",
                          head=head)
    return Comparison("nothing", UNNOTICED)


NOT_PRIVATE = "NOT PRIVATE"
E = TypeVar("E", Refused, Released)


@frozen
class Vouched:
    """Unverified claims: what rests on no proof.

    Attributes:
        answers: releases whose query or whose mechanism is asserted.
        grants: grants and scopes with such an answer, or with such a mechanism in their plan, and
            external runs, of which no guard saw what they read.
        words: each of these, described once.
    """

    answers: int = 0
    grants: int = 0
    words: tuple[str, ...] = ()


@define
class Marks:
    """What moved the total, windows and refusals, in order, as columns.

    Attributes:
        places, shares: of each: its entry, and the share of the budget that was gone after it.
        events: by place, of all but charges: these are what the grant or scope there says.
        begun, last: the first and the last time of any entry.
    """

    places: array[int] = field(factory=lambda: array("q"))
    shares: array[float] = field(factory=lambda: array("d"))
    events: dict[int, Event] = field(factory=dict)
    begun: str = ""
    last: str = ""
    _units: int = 0

    def note(self, line: LineOf[Any], state: State | None) -> None:
        """The next entry, and the state after it."""
        event = line.event
        time = str(event.__dict__.get("time") or "")
        self.begun, self.last = self.begun or time, time or self.last
        told = isinstance(event, WindowOpened) or (isinstance(event, Refused) and event.counts)
        if state is None or not (told or state.units != self._units):
            return
        self._units = state.units
        self.places.append(line.position)
        self.shares.append(total_of(state).share.value)
        if not isinstance(event, Granted | ScopeOpened):
            self.events[line.position] = event

    def packed(self) -> Packed:
        """As an epoch keeps them."""
        return {"places": self.places.tobytes(), "shares": self.shares.tobytes(),
                "events": [[at, one.kind, written(one)] for at, one in self.events.items()],
                "begun": self.begun, "last": self.last, "units": str(self._units)}

    @classmethod
    def unpacked(cls, value: Packed) -> Marks:
        """The inverse of `packed`."""
        return cls(array("q", value["places"]), array("d", value["shares"]), {
            at: decode(kind, parse_body(text)) for at, kind, text in value["events"]},
            value["begun"], value["last"], int(value["units"]))


@frozen
class View:
    """Everything that can be said about a ledger without naming a record.

    Attributes:
        uuid, mode, relation, budget, policy: as the creation says.
        rule: the filter; None until the first plan fixed it. asked_filter: what was asked for.
        total: of all charges, in the ledger's currency.
        left: epsilon of the largest plan that would still be granted.
        entries: how many there are. head: hash of the last one.
        charges: of every grant and scope; their amounts add up to `total`.
        refused: how many requests were. refusals: their events, where entries were given.
        releases: grant -> what was released under it, where entries were given.
        rows: table -> the number of rows that it declares, or None.
        windows: periods in the order they were opened; the last one is open.
        noise: where it came from: the creation's word, then what releases really used.
        compared: with which receipt the history was compared, and of when; or with none.
        about: whom the promise is about: `row` or `person`.
        budgets: the ledger's budget, then every cap, each with what counts under it.
        sealed: the stretch whose plans an earlier audit priced; None if no epoch was used.
        marks: what moved the total, where entries were given.
    """

    uuid: str
    mode: str
    relation: str
    budget: Budget
    rule: FilterRule | None
    asked_filter: str
    total: Amount
    left: Figure
    entries: int
    head: str
    charges: tuple[ChargeFigures, ...]
    refused: int
    refusals: tuple[Refused, ...]
    releases: MadeReleases
    rows: dict[str, int | None]
    windows: tuple[str, ...]
    noise: tuple[str, ...]
    policy: Policy | None
    compared: Comparison
    about: str
    budgets: tuple[BudgetFigures, ...] = ()
    sealed: SealedStretch | None = None
    marks: Marks = field(factory=Marks, repr=False)
    _parts: dict[str, dict[str, Part]] = field(factory=dict, eq=False, repr=False)

    @property
    def spent(self) -> Figure:
        """Epsilon, at the budget's delta, of everything spent or reserved."""
        return self.total.epsilon

    @property
    def spent_delta(self) -> Figure:
        """The delta that goes with `spent`."""
        return self.total.delta

    @property
    def promised(self) -> tuple[Figure, Figure]:
        """Epsilon and delta of the budget, as they were chosen."""
        return (Figure(self.budget.epsilon, "epsilon", CHOSEN),
                Figure(self.budget.delta, "delta", CHOSEN))

    @property
    def unit(self) -> str:
        """Of the filter, in which charges add up; empty until it is fixed."""
        return self.rule.unit if self.rule else ""

    @property
    def theorem(self) -> str:
        """What the total rests on."""
        return self.rule.theorem if self.rule else "fixed by the first plan"

    @property
    def filter(self) -> str:
        """Kind of the filter, or what was asked for while none is fixed."""
        return self.rule.kind if self.rule else self.asked_filter

    @property
    def promise(self) -> str:
        """What neighbours are, in words."""
        return promise(self.relation, self.about)

    @property
    def simulated(self) -> bool:
        """Whether seeded noise was used, which protects no person."""
        return self.mode != "private" or any(NOT_PRIVATE in text for text in self.noise)

    @property
    def live(self) -> bool:
        """Whether anything was granted and not handed back."""
        return any(not one.handed_back for one in self.charges)

    @cached_property
    def answers(self) -> int:
        """How many releases there are."""
        counts = {id(part): sum(line.count for line in part) for part in self.releases.distinct}
        return sum(counts[id(part)] for name in self.releases for part in self.releases.parts(name))

    @cached_property
    def asserted(self) -> Vouched:
        """How many answers rest on unverified claims, and which."""
        words: dict[str, None] = {}
        answers = grants = 0
        for one in filter(self.vouched, self.charges):
            lines = [line for line in self.releases.get(one.name, ()) if line.vouched]
            answers += sum(line.count for line in lines)
            grants += 1
            words |= {f"{line.mechanism}: {line.question}": None
                      for line in lines if line.asserted}
            words |= dict.fromkeys(one.claims)
        return Vouched(answers, grants, tuple(words))

    @cached_property
    def _vouched(self) -> set[str]:
        """Names of grants and scopes that rest on an unverified claim."""
        claimed = {id(part) for part in self.releases.distinct
                   if any(line.vouched for line in part)}
        return {one.name for one in self.charges if one.rests_on_claims or (claimed and any(
            id(part) in claimed for part in self.releases.parts(one.name)))}

    def vouched(self, one: ChargeFigures) -> bool:
        """Whether a grant's plan, or an answer under it, rests on an unverified claim."""
        return one.name in self._vouched

    @cached_property
    def alone(self) -> Amount:
        """As `total`, if every other party of every federation gives its noise away."""
        return alone_of(self.charges, self.relation, self.total)

    @cached_property
    def federated(self) -> tuple[FederatedTrust, ...]:
        """Grants and scopes that ran in a federation, each with both of its prices."""
        found = [federated_of(one, self.relation) for one in self.charges
                 if not one.handed_back]
        return tuple(one for one in found if one is not None)

    @cached_property
    def trusting(self) -> bool:
        """Whether a price rests on other owners' keeping their noise to themselves."""
        return any(map(rests_on_others, self.charges))

    def by(self, aspect: str, most: int | None = None) -> dict[str, Part]:
        """Charges added up by one of `ASPECTS`, such as `team`, or by `label:KEY`.

        Dearest first. The amounts of all parts add up to `total`, exactly: what a plan of several
        mechanisms costs stands under their names together, and a scope belongs to the table and
        the learners that drew on it.

        Args:
            most: the dearest parts only; all, if None.
        """
        if most is not None:
            return grouped_charges(self.charges, aspect, self.rule, self._vouched, most)
        if aspect not in self._parts:
            self._parts[aspect] = grouped_charges(self.charges, aspect, self.rule, self._vouched)
        return self._parts[aspect]

    @property
    def tables(self) -> tuple[TableSpend, ...]:
        """What every table lost at most, with the rows it declares."""
        return table_spends(self.charges, self.rule, self.rows)

    def paid(self) -> list[tuple[str, Node]]:
        """Name and plan of what was reserved and not handed back, scopes included, in order.

        Raises:
            UnsupportedNode: a correction says that nothing is promised for a grant.
        """
        return [(one.name, plan_of(one.plan) if one.plan is not None else _void(one.name))
                for one in self.charges if one.paid]

    def whole(self) -> Node:
        """All of `paid` as one plan, in order."""
        return Sequential([node for _, node in self.paid()])


def _void(name: str) -> Node:
    raise UnsupportedNode(f"the promise was voided for {name}")


@frozen
class FigureRow:
    """One thing that is told of every ledger, declared once for reports, JSON and comparisons.

    Attributes:
        name: of the field of a report, and in JSON; empty where a label alone is told.
        label: of its line where two ledgers are compared; empty where it stands in none.
        read: from the view: a `Figure`, with its unit and its side of rounding, or words; by
            default what the view has under the name.
    """

    name: str
    label: str = ""
    read: Callable[[View], Any] | None = None

    def of(self, view: View) -> Any:
        """What the view says of it."""
        return getattr(view, self.name) if self.read is None else self.read(view)


FIGURES = (
    FigureRow("uuid", "ledger"), FigureRow("mode", "mode"), FigureRow("relation"),
    FigureRow("", "relation", lambda view: view.promise),
    FigureRow("epsilon", "budget epsilon", lambda view: view.promised[0]),
    FigureRow("delta", "budget delta", lambda view: view.promised[1]),
    FigureRow("filter", "filter"), FigureRow("theorem"), FigureRow("spent", "spent epsilon"),
    FigureRow("spent_delta", "spent delta"), FigureRow("left", "left"),
    FigureRow("alone", "", lambda view: view.alone.epsilon if view.federated else None),
    FigureRow("entries", "entries"), FigureRow("head"), FigureRow("noise"),
    FigureRow("private", "", lambda view: not view.simulated),
    FigureRow("refusals", "", lambda view: view.refused), FigureRow("tables"),
    FigureRow("windows"), FigureRow("policy"), FigureRow("about"), FigureRow("unit"),
    FigureRow("amount", "", lambda view: view.total.own),
    FigureRow("share", "", lambda view: view.total.share),
    FigureRow("caps", "", lambda view: view.budgets[1:]))
"""All that is told of a ledger as a whole; what depends on the rows is in none of them."""


def figures_of(view: View) -> dict[str, Any]:
    """The fields of a report: figures as their numbers, which are on their safe side already."""
    found = {row.name: row.of(view) for row in FIGURES if row.name}
    return {name: one.value if isinstance(one, Figure) else one for name, one in found.items()}


class Gatherer:
    """What a view has of the entries beside the state.

    It goes along with an audit, so that a history is read once; or takes entries one by one.

    Attributes:
        ended: what a compact state lets go of.
        tables: rows that tables declare, as they were protected last.
        releases: what was released under each grant.
    """

    def __init__(self) -> None:
        self.grants = EndedGrants()
        self.ended = self.grants.add
        self.tables: dict[str, int | None] = {}
        self.noise: dict[str, None] = {}
        self.refusals: list[Refused] = []
        self.marks = Marks()
        self.releases = MadeReleases()
        self._forms: dict[int, tuple[ReleaseLine, ...]] = {}

    def packed(self) -> Packed:
        """What an epoch keeps of it."""
        return {"grants": self.grants.packed(), "releases": self.releases.packed(),
                "tables": list(self.tables.items()), "noise": list(self.noise),
                "marks": self.marks.packed()}

    def unpack(self, value: Packed) -> None:
        """Go on from what an epoch kept."""
        self.grants = EndedGrants.unpacked(value["grants"])
        self.ended = self.grants.add
        self.releases = MadeReleases.unpacked(value["releases"])
        self.tables, self.noise = dict(value["tables"]), dict.fromkeys(value["noise"])
        self.marks = Marks.unpacked(value["marks"])
        self.refusals = [one for one in self.marks.events.values() if isinstance(one, Refused)]

    def take(self, entries: Iterable[Entry]) -> Gatherer:
        """Entries that no audit goes along with; what cannot be read is left out."""
        state: State | None = State()
        for entry in entries:
            try:
                if state is not None:
                    state.take(entry)
            except LedgerError:  # not from the first on, or wrong: an audit has a finding for it
                state = None
            look = getattr(self, f"on_{entry.event.kind}", None)
            if look is not None and is_readable(entry.event):
                look(LineOf(entry.position, entry.event, None), state)
        return self

    def noted(self, line: LineOf[Any], state: State | None) -> tuple[()]:
        """What marks need of any entry."""
        self.marks.note(line, state)
        return ()

    def on_protected(self, line: LineOf[Protected], state: State | None) -> tuple[()]:
        """Rows of a table."""
        self.tables[line.event.data] = line.event.rows
        return self.noted(line, state)

    def on_refused(self, line: LineOf[Refused], state: State | None) -> tuple[()]:
        """A request that was refused."""
        if is_readable(line.event) and line.event.counts:
            self.refusals.append(line.event)
        return self.noted(line, state)

    def on_released(self, line: LineOf[Released], state: State | None) -> tuple[()]:
        """Releases, read once of each form."""
        event, form = line.event, line.form
        lines = None if form is None else self._forms.get(form)
        if lines is None:
            if not is_readable(event):
                return ()
            self.noise[event.noise or ""] = None
            try:
                lines = lines_of([event])
            except (PrivledgerError, KeyError, TypeError, ValueError, IndexError):
                self.releases.unread.add(event.grant)  # the audit has a finding for it
                return ()
            if form is not None:
                self._forms[form] = lines
        self.releases.add(event.grant, lines)
        return ()

    def view(self, state: State, compared: Comparison | None = None,
             sealed: SealedStretch | None = None) -> View:
        """What to show of the state at the end of these entries."""
        assert state.budget is not None
        charges = self.grants.charges(state)
        tables = {name: table.rows for name, table in state.tables.items()} or self.tables
        return View(
            uuid=state.uuid, mode=state.mode, relation=state.relation, budget=state.budget,
            rule=state.rule, asked_filter=state.filter_asked,
            total=total_of(state), left=left_of(state), entries=state.position + 1,
            head=state.head, charges=charges, refused=state.refusals,
            refusals=tuple(self.refusals),
            releases=self.releases, about=state.unit, windows=state.opened,
            rows=tables,
            noise=tuple(text for text in {state.creation.noise: None, **self.noise} if text),
            policy=state.policy, compared=compared or comparison(),
            budgets=budgets_of(state, charges), sealed=sealed, marks=self.marks)


for _kind in EVENTS:
    if not hasattr(Gatherer, f"on_{_kind}"):
        setattr(Gatherer, f"on_{_kind}", Gatherer.noted)


def view_of(state: State, entries: Iterable[Entry] = (), *,
            compared: Comparison | None = None) -> View:
    """What to show of a state, and of the entries it was folded from.

    Args:
        state: a full one; of a compact one the grants that are over are missing.
        entries: without them nothing is known of releases, refusals and the noise of releases.
        compared: what the history was compared with; nothing, if None.
    """
    return Gatherer().take(entries).view(state, compared)


def readable(entries: Iterable[Entry], kind: type[E]) -> Iterator[E]:
    """Events of one kind. What cannot be read is left out: the audit has a finding for it."""
    for entry in entries:
        if type(entry.event) is kind and is_readable(entry.event):
            yield entry.event
