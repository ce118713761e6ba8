"""How a ledger begins: its promise, checked, as the first lines of a history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

from privledger.accounting import check_relation, check_unit
from privledger.errors import InvalidValue, UnsupportedNode
from privledger.guard.policing import check_creation, policy_caps
from privledger.guard.reserve import filter_fixed
from privledger.ledger import FORMAT, Budget, Cap, Policy, State, fixed_filter
from privledger.ledger.codec import decode, encode
from privledger.ledger.entries import now
from privledger.ledger.events import Created, Event, FilterFixed
from privledger.noise.seeded import SeededSource
from privledger.noise.source import NoiseSource, SystemSource
from privledger.rounding import exact
from privledger.storage import is_url
from privledger.tables.person_keys import PeopleKey

MODES = ("private", "simulation")


def creation(budget: Budget, relation: str, filter: str, order: float | None, mode: str,
             seed: int | None, caps: Sequence[Cap],
             policy: Policy | None, unit: str = "row",
             people_key: PeopleKey | None = None) -> tuple[list[Event], NoiseSource]:
    """The first lines, and the source of noise that they name; arguments as `Ledger.create`.

    Raises:
        InvalidValue: no such promise.
        PolicyViolation: the ledger itself is not what the policy allows.
    """
    if not isinstance(budget, Budget):
        raise InvalidValue("budget", type(budget).__name__, "a Budget")
    checked = check_relation(relation)
    if (check_unit(unit) == "person") != (people_key is not None):
        raise InvalidValue("people_key", "none" if people_key is None else "a key",
                           "given with unit=\"person\", and with no other: `privledger people-key "
                           "FILE` makes one")
    if mode not in MODES:
        raise InvalidValue("mode", mode, f"one of {', '.join(MODES)}")
    if mode == "private" and seed is not None:
        raise InvalidValue("seed", seed, "None: noise that protects people has no seed")
    if order is not None and filter != "rdp":
        raise InvalidValue("order", order, "left out: only filter=\"rdp\" has a Renyi order")
    rule = None if filter == "auto" else fixed_filter(filter, budget, order)
    source: NoiseSource = SystemSource() if mode == "private" else SeededSource(
        0 if seed is None else seed)
    every = tuple(_cap(cap) for cap in (*caps, *policy_caps(policy)))
    if policy is not None:
        check_creation(policy, budget, checked, mode)
    lines: list[Event] = [Created(
        FORMAT, str(uuid4()), checked, Budget(
            float(budget.epsilon), float(budget.delta), float(budget.failure)),
        filter, mode, source.describe(), now(), every, policy, check_unit(unit),
        None if people_key is None else people_key.check)]
    if rule is not None:
        lines.append(filter_fixed(rule))
    return lines, source


def differing(state: State, budget: Budget, relation: str, unit: str,
              filter: str) -> Iterator[tuple[str, object, object]]:
    """(name, asked, there) of what a ledger promises otherwise than who goes on with it says."""
    if state.budget != budget:
        yield "budget", budget, state.budget
    for name, asked, there in (("relation", relation, state.relation), ("unit", unit, state.unit)):
        if asked != there:
            yield name, asked, there
    fixed = state.rule.kind if state.rule else state.filter_asked
    if filter not in ("auto", fixed):
        yield "filter", filter, fixed


def check_agrees(state: State, lines: Sequence[Event], where: str) -> None:
    """Raise unless a ledger is the one that these first lines would begin.

    Args:
        lines: as `creation` gives them. where: the ledger, for the message.

    Raises:
        InvalidValue: it promises something else; everything that differs is named.
    """
    asked = decode("created", encode(lines[0]))  # as it would be read again
    assert isinstance(asked, Created)
    found = list(differing(state, asked.budget, asked.relation, asked.unit, asked.filter))
    if asked.mode != state.mode:
        found.append(("mode", asked.mode, state.mode))
    elif asked.mode == "simulation" and asked.noise != state.creation.noise:
        found.append(("seed", asked.noise, state.creation.noise))
    found += [(name, "others", "its own") for name in ("caps", "policy")
              if getattr(asked, name) != getattr(state, name)]
    rule = next((line for line in lines if isinstance(line, FilterFixed)), None)
    if rule is not None and state.rule is not None and (
            rule.rule == state.rule.kind) and rule.order != state.rule.order:
        found.append(("order", rule.order, state.rule.order))
    if found:
        names, given, held = zip(*found, strict=True)
        raise InvalidValue(", ".join(names), "; ".join(map(_words, given)),
                           f"what {where} was created with ({'; '.join(map(_words, held))}), or "
                           "use another ledger. Nothing was written")


def _words(value: object) -> str:
    if not isinstance(value, Budget):
        return str(value)
    return ", ".join(f"{name} {exact(one)}" for name, one in value.as_dict().items())


def refuse_person_elsewhere(path: object, unit: str) -> None:
    """People are kept in a file or in memory.

    Raises:
        UnsupportedNode: a database.
    """
    if unit != "row" and is_url(path):
        raise UnsupportedNode("a ledger with unit person must be kept in a file: the database's "
                              "tables do not store people yet")


def _cap(cap: object) -> Cap:
    if not isinstance(cap, Cap):
        raise InvalidValue("caps", type(cap).__name__, "a sequence of Cap")
    return cap
