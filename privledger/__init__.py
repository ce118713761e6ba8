"""privledger: a privacy-budget ledger with pluggable learners.

>>> import privledger as pl
>>> plan = pl.Repeat(pl.Gaussian(noise_multiplier=20.0), count=100)
>>> round(pl.epsilon(plan, delta=1e-6), 3)
2.254

Names are loaded when they are first used, so that tools which need few of them start fast.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "privledger.errors": (
        "BudgetExceeded", "DataDerived", "DataError", "InvalidCurve", "InvalidMechanism",
        "InvalidPlan", "InvalidValue", "IsolationError", "IsolationLimit", "IsolationUnavailable",
        "LearnerError", "LedgerBusy", "LedgerCorrupt",
        "LedgerError", "LedgerMisplaced", "LedgerMissing", "LedgerTooNew", "ModelError",
        "NotGranted", "NotSettled", "PolicyViolation", "PrivledgerError", "RelationMismatch",
        "SchemaError", "ScopeBusy", "UnsupportedNode",
    ),
    "privledger.facts": (
        "Bins", "Column", "Schema",
    ),
    "privledger.findings": ("Finding",),
    "privledger.graph": (
        "AsReplaceOne", "Explanation", "FixedSizeSample", "Group", "IndividualFilter",
        "LabelOnly", "Node", "OneOf", "Parallel", "PoissonSample", "PostProcess", "Public",
        "Repeat", "Sequential", "Tuning", "calibrate", "certify", "delta", "epsilon", "explain",
        "from_dp_event", "from_json", "graphml", "label", "rdp", "rdp_per_record",
        "to_dp_event", "to_json", "view",
    ),
    "privledger.ledger": (
        "Budget", "Cap", "Policy", "Receipt",
    ),
    "privledger.mechanisms": (
        "Asserted", "AssertedZCDP", "DiscreteGaussian", "DiscreteLaplace", "Exponential",
        "Gaussian", "Laplace", "PermuteAndFlip", "RandomizedResponse", "ReportNoisyMax",
        "SparseVector", "TopK",
    ),
    "privledger.models": (
        "load_model", "save_model",
    ),
    "privledger.plugins": (
        "ClaimStep", "Learner", "LearnerInfo", "learner_names", "load_learner",
    ),
    "privledger.questions": (
        "CategoryCells", "Choice", "ClassIs", "ColumnValue", "CrossCells", "CustomScores",
        "CustomValue", "FeatureChoice", "GrownCells", "IndexCells", "IntervalCells",
        "LabelChoice", "LabelQuery", "LabelledCells", "Ones", "Picked", "Query",
        "ResidualCells", "Score", "TargetShares", "Test", "TreeCells", "Votes", "probabilities",
    ),
    "privledger.tables": ("encode_features", "read_table"),
    "privledger.guard": (
        "Dataset", "Ledger", "LedgerHandle", "Partition", "RecordSpend", "Scope", "Session",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'privledger' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
