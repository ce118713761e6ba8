"""What the body of every kind of entry holds, from which format on, and what each field may be."""

from __future__ import annotations

import re
from typing import Any, Callable  # noqa: UP035

from .reading import RELATIONS, Bad, among, chance, flag, number, real, whole, zero_or_more

Rule = Callable[[Any], Any]
MOST_ORDER = 1_000_000
ISOLATIONS = ("guarded", "brokered", "foreign")
MARK, KEY = re.compile("[0-9a-f]{32}"), re.compile("[0-9a-f]{64}")
# A specification, written down here a second time; a test compares it with the package's.
BODIES = {
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
FIELDS_OF = {kind.partition("@")[0]: fields for kind, fields in BODIES.items()}
SINCE = {kind.partition("@")[0]: int(kind.partition("@")[2] or 1) for kind in BODIES}


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
        raise Bad("not an object")
    return value


def labels(value: Any) -> Any:
    """Labels: short texts by short names."""
    if type(value) is not dict or not all(
            type(one) is str and key and len(key) <= 200 and len(one) <= 200
            for key, one in value.items()):
        raise Bad("labels that are not short texts")
    return value


def record(shape: dict[str, tuple[Rule, bool]], between: Rule = lambda value: None) -> Rule:
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
        between(value)
        return value
    return check


def item(value: Any) -> Any:
    """A release: places of its node and question, and how many cells were asked."""
    if type(value) is not list or len(value) != 3:
        raise Bad("not a node, a question and a number of cells")
    return [whole(one) for one in value]


def ends(value: object) -> object:
    """The two ends of an interval."""
    if not isinstance(value, list) or len(value) != 2:
        raise Bad("not two ends")
    return [number(one) for one in value]


def integer(value: Any) -> int:
    """A whole number, of any sign."""
    if type(value) is not int:
        raise Bad("not a whole number")
    return value


def key(value: object) -> str:
    """A sha256."""
    if not KEY.fullmatch(text(value)):
        raise Bad("not a sha256")
    return str(value)


def check_array(body: Any) -> None:
    """As many numbers of its kind as its shape says."""
    if body["kind"] == "int":
        wrong = [one for one in body["values"] if type(one) is not int or not -2**63 <= one < 2**63]
    else:
        wrong = [one for one in body["values"] if type(one) is not float]
    count = 1
    for one in body["shape"]:
        count *= one
    if wrong or count != len(body["values"]):
        raise Bad("not the array that its shape and kind say")


def check_answer(body: Any) -> None:
    """An answer is of something."""
    if not body["values"]:
        raise Bad("an answer without a value")


def check_budget(body: Any) -> None:
    """What may fail is a part of delta."""
    if body.get("failure") and not body["failure"] < body["delta"]:
        raise Bad("a delta reserve that is not below delta")


def check_cap(cap: Any) -> None:
    """A cap is for something, and for one window or for each."""
    check_budget(cap)
    if cap.get("per_window") and cap.get("window") is not None:
        raise Bad("a cap for one window and for each")
    if cap["data"] is None and not cap["labels"] and cap.get("window") is None and not (
            cap.get("per_window")):
        raise Bad("a cap for nothing")


ATOMS: dict[str, Rule] = {
    "nat": whole, "nat+": lambda value: whole(value, 1), "int": integer, "flag": flag,
    "text": text, "name": name, "object": plan, "labels": labels, "item": item, "ends": ends,
    "real": number, "real0": zero_or_more, "real+": real, "order": renyi_order,
    "chance": chance(zero=True), "hex32": mark, "hex64": key, "window": period,
    "relation": among(*RELATIONS), "policy": plan,
}
BETWEEN: dict[str, Rule] = {"Budget": check_budget, "Cap": check_cap,
                            "Array": check_array, "Answer": check_answer}


def rule_of(word: str) -> Rule:
    """The check of a type: `~` null, too; `*` a list of it; `a|b` words; a capital an object."""
    if word[-1] == "~":
        return maybe(rule_of(word[:-1]))
    if word[-1] == "*":
        return some(rule_of(word[:-1]))
    if word[0].isupper():
        return record(shape_of(word), BETWEEN.get(word, plan))
    return ATOMS[word] if word in ATOMS else among(*word.split("|"))


def shape_of(kind: str) -> dict[str, tuple[Rule, bool]]:
    """Field -> its check, and whether it must be there."""
    found = {}
    for one in FIELDS_OF[kind].split():
        field, _, word = one.partition(":")
        found[field.removesuffix("?")] = rule_of(word), not field.endswith("?")
    return found


SHAPES = {kind: shape_of(kind) for kind in FIELDS_OF if kind[0].islower()}


def check_shape(kind: Any, body: Any, format_: int) -> None:
    """Raise `Bad` unless a body has what its kind asks for, in the format of its ledger."""
    if type(kind) is not str or kind not in SHAPES:
        raise Bad("an entry of an unknown kind")
    record(SHAPES[kind])(body)
    if SINCE[kind] > format_:
        raise Bad(f"an entry that format {format_} does not have")
    if kind == "created":
        check_created(body)
    if kind == "released":
        nodes, questions = len(body["nodes"]), len(body["questions"])
        if any(one[0] >= nodes or one[1] >= questions for one in body["items"]):
            raise Bad("an item of a node or a question that is not there")
    if kind == "aborted" and body["touched"]:
        raise Bad("handed back, although data was touched")
    if kind in ("settled", "aborted") and body.get("answer") is not None and (
            kind != "settled" or body["releases"] != 1 or body.get("failed")):
        raise Bad("an answer that no single release gave")
    if kind in ("settled", "aborted") and body.get("score") is not None and (
            kind != "settled" or not body["releases"] or body.get("failed")):
        raise Bad("a score that no release gave")


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
