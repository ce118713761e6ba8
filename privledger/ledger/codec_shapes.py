"""What the body of every kind of entry holds: field by field, with the format it came with.

The history itself is folded leniently, so that an old file opens; an audit asks for all of this.
A field that is not listed is let through: a later version may have written it. What is for
information only may be missing, but if it is there it is of its type.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from privledger.accounting import check_relation
from privledger.errors import PrivledgerError
from privledger.ledger.budget import Budget
from privledger.ledger.caps import Cap, window_name
from privledger.ledger.filters import MOST_ORDER
from privledger.ledger.policy import Policy
from privledger.rounding import non_negative, number, positive, probability

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
               "vector?:Vector cap?:real+ answer?:Answer~",
    "aborted": "grant:name time?:text touched:flag releases:nat error?:text failed?:flag "
               "vector?:Vector cap?:real+ answer?:Answer~",
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


def _real(check: Callable[[str, object], float]) -> Check:
    def plain(value: Any) -> None:
        if type(value) not in (int, float):
            raise ValueError
        check("value", value)
    return plain


def _labels(value: Any) -> bool:
    return type(value) is dict and all(
        type(one) is str and 0 < len(key) <= 200 and len(one) <= 200
        for key, one in value.items())


def _whole(value: Any) -> bool:
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


_real_0 = _real(non_negative)
_ATOMS: dict[str, Check] = {
    "nat": _is(_whole), "nat+": _is(lambda value: _whole(value) and value > 0),
    "int": _is(lambda value: type(value) is int), "flag": _is(lambda value: type(value) is bool),
    "text": _is(lambda value: type(value) is str),
    "name": _is(lambda value: type(value) is str and value != ""),
    "object": _is(lambda value: type(value) is dict), "labels": _is(_labels),
    "item": _is(lambda value: type(value) is list and len(value) == 3 and all(map(_whole, value))),
    "real": _real(number), "real0": _real_0, "real+": _real(positive),
    "order": _is(lambda value: _real_0(value) is None and value <= MOST_ORDER),
    "chance": _real(lambda name, found: probability(name, found, zero=True)),
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
