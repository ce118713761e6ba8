"""The entries of a history in words, one line each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from attrs import frozen

from privledger.accounting import promise
from privledger.errors import LedgerError, PrivledgerError
from privledger.graph import from_json, label
from privledger.ledger import Entry, FilterRule, State, asserted_kinds
from privledger.ledger.entries import parse_body
from privledger.ledger.origins import recorded_kinds
from privledger.ledger.store import Row
from privledger.numerals import many
from privledger.rounding import downward, exact, upward

MOST_QUESTIONS = 3
_MARK = "asserted:"


@frozen
class Event:
    """One entry.

    Attributes:
        grant: the grant or scope it is about; empty if none.
        time: as it was written down, for information; empty if it was not.
        text: what happened.
        asserted: a plan or a release that rests on somebody's word.
    """

    position: int
    kind: str
    grant: str
    time: str
    text: str
    hash: str
    asserted: bool = False


def events(entries: Iterable[Entry]) -> Iterator[Event]:
    """Every entry in order. Nothing is verified: what cannot be read is said to be malformed."""
    state = State()
    rule: FilterRule | None = None
    for entry in entries:
        body = entry.body if isinstance(entry.body, dict) else {}
        if entry.kind in ("created", "filter"):
            try:
                state.take(entry)
                rule = state.rule
            except LedgerError:
                rule = None
        try:
            text = _WORDS.get(entry.kind, _other)(body, rule)
        except (PrivledgerError, KeyError, TypeError, ValueError, IndexError, AttributeError):
            text = "malformed"
        name = body.get("grant") or (body.get("scope") if entry.kind == "scope" else "") or ""
        yield Event(entry.position, str(entry.kind), str(name), str(body.get("time", "")), text,
                    str(entry.hash), _is_asserted(body))


def asserted_releases(rows: Iterable[Row]) -> set[str]:
    """Grants that released an answer whose sensitivity somebody merely vouches for."""
    found = set()
    for _, kind, text, _, _ in rows:
        if kind == "released" and _MARK in text:
            body = parse_body(text)
            if any(str(question).startswith(_MARK) for question in body["questions"]):
                found.add(str(body["grant"]))
    return found


def _is_asserted(body: dict[str, Any]) -> bool:
    try:
        asked = [str(question) for question in body.get("questions", ())]
        plan = body.get("plan")
        return (any(question.startswith(_MARK) for question in asked)
                or (isinstance(plan, dict) and bool(asserted_kinds(list(recorded_kinds(plan))))))
    except (PrivledgerError, KeyError, TypeError, AttributeError):
        return False  # malformed, and said to be


def _cost(body: dict[str, Any], rule: FilterRule | None) -> str:
    return "" if rule is None else f"epsilon {upward(rule.epsilon_of(int(body['units'])), 4)}, "


def _created(body: dict[str, Any], rule: FilterRule | None) -> str:
    budget = body["budget"]
    mode = "" if body["mode"] == "private" else ", NOT PRIVATE (simulation)"
    return (f"budget epsilon {exact(budget['epsilon'])} at delta {exact(budget['delta'])}, "
            f"{promise(body['relation'])}{mode}")


def _granted(body: dict[str, Any], rule: FilterRule | None) -> str:
    who = f"{body.get('learner') or 'nobody named'} on {body.get('data')}"
    cost = f"in {body['scope']}, " if body.get("scope") else _cost(body, rule)
    return f"{who}: {cost}{label(from_json(body['plan']))}"


def _scope(body: dict[str, Any], rule: FilterRule | None) -> str:
    return f"{_cost(body, rule)}{label(from_json(body['plan']))}"


def _refused(body: dict[str, Any], rule: FilterRule | None) -> str:
    return (f"{body.get('learner') or 'nobody named'}: asked {_figure(body, 'asked', upward)}, "
            f"left {_figure(body, 'left', downward)} {body.get('unit', '')}; nothing was read")


def _figure(body: dict[str, Any], key: str, shown: Callable[[float, int], str]) -> str:
    value = body.get(key)
    return shown(value, 4) if isinstance(value, int | float) else "?"


def _released(body: dict[str, Any], rule: FilterRule | None) -> str:
    asked = list(dict.fromkeys(str(body["questions"][question])
                               for _, question, _ in body["items"]))
    more = f" and {len(asked) - MOST_QUESTIONS} more" if len(asked) > MOST_QUESTIONS else ""
    return f"{many(len(body['items']), 'release')}: {', '.join(asked[:MOST_QUESTIONS])}{more}"


def _settled(body: dict[str, Any], rule: FilterRule | None) -> str:
    failed = "; failed after it touched data" if body.get("failed") else ""
    return f"{many(body['releases'], 'release')} in all{failed}"


def _aborted(body: dict[str, Any], rule: FilterRule | None) -> str:
    return ("it had touched data: stays spent" if body["touched"]
            else "handed back: no data was opened")


def _corrected(body: dict[str, Any], rule: FilterRule | None) -> str:
    return f"{_cost(body, rule)}{body['why']}"


def _other(body: dict[str, Any], rule: FilterRule | None) -> str:
    return ""


_WORDS: dict[str, Callable[[dict[str, Any], FilterRule | None], str]] = {
    "created": _created, "granted": _granted, "scope": _scope, "refused": _refused,
    "released": _released, "settled": _settled, "aborted": _aborted, "corrected": _corrected,
    "filter": lambda body, rule: f"plans add up by {body['kind']}",
    "protected": lambda body, rule: f"table {body['data']}",
    "crashed": lambda body, rule: f"{body.get('why', '')}: the whole reservation stays spent",
    "window": lambda body, rule: f"{body['window']} is open",
}
