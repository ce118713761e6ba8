"""A ledger as CSV (RFC 4180): a row for each grant and scope, and one for each release.

The column `charge` adds up, exactly, to what the ledger has spent: whole numbers in its own
currency. Grants and scopes carry it; a release carries zero: it was paid for with its grant, and
a plan's price cannot be split between its releases. `share` is the charge over the cap of the
filter, each rounded up, so that its sum is never below the total's. `alone` stands beside
`epsilon` where a federation ran the plan: its price if every other party gives its noise away.
`asserted` is 1 where an unverified claim is in it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from fractions import Fraction
from math import ceil

from privledger.graph import from_json, label
from privledger.ledger.entries import Entry
from privledger.ledger.events import Released
from privledger.ledger.origins import asserted_kinds
from privledger.ledger.view import View, readable
from privledger.ledger.view_charges import Charge
from privledger.ledger.view_figures import Amount
from privledger.ledger.view_releases import VOUCHED
from privledger.ledger.view_trust import federated_of
from privledger.reports.safe_text import clean

COLUMNS = ("kind", "grant", "time", "learner", "data", "status", "mechanism", "question", "cells",
           "charge", "charge_delta", "share", "epsilon", "releases", "asserted", "alone",
           "isolation", "library", "labels", "caps")
DECIMALS = 12
"""Of a share."""
# Where a semicolon separates cells, what follows one is a cell of its own.
_INNER = re.compile("(;[\\s\"']*)(?=[=+\\-@\uff1d\uff0b\uff0d\uff20])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def inert(value: object) -> object:
    """A cell that no spreadsheet takes for a formula, and that holds no control character.

    >>> inert('=cmd()'), inert('-1+2'), inert(-1.5), inert(' @x'), inert('a;=1+2')
    ("'=cmd()", "'-1+2", -1.5, "' @x", "a;'=1+2")
    """
    if isinstance(value, int | float):
        return value
    text = str(value)
    safe = _INNER.sub(r"\1'", clean(text, limit=4000))
    return f"'{safe}" if text.lstrip(" \u00a0\ufeff").startswith(_FORMULA) else safe


def as_csv(view: View, entries: Iterable[Entry]) -> str:
    """The table as text, with a header line.

    Args:
        entries: those that `view` was made of.
    """
    out = io.StringIO()
    table = csv.writer(out, quoting=csv.QUOTE_MINIMAL, lineterminator="\r\n")
    table.writerow(COLUMNS)
    released: dict[str, list[Released]] = {}
    for event in readable(entries, Released):
        if isinstance(event, Released):
            released.setdefault(event.grant, []).append(event)
    for one in view.charges:
        table.writerow([inert(cell) for cell in _charge(view, one)])
        for event in released.get(one.name, ()):
            for row in _releases(one, event):
                table.writerow([inert(cell) for cell in row])
    return out.getvalue()


def share_text(amount: Amount) -> str:
    """The share of the filter's cap, rounded up; empty where there is no cap to share.

    >>> share_text(Amount(0, 0, None))
    ''
    """
    if amount.rule is None or not amount.rule.cap_units:
        return ""
    parts = ceil(Fraction(amount.units * 10**DECIMALS, amount.rule.cap_units))
    return f"{parts // 10**DECIMALS}.{parts % 10**DECIMALS:0{DECIMALS}d}"


def _charge(view: View, one: Charge) -> tuple[object, ...]:
    amount, event = one.amount, one.event
    kinds = "" if one.mechanisms is None else " + ".join(one.mechanisms)
    return ("granted" if one.kind == "grant" else one.kind, one.name,
            (event.time if event is not None else "") or "", one.learner, one.table, one.status,
            kinds, "", "", amount.units, amount.delta_units, share_text(amount),
            amount.epsilon.value, one.releases, int(view.vouched(one)), _alone(view, one),
            *_from(one))


def _from(one: Charge) -> tuple[str, ...]:
    """Isolation, library, labels and caps."""
    return (one.isolation, one.library,
            "; ".join(f"{key}={text}" for key, text in sorted(one.labels)), "; ".join(one.caps))


def _alone(view: View, one: Charge) -> object:
    """Epsilon if every other party gives its noise away; empty where no federation ran it."""
    found = federated_of(one, view.relation)
    return "" if found is None else found.alone.epsilon.value


def _releases(one: Charge, event: Released) -> Iterator[tuple[object, ...]]:
    leaves = [from_json(node.leaf) for node in event.nodes]
    for place, question, cells in event.items:
        leaf, asked = leaves[place], str(event.questions[question])
        vouched = asked.startswith(VOUCHED) or bool(asserted_kinds([type(leaf).__name__]))
        yield ("released", one.name, "", one.learner, one.table, one.status, label(leaf), asked,
               cells, 0, 0, f"0.{0:0{DECIMALS}d}", 0.0, 1, int(vouched), "",
               *_from(one))
