"""A question about every single label, for randomised response: one answer per record."""

from __future__ import annotations

from typing import Any

import numpy as np
from attrs import field, frozen
from numpy.typing import NDArray

from privledger.errors import InvalidValue
from privledger.facts.plain import fixed
from privledger.rounding import whole_numbers


def _whole(name: str, value: Any, dimensions: int) -> NDArray[np.int64]:
    array = whole_numbers(name, value, dimensions)
    if not array.size:
        raise InvalidValue(name, "none", "at least one")
    return fixed(array)


def _rows(value: Any) -> slice | NDArray[np.int64] | None:
    return value if value is None or type(value) is slice else _whole("rows", value, 1)


def _candidates(value: Any) -> NDArray[np.int64] | None:
    return None if value is None else _whole("candidates", value, 2)


@frozen(eq=False, repr=False)
class LabelQuery:
    """The labels of a handle's records, each randomised by itself; see `Dataset.labels`.

    Attributes:
        rows: public positions among the handle's records; None for all.
        candidates: public class positions, shape (rows asked, k); None for every class.
    """

    data: Any
    rows: slice | NDArray[np.int64] | None = field(default=None, converter=_rows)
    candidates: NDArray[np.int64] | None = field(default=None, converter=_candidates)
    what: str = "labels"

    def among(self, positions: NDArray[np.int64], classes: int) -> NDArray[np.int64]:
        """The positions that are asked, out of those of the handle's records.

        Raises:
            InvalidValue: no row, a row twice or outside, or candidates that do not fit them.
        """
        asked = np.arange(len(positions)) if self.rows is None else self.rows
        if isinstance(asked, slice):
            asked = np.arange(len(positions))[asked]
        # A label that answers twice is randomised twice, and pays for one.
        if not len(asked) or not int(asked.max()) < len(positions) or (
                len(np.unique(asked)) != len(asked)):
            raise InvalidValue("rows", "given", f"distinct, and below {len(positions)}")
        if self.candidates is not None:
            self._check_candidates(len(asked), classes)
        chosen: NDArray[np.int64] = positions[asked]
        return chosen

    def _check_candidates(self, asked: int, classes: int) -> None:
        assert self.candidates is not None
        lists = np.sort(self.candidates, axis=1)
        if len(lists) != asked or not int(lists.max()) < classes or (
                (lists[:, 1:] == lists[:, :-1]).any()):
            raise InvalidValue("candidates", self.candidates.shape,
                               f"{asked} lists of distinct classes below {classes}")

    @property
    def label(self) -> str:
        """What the ledger records."""
        return self.what if self.candidates is None else f"{self.what} among public candidates"

    def __repr__(self) -> str:
        return f"LabelQuery({self.label!r})"
