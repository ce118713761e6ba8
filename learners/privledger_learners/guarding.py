"""From what a user hands to `fit` to a guarded Dataset, for every learner."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

import numpy as np

import privledger as pl
from privledger_learners.accounted import note_rows, refuse_search

NO_TARGET = "this estimator requires y to be passed, but the target y is None"
NOTHING = pl.nodes.Public("records without a label: not asked")
GUARDED = ("ledger_", "data_", "stream_scope_")


def guard(learner: Any, X: Any, y: Any) -> tuple[pl.Dataset, pl.Schema]:
    """A guarded Dataset as it is; a table behind a fresh in-memory ledger of its own budget."""
    if isinstance(X, pl.Dataset):
        if y is not None:
            raise pl.InvalidValue("y", "given", "None with a guarded Dataset: the target is inside")
        if learner.schema is not None and learner.schema != X.schema:
            raise pl.SchemaError("the learner's schema differs from the guarded data's")
        _match(learner, X.ledger)
        note_names(learner, X.schema)
        return X, X.schema
    refuse_search(learner)
    schema = learner.schema
    if schema is not None and not isinstance(schema, pl.Schema):
        raise pl.InvalidValue("schema", type(schema).__name__, "a privledger Schema")
    if schema is None:
        if learner.mode != "simulation":
            raise pl.SchemaError(
                "a schema is needed: bounds and categories must be public facts, they are never "
                "read off the data (mode='simulation' infers them, and is NOT PRIVATE)")
        X, y, schema = infer_schema(learner, X, y)
    else:
        note_features(learner, X, fitting=True)
    if y is None and learner.info.tasks:
        raise pl.errors.DataError(NO_TARGET)
    if not has_target(schema):
        y = None  # as scikit-learn's: a learner of features alone is given one and ignores it
    simulated = learner.mode == "simulation"
    seed = learner.random_state if simulated and isinstance(learner.random_state, int) else None
    # A key of its own: no person is looked up in a ledger that goes with the model.
    ledger = pl.Ledger.create(
        None, budget=pl.Budget(learner.epsilon, learner.delta), relation=learner.relation,
        mode=learner.mode, seed=(seed or 0) if simulated else None,
        unit="person" if schema.person else "row",
        people_key=pl.plugins.passing_people_key() if schema.person else None)
    # Which relation and which table a learner is for is part of what it is, not of its data.
    data = ledger.protect(X, y, schema, public_features=learner.relation == "replace_label",
                          unlabelled=getattr(learner, "unlabelled", False))
    _own(ledger, data)
    note_rows(learner, ledger, X, y, schema)
    return data, schema


def _match(learner: Any, ledger: Any) -> None:
    if learner.relation != ledger.relation:
        raise pl.errors.RelationMismatch(f"the learner is set to {learner.relation}, "
                                         f"the ledger keeps {ledger.relation}")


def with_unlabelled(X: Any, y: Any, more: Any, schema: pl.Schema) -> tuple[Any, Any]:
    """One table: the rows of `X` with their labels, then those of `more` without.

    Raises:
        DataError: one of the two does not fit the schema.
    """
    if isinstance(X, pl.Dataset):
        raise pl.InvalidValue("X_unlabelled", "given", "None with a guarded Dataset: its rows "
                              "without a label are inside")
    if y is None:
        raise pl.errors.DataError(NO_TARGET)
    both = [_columns(table, schema) for table in (X, more)]
    columns = {name: np.concatenate([_plain(table[name], other[name]),
                                     _plain(other[name], table[name])])
               for table, other in [both] for name in table}
    labels = np.asarray(y, dtype=object).reshape(-1)
    rows = len(next(iter(both[1].values())))
    return columns, np.concatenate([labels, np.full(rows, None, dtype=object)])


def among_labelled(node: pl.Node) -> pl.Node:
    """`node` on the labelled records: on all, or on that part of a table where some have none.

    Which of the two it is, is public; both cost the same.
    """
    return pl.nodes.OneOf([node, pl.Parallel([NOTHING, node], "index")])


def labelled(data: pl.Dataset) -> pl.Dataset:
    """The handle on the records with a label."""
    return data.partition(pl.questions.LabelledCells())[1] if data.unlabelled else data


def _plain(array: np.ndarray, other: np.ndarray) -> np.ndarray:
    """As objects where the two kinds differ: numbers must not turn into text."""
    return array if array.dtype.kind == other.dtype.kind else array.astype(object)


def _columns(table: Any, schema: pl.Schema) -> dict[str, np.ndarray]:
    pl.encode_features(table, schema)  # says what does not fit, by column
    names = [column.name for column in schema.features]
    names += [schema.person] if schema.person else []
    if hasattr(table, "columns") or isinstance(table, Mapping):
        listed = "column_names" if hasattr(type(table), "column_names") else "columns"  # pyarrow's
        held = set(getattr(table, listed)) if hasattr(table, "columns") else set(table)
        if held >= set(names):
            return {name: np.asarray(table[name]) for name in names}
    if schema.person:
        raise pl.errors.DataError(f"missing column {schema.person}")
    array = np.asarray(table)
    return {name: array[:, place] for place, name in enumerate(names)}


def note_names(learner: Any, schema: pl.Schema) -> None:
    """What scikit-learn records about features, from the schema."""
    learner.n_features_in_ = len(schema.features)
    learner.feature_names_in_ = np.array([c.name for c in schema.features], dtype=object)


def note_features(learner: Any, X: Any, *, fitting: bool) -> None:
    """Let scikit-learn check and record feature names and counts, without reading values."""
    if getattr(learner, "_inferred", False) and not fitting:
        from sklearn.utils.validation import validate_data

        validate_data(learner, X, reset=False, ensure_all_finite="allow-nan")
        return
    if fitting:
        learner._inferred = False
        note_names(learner, learner.schema)


def infer_schema(learner: Any, X: Any, y: Any) -> tuple[Any, Any, pl.Schema]:
    """Bounds and classes from the data: simulation only, NOT PRIVATE."""
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import validate_data

    if not learner.info.tasks:
        X = validate_data(learner, X, ensure_all_finite="allow-nan", dtype="numeric")
        learner._inferred = True
        return X, None, pl.Schema("inferred, NOT PRIVATE", inferred_features(X), None, True)
    if y is None:
        raise ValueError("This estimator requires y to be passed, but the target y is None")
    regression = "regression" in learner.info.tasks
    X, y = validate_data(learner, X, y, ensure_all_finite="allow-nan", y_numeric=regression,
                         dtype="numeric")
    learner._inferred = True
    if regression:
        low, high = float(np.min(y)), float(np.max(y))
        target = pl.Column("target", "numeric", "target", low, high if high > low else low + 1.0)
    else:
        check_classification_targets(y)
        labels = np.unique(y)
        if len(labels) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        target = pl.Column("target", "categorical", "target", categories=tuple(labels.tolist()))
    return X, y, pl.Schema("inferred, NOT PRIVATE", (*inferred_features(X), target), None, True)


def inferred_features(X: np.ndarray) -> tuple[pl.Column, ...]:
    """Numeric columns with the bounds that the table has: simulation only, NOT PRIVATE."""
    columns = []
    for place in range(X.shape[1]):
        values = X[:, place].astype(float)
        known = values[np.isfinite(values)]
        low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)
        columns.append(pl.Column(f"x{place}", "numeric", "feature", low,
                                 high if high > low else low + 1.0, missing=True))
    return tuple(columns)


def has_target(schema: pl.Schema) -> bool:
    """Whether the schema lists a column to be learned."""
    return any(column.role == "target" for column in schema.columns)


def forget_guarded(state: dict[str, Any]) -> dict[str, Any]:
    """A fitted learner's state without anything that reaches guarded data."""
    return {name: value for name, value in state.items() if name not in GUARDED}


# Ledgers that a learner made itself, for a plain table: kept for later tables of a stream. A
# fitted model holds what may be asked of its ledger, and no way to the ledger that could protect,
# append or look at records. Here the ledger is found by that handle, for as long as it lives.


class _Place(weakref.ref["pl.LedgerHandle"]):
    __slots__ = ("number",)
    number: int


_MADE: dict[int, tuple[_Place, pl.Ledger]] = {}


def _forget(place: _Place) -> None:
    held = _MADE.get(place.number)
    if held is not None and held[0] is place:
        del _MADE[place.number]


def _own(ledger: pl.Ledger, data: pl.Dataset) -> None:
    """Note that the learner itself made the ledger of `data`."""
    place = _Place(data.ledger, _forget)
    place.number = id(data.ledger)
    _MADE[place.number] = place, ledger


def made_for(data: pl.Dataset) -> pl.Ledger:
    """The ledger that the learner made for these records.

    Raises:
        NotGranted: another caller did.
    """
    held = _MADE.get(id(data.ledger))
    if held is None or held[0]() is not data.ledger:
        raise pl.NotGranted("late arrivals are put behind the guard by the ledger's owner: pass "
                            "the Dataset that ledger.append returns")
    return held[1]
