"""Request, then grant, then data, noise, release."""

from privledger.ledger.view_records import DataSpend, RecordSpend, data_spend
from privledger.session.handle import LedgerHandle, Session
from privledger.session.ledger import Ledger
from privledger.session.scope import Scope

__all__ = ["DataSpend", "Ledger", "LedgerHandle", "RecordSpend", "Scope", "Session", "data_spend"]
