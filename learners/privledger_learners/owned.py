"""Ledgers that a learner made itself, for a plain table: kept for later tables of a stream.

A fitted model holds what may be asked of its ledger, and no way to the ledger that could protect,
append or look at records. Here the ledger is found by that handle, for as long as it lives.
"""

from __future__ import annotations

import weakref

import privledger as pl


class _Place(weakref.ref[pl.LedgerHandle]):
    __slots__ = ("number",)
    number: int


_MADE: dict[int, tuple[_Place, pl.Ledger]] = {}


def _forget(place: _Place) -> None:
    held = _MADE.get(place.number)
    if held is not None and held[0] is place:
        del _MADE[place.number]


def own(ledger: pl.Ledger, data: pl.Dataset) -> None:
    """Note that the learner itself made the ledger of `data`."""
    place = _Place(data.ledger, _forget)
    place.number = id(data.ledger)
    _MADE[place.number] = place, ledger


def made_for(data: pl.Dataset) -> pl.Ledger:
    """The ledger that the learner made for these records.

    Raises:
        NotGranted: somebody else did.
    """
    held = _MADE.get(id(data.ledger))
    if held is None or held[0]() is not data.ledger:
        raise pl.NotGranted("late arrivals are put behind the guard by the ledger's owner: pass "
                            "the Dataset that ledger.append returns")
    return held[1]
