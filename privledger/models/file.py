"""Model files: one line, a hash, a header in JSON, and arrays as they lie in memory.

    privledger model 1\\n
    32 bytes: sha256 of everything that follows
    8 bytes: length of the header, big-endian
    the header: canonical JSON with `learner`, `schema`, `params`, `fitted`, `arrays`, ...
    the arrays, one after the other, little-endian, in C order; their dtypes and shapes are in
    the header's `arrays`

Nothing is compressed, nothing is named by a path, and nothing is run. The hash finds accidents;
whoever writes the file can write the hash.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import stat
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from attrs import frozen
from numpy.typing import NDArray

from privledger.errors import ModelError
from privledger.graph import canonical
from privledger.models.tree import DTYPES
from privledger.rounding import MOST_COUNT, count

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


def _shape_of(array: NDArray[Any]) -> dict[str, Any]:
    return {"dtype": f"{array.dtype.kind}{array.dtype.itemsize}", "shape": list(array.shape)}


def model_bytes(model: ModelFile) -> bytes:
    """What `save_model` writes: the header, then the learner's fields."""
    listed = [_shape_of(array) for array in model.arrays]
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


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key twice")
    return found


def _header(text: bytes) -> dict[str, Any]:
    if sum(map(text.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise ModelError(f"a model file with more than {MOST_VALUES} values in its header")
    try:
        found = json.loads(text, parse_constant=_no_number, object_pairs_hook=_pairs)
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
    place = Path(path)
    number, name = tempfile.mkstemp(dir=place.absolute().parent, prefix=f".{place.name}.")
    try:
        with open(number, "wb") as file:
            file.write(model_bytes(model))
        os.replace(name, place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
