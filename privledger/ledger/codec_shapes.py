"""What the body of every kind of entry holds: field by field, with the format it came with.

The history itself is folded leniently, so that an old file opens; an audit asks for all of this.
A field that is not listed is let through: a later version may have written it. What is for
information only may be missing, but if it is there it is of its type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from privledger.accounting import UNITS, check_relation
from privledger.errors import PrivledgerError
from privledger.findings import Finding
from privledger.ledger.caps import Cap, window_name
from privledger.ledger.codec import encode
from privledger.ledger.codec_lines import Line
from privledger.ledger.entries import FORMAT
from privledger.ledger.filters import KINDS as FILTERS
from privledger.ledger.filters import MOST_ORDER
from privledger.ledger.policy import ISOLATIONS, Policy
from privledger.ledger.state import State
from privledger.rounding import non_negative, number, positive, probability

Check = Callable[[Any], object]
OPTIONAL = True
_MARK, _KEY = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")


def _whole(value: Any) -> None:
    if type(value) is not int or value < 0:
        raise ValueError


def _text(value: Any) -> None:
    if type(value) is not str:
        raise ValueError


def _name(value: Any) -> None:
    if type(value) is not str or not value:
        raise ValueError


def _flag(value: Any) -> None:
    if type(value) is not bool:
        raise ValueError


def _real(check: Callable[[str, object], float]) -> Check:
    def plain(value: Any) -> None:
        if type(value) not in (int, float):
            raise ValueError
        check("value", value)
    return plain


def _order(value: Any) -> None:
    _real(non_negative)(value)
    if value > MOST_ORDER:
        raise ValueError


def _mark(value: object) -> None:
    if type(value) is not str or not _MARK.fullmatch(value):
        raise ValueError


def _delta(value: Any) -> None:
    _real(lambda name, found: probability(name, found, zero=True))(value)


def _among(*words: str) -> Check:
    def check(value: Any) -> None:
        if type(value) is not str or value not in words:
            raise ValueError
    return check


def _maybe(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _list(check: Check) -> Check:
    def each(value: Any) -> None:
        if type(value) is not list:
            raise ValueError
        for one in value:
            check(one)
    return each


def _object(value: Any) -> None:
    if type(value) is not dict:
        raise ValueError


def _labels(value: Any) -> None:
    _object(value)
    for key, one in value.items():
        if type(one) is not str or not key or len(key) > 200 or len(one) > 200:
            raise ValueError


def _record(**shape: tuple[Check, bool]) -> Check:
    def check(value: Any) -> None:
        _object(value)
        _fields(shape, value)
    return check


def _fields(shape: Mapping[str, tuple[Check, bool]], value: Mapping[str, Any]) -> None:
    for field, (rule, optional) in shape.items():
        if field not in value:
            if not optional:
                raise ValueError(f"{field} is missing")
            continue
        try:
            rule(value[field])
        except (PrivledgerError, ValueError, TypeError) as error:
            inside = str(error) if isinstance(error, ValueError) and " is " in str(error) else ""
            raise ValueError(f"{field} is not what it may be"
                             + (f" ({inside})" if inside else "")) from None


def _cap(value: Any) -> None:
    _CAP(value)
    Cap.from_dict(value)


def _policy(value: Any) -> None:
    _object(value)
    Policy.from_dict({"policy": value})


def _item(value: Any) -> None:
    if type(value) is not list or len(value) != 3:
        raise ValueError
    for one in value:
        _whole(one)


def _must(check: Check) -> tuple[Check, bool]:
    return check, not OPTIONAL


def _may(check: Check) -> tuple[Check, bool]:
    return check, OPTIONAL


def _key(value: object) -> None:
    if type(value) is not str or not _KEY.fullmatch(value):
        raise ValueError


def _array(value: object) -> None:
    _ARRAY(value)
    assert isinstance(value, dict)
    whole, values = value["kind"] == "int", value["values"]
    if math.prod(value["shape"]) != len(values) or any(
            type(one) is not (int if whole else float) for one in values) or (
            whole and any(not -2**63 <= one < 2**63 for one in values)):
        raise ValueError


_ARRAY = _record(kind=_must(_among("float", "int")), shape=_must(_list(_whole)),
                 values=_must(_list(_real(number))))
_answer = _record(asked=_must(_key), values=_must(_list(_array)))
_BUDGET = _record(epsilon=_must(_real(positive)), delta=_must(_delta), failure=_may(_delta))
_CAP = _record(epsilon=_must(_real(positive)), delta=_must(_delta), failure=_may(_delta),
               data=_must(_maybe(_name)),
               labels=_must(_labels), window=_may(_maybe(window_name)), per_window=_may(_flag))
_STEP = _record(kind=_must(_among("poisson", "fixed", "truncated", "allocation", "part",
                                  "filter")), token=_must(_text), rate=_may(_real(number)),
                part=_may(lambda value: _int(value)), parts=_may(lambda value: _int(value)),
                certificate=_may(_text), caps=_may(_text),
                size=_may(_whole), out_of=_may(_whole))
_PLACE = _record(grant=_must(_name), data=_must(_name), labels=_must(_labels),
                 units=_must(_whole), delta_units=_must(_whole), until=_must(_text),
                 host=_must(_text), pid=_must(_whole), started=_must(_text))
_NOTE = _record(name=_must(_text), sha256=_must(_text))
_CHARGE: dict[str, tuple[Check, bool]] = {
    "plan": _must(_object), "delta": _must(_delta), "units": _must(_whole),
    "delta_units": _must(_whole), "window": _may(_maybe(window_name)), "time": _may(_text)}
_OVER: dict[str, tuple[Check, bool]] = {
    "grant": _must(_name), "time": _may(_text), "touched": _must(_flag),
    "releases": _must(_whole), "error": _may(_text), "failed": _may(_flag),
    "vector": _may(_NOTE),
    "cap": _may(_real(positive)), "answer": _may(_maybe(lambda value: _answer(value)))}


def _int(value: Any) -> None:
    if type(value) is not int:
        raise ValueError


SHAPES: dict[str, dict[str, tuple[Check, bool]]] = {
    "created": {
        "format": _must(_whole), "uuid": _must(_name), "time": _may(_text),
        "relation": _must(check_relation), "budget": _must(_BUDGET),
        "filter": _must(_among("auto", *FILTERS)), "mode": _must(_among("private", "simulation")),
        "noise": _must(_text), "caps": _may(_list(_cap)), "policy": _may(_maybe(_policy)),
        "unit": _may(_among(*UNITS)), "key_check": _may(_maybe(_mark))},
    "filter": {
        "kind": _must(_among(*FILTERS)), "order": _must(_order),
        "cap_units": _must(_whole), "delta_cap_units": _must(_whole), "theorem": _may(_text)},
    "protected": {
        "data": _must(_name), "schema": _must(_text), "schema_sha256": _must(_text),
        "time": _may(_text), "rows": _may(_maybe(_whole)), "fingerprint": _may(_text),
        "public_features": _may(_flag), "unlabelled": _may(_flag),
        "engine": _may(_text)},
    "enrolled": {"data": _must(_name), "people": _must(_NOTE), "members": _must(_NOTE),
                 "time": _may(_text)},
    "scope": {"scope": _must(_name), **_CHARGE},
    "granted": {
        "grant": _must(_name), "learner": _must(_text), "data": _must(_name), **_CHARGE,
        "scope": _may(_maybe(_name)), "labels": _may(_labels), "claimed": _may(_real(non_negative)),
        "worst": _may(_real(non_negative)), "lease": _may(_maybe(_real(positive))),
        "holder": _may(_record(host=_must(_text), pid=_must(_whole), started=_must(_text))),
        "isolation": _may(_text), "enrolled": _may(_whole)},
    "refused": {
        "learner": _may(_text), "unit": _may(_text), "time": _may(_text),
        "asked": _may(_real(number)), "spent": _may(_real(number)), "left": _may(_real(number)),
        "rules": _may(_list(_text)), "waits": _may(_PLACE), "left_line": _may(_name)},
    "released": {
        "grant": _must(_name), "first": _must(_whole), "questions": _must(_list(_text)),
        "nodes": _must(_list(_record(under=_must(_list(_STEP)), leaf=_must(_object)))),
        "items": _must(_list(_item)), "noise": _may(_text)},
    "settled": _OVER,
    "aborted": _OVER,
    "crashed": {"grant": _must(_name), "time": _may(_text), "why": _may(_text)},
    "corrected": {
        "grant": _must(_name), "plan": _must(_maybe(_object)), "units": _must(_whole),
        "delta_units": _must(_whole), "why": _must(_text), "time": _may(_text)},
    "window": {"window": _must(window_name), "time": _may(_text)},
}
"""Kind -> field -> its check, and whether it may be left out."""

SINCE = {"corrected": 2, "window": 3, "enrolled": 4}
"""Kinds that earlier formats do not have."""

assert ISOLATIONS  # named by policies; an entry may name another, which only a policy refuses


class EntriesAreWhole:
    """Every entry has the fields of its kind, of their types, in the format of its ledger."""

    name = "entries-are-whole"

    def __init__(self) -> None:
        self._format, self._mode = FORMAT, "private"
        for kind in SHAPES:
            setattr(self, f"on_{kind}", self.look)

    def idle(self, line: Line) -> bool:
        """Names and counts that were cut out are plain texts and whole numbers."""
        return True

    def look(self, line: Line, state: State | None) -> list[Finding]:
        """What is wrong with one entry: one finding, or none."""
        try:
            self._check(line.event.kind, encode(line.event))
        except (PrivledgerError, ValueError, TypeError, KeyError) as error:
            return [Finding(self.name, line.position, str(error) or "malformed")]
        return []

    def _check(self, kind: str, body: Any) -> None:
        _object(body)
        _fields(SHAPES[kind], body)
        if kind == "created":
            self._format, self._mode = body["format"], body["mode"]
            _check_created(body)
        if SINCE.get(kind, 1) > self._format:
            raise ValueError(f"format {self._format} has no {kind}")
        if kind == "released":
            nodes, questions = len(body["nodes"]), len(body["questions"])
            if any(node >= nodes or asked >= questions for node, asked, _ in body["items"]):
                raise ValueError("an item of a node or a question that is not there")
        if kind in ("settled", "aborted") and body["releases"] and not body["touched"]:
            raise ValueError("releases, although no data was touched")
        if kind == "aborted" and (body["touched"] or body["releases"]):
            raise ValueError("handed back, although data was touched")
        if kind in ("settled", "aborted") and body.get("answer") is not None:
            _check_answer(kind, body, body["answer"], self._mode)


def _check_answer(kind: str, body: Mapping[str, object], answer: Mapping[str, object],
                  mode: str) -> None:
    """What is given out again was released once, in private, under a grant that did not fail."""
    if kind != "settled" or body["releases"] != 1 or body.get("failed") or mode != "private" or (
            not answer["values"]):
        raise ValueError("an answer that no single release gave")


def _check_created(body: Mapping[str, Any]) -> None:
    format_, caps = body["format"], body.get("caps") or []
    late = body.get("policy") is not None or any(
        cap.get("window") is not None or cap.get("per_window") for cap in caps)
    unit = body.get("unit")
    if (unit == "person") != (body.get("key_check") is not None):
        raise ValueError("a key of people goes with unit person, and with no other")
    if format_ < 1 or (caps and format_ < 2) or (late and format_ < 3) or (
            unit not in (None, "row") and format_ < 4):
        raise ValueError(f"format {format_} has no such creation")
