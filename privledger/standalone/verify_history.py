#!/usr/bin/env python3
"""Check an exported history of a privacy-budget ledger with Python's standard library alone.

    python -I verify_history.py history.jsonl [--receipt receipt.json]

Exit code: 0 OK, 3 NOT OK (every fault is listed), 2 usage. Needs Python 3.8 or later.

`privledger export LEDGER -o history.jsonl` writes the history. This file shares no code with
privledger, so a mistake there is not repeated here. The format: docs/ledger-format.md.

Checked: every hash of the chain; the order of entries; totals against the caps, in whole
numbers; the caps; prices of Gaussian plans (any filter) and of pure plans (basic filter);
direct releases against the plan of their grant. What is not is listed as "not recomputed" or
"not compared". No file shows that the noise was drawn. A receipt shows that it is not an old one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from fractions import Fraction
from typing import Any, Callable  # noqa: UP035

FORMAT = 3  # the latest version of the format that this file knows
FIELDS = {"position", "kind", "body", "previous", "hash"}
UNIT, DELTA_UNIT, LABELS = 2**192, 2**512, "replace_label"
PRICE_SLACK = 1 - Fraction(1, 10**9)  # another machine may round the last digits otherwise
CAP_SLACK = 1 + 1e-6  # caps are compared after a numeric inversion
MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError)


class Bad(Exception):
    """A fault, in words."""


class NoPrice(Exception):
    """Names what has no price in this file."""


# --- 1. Reading: strict JSON, whole numbers stay whole -----------------------------------------

def no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise Bad("the same key twice in one object")
    return dict(pairs)


def number(text: str) -> int | float:
    if len(text) > 1000:
        raise Bad("a number of more than 1000 digits")
    if text.lstrip("-").isdigit():
        return int(text)
    if not math.isfinite(float(text)):
        raise Bad("a number that is not finite")
    return float(text)


def parse(raw: bytes, encoding: str) -> Any:
    try:
        return json.loads(raw.decode(encoding), object_pairs_hook=no_repeats, parse_int=number,
                          parse_float=number, parse_constant=number)
    except (ValueError, RecursionError):
        raise Bad("not JSON") from None


def whole(value: Any, least: int = 0) -> int:
    if type(value) is not int or value < least:
        raise Bad(f"not a whole number of at least {least}")
    return value


def real(value: Any, zero: bool = False) -> Fraction:
    if type(value) not in (int, float) or not (value > 0 or (zero and value == 0)):
        raise Bad("not a number above zero")
    return Fraction(float(value))


# --- 2. The chain: one text for every value, and its hash --------------------------------------

def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def chain_hash(position: int, kind: str, body: Any, previous: str) -> str:
    """Of the hash before, and the one text of the rest: keys sorted, no spaces, ASCII only."""
    text = previous + canonical([position, kind, body])
    return hashlib.sha256(text.encode("ascii")).hexdigest()


# --- 3. Prices ---------------------------------------------------------------------------------

def added_up(node: Any, relation: str, leaf: Callable[[Any, str], Fraction]) -> Fraction:
    """A plan's cost in a currency that adds up. Parts cost the dearest of them, or the two
    dearest where a replaced record may leave one for another."""
    name = node["node"]
    if name in ("PostProcess", "Public"):
        return Fraction(0)
    if name == "Sequential":
        return sum((added_up(member, relation, leaf) for member in node["nodes"]), Fraction(0))
    if name == "Repeat":
        return whole(node["count"], 1) * added_up(node["inner"], relation, leaf)
    if name == "OneOf":
        return max(added_up(member, relation, leaf) for member in node["nodes"])
    if name == "LabelOnly" and relation == LABELS:  # one way to replace a record
        return added_up(node["inner"], "replace_one", leaf)
    if name == "Parallel":
        costs = sorted(added_up(member, relation, leaf) for member in node["nodes"])
        by_index = node["certificate"] == "index"
        if by_index if relation == "add_remove" else relation == LABELS and not by_index:
            raise Bad(f"parts that are not disjoint under {relation}")
        return sum(costs[-1:] if relation == "add_remove" or by_index else costs[-2:], Fraction(0))
    if name == "LabelOnly" or relation == LABELS:
        raise Bad("LabelOnly is for all of a replace_label history, and for no other")
    return leaf(node, relation)


def gaussian(node: Any, relation: str) -> Fraction:
    """Squared Gaussian-DP parameter mu^2."""
    if node["node"] == "Gaussian":
        if math.fsum(real(share) for share in node["shares"]) > 1:
            raise Bad("shares of a Gaussian above one")
        return 1 / real(node["noise_multiplier"]) ** 2
    if node["node"] == "IndividualFilter" and node["kind"] == "gdp" and relation == "add_remove":
        return real(node["cap"])
    raise NoPrice(node["node"])


def pure(node: Any, relation: str) -> Fraction:
    """Epsilon of a mechanism that is pure DP."""
    name = node["node"]
    if name == "Laplace":
        return real(node["l1_sensitivity"]) / real(node["scale"])
    if name == "DiscreteLaplace":
        return real(node["parameter"]) * whole(node["sensitivity"], 1)
    if name in ("PermuteAndFlip", "ReportNoisyMax", "TopK") or (
            name == "Asserted" and node["delta"] == 0):
        return real(node["epsilon"])
    if name == "RandomizedResponse" and relation == "replace_one":
        return Fraction(math.log1p(node["num_buckets"] * (1 / real(node["noise_parameter"]) - 1)))
    raise NoPrice(name)


def delta_of_mu(mu: float, epsilon: float) -> float:
    """Balle, Wang 2018 (arXiv:1805.06530), Theorem 8; Phi(-x) = erfc(x / sqrt 2) / 2."""
    if epsilon > 600:
        raise NoPrice("a Gaussian of epsilon above 600")
    first = math.erfc((epsilon / mu - mu / 2) / math.sqrt(2)) / 2
    return first - math.exp(epsilon) * math.erfc((epsilon / mu + mu / 2) / math.sqrt(2)) / 2


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The smallest epsilon with delta_of_mu(mu, epsilon) <= delta, by bisection."""
    if not delta > 0:
        raise Bad("Gaussian noise has no price at delta 0")
    if delta < 1e-50:
        raise NoPrice("a Gaussian at delta below 1e-50")
    low, high = 0.0, 1.0
    if mu == 0 or delta_of_mu(mu, low) <= delta:
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


def epsilon_of(kind: str, total: Fraction, order: float, delta: float) -> float:
    """Epsilon, at `delta`, that a filter's total certifies."""
    if kind == "basic" or not total:
        return float(total)
    if kind == "gdp":
        return epsilon_of_mu(math.sqrt(total), delta)
    if kind == "rdp":
        return epsilon_of_renyi(order, float(total), delta)
    rho = float(total)  # zcdp: order * rho at every order
    orders = (1 + math.sqrt(-math.log(delta) / rho) * 1.001**k for k in range(-3000, 3001))
    return min(epsilon_of_renyi(order, order * rho, delta) for order in orders)


# --- 4. The history, entry by entry ------------------------------------------------------------

class Book:
    """What the entries so far add up to. `on_KIND` takes the body of one entry."""

    def __init__(self) -> None:
        self.faults: list[tuple[int, str]] = []
        self.notes: dict[str, int] = {}  # what was not recomputed -> the first such entry
        self.hashes: list[str] = []
        self.uuid = self.mode = self.relation = self.asked = self.filter = ""
        self.epsilon = self.delta = self.order = Fraction(0)
        self.cap = self.delta_cap = self.units = self.delta_units = 0
        self.grants: dict[str, dict[str, Any]] = {}
        self.scopes: dict[str, dict[str, Any]] = {}
        self.caps: list[Any] = []  # beside the budget: for one table, for labels, for windows
        self.windows: list[Any] = [None]  # the open one is the last

    def fault(self, text: str) -> None:
        self.faults.append((len(self.hashes) - 1, text))

    def note(self, text: str) -> None:
        self.notes.setdefault(text, len(self.hashes) - 1)

    def take(self, raw: bytes) -> None:
        """One line of the file: an entry, or a per-record vector after the last entry."""
        self.hashes.append("")
        try:
            line = parse(raw, "ascii")
            if set(line) == {"vector", "data"}:
                del self.hashes[-1]
                return self.note("not compared: per-record vectors")
            if set(line) != FIELDS:
                raise Bad("not an entry")
            self.link(line)
            if (line["kind"] == "created") != (len(self.hashes) == 1):
                raise Bad("the creation is the first entry, and no other")
            if line["kind"] not in KINDS:
                raise Bad("an entry of an unknown kind")
            getattr(self, "on_" + line["kind"])(line["body"])
        except Bad as error:
            self.fault(str(error))
        except MALFORMED:
            self.fault("malformed")

    def link(self, line: dict[str, Any]) -> None:
        before = self.hashes[-2] if len(self.hashes) > 1 else "0" * 64
        self.hashes[-1] = line["hash"]
        if whole(line["position"]) != len(self.hashes) - 1 or line["previous"] != before:
            self.fault("does not follow the entry before")
        if chain_hash(line["position"], line["kind"], line["body"], before) != line["hash"]:
            self.fault("the text does not match its hash")

    def on_created(self, body: Any) -> None:
        self.uuid, self.mode, self.relation = body["uuid"], body["mode"], body["relation"]
        self.asked, budget = body["filter"], body["budget"]
        self.epsilon, self.delta = real(budget["epsilon"]), real(budget["delta"], zero=True)
        self.caps = [{**cap, "totals": {}} for cap in body.get("caps", [])]
        if whole(body["format"], 1) > FORMAT:
            raise Bad(f"a later format than {FORMAT}: take a later verifier")
        if self.relation not in ("add_remove", "replace_one", LABELS) or self.delta >= 1:
            raise Bad("an unknown relation, or a delta of 1 or more")

    def on_filter(self, body: Any) -> None:
        if self.filter or self.grants or self.scopes:
            raise Bad("the filter is fixed once, before anything is granted")
        if body["kind"] not in ("gdp", "zcdp", "rdp", "basic"):
            raise Bad("an unknown filter")
        self.filter, self.order = body["kind"], real(body["order"], zero=True)
        if self.asked not in ("auto", self.filter):
            self.fault("another filter than the one that was asked for")
        self.cap, self.delta_cap = whole(body["cap_units"]), whole(body["delta_cap_units"])
        allowed = self.delta * DELTA_UNIT if self.filter == "basic" else 0
        if self.delta_cap > allowed or self.over(self.cap, self.epsilon, self.delta):
            self.fault("the cap is larger than the budget allows")

    def add(self, units: int, delta_units: int, grant: Any) -> None:
        """To the total and to every cap that the grant falls under. A scope falls under all."""
        window = grant.get("window")
        self.units, self.delta_units = self.units + units, self.delta_units + delta_units
        if self.units > self.cap or self.delta_units > self.delta_cap:
            self.fault("the total is over the cap from here on")
        for cap in self.caps:
            if cap.get("window") not in (None, window) or ("grant" in grant and (
                    cap["data"] not in (None, grant["data"])
                    or not cap["labels"].items() <= grant["labels"].items())):
                continue
            total = cap["totals"].setdefault(cap.get("per_window") and window, [0, 0])
            total[:] = total[0] + units, total[1] + delta_units
            if (self.over(total[0], cap["epsilon"], cap["delta"]) or total[1] > Fraction(
                    cap["delta"]) * DELTA_UNIT or (cap.get("per_window") and not window)):
                self.fault(f"over the cap for {cap['data']} {cap['labels']} from here on")

    def over(self, units: int, epsilon: Any, delta: Any) -> bool:
        """Whether a total, read by the ledger's filter, is more than (epsilon, delta) allows."""
        try:
            certified = epsilon_of(self.filter, Fraction(units, UNIT), float(self.order),
                                   float(delta))
        except NoPrice as what:
            self.note(f"cap not recomputed: {what}")
            return False
        return certified > float(epsilon) * (1.0 if self.filter == "basic" else CAP_SLACK)

    def charge(self, body: Any, grant: Any, before: Any) -> None:
        """Add a charge to the totals. With what was charged before, it must pay for the plan."""
        if not self.filter:
            self.fault("charged before the filter was fixed")
        paid = [whole(body["units"]) + before[0], whole(body["delta_units"]) + before[1]]
        plan, delta = body["plan"] or {"node": "Public"}, grant["delta"]
        if body is grant and body.get("window") != self.windows[-1]:
            raise Bad("charged to another window than the open one")
        self.add(body["units"], body["delta_units"], grant)
        try:
            due = self.price(plan, paid[1], real(delta, zero=True) or self.delta)
            if paid[0] < due[0] * PRICE_SLACK or paid[1] < due[1] * PRICE_SLACK:
                self.fault("charged less than the plan costs")
        except NoPrice as what:
            self.note(f"price not recomputed: {what}")

    def price(self, plan: Any, paid_delta: int, share: Fraction) -> tuple[Fraction, Fraction]:
        """Units and delta units that a plan costs at least; `share` is its part of delta."""
        if self.filter != "basic":
            times = {"gdp": Fraction(1), "zcdp": Fraction(1, 2), "rdp": self.order / 2}
            return added_up(plan, self.relation, gaussian) * times[self.filter] * UNIT, Fraction(0)
        try:
            total = added_up(plan, self.relation, pure)
        except NoPrice:
            mu = math.sqrt(added_up(plan, self.relation, gaussian))
            return Fraction(epsilon_of_mu(mu, float(share))) * UNIT, share * DELTA_UNIT
        if paid_delta:
            raise NoPrice("a pure plan that was charged a delta")
        return total * UNIT, Fraction(0)

    def on_protected(self, body: Any) -> None:
        """Costs nothing."""

    on_refused = on_protected

    def on_window(self, body: Any) -> None:
        self.windows.append(body["window"])
        if body["window"] in self.windows[:-1]:
            raise Bad("a window is opened once, and never again")

    def on_scope(self, body: Any) -> None:
        if body["scope"] in self.scopes:
            self.fault("a scope is paid once")
        self.scopes[body["scope"]] = {"plan": body["plan"], "data": None}
        self.charge(body, body, (0, 0))

    def on_granted(self, body: Any) -> None:
        if body["grant"] in self.grants:
            self.fault("granted twice")
        paid = [whole(body["units"]), whole(body["delta_units"])]
        left: dict[str, int] = {}
        direct(body["plan"], 1, left)
        self.grants[body["grant"]] = {"body": body, "left": left, "paid": paid, "releases": 0,
                                      "open": True, "handed_back": False}
        if body["scope"] is None:
            return self.charge(body, body, (0, 0))
        scope = self.scopes.get(body["scope"])
        plan, keys = body["plan"], ("node", "kind", "cap", "order")
        if scope is None or paid != [0, 0] or plan["node"] != "IndividualFilter" or any(
                scope["plan"][key] != plan[key] for key in keys):
            raise Bad("draws on a scope that nobody paid for, or pays twice")
        if scope["data"] not in (None, body["data"]):
            self.fault("one scope serves two tables")
        scope["data"] = body["data"]

    def open_grant(self, body: Any) -> dict[str, Any]:
        grant = self.grants.get(body["grant"])
        if grant is None or not grant["open"]:
            raise Bad("no such grant, or it is over already")
        return grant

    on_crashed = open_grant  # the charge stays; if its process is alive, it may still settle

    def on_released(self, body: Any) -> None:
        grant = self.open_grant(body)
        if whole(body["first"]) != grant["releases"]:
            self.fault("releases are missing or repeated")
        leaves = [None if node["under"] else canonical(node["leaf"]) for node in body["nodes"]]
        for place, _, _ in body["items"]:
            leaf = leaves[whole(place)]
            if leaf is None:
                self.note("not compared with the plan: releases under a sample, part or filter")
            elif grant["left"].get(leaf, 0) < 1:
                raise Bad("a release that the plan of its grant does not hold")
            else:
                grant["left"][leaf] -= 1
        grant["releases"] += len(body["items"])

    def on_settled(self, body: Any) -> None:
        grant = self.open_grant(body)
        grant["open"] = False
        if whole(body["releases"]) != grant["releases"]:
            self.fault("settled with another number of releases")

    def on_aborted(self, body: Any) -> None:
        grant = self.open_grant(body)
        grant["open"] = False
        if body["touched"] is not False or whole(body["releases"]) or grant["releases"]:
            raise Bad("handed back although it touched data")
        grant["handed_back"] = True
        self.add(-grant["body"]["units"], -grant["body"]["delta_units"], grant["body"])

    def on_corrected(self, body: Any) -> None:
        grant = self.grants.get(body["grant"])
        if grant is None or grant["body"]["scope"] or grant["handed_back"]:
            raise Bad("corrects what was never charged")
        if body["plan"] is None:
            self.fault("a correction: nothing is promised any more")
        before, more = grant["paid"], (body["units"], body["delta_units"])
        self.charge(body, grant["body"], before)
        grant["paid"] = [before[0] + more[0], before[1] + more[1]]


KINDS = [name[3:] for name in dir(Book) if name.startswith("on_")]


def direct(node: Any, times: int, left: dict[str, int]) -> None:
    """Count what a plan may release outside of any sample, part or filter."""
    if node["node"] == "Sequential":
        for member in node["nodes"]:
            direct(member, times, left)
    elif node["node"] in ("Repeat", "Group", "AsReplaceOne", "LabelOnly"):
        direct(node["inner"], times * whole(node.get("count", 1), 1), left)
    else:
        left[canonical(node)] = left.get(canonical(node), 0) + times


# --- 5. The receipt, and the report ------------------------------------------------------------


def check_receipt(book: Book, receipt: Any) -> None:
    """The receipt's last entry is still where it was."""
    receipt = receipt.get("receipt", receipt)  # or what `privledger run --format json` prints
    entries, seen = len(book.hashes), whole(receipt["entries"], 1)
    if receipt["uuid"] != book.uuid:
        book.fault("the receipt is of another ledger")
    elif entries < seen:
        book.fault(f"{entries} entries, the receipt saw {seen}: a tail was cut, or an old copy")
    elif book.hashes[seen - 1] != receipt["head"]:
        book.fault(f"entry {seen - 1} is not the one the receipt saw: the history was rewritten")


def read_history(path: str) -> Book:
    book, line = Book(), b""
    with open(path, "rb") as file:
        for line in file:
            book.take(line)
    if not line.endswith(b"\n"):
        book.fault("the file does not end with a whole line" if line else "the file is empty")
    return book


def inert(value: Any) -> str:
    """Text that can do nothing to a terminal: printable ASCII only."""
    return ascii(str(value))[1:-1][:100]


def report(book: Book) -> None:
    print(f"NOT OK: {len(book.faults)} faults" if book.faults else "OK")
    for position, text in book.faults[:50]:
        print(f"  entry {position}: {inert(text)}")
    try:
        units, order, delta = Fraction(book.units, UNIT), float(book.order), float(book.delta)
        spent = f"{epsilon_of(book.filter or 'basic', units, order, delta):.9g}"
    except (NoPrice, Bad, *MALFORMED):
        spent = "not recomputed"
    print(f"ledger   {inert(book.uuid)}, {inert(book.relation)}, filter {inert(book.filter)}"
          f"{'' if book.mode == 'private' else ', NOT PRIVATE (simulation)'}")
    if book.relation == LABELS:
        print("promise  LABELS ONLY: features are public; nothing is promised about whole records")
    print(f"budget   epsilon {float(book.epsilon):.9g} at delta {float(book.delta):.9g}")
    print(f"spent    epsilon {spent}, reservations included")
    print(f"entries  {len(book.hashes)}, {len(book.grants)} grants")
    print(f"head     {inert(book.hashes[-1] if book.hashes else '')}")
    for text, position in book.notes.items():
        print(f"{inert(text)} (entry {position})")


def main() -> int:
    parser = argparse.ArgumentParser(description="Check an exported privacy-budget history.")
    parser.add_argument("history", help="what `privledger export` wrote")
    parser.add_argument("--receipt", help="a receipt that was kept elsewhere")
    options = parser.parse_args()
    try:
        book = read_history(options.history)
        if options.receipt:
            with open(options.receipt, "rb") as file:
                check_receipt(book, parse(file.read(), "utf-8"))
    except (Bad, *MALFORMED):
        parser.error("the receipt is none")
    except OSError as error:
        parser.error(f"a file cannot be read: {error.strerror}")
    report(book)
    return 3 if book.faults else 0


if __name__ == "__main__":
    sys.exit(main())
