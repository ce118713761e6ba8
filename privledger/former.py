"""Names that stood at the top of `privledger` once, and where they are now. For one version."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

MOVED = {
    "errors": (
        "DataDerived", "DataError", "InvalidCurve", "InvalidMechanism", "InvalidPlan",
        "IsolationError", "IsolationLimit", "IsolationUnavailable", "LearnerError", "LedgerBusy",
        "LedgerCorrupt", "LedgerMisplaced", "LedgerMissing", "LedgerTooNew", "ModelError",
        "NotSettled", "PolicyViolation", "RelationMismatch", "ScopeBusy", "UnsupportedNode",
    ),
    "nodes": (
        "AsReplaceOne", "Explanation", "FixedSizeSample", "Group", "LabelOnly", "OneOf",
        "PostProcess", "Public", "Tuning", "from_dp_event", "from_json", "graphml", "label",
        "rdp_per_record", "to_dp_event", "to_json", "view",
    ),
    "plugins": ("learner_names",),
    "questions": (
        "Bins", "CategoryCells", "Choice", "ClassIs", "ColumnValue", "CrossCells",
        "CustomScores", "CustomValue", "FeatureChoice", "GrownCells", "IndexCells",
        "IntervalCells", "LabelChoice", "LabelQuery", "LabelledCells", "Ones", "Picked", "Query",
        "ResidualCells", "Score", "TargetShares", "Test", "TreeCells", "Votes", "probabilities",
    ),
}


def found(name: str) -> Any:
    """What `privledger.name` was, with a warning that says its new place.

    Raises:
        AttributeError: no such name stood there.
    """
    for place, names in MOVED.items():
        if name in names:
            # 3: the line that wrote `pl.name`, past the package's own `__getattr__`.
            warnings.warn(f"privledger.{name} is now privledger.{place}.{name}; the old name "
                          "goes with the next version", DeprecationWarning, stacklevel=3)
            return getattr(import_module(f"privledger.{place}"), name)
    names = (*dir(import_module("privledger")), *sum(MOVED.values(), ()),
             *(f"nodes.{one}" for one in import_module("privledger.nodes").__all__))
    near = "" if name.startswith("_") else import_module("privledger.numerals").meant(name, names)
    raise AttributeError(f"module 'privledger' has no attribute {name!r}{near}")
