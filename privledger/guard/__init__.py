"""Request, then grant, then data, noise, release."""

from privledger.guard.dataset import Allocation, Dataset, Partition
from privledger.guard.handle import LedgerHandle, Session
from privledger.guard.ledger import Ledger
from privledger.guard.spends import Scope
from privledger.ledger.view_records import DataSpend, RecordSpend, data_spend

__all__ = ["Allocation", "DataSpend", "Dataset", "Ledger", "LedgerHandle", "Partition",
           "RecordSpend", "Scope", "Session", "data_spend"]
