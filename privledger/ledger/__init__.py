"""The history: entries, the state they fold to, the decision to grant, and the rules."""

from privledger.ledger.audit import audit
from privledger.ledger.budget import Budget
from privledger.ledger.caps import Cap, plain_labels
from privledger.ledger.correct import Correction, correction
from privledger.ledger.decide import Charge, Refusal, decide
from privledger.ledger.entries import FORMAT, Entry, chain_hash
from privledger.ledger.filters import FilterRule, choose_filter, fixed_filter
from privledger.ledger.history import History, Receipt
from privledger.ledger.individual import ScopeSpend, admit, costs_to_units
from privledger.ledger.state import GrantState, ScopeState, State
from privledger.ledger.store import Store, Transaction

__all__ = [
    "FORMAT",
    "Budget",
    "Cap",
    "Charge",
    "Correction",
    "Entry",
    "FilterRule",
    "GrantState",
    "History",
    "Receipt",
    "Refusal",
    "ScopeSpend",
    "ScopeState",
    "State",
    "Store",
    "Transaction",
    "admit",
    "audit",
    "chain_hash",
    "choose_filter",
    "correction",
    "costs_to_units",
    "decide",
    "fixed_filter",
    "plain_labels",
]
