"""Public rows: splitting them off before the guard, and scoring a model on them."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privledger.errors import InvalidPlan
from privledger.facts.schema import Schema
from privledger.people.ids import persons
from privledger.tables.encode import encode_features, encode_target
from privledger.tables.frames import column_of

Table = tuple[Any, Any]


def split_off(X: Any, y: Any, schema: Schema, fraction: float) -> tuple[Table, Table]:
    """The private part and the public part, before anything is protected.

    A row's side is a function of that row alone; where the schema names a person's column, of the
    person alone. A split by position would move other rows when one row comes or goes, which no
    accountant here could price.
    """
    public = _public_people(X, schema, fraction) if schema.person else _public_rows(
        X, y, schema, fraction)
    if public.all() or not public.any():
        raise InvalidPlan("[evaluate] holdout", fraction, "one that leaves rows on both sides")
    return (take(X, ~public), take(y, ~public)), (take(X, public), take(y, public))


def _public_people(X: object, schema: Schema, fraction: float) -> NDArray[np.bool_]:
    column = schema.person or ""
    found = persons(column_of(X, column), column)
    sides = np.array([_is_below(one.encode(), fraction) for one in found.ids], dtype=bool)
    return sides[found.rows]


def _is_below(content: bytes, fraction: float) -> bool:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little") < int(
        fraction * 2.0**64)


def _public_rows(X: object, y: object, schema: Schema, fraction: float) -> NDArray[np.bool_]:
    columns = encode_features(X, schema, strict=False)
    parts = [*columns.arrays, encode_target(y, schema)]
    table = np.stack([np.asarray(part, dtype="<f8") for part in parts], axis=1)
    return np.array([_is_below(row.tobytes(), fraction) for row in table], dtype=bool)


def take(table: Any, mask: NDArray[np.bool_]) -> Any:
    """Rows of a frame, a series, a mapping of columns or an array."""
    if isinstance(table, Mapping):
        return {name: np.asarray(column)[mask] for name, column in table.items()}
    return table[mask]


def score(model: Any, X: Any, y: Any, schema: Schema) -> dict[str, Any]:
    """How good the model is on public rows. Post-processing: costs nothing.

    Returns:
        `model` and `baseline` (the same without learning anything), and how many `rows`.
    """
    truth = encode_target(y, schema)
    predicted = model.predict(X)
    if schema.task == "classification":
        codes = encode_target(predicted, schema)
        counts = np.bincount(truth, minlength=len(schema.target.categories))
        return {"rows": len(truth), "model": {"accuracy": float((codes == truth).mean())},
                "baseline": {"accuracy": float(counts.max() / len(truth))}}
    errors = np.asarray(predicted, dtype=np.float64) - truth
    centred = truth - truth.mean()
    spread = float(np.square(centred).mean())
    mse = float(np.square(errors).mean())
    return {
        "rows": len(truth),
        "model": {"rmse": mse**0.5, "mae": float(np.abs(errors).mean()),
                  "r2": 1 - mse / spread if spread else 0.0},
        "baseline": {"rmse": spread**0.5, "mae": float(np.abs(centred).mean()), "r2": 0.0},
    }
