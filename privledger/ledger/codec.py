"""Bodies of entries <-> events. Nothing else knows how an entry is written.

Formats 1 to 4 are read by the same names: a later one only adds. A field that is not known is
kept, unread, so that a body is written again as it was. Format: docs/ledger-format.md.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from attrs import NOTHING, asdict, fields

from privledger.accounting import check_relation
from privledger.errors import PrivledgerError
from privledger.graph import canonical
from privledger.ledger.events import (
    EVENTS,
    Answer,
    Estimate,
    Event,
    Holder,
    PrivateScore,
    ReleasedNode,
    Unknown,
    VectorNote,
)
from privledger.ledger.filters import MOST_ORDER, Budget, Cap, window_name
from privledger.ledger.line import QueuePosition
from privledger.ledger.policy import Policy
from privledger.rounding import non_negative, number, positive, probability

# What the body of every kind of entry holds: field by field, with the format it came with.
#
# The history itself is folded leniently, so that an old file opens; an audit asks for all of this.
# A field that is not listed is let through: a later version may have written it. What is for
# information only may be missing, but if it is there it is of its type.

Check = Callable[[Any], object]
ENTRIES = {
    "created": "format:nat+ uuid:name time?:text relation:relation budget:Budget "
               "filter:auto|basic|gdp|rdp|zcdp mode:private|simulation noise:text caps?:Cap* "
               "policy?:policy~ unit?:person|row key_check?:hex32~",
    "filter": "kind:basic|gdp|rdp|zcdp order:order cap_units:nat delta_cap_units:nat "
              "theorem?:text",
    "protected": "data:name schema:text schema_sha256:text time?:text rows?:nat~ "
                 "fingerprint?:text public_features?:flag unlabelled?:flag engine?:text",
    "enrolled@4": "data:name people:Vector members:Vector time?:text",
    "scope": "scope:name plan:object delta:chance units:nat delta_units:nat window?:window~ "
             "time?:text",
    "granted": "grant:name learner:text data:name plan:object delta:chance units:nat "
               "delta_units:nat window?:window~ time?:text scope?:name~ labels?:labels "
               "claimed?:real0 worst?:real0 lease?:real+~ holder?:Holder isolation?:text "
               "enrolled?:nat mark?:hex64",
    "refused": "learner?:text unit?:text time?:text asked?:real spent?:real left?:real "
               "rules?:text* waits?:Place left_line?:name limit?:text",
    "released": "grant:name first:nat questions:text* nodes:Leaf* items:item* noise?:text",
    "settled": "grant:name time?:text touched:flag releases:nat error?:text failed?:flag "
               "vector?:Vector cap?:real+ answer?:Answer~ score?:Score~",
    "aborted": "grant:name time?:text touched:flag releases:nat error?:text failed?:flag "
               "vector?:Vector cap?:real+ answer?:Answer~ score?:Score~",
    "crashed": "grant:name time?:text why?:text",
    "corrected@2": "grant:name plan:object~ units:nat delta_units:nat why:text time?:text",
    "window@3": "window:window time?:text",
    # What stands inside a body:
    "Budget": "epsilon:real+ delta:chance failure?:chance",
    "Cap": "epsilon:real+ delta:chance failure?:chance data:name~ labels:labels window?:window~ "
           "per_window?:flag",
    "Vector": "name:text sha256:text",
    "Holder": "host:text pid:nat started:text",
    "Place": "grant:name data:name labels:labels units:nat delta_units:nat until:text host:text "
             "pid:nat started:text",
    "Leaf": "under:Step* leaf:object",
    "Step": "kind:allocation|filter|fixed|part|poisson|truncated token:text rate?:real part?:int "
            "parts?:int certificate?:text caps?:text size?:nat out_of?:nat",
    "Answer": "asked:hex64 values:Array* seal?:hex64",
    "Array": "kind:float|int shape:nat* values:real*",
    "Score": "estimates:Estimate* records:real share:chance epsilon:real0",
    "Estimate": "name:name value:real noise:ends~ both:ends~",
}
"""Every field of every entry, once. `NAME:TYPE` has to be there, `NAME?:TYPE` may be left out; a
type with `~` may be null, one with `*` is a list of it, `a|b` is one of these words, a capital is
an object described here. `@N` after a kind: formats before N do not have it."""
_FIELDS = {kind.partition("@")[0]: fields for kind, fields in ENTRIES.items()}
SINCE = {kind.partition("@")[0]: int(kind.partition("@")[2] or 1) for kind in ENTRIES}


def _is(ok: Callable[[Any], bool]) -> Check:
    def check(value: Any) -> None:
        if not ok(value):
            raise ValueError
    return check


def _number(check: Callable[[str, object], float]) -> Check:
    def plain(value: Any) -> None:
        if type(value) not in (int, float):
            raise ValueError
        check("value", value)
    return plain


def _are_labels(value: Any) -> bool:
    return type(value) is dict and all(
        type(one) is str and 0 < len(key) <= 200 and len(one) <= 200
        for key, one in value.items())


def _is_whole(value: Any) -> bool:
    return type(value) is int and value >= 0


def _hex(digits: int) -> Check:
    form = re.compile(f"[0-9a-f]{{{digits}}}")
    return _is(lambda value: type(value) is str and form.fullmatch(value) is not None)


def _array(value: Any) -> None:
    whole, values = value["kind"] == "int", value["values"]
    if math.prod(value["shape"]) != len(values) or any(
            type(one) is not (int if whole else float) for one in values) or (
            whole and any(not -2**63 <= one < 2**63 for one in values)):
        raise ValueError


def _policy(value: Any) -> None:
    if type(value) is not dict:
        raise ValueError
    Policy.from_dict({"policy": value})


_real_0 = _number(non_negative)
_ATOMS: dict[str, Check] = {
    "nat": _is(_is_whole), "nat+": _is(lambda value: _is_whole(value) and value > 0),
    "int": _is(lambda value: type(value) is int), "flag": _is(lambda value: type(value) is bool),
    "text": _is(lambda value: type(value) is str),
    "name": _is(lambda value: type(value) is str and value != ""),
    "ends": _is(lambda value: type(value) is list and len(value) == 2 and all(
        type(one) in (int, float) and number("end", one) == one for one in value)),
    "object": _is(lambda value: type(value) is dict), "labels": _is(_are_labels),
    "item": _is(lambda value: type(value) is list and len(value) == 3 and all(
        map(_is_whole, value))),
    "real": _number(number), "real0": _real_0, "real+": _number(positive),
    "order": _is(lambda value: _real_0(value) is None and value <= MOST_ORDER),
    "chance": _number(lambda name, found: probability(name, found, zero=True)),
    "hex32": _hex(32), "hex64": _hex(64), "window": window_name, "relation": check_relation,
    "policy": _policy,
}
_BETWEEN: dict[str, Check] = {
    "Budget": lambda value: Budget(value["epsilon"], value["delta"], value.get("failure", 0.0)),
    "Cap": Cap.from_dict, "Array": _array}
"""What else a record has to be: rules between its fields."""


def _check_of(word: str) -> Check:
    """The check of a type."""
    inner = _check_of(word[:-1]) if word[-1] in "~*" else None
    if inner is not None and word[-1] == "~":
        return lambda value: None if value is None else inner(value)
    if inner is not None:
        def each(value: Any) -> None:
            if type(value) is not list:
                raise ValueError
            for one in value:
                inner(one)
        return each
    if word[0].isupper():
        def record(value: Any) -> None:
            check_fields(shape_of(word), value)
            if word in _BETWEEN:
                _BETWEEN[word](value)
        return record
    words = word.split("|")
    return _ATOMS[word] if word in _ATOMS else _is(lambda value: type(value) is str and (
        value in words))


@cache
def shape_of(kind: str) -> dict[str, tuple[Check, bool]]:
    """Field -> its check, and whether it may be left out."""
    found = {}
    for one in _FIELDS[kind].split():
        name, _, word = one.partition(":")
        found[name.removesuffix("?")] = _check_of(word), name.endswith("?")
    return found


def check_fields(shape: Mapping[str, tuple[Check, bool]], value: Any) -> None:
    """Every field there is of its type, and none is missing.

    Raises:
        ValueError: which is not.
    """
    if type(value) is not dict:
        raise ValueError
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


SHAPES = {kind: shape_of(kind) for kind in _FIELDS if kind[0].islower()}
"""Kind -> field -> its check, and whether it may be left out."""


def check_together(kind: str, body: Mapping[str, Any], format_: int, mode: str) -> None:
    """The rules between fields of an entry that has the fields of its kind.

    Args:
        format_, mode: of the ledger; of itself for a creation.

    Raises:
        ValueError, PrivledgerError: what is wrong.
    """
    if SINCE[kind] > format_:
        raise ValueError(f"format {format_} has no {kind}")
    if kind == "created":
        _check_created(body)
    if kind == "released":
        nodes, questions = len(body["nodes"]), len(body["questions"])
        if any(node >= nodes or asked >= questions for node, asked, _ in body["items"]):
            raise ValueError("an item of a node or a question that is not there")
    # Releases of a grant that touched nothing: an interrupt between charge and look, written
    # by an earlier version. The charge stays whole, so it can only be too high.
    if kind == "aborted" and body["touched"]:
        raise ValueError("handed back, although data was touched")
    answer = body.get("answer") if kind in ("settled", "aborted") else None
    # What is given out again was released once, in private, under a grant that did not fail.
    if answer is not None and (kind != "settled" or body["releases"] != 1 or body.get("failed")
                               or mode != "private" or not answer["values"]):
        raise ValueError("an answer that no single release gave")
    if kind in ("settled", "aborted") and body.get("score") is not None and (
            kind != "settled" or not body["releases"] or body.get("failed")):
        raise ValueError("a score that no release gave")


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


Body = dict[str, Any]
RAW = "_raw"
"""Where an event that was read keeps the body it was read from; shared, never changed. A copy
(`like`) keeps a pair: the body of its model, and the fields in which it differs."""

_NAMES = {"filter": {"rule": "kind"}}  # a record's field -> its name in the body
_ALWAYS = {"created": ("caps",), "granted": ("scope", "labels", "lease", "isolation"),
           "refused": ("learner", "unit")}  # written even where they hold their defaults


def _maybe(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else make(value)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _real(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return value


def _labels(value: object) -> dict[str, str]:
    if value and not isinstance(value, dict):
        raise TypeError
    return {_text(key): _text(one) for key, one in value.items()} if isinstance(value, dict) else {}


def _note(value: Mapping[str, str]) -> VectorNote:
    return VectorNote(value["name"], value["sha256"])


def _place(value: Any) -> QueuePosition:
    check_fields(shape_of("Place"), value)
    return QueuePosition(**{one.name: value[one.name] for one in fields(QueuePosition)})


def _score(value: Body) -> PrivateScore:
    check_fields(shape_of("Score"), value)
    return PrivateScore(tuple(Estimate(one["name"], one["value"], *(
        None if one[ends] is None else tuple(one[ends]) for ends in ("noise", "both")))
        for one in value["estimates"]), value["records"], value["share"], value["epsilon"])


def _same(value: Any) -> Any:
    return value


def _limit(value: Mapping[str, Any]) -> Budget:
    return Budget(value["epsilon"], value["delta"], value.get("failure", 0.0))


Convert = Callable[[Any], Any]
_TYPES: dict[object, tuple[Convert, Convert]] = {
    "str": (_text, _same), "str | None": (_maybe(_text), _same), "tuple[str, ...]": (tuple, list),
    "dict[str, str]": (_labels, _same),
    "Budget": (_limit, Budget.as_dict),
    "tuple[Cap, ...]": (lambda value: tuple(map(Cap.from_dict, value)),
                        lambda value: [cap.as_dict() for cap in value]),
    "Policy | None": (_maybe(lambda value: Policy.from_dict({"policy": value})),
                      _maybe(Policy.as_dict)),
    "Holder | None": (_maybe(lambda value: Holder(
        value.get("host"), value.get("pid"), value.get("started"))), _maybe(asdict)),
    "QueuePosition | None": (_maybe(_place), _maybe(asdict)),
    "list[ReleasedNode]": (lambda value: [ReleasedNode(one["under"], one["leaf"]) for one in value],
                           lambda value: [asdict(one, recurse=False) for one in value]),
    "VectorNote": (_note, asdict),
    "VectorNote | None": (lambda value: _note(value) if value else None, _maybe(asdict)),
    "Answer | None": (
        _maybe(lambda value: Answer(value["asked"], value["values"], value.get("seal"))),
        _maybe(lambda value: asdict(value, filter=lambda _, one: one is not None))),
    "PrivateScore | None": (_maybe(_score), _maybe(lambda value: json.loads(json.dumps(
        asdict(value))))),
}
"""How a field of a record is read and written, by its type; all others are taken as they are."""


def _plan_of(cls: type[Any]) -> tuple[tuple[str, str, Any, Convert | None, Convert], ...]:
    """Of each field of a record: its name, that in the body, default, reading, writing."""
    names, found = _NAMES.get(cls.kind, {}), []
    for one in fields(cls):
        read, write = _TYPES.get(one.type, (None, _same))
        found.append((one.name, names.get(one.name, one.name), one.default,
                      _real if one.name == "order" else read, write))
    return tuple(found)


_PLANS = {kind: _plan_of(cls) for kind, cls in EVENTS.items()}


def decode(kind: str, body: Any) -> Event:
    """The event that a body says; `Unknown` for a kind that this version does not know.

    Nothing is refused here: a field that is missing or cannot be read is left out, and asking
    the event for it raises `Unreadable`. A text that cannot be read is left out, too:
    it could not be shown. Types of numbers are not looked at (an audit does).
    """
    cls = EVENTS.get(kind)
    event: Any = Unknown(kind) if cls is None else object.__new__(cls)
    values = event.__dict__
    for name, key, default, read, _ in _PLANS.get(kind, ()) if isinstance(body, dict) else ():
        if key in body:
            try:
                values[name] = body[key] if read is None else read(body[key])
            except (PrivledgerError, KeyError, TypeError, ValueError, AttributeError):
                continue
        elif default is not NOTHING:
            values[name] = _made(default)
    values[RAW] = body
    return event  # type: ignore[no-any-return]


def _made(default: Any) -> Any:
    return default.factory() if hasattr(default, "factory") else default


def encode(event: Event) -> Any:
    """The body of an event: as it was read, or written with what differs from the defaults."""
    plan = _PLANS.get(event.kind, ())
    if RAW in event.__dict__:
        raw = event.__dict__[RAW]
        if type(raw) is not tuple:
            return dict(raw) if isinstance(raw, dict) else raw
        base, fresh = raw
        return {**base, **{key: write(getattr(event, name))
                           for name, key, _, _, write in plan if name in fresh}}
    always = _ALWAYS.get(event.kind, ())
    return {key: write(getattr(event, name)) for name, key, default, _, write in plan
            if default is NOTHING or name in always or getattr(event, name) != _made(default)}


def model(kind: str, body: Body, fresh: Iterable[str]) -> Event:
    """An event to make others from with `like`.

    Args:
        fresh: the fields in which they will differ.
    """
    event = decode(kind, body)
    event.__dict__[RAW] = body, tuple(fresh)
    return event


def like(event: Event, changes: Mapping[str, Any]) -> Event:
    """A copy of a `model` with values for its fresh fields, for readers that know the rest."""
    copy: Any = object.__new__(type(event))
    object.__setattr__(copy, "__dict__", {**event.__dict__, **changes})
    return copy  # type: ignore[no-any-return]


def without(event: Event, *names: str) -> Event:
    """An event as if some of its fields had never been given."""
    return decode(event.kind, {
        name: value for name, value in encode(event).items() if name not in names})


def written(event: Event) -> str:
    """Canonical JSON of an event's body."""
    return canonical(encode(event))


def given(event: Event) -> set[str]:
    """Names of everything that stands in the event's body, known or not."""
    return set(encode(event))
