"""The entries of a history in words, one moment each, with what was spent and left after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache, singledispatch
from typing import NamedTuple, TypeAlias, cast

from attrs import define, field

from privledger.accounting import promise
from privledger.errors import LedgerError, PrivledgerError
from privledger.graph import label
from privledger.ledger.codec_lines import Line, LineOf, Usual, event_as
from privledger.ledger.decide import LEDGER
from privledger.ledger.entries import Entry
from privledger.ledger.events import (
    Aborted,
    Corrected,
    Crashed,
    Created,
    Enrolled,
    Event,
    FilterFixed,
    Granted,
    Protected,
    Refused,
    Released,
    ScopeOpened,
    Settled,
    WindowOpened,
)
from privledger.ledger.filters import Cap, FilterRule
from privledger.ledger.origins import asserted_kinds, origin_text, outside_of
from privledger.ledger.state import State
from privledger.ledger.store import Row
from privledger.ledger.view import VOUCHED
from privledger.ledger.view_charges import UNNAMED, VOID, caps_over, kinds_of, said_of_plan
from privledger.ledger.view_figures import CHOSEN, REMAINDER, Amount, Figure
from privledger.numerals import many

MOST_QUESTIONS = 3
UNREAD = "; interrupted before the rows were opened: the whole charge stays"
MALFORMED = "malformed"
MOST_KNOWN = 10_000


class Moment(NamedTuple):
    """One entry.

    Attributes:
        grant: the grant or scope it is about; empty if none.
        time: as it was written down, for information; empty if it was not.
        text: what happened.
        asserted: a plan or a release that rests on an unverified claim.
    """

    position: int
    kind: str
    grant: str
    time: str
    text: str
    hash: str
    asserted: bool


def timeline(entries: Iterable[Entry]) -> Iterator[Moment]:
    """Every entry in order. Nothing is verified: what cannot be read is said to be malformed."""
    words = Telling()
    return map(words.moment, entries)


Said: TypeAlias = tuple[int, str, str, str, str, str, bool]
"""The fields of a `Moment`, which takes longer to make."""


def told_rows(rows: Iterable[tuple[Row, Usual | Line | Entry]]) -> Iterator[Said]:
    """As `timeline`, of what `each_row` gives: what many rows have in common is said once."""
    words, known = Telling(), dict[tuple[int | None, object], tuple[str, str, bool]]()
    shapes: dict[int, object] = {}  # of items: what words about them depend on
    for row, found in rows:
        table = ""  # stands in the words of a grant, behind their head
        if type(found) is tuple:
            line, grant, time, items = found
            if items is not None and items[0] not in shapes:
                shapes[items[0]] = len(items[1]), tuple(dict.fromkeys(one[1] for one in items[1]))
            key = line.kin or line.form, items and shapes[items[0]]
        elif type(found) is LineOf and row[1] == "granted" and found.form is not None:
            event = found.event
            grant, time = _name(event), str(getattr(event, "time", None) or "")
            table = getattr(event, "data", "")
            key = found.form, words.state.caps and table
        else:
            if type(found) is LineOf:
                found.hash = row[4]
            rule = words.state.rule
            yield words.moment(cast(Entry, found))
            if words.state.rule is not rule:
                known = {}
            continue
        said = known.get(key)
        if said is None:
            if len(known) + len(shapes) >= MOST_KNOWN:
                known, shapes = {}, {}
            text, asserted = words.said(event := event_as(found))
            head = f"{getattr(event, 'learner', '') or UNNAMED} on " if table else ""
            if text.startswith(head + table):
                said = known[key] = head, text.removeprefix(head + table), asserted
            else:
                said, table = (text, "", asserted), ""
        yield row[0], row[1], grant, time, said[0] + table + said[1], row[4], said[2]


@define
class Telling:
    """Entries in words, along a history: by the filter that is fixed by then.

    Attributes:
        state: of the creation and the filter alone.
    """

    state: State = field(factory=State)

    def moment(self, entry: Entry) -> Moment:
        """The next entry in words."""
        event = entry.event
        if isinstance(event, Created | FilterFixed):
            try:
                self.state.take(entry)
            except LedgerError:
                self.state.rule = None
        waits = isinstance(event, Refused) and not event.counts
        text, asserted = self.said(event)
        return Moment(entry.position, "waits" if waits else event.kind, _name(event),
                      str(getattr(event, "time", None) or ""), text, str(entry.hash), asserted)

    def said(self, event: Event) -> tuple[str, bool]:
        """What an event says, and whether it rests on an unverified claim."""
        try:
            if isinstance(event, ScopeOpened | Granted | Corrected):
                event.units + event.delta_units + 0  # a number each
            hash(_own_name(event))
            text, asserted = _words(event, self.state.rule), _is_asserted(event)
            origin = _origin(event, self.state.caps)
        except _UNREADABLE:
            return MALFORMED, False
        return text + (f"; {origin}" if origin else ""), asserted


_UNREADABLE = (PrivledgerError, KeyError, TypeError, ValueError, IndexError, AttributeError)


def _origin(event: Event, caps: tuple[Cap, ...]) -> str:
    """Where a grant came from, and which caps it, or a scope, counts under."""
    if isinstance(event, Granted):
        return origin_text(event, () if event.scope else caps_over(caps, event.window, event))
    over = caps_over(caps, event.window, None) if isinstance(event, ScopeOpened) else ()
    return f"under {', '.join(over)}" if over else ""


def _own_name(event: Event) -> object:
    """Of the grant or scope that an event has to be about."""
    return event.scope if isinstance(event, ScopeOpened) else event.grant if (
        isinstance(event, Granted | Corrected | Released | Settled)) else ""


def _name(event: Event) -> str:
    return str(getattr(event, "scope" if isinstance(event, ScopeOpened) else "grant", ""))


def _is_asserted(event: Event) -> bool:
    if isinstance(event, Released):
        return any(str(question).startswith(VOUCHED) for question in event.questions)
    if isinstance(event, Granted) and outside_of(event):
        return True
    plan = getattr(event, "plan", None)
    return bool(asserted_kinds(kinds_of(plan) or ()))


@lru_cache(maxsize=4096)
def _cost(units: int, rule: FilterRule | None) -> str:
    return "" if rule is None else f"epsilon {Amount(units, 0, rule).epsilon.text(4)}, "


@singledispatch
def _words(event: Event, rule: FilterRule | None) -> str:
    raise TypeError(type(event).__name__)


@_words.register
def _(event: Created, rule: FilterRule | None) -> str:
    epsilon, delta = (Figure(value, direction=CHOSEN).text()
                      for value in (event.budget.epsilon, event.budget.delta))
    mode = "" if event.mode == "private" else ", NOT PRIVATE (simulation)"
    return f"budget epsilon {epsilon} at delta {delta}, {promise(event.relation, event.unit)}{mode}"


@_words.register
def _(event: FilterFixed, rule: FilterRule | None) -> str:
    return f"plans add up by {event.rule}, for the life of the ledger"


@_words.register
def _(event: Protected, rule: FilterRule | None) -> str:
    return f"table {event.data}" + (f", answered by {event.engine}" if event.engine else "")


@_words.register
def _(event: Enrolled, rule: FilterRule | None) -> str:
    return f"the people of table {event.data} got their places"


@_words.register
def _(event: Granted, rule: FilterRule | None) -> str:
    cost = f"in {event.scope}, " if event.scope else _cost(event.units, rule)
    return f"{event.learner or UNNAMED} on {event.data}: {cost}{said_of_plan(event.plan, label)}"


@_words.register
def _(event: ScopeOpened, rule: FilterRule | None) -> str:
    return f"{_cost(event.units, rule)}{said_of_plan(event.plan, label)}"


@_words.register
def _(event: Refused, rule: FilterRule | None) -> str:
    if event.waits is not None:
        return (f"{event.learner or UNNAMED} waits for budget on {event.waits.data}: "
                f"{_cost(event.waits.units, rule)}at most until {event.waits.until}")
    if event.left_line is not None:
        return f"{event.learner or UNNAMED} waits no longer"
    asked, left = refusal_figures(event)
    return (
        f"{event.learner or UNNAMED}: asked {'?' if asked is None else asked.text(4)}, "
        f"left {'?' if left is None else left.text(4)} {event.unit}"
        f"{f' of {event.limit}' if event.limit not in (None, LEDGER) else ''}; nothing was read"
    )


def refusal_figures(event: Refused) -> tuple[Figure | None, Figure | None]:
    """What was asked (a charge) and what was left (a remainder); None where it was not said."""
    def figure(value: float | None, direction: str) -> Figure | None:
        known = isinstance(value, int | float) and not isinstance(value, bool)
        return Figure(float(value), event.unit, direction) if known and value is not None else None

    return figure(event.asked, "charge"), figure(event.left, REMAINDER)


@_words.register
def _(event: Released, rule: FilterRule | None) -> str:
    asked = list(dict.fromkeys(str(event.questions[question]) for _, question, _ in event.items))
    more = f" and {len(asked) - MOST_QUESTIONS} more" if len(asked) > MOST_QUESTIONS else ""
    return f"{many(len(event.items), 'release')}: {', '.join(asked[:MOST_QUESTIONS])}{more}"


@_words.register
def _(event: Settled, rule: FilterRule | None) -> str:
    return f"{many(event.releases, 'release')} in all" + (
        "; failed after it touched data" if event.failed and event.touched else
        UNREAD if event.releases and not event.touched else "")


@_words.register
def _(event: Aborted, rule: FilterRule | None) -> str:
    return ("handed back: no data was opened" if event.gives_back else
            f"{many(event.releases, 'release')}{UNREAD}" if not event.touched else
            "it had touched data: stays spent")


@_words.register
def _(event: Crashed, rule: FilterRule | None) -> str:
    return f"{event.why or ''}: the whole reservation stays spent"


@_words.register
def _(event: Corrected, rule: FilterRule | None) -> str:
    """What it added, and what is charged for now."""
    if rule is None:
        return event.why
    added = Amount(event.units, event.delta_units, rule)
    own = rule.kind == "basic" and event.delta_units
    delta = f" and delta {added.delta.text(4)}" if own else ""
    true = VOID if event.plan is None else said_of_plan(event.plan, label)
    return f"adds epsilon {added.epsilon.text(4)}{delta}, for {true}: {event.why}"


@_words.register
def _(event: WindowOpened, rule: FilterRule | None) -> str:
    return f"{event.window} is open"
