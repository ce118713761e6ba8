"""Request, then grant, then data, noise, release."""

from privledger.guard.dataset import Allocation as Allocation
from privledger.guard.dataset import Dataset as Dataset
from privledger.guard.dataset import Partition as Partition
from privledger.guard.handle import LedgerHandle as LedgerHandle
from privledger.guard.handle import Session as Session
from privledger.guard.ledger import Ledger as Ledger
from privledger.guard.spends import Scope as Scope
from privledger.ledger.view_records import DataSpend as DataSpend
from privledger.ledger.view_records import RecordSpend as RecordSpend
from privledger.ledger.view_records import data_spend as data_spend
