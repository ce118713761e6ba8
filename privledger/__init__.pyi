"""The one list of the names in `privledger`: type checkers read it, and `__init__.py` does.

One import a line: where the name is, and its name.
"""

import typing

from privledger import engines as engines
from privledger import errors as errors
from privledger import nodes as nodes
from privledger import plugins as plugins
from privledger import questions as questions
from privledger import testing as testing
from privledger.errors import BudgetExceeded as BudgetExceeded
from privledger.errors import InvalidValue as InvalidValue
from privledger.errors import LedgerError as LedgerError
from privledger.errors import NotGranted as NotGranted
from privledger.errors import PrivledgerError as PrivledgerError
from privledger.errors import SchemaError as SchemaError
from privledger.findings import Finding as Finding
from privledger.graph import IndividualFilter as IndividualFilter
from privledger.graph import Node as Node
from privledger.graph import Parallel as Parallel
from privledger.graph import PoissonSample as PoissonSample
from privledger.graph import Repeat as Repeat
from privledger.graph import Sequential as Sequential
from privledger.graph import calibrate as calibrate
from privledger.graph import certify as certify
from privledger.graph import delta as delta
from privledger.graph import epsilon as epsilon
from privledger.graph import explain as explain
from privledger.graph import rdp as rdp
from privledger.graph.additive import Asserted as Asserted
from privledger.graph.additive import AssertedZCDP as AssertedZCDP
from privledger.graph.additive import DiscreteGaussian as DiscreteGaussian
from privledger.graph.additive import DiscreteLaplace as DiscreteLaplace
from privledger.graph.additive import Gaussian as Gaussian
from privledger.graph.additive import Laplace as Laplace
from privledger.graph.selection import Exponential as Exponential
from privledger.graph.selection import PermuteAndFlip as PermuteAndFlip
from privledger.graph.selection import RandomizedResponse as RandomizedResponse
from privledger.graph.selection import ReportNoisyMax as ReportNoisyMax
from privledger.graph.selection import SparseVector as SparseVector
from privledger.graph.selection import TopK as TopK
from privledger.guard import Dataset as Dataset
from privledger.guard import Ledger as Ledger
from privledger.guard import LedgerHandle as LedgerHandle
from privledger.guard import Partition as Partition
from privledger.guard import RecordSpend as RecordSpend
from privledger.guard import Scope as Scope
from privledger.guard import Session as Session
from privledger.ledger import Budget as Budget
from privledger.ledger import Cap as Cap
from privledger.ledger import Policy as Policy
from privledger.ledger import Receipt as Receipt
from privledger.plugins import ClaimStep as ClaimStep
from privledger.plugins import Learner as Learner
from privledger.plugins import LearnerInfo as LearnerInfo
from privledger.plugins import load_learner as load_learner
from privledger.plugins.model_file import load_model as load_model
from privledger.plugins.model_file import save_model as save_model
from privledger.tables.encode import encode_features as encode_features
from privledger.tables.schema import Column as Column
from privledger.tables.schema import Schema as Schema
from privledger.tables.sources import read_table as read_table
from privledger.tables.sources import scan_csv as scan_csv
from privledger.tables.sources import scan_parquet as scan_parquet

# Offered by installed packages, by the entry-point group `privledger.names`.
between: typing.Any
col: typing.Any
compare: typing.Any
corr: typing.Any
count: typing.Any
crosstab: typing.Any
cut: typing.Any
forecast: typing.Any
histogram: typing.Any
isin: typing.Any
max: typing.Any
mean: typing.Any
median: typing.Any
min: typing.Any
missing: typing.Any
quantile: typing.Any
std: typing.Any
sum: typing.Any
summary: typing.Any
var: typing.Any

__version__: str

def __dir__() -> list[str]: ...
