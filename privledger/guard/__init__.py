"""Request, then grant, then data, noise, release."""

from privledger.guard.dataset import Dataset, Partition
from privledger.guard.handle import LedgerHandle, Session
from privledger.guard.ledger import Ledger
from privledger.guard.spends import Scope
from privledger.ledger.view_records import DataSpend, RecordSpend, data_spend

__all__ = ["DataSpend", "Dataset", "Ledger", "LedgerHandle", "Partition", "RecordSpend", "Scope",
           "Session", "data_spend"]
