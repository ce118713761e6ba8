"""The audit, for histories that may be anything: a rule that breaks is a finding too."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from privledger.findings import Finding
from privledger.ledger import Entry, Store
from privledger.ledger.rules import RULES, vectors_match

Rule = Callable[[Sequence[Entry]], Iterable[Finding]]


def faults(store: Store) -> list[Finding]:
    """Every finding of every rule; an entry that a rule cannot read hides no other rule's."""
    entries = store.read()
    if not entries:
        return [Finding("chain-is-unbroken", -1, "the history is empty: not a ledger")]
    found: list[Finding] = []
    rules: list[tuple[str, Rule]] = [(rule.__name__.replace("_", "-"), rule) for rule in RULES]
    rules.append(("vectors-match", lambda lines: vectors_match(lines, store)))
    for name, rule in rules:
        try:
            for finding in rule(entries):  # one by one: what came before a failure counts
                found.append(finding)
        except Exception as error:  # an edited entry can make a rule raise anything
            found.append(Finding(name, -1, "an entry is so malformed that this rule cannot "
                                           f"finish ({type(error).__name__})"))
    return found
