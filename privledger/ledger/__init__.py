"""The history: entries, the state they fold to, the decision to grant, and the rules."""

from privledger.ledger.auditing import audit
from privledger.ledger.checkpoint import Receipt
from privledger.ledger.decide import (
    Charge,
    Correction,
    Refusal,
    booked_by_filters,
    correction,
    decide,
    own_epsilon,
)
from privledger.ledger.entries import FORMAT, Entry
from privledger.ledger.filters import (
    Budget,
    Cap,
    FilterRule,
    choose_filter,
    fixed_filter,
    plain_labels,
    window_name,
)
from privledger.ledger.history import History
from privledger.ledger.individual import ScopeSpend, admit, costs_to_units
from privledger.ledger.origins import Origins, asserted_kinds, origin_findings, request_origins
from privledger.ledger.policy import DataLimit, Policy
from privledger.ledger.state import GrantState, ScopeState, State, folded
from privledger.ledger.store import Store, Transaction

__all__ = [
    "FORMAT",
    "Budget",
    "Cap",
    "Charge",
    "Correction",
    "DataLimit",
    "Entry",
    "FilterRule",
    "GrantState",
    "History",
    "Origins",
    "Policy",
    "Receipt",
    "Refusal",
    "ScopeSpend",
    "ScopeState",
    "State",
    "Store",
    "Transaction",
    "admit",
    "asserted_kinds",
    "audit",
    "booked_by_filters",
    "choose_filter",
    "correction",
    "costs_to_units",
    "decide",
    "fixed_filter",
    "folded",
    "origin_findings",
    "own_epsilon",
    "plain_labels",
    "request_origins",
    "window_name",
]
