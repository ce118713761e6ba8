"""Model files: one line, a hash, a header in JSON, and arrays as they lie in memory.

    privledger model 1\n
    32 bytes: sha256 of everything that follows
    8 bytes: length of the header, big-endian
    the header: canonical JSON with `learner`, `schema`, `params`, `fitted`, `arrays`, ...
    the arrays, one after the other, little-endian, in C order; their dtypes and shapes are in
    the header's `arrays`

Nothing is compressed, nothing is named by a path, and nothing is run. The hash finds accidents;
the writer of the file can write the hash.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import os
import stat
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import ModelError, PrivledgerError
from privledger.graph import canonical
from privledger.plugins import load_learner
from privledger.plugins.model_tree import DTYPES, Records, TreeReader, Writer
from privledger.reading import strict_json, write_whole
from privledger.rounding import MOST_COUNT, count
from privledger.tables.schema import Schema

MAGIC = b"privledger model 1\n"
MIB = 2**20
MOST_MB = 256
MOST_HEADER = 64 * MIB
MOST_VALUES = 2_000_000  # in the header
MOST_SIDE = 2**31
_KEYS = {"format", "privledger", "learner", "schema", "relation", "isolation", "private",
         "receipt", "params", "fitted", "arrays"}
_TEXTS = ("privledger", "learner", "relation", "isolation")


@frozen(eq=False)
class ModelFile:
    """What a file says; nothing of it has been built.

    Attributes:
        header: everything but the arrays; `params` and `fitted` are trees (see `tree`).
        arrays: read-only.
    """

    header: dict[str, Any]
    arrays: tuple[NDArray[Any], ...]


def model_bytes(model: ModelFile) -> bytes:
    """What `save_model` writes: the header, then the learner's fields."""
    listed = [{"dtype": f"{array.dtype.kind}{array.dtype.itemsize}", "shape": list(array.shape)}
              for array in model.arrays]
    header = canonical(model.header | {"format": 1, "arrays": listed}).encode("ascii")
    body = b"".join([len(header).to_bytes(8, "big"), header,
                     *(array.tobytes() for array in model.arrays)])
    return b"".join([MAGIC, hashlib.sha256(body).digest(), body])


def model_file(data: bytes) -> ModelFile:
    """The inverse, checked; no value in it is trusted.

    Raises:
        ModelError: it is not such a file, or passes a limit.
    """
    start = len(MAGIC) + 32
    if data[:len(MAGIC)] != MAGIC or len(data) < start + 8:
        raise ModelError("not a model file of this version")
    if hashlib.sha256(memoryview(data)[start:]).digest() != data[len(MAGIC):start]:
        raise ModelError("the model file was cut or changed")
    length = int.from_bytes(data[start:start + 8], "big")
    begin = start + 8 + length
    if length > MOST_HEADER or begin > len(data):
        raise ModelError("a model file with a header of another length")
    header = _header(data[start + 8:begin])
    return ModelFile(header, _arrays(header["arrays"], data, begin))


def _header(text: bytes) -> dict[str, Any]:
    if sum(map(text.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise ModelError(f"a model file with more than {MOST_VALUES} values in its header")
    try:
        found = strict_json(text)
    except (ValueError, RecursionError):
        raise ModelError("a model file whose header is not JSON") from None
    if not isinstance(found, dict) or set(found) != _KEYS or found["format"] != 1 or any(
            not isinstance(found[key], str) or len(found[key]) > 200 for key in _TEXTS) or (
            not isinstance(found["private"], bool) or not isinstance(found["schema"], dict)):
        raise ModelError("a model file with another header than this version's")
    return found


def _arrays(listed: Any, data: bytes, place: int) -> tuple[NDArray[Any], ...]:
    if not isinstance(listed, list):
        raise ModelError("a model file without a list of arrays")
    found = []
    for one in listed:
        dtype, shape = _array_kind(one)
        count = math.prod(shape)
        if count * dtype.itemsize > len(data) - place:
            raise ModelError("a model file with fewer bytes than its arrays need")
        held = np.frombuffer(data, dtype, count, place).reshape(shape)
        if dtype.kind == "b" and not np.isin(held.view(np.uint8), (0, 1)).all():
            raise ModelError("a model file with truth values that are none")
        found.append(held.astype(dtype.newbyteorder("="), copy=False))
        place += count * dtype.itemsize
    if place != len(data):
        raise ModelError("a model file with more bytes than its arrays need")
    return tuple(found)


def _array_kind(one: Any) -> tuple[np.dtype[Any], tuple[int, ...]]:
    if not isinstance(one, dict) or set(one) != {"dtype", "shape"} or (
            not isinstance(one["dtype"], str) or not isinstance(one["shape"], list)):
        raise ModelError("a model file with an array of an unknown kind")
    dtype, shape = DTYPES.get(one["dtype"]), one["shape"]
    if dtype is None or len(shape) > 4 or any(
            isinstance(side, bool) or not isinstance(side, int) or not 0 <= side < MOST_SIDE
            for side in shape):
        raise ModelError("a model file with an array of an unknown kind")
    return dtype, tuple(shape)


def read_model(path: str | Path, *, most_mb: int = MOST_MB) -> ModelFile:
    """A model file from disk.

    Args:
        most_mb: MiB that it may have.

    Raises:
        ModelError: it cannot be read, or is not such a file.
        InvalidValue: `most_mb` is no whole number above zero.
    """
    name, most = Path(path).name, int(count("most_mb", most_mb, most=MOST_COUNT)) * MIB
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(number, "rb") as file:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise ModelError(f"{name}: not a file")
            data = file.read(most + 1)
    except (OSError, ValueError):  # the latter: no path at all
        raise ModelError(f"{name}: cannot be read") from None
    if len(data) > most:
        raise ModelError(f"{name}: a model file of more than {most_mb} MiB")
    return model_file(data)


def write_model(model: ModelFile, path: str | Path) -> None:
    """Write a model file, whole or not at all.

    Raises:
        OSError: it cannot be written.
    """
    write_whole(Path(path), model_bytes(model))


# Fitted learners <-> model files.

# What a fitted learner holds beside what it learned; none of it belongs into a file.
_GUARDED = ("ledger_", "data_", "stream_scope_")
# What a fit that was refused may leave behind: nothing of it was learned.
_BEFORE = {"schema_", "relation_", "n_features_in_", "feature_names_in_", "receipt_", "fell_back_"}


@frozen
class ModelFacts:
    """What the owner vouches for, beside what the learner made.

    Attributes:
        learner: the entry point's name. schema: of the table it was fitted on.
        relation: what neighbouring tables differ in. isolation: how it was kept from the rows.
        private: False for simulated noise, NOT PRIVATE.
        receipt: the ledger's head after the fit, as JSON values, or None.
    """

    learner: str
    schema: Schema
    relation: str
    isolation: str = "guarded"
    private: bool = True
    receipt: dict[str, Any] | None = None

    def header(self) -> dict[str, Any]:
        """The facts as JSON values, with the version that writes them."""
        return {"privledger": _version(), "learner": self.learner,
                "schema": self.schema.to_dict(), "relation": self.relation,
                "isolation": self.isolation, "private": self.private, "receipt": self.receipt}


def _version() -> str:
    try:
        return version("privledger")
    except PackageNotFoundError:
        return ""


def kept(learner: Any, facts: ModelFacts) -> ModelFile:
    """A fitted learner as a model file: its parameters, and its attributes that end in "_".

    Raises:
        ModelError: it holds something that such a file has no word for, or would lose.
    """
    writer = Writer(Records.of(type(learner)))
    fitted = {name: writer.tree(value, name) for name, value in sorted(vars(learner).items())
              if _is_fitted(type(learner), name) and name not in _GUARDED}
    names = sorted(inspect.signature(type(learner)).parameters)
    lost = [name for name in vars(learner) if not name.endswith("_") and name[0] != "_"
            and name not in names and name not in fitted]
    if lost:
        raise ModelError(f"{facts.learner} sets {lost[0]!r:.60}, which a model file would lose: "
                         "what was learned ends in an underscore, or is listed in "
                         "model_attributes")
    params = {name: writer.tree(getattr(learner, name, None), name) for name in names
              if name not in ("schema", "scope")}
    return ModelFile(facts.header() | {"params": params, "fitted": fitted}, tuple(writer.arrays))


def _is_fitted(kind: type, name: str) -> bool:
    return (name.endswith("_") and not name.startswith("_")) or name in getattr(
        kind, "model_attributes", ())


def revived(model: ModelFile, kind: type) -> Any:
    """The learner of a model file, of the class that is registered under its name.

    Raises:
        ModelError: the file is not of this learner, or says what none can hold.
    """
    header = model.header
    reader = TreeReader(Records.of(kind), list(model.arrays))
    try:
        schema = Schema.from_dict(header["schema"])
        # In the order they were written in: a record may stand once and be named again.
        fitted = {name: reader.value(tree) for name, tree in _table(header["fitted"]).items()}
        params = {name: reader.value(tree) for name, tree in _table(header["params"]).items()}
        learner = kind(**params, schema=schema)
    except PrivledgerError as error:
        raise ModelError(f"the model cannot be read: {error}") from None
    except Exception:
        raise ModelError(f"the model is not one of {header['learner']}: it was made with other "
                         "parameters") from None
    for name, value in fitted.items():
        if not _is_fitted(kind, name) or name in _GUARDED or hasattr(kind, name):
            raise ModelError(f"the model sets {name!r:.60}, which {header['learner']} does not "
                             "learn")
        setattr(learner, name, value)
    return learner


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ModelError("a model file without parameters or attributes")
    return value


def save_model(learner: Any, path: str | Path) -> None:
    """Write a fitted learner to a model file: released values only, and no code.

    Args:
        learner: fitted; of a class that is registered as an entry point.
        path: of the file, which is replaced if it is there.

    Raises:
        ModelError: it is not fitted, or holds something that such a file has no word for.
            OSError.
    """
    info, ledger = learner.info, getattr(learner, "ledger_", None)
    schema = getattr(learner, "schema_", None) or learner.schema or getattr(
        getattr(learner, "data_", None), "schema", None)
    if not isinstance(schema, Schema):
        raise ModelError("a model is kept with its schema; this learner has none")
    receipt = getattr(learner, "receipt_", None)
    facts = ModelFacts(info.name, schema, getattr(learner, "relation", "add_remove"),
                  private=getattr(ledger, "mode", "private") == "private" and bool(
                      getattr(learner, "private_", True)),
                  receipt=None if receipt is None else receipt.as_dict(dated=True))
    model = kept(learner, facts)
    if not set(model.header["fitted"]) - _BEFORE:
        raise ModelError(f"{info.name} is not fitted yet: there is nothing to keep; fit it first")
    write_model(model, path)


def load_model(path: str | Path, *, most_mb: int = MOST_MB) -> Any:
    """A fitted learner from a model file. Its class is looked up by name among those installed.

    Args:
        path: of a file that `save_model`, or `run --model`, wrote.
        most_mb: MiB that the file may have.

    Raises:
        ModelError: not a model file, or one that says what no such learner can hold.
        LearnerError: its learner is not installed. The learner's package is imported.
    """
    model = read_model(path, most_mb=most_mb)
    return revived(model, load_learner(model.header["learner"]))
