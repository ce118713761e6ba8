"""Request, then grant, then data, noise, release."""

from privledger.guard.dataset import Dataset, Partition
from privledger.guard.handle import LedgerHandle, Session
from privledger.guard.ledger import Ledger
from privledger.guard.records import DataSpend, RecordSpend, data_spend
from privledger.guard.spends import Scope

__all__ = ["DataSpend", "Dataset", "Ledger", "LedgerHandle", "Partition", "RecordSpend", "Scope",
           "Session", "data_spend"]
