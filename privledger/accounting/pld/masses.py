"""A pair on a lattice of losses that dominates it.

The piecewise linear profile through the exact one at the lattice points, "connect the
dots" [Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, arXiv:2207.04380]. Each band's masses
are split between its two ends so that both P and Q mass are kept.
Rounding errors move mass up (docs/proofs/privacy-loss.md, lemma 3). The pair below is in `merged`.
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

from privledger.accounting.deadline import check_time
from privledger.accounting.moments import Array
from privledger.accounting.pld.pairs import UNIT, Pair

FAR = 600.0
"""Nats beyond which exp(loss) is left out of a split: all mass goes up."""


@frozen(eq=False)
class Masses:
    """P masses at the losses offset + (first + i) * step, i = 0, 1, ...

    Attributes:
        first: lattice number of the first mass.
        p: shape (n,). The Q masses are p exp(-loss).
        infinite: P mass at a loss of infinity.
        blur: what rounding may have moved any loss by: losses lie within it of the lattice's.
        offset: nats that the whole lattice of this pair is moved by.
        lost: about what a pair below lost of its log moment at the tilt. Proves nothing.
    """

    first: int
    p: Array
    infinite: float
    blur: float = 0.0
    offset: float = 0.0
    lost: float = 0.0


def upper_masses(
    pair: Pair, step: float, first: int, last: int, offset: float = 0.0
) -> Masses:
    """A pair that dominates `pair`, on the losses offset + k step for k from `first` to `last`."""
    check_time()
    edges = offset + step * np.arange(first, last + 1, dtype=np.float64)
    p = np.zeros(len(edges))
    infinite = blur = 0.0
    if len(edges) > 1:
        bands = pair.bands(edges)
        rise, mass = dots(bands.p, bands.q, bands.slack_p, bands.slack_q, edges[:-1], step, 1)
        p[1:] += rise
        p[:-1] += mass - rise
        p[0] += bands.below
        infinite, blur = bands.above, bands.blur
    infinite += _add_atoms(p, pair, step, first, offset)
    p *= 1 + 16 * UNIT
    blur = max(blur, atom_blur(pair)) + moved_by(offset, edges)
    return Masses(first, p, infinite * (1 + 16 * UNIT), blur, offset)


def moved_by(offset: float, points: Array) -> float:
    """What rounding may have moved the points of a lattice by that has an offset."""
    return 8 * UNIT * float(abs(offset) + np.max(np.abs(points))) if offset else 0.0


def atom_blur(pair: Pair) -> float:
    """What rounding may have moved a pair's atoms by, in nats."""
    atoms = pair.atoms()
    return atoms.blur + 16 * UNIT * float(np.max(np.abs(atoms.loss), initial=0.0))


def dots(
    p: Array, q: Array, slack_p: Array, slack_q: Array, left: Array, step: Array | float,
    sign: int,
) -> tuple[Array, Array]:
    """Connect-the-dots: P mass that goes to the right end of each band, and the whole mass.

    Args:
        left: left ends. step: widths, above 0. sign: +1 rounds up, -1 down.
    """
    gap = -np.expm1(-np.asarray(step))
    grow = np.exp(np.minimum(left, FAR))
    mass = np.maximum(p + sign * slack_p, 0.0)
    loose = slack_p + grow * slack_q + p * UNIT * (8 + np.abs(left))
    far = mass if sign > 0 else 0.0
    rise = np.where(left > FAR, far, (p - grow * q + sign * loose) / gap)
    return np.clip(rise, 0.0, mass), mass


def _add_atoms(p: Array, pair: Pair, step: float, first: int, offset: float) -> float:
    """Split each atom between its neighbours on the lattice; return what goes to infinity."""
    atoms = pair.atoms()
    if not len(atoms.loss):
        return atoms.infinite
    last = first + len(p) - 1
    place = (atoms.loss - offset) / step
    nearest = np.rint(place)
    size = np.abs(atoms.loss) + abs(offset)
    on = np.abs(place - nearest) <= 4 * UNIT * (size / step if offset else np.abs(place))
    low = np.where(on, nearest, np.floor(place))
    share = np.where(on, 0.0, np.expm1(offset + low * step - atoms.loss) / math.expm1(-step))
    share = np.clip(share * (1 + 64 * UNIT) + 16 * UNIT * size / step, 0.0, 1.0)
    share = np.where(on, 0.0, share)
    raised = atoms.p * np.where(on, 1 + 8 * UNIT * np.abs(atoms.loss), 1.0)
    index = np.clip(low, first, last + 1).astype(np.int64) - first
    share = np.where(low < first, 0.0, share)
    beyond = (index >= len(p)) | ((index == len(p) - 1) & (share > 0))
    kept = ~beyond
    np.add.at(p, index[kept], (raised * (1 - share))[kept])
    np.add.at(p, np.minimum(index + 1, len(p) - 1)[kept], (raised * share)[kept])
    return float(atoms.infinite + raised[beyond].sum())


def discounted(weight: Array, step: float) -> Array:
    """sum over k >= i of weight[k] exp(-(k - i) step), in blocks so that no power overflows."""
    size = max(1, int(min(len(weight), 300.0 / step)))
    result = np.empty_like(weight)
    carried = 0.0
    for start in range((len(weight) - 1) // size * size, -1, -size):
        block = weight[start:start + size]
        grow = np.arange(len(block), dtype=np.float64)
        grow *= step
        np.exp(grow, out=grow)
        inside = np.divide(block, grow, out=result[start:start + size])
        np.cumsum(inside[::-1], out=inside[::-1])
        inside *= grow
        if carried:  # exp(-(len - i) step) of what lies beyond the block
            inside += carried * (grow / grow[-1]) * math.exp(-step)
        carried = float(result[start])
    return result
