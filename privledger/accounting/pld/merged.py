"""A pair on a lattice that the pair itself dominates: masses are merged until they lie on points.

Masses whose losses lie around a lattice point are put together so that P over Q of the group is
exp(point), or a little more: one mass there is then below them (docs/proofs/privacy-loss.md,
lemma 3). Masses may be cut in two. Groups follow one another from the lowest loss up, or from
the highest down; what is left over at the end goes down.
"""

from __future__ import annotations

import math

import numpy as np

from privledger.accounting.deadline import check_time
from privledger.accounting.moments import Array
from privledger.accounting.pld.masses import FAR, Masses, atom_blur, moved_by
from privledger.accounting.pld.pairs import UNIT, Pair

_PARTS = 4  # of a band: each is one mass, at the loss that its sums have
_FARTHEST = 128  # bands that a group reaches over, and at most a nat: 520 masses
_LOOSE = 512 * UNIT  # of each mass under P and under Q: more than the roundings of such sums
_LEAST = 1e-300  # what floats below may have lost


def lower_masses(
    pair: Pair, step: float, first: int, last: int, offset: float = 0.0, tilt: float = 0.0
) -> Masses:
    """A pair that `pair` dominates, on the losses offset + k step; total P mass at most 1.

    P mass outside the lattice is dropped.

    Args:
        tilt: where the sum's delta is decided; guides which masses are merged.
    """
    check_time()
    first, last = max(first, math.ceil(-FAR / step)), min(last, math.floor(FAR / step))
    if last <= first:
        return Masses(first, np.zeros(1), 0.0, 0.0, offset)
    edges = offset + step / _PARTS * np.arange(_PARTS * first, _PARTS * last + 1.0)
    bands = pair.bands(edges)
    p, q = np.maximum(bands.p - bands.slack_p, 0.0), bands.q + bands.slack_q
    exact = np.zeros(last - first + 1)
    infinite = _add_atoms(pair, p, q, exact, step, first, offset)
    points = edges[::_PARTS]
    ways = (True, False) if pair.top < math.inf else (True,)
    found = [exact + _merged(p, q, points, 2 / (2 + tilt), up=up) for up in ways]
    weight = np.exp(max(tilt, 1e-3) * (points - points[-1]))
    moments = [float(np.dot(one, weight)) for one in found]
    best = found[int(np.argmax(moments))]
    whole = float(np.dot(exact, weight)) + _moment(p, q, tilt, float(points[-1]))
    lost = math.log(whole / max(moments)) if max(moments) > 0 else math.inf
    blur = max(bands.blur, atom_blur(pair)) + moved_by(offset, points)
    return Masses(first, best * (1 - 32 * UNIT), infinite, blur, offset, max(0.0, lost))


def _moment(p: Array, q: Array, tilt: float, top: float) -> float:
    """Sum of P mass times exp(tilt (loss - top)) before anything is merged."""
    held = p > 1e10 * _LEAST
    loss = np.log(p[held] / (q[held] + _LEAST))
    return float(np.dot(p[held], np.exp(max(tilt, 1e-3) * (loss - top))))


def _add_atoms(
    pair: Pair, p: Array, q: Array, exact: Array, step: float, first: int, offset: float
) -> float:
    """Atoms on lattice points stay there, others join the part of a band that they lie in."""
    atoms = pair.atoms()
    # Atoms come rounded up, by less than this.
    mass = atoms.p * max(0.0, 1 - 1e-13 - atoms.raised)
    place = (atoms.loss - offset) / step
    nearest = np.rint(place)
    on = np.abs(place - nearest) <= 4 * UNIT * (np.abs(place) + (
        np.abs(atoms.loss) + abs(offset)) / step)
    on &= (nearest >= first) & (nearest < first + len(exact))
    np.add.at(exact, (nearest[on] - first).astype(np.int64), mass[on])
    part = np.floor((place - first) * _PARTS)
    inside = ~on & (part >= 0) & (part < len(p))
    index = part[inside].astype(np.int64)
    np.add.at(p, index, mass[inside])
    np.add.at(q, index, mass[inside] * np.exp(-atoms.loss[inside]))
    return float(atoms.infinite * (1 - 16 * UNIT))


def _merged(p: Array, q: Array, points: Array, reach: float, *, up: bool) -> Array:
    """P masses at `points`, from masses p and q in `_PARTS` parts of each band.

    Args:
        reach: how far, in nats, a mass may be moved to balance others.
        up: whether groups start at the lowest loss.
    """
    held = np.flatnonzero(p > 1e10 * _LEAST)
    band = held // _PARTS
    loose = _LOOSE + 4 * UNIT * np.maximum(np.abs(points[band]), np.abs(points[band + 1]))
    masses = list(zip(band.tolist(), (p[held] * (1 - loose)).tolist(),
                      (q[held] * (1 + loose) + _LEAST).tolist(), strict=True))
    ratio = np.exp(points).tolist()
    result = [0.0] * len(points)
    far = max(1, min(_FARTHEST, math.floor(reach / (points[1] - points[0]))))
    if up:
        _upwards(masses, ratio, far, result)
    else:
        _downwards(masses[::-1], ratio, far, result)
    return np.array(result)


_Parts = list[tuple[int, float, float]]


def _upwards(masses: _Parts, ratio: list[float], far: int, result: list[float]) -> None:
    """Each group lies on the point above its first mass; later masses lift it to there."""
    at, held, lack, point = -1, 0.0, 0.0, 0.0
    for band, p, q in masses:
        if held and band - at > far:
            _lowered(at, held, lack, ratio, result)
            held = 0.0
        if held:
            gain = p - point * q
            if gain < lack or gain <= 0:
                held += p
                lack -= gain
                continue
            share = lack / gain if lack > 0 else 0.0
            result[at] += held + share * p
            p, q = (1 - share) * p, (1 - share) * q
        at = band + 1
        point = ratio[at]
        held, lack = p, point * q - p
    if held:
        _lowered(at, held, lack, ratio, result)


def _lowered(at: int, held: float, lack: float, ratio: list[float], result: list[float]) -> None:
    """A group that nothing lifted goes to the next point below its own ratio."""
    q = (held + max(lack, 0.0)) / ratio[at] * (1 + _LOOSE)
    while at >= 0 and ratio[at] * q > held:
        at -= 1
    if at >= 0:
        result[at] += held


def _downwards(masses: _Parts, ratio: list[float], far: int, result: list[float]) -> None:
    """Each group lies on the point below its first mass; lower masses use up what it has more.

    It may be left with more: on its point it is then lower than it was.
    """
    at, held, more, point = -1, 0.0, 0.0, 0.0
    for band, p, q in masses:
        if held and at - band > far:
            result[at] += held
            held = 0.0
        if held:
            lack = point * q - p
            if lack <= more:
                held += p
                more -= lack
                continue
            share = more / lack if more > 0 else 0.0
            result[at] += held + share * p
            p, q = (1 - share) * p, (1 - share) * q
        at = band
        point = ratio[at]
        held, more = p, p - point * q
        if more < 0:  # rounding: it lies below its own band
            _lowered(at, held, -more, ratio, result)
            held = 0.0
    if held:
        result[at] += held
