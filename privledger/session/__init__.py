"""Request, then grant, then data, noise, release."""

from privledger.session.ledger import Ledger
from privledger.session.records import DataSpend, RecordSpend, data_spend
from privledger.session.scope import Scope
from privledger.session.session import Session

__all__ = ["DataSpend", "Ledger", "RecordSpend", "Scope", "Session", "data_spend"]
