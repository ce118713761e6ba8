"""Strict JSON, the one text of a value, the hash that binds an entry; and every node of a plan."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, Callable  # noqa: UP035

FORMAT = 4  # the latest version of the format that this reader knows
FIELDS = {"position", "kind", "body", "previous", "hash"}
MOST_BODY, MOST_PLAN = 4 << 20, 1 << 20  # bytes of a body; of one with a plan
MOST_LINE = MOST_BODY + (1 << 16)
MOST_PARTS, MOST_DIGITS, MOST_DEPTH = 100_000, 1000, 260
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)
HUGE = re.compile(f"[0-9]{{{MOST_DIGITS + 1}}}")


class Bad(Exception):
    """A fault, in words."""


class NoPrice(Exception):
    """Names what has no price in this reader."""


def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON, refused if a key is there twice."""
    if len(dict(pairs)) != len(pairs):
        raise Bad("the same key twice in one object")
    return dict(pairs)


def finite(text: str) -> float:
    """A number of JSON, refused if it is none of size."""
    if not math.isfinite(float(text)):
        raise Bad("a number that is not finite")
    return float(text)


def parse(raw: bytes, encoding: str) -> Any:
    """The value of some JSON, if it is within the limits."""
    try:
        text = raw.decode(encoding)
        if text.count("{") + text.count("[") > MOST_PARTS:
            raise Bad(f"more than {MOST_PARTS} objects and lists")
        if HUGE.search(text):
            raise Bad(f"a number of more than {MOST_DIGITS} digits")
        return json.loads(text, object_pairs_hook=no_repeats, parse_float=finite,
                          parse_constant=finite)
    except (ValueError, RecursionError):
        raise Bad("not JSON") from None


def canonical(value: Any) -> str:
    """Keys sorted, no spaces, ASCII only."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def chain_hash(position: int, kind: str, text: str, previous: str) -> str:
    """Of the hash before, and the one text of the rest; `text` is that of the body."""
    whole = f"{previous}[{position},{canonical(kind)},{text}]"
    return hashlib.sha256(whole.encode("ascii")).hexdigest()


def whole(value: Any, least: int = 0) -> int:
    """A whole number of at least `least`; no true, no 1.0."""
    if type(value) is not int or value < least:
        raise Bad(f"not a whole number of at least {least}")
    return value


def real(value: Any, zero: bool = False) -> float:
    """A finite number above zero, or zero too. No boolean, no text."""
    if type(value) not in (int, float) or not (0 < value < math.inf or (zero and value == 0)):
        raise Bad("not a number above zero")
    try:
        found = float(value)
    except OverflowError:
        raise Bad("a number too large") from None
    if 0 < found < 2.2250738585072014e-308:
        raise Bad("a number too close to zero")
    return found


def inert(value: Any) -> str:
    """Text that can do nothing to a terminal: printable ASCII only."""
    return ascii(str(value)[:100])[1:-1][:100]


# Every node type of the composition graph: its fields, what they may be, what they are if absent.
#
# Equal nodes are one object, so that a plan can be counted by its nodes.

REQUIRED = object()
MOST_COUNT = 10**15
MOST_DEEP = 100
MOST_PARTIES = 1000
MOST_CORRELATED, MOST_COEFFICIENTS = 100_000, 2048
RELATIONS = ("add_remove", "replace_one", "replace_label")


def number(value: Any) -> float:
    """Any finite number."""
    if type(value) not in (int, float) or not -math.inf < value < math.inf:
        raise Bad("not a number")
    try:
        return float(value) + 0.0
    except OverflowError:
        raise Bad("a number too large") from None


def moderate(value: Any) -> float:
    """A positive number whose square is neither 0 nor infinite."""
    found = number(value)
    if not 1e-140 <= found <= 1e140:
        raise Bad("not from 1e-140 to 1e140")
    return found


def zero_or_more(value: Any) -> float:
    """0, or a number that `real` takes."""
    return real(value, zero=True)


def chance(zero: bool = False, one: bool = False) -> Callable[[Any], float]:
    """A check for probabilities; whether 0 and 1 themselves pass is said beforehand."""
    def check(value: Any) -> float:
        found = number(value)
        if not (0 < found < 1 or (zero and found == 0) or (one and found == 1)):
            raise Bad("not a probability")
        return found if found in (0, 1) else real(value)
    return check


def counted(least: int = 1) -> Callable[[Any], int]:
    """A check for whole numbers from `least` to the largest count."""
    def check(value: Any) -> int:
        if whole(value, least) > MOST_COUNT:
            raise Bad(f"a count above {MOST_COUNT}")
        return int(value)
    return check


def among(*words: str) -> Callable[[Any], str]:
    """A check for a text that is one of `words`."""
    def check(value: Any) -> str:
        if type(value) is not str or value not in words:
            raise Bad(f"not one of {', '.join(words)}")
        return value
    return check


def flag(value: Any) -> bool:
    """True or false, and no number in their place."""
    if type(value) is not bool:
        raise Bad("not true or false")
    return value


def note(value: Any) -> str:
    """A text, maybe an empty one."""
    if type(value) is not str:
        raise Bad("not a text")
    return value


def sentence(value: Any) -> str:
    """A text that says something."""
    if type(value) is not str or not value.strip():
        raise Bad("not a sentence")
    return value


def shares(value: Any) -> tuple[float, ...]:
    """Positive shares of a Gaussian, together at most one."""
    if type(value) is not list:
        raise Bad("not a list of shares")
    found = tuple(moderate(share) for share in value)
    if found and not math.fsum(found) <= 1:
        raise Bad("shares of a Gaussian above one")
    return found


def numbers(value: object) -> tuple[float, ...]:
    """A list of finite numbers."""
    if type(value) is not list:
        raise Bad("not a list of numbers")
    return tuple([number(one) for one in value])


def ends(value: Any) -> tuple[float, ...]:
    """Two rising numbers from -1 to 1: how far a score may change."""
    if type(value) is not list or len(value) != 2:
        raise Bad("not two numbers")
    low, high = number(value[0]), number(value[1])
    if not -1 <= low < high <= 1:
        raise Bad("not two rising numbers from -1 to 1")
    return low, high


NODE, SOME, SOME_MORE = "inner", "nodes", "nodes, at least one"
GUMBEL = ("exponential", "gumbel")
NODES: dict[str, dict[str, Any]] = {
    "Laplace": {"scale": (moderate, REQUIRED), "l1_sensitivity": (moderate, 1.0)},
    "Gaussian": {"noise_multiplier": (moderate, REQUIRED), "shares": (shares, ())},
    "MixtureOfGaussians": {"standard_deviation": (moderate, REQUIRED),
                           "sensitivities": (numbers, REQUIRED),
                           "probabilities": (numbers, REQUIRED)},
    "DiscreteLaplace": {"parameter": (moderate, REQUIRED), "sensitivity": (counted(), 1)},
    "DiscreteGaussian": {"sigma": (moderate, REQUIRED), "sensitivity": (counted(), 1)},
    "Exponential": {"epsilon": (moderate, REQUIRED), "score_change": (ends, (-1.0, 1.0))},
    "PermuteAndFlip": {"epsilon": (moderate, REQUIRED)},
    "ReportNoisyMax": {"epsilon": (moderate, REQUIRED),
                       "noise": (among("exponential", "laplace", "gumbel"), "exponential")},
    "TopK": {"k": (counted(), REQUIRED), "epsilon": (moderate, REQUIRED),
             "noise": (among(*GUMBEL), "exponential")},
    "SparseVector": {"threshold_scale": (moderate, REQUIRED), "query_scale": (moderate, REQUIRED),
                     "cutoff": (counted(), 1), "sensitivity": (moderate, 1.0),
                     "monotone": (flag, False)},
    "PartitionSelection": {"threshold": (moderate, REQUIRED), "scale": (moderate, REQUIRED),
                           "groups_per_person": (counted(), 1),
                           "noise": (among("laplace", "gaussian", "geometric"), "laplace")},
    "RandomizedResponse": {"noise_parameter": (chance(one=True), REQUIRED),
                           "num_buckets": (counted(2), 2)},
    "Asserted": {"epsilon": (real, REQUIRED), "why": (sentence, REQUIRED),
                 "delta": (chance(zero=True), 0.0)},
    "AssertedZCDP": {"rho": (real, REQUIRED), "why": (sentence, REQUIRED)},
    "PostProcess": {"note": (note, "")},
    "Public": {"fact": (note, "")},
    "Sequential": {"nodes": (SOME, REQUIRED)},
    "Repeat": {"inner": (NODE, REQUIRED), "count": (counted(), REQUIRED)},
    "Parallel": {"nodes": (SOME_MORE, REQUIRED),
                 "certificate": (among("public_predicate", "iid_per_record", "index"),
                                 "public_predicate")},
    "OneOf": {"nodes": (SOME_MORE, REQUIRED)},
    "PoissonSample": {"rate": (chance(one=True), REQUIRED), "inner": (NODE, REQUIRED)},
    "FixedSizeSample": {"size": (counted(), REQUIRED), "out_of": (counted(), REQUIRED),
                        "inner": (NODE, REQUIRED)},
    "TruncatedPoissonSample": {"rate": (chance(one=True), REQUIRED),
                               "most": (counted(), REQUIRED), "out_of": (counted(), REQUIRED),
                               "inner": (NODE, REQUIRED)},
    "Correlated": {"inner": (NODE, REQUIRED), "coefficients": (numbers, REQUIRED),
                   "steps": (counted(), REQUIRED), "separation": (counted(), REQUIRED),
                   "participations": (counted(), REQUIRED)},
    "RandomAllocation": {"steps": (counted(), REQUIRED), "inner": (NODE, REQUIRED)},
    "IndividualFilter": {"kind": (among("gdp", "renyi"), REQUIRED), "cap": (real, REQUIRED),
                         "order": (zero_or_more, 0.0), "inner": (NODE, None)},
    "Group": {"rows": (counted(), REQUIRED), "inner": (NODE, REQUIRED)},
    "AsReplaceOne": {"inner": (NODE, REQUIRED)},
    "LabelOnly": {"inner": (NODE, REQUIRED)},
    "Federated": {"inner": (NODE, REQUIRED), "parties": (counted(), REQUIRED),
                  "colluding": (counted(0), REQUIRED), "least_honest": (counted(), 1),
                  "seen_by": (among("coordinator", "parties", "anybody"), "coordinator"),
                  "noise": (among("local", "shared"), "local")},
    "Tuning": {"inner": (NODE, REQUIRED),
               "distribution": (among("negative_binomial", "poisson"), "negative_binomial"),
               "shape": (number, 1.0), "success": (number, 0.0), "mean": (number, 0.0)},
}
SHARED = {"Sequential", "Repeat", "Parallel", "OneOf", "PoissonSample", "Gaussian",
          "PostProcess", "Public"}
FREE = ("PostProcess", "Public")
LEAST_SHARED = 0.01
COMPOSITES = [name for name, fields in NODES.items() if "inner" in fields or "nodes" in fields]
SPENDING = [name for name in NODES if name not in FREE and (
    name not in COMPOSITES or name == "IndividualFilter")]


class Node:
    """One node, checked. `inside` are the nodes below; equal nodes are the same object."""

    __slots__ = ("deep", "fields", "inside", "kinds", "name", "prices")

    def __init__(self, name: str, fields: dict[str, Any], inside: tuple[Node, ...]) -> None:
        self.name, self.fields, self.inside = name, fields, inside
        self.deep: int = 1 + max((node.deep for node in inside), default=0)
        self.kinds: frozenset[str] = frozenset([name]).union(*(node.kinds for node in inside))
        self.prices: dict[str, Any] = {}

    def __getitem__(self, field: str) -> Any:
        return self.fields[field]

    @property
    def inner(self) -> Node:
        """The only node inside, of a node that has one."""
        return self.inside[0]


class Table:
    """Reads nodes from JSON values and keeps each once."""

    def __init__(self) -> None:
        self.known: dict[Any, Node] = {}

    def node(self, value: Any, deep: int = 1) -> Node:
        """A node from its JSON; equal ones are one object, and are priced once.

        Raises:
            Bad: an unknown node or field, a bad parameter, or too deep a nesting.
        """
        name = value.get("node") if type(value) is dict else None
        if type(name) is not str or name not in NODES:
            raise Bad(f"no node that is known: {name}")
        if deep > MOST_DEEP:
            raise Bad(f"a plan nested more than {MOST_DEEP} deep")
        rules = NODES[name]
        if set(value) - set(rules) - {"node"}:
            raise Bad(f"a field that {name} does not have")
        fields: dict[str, Any] = {}
        inside: tuple[Node, ...] = ()
        for field, (rule, default) in rules.items():
            if field not in value:
                if default is REQUIRED:
                    raise Bad(f"{name} without {field}")
                fields[field] = default
            elif rule == NODE:
                if value[field] is not None or default is REQUIRED:
                    inside = (self.node(value[field], deep + 1),)
            elif rule in (SOME, SOME_MORE):
                if type(value[field]) is not list or (rule == SOME_MORE and not value[field]):
                    raise Bad(f"{name} without a list of nodes")
                inside = tuple([self.node(one, deep + 1) for one in value[field]])
            else:
                fields[field] = rule(value[field])
        check_together(name, fields)
        if name == "Federated":
            check_inside(fields["noise"], inside[0])
        if name == "Correlated":
            few = len(fields["coefficients"]) <= fields["separation"]
            noise = inside[0].inner if few and inside[0].name == "PoissonSample" else inside[0]
            if noise.name != "Gaussian" or noise["shares"]:
                raise Bad("correlated noise that is not a Gaussian of one block")
        return self.made(name, fields, inside)

    def made(self, name: str, fields: dict[str, object], inside: tuple[Node, ...]) -> Node:
        """The node of these fields, which were checked: one object for equal ones."""
        key = (name, *fields.values(), *map(id, inside))
        if key not in self.known:
            self.known[key] = Node(name, fields, inside)
        return self.known[key]


def check_inside(noise: str, inner: Node) -> None:
    """Refuse shared noise that is not Gaussian."""
    if noise == "shared" and not inner.kinds <= SHARED:
        raise Bad("noise that is shared and not Gaussian")
    if noise == "shared" and not loud(inner):
        raise Bad("noise that is shared and too small for its proof")


def loud(node: Node) -> bool:
    """Whether no Gaussian of a plan has less noise than shares are proved for."""
    own = node.name != "Gaussian" or node["noise_multiplier"] >= LEAST_SHARED
    return own and all(map(loud, node.inside))


def check_coefficients(found: tuple[float, ...], steps: int, apart: int) -> None:
    """Refuse a strategy of which it does not follow what a record moves."""
    if steps > MOST_CORRELATED or apart > steps or (
            not 0 < len(found) <= min(steps, MOST_COEFFICIENTS)):
        raise Bad("correlated noise of an impossible number of steps")
    if not 1e-100 <= found[0] <= 1e100 or any(abs(one) > 1e100 for one in found):
        raise Bad("impossible coefficients of correlated noise")
    falling = found[-1] >= 0 and all(found[i] >= found[i + 1] for i in range(len(found) - 1))
    if len(found) > apart and not falling:
        raise Bad("coefficients of correlated noise that neither end nor fall")


def check_together(name: str, fields: dict[str, Any]) -> None:
    """What one field asks of another."""
    if name == "FixedSizeSample" and fields["size"] > fields["out_of"]:
        raise Bad("a sample larger than what it is drawn from")
    if name == "IndividualFilter" and (
            fields["order"] != 0 if fields["kind"] == "gdp" else not fields["order"] > 1):
        raise Bad("a filter of an impossible order")
    if name == "Correlated":
        check_coefficients(fields["coefficients"], fields["steps"], fields["separation"])
    if name == "Federated":
        parties, bad = fields["parties"], fields["colluding"]
        if parties > MOST_PARTIES or bad >= parties or fields["least_honest"] > parties - bad:
            raise Bad("a federation of an impossible number of parties")
    if name == "Tuning":
        poisson = fields["distribution"] == "poisson"
        if fields["success" if poisson else "mean"] != 0:
            raise Bad("a parameter of another distribution")
        if poisson:
            real(fields["mean"])
        else:
            chance()(fields["success"])
            shape = fields["shape"]
            if not (-1 < shape <= 1000 and (shape == 0 or abs(shape) >= 1e-6)):
                raise Bad("an impossible shape")


def filter_word(node: Node) -> str:
    """Kind, cap and order of a filter, exactly, as one word."""
    return f"{node['kind']}:{node['cap'].hex()}:{(node['order'] + 0.0).hex()}"
