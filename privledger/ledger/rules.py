"""History checks: an audit trusts no total and collects every fault at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.accounting import check_relation
from privledger.errors import PrivledgerError
from privledger.findings import Finding
from privledger.graph import IndividualFilter, Meter, cost_of, from_json
from privledger.graph.meter import filter_caps
from privledger.ledger.entries import GENESIS, Entry, chain_hash
from privledger.ledger.filters import fixed_filter
from privledger.ledger.individual import RECORD_UNITS
from privledger.ledger.log import read_node
from privledger.ledger.origins import Origins, asserted_kinds, origin_findings, recorded_kinds
from privledger.ledger.policy import Policy
from privledger.ledger.state import State
from privledger.ledger.store import Store
from privledger.ledger.vectors import unpack

Findings = Iterator[Finding]
Rule = Callable[[Sequence[Entry]], Iterable[Finding]]


def chain_is_unbroken(entries: Sequence[Entry]) -> Findings:
    """Every hash is recomputed; positions have no gap."""
    previous = GENESIS
    for expected, entry in enumerate(entries):
        if entry.position != expected or entry.previous != previous:
            yield Finding("chain-is-unbroken", entry.position, "does not follow the one before")
        if chain_hash(entry.position, entry.kind, entry.body, entry.previous) != entry.hash:
            yield Finding("chain-is-unbroken", entry.position, "the text does not match its hash")
        previous = entry.hash


def states_follow(entries: Sequence[Entry]) -> Findings:
    """Created first, granted once, settled once: the state machine accepts every entry."""
    state = State()
    for entry in entries:
        try:
            state.apply(entry)
        except PrivledgerError as error:
            yield Finding("states-follow", entry.position, str(error))
            return


def prices_are_right(entries: Sequence[Entry]) -> Findings:
    """The filter's caps and every charge are computed again from the plans."""
    state = State()
    for entry in entries:
        try:
            state.apply(entry)
            if entry.kind == "filter":
                yield from _check_filter(state, entry)
            elif entry.kind in ("granted", "scope") and state.rule is not None:
                plan = from_json(entry.body["plan"])
                expected = (0, 0)
                if entry.kind == "scope" or not entry.body.get("scope"):
                    relation = check_relation(state.relation)
                    cost = cost_of(plan, relation, state.rule.orders)
                    expected = state.rule.price(cost, float(entry.body["delta"]))
                yield from _compare(entry, expected)
            elif entry.kind == "corrected":
                yield from _check_correction(state, entry)
            if entry.kind in ("granted", "scope", "corrected") and state.rule is not None:
                over = (state.units > state.rule.cap_units
                        or state.delta_units > state.rule.delta_cap_units)
                if over:
                    yield Finding("never-over-the-cap", entry.position,
                                  "the total passes the cap here")
                yield from _check_caps(state, entry)
        except (PrivledgerError, KeyError, TypeError, ValueError) as error:
            yield Finding("prices-are-right", entry.position, f"cannot be priced: {error}")
            return


def _check_filter(state: State, entry: Entry) -> Findings:
    if state.budget is None or state.rule is None:
        return
    rule = state.rule
    fresh = fixed_filter(rule.kind, state.budget, rule.order if rule.kind == "rdp" else None)
    if rule.cap_units > fresh.cap_units or rule.delta_cap_units > fresh.delta_cap_units:
        yield Finding("prices-are-right", entry.position, "the cap is larger than the budget's")
    if state.filter_asked not in ("auto", rule.kind):
        yield Finding("prices-are-right", entry.position, "another filter was asked for")


def _check_caps(state: State, entry: Entry) -> Findings:
    body = (state.grants[entry.body["grant"]].body if entry.kind == "corrected"
            else entry.body)
    earlier = state.totals_of(body.get("window"))
    for place, cap in enumerate(state.caps):
        assert state.rule is not None
        own = cap.rule(state.rule)
        units, delta_units = (earlier if cap.per_window else state.cap_spent)[place]
        closed = cap.per_window and body.get("window") is None and (units or delta_units)
        if units > own.cap_units or delta_units > own.delta_cap_units or closed:
            yield Finding("never-over-the-cap", entry.position, f"{cap.title} is passed here")


def _check_correction(state: State, entry: Entry) -> Findings:
    """The corrected plan's price is charged in full, and no correction gives anything back."""
    grant, rule = state.grants[entry.body["grant"]], state.rule
    if rule is None:
        return
    if grant.plan is None:
        yield Finding("never-over-the-cap", entry.position,
                      f"nothing is promised any more for {entry.body['grant']}")
        return
    cost = cost_of(from_json(grant.plan), check_relation(state.relation), rule.orders)
    expected = rule.price(cost, float(grant.body["delta"]))
    if any(paid < due - due // 10**9 for paid, due in zip(grant.charged, expected, strict=True)):
        yield Finding("prices-are-right", entry.position,
                      "charged less than the corrected plan costs")


def _compare(entry: Entry, expected: tuple[int, int]) -> Findings:
    charged = int(entry.body["units"]), int(entry.body["delta_units"])
    # One part in 10^9 of slack: another machine's libm may round a little differently.
    slack = tuple(value // 10**9 for value in expected)
    if charged[0] < expected[0] - slack[0] or charged[1] < expected[1] - slack[1]:
        yield Finding("prices-are-right", entry.position, "charged less than the plan costs")


def releases_are_granted(entries: Sequence[Entry]) -> Findings:
    """Every release is taken off the plan its grant reserved, by the rule that admitted it."""
    meters: dict[str, Meter] = {}
    counted: dict[str, int] = {}
    for entry in entries:
        try:
            if entry.kind == "granted":
                meters[entry.body["grant"]] = Meter(from_json(entry.body["plan"]))
            elif entry.kind == "released":
                _take_off(meters[entry.body["grant"]], entry)
                counted[entry.body["grant"]] = (counted.get(entry.body["grant"], 0)
                                                + len(entry.body["items"]))
            elif entry.kind == "settled" and int(entry.body["releases"]) != counted.get(
                    entry.body["grant"], 0):
                yield Finding("releases-are-granted", entry.position,
                              "settles another number of releases than were written down")
        except KeyError:
            yield Finding("releases-are-granted", entry.position, "no grant before it")
        except PrivledgerError as error:
            yield Finding("releases-are-granted", entry.position, str(error))


def _take_off(meter: Meter, entry: Entry) -> None:
    nodes = [read_node(body) for body in entry.body["nodes"]]
    for item in entry.body["items"]:
        meter.admit(*nodes[item[0]])


def vectors_match(entries: Sequence[Entry], store: Store) -> Findings:
    """Every per-record vector is the one its settlement names; no record is past its cap."""
    scopes = {entry.body["grant"]: entry.body.get("scope") or entry.body["grant"]
              for entry in entries if entry.kind == "granted"}
    totals: dict[str, NDArray[np.int64]] = {}
    for entry in entries:
        vector = entry.body.get("vector") if entry.kind == "settled" else None
        if not vector:
            continue
        data = store.vector(vector["name"])
        if data is None or sha256(data).hexdigest() != vector["sha256"]:
            yield Finding("vectors-match", entry.position,
                          "the per-record vector is missing or was edited")
            continue
        taken, _ = unpack(data)
        scope = scopes.get(entry.body["grant"], "")
        total = totals.get(scope, np.zeros(0, np.int64))
        longer = np.zeros(max(len(total), len(taken)), np.int64)
        longer[: len(total)] += total
        longer[: len(taken)] += taken
        totals[scope] = longer
        if (taken < 0).any() or (longer > RECORD_UNITS).any():
            yield Finding("vectors-match", entry.position, "a record is past its own cap")


def scopes_are_paid(entries: Sequence[Entry]) -> Findings:
    """A grant that draws on a scope names one that was paid for, with its caps and its data."""
    scopes: dict[str, IndividualFilter] = {}
    bound: dict[str, str] = {}
    for entry in entries:
        if entry.kind == "scope":
            node = from_json(entry.body["plan"])
            if isinstance(node, IndividualFilter):
                scopes[entry.body["scope"]] = node
        name = entry.body.get("scope") if entry.kind == "granted" else None
        if not name:
            continue
        plan, paid = from_json(entry.body["plan"]), scopes.get(name)
        if paid is None or not isinstance(plan, IndividualFilter) or (
                filter_caps(plan) != filter_caps(paid)):
            yield Finding("scopes-are-paid", entry.position, "draws on a scope nobody paid for")
        if bound.setdefault(name, entry.body["data"]) != entry.body["data"]:
            yield Finding("scopes-are-paid", entry.position, "a scope serves two data sets")


def policy_is_kept(entries: Sequence[Entry]) -> Findings:
    """What the ledger's own policy forbids was never granted or released."""
    created = entries[0].body if entries else {}
    if created.get("policy") is None:
        return
    policy = Policy.from_dict({"policy": created["policy"]})
    rows: dict[str, int | None] = {}
    for entry in entries:
        if entry.kind == "protected":
            rows[entry.body["data"]] = entry.body.get("rows")
        for found in origin_findings(_entry_origins(entry, created, rows), policy):
            yield Finding("policy-is-kept", entry.position, f"{found.rule}: {found.message}")


def _entry_origins(entry: Entry, created: dict[str, Any],
                   rows: dict[str, int | None]) -> Origins:
    """What one entry brings that a policy can forbid; the creation answers for the ledger."""
    body, first, granted = entry.body, entry.kind == "created", entry.kind == "granted"
    kinds = (tuple(recorded_kinds(body["plan"])) if entry.kind in ("granted", "scope", "corrected")
             and body["plan"] is not None else ())
    asserted = asserted_kinds(kinds)
    if entry.kind == "released":
        asserted = [text for text in body["questions"] if text.startswith("asserted:")]
    return Origins(
        relation=created["relation"] if first else None,
        simulated=first and created["mode"] != "private",
        budget_delta=created["budget"]["delta"] if first else 0.0,
        learners=(body["learner"],) if granted else (), mechanisms=kinds,
        asserted=tuple(asserted),
        isolation=(body.get("isolation", "guarded"),) if granted else (),
        rows=((body["data"], rows.get(body["data"])),) if granted else (),
        windows=(body["window"],) if entry.kind == "window" else (),
    )


RULES = (chain_is_unbroken, states_follow, prices_are_right, releases_are_granted, scopes_are_paid,
         policy_is_kept)


def audit(store: Store, entries: Sequence[Entry] | None = None) -> list[Finding]:
    """Run every rule on everything in `store`, and never stop at the first fault.

    An entry that a rule cannot read is a finding of that rule; it hides no other rule's.

    Args:
        entries: what `store.read()` gave, for a caller that goes on with the very same ones.
    """
    entries = store.read() if entries is None else entries
    if not entries:
        return [Finding("chain-is-unbroken", -1, "the history is empty: not a ledger")]
    rules: list[tuple[str, Rule]] = [(rule.__name__.replace("_", "-"), rule) for rule in RULES]
    rules.append(("vectors-match", lambda lines: vectors_match(lines, store)))
    found: list[Finding] = []
    for name, rule in rules:
        try:
            for finding in rule(entries):  # one by one: what came before a failure counts
                found.append(finding)
        except Exception as error:  # an edited entry can make a rule raise anything
            found.append(Finding(name, -1, "an entry is so malformed that this rule cannot "
                                           f"finish ({type(error).__name__})"))
    return found
