"""What the body of every kind of entry holds, from which format on, and what each field may be."""

from __future__ import annotations

import re
from typing import Any, Callable  # noqa: UP035

from .nodes import RELATIONS, among, chance, flag, number, zero_or_more
from .reading import Bad, real, whole

Rule = Callable[[Any], Any]
SINCE = {"corrected": 2, "window": 3, "enrolled": 4}  # kinds that earlier formats do not have
FILTER_NAMES = ("gdp", "zcdp", "rdp", "basic")
MOST_ORDER = 1_000_000
ISOLATIONS = ("guarded", "brokered", "foreign")
UNITS = ("row", "person")
MARK, KEY = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")


def renyi_order(value: Any) -> float:
    """An order of a filter: 0, where it has none, up to the largest."""
    if zero_or_more(value) > MOST_ORDER:
        raise Bad(f"an order above {MOST_ORDER}")
    return float(value)


def text(value: Any) -> str:
    """A text, maybe an empty one."""
    if type(value) is not str:
        raise Bad("not a text")
    return value


def name(value: Any) -> str:
    """A text that is not empty."""
    if not text(value):
        raise Bad("an empty name")
    return str(value)


def period(value: Any) -> str:
    """The name of a window: printable, at most 200 characters."""
    if not text(value).strip() or len(value) > 200 or not value.isprintable():
        raise Bad("not the name of a window")
    return str(value)


def mark(value: object) -> str:
    """The mark that a key leaves on a fixed label."""
    if not MARK.fullmatch(text(value)):
        raise Bad("not the mark of a key")
    return str(value)


def some(rule: Rule) -> Rule:
    """A list of it."""
    def check(value: Any) -> Any:
        if type(value) is not list:
            raise Bad("not a list")
        return [rule(one) for one in value]
    return check


def maybe(rule: Rule) -> Rule:
    """It, or null."""
    return lambda value: None if value is None else rule(value)


def plan(value: Any) -> Any:
    """An object; what is in it is read by the table of nodes."""
    if type(value) is not dict:
        raise Bad("not a plan")
    return value


def labels(value: Any) -> Any:
    """Labels: short texts by short names."""
    if type(value) is not dict or not all(
            type(one) is str and key and len(key) <= 200 and len(one) <= 200
            for key, one in value.items()):
        raise Bad("labels that are not short texts")
    return value


def record(shape: dict[str, tuple[Rule, bool]]) -> Rule:
    """An object with these fields; the flag says which must be there. Others are let through."""
    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise Bad("not an object")
        for field, (rule, needed) in shape.items():
            if field in value:
                try:
                    rule(value[field])
                except Bad as error:
                    raise Bad(f"{field}: {error}") from None
            elif needed:
                raise Bad(f"{field} is missing")
        return value
    return check


def item(value: Any) -> Any:
    """A release: places of its node and question, and how many cells were asked."""
    if type(value) is not list or len(value) != 3:
        raise Bad("not a node, a question and a number of cells")
    return [whole(one) for one in value]


def kept_array(value: object) -> object:
    """An array of an answer: as many numbers of its kind as its shape says."""
    body = record(ARRAY)(value)
    if body["kind"] == "int":
        wrong = [one for one in body["values"]
                 if type(one) is not int or not -2**63 <= one < 2**63]
    else:
        wrong = [one for one in body["values"] if type(one) is not float]
    count = 1
    for one in body["shape"]:
        count *= one
    if wrong or count != len(body["values"]):
        raise Bad("not the array that its shape and kind say")
    return value


def kept_answer(value: object) -> object:
    """A released value that is kept."""
    body = record(ANSWER)(value)
    if not KEY.fullmatch(text(body["asked"])) or not body["values"]:
        raise Bad("not an answer")
    return value


ARRAY = {"kind": (among("float", "int"), True), "shape": (some(whole), True),
         "values": (some(number), True)}
ANSWER = {"asked": (text, True), "values": (some(kept_array), True)}
BUDGET = record({"epsilon": (real, True), "delta": (chance(zero=True), True),
                 "failure": (chance(zero=True), False)})
CAP = record({"epsilon": (real, True), "delta": (chance(zero=True), True),
              "failure": (chance(zero=True), False),
              "data": (maybe(name), True), "labels": (labels, True),
              "window": (maybe(period), False), "per_window": (flag, False)})
PLACE = record({"grant": (name, True), "data": (name, True), "labels": (labels, True),
                "units": (whole, True), "delta_units": (whole, True), "until": (text, True),
                "host": (text, True), "pid": (whole, True), "started": (text, True)})
HOLDER = record({"host": (text, True), "pid": (whole, True), "started": (text, True)})
VECTOR = record({"name": (text, True), "sha256": (text, True)})
OVER = {"grant": (name, True), "time": (text, False), "touched": (flag, True),
        "releases": (whole, True), "error": (text, False), "failed": (flag, False),
        "vector": (VECTOR, False), "cap": (real, False), "answer": (maybe(kept_answer), False)}
SHAPES: dict[str, dict[str, tuple[Rule, bool]]] = {
    "created": {"format": (lambda value: whole(value, 1), True), "uuid": (name, True),
                "time": (text, False), "relation": (among(*RELATIONS), True),
                "budget": (BUDGET, True), "filter": (among("auto", *FILTER_NAMES), True),
                "mode": (among("private", "simulation"), True), "noise": (text, True),
                "caps": (some(CAP), False), "policy": (maybe(plan), False),
                "unit": (among(*UNITS), False), "key_check": (maybe(mark), False)},
    "filter": {"kind": (among(*FILTER_NAMES), True), "order": (renyi_order, True),
               "cap_units": (whole, True), "delta_cap_units": (whole, True),
               "theorem": (text, False)},
    "protected": {"data": (name, True), "schema": (text, True), "schema_sha256": (text, True),
                  "time": (text, False), "rows": (maybe(whole), False),
                  "fingerprint": (text, False), "public_features": (flag, False),
                  "unlabelled": (flag, False), "engine": (text, False)},
    "enrolled": {"data": (name, True), "people": (VECTOR, True), "members": (VECTOR, True),
                 "time": (text, False)},
    "scope": {"scope": (name, True), "plan": (plan, True), "delta": (chance(zero=True), True),
              "units": (whole, True), "delta_units": (whole, True), "time": (text, False),
              "window": (maybe(period), False)},
    "granted": {"grant": (name, True), "learner": (text, True), "data": (name, True),
                "plan": (plan, True), "delta": (chance(zero=True), True),
                "units": (whole, True), "delta_units": (whole, True),
                "scope": (maybe(name), False), "labels": (labels, False),
                "window": (maybe(period), False), "claimed": (zero_or_more, False),
                "worst": (zero_or_more, False), "holder": (HOLDER, False),
                "isolation": (text, False), "lease": (maybe(real), False),
                "enrolled": (whole, False),
                "time": (text, False)},
    "refused": {"learner": (text, False), "unit": (text, False), "time": (text, False),
                "asked": (number, False), "spent": (number, False), "left": (number, False),
                "rules": (some(text), False), "waits": (PLACE, False),
                "left_line": (name, False)},
    "released": {"grant": (name, True), "first": (whole, True), "nodes": (some(plan), True),
                 "questions": (some(text), True), "items": (some(item), True),
                 "noise": (text, False)},
    "settled": OVER,
    "aborted": OVER,
    "crashed": {"grant": (name, True), "time": (text, False), "why": (text, False)},
    "corrected": {"grant": (name, True), "plan": (maybe(plan), True), "units": (whole, True),
                  "delta_units": (whole, True), "why": (text, True), "time": (text, False)},
    "window": {"window": (period, True), "time": (text, False)},
}


def check_shape(kind: Any, body: Any, format_: int) -> None:
    """Raise `Bad` unless a body has what its kind asks for, in the format of its ledger."""
    if type(kind) is not str or kind not in SHAPES:
        raise Bad("an entry of an unknown kind")
    record(SHAPES[kind])(body)
    if SINCE.get(kind, 1) > format_:
        raise Bad(f"an entry that format {format_} does not have")
    if kind == "created":
        check_created(body)
    if kind == "released":
        nodes, questions = len(body["nodes"]), len(body["questions"])
        if any(one[0] >= nodes or one[1] >= questions for one in body["items"]):
            raise Bad("an item of a node or a question that is not there")
    if kind in ("settled", "aborted") and body["releases"] and not body["touched"]:
        raise Bad("releases, although no data was touched")


def check_created(body: Any) -> None:
    """Refuse fields that the creation's format did not have, or that exclude each other."""
    caps = body.get("caps") or []
    if (caps and body["format"] < 2) or (body["format"] < 3 and (
            body.get("policy") is not None
            or any(cap.get("window") is not None or cap.get("per_window") for cap in caps))):
        raise Bad(f"a creation that format {body['format']} does not have")
    person = body.get("unit", "row") == "person"
    if person and body["format"] < 4:
        raise Bad(f"a unit that format {body['format']} does not have")
    if person != (body.get("key_check") is not None):
        raise Bad("a key of people goes with unit person, and with no other")
    for cap in caps:
        if cap.get("per_window") and cap.get("window") is not None:
            raise Bad("a cap for one window and for each")
        if cap["data"] is None and not cap["labels"] and cap.get("window") is None and not (
                cap.get("per_window")):
            raise Bad("a cap for nothing")
