#!/usr/bin/env python3
"""Check the history of a privacy-budget ledger with Python's standard library alone.

    python -I verify_history.py LEDGER [--receipt receipt.json]

LEDGER is the ledger's SQLite file, or what `privledger export LEDGER -o history.jsonl` wrote.
Exit code: 0 clean, 3 NOT TRUSTED (every fault is listed), 2 usage. Python 3.11 or later.

This reader shares no code with privledger, so a mistake there is not repeated here. The format:
docs/ledger-format.md. What it did not check is printed at the end of every report.

Made of several files by privledger/standalone/build.py: change those.
"""

# ruff: noqa

from __future__ import annotations

from array import array
from collections.abc import Container, Mapping
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from functools import lru_cache
from operator import add
from pathlib import Path
from statistics import NormalDist
from typing import Any
from typing import Any, Callable
from typing import Any, Callable, TypeAlias
from typing import Any, Iterator
from typing import Callable, NamedTuple
import argparse
import base64
import cmath
import hashlib
import json
import math
import os
import re
import shutil
import sqlite3
import stat
import sys
import tempfile
import zlib


# -----------------------------------------------------------------------------------------------
# Strict JSON, the one text of a value, and the hash that binds an entry to the one before.
# -----------------------------------------------------------------------------------------------


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
    if type(value) not in (int, float) or not (value > 0 or (zero and value == 0)):
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


# -----------------------------------------------------------------------------------------------
# A SQLite file as rows, opened so that nothing in it is ever executed; or a file of lines.
# -----------------------------------------------------------------------------------------------


MAGIC, APPLICATION = b"SQLite format 3\0", 0x70726C67
MOST_PACKED = 12 * 5_000_000 + (1 << 16)  # bytes of one compressed vector
MOST_CHECKPOINT = 64 << 20
MOST_VECTOR_LINE = 24 << 20  # bytes of a vector in an export
MOST_OBJECTS = 16
TOO_BIG = 18  # SQLITE_TOOBIG
ENTRIES = """CREATE TABLE entries (
    position INTEGER PRIMARY KEY, kind TEXT NOT NULL, body TEXT NOT NULL,
    previous TEXT NOT NULL, hash TEXT NOT NULL
) STRICT"""
SCHEMA = {
    "entries": ENTRIES,
    "vectors": "CREATE TABLE vectors (name TEXT PRIMARY KEY, data BLOB NOT NULL) STRICT",
    "sqlite_autoindex_vectors_1": None,
    "entries_keep": """CREATE TRIGGER entries_keep BEFORE UPDATE ON entries
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END""",
    "entries_stay": """CREATE TRIGGER entries_stay BEFORE DELETE ON entries
    BEGIN SELECT RAISE(ABORT, 'history is append-only'); END""",
}
LATER = {  # come with the first checkpoint
    "checkpoint": "CREATE TABLE checkpoint (one INTEGER PRIMARY KEY CHECK (one = 1), position "
                  "INTEGER NOT NULL, head TEXT NOT NULL, state TEXT NOT NULL, seal TEXT NOT NULL) "
                  "STRICT",
    "closed": "CREATE TABLE closed (number INTEGER PRIMARY KEY, names TEXT NOT NULL) STRICT",
}
KINDS_OF_FILE = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a FIFO"),
                 (stat.S_ISSOCK, "a socket"), (stat.S_ISCHR, "a device"),
                 (stat.S_ISBLK, "a device"))


def check_regular(path: str) -> None:
    """Opening a FIFO or a device alone may wait for ever."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        kind = next((name for is_kind, name in KINDS_OF_FILE if is_kind(mode)), "no file")
        raise OSError(0, f"it is {kind}")


def open_file(path: str) -> Any:
    """Open a regular file for bytes; a pipe or a device is refused, not waited for."""
    check_regular(path)
    return os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")


def is_database(path: str) -> bool:
    """Whether a file begins as SQLite files do."""
    with open_file(path) as file:
        return bool(file.read(16) == MAGIC)


def lines_of(path: str) -> Iterator[bytes]:
    """Lines of an export. Raises `Bad` at one that is too long, or not whole."""
    with open_file(path) as file:
        line = file.readline(MOST_LINE)
        if not line:
            raise Bad("the file is empty")
        while line:
            if not line.endswith(b"\n"):
                more = b""
                if line.startswith(b'{"data":'):  # a vector may be longer than an entry
                    more = file.readline(MOST_VECTOR_LINE)
                line += more
                if not line.endswith(b"\n"):
                    yield line
                    raise Bad("the file does not end with a whole line, or a line is too long")
            yield line
            line = file.readline(MOST_LINE)


class Database:
    """A ledger's file. Views and triggers that were planted are found before any table is read."""

    def __init__(self, path: str) -> None:
        check_regular(path)
        self.folder = ""
        log = path + "-wal"
        has_log = os.path.exists(log) and os.path.getsize(log) > 0
        if has_log and not os.access(os.path.dirname(os.path.abspath(path)), os.W_OK):
            # A log can only be read where its index can be written: beside a copy.
            self.folder = tempfile.mkdtemp()
            copied = os.path.join(self.folder, "ledger")
            for end in ("", "-wal"):
                check_regular(path + end)
                shutil.copyfile(path + end, copied + end)
            path = copied
        uri = Path(path).absolute().as_uri() + ("?mode=ro" if has_log else "?mode=ro&immutable=1")
        self.connection = sqlite3.connect(uri, uri=True, timeout=5, isolation_level=None)
        self.connection.text_factory = bytes
        self.limit(MOST_BODY)
        for setting in ("trusted_schema = OFF", "cell_size_check = ON", "query_only = ON",
                        "mmap_size = 0"):
            self.connection.execute("PRAGMA " + setting)

    def limit(self, length: int) -> None:
        """Nothing longer is fetched: SQLite says so before it reserves memory."""
        self.connection.setlimit(0, length)  # SQLITE_LIMIT_LENGTH

    def close(self) -> None:
        """Close it, and remove the copy that was made of it, if one was."""
        self.connection.close()
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def faults(self) -> list[str]:
        """What is wrong with the file itself. If anything is, its tables must not be read."""
        (application,), = self.connection.execute("PRAGMA application_id")
        (version,), = self.connection.execute("PRAGMA user_version")
        if application != APPLICATION:
            return ["not a ledger"]
        if not 1 <= version <= FORMAT:
            return [f"a later format than {FORMAT}: take a later verifier"]
        rows = self.connection.execute("SELECT name, sql FROM sqlite_schema LIMIT ?",
                                       (MOST_OBJECTS,)).fetchall()
        found = {text_of(name): None if sql is None else text_of(sql) for name, sql in rows}
        foreign = [name for name in found if found[name] != {**SCHEMA, **LATER}.get(name, 0)]
        missing = [name for name in SCHEMA if name not in found]
        wrong = [f"{name} in the file is not what a ledger writes" for name in foreign] + [
            f"{name} is missing in the file" for name in missing]
        if not wrong and self.connection.execute("SELECT 1 FROM entries WHERE position < 0 LIMIT 1"
                                                 ).fetchone():
            wrong = ["there are entries before the first, which nobody reads"]
        return wrong

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Position, kind, text of the body (None if it is too long), hash before, hash."""
        columns, after = "SELECT position, kind, {}, previous, hash FROM entries ", -1
        tail = "WHERE position > ? ORDER BY position LIMIT ?"
        while True:
            found, size = [], 0
            try:
                for row in self.connection.execute(columns.format("body") + tail, (after, 2000)):
                    found.append(row)
                    size += len(row[2])
                    if size > 2 * MOST_BODY:
                        break
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) != TOO_BIG:
                    raise
            if not found:
                found = self.one(columns, tail, after)
            if not found:
                return
            yield from found
            after = found[-1][0]

    def one(self, columns: str, tail: str, after: int) -> list[tuple[Any, ...]]:
        """The next row behind `after`; without its body where that is too large."""
        for body in ("body", "NULL"):
            try:
                return self.connection.execute(columns.format(body) + tail, (after, 1)).fetchall()
            except sqlite3.Error as error:
                if getattr(error, "sqlite_errorcode", 0) != TOO_BIG:
                    raise
        return []

    def vector(self, name: str) -> bytes | None:
        """A per-record vector; None if there is none; empty if it is too large."""
        try:
            name.encode("utf-8")
            key = name
        except UnicodeEncodeError:  # kept in its escaped form
            import json
            key = json.dumps(name)
        self.limit(MOST_PACKED)
        try:
            row = self.connection.execute("SELECT data FROM vectors WHERE name = ?",
                                          (key,)).fetchone()
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) != TOO_BIG:
                raise
            return b""
        finally:
            self.limit(MOST_BODY)
        return None if row is None else bytes(row[0])

    def checkpoint(self) -> tuple[Any, ...] | None:
        """Position, head, state, seal, names; None if there is none, or one too large."""
        if not self.connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'checkpoint'"
                                       ).fetchone():
            return None
        self.limit(MOST_CHECKPOINT)
        try:
            row = self.connection.execute("SELECT position, head, state, seal FROM checkpoint"
                                          ).fetchone()
            names, left = [], MOST_CHECKPOINT
            for (text,) in self.connection.execute("SELECT names FROM closed ORDER BY number"):
                names.append(text_of(text))
                left -= len(text)
                if left < 0:
                    return None
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) != TOO_BIG:
                raise
            return None
        finally:
            self.limit(MOST_BODY)
        return None if row is None else (
            row[0], *(text_of(value) for value in row[1:]), ",".join(names))


def text_of(value: Any) -> str:
    """Bytes of the database as text, damaged characters marked; refused if they are none."""
    if not isinstance(value, bytes):
        raise Bad("a damaged page: a text is none")
    return value.decode("utf-8", "replace")


# -----------------------------------------------------------------------------------------------
# Every node type of the composition graph: its fields, what they may be, what they are if absent.
#
# Equal nodes are one object, so that a plan can be counted by its nodes.
# -----------------------------------------------------------------------------------------------


REQUIRED = object()
MOST_COUNT = 10**15
MOST_DEEP = 100
MOST_PARTIES = 1000
MOST_CORRELATED = 2048
BENT_BY_RELATION = ("PoissonSample", "FixedSizeSample", "RandomAllocation",
                    "TruncatedPoissonSample", "Group", "AsReplaceOne", "Tuning")
RELATIONS = ("add_remove", "replace_one", "replace_label")


def number(value: Any) -> float:
    """Any finite number."""
    if type(value) not in (int, float):
        raise Bad("not a number")
    try:
        return float(value) + 0.0
    except OverflowError:
        raise Bad("a number too large") from None


def moderate(value: Any) -> float:
    """A positive number whose square is neither 0 nor infinite."""
    found = number(value)
    if not 1e-140 <= found <= 1e140:
        raise Bad("not a number from 1e-140 to 1e140")
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
        if name == "Correlated" and (inside[0].name != "Gaussian" or inside[0]["shares"]):
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
    if steps > MOST_CORRELATED or apart > steps or not 0 < len(found) <= steps:
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


# -----------------------------------------------------------------------------------------------
# What the body of every kind of entry holds, from which format on, and what each field may be.
# -----------------------------------------------------------------------------------------------


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


# -----------------------------------------------------------------------------------------------
# What one call of a mechanism costs, in every currency.
#
# `renyi` gives a Renyi bound in nats at an order, `pure` an epsilon, `gdp` a squared Gaussian-DP
# parameter, `zcdp` a rho; each infinite where nothing is proved.
# -----------------------------------------------------------------------------------------------


Curve = Callable[[float], float]


class Price:
    """Of a node, for one relation.

    `exact` is the squared mu of what is Gaussian through and through, else None. `failure` is a
    probability with which nothing is promised.
    """

    __slots__ = ("exact", "failure", "gdp", "pure", "renyi", "zcdp")

    def __init__(self, renyi: Curve, pure: float = math.inf, exact: float | None = None,
                 gdp: float | None = None, zcdp: float | None = None,
                 failure: float = 0.0) -> None:
        self.renyi, self.pure, self.exact, self.failure = renyi, pure, exact, failure
        if gdp is None:
            gdp = exact if exact is not None else mu_of_pure(pure) ** 2
        if zcdp is None:
            zcdp = 0.0 if pure == 0 else gdp / 2
            if pure < math.inf:
                zcdp = min(zcdp, pure * math.tanh(pure / 2))
        self.gdp, self.zcdp = gdp, zcdp


def nothing() -> Price:
    """The price of what releases nothing."""
    return Price(lambda order: 0.0, 0.0, 0.0)


def mu_of_pure(epsilon: float) -> float:
    """Dong, Roth, Su 2019 (arXiv:1905.02383), Prop. 2.5: where the two trade-offs touch."""
    if epsilon == 0 or epsilon == math.inf:
        return epsilon
    if epsilon > 30:
        low, high = 0.0, 2 * math.sqrt(2 * epsilon) + 2
        for _ in range(200):  # log Phi(-mu / 2) = -epsilon
            middle = (low + high) / 2
            far = middle / 2
            tail = -far * far / 2 - math.log(far * math.sqrt(2 * math.pi)) + math.log1p(
                -1 / far**2 + 3 / far**4 - 15 / far**6) if far > 6 else math.log(
                math.erfc(far / math.sqrt(2)) / 2)
            low, high = (middle, high) if tail > -epsilon else (low, middle)
        return low
    if epsilon < 1e-4:
        return math.sqrt(math.pi / 2) * epsilon * (1 - epsilon**2 / 10)
    return -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon)))


def gain(loss: float, beta: float) -> float:
    """exp(beta loss) - 1 plus beta (exp(-loss) - 1): its mean under P is the moment less 1."""
    if abs(loss) * (1 + beta) < 0.05:
        return math.fsum((beta**k + beta * (-1) ** k) * loss**k / math.factorial(k)
                         for k in range(2, 14))
    return math.expm1(beta * loss) + beta * math.expm1(-loss)


def laplace_curve(epsilon: float) -> Curve:
    """Mironov 2017 (arXiv:1702.07476), Prop. 6."""
    def curve(order: float) -> float:
        beta, rise = order - 1, (order - 1) * epsilon
        if rise > 600:
            return epsilon + (math.log(order / (2 * order - 1)) + beta / order * math.exp(
                -min((2 * order - 1) * epsilon, 600))) / beta
        fall = order * epsilon
        moment = (order * over_one(rise) + beta * over_one(-fall)) / (2 * order - 1)
        return min(epsilon, math.log1p(moment) / beta)
    return curve


def over_one(x: float) -> float:
    """exp(x) - 1 - x, with all digits."""
    if abs(x) < 0.1:
        return sum(x**k / math.factorial(k) for k in range(2, 14))
    return math.expm1(x) - x


def pure_curve(epsilon: float) -> Curve:
    """Randomized response, the largest of all. Bun, Steinke 2016 (arXiv:1605.02065), Lemma B.4."""
    def curve(order: float) -> float:
        beta = order - 1
        if epsilon > 600 or beta * epsilon > 600:
            tails = math.log1p(math.exp(-min((2 * beta + 1) * epsilon, 600)))
            return max(0.0, epsilon - (math.log1p(math.exp(-min(epsilon, 600))) - tails) / beta)
        likely = 1 / (1 + math.exp(-epsilon))
        moment = likely * gain(epsilon, beta) + (1 - likely) * gain(-epsilon, beta)
        return min(epsilon, math.log1p(moment) / beta)
    return curve


def integer_curve(parameter: float, sensitivity: int) -> Curve:
    """Of integer noise on an integer: what it loses, and no more (a sample shows that it is less
    than what pure DP says)."""
    epsilon = parameter * sensitivity
    if sensitivity > 2000 or epsilon > 30:
        return lambda order: 0.9 * laplace_curve(epsilon)(order)
    ratio = math.exp(-parameter)
    ends = 1 / (1 + ratio)
    middle = [(parameter * (sensitivity - 2 * x), (1 - ratio) / (1 + ratio) * ratio**x)
              for x in range(1, sensitivity)]
    atoms = [(epsilon, ends), (-epsilon, ends * ratio**sensitivity), *middle]

    def curve(order: float) -> float:
        beta = order - 1
        if beta * epsilon > 600:
            return 0.9 * epsilon
        return min(epsilon, math.log1p(max(0.0, math.fsum(
            mass * gain(loss, beta) for loss, mass in atoms))) / beta)
    return curve


def bounded_curve(eta: float) -> Curve:
    """Losses t and t - eta at the worst t. Dong, Durfee, Rogers 2020 (arXiv:1909.13830)."""
    def curve(order: float) -> float:
        beta = order - 1
        if eta == 0:
            return 0.0
        peak, log_c = worst_loss(eta, order), math.log(-math.expm1(-eta))
        if beta * eta > 1 or eta > 1:
            found = peak + (math.log(-math.expm1(-order * eta)) - math.log(order) - log_c) / beta
            return min(eta, order * eta * eta / 8, max(0.0, found))
        likely = -math.expm1(peak - eta) / -math.expm1(-eta)
        rare = math.exp(peak - eta) * -math.expm1(-peak) / -math.expm1(-eta)
        moment = likely * gain(peak, beta) + rare * gain(peak - eta, beta)
        return min(eta, order * eta * eta / 8, math.log1p(moment) / beta)
    return curve


def worst_loss(eta: float, order: float) -> float:
    """The t of the largest moment: exp(t) = (1 - exp(-a eta)) b / ((exp(-eta) - exp(-a eta)) a),
    for a = order and b = order - 1."""
    beta = order - 1
    return eta + log_share(order * eta) - log_share(beta * eta)


def log_share(x: float) -> float:
    """log((1 - exp(-x)) / x)."""
    if x < 0.05:
        return x * (-0.5 + x * (1 / 24 - x**2 / 2880 + x**4 / 181440))
    return math.log(-math.expm1(-x)) - math.log(x)


def pure_price(epsilon: float, curve: Curve | None = None, failure: float = 0.0) -> Price:
    """The price of an epsilon; `curve` if more is known than pure DP says."""
    return Price(curve or pure_curve(epsilon), epsilon, failure=failure)


def bounded_price(eta: float) -> Price:
    """The price of a bounded range eta: at most eta squared over 8 of zCDP."""
    usual = pure_price(eta, bounded_curve(eta))
    usual.zcdp = min(usual.zcdp, eta * eta / 8)
    return usual


def rho_price(rho: float) -> Price:
    """The price of zCDP with this rho; no pure epsilon follows."""
    return Price(lambda order: order * rho, gdp=math.inf, zcdp=rho)


def leaf_price(node: Node, relation: str) -> Price:
    """For the relation that its sensitivity is stated for."""
    name, field = node.name, node.fields
    if name in ("PostProcess", "Public"):
        return nothing()
    if relation == "replace_label":
        raise Bad(f"{name} outside of LabelOnly, in a ledger about labels")
    if name == "Gaussian":
        squared = field["noise_multiplier"] ** -2
        return Price(lambda order: order * squared / 2, exact=squared)
    if name == "Laplace":
        epsilon = field["l1_sensitivity"] / field["scale"]
        return pure_price(epsilon, laplace_curve(epsilon))
    if name == "DiscreteLaplace":
        return pure_price(field["parameter"] * field["sensitivity"],
                          integer_curve(field["parameter"], field["sensitivity"]))
    if name == "DiscreteGaussian":
        return rho_price((field["sensitivity"] / field["sigma"]) ** 2 / 2)
    if name == "Exponential":
        low, high = field["score_change"]
        return bounded_price(field["epsilon"] * (high - low) / 2)
    if name in ("ReportNoisyMax", "TopK") and field["noise"] == "gumbel":
        return bounded_price(field["epsilon"])
    if name in ("PermuteAndFlip", "ReportNoisyMax", "TopK"):
        return pure_price(field["epsilon"])
    if name == "Asserted":
        return pure_price(field["epsilon"], failure=field["delta"])
    if name == "AssertedZCDP":
        return rho_price(field["rho"])
    return sparse(field) if name == "SparseVector" else response(field, relation)


def sparse(field: Any) -> Price:
    """The threshold once, then every query that is found."""
    first = field["sensitivity"] / field["threshold_scale"]
    each = field["sensitivity"] / field["query_scale"] * (1 if field["monotone"] else 2)
    found = each * field["cutoff"]
    threshold, both = laplace_curve(first), pure_curve(first + found)
    return pure_price(first + found, lambda order: min(both(order), threshold(order) + found))


def response(field: Any, relation: str) -> Price:
    """Randomized response, with its two or three losses."""
    if relation != "replace_one":
        raise Bad("RandomizedResponse outside of replace_one")
    noise, buckets = field["noise_parameter"], field["num_buckets"]
    epsilon = math.log1p(buckets * (1 - noise) / noise)
    if epsilon == 0:
        return nothing()
    two = pure_curve(epsilon)
    if buckets == 2:
        return pure_price(epsilon, two)
    share = 1 - noise + 2 * noise / buckets

    def curve(order: float) -> float:
        beta, bound = order - 1, two(order)
        if beta * bound >= 600:
            return bound
        return min(bound, math.log1p(share * math.expm1(beta * bound)) / beta)
    return pure_price(epsilon, curve)


# -----------------------------------------------------------------------------------------------
# Renyi divergences of mechanisms that run on a random sample.
# -----------------------------------------------------------------------------------------------


DIGITS = 60.0
MOST_POINTS = 200_000
MOST_MOMENTS = 96


def excess(loss: float, order: float) -> float:
    """log of (1 + u)^order - 1 - order u, for loss = log(1 + u); minus infinity for 0."""
    high = order * loss
    if abs(loss) * order < 0.05:
        value = sum((order**k - order) * loss**k / math.factorial(k) for k in range(2, 14))
    elif high > 40:
        share = order * math.expm1(loss) if loss < 700 else math.inf
        return high + (math.log1p(-(1 + share) * math.exp(-high)) if share < math.inf else 0.0)
    else:
        value = math.expm1(high) - order * math.expm1(loss)
    return math.log(value) if value > 0 else -math.inf


def sampled_gaussian(rate: float, noise: float, order: float) -> float:
    """The trapezoid rule on the whole line, whose error falls with exp(-2 pi a / step).

    Mironov, Talwar, Zhang 2019 (arXiv:1908.10530) for the pair of distributions.
    """
    if not 0.02 <= noise <= 1e6 or not rate > 1e-12:
        raise NoPrice("a sample of a Gaussian with so much or so little noise")
    free = math.sqrt(2 * DIGITS)
    height = free if order == int(order) else min(free, 0.99 * math.pi * noise)
    step = 2 * math.pi * height / (DIGITS + height * height / 2)
    low, high = -free - 1, max(order, 2.0) / noise + free + 1
    if (high - low) / step > MOST_POINTS:
        raise NoPrice("a sample of a Gaussian at so high an order")
    logs = []
    for place in range(math.floor(low / step), math.ceil(high / step) + 1):
        x = place * step
        w = x / noise - 0.5 / noise**2
        loss = math.log1p(rate * math.expm1(w)) if w < 500 else w + math.log(rate)
        logs.append(excess(loss, order) - x * x / 2)
    top = max(logs)
    log_moment = top + math.log(math.fsum(math.exp(value - top) for value in logs)) + math.log(
        step) - math.log(math.sqrt(2 * math.pi))
    whole = math.log1p(math.exp(log_moment)) if log_moment < 40 else log_moment
    return whole / (order - 1)


def sampled_moments(rate: float, curve: Curve, order: float) -> float:
    """From the Renyi divergences of what runs, at whole orders; else the one below counts.

    The moment of (1 - q) Q + q P is a binomial sum of the moments of P against Q.
    """
    top = math.floor(order)
    if top < 2:
        return 0.0
    if top > 4096:
        raise NoPrice("a sample at so high an order")
    logs = []
    for k in range(2, top + 1):
        moment = (k - 1) * curve(float(k))
        if moment == math.inf:
            return math.inf
        choose = math.lgamma(top + 1) - math.lgamma(k + 1) - math.lgamma(top - k + 1)
        weight = choose + k * math.log(rate) + (top - k) * math.log1p(-rate)
        if moment > 0:
            logs.append(weight + (moment if moment > 40 else math.log(math.expm1(moment))))
    if not logs:
        return 0.0
    largest = max(logs)
    total = largest + math.log(math.fsum(math.exp(value - largest) for value in logs))
    return (math.log1p(math.exp(total)) if total < 40 else total) / (top - 1)


def allocated_gaussian(steps: int, squared: float, order: float) -> float:
    """A record in one of several Gaussian rounds: from the mixture to the plain law, at the whole
    order below. order! / steps^order times a coefficient of a power of the series of the moments
    exp(mu^2 k (k - 1)/2)/k!; all terms are positive.
    """
    top = min(math.floor(order), MOST_MOMENTS)
    if top < 2:
        return 0.0
    whole = steps
    series = [squared * k * (k - 1) / 2 - math.lgamma(k + 1) for k in range(top + 1)]
    found: list[float] | None = None
    while steps:
        if steps & 1:
            found = series if found is None else product_of(found, series)
        steps >>= 1
        series = product_of(series, series) if steps else series
    log_moment = (found or series)[top] + math.lgamma(top + 1) - top * math.log(whole)
    return max(0.0, log_moment) / (top - 1)


def product_of(one: list[float], other: list[float]) -> list[float]:
    """Coefficients of the product of two power series, all as logarithms."""
    found = []
    for n in range(len(one)):
        terms = [one[k] + other[n - k] for k in range(n + 1)]
        largest = max(terms)
        found.append(largest + math.log(math.fsum(math.exp(term - largest) for term in terms)))
    return found


def full_chance(rate: float, most: int, out_of: int) -> float:
    """A bound on the chance that as many of the other records are in a sample: Chernoff's, times
    what Stirling's formula leaves of it, over one less how fast the chances fall."""
    others = out_of - 1
    if most > others:
        return 0.0
    share = most / others
    if share <= rate:
        return 1.0
    distance = share * math.log(share / rate)
    if share < 1:
        distance += (1 - share) * math.log((1 - share) / (1 - rate))
    part, falls = 1.0, (others - most) * rate / ((most + 1) * (1 - rate))
    if most < others and falls < 1:
        part = min(1.0, math.sqrt(others / (2 * math.pi * most * (others - most))) / (1 - falls))
    return max(math.exp(-min(690.0, others * max(0.0, distance))) * part, 1e-300)


# -----------------------------------------------------------------------------------------------
# Epsilon of a composition by the distribution of its privacy loss: good to a percent or so.
#
# For plans made of single mechanisms, repeated and one after another, and of Poisson samples of
# Gaussians. Sommer, Meiser, Mohammadi 2019 (PoPETs); Koskela, Jalkoe, Honkela 2020
# (arXiv:1906.03049) for the Fourier transform.
# -----------------------------------------------------------------------------------------------


POINTS = 1 << 12
LEAST_DELTA = 1e-10
MOST_PAIRS = 12
MOST_ROWS = 64
CELLS = 4000
PIECES = 4
WIDE = 200.0
Cdf = Callable[[float], float]


class Pair:
    """One mechanism's loss under the likelier table: its atoms, and a cdf of the rest."""

    def __init__(self, low: float, high: float, atoms: tuple[tuple[float, float], ...] = (),
                 cdf: Cdf | None = None) -> None:
        self.low, self.high, self.atoms, self.cdf = low, high, atoms, cdf


def normal(x: float) -> float:
    """Probability that a standard normal is at most x."""
    return math.erfc(-x / math.sqrt(2)) / 2


def gaussian_pair(squared: float) -> Pair:
    """Losses of Gaussian DP with this mu squared, out to nine deviations."""
    mu = math.sqrt(squared)
    reach = 9 * mu
    return Pair(squared / 2 - reach, squared / 2 + reach, (),
                lambda loss: normal((loss - squared / 2) / mu))


def sampled_pair(rate: float, squared: float) -> Pair:
    """A record that is removed: (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1)."""
    mu = math.sqrt(squared)

    def cdf(loss: float) -> float:
        inside = math.expm1(min(loss, 600)) / rate
        if inside <= -1:
            return 0.0
        x = (math.log1p(inside) + squared / 2) / mu
        return (1 - rate) * normal(x) + rate * normal(x - mu)
    top = mu * (mu + 9) - squared / 2
    return Pair(math.log1p(-rate), math.log1p(rate * math.expm1(min(top, 600))), (), cdf)


def fixed_pair(rate: float, squared: float) -> Pair:
    """A record that is exchanged, in a sample of fixed size: gains as of one that is removed,
    losses as of one that is added, and nothing else."""
    mu = math.sqrt(squared)
    removed = sampled_pair(rate, squared).cdf
    top = sampled_pair(rate, squared).high

    def cdf(loss: float) -> float:
        if loss >= 0:
            return removed(loss) if removed else 0.0
        x = (math.log1p(math.expm1(min(-loss, 600)) / rate) + squared / 2) / mu
        return normal(-x)
    return Pair(-top, top, (), cdf)


def truncated_pair(node: Node, exchanged: bool) -> Pair:
    """A record that is removed from a sample that is cut off, or exchanged for another; in a full
    one it moves twice."""
    squared, rate = node.inner["noise_multiplier"] ** -2, node["rate"]
    full = full_chance(rate, node["most"], node["out_of"])
    if exchanged:
        parts = [(1 - full, rows_pair(rate, squared, 1, True)),
                 (full, rows_pair(rate, 4 * squared, 1, True))]
        return Pair(parts[1][1].low, parts[1][1].high, tuple(
            (loss, share * mass) for share, pair in parts for loss, mass in pair.atoms))
    usual, rare = sampled_pair(rate, squared), sampled_pair(rate, 4 * squared)
    one, two = usual.cdf, rare.cdf
    if one is None or two is None:
        raise NoPrice(node.name)
    return Pair(usual.low, rare.high, (),
                lambda loss: (1 - full) * one(loss) + full * two(loss))


def drawn(rate: float, rows: int) -> list[float]:
    """Chances that 0, 1, ... of some rows are in a sample."""
    return [math.comb(rows, j) * rate**j * (1 - rate) ** (rows - j) for j in range(rows + 1)]


def rows_pair(rate: float, squared: float, rows: int, exchanged: bool) -> Pair:
    """Several rows that go, or are exchanged, on a sample of Gaussians: atoms of fine cells."""
    mu = math.sqrt(squared)
    up = drawn(rate, rows)
    down = up if exchanged else [1.0]

    def height(weights: list[float], x: float) -> float:
        return math.fsum(one * math.exp(j * mu * x - j * j * squared / 2)
                         for j, one in enumerate(weights))
    low, high = -9.0 - (rows * mu if exchanged else 0.0), 9.0 + rows * mu
    if (rows * mu + 9) ** 2 > 600:
        raise NoPrice("a group of very sharp releases")
    width = (high - low) / CELLS
    atoms = []
    for cell in range(CELLS):
        left = low + width * cell
        middle = left + width / 2
        mass = math.fsum(one * (normal(left + width - j * mu) - normal(left - j * mu))
                         for j, one in enumerate(up))
        atoms.append((math.log(height(up, middle)) - math.log(height(down, -middle)), mass))
    return Pair(atoms[0][0], atoms[-1][0], tuple(atoms))


def whole_steps_pair(node: Node) -> Pair:
    """Noise of whole steps under the largest shift; a wide one is as good as continuous."""
    shift: int = node["sensitivity"]
    if node.name == "DiscreteGaussian":
        sigma: float = node["sigma"]
        if sigma > WIDE:
            return gaussian_pair((shift / sigma) ** 2)
        reach = math.ceil(9.6 * sigma)

        def height(step: int) -> float:
            return -step * step / (2 * sigma * sigma)
    else:
        parameter: float = node["parameter"]
        if parameter < 1 / WIDE:
            raise NoPrice("noise of very many whole steps")
        reach = math.ceil(40 / parameter)

        def height(step: int) -> float:
            return -parameter * abs(step)
    steps = range(-reach, reach + 1)
    whole = math.fsum(math.exp(height(step)) for step in steps)
    masses: dict[float, float] = {}
    for step in steps:
        loss = round(height(step) - height(step + shift), 12)
        masses[loss] = masses.get(loss, 0.0) + math.exp(height(step)) / whole
    return Pair(min(masses), max(masses), tuple(masses.items()))


def ranged(node: Node) -> bool:
    """Whether a leaf's losses are of a range that is known, and move with what it picks among."""
    return node.name == "Exponential" or node.fields.get("noise") == "gumbel"


def two_losses(epsilon: float) -> Pair:
    """A coin that tells the truth as often as epsilon lets it."""
    likely = 1 / (1 + math.exp(-epsilon))
    return Pair(-epsilon, epsilon, ((-epsilon, 1 - likely), (epsilon, likely)))


def pair_of(node: Node, relation: str, rows: int = 1, attained: bool = False) -> Pair:
    """The pair of distributions that dominates a leaf, for so many rows; if `attained`, one that
    two candidates have, each ahead by half of the range.

    Raises:
        NoPrice: none is known here.
    """
    found = leaf_price(node, relation)
    epsilon = found.pure * rows
    if found.exact is not None:
        return gaussian_pair(found.exact * rows * rows)
    if node.name in ("DiscreteGaussian", "DiscreteLaplace") and rows == 1:
        return whole_steps_pair(node)
    if not 1e-9 < epsilon < 100 or found.failure:
        raise NoPrice(node.name)
    if node.name == "Laplace":
        return Pair(-epsilon, epsilon, ((-epsilon, math.exp(-epsilon) / 2), (epsilon, 0.5)),
                    lambda loss: (math.exp((min(loss, epsilon) - epsilon) / 2)
                                  - math.exp(-epsilon)) / 2 if loss > -epsilon else 0.0)
    if attained and ranged(node):
        return two_losses(epsilon / 2)
    if ranged(node):
        return Pair(-epsilon, epsilon, (), lambda loss: (
            math.exp((min(loss, epsilon) - epsilon) / 2) - math.exp(-epsilon))
            / -math.expm1(-epsilon) if loss > -epsilon else 0.0)
    if node.name in ("PermuteAndFlip", "ReportNoisyMax", "TopK", "Asserted"):
        return two_losses(epsilon)
    raise NoPrice(node.name)


class Unit(NamedTuple):
    """A leaf or a sample with what surrounds it: rows of one person, gone or exchanged."""

    node: Node
    relation: str
    rows: int
    exchanged: bool


def collect(unit: Unit, times: int, found: dict[Unit, int]) -> None:
    """Add to `found` how often each leaf of a plan runs, `times` over."""
    node = unit.node
    if node.name in ("Sequential", "Repeat", "Group", "Federated"):
        rows = unit.rows * (node["rows"] if node.name == "Group" else 1)
        for inner in node.inside:
            collect(Unit(inner, unit.relation, rows, unit.exchanged),
                    times * int(node.fields.get("count", 1)), found)
    elif node.name == "LabelOnly" and unit.relation == "replace_label":
        collect(Unit(node.inner, "replace_one", unit.rows, unit.exchanged), times, found)
    elif node.name == "AsReplaceOne" and unit.relation == "replace_one":
        collect(Unit(node.inner, "add_remove", unit.rows, True), times, found)
    elif node.name not in ("Public", "PostProcess"):
        found[unit] = found.get(unit, 0) + times


def pairs_of(plan: Node, relation: str, attained: bool) -> list[tuple[Pair, int]]:
    """Distinct pairs, with Gaussians merged into one."""
    units: dict[Unit, int] = {}
    collect(Unit(plan, relation, 1, False), 1, units)
    found: list[tuple[Pair, int]] = []
    squared = 0.0
    for unit, times in units.items():
        node = unit.node
        steps = unit.rows * (2 if unit.exchanged else 1)
        if node.name == "PoissonSample" and node.inner.name == "Gaussian":
            if unit.relation != "add_remove" or node["rate"] == 1:
                raise NoPrice(node.name)
            found.append((sample_of(node, unit), times))
        elif node.name == "FixedSizeSample" and node.inner.name == "Gaussian":
            if unit.rows > 1 or unit.exchanged or node["size"] >= node["out_of"]:
                raise NoPrice(node.name)
            rate, squares = node["size"] / node["out_of"], node.inner["noise_multiplier"] ** -2
            found.append((fixed_pair(rate, squares), times))
        elif node.name == "TruncatedPoissonSample" and node.inner.name == "Gaussian":
            if unit.rows > 1 or node["rate"] == 1:
                raise NoPrice(node.name)
            found.append((truncated_pair(node, unit.exchanged), times))
        elif node.name == "Correlated" and unit.relation in node.prices:
            squared += times * steps**2 * node.prices[unit.relation].exact
        elif node.name == "Gaussian":
            squared += times * (steps / node["noise_multiplier"]) ** 2
        elif node.inside or node.name == "IndividualFilter":
            raise NoPrice(node.name)
        else:
            found.append((pair_of(node, unit.relation, steps, attained), times))
    if squared:
        found.append((gaussian_pair(squared), 1))
    if not found or len(found) > MOST_PAIRS:
        raise NoPrice("a plan of many different mechanisms")
    return found


def sample_of(node: Node, unit: Unit) -> Pair:
    """The pair of a Poisson sample of one Gaussian."""
    squared = node.inner["noise_multiplier"] ** -2
    if unit.rows == 1 and not unit.exchanged:
        return sampled_pair(node["rate"], squared)
    if unit.rows > MOST_ROWS:
        raise NoPrice("a large group of rows on a sample")
    return rows_pair(node["rate"], squared, unit.rows, unit.exchanged)


def moments(pair: Pair) -> tuple[float, float]:
    """Mean and variance of the loss, roughly."""
    masses = list(pair.atoms)
    if pair.cdf is not None:
        step = (pair.high - pair.low) / 400
        edges = [pair.low + step * place for place in range(401)]
        heights = [pair.cdf(edge) for edge in edges]
        masses += [((left + step / 2), above - below) for left, below, above in zip(
            edges[:-1], heights[:-1], heights[1:], strict=True)]
    mean = math.fsum(loss * mass for loss, mass in masses)
    return mean, math.fsum((loss - mean) ** 2 * mass for loss, mass in masses)


def epsilon_of_losses(plan: Node, relation: str, delta: float, attained: bool = False) -> float:
    """The epsilon at `delta` of a plan, to about a percent; if `attained`, what its choices can
    lose one apart from the other, below what they lose together."""
    if delta < LEAST_DELTA:
        raise NoPrice("a composition at so small a delta")
    pairs = pairs_of(plan, relation, attained)
    seen = [moments(pair) for pair, _ in pairs]
    mean = math.fsum(times * one[0] for (_, times), one in zip(pairs, seen, strict=True))
    variance = math.fsum(times * one[1] for (_, times), one in zip(pairs, seen, strict=True))
    spread = math.sqrt(variance)
    reach = 10 * spread + 2 * max(pair.high - pair.low for pair, _ in pairs)
    step = 2 * reach / POINTS
    if not 0 < step < math.inf:
        raise NoPrice("a plan that loses next to nothing")
    product = [1 + 0j] * POINTS
    for pair, times in pairs:
        turned = fourier(grid(pair, step))
        product = [one * two**times for one, two in zip(product, turned, strict=True)]
    masses = [value.real / POINTS for value in fourier(product, 1)]
    losses = [(place + POINTS * round((mean / step - place) / POINTS)) * step
              for place in range(POINTS)]
    tail = sorted(zip(losses, masses, strict=True), reverse=True)
    return solved(tail, delta)


def solved(tail: list[tuple[float, float]], delta: float) -> float:
    """Where the sum of mass (1 - exp(epsilon - loss)) above epsilon is delta."""
    low, high = 0.0, max(0.0, tail[0][0])

    def rest(epsilon: float) -> float:
        total = 0.0
        for loss, mass in tail:
            if loss <= epsilon:
                break
            total -= mass * math.expm1(epsilon - loss)
        return total
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if rest(middle) > delta else (low, middle)
    return low


def grid(pair: Pair, step: float) -> list[complex]:
    """Masses at whole steps, around a circle; an atom is shared by three of them so that mean
    and variance stay what they are."""
    found = [0j] * POINTS
    atoms = list(pair.atoms)
    if pair.cdf is not None:
        first, last = math.floor(pair.low / step) - 1, math.ceil(pair.high / step) + 1
        if last - first > 4 * POINTS:
            raise NoPrice("a loss that is very wide")
        before = pair.cdf((first - 0.5) * step)
        for place in range(PIECES * (last - first + 1)):
            edge = first - 0.5 + (place + 1) / PIECES
            after = pair.cdf(edge * step)
            atoms.append(((edge - 0.5 / PIECES) * step, after - before))
            before = after
    for loss, mass in atoms:
        near = round(loss / step)
        off = loss / step - near
        for place, share in ((-1, (off - 1) * off / 2), (0, 1 - off * off),
                             (1, (off + 1) * off / 2)):
            found[(near + place) % POINTS] += mass * share
    return found


def fourier(values: list[complex], sign: int = -1) -> list[complex]:
    """Cooley and Tukey's transform of a list of 2^k numbers."""
    size = len(values)
    if size == 1:
        return values
    even, odd = fourier(values[::2], sign), fourier(values[1::2], sign)
    turned = [cmath.exp(sign * 2j * math.pi * k / size) * odd[k] for k in range(size // 2)]
    return [even[k] + turned[k] for k in range(size // 2)] + [
        even[k] - turned[k] for k in range(size // 2)]


# -----------------------------------------------------------------------------------------------
# From a filter's total to epsilon, and from a budget to the cap of a filter.
# -----------------------------------------------------------------------------------------------


UNIT, DELTA_UNIT = 2**192, 2**512
SLACK = 10**9  # another machine may round the last digits otherwise
FILTERS = ("gdp", "zcdp", "rdp", "basic")


def delta_of_mu(mu: float, epsilon: float) -> float:
    """Balle, Wang 2018 (arXiv:1805.06530), Theorem 8; Phi(-x) = erfc(x / sqrt 2) / 2."""
    first = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
    return first - times_tail(epsilon, epsilon / mu + mu / 2)


def times_tail(epsilon: float, x: float) -> float:
    """exp(epsilon) Phi(-x), also where one factor is no float."""
    if x < 25:
        return math.exp(epsilon) * math.erfc(x / math.sqrt(2)) / 2
    series = 1 - 1 / x**2 + 3 / x**4 - 15 / x**6
    return math.exp(epsilon - x * x / 2) / (x * math.sqrt(2 * math.pi)) * series


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The smallest epsilon with delta_of_mu(mu, epsilon) <= delta, by bisection."""
    if not delta > 0:
        raise Bad("Gaussian noise has no price at delta 0")
    if delta < 1e-50:
        raise NoPrice("a Gaussian at delta below 1e-50")
    if mu > 1e4:
        raise NoPrice("a Gaussian of almost no noise")
    low, high = 0.0, 1.0
    if mu == 0 or mu < 2 * delta or delta_of_mu(mu, low) <= delta:
        return 0.0
    while delta_of_mu(mu, high) > delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of_mu(mu, middle) > delta else (low, middle)
    return high


def epsilon_of_renyi(order: float, bound: float, delta: float) -> float:
    """Canonne, Kamath, Steinke 2020 (arXiv:2004.00010), Prop. 12; 0 if total variation <= delta."""
    if min(math.sqrt(bound / 2), math.sqrt(-math.expm1(-bound))) <= delta:
        return 0.0
    rest = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
    return max(0.0, bound + rest)


def epsilon_of_rho(rho: float, delta: float) -> float:
    """Order times rho at every order; over the 200 orders that a ledger looks at."""
    best = math.sqrt(-math.log(delta) / rho)
    orders = [1 + max(best * 0.2 * 25 ** (place / 199), 1e-9) for place in range(200)]
    return min(epsilon_of_renyi(order, order * rho, delta) for order in orders)


def epsilon_of(kind: str, total: Fraction, order: float, delta: float) -> float:
    """Epsilon, at `delta`, that a filter's total certifies."""
    if kind == "basic" or not total:
        return float(total)
    if not delta > 0:
        raise Bad(f"a {kind} filter promises nothing at delta 0")
    if kind == "gdp":
        return epsilon_of_mu(math.sqrt(total), delta)
    if kind == "rdp":
        return epsilon_of_renyi(order, float(total), delta)
    return epsilon_of_rho(float(total), delta)


class Caps:
    """Units that a budget allows under one filter."""

    def __init__(self, kind: str, order: float) -> None:
        self.kind, self.order = kind, order

    def of(self, epsilon: float, delta: float, purse: float) -> tuple[int, int]:
        """Units and delta units, with a little room for another machine's rounding; `purse` is the
        part of delta for plans with one of their own, where not all of it adds up."""
        units = largest(self.kind, self.order, epsilon, beside(delta, purse))
        allowed = int(Fraction(delta if self.kind == "basic" else purse) * DELTA_UNIT)
        return units + units // SLACK, allowed


def beside(delta: float, purse: float) -> float:
    """What is left of delta beside the purse, rounded down."""
    exact = Fraction(delta) - Fraction(purse)
    if purse and exact <= 0:
        raise Bad("a purse that is not below delta")
    found = float(exact)
    return math.nextafter(found, 0.0) if Fraction(found) > exact else found


@lru_cache(maxsize=256)
def largest(kind: str, order: float, epsilon: float, delta: float) -> int:
    """Units of the largest total that certifies no more than the budget."""
    if kind == "basic":
        return int(Fraction(epsilon) * UNIT)
    if not delta > 0:
        return 0
    if kind == "rdp":
        spread = math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)
        return int(Fraction(max(0.0, epsilon - spread)) * UNIT)
    if kind == "zcdp":
        low, high = 0.0, max(1.0, epsilon)
        for _ in range(70):
            middle = (low + high) / 2
            low, high = ((middle, high) if epsilon_of_rho(middle, delta) <= epsilon
                         else (low, middle))
        return int(Fraction(high) * UNIT)
    low, high = 0.0, 1.0
    epsilon_of_mu(high, delta)  # says so where there is no price
    while delta_of_mu(high, epsilon) <= delta:
        low, high = high, 2 * high
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_of_mu(middle, epsilon) <= delta else (low, middle)
    # The upper end: no digit of what is allowed may be lost to bisection.
    return int(Fraction(high) ** 2 * UNIT)


# -----------------------------------------------------------------------------------------------
# A plan's price: bottom up, one rule for every node type.
#
# Exact but for four things, where it is a number that no right price can be below: Renyi bounds of
# samples at orders that are not whole, of samples of fixed size, of allocations, and of tuning.
# -----------------------------------------------------------------------------------------------


MOST_STEPS = 64
SCHEMES = {"RandomAllocation", "TruncatedPoissonSample", "Correlated"}
UNSAMPLED = {"IndividualFilter", "Group"} | SCHEMES


def price(node: Node, relation: str) -> Price:
    """What a node costs under a relation; kept at the node, and computed once."""
    found = node.prices.get(relation)
    if found is None:
        make = RULES[node.name] if node.name in COMPOSITES else leaf_price
        found = node.prices[relation] = make(node, relation)
    return found


def only(relation: str, right: str, what: str) -> None:
    """Refuse another relation than the `right` one, by name."""
    if relation != right:
        raise Bad(f"{what} has a price under {right} only")


def in_sequence(parts: list[Price]) -> Price:
    """The price of parts that follow each other: every currency adds up."""
    if len(parts) == 1:
        return parts[0]
    exact = None if any(one.exact is None for one in parts) else math.fsum(
        one.exact or 0 for one in parts)
    return Price(lambda order: math.fsum(one.renyi(order) for one in parts),
                 math.fsum(one.pure for one in parts), exact,
                 math.fsum(one.gdp for one in parts), math.fsum(one.zcdp for one in parts),
                 math.fsum(one.failure for one in parts))


def dearest(parts: list[Price]) -> Price:
    """The price of one part, whichever: the largest in every currency."""
    exact = None if any(one.exact is None for one in parts) else max(
        one.exact or 0 for one in parts)
    return Price(lambda order: max(one.renyi(order) for one in parts),
                 max(one.pure for one in parts), exact, max(one.gdp for one in parts),
                 max(one.zcdp for one in parts), max(one.failure for one in parts))


def once(node: Node) -> list[Node]:
    """The nodes inside, equal ones once."""
    return list(dict.fromkeys(node.inside))


def sequential(node: Node, relation: str) -> Price:
    """A `Sequential`: sums; an empty one costs nothing."""
    return in_sequence([price(one, relation) for one in node.inside]) if node.inside else nothing()


def repeat(node: Node, relation: str) -> Price:
    """A `Repeat`: `count` times the inner price."""
    one, times = price(node.inner, relation), node["count"]
    return Price(lambda order: times * one.renyi(order), times * one.pure if one.pure else 0.0,
                 None if one.exact is None else times * one.exact,
                 times * one.gdp if one.gdp else 0.0, times * one.zcdp if one.zcdp else 0.0,
                 times * one.failure)


def parallel(node: Node, relation: str) -> Price:
    """The dearest part; or the two dearest, where a replaced record may leave one for another."""
    by_index = node["certificate"] == "index"
    if by_index and relation == "add_remove":
        raise Bad("parts by index, under add_remove")
    if by_index or relation == "add_remove":
        return dearest([price(one, relation) for one in once(node)])
    if relation == "replace_label":
        raise Bad("parts that a label may decide, outside of LabelOnly")
    staying = dearest([price(one, "replace_one") for one in once(node)])
    if len(node.inside) == 1:
        return staying
    moving = [price(one, "add_remove") for one in once(node)
              for _ in range(min(2, node.inside.count(one)))]

    def two(values: list[float]) -> float:
        return math.fsum(sorted(values)[-2:])

    exact = None if staying.exact is None or any(one.exact is None for one in moving) else max(
        staying.exact, two([one.exact or 0 for one in moving]))
    return Price(lambda order: max(staying.renyi(order), two([one.renyi(order) for one in moving])),
                 max(staying.pure, two([one.pure for one in moving])), exact,
                 max(staying.gdp, two([one.gdp for one in moving])),
                 max(staying.zcdp, two([one.zcdp for one in moving])),
                 max(staying.failure, two([one.failure for one in moving])))


def one_of(node: Node, relation: str) -> Price:
    """A `OneOf`: the dearest alternative."""
    return dearest([price(one, relation) for one in once(node)])


def individual(node: Node, relation: str) -> Price:
    """An `IndividualFilter`: its cap, whatever runs under it."""
    only(relation, "add_remove", "an individual filter")
    cap, order = node["cap"], node["order"]
    if node["kind"] == "gdp":
        return Price(lambda at: cap * at / 2, exact=cap)
    return Price(lambda at: cap if at <= order else math.inf, gdp=math.inf, zcdp=math.inf)


def amplified(rate: float, inner: Price) -> Price:
    """The currencies of a sample that need no curve. Balle, Barthe, Gaboardi 2018, Theorem 8."""
    pure = inner.pure
    if pure < 30:
        pure = math.log1p(rate * math.expm1(pure))
    elif pure < math.inf:
        pure = min(pure, pure + math.log(rate + (1 - rate) * math.exp(-pure)))
    usual = Price(lambda order: math.inf, pure)
    return Price(lambda order: math.inf, pure, None, min(inner.gdp, usual.gdp),
                 min(inner.zcdp, usual.zcdp), inner.failure * rate)


def check_sampled(node: Node) -> None:
    """Refuse what has no price under a sample."""
    if node.inner.kinds & UNSAMPLED:
        raise Bad(f"an individual filter, a group or a whole scheme inside a {node.name}")


def poisson(node: Node, relation: str) -> Price:
    """A `PoissonSample`: amplified, except at rate one."""
    only(relation, "add_remove", "a Poisson sample")
    check_sampled(node)
    inner, rate = price(node.inner, relation), node["rate"]
    if rate == 1 or inner.exact == 0:
        return inner
    return sample(node, rate, inner)


def sample(node: Node, rate: float, inner: Price) -> Price:
    """A Poisson sample of this rate: exact for one Gaussian, else by moments of the inner curve."""
    found = amplified(rate, inner)
    known: dict[float, float] = {}

    def curve(order: float) -> float:
        if order not in known:
            known[order] = (sampled_gaussian(rate, inner.exact ** -0.5, order)
                            if inner.exact is not None
                            else sampled_moments(rate, inner.renyi, order))
        return known[order]
    found.renyi = curve
    return found


def fixed_size(node: Node, relation: str) -> Price:
    """A replaced record that does what no record would: its coming is that of a Poisson sample."""
    only(relation, "replace_one", "a sample of fixed size")
    check_sampled(node)
    waiting, nested = [node.inner], []
    while waiting:
        one = waiting.pop()
        waiting += once(one)
        if one.name == "Parallel" and one["certificate"] == "index":
            raise Bad("parts by index inside a sample of fixed size")
        nested += [one] if one.name == "FixedSizeSample" else []
    if any(one["out_of"] != node["size"] for one in nested) or (
            nested and "Parallel" in node.inner.kinds):
        raise Bad("a sample of fixed size drawn out of another number of rows")
    inner = price(node.inner, relation)
    if node["size"] == node["out_of"] or inner.exact == 0:
        return inner
    return sample(node, node["size"] / node["out_of"], inner)


def truncated(node: Node, relation: str) -> Price:
    """A `TruncatedPoissonSample` of Gaussians: in a full sample twice the shift."""
    only(relation, "add_remove", "a sample that is cut off")
    check_sampled(node)
    inner, rate = price(node.inner, relation), node["rate"]
    if inner.exact is None or inner.failure:
        raise Bad("a sample that is cut off, of other noise than Gaussian")
    full = full_chance(rate, node["most"], node["out_of"])
    if full == 0 or inner.exact == 0:
        return inner if rate == 1 or inner.exact == 0 else sample(node, rate, inner)
    squared = inner.exact
    if rate == 1:
        return Price(lambda order: 2 * squared * order, math.inf, 4 * squared)

    def curve(order: float) -> float:
        low, high = [(order - 1) * sampled_gaussian(rate, shift * squared ** -0.5, order)
                     for shift in (1, 0.5)]
        if high < 30:
            return math.log1p((1 - full) * math.expm1(low) + full * math.expm1(high)) / (order - 1)
        rest = math.log1p(-full) if full < 1 else -math.inf
        terms = [rest + low, math.log(full) + high]
        return (max(terms) + math.log1p(math.exp(min(terms) - max(terms)))) / (order - 1)
    return Price(curve, math.inf, None, 4 * squared, 2 * squared)


def correlated(node: Node, relation: str) -> Price:
    """A `Correlated`: a record moves most in the first steps, as close as they may be."""
    only(relation, "add_remove", "correlated noise")
    held, steps, apart = node["coefficients"], node["steps"], node["separation"]
    starts = range(0, steps, apart)[:node["participations"]]
    total = 0.0
    for lag in starts:
        if lag and lag >= len(held):
            break
        sums, rows = [0.0], range(min(len(held), steps - lag))
        for row in rows:
            other = abs(held[row + lag]) if row + lag < len(held) else 0.0
            sums.append(sums[-1] + abs(held[row]) * other)
        each = [sums[min(len(rows), steps - start)] for start in starts if start >= lag]
        total += math.fsum(each) * (2 if lag else 1)
    squared = total * price(node.inner, relation).gdp
    return Price(lambda order: squared * order / 2, exact=squared)


def allocation(node: Node, relation: str) -> Price:
    """A `RandomAllocation` of Gaussian rounds; by its curve alone it costs less than one round."""
    only(relation, "add_remove", "a random allocation")
    check_sampled(node)
    inner = price(node.inner, relation)
    if inner.exact is None or inner.failure:
        raise Bad("a random allocation of other noise than Gaussian")
    if node["steps"] == 1 or inner.exact == 0:
        return inner
    squared, known = inner.exact, dict[int, float]()

    def curve(order: float) -> float:
        at = math.floor(order)
        if at not in known:
            known[at] = allocated_gaussian(node["steps"], squared, order)
        return known[at]
    return Price(curve, inner.pure, None, inner.gdp, inner.zcdp)


def several(child: Node, stated: str, steps: int) -> Price:
    """Tables that are `steps` records apart: pure k epsilon, Gaussian k mu, Renyi by triangles."""
    inner = price(child, stated)
    if "IndividualFilter" in child.kinds or inner.failure:
        raise Bad("a group, or a change of relation, around a filter or a delta")
    squared, pure = inner.gdp * steps**2, inner.pure * steps
    whole = pure_curve(pure) if pure < math.inf else None

    def curve(order: float) -> float:
        if inner.exact is not None:
            return squared * order / 2
        best = math.inf if whole is None else whole(order)
        return min(best, triangles(inner, steps, order)) if steps <= MOST_STEPS else best
    return Price(curve, pure, None if inner.exact is None else squared, squared,
                 inner.zcdp * steps**2)


def triangles(inner: Price, steps: int, order: float) -> float:
    """A Renyi bound for `steps` neighbours in a row, by the triangle inequality."""
    total = inner.renyi(order * steps)
    for j in range(steps, 1, -1):
        at = order * steps / j
        place = at + (j - 1) * (at - 1)
        total += (at - at / place) / (at - 1) * inner.renyi(place)
    return total


def group(node: Node, relation: str) -> Price:
    """A `Group`: several rows of one person."""
    return price(node.inner, relation) if node["rows"] == 1 else several(
        node.inner, relation, node["rows"])


def as_replace_one(node: Node, relation: str) -> Price:
    """An `AsReplaceOne`: one removal and one addition."""
    only(relation, "replace_one", "AsReplaceOne")
    return several(node.inner, "add_remove", 2)


def label_only(node: Node, relation: str) -> Price:
    """A `LabelOnly`: under replace-label what the inner plan costs under replace-one."""
    only(relation, "replace_label", "LabelOnly")
    if node.inner.kinds & ({"FixedSizeSample"} | SCHEMES):
        raise Bad("a sample of fixed size, or an allocation, inside LabelOnly")
    return price(node.inner, "replace_one")


def federated(node: Node, relation: str) -> Price:
    """A `Federated`, as declared: what is inside."""
    return price(node.inner, relation)


def tuning(node: Node, relation: str) -> Price:
    """Papernot, Steinke 2022 (arXiv:2110.03620), Theorems 2 and 6, with the best second order."""
    inner = price(node.inner, relation)
    if "IndividualFilter" in node.inner.kinds or inner.failure:
        raise Bad("tuning around a filter or a delta")
    if inner.pure == 0:
        return inner
    shape, success, mean = node["shape"], node["success"], node["mean"]
    poisson_runs = node["distribution"] == "poisson"
    if poisson_runs:
        pure = inner.pure + mean * math.tanh(inner.pure / 2)
    else:
        pure = (2 + shape) * inner.pure
        mean = mean_runs(shape, success)
    both = pure_curve(pure) if pure < math.inf else None

    def curve(order: float) -> float:
        spread = math.log(mean) / (order - 1)
        more = max(0.0, spread) if poisson_runs else spread
        least = min(inner.renyi(at) for at in (order, math.ceil(order))) + more
        return least if both is None else min(least, both(order))
    return Price(curve, pure)


def mean_runs(shape: float, success: float) -> float:
    """Mean number of trials of a `Tuning` with this law."""
    if shape == 0:
        return (1 / success - 1) / math.log(1 / success)
    falling = -math.expm1(shape * math.log(success))
    return shape * (1 - success) / (success * falling)


RULES = {"Sequential": sequential, "Repeat": repeat, "Parallel": parallel, "OneOf": one_of,
         "IndividualFilter": individual, "PoissonSample": poisson, "FixedSizeSample": fixed_size,
         "RandomAllocation": allocation, "TruncatedPoissonSample": truncated,
         "Correlated": correlated,
         "Group": group, "AsReplaceOne": as_replace_one, "LabelOnly": label_only,
         "Federated": federated, "Tuning": tuning}


# -----------------------------------------------------------------------------------------------
# What a plan is charged at least under a filter, or of a budget with a delta.
# -----------------------------------------------------------------------------------------------


ATTAINED = {"Gaussian", "Laplace", "PoissonSample", "Sequential", "Repeat", "Group",
            "AsReplaceOne", "LabelOnly", "Federated", "Public", "PostProcess"}
UNPAIRED = {"DiscreteGaussian", "Parallel", "FixedSizeSample", "RandomAllocation", "Tuning"}


class Due:
    """What a plan costs at least, in units of a filter.

    `near` allows for what is not exact; `about` says which node is priced from below only.
    """

    def __init__(self, units: Fraction | int, delta_units: int = 0, near: float = 1e-9,
                 about: str = "") -> None:
        self.units, self.delta_units, self.near, self.about = units, delta_units, near, about


def from_below(plan: Node) -> str:
    """Node types in a plan whose Renyi bound is priced from below; empty if none."""
    rough = plan.kinds & {"FixedSizeSample", "RandomAllocation", "Tuning", "DiscreteLaplace"}
    waiting, seen = [plan], set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.inside
            if node.name == "PoissonSample" and price(node.inner, "add_remove").exact is None:
                rough |= {node.name}
    return ", ".join(sorted(rough))


def due(plan: Node, relation: str, kind: str, order: float, budget: tuple[float, float],
        delta: float, shared: bool = True) -> Due:
    """The price of a plan under one filter; `shared` if it was charged a delta.

    Raises:
        Bad: it has none, so it was never granted. NoPrice: none in this reader.
    """
    found = price(plan, relation)
    if kind != "basic":
        failed = -((-Fraction(found.failure) * DELTA_UNIT) // 1)
        value = {"gdp": found.gdp, "zcdp": found.zcdp}.get(kind)
        value = found.renyi(order) if value is None else value
        if not value < math.inf:
            raise Bad(f"a plan that has no price under a {kind} filter")
        return Due(Fraction(value) * UNIT, failed, 1e-9, from_below(plan) if kind == "rdp" else "")
    if found.failure == 0 and (found.pure <= budget[0] * (1 - 1e-12)
                               or (found.pure <= budget[0] and not shared)):
        return Due(Fraction(found.pure) * UNIT)
    return due_with_delta(plan, relation, found, delta if delta > 0 else budget[1])


def node_failing(plan: Node) -> bool:
    """Whether a plan is nothing but an asserted node that may fail."""
    return plan.name == "Asserted" and plan["delta"] > 0 and plan["epsilon"] < 300


def renyi_only(plan: Node, relation: str) -> bool:
    """Whether something in a plan has a Renyi bound and no distribution of losses."""
    waiting, seen = [plan], set()
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        waiting += node.inside
        if node.name == "AssertedZCDP" or (
                node.name == "IndividualFilter" and node["kind"] == "renyi"):
            return True
        if node.name in ("Tuning", "Group", "AsReplaceOne") and node.prices:
            made = next(iter(node.prices.values()))
            if made.exact is None and made.pure == math.inf and (
                    node.name == "Tuning" or node.inner.kinds & UNPAIRED):
                return True
    return False


def nodes_of(plan: Node) -> set[Node]:
    """All nodes of a plan."""
    waiting, seen = [plan], set[Node]()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.inside
    return seen


def by_renyi(plan: Node, found: Price, delta: float) -> float:
    """The best of many orders, those of filters among them: beyond its own one bounds nothing.

    Every sixteenth of 400 orders first, then all about the best: epsilon falls with the order, and
    then it rises. One order of a sample may take a hundredth of a second.
    """
    orders = [1 + 10 ** (place / 60 - 2) for place in range(400)]
    filters = [node["order"] for node in nodes_of(plan) if node.fields.get("kind") == "renyi"]
    known: dict[float, float] = {}

    def epsilon(order: float) -> float:
        if order not in known:
            bound = found.renyi(order)
            known[order] = epsilon_of_renyi(order, bound, delta) if bound < math.inf else math.inf
        return known[order]
    best = min(range(0, 400, 16), key=lambda place: epsilon(orders[place]))
    usable = [epsilon(order) for order in orders[max(0, best - 15):best + 16]]
    usable += [epsilon(order) for order in filters]
    if found.zcdp < math.inf:
        usable.append(epsilon_of_rho(found.zcdp, delta) if found.zcdp else 0.0)
    return min(usable, default=math.inf)


def due_with_delta(plan: Node, relation: str, found: Price, share: float) -> Due:
    """Of a whole plan at its part of delta."""
    if not share > 0:
        if found.failure or found.pure == math.inf:
            raise Bad("a plan that is not pure, and no delta")
        return Due(Fraction(found.pure) * UNIT)
    shared = -((-Fraction(share) * DELTA_UNIT) // 1)
    if found.failure >= share:
        raise Bad("a plan that fails more often than its delta says")
    if found.exact is not None:
        return Due(Fraction(epsilon_of_mu(math.sqrt(found.exact), share)) * UNIT, shared)
    if node_failing(plan):
        # An openly failing coin is the worst of all that are (epsilon, delta)-DP.
        likely = (share - found.failure) / (1 - found.failure)
        least = math.log(max(1.0, math.exp(found.pure) - likely * (1 + math.exp(found.pure))))
        return Due(Fraction(least) * UNIT, shared)
    if renyi_only(plan, relation):
        least = by_renyi(plan, found, share)
        return Due(Fraction(least if least < math.inf else 0.0) * UNIT, shared, 0.02,
                   "Renyi bounds, roughly")
    try:
        least = min(found.pure, epsilon_of_losses(plan, relation, share))
    except NoPrice as what:
        return Due(0, shared, 0.0, f"{what}, of which only the delta is compared")
    if not plan.kinds <= ATTAINED:
        # A distribution that only dominates may say more than Renyi bounds, which count then.
        least = min(least, by_renyi(plan, found, share))
    if any(map(ranged, nodes_of(plan))):
        # The best bound of choices that are made one after the other lies between this and those.
        least = min(least, epsilon_of_losses(plan, relation, share, attained=True))
    return Due(Fraction(least) * UNIT, shared, 0.02, "a composition, to a percent")


# -----------------------------------------------------------------------------------------------
# Plans that ran in a federation: what they cost if every other party gives its noise away.
# -----------------------------------------------------------------------------------------------


Promise = tuple[str, str, float, tuple[float, float]]  # relation, filter, order, budget


def alone(node: Node, honest: int = 1) -> Node:
    """A plan without its federations: of noise that `honest` parties share, one share is left."""
    if node.name == "Federated":
        shared = node["noise"] == "shared"
        return alone(node.inner, node["parties"] - node["colluding"] if shared else 1)
    fields = node.fields
    if honest > 1 and node.name == "Gaussian":
        fields = fields | {"noise_multiplier": share_of(fields["noise_multiplier"], honest)}
    return Node(node.name, fields, tuple([alone(one, honest) for one in node.inside]))


def as_released(plan: Node | None, table: Table) -> Node | None:
    """What may be itemised under a plan: of shared noise the whole, or a share each time."""
    if plan is None or "Federated" not in plan.kinds:
        return plan
    if plan.name == "Federated" and plan["noise"] == "shared":
        share = shared(plan.inner, plan["parties"] - plan["colluding"], table)
        return table.made("OneOf", {}, (plan.inner, share))
    inside = [as_released(one, table) for one in plan.inside]
    return table.made(plan.name, plan.fields, tuple([one for one in inside if one is not None]))


def shared(node: Node, honest: int, table: Table) -> Node:
    """A plan with one of `honest` shares of every noise, as the package rounds it."""
    fields = node.fields
    if node.name == "Gaussian":
        fields = fields | {"noise_multiplier": share_of(fields["noise_multiplier"], honest)}
    return table.made(node.name, fields, tuple([shared(one, honest, table)
                                                for one in node.inside]))


def share_of(noise: float, honest: int) -> float:
    """Noise over the root of `honest`: exact for squares, else two floats below."""
    root = math.isqrt(honest)
    if root * root == honest:
        return noise / root if honest > 1 else noise
    under = math.nextafter(noise, -math.inf) / math.nextafter(math.sqrt(honest), math.inf)
    return math.nextafter(under, -math.inf)


def federations(plan: Node) -> list[Node]:
    """Every `Federated` of a plan, each once."""
    if "Federated" not in plan.kinds:
        return []
    found, waiting = dict.fromkeys([plan]), [plan]
    while waiting:
        more = [one for one in waiting.pop().inside if one not in found]
        found.update(dict.fromkeys(more))
        waiting += more
    return [one for one in found if one.name == "Federated"]


def alone_at_least(plan: Node, relation: str, delta: float) -> float:
    """Epsilon that a plan costs at least at `delta` if every other party gives its noise away.

    Raises:
        Bad: it has no price. NoPrice: none in this reader.
    """
    own = alone(plan)
    found = due_with_delta(own, relation, price(own, relation), delta)
    if not found.units:
        raise NoPrice(found.about)
    return float(found.units / UNIT) * (1 - max(found.near, 1e-9))


def told(plan: Node, units: int, delta_units: int, delta: float, promise: Promise) -> list[str]:
    """Who took part in a plan, and both of its prices; nothing if it ran in no federation."""
    if "Federated" not in plan.kinds:
        return []
    relation, kind, order, budget = promise
    lines = [f"federated: {one['parties']} parties ({one['colluding']} may collude, "
             f"{one['least_honest']} honest at least), noise {one['noise']}, seen by "
             f"{one['seen_by']}" for one in federations(plan)]
    try:
        own = units
        if any(one["noise"] == "shared" for one in federations(plan)):
            own = max(own, math.ceil(due(alone(plan), relation, kind, order, budget, delta,
                                         delta_units != 0).units))
        prices = [shown(epsilon_of(kind, Fraction(one, UNIT), order, budget[1]))
                  for one in (units, own)]
    except (NoPrice, Bad, *MALFORMED):
        prices = ["not recomputed"] * 2
    return [*lines, f"federated: declared epsilon {prices[0]}, alone epsilon {prices[1]}"]


def shown(value: float) -> str:
    """Six digits, never below what it is."""
    return str(Context(prec=6, rounding=ROUND_CEILING).create_decimal(value).normalize())


# -----------------------------------------------------------------------------------------------
# Which releases a plan still admits: every one is taken off a node of it, in its own context.
#
# A token of a context stands for one sample, partition or filter, at one place, for good.
# -----------------------------------------------------------------------------------------------


STEP = {"kind": "", "token": "", "rate": 0.0, "part": 0, "parts": 0, "certificate": "", "caps": "",
        "size": 0, "out_of": 0}
SAMPLES = ("poisson", "fixed", "truncated", "allocation")


class Step:
    """How a table was narrowed down, once."""

    __slots__ = ("kind", "meaning", "part", "token")

    def __init__(self, value: Any) -> None:
        if type(value) is not dict or set(value) - set(STEP) or "kind" not in value or (
                "token" not in value):
            raise Bad("a context that is none")
        found = {**STEP, **value}
        for name, usual in STEP.items():
            if type(usual) is str and type(found[name]) is not str:
                raise Bad(f"a context with a {name} that is no text")
        rate = number(found["rate"])
        if any(type(found[name]) is not int for name, usual in STEP.items() if usual == 0 and (
                type(usual) is int)) or found["kind"] not in (*SAMPLES, "part", "filter"):
            raise Bad("a context of an unknown kind, or with impossible parts")
        self.kind, self.token, self.part = found["kind"], found["token"], found["part"]
        self.meaning = (self.kind, rate, found["parts"], found["certificate"], found["caps"],
                        found["size"], found["out_of"])

    def opens(self, unit: Node) -> bool:
        """Whether this step leads into `unit`: same kind, rate, parts, certificate and caps."""
        _, rate, parts, certificate, caps, size, out_of = self.meaning
        if self.kind == "poisson":
            return unit.name == "PoissonSample" and unit["rate"] == rate
        if self.kind == "fixed":
            return (unit.name == "FixedSizeSample" and unit["size"] == size
                    and unit["out_of"] == out_of)
        if self.kind == "truncated":
            return unit.name == "TruncatedPoissonSample" and (
                unit["rate"], unit["most"], unit["out_of"]) == (rate, size, out_of)
        if self.kind == "allocation":
            return (unit.name == "RandomAllocation" and unit["steps"] == parts
                    and 0 <= self.part < parts)
        if self.kind == "part":
            return (unit.name == "Parallel" and len(unit.inside) == parts
                    and 0 <= self.part < parts and unit["certificate"] == certificate)
        return unit.name == "IndividualFilter" and filter_word(unit) == caps


def units_of(node: Node, times: int, found: dict[Node, int]) -> None:
    """Leaves, and nodes that open a context: what they are in does not matter."""
    if node.name in FREE:
        return
    if node.name in ("Sequential", "Repeat", "Group", "AsReplaceOne", "LabelOnly", "Federated"):
        for member in node.inside:
            units_of(member, times * int(node.fields.get("count", 1)), found)
    else:
        found[node] = found.get(node, 0) + times


class Meter:
    """What one grant, or one opened context, still admits."""

    def __init__(self, node: Node | None, any_leaf: bool = False) -> None:
        self.any_leaf = any_leaf
        self.left: dict[Node, int] = {}
        if node is not None:
            units_of(node, 1, self.left)
        self.opened: dict[str, tuple[Any, Node, dict[int, Meter]]] = {}
        self.choices: list[list[Meter]] = []  # members of a `OneOf` that explain all so far
        self.places: dict[str, Any] = {}  # what a sample was drawn from

    def release(self, chain: list[Step], leaf: Node) -> None:
        """Take one release off the plan.

        Raises:
            Bad: the plan has no such node left there, or a sample is used at two places.
        """
        above: dict[str, Any] = {}
        for place, step in enumerate(chain):
            if step.kind in SAMPLES:
                if step.token in above:
                    raise Bad("a sample that is drawn from itself")
                above[step.token] = [(one.token, one.part, one.meaning) for one in chain[:place]]
        if any(self.places.get(token, place) != place for token, place in above.items()):
            raise Bad("one sample at two places")
        if not self.take(chain, leaf, True):
            raise Bad("a release that the plan of its grant does not hold")
        self.places.update(above)

    def take(self, chain: list[Step], leaf: Node, really: bool) -> bool:
        """Whether the plan has `leaf` left under `chain`; taken off it if `really`."""
        if self.any_leaf:
            return True
        if not chain:
            times = self.left.get(leaf, 0)
            if times and really:
                self.left[leaf] = times - 1
            return times > 0 or self.take_of_one(chain, leaf, really)
        step, rest = chain[0], chain[1:]
        if any(run[0].knows(step.token) for run in self.choices):
            return self.take_of_one(chain, leaf, really)
        if step.token in self.opened:
            meaning, unit, meters = self.opened[step.token]
            return (step.meaning == meaning and 0 <= step.part < parts_of(unit)
                    and below(meters, unit, step).take(rest, leaf, really))
        for unit, times in self.left.items():
            if times and step.opens(unit):
                fresh: dict[int, Meter] = {}
                if below(fresh, unit, step).take(rest, leaf, really):
                    if really:
                        self.left[unit] = times - 1
                        self.opened[step.token] = step.meaning, unit, fresh
                    return True
        return self.take_of_one(chain, leaf, really)

    def take_of_one(self, chain: list[Step], leaf: Node, really: bool) -> bool:
        """Under some member of a choice; the members that do not admit it drop out."""
        held = [run for run in self.choices if chain and run[0].knows(chain[0].token)]
        for run in held or self.choices:
            kept = [member for member in run if member.take(chain, leaf, False)]
            if kept:
                if really:
                    run[:] = [member for member in kept if member.take(chain, leaf, True)]
                return True
        if held:
            return False
        for unit, times in self.left.items():
            if unit.name == "OneOf" and times:
                kept = [member for member in map(Meter, unit.inside)
                        if member.take(chain, leaf, really)]
                if kept:
                    if really:
                        self.left[unit] = times - 1
                        self.choices.append(kept)
                    return True
        return False

    def knows(self, token: str) -> bool:
        """Whether a sample, partition or filter with this token was opened here."""
        return token in self.opened or any(run[0].knows(token) for run in self.choices)


def parts_of(unit: Node) -> int:
    """How many parts, or rounds of an allocation, a unit has."""
    if unit.name == "Parallel":
        return len(unit.inside)
    return int(unit["steps"]) if unit.name == "RandomAllocation" else 1


def below(meters: dict[int, Meter], unit: Node, step: Step) -> Meter:
    """The meter of what is under a step: of its own part or round, or the only one."""
    if step.part not in meters:
        place = step.part if unit.name == "Parallel" else 0
        # A filter without a described inside admits anything.
        meters[step.part] = Meter(unit.inside[place] if unit.inside else None,
                                  unit.name == "IndividualFilter" and not unit.inside)
    return meters[step.part]


# -----------------------------------------------------------------------------------------------
# A ledger's own policy: what it forbids was never granted, released or opened.
# -----------------------------------------------------------------------------------------------


LIMIT = record({"max_epsilon": (real, True), "max_delta": (chance(zero=True), True)})


def relations(value: Any) -> Any:
    """A relation, or a list of them."""
    for one in value if type(value) is list else [value]:
        among(*RELATIONS)(one)
    return value


def limits(value: Any) -> Any:
    """Limits of single tables: each an epsilon and a delta."""
    labels(dict.fromkeys(value, "") if type(value) is dict else value)
    for one in value.values():
        if set(LIMIT(one)) != {"max_epsilon", "max_delta"}:
            raise Bad("a limit of a table with other fields")
    return value


LIBRARY = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*?)(?:(>=|==)(\d{1,9}(?:\.\d{1,9}){0,5}))?")
RELEASE = re.compile(r"(\d{1,9}(?:\.\d{1,9}){0,5})(?:\.post\d+)?(?:\+[A-Za-z0-9.]+)?")


def library(value: object) -> object:
    """A library, alone or with >= or == and a version in numbers."""
    if not LIBRARY.fullmatch(text(value)):
        raise Bad("a library's rule that is none")
    return value


def admitted(rules: list[str], name: str, version: str) -> bool:
    """Whether a rule allows this library in this version."""
    for rule in rules:
        found, told = LIBRARY.fullmatch(rule), RELEASE.fullmatch(version)
        if found is None or found[1] != name:
            continue
        if found[2] is None:
            return True
        if told is not None:
            have, want = ([int(part) for part in (number + ".0.0.0.0.0").split(".")[:6]]
                          for number in (told[1], found[3]))
            if have == want or (found[2] == ">=" and have > want):
                return True
    return False


POLICY = {
    "max_epsilon": (zero_or_more, True), "max_delta": (chance(zero=True), True),
    "min_delta": (chance(zero=True), False), "relation": (maybe(relations), False),
    "allow_simulation": (flag, False), "allow_asserted": (flag, False),
    "learners": (maybe(some(text)), False),
    "mechanisms": (maybe(some(among(*SPENDING))), False),
    "isolation": (maybe(some(among(*ISOLATIONS))), False),
    "min_rows": (maybe(counted()), False), "require_receipt": (flag, False),
    "windows": (maybe(some(period)), False), "data": (limits, False),
    "new_ledger": (flag, False), "max_alone_epsilon": (maybe(zero_or_more), False),
    "least_honest": (maybe(counted()), False), "forbid_shared_noise": (flag, False),
    "foreign": (maybe(some(library)), False),
}


class Policy:
    """The rules of one policy that a history can break."""

    def __init__(self, value: Any) -> None:
        record(POLICY)(value)
        if set(value) - set(POLICY):
            raise Bad("a policy with a rule that is not known")
        if value.get("min_delta", 0) > value["max_delta"]:
            raise Bad("a policy with a least delta above the largest")
        self.value = value
        self.rows: dict[str, Any] = {}
        self.relation, self.delta = "", 0.0

    def allows(self, rule: str, found: str) -> None:
        """Refuse a word that a list of the policy does not have; no list allows all."""
        allowed = self.value.get(rule)
        if allowed is not None and found not in allowed:
            raise Bad(f"against the ledger's policy, {rule}: {found}")

    def creation(self, body: Any) -> None:
        """Hold the first entry against the policy: relation, delta, mode."""
        self.relation, self.delta = body["relation"], float(body["budget"]["delta"])
        relation = self.value.get("relation")
        right = relation if type(relation) is list else [relation]
        delta = body["budget"]["delta"]
        if (relation is None and body["relation"] == "replace_label") or (
                relation is not None and body["relation"] not in right):
            raise Bad("against the ledger's policy, relation")
        if delta and not delta >= self.value.get("min_delta", 0):
            raise Bad("against the ledger's policy, min_delta")
        if body["mode"] != "private" and not self.value.get("allow_simulation"):
            raise Bad("against the ledger's policy, allow_simulation")

    def protected(self, body: Any) -> None:
        """Note the rows of a table, if they are public."""
        self.rows[body["data"]] = body.get("rows")

    def planned(self, plan: Node | None) -> None:
        """Hold a plan against the policy: mechanisms, and what is asserted."""
        if plan is None:
            return
        for kind in sorted(spending(plan)):
            self.allows("mechanisms", kind)
            if kind.startswith("Asserted") and not self.value.get("allow_asserted"):
                raise Bad(f"against the ledger's policy, allow_asserted: {kind}")

        for one in federations(plan):
            least = self.value.get("least_honest")
            if one["noise"] == "shared" and (self.value.get("forbid_shared_noise") or (
                    least is not None and one["least_honest"] < least)):
                raise Bad("against the ledger's policy, forbid_shared_noise or least_honest")
        most = self.value.get("max_alone_epsilon")
        if most is not None and federations(plan) and not (
                alone_at_least(plan, self.relation, self.delta) <= most):
            raise Bad("against the ledger's policy, max_alone_epsilon")

    def granted(self, body: Any) -> None:
        """Hold a grant against the policy: learner, isolation, rows of the table."""
        self.allows("learners", body["learner"])
        self.allows("isolation", body.get("isolation", "guarded"))
        rules, told = self.value.get("foreign"), body.get("labels") or {}
        if body.get("isolation") == "foreign" and rules is not None and not admitted(
                rules, told.get("library", ""), told.get("version", "")):
            raise Bad("against the ledger's policy, foreign")
        rows, least = self.rows.get(body["data"]), self.value.get("min_rows")
        if least is not None and not (rows is not None and rows >= least):
            raise Bad("against the ledger's policy, min_rows")

    def released(self, body: Any) -> None:
        """Refuse an asserted sensitivity where the policy does."""
        if not self.value.get("allow_asserted") and any(
                question.startswith("asserted:") for question in body["questions"]):
            raise Bad("against the ledger's policy, allow_asserted: a sensitivity")


def spending(plan: Node) -> set[str]:
    """Types of the nodes that spend: without anything below, and not free."""
    found, waiting, seen = set(), [plan], set()
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting += node.inside
            if not node.inside and node.name in SPENDING:
                found.add(node.name)
    return found


# -----------------------------------------------------------------------------------------------
# How long pricing takes, by the counting rule of the format: beyond it nothing is priced.
# -----------------------------------------------------------------------------------------------


MOST_EFFORT, FREE_EFFORT = 2500.0, 1.0  # about milliseconds
LIGHT, ALIKE, WITHIN, DISTRIBUTION, PART = 0.15, 0.01, 4.0, 100.0, 8.0
HEAVY = {"PoissonSample": (2.0, 0.3), "FixedSizeSample": (3.0, 0.3), "Tuning": (25.0, 0.5),
         "RandomAllocation": (400.0, 0.3), "TruncatedPoissonSample": (5.0, 0.3),
         "Correlated": (30.0, 30.0),
         "Group": (1.0, 0.3), "AsReplaceOne": (1.0, 0.3), "OneOf": (0.5, 0.5),
         "DiscreteGaussian": (12.0, 12.0), "DiscreteLaplace": (2.0, 2.0)}
EXACT = {"Gaussian", "Sequential", "Repeat", "PostProcess", "Public"}


class Efforts:
    """Adds up what the plans take that differ from each other."""

    def __init__(self) -> None:
        self.total = 0.0
        self.seen: set[tuple[Node, bool]] = set()

    def add(self, plan: Node | None, kind: str, by_distribution: bool) -> bool:
        """Whether there is time for one more plan."""
        whole = kind == "basic" and by_distribution
        if plan is None or (plan, whole) in self.seen:
            return True
        needed = effort_of(plan, kind in ("rdp", "basic"), whole)
        if needed > FREE_EFFORT:
            self.seen.add((plan, whole))
            self.total += needed - FREE_EFFORT
        return max(needed, self.total) <= MOST_EFFORT


def effort_of(plan: Node, curves: bool, whole: bool) -> float:
    """How much work a plan's price is, in the units of the limits; a node met again is little."""
    total, seen, waiting = 0.0, set(), [(plan, 0.0)]
    while waiting:
        node, within = waiting.pop()
        if node in seen:
            total += ALIKE
        else:
            seen.add(node)
            total += within + HEAVY.get(node.name, (LIGHT, LIGHT))[not curves]
        if curves and node.name in ("PoissonSample", "FixedSizeSample") and not (
                node.inner.kinds <= EXACT):
            within += WITHIN
        waiting += [(one, within) for one in node.inside]
    if whole and not plan.kinds <= EXACT:
        total += DISTRIBUTION + PART * len(seen)
    return total


def labelled(values: Any) -> str:
    """Names and what they stand for, for a message."""
    return " ".join(f"{name} {value}" for name, value in sorted(values.items()))


# -----------------------------------------------------------------------------------------------
# Budgets beside the ledger's own: for one table, for labels, for a window, for each window.
# -----------------------------------------------------------------------------------------------


Total = tuple[int, int]


class Cap:
    """One cap, and what the grants that match it took: for each window where it begins anew."""

    def __init__(self, body: Any) -> None:
        self.epsilon, self.delta = float(body["epsilon"]), float(body["delta"])
        self.purse = float(body.get("failure", 0.0))
        self.data, self.labels = body["data"], body["labels"]
        self.window, self.each = body.get("window"), bool(body.get("per_window"))
        self.totals: dict[str | None, Total] = {}

    def matches(self, grant: Any) -> bool:
        """A scope may serve any table and any request, so it falls under all but other windows."""
        if self.window is not None and grant.get("window") != self.window:
            return False
        if "grant" not in grant:
            return True
        carried = grant.get("labels") or {}
        return (self.data is None or grant["data"] == self.data) and all(
            carried.get(key) == value for key, value in self.labels.items())

    def spent(self, window: str | None) -> Total:
        """Units and delta units charged to it, in `window` if it is a cap for each."""
        return self.totals.get(window if self.each else None, (0, 0))

    def add(self, window: str | None, units: int, delta_units: int) -> Total:
        """Charge it; returns what is spent then."""
        before = self.spent(window)
        after = before[0] + units, before[1] + delta_units
        self.totals[window if self.each else None] = after
        return after

    def shown(self, window: str | None, end: Total | None = None) -> list[int]:
        """As a checkpoint lists it: a cap for all time by what it was when the window ended."""
        return list(self.spent(window) if self.each or end is None else end)

    def __str__(self) -> str:
        return f"the cap for data {self.data}, labels {self.labels}, window {self.window}"


# -----------------------------------------------------------------------------------------------
# Per-record vectors: that each is the one its settlement names, and no record is past its cap.
# -----------------------------------------------------------------------------------------------


RECORD_UNITS = 1 << 52
MOST_RECORDS, MOST_TOTAL_RECORDS = 5_000_000, 64_000_000
MOST_ADDED = 12_000_000  # records that are added up here


class Vectors:
    """Follows the settlements of a history, and compares when the vectors are at hand."""

    def __init__(self) -> None:
        self.wanted: list[tuple[int, str, str, str]] = []  # entry, name, digest, scope
        self.seen: dict[str, bytes] = {}
        self.records = 0
        self.totals: dict[str, Any] = {}
        self.largest: dict[str, int] = {}
        self.given = False

    def settled(self, entry: int, body: Any, scope: str | None) -> None:
        """Note the vector that a settlement names, to be looked at in the end."""
        vector = body.get("vector")
        if vector:
            self.wanted.append((entry, vector["name"], vector["sha256"],
                                vector["name"] if scope is None else scope))

    def line(self, name: Any, data: Any) -> None:
        """A vector behind the entries of an export."""
        self.given = True
        if type(name) is not str or type(data) is not str or name in self.seen:
            raise Bad("a vector without a name, or twice")
        self.seen[name] = base64.b64decode(data, validate=True)

    def check(self, look_up: Any) -> list[tuple[int, str]]:
        """Faults, and what was left out (with a leading dash)."""
        found = []
        for entry, name, digest, scope in self.wanted:
            try:
                self.one(look_up(name), digest, scope)
            except Bad as error:
                found.append((entry, str(error)))
                if str(error).startswith("the vectors up to here"):
                    break
        return found

    def one(self, data: bytes | None, digest: str, scope: str) -> None:
        """Look at one vector: its digest, its length, and what each record has spent by then."""
        if data is None or hashlib.sha256(data).hexdigest() != digest:
            raise Bad("the per-record vector is missing or was edited")
        head = opened(data, 8)[:8]
        count = int.from_bytes(head, "little", signed=True)
        if len(head) != 8 or not 0 <= count <= MOST_RECORDS:
            raise Bad("a per-record vector that is damaged or too large")
        self.records += count
        if self.records > MOST_TOTAL_RECORDS:
            raise Bad("the vectors up to here hold too many records: not read")
        raw = memoryview(opened(data, 8 + 12 * count, whole=True))
        taken, rounds = array("q"), array("i")
        taken.frombytes(raw[8:8 + 8 * count])
        rounds.frombytes(raw[8 + 8 * count:])
        if sys.byteorder == "big":
            taken.byteswap()
            rounds.byteswap()
        del raw
        if count and (min(taken) < 0 or max(taken) > RECORD_UNITS or min(rounds) < 0):
            raise Bad("a record is past its own cap")
        before = self.largest.get(scope, 0)
        self.largest[scope] = before + (max(taken) if count else 0)
        if self.records > MOST_ADDED:
            return
        total = self.totals.get(scope, array("q"))
        if self.largest[scope] > RECORD_UNITS or len(total) < MOST_ADDED:
            short = min(len(total), count)
            total = array("q", map(add, total[:short], taken[:short])) + (
                total[short:] or taken[short:])
            self.totals[scope] = total
        if self.largest[scope] > RECORD_UNITS and max(total) > RECORD_UNITS:
            raise Bad("a record is past its own cap")


def opened(data: bytes, most: int, whole: bool = False) -> bytes:
    """So many bytes of what was compressed; with `whole`, exactly so many and nothing behind."""
    reader = zlib.decompressobj()
    try:
        raw = reader.decompress(data, most + (1 if whole else 0))
    except zlib.error:
        raise Bad("a per-record vector that is damaged") from None
    if whole and (len(raw) != most or not reader.eof or reader.unused_data):
        raise Bad("a per-record vector is not as long as it says")
    return raw


# -----------------------------------------------------------------------------------------------
# What a ledger of people keeps by their places: who is known, who is in which table, who spent.
# -----------------------------------------------------------------------------------------------


PIECE_WIDTH, DIGEST_SIZE, PIECE_HASH = 4096, 16, 32
INDEX_MAGIC = b"prlgidx1"
INDEX_HEAD = len(INDEX_MAGIC) + 16 + 16
NOBODY = bytes(PIECE_HASH)


Body: TypeAlias = dict[str, Any]
LookUp: TypeAlias = Callable[[str], "bytes | None"]


class People:
    """Follows enrolments and settlements, and compares when what they name is at hand."""

    def __init__(self) -> None:
        self.tables: list[tuple[int, Body]] = []  # position and body of every enrolment
        self.wanted: list[tuple[int, str, Body, str]] = []  # entry, what, note, scope
        self.size = self.records = 0
        self.seen: set[bytes] = set()
        self.totals: dict[tuple[str, int], array[int]] = {}

    def enrol(self, entry: int, body: Body, unit: str) -> None:
        """Note who was enrolled, to be looked at in the end."""
        if unit != "person":
            raise Bad("enrols people, and the promise is about rows")
        number = len(self.tables)
        if (body["people"]["name"], body["members"]["name"]) != (
                f"people:{number}", f"members:{number}"):
            raise Bad("enrols people under other names than its own")
        self.tables.append((entry, body))
        self.wanted.append((entry, "batch", body["people"], ""))
        self.wanted.append((entry, "members", body["members"], ""))

    def granted(self, body: Body, unit: str) -> None:
        """Refuse a grant for a table of which nobody said who is in it."""
        number = body.get("enrolled")
        if (number is None) != (unit != "person") or (number is not None and (
                number >= len(self.tables) or self.tables[number][1]["data"] != body["data"])):
            raise Bad("grants a table whose people are not known")

    def settled(self, entry: int, body: Body, scope: str | None) -> None:
        """Note what people spent under a grant."""
        note = body.get("vector")
        if note:
            self.wanted.append((entry, "spent", note, note["name"] if scope is None else scope))

    def check(self, look_up: LookUp) -> list[tuple[int, str]]:
        """Faults, in the order of the entries."""
        found = []
        for entry, what, note, scope in self.wanted:
            try:
                first, count, pieces = self.pieces(look_up, note)
                if what == "batch":
                    self.batch(first, count, pieces)
                elif first or count > self.size:
                    raise Bad("places that nobody has")
                elif what == "members":
                    self.members(count, pieces)
                else:
                    self.spent(count, pieces, scope)
            except Bad as error:
                found.append((entry, str(error)))
                if str(error).startswith("the vectors up to here"):
                    break
        return found

    @staticmethod
    def pieces(look_up: LookUp, note: Body) -> tuple[int, int, list[bytes | None]]:
        """First place, number of places, and every piece, each with its hash."""
        index = look_up(note["name"])
        if index is None or hashlib.sha256(index).hexdigest() != note["sha256"]:
            raise Bad("what is kept by people is missing or was edited")
        start = len(INDEX_MAGIC) + 16
        first, count = (int.from_bytes(index[at:at + 8], "little") for at in (start, start + 8))
        hashes = index[INDEX_HEAD:]
        if (not index.startswith(INDEX_MAGIC) or len(index) < INDEX_HEAD
                or first + count > MOST_RECORDS
                or len(hashes) != PIECE_HASH * -(-count // PIECE_WIDTH)):
            raise Bad("what is kept by people is damaged or too large")
        found: list[bytes | None] = []
        for number in range(len(hashes) // PIECE_HASH):
            right = hashes[number * PIECE_HASH:(number + 1) * PIECE_HASH]
            piece = None if right == NOBODY else look_up(f"{note['name']}/{number}")
            if right != NOBODY and (piece is None or hashlib.sha256(piece).digest() != right):
                raise Bad("a piece of what is kept by people is missing or was edited")
            found.append(piece)
        return first, count, found

    def batch(self, first: int, count: int, pieces: list[bytes | None]) -> None:
        """New people: behind those before, rising, nobody twice."""
        data = b"".join(piece or b"" for piece in pieces)
        if first != self.size or any(
                len(piece or b"") != DIGEST_SIZE * min(PIECE_WIDTH, count - number * PIECE_WIDTH)
                for number, piece in enumerate(pieces)):
            raise Bad("a batch of people does not follow the one before")
        fresh = [data[at:at + DIGEST_SIZE] for at in range(0, len(data), DIGEST_SIZE)]
        if any(map(bytes.__ge__, fresh, fresh[1:])) or not self.seen.isdisjoint(fresh):
            raise Bad("a batch of people names somebody twice, or out of order")
        self.seen.update(fresh)
        self.size += count

    @staticmethod
    def members(count: int, pieces: list[bytes | None]) -> None:
        """One bit for each place, and none beyond the last."""
        for number, piece in enumerate(pieces):
            some = min(PIECE_WIDTH, count - number * PIECE_WIDTH)
            if piece is not None and (len(piece) != -(-some // 8)
                                      or int.from_bytes(piece, "little") >> some):
                raise Bad("who is in a table is not as long as it says")

    def spent(self, count: int, pieces: list[bytes | None], scope: str) -> None:
        """Nobody has spent more than the cap, in all tables together."""
        self.records += count
        if self.records > MOST_TOTAL_RECORDS:
            raise Bad("the vectors up to here hold too many records: not read")
        for number, piece in enumerate(pieces):
            if piece is not None:
                self.piece(min(PIECE_WIDTH, count - number * PIECE_WIDTH), piece, (scope, number))

    def piece(self, some: int, data: bytes, key: tuple[str, int]) -> None:
        """One piece of what people spent: units, then rounds."""
        raw = opened(data, 12 * some, whole=True)
        taken, rounds = array("q"), array("i")
        taken.frombytes(raw[:8 * some])
        rounds.frombytes(raw[8 * some:])
        if sys.byteorder == "big":
            taken.byteswap()
            rounds.byteswap()
        if min(taken) < 0 or max(taken) > RECORD_UNITS or min(rounds) < 0:
            raise Bad("a person is past the cap")
        if self.records > MOST_ADDED:
            return
        before = self.totals.get(key, array("q"))
        short = min(len(before), some)
        total = array("q", map(add, before[:short], taken[:short])) + (
            before[short:] or taken[short:])
        self.totals[key] = total
        if max(total) > RECORD_UNITS:
            raise Bad("a person is past the cap")


# -----------------------------------------------------------------------------------------------
# The line of those who wait for budget. Nothing is charged by it; a checkpoint keeps it.
# -----------------------------------------------------------------------------------------------


MOST_PLACES = 1000
PLACE_FIELDS = ("grant", "data", "labels", "units", "delta_units", "until", "host", "pid",
                "started")


class Line:
    """Places by grant, in the order in which they came."""

    def __init__(self) -> None:
        self.places: dict[str, dict[str, object]] = {}

    def refused(self, body: Mapping[str, object], granted: Container[str]) -> bool:
        """Fold a `refused` entry in; whether it counts as a refusal."""
        self.places.pop(str(body.get("left_line", "")), None)
        place = body.get("waits")
        if isinstance(place, dict) and place["grant"] not in granted and (
                len(self.places) < MOST_PLACES):
            self.places[place["grant"]] = {name: place[name] for name in PLACE_FIELDS}
        return not ("waits" in body or "left_line" in body)

    def granted(self, grant: str) -> None:
        """Whoever waited has what it asked for."""
        self.places.pop(grant, None)


# -----------------------------------------------------------------------------------------------
# Checkpoints: a convenience in a file that says what the entries before it add up to.
# -----------------------------------------------------------------------------------------------


CHECKPOINT_VERSION = 2
GRANT = {"status": "granted", "releases": 0, "touched": True, "settled": {}, "crashed": {},
         "corrections": []}


class Checkpoint:
    """One that a file keeps, compared when the history reaches its position."""

    def __init__(self, position: Any, head: str, state: str, seal: str, names: str) -> None:
        self.position, self.head, self.state, self.names = position, head, state, names
        whole = hashlib.sha256(f"{position}\n{head}\n{state}".encode()).hexdigest()
        self.sound = seal == whole

    def check(self, book: Any) -> None:
        """Raise `Bad` if it is not what the book holds now."""
        try:
            kept = parse(self.state.encode(), "utf-8")
            if self.sound and kept["version"] > CHECKPOINT_VERSION:
                return  # a later version wrote it, for itself
        except (Bad, LookupError, TypeError):
            pass
        right = canonical(state_of(book))
        if (not self.sound or self.state != right or self.head != book.hashes[-1]
                or self.names != canonical(book.closed)[1:-1]):
            raise Bad("the checkpoint is not what the entries before it add up to")


def state_of(book: Any) -> dict[str, Any]:
    """Everything that decides on requests, as a writer keeps it."""
    fixed = book.filter_body
    current = book.windows[-1]
    return {
        "version": CHECKPOINT_VERSION, "created": book.created, "units": book.units,
        "delta_units": book.delta_units, "refusals": book.refusals, "charges": book.charges,
        "cap_spent": [cap.shown(current) for cap in book.caps], "window": current,
        "windows": [[name or "", [cap.shown(name, end) for cap in book.caps]]
                    for name, end in zip(book.windows[:-1], book.window_ends, strict=True)],
        "filter": None if fixed is None else {name: fixed[name] for name in (
            "kind", "order", "cap_units", "delta_cap_units")},
        "grants": [kept_grant(grant) for grant in book.grants.values()
                   if grant["corrections"] or grant["name"] not in book.closed_names],
        "scopes": [{"scope": name, "position": scope["position"], "body": scope["body"]}
                   for name, scope in book.scopes.items()],
        "names": len(book.closed),
        "digest": hashlib.sha256(canonical(book.closed)[1:-1].encode("ascii")).hexdigest(),
        **({"enrolled": book.people.tables} if book.people.tables else {}),
        **({"line": list(book.line.places.values())} if book.line.places else {}),
    }


def kept_grant(grant: Any) -> dict[str, Any]:
    """What a checkpoint keeps of a grant, to compare it with the entries."""
    return {"grant": grant["name"], "position": grant["position"], "body": grant["body"],
            **{field: grant[field] for field in GRANT}}


# -----------------------------------------------------------------------------------------------
# The history, entry by entry: what it adds up to, and every fault on the way.
# -----------------------------------------------------------------------------------------------


MOST_FAULTS = 10_000


class Book:
    """What the entries so far add up to. `on_KIND` takes the body of one entry."""

    def __init__(self) -> None:
        self.faults: list[tuple[int, str]] = []
        self.notes: dict[str, int] = {}  # what was not recomputed -> the first such entry
        self.hashes: list[str] = []
        self.created: Any = {}
        self.uuid = self.mode = self.relation = self.unit = self.filter = ""
        self.epsilon = self.delta = self.purse = self.order = 0.0
        self.format = 0
        self.filter_body: Any = None
        self.allowed: Caps | None = None
        self.cap = self.delta_cap = self.units = self.delta_units = 0
        self.charges = self.refusals = 0
        self.grants: dict[str, dict[str, Any]] = {}
        self.scopes: dict[str, dict[str, Any]] = {}
        self.closed: list[str] = []
        self.closed_names: set[str] = set()
        self.caps: list[Cap] = []  # beside the budget
        self.windows: list[str | None] = [None]  # the open one is the last
        self.window_names: set[str] = set()
        self.window_ends: list[list[Any]] = []
        self.table, self.efforts = Table(), Efforts()
        self.vectors, self.people, self.line = Vectors(), People(), Line()
        self.policy: Policy | None = None
        self.checkpoint: Any = None

    # --- entries -----------------------------------------------------------------------------

    def fault(self, text: str) -> None:
        """Note a fault at the entry that is read now, up to a number of them."""
        if len(self.faults) < MOST_FAULTS:
            self.faults.append((len(self.hashes) - 1, text))

    def is_enough(self) -> bool:
        """So much is wrong that nothing more is read."""
        if len(self.faults) < MOST_FAULTS:
            return False
        self.faults[-1] = len(self.hashes) - 1, "too much is wrong: nothing was read from here on"
        return True

    def note(self, text: str) -> None:
        """Note once what could not be checked, with the entry where it first was so."""
        self.notes.setdefault(text, len(self.hashes) - 1)

    def take(self, raw: bytes) -> None:
        """One line of an export: an entry, or a per-record vector after the last entry."""
        try:
            line = parse(raw, "ascii")
            if type(line) is dict and set(line) == {"vector", "data"}:
                return self.vectors.line(line["vector"], line["data"])
            self.hashes.append("")
            if type(line) is not dict or set(line) != FIELDS:
                raise Bad("not an entry")
            text = canonical(line["body"])
        except (Bad, *MALFORMED) as error:
            if not self.hashes or self.hashes[-1]:
                self.hashes.append("")
            return self.fault(str(error) if isinstance(error, Bad) else "malformed")
        return self.enter(line["position"], line["kind"], line["body"], text, line["previous"],
                          line["hash"])

    def take_row(self, row: tuple[Any, ...]) -> None:
        """One row of a file; its texts as bytes."""
        self.hashes.append("")
        try:
            position, kind, body, previous, digest = row
            if body is None:
                raise Bad(f"larger than {MOST_BODY} bytes, which is the most of an entry")
            text = body.decode("ascii")
            value = parse(body, "ascii")
            if canonical(value) != text:
                self.fault("the text is not the one of its value")
            kind, previous, digest = (one.decode() for one in (kind, previous, digest))
        except (Bad, *MALFORMED) as error:
            return self.fault(str(error) if isinstance(error, Bad) else "malformed")
        return self.enter(position, kind, value, text, previous, digest)

    def enter(self, position: Any, kind: Any, body: Any, text: str, previous: Any,
              digest: Any) -> None:
        """An entry that could be read: the chain, its shape, and what it means."""
        before = self.hashes[-2] if len(self.hashes) > 1 else "0" * 64
        self.hashes[-1] = digest
        try:
            if type(kind) is not str or type(digest) is not str:
                raise Bad("not an entry")
            if whole(position) != len(self.hashes) - 1 or previous != before:
                self.fault("does not follow the entry before")
            if chain_hash(position, kind, text, before) != digest:
                self.fault("the text does not match its hash")
            most = MOST_PLAN if kind in ("granted", "scope", "corrected") else MOST_BODY
            if len(text) > most:
                raise Bad(f"larger than {most} bytes, which is the most of {kind}")
            if (kind == "created") != (len(self.hashes) == 1):
                raise Bad("the creation is the first entry, and no other")
            if kind == "created" and type(body) is dict and type(body.get("format")) is int and (
                    body["format"] > FORMAT):
                raise Bad(f"a later format than {FORMAT}: take a later verifier")
            check_shape(kind, body, self.format or FORMAT)
            for field in set(body) - set(SHAPES[kind]):
                self.note(f"not looked at: {kind}.{field}, which this reader does not know")
            getattr(self, "on_" + kind)(body)
            if self.checkpoint is not None and self.checkpoint.position == position:
                self.checkpoint.check(self)
        except Bad as error:
            self.fault(str(error))
        except MALFORMED:
            self.fault("malformed")

    def finish(self, look_up: Any = None) -> None:
        """After the last entry: vectors, and a checkpoint that was never reached."""
        if self.checkpoint is not None and not (
                type(self.checkpoint.position) is int
                and 0 <= self.checkpoint.position < len(self.hashes)):
            self.fault("a checkpoint behind the last entry")
        if look_up is None:
            look_up = self.vectors.seen.get
            if not self.vectors.given and (self.vectors.wanted or self.people.wanted):
                return self.note("not compared: per-record vectors, which are not in this file")
        self.faults += self.vectors.check(look_up)
        self.faults += self.people.check(look_up)

    # --- the promise -------------------------------------------------------------------------

    def on_created(self, body: Any) -> None:
        """The promise: format, relation, mode, budget, caps, policy."""
        self.created, self.format = body, body["format"]
        self.uuid, self.mode, self.relation = body["uuid"], body["mode"], body["relation"]
        self.unit = body.get("unit", "row")
        self.epsilon, self.delta, self.purse = (float(body["budget"].get(name, 0)) for name in (
            "epsilon", "delta", "failure"))
        self.caps = [Cap(cap) for cap in body.get("caps") or []]
        if body.get("policy") is not None:
            self.policy = Policy(body["policy"])
            self.policy.creation(body)

    def on_filter(self, body: Any) -> None:
        """The filter and its cap, which must be what the budget allows."""
        if self.filter or self.grants or self.scopes:
            raise Bad("the filter is fixed once, before anything is granted")
        self.filter, self.order, self.filter_body = body["kind"], float(body["order"]), body
        if self.created.get("filter") not in ("auto", self.filter):
            self.fault("another filter than the one that was asked for")
        self.cap, self.delta_cap = body["cap_units"], body["delta_cap_units"]
        self.allowed = Caps(self.filter, self.order)
        units, delta_units = self.allowed.of(self.epsilon, self.delta, self.purse)
        if self.filter != "basic" and not units:
            raise Bad("a filter that this budget leaves nothing under")
        if self.cap > units or self.delta_cap > delta_units:
            self.fault("the cap is larger than the budget allows")

    def add(self, units: int, delta_units: int, grant: Any) -> None:
        """To the total, and to every cap that the grant falls under."""
        window = grant.get("window")
        self.charges += 1
        self.units, self.delta_units = self.units + units, self.delta_units + delta_units
        for cap in self.caps:
            if cap.matches(grant):
                total = cap.add(window, units, delta_units)
                if units >= 0 and delta_units >= 0:
                    self.check_cap(cap, total, window)

    def check_cap(self, cap: Cap, total: Any, window: str | None) -> None:
        """Note a fault if `total` is over `cap`, in the filter's units."""
        if self.allowed is None:
            raise Bad("counted before the filter was fixed")
        units, delta_units = self.allowed.of(cap.epsilon, cap.delta, cap.purse)
        if total[0] > units or total[1] > delta_units or (
                cap.each and window is None and any(total)):
            self.fault(f"over {cap} from here on")

    def charge(self, body: Any, grant: Any, before: Any, free: bool = False) -> Node | None:
        """Add a charge. With what was charged before, it must pay for the plan."""
        if not self.filter:
            raise Bad("charged before the filter was fixed")
        plan = None if body["plan"] is None else self.table.node(body["plan"])
        if self.policy is not None:
            try:
                self.policy.planned(plan)
            except NoPrice as what:
                self.note(f"max_alone_epsilon not compared: {what}")
        self.add(body["units"], body["delta_units"], grant)
        if self.units > self.cap or self.delta_units > self.delta_cap:
            self.fault("the total is over the cap from here on")
        if not self.efforts.add(plan, self.filter, body["delta_units"] != 0):
            raise Bad("not priced: all plans together take too long to price")
        if plan is not None and not free:
            paid = body["units"] + before[0], body["delta_units"] + before[1], float(grant["delta"])
            self.check_price(plan, *paid)
            for line in told(plan, *paid, (self.relation, self.filter, self.order,
                                           (self.epsilon, beside(self.delta, self.purse)))):
                self.note(line)
        return plan

    def check_price(self, plan: Node, units: int, delta_units: int, delta: float) -> None:
        """Note a fault if a plan was charged less than it costs; one without a price is a note."""
        try:
            found = due(plan, self.relation, self.filter, self.order, (self.epsilon, self.delta),
                        delta, delta_units != 0)
        except NoPrice as what:
            return self.note(f"price not recomputed: {what}")
        if units < found.units * (1 - Fraction(found.near)) or (
                delta_units < found.delta_units - found.delta_units // SLACK):
            self.fault("charged less than the plan costs")
        if found.about:
            self.note(f"price compared with a number that no right price is below: {found.about}")
        return None

    def on_protected(self, body: Any) -> None:
        """Costs nothing."""
        if self.policy is not None:
            self.policy.protected(body)

    def on_enrolled(self, body: Body) -> None:
        """The people of a table get places; who they are is in no entry."""
        self.people.enrol(len(self.hashes) - 1, body, self.unit)

    def on_refused(self, body: Any) -> None:
        """Count a refusal, not who begins to wait or gives up: nothing was charged."""
        self.refusals += self.line.refused(body, self.grants)

    def on_window(self, body: Any) -> None:
        """A new period begins: its name is fresh, and caps of each window start at zero."""
        if body["window"] in self.window_names:
            raise Bad("a window is opened once, and never again")
        self.window_names.add(body["window"])
        self.window_ends.append([cap.spent(self.windows[-1]) for cap in self.caps])
        self.windows.append(body["window"])
        if self.policy is not None:
            self.policy.allows("windows", body["window"])

    def in_window(self, body: Any) -> None:
        """Refuse a charge that names another window than the open one."""
        if body.get("window") != self.windows[-1]:
            raise Bad("charged to another window than the open one")

    def on_scope(self, body: Any) -> None:
        """A filter scope is paid, once, under every cap."""
        if body["scope"] in self.scopes:
            raise Bad("a scope is paid once")
        self.in_window(body)
        # A scope falls under every cap, whatever else its entry names.
        plan = self.charge(body, {"window": body.get("window"), "delta": body["delta"]}, (0, 0))
        self.scopes[body["scope"]] = {"plan": plan, "data": None, "body": body,
                                      "position": len(self.hashes) - 1}

    def on_granted(self, body: Any) -> None:
        """A plan is paid: within the caps, the policy, and the scope it draws on."""
        if body["grant"] in self.grants:
            raise Bad("granted twice")
        self.people.granted(body, self.unit)
        self.in_window(body)
        self.line.granted(body["grant"])
        grant = self.grants[body["grant"]] = {
            "name": body["grant"], "position": len(self.hashes) - 1, "body": body,
            "meter": None, "paid": (body["units"], body["delta_units"]), "released": 0,
            "status": "granted", "releases": 0, "touched": True, "settled": {}, "crashed": {},
            "corrections": []}
        if self.policy is not None:
            self.policy.granted(body)
        scope = body.get("scope")
        plan = self.charge(body, body, (0, 0), free=scope is not None)
        grant["meter"] = Meter(as_released(plan, self.table))
        if scope is not None:
            self.draws(scope, plan, body["data"])

    def draws(self, name: str, plan: Node | None, data: str) -> None:
        """Refuse a grant on a scope that nobody paid for, with another filter, or of two tables."""
        scope = self.scopes.get(name)
        paid = None if scope is None else scope["plan"]
        if paid is None or plan is None or {paid.name, plan.name} != {"IndividualFilter"} or (
                filter_word(paid) != filter_word(plan)):
            raise Bad("draws on a scope that nobody paid for")
        if scope is not None and self.unit == "row" and scope["data"] not in (None, data):
            raise Bad("one scope serves two tables")
        if scope is not None:
            scope["data"] = data

    def open_grant(self, body: Any) -> dict[str, Any]:
        """The grant that an entry is about.

        Raises:
            Bad: there is none, or it is over.
        """
        grant = self.grants.get(body["grant"])
        if grant is None or grant["status"] not in ("granted", "crashed"):
            raise Bad("no such grant, or it is over already")
        return grant

    def on_crashed(self, body: Any) -> None:
        """The charge stays; if its process is alive after all, it may still settle."""
        grant = self.open_grant(body)
        grant["status"], grant["crashed"] = "crashed", body

    def on_released(self, body: Any) -> None:
        """Releases, in order, each of which the grant's meter must admit."""
        grant = self.open_grant(body)
        if body["first"] != grant["releases"]:
            self.fault("releases are missing or repeated")
        grant["releases"] += len(body["items"])
        if self.policy is not None:
            self.policy.released(body)
        nodes = [([Step(step) for step in self.listed(node)], self.table.node(node["leaf"]))
                 for node in body["nodes"]]
        if grant["meter"] is not None:
            for place, _, _ in body["items"]:
                grant["meter"].release(*nodes[place])

    @staticmethod
    def listed(node: Any) -> list[Any]:
        """The steps that a released node says it happened under, as a list."""
        if type(node["under"]) is not list:
            raise Bad("contexts that are no list")
        return list(node["under"])

    def over(self, body: Any, status: str) -> dict[str, Any]:
        """Close the grant of the entry with `status`; its meter is not needed any more."""
        grant = self.open_grant(body)
        grant["status"], grant["settled"] = status, body
        if grant["body"].get("scope") is None:
            self.closed.append(grant["name"])
            self.closed_names.add(grant["name"])
        if body["releases"] != grant["releases"]:
            self.fault("settled with another number of releases")
        grant["meter"] = None  # no more of it is needed
        return grant

    def on_settled(self, body: Any) -> None:
        """A grant ends with releases; its per-record vector is wanted from now on."""
        grant = self.over(body, "settled")
        if body.get("answer") is not None and (
                body["releases"] != 1 or body.get("failed") or self.mode != "private"):
            raise Bad("an answer that no single release gave")
        wanted = self.people if self.unit == "person" else self.vectors
        wanted.settled(len(self.hashes) - 1, body, grant["body"].get("scope"))

    def on_aborted(self, body: Any) -> None:
        """A grant is handed back: only what touched nothing may be."""
        grant = self.over(body, "aborted")
        grant["touched"] = body["touched"]
        if body.get("answer") is not None:
            raise Bad("an answer of a grant that was handed back")
        if body["touched"] or grant["releases"]:
            raise Bad("handed back although it touched data")
        self.add(-grant["body"]["units"], -grant["body"]["delta_units"], grant["body"])

    def on_corrected(self, body: Any) -> None:
        """A charge is raised; what was handed back or drawn from a scope cannot be."""
        grant = self.grants.get(body["grant"])
        if grant is None or grant["body"].get("scope") is not None or (
                grant["status"] == "aborted"):
            raise Bad("corrects what was never charged")
        grant["corrections"].append(body)
        if body["plan"] is None:
            self.fault("a correction: nothing is promised any more")
        paid = grant["paid"]
        grant["paid"] = paid[0] + body["units"], paid[1] + body["delta_units"]
        self.charge(body, grant["body"], paid)


KINDS = [name[3:] for name in dir(Book) if name.startswith("on_")]
assert set(KINDS) == set(SHAPES)


# -----------------------------------------------------------------------------------------------
# Reports
# -----------------------------------------------------------------------------------------------


LABELS = "replace_label"
PERSON = "one person, with all rows in all tables"
MOST_RECEIPT = 1 << 20
NEVER = (
    "not checked: whether the noise was drawn, and drawn as it says",
    "not checked: whether times, claimed epsilons, holders and names are true",
    "not checked: whether members of a OneOf that begin alike may have a common price",
)


def many(count: int, one: str, more: str) -> str:
    """A number with its noun, singular or plural."""
    return f"{count} {one if count == 1 else more}"


def compared(receipt: Any) -> str:
    """What the history was compared with, and what therefore cannot have been seen."""
    if receipt is None:
        return ("compared with no receipt: a tail that was cut off, an older copy put back, or a "
                "history rewritten from its beginning cannot be seen")
    date, entries = receipt.get("time"), receipt["entries"]
    which = f"the receipt of {inert(date)}" if date else "a receipt without a date"
    seen = many(entries, "entry", "entries")
    return (f"compared with {which}, {seen}, head "
            f"{inert(receipt['head'])[:12]}: what was cut off or rewritten after entry {entries} "
            "cannot be seen")


def read_receipt(path: str) -> dict[str, Any]:
    """A receipt from a file, or from what `privledger run --format json` prints."""
    with open_file(path) as file:
        raw = file.read(MOST_RECEIPT + 1)
    if len(raw) > MOST_RECEIPT:
        raise Bad("too large for a receipt")
    value = parse(raw, "utf-8")
    value = value.get("receipt", value)  # or what `privledger run --format json` prints
    whole(value["entries"], 1)
    if type(value["uuid"]) is not str or type(value["head"]) is not str:
        raise Bad("not a receipt")
    return dict(value)


def check_receipt(book: Book, receipt: Any) -> None:
    """The receipt's last entry is still where it was."""
    receipt = receipt.get("receipt", receipt)
    entries, seen = len(book.hashes), whole(receipt["entries"], 1)
    if receipt["uuid"] != book.uuid:
        book.fault("the receipt is of another ledger")
    elif entries < seen:
        book.fault(f"{entries} entries, the receipt saw {seen}: a tail was cut, or an old copy")
    elif book.hashes[seen - 1] != receipt["head"]:
        book.fault(f"entry {seen - 1} is not the one the receipt saw: the history was rewritten")


def read_history(path: str) -> Book:
    """The whole history in a file or an export."""
    book = Book()
    if is_database(path):
        read_database(path, book)
        return book
    try:
        for line in lines_of(path):
            book.take(line)
            if book.is_enough():
                return book
    except Bad as error:
        book.fault(str(error))
    if not book.hashes and not book.faults:
        book.fault("the file holds no entry")
    book.finish()
    return book


def read_database(path: str, book: Book) -> None:
    """Read a ledger's own file into `book`, after looking for faults of the file itself."""
    try:
        file = Database(path)
    except sqlite3.Error as error:
        return book.fault(f"the file cannot be opened: {error}")
    try:
        wrong = file.faults()
        for text in wrong:
            book.fault(text)
        if wrong:
            return None
        kept = file.checkpoint()
        book.checkpoint = None if kept is None else Checkpoint(*kept)
        for row in file.rows():
            book.take_row(row)
            if book.is_enough():
                return None
        if not book.hashes:
            book.fault("the history is empty: not a ledger")
        book.finish(file.vector)
    except (sqlite3.Error, Bad, *MALFORMED) as error:
        book.fault(f"the file is damaged: {error}")
    finally:
        file.close()
    return None


def spent(book: Book) -> str:
    """Epsilon that is spent, in twelve digits, rounded up; words where it has no formula here."""
    try:
        value = epsilon_of(book.filter or "basic", Fraction(book.units, UNIT), book.order,
                           beside(book.delta, book.purse))
    except (NoPrice, Bad, *MALFORMED):
        return "not recomputed"
    # Never below what it is.
    return str(Context(prec=12, rounding=ROUND_CEILING).create_decimal(value).normalize())


def report(book: Book, receipt: Any = None) -> None:
    """Print the verdict, the first faults, the promise and the totals."""
    print(compared(receipt))
    print(f"NOT TRUSTED: {many(len(book.faults), 'finding', 'findings')}" if book.faults
          else f"clean: {many(len(book.hashes), 'entry', 'entries')} re-read")
    for position, text in book.faults[:50]:
        print(f"  entry {position}: {inert(text)}")
    print(f"ledger   {inert(book.uuid)}, {inert(book.relation)}, filter {inert(book.filter)}"
          f"{'' if book.mode == 'private' else ', NOT PRIVATE (simulation)'}")
    if book.relation == LABELS:
        print("promise  LABELS ONLY: features are public; nothing is promised about whole records")
    if book.unit == "person":
        print(f"about    {PERSON}")
    print(f"budget   epsilon {book.epsilon:.9g} at delta {book.delta:.9g}")
    print(f"spent    epsilon {spent(book)}, reservations included")
    print(f"entries  {len(book.hashes)}, {many(len(book.grants), 'grant', 'grants')}")
    print(f"head     {inert(book.hashes[-1] if book.hashes else '')}")
    for text, position in book.notes.items():
        print(f"{inert(text)} (entry {position})")
    for text in NEVER:
        print(text)


def main() -> int:
    """Read the arguments and the history; 0 if nothing is wrong with it."""
    parser = argparse.ArgumentParser(description="Check the history of a privacy-budget ledger.")
    parser.add_argument("history", help="a ledger's file, or what `privledger export` wrote")
    parser.add_argument("--receipt", help="a receipt that was kept elsewhere")
    options = parser.parse_args()
    receipt = None
    try:
        if options.receipt:
            receipt = read_receipt(options.receipt)
        book = read_history(options.history)
        if receipt is not None:
            check_receipt(book, receipt)
    except (Bad, *MALFORMED):
        parser.error("the receipt is none")
    except OSError as error:
        parser.error(f"a file cannot be read: {error.strerror}")
    report(book, receipt)
    return 3 if book.faults else 0


if __name__ == "__main__":
    sys.exit(main())
