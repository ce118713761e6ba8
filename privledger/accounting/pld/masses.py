"""A pair on a lattice of losses: a dominating one (upper) and a dominated one (lower).

Upper: the piecewise linear profile through the exact one at the lattice points, "connect the
dots" [Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022, arXiv:2207.04380]. Each band's masses
are split between its two ends so that both P and Q mass are kept.
Lower: the profile through points below the exact one, such that each chord stays below a tangent.
Rounding errors move mass up in the upper pair and down in the lower one
(docs/proofs/privacy-loss.md, lemma 3).
"""

from __future__ import annotations

import math

import numpy as np
from attrs import frozen

from privledger.accounting.deadline import check_time
from privledger.accounting.moments import Array
from privledger.accounting.pld.bands import UNIT, Bands
from privledger.accounting.pld.pairs import Pair

_PASSES = 200
_FAR = 600.0  # beyond this, exp(loss) is left out of a split: all mass goes up


@frozen(eq=False)
class Masses:
    """P masses at the losses (first + i) * step, i = 0, 1, ...

    Attributes:
        first: lattice number of the first mass.
        p: shape (n,). The Q masses are p exp(-loss).
        infinite: P mass at a loss of infinity.
        blur: what rounding may have moved any loss by: losses lie within it of the lattice's.
    """

    first: int
    p: Array
    infinite: float
    blur: float = 0.0


def upper_masses(pair: Pair, step: float, first: int, last: int) -> Masses:
    """A pair that dominates `pair`, on lattice numbers `first` to `last`."""
    check_time()
    edges = step * np.arange(first, last + 1, dtype=np.float64)
    p = np.zeros(len(edges))
    infinite = blur = 0.0
    if len(edges) > 1:
        bands = pair.bands(edges)
        rise, mass = dots(bands.p, bands.q, bands.slack_p, bands.slack_q, edges[:-1], step, 1)
        p[1:] += rise
        p[:-1] += mass - rise
        p[0] += bands.below
        infinite, blur = bands.above, bands.blur
    infinite += _add_atoms(p, pair, step, first)
    p *= 1 + 16 * UNIT
    return Masses(first, p, infinite * (1 + 16 * UNIT), max(blur, _atom_blur(pair)))


def _atom_blur(pair: Pair) -> float:
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
    grow = np.exp(np.minimum(left, _FAR))
    mass = np.maximum(p + sign * slack_p, 0.0)
    loose = slack_p + grow * slack_q + p * UNIT * (8 + np.abs(left))
    far = mass if sign > 0 else 0.0
    rise = np.where(left > _FAR, far, (p - grow * q + sign * loose) / gap)
    return np.clip(rise, 0.0, mass), mass


def _add_atoms(p: Array, pair: Pair, step: float, first: int) -> float:
    """Split each atom between its neighbours on the lattice; return what goes to infinity."""
    atoms = pair.atoms()
    if not len(atoms.loss):
        return atoms.infinite
    last = first + len(p) - 1
    place = atoms.loss / step
    nearest = np.rint(place)
    on = np.abs(place - nearest) <= 4 * UNIT * np.abs(place)
    low = np.where(on, nearest, np.floor(place))
    share = np.where(on, 0.0, np.expm1(low * step - atoms.loss) / math.expm1(-step))
    share = np.clip(share * (1 + 64 * UNIT) + 16 * UNIT * np.abs(atoms.loss) / step, 0.0, 1.0)
    share = np.where(on, 0.0, share)
    raised = atoms.p * np.where(on, 1 + 8 * UNIT * np.abs(atoms.loss), 1.0)
    index = np.clip(low, first, last + 1).astype(np.int64) - first
    share = np.where(low < first, 0.0, share)
    beyond = (index >= len(p)) | ((index == len(p) - 1) & (share > 0))
    kept = ~beyond
    np.add.at(p, index[kept], (raised * (1 - share))[kept])
    np.add.at(p, np.minimum(index + 1, len(p) - 1)[kept], (raised * share)[kept])
    return float(atoms.infinite + raised[beyond].sum())


def lower_masses(pair: Pair, step: float, first: int, last: int) -> Masses:
    """A pair that `pair` dominates, on the same lattice; total P mass at most 1.

    The profile through H - d at the lattice points, where d is the gap between H and the
    tangent in the middle of either neighbouring band, whichever is larger: on each band the
    chord is then below that tangent. P mass outside the lattice is dropped.
    """
    check_time()
    edges = step * np.arange(first, last + 0.25, 0.5)
    p = np.zeros(last - first + 1)
    blur = 0.0
    if step > _FAR:
        return Masses(first, p, 0.0)
    if last - first >= 2:
        bands = pair.bands(edges)
        blur = bands.blur
        grid, left, right = edges[::2], slice(0, None, 2), slice(1, None, 2)
        whole, drop = bands.p[left] + bands.p[right], bands.slack_p[left] + bands.slack_p[right]
        rise, mass = dots(whole, bands.q[left] + bands.q[right], drop,
                           bands.slack_q[left] + bands.slack_q[right], grid[:-1], step, -1)
        p[1:] += rise
        p[:-1] += mass - rise
        p = max((_tangent(p, _gap(bands, grid, pressed), _ahead(bands, grid), step)
                 for pressed in range(4)), key=lambda masses: float(masses.sum()))
    atoms = pair.atoms()
    place = atoms.loss / step
    low = np.floor(place + 4 * UNIT * np.abs(place))  # rounding, as in the upper lane
    inside = (low >= first) & (low <= last)
    # Atoms come rounded up, by less than this.
    np.add.at(p, (low[inside] - first).astype(np.int64),
              atoms.p[inside] * max(0.0, 1 - 1e-13 - atoms.raised))
    p *= 1 - 32 * UNIT
    return Masses(first, p, atoms.infinite * (1 - 16 * UNIT), max(blur, _atom_blur(pair)))


def _gap(bands: Bands, grid: Array, pressed: int) -> Array:
    """H minus the nearer tangents of the two neighbouring bands.

    A tangent touches H in the middle of its band; in the first `pressed` bands that hold mass
    it touches at the left end, so that no mass is lost at a sharp lower edge.
    """
    grow = np.exp(np.minimum(grid, _FAR))
    p, q = bands.p.reshape(-1, 2), bands.q.reshape(-1, 2)
    loose_p = (bands.slack_p * (1 + 1e-12) + bands.p * UNIT * 700).reshape(-1, 2)
    loose_q = bands.slack_q.reshape(-1, 2)
    ahead = p[:, 0] - grow[:-1] * q[:, 0] + loose_p[:, 0] + grow[:-1] * loose_q[:, 0]
    behind = grow[1:] * q[:, 1] - p[:, 1] + loose_p[:, 1] + grow[1:] * loose_q[:, 1]
    if pressed:
        held = p.sum(axis=1) > 0
        begin = int(np.argmax(held))
        these = slice(begin, begin + pressed)
        whole = (grow[1:] * q.sum(axis=1) - p.sum(axis=1)
                 + loose_p.sum(axis=1) + grow[1:] * loose_q.sum(axis=1))
        ahead[:begin] = behind[:begin] = 0.0
        ahead[these], behind[these] = 0.0, whole[these]
    gap: Array = np.append(ahead, 0.0)
    gap[1:] = np.maximum(gap[1:], behind)
    return np.asarray(np.maximum(gap, 0.0))


def _ahead(bands: Bands, grid: Array) -> Array:
    """H minus the tangent at the right end of the band to the right, shape (bands,)."""
    grow = np.exp(np.minimum(grid[:-1], _FAR))
    p, q = bands.p.reshape(-1, 2).sum(axis=1), bands.q.reshape(-1, 2).sum(axis=1)
    loose = bands.slack_p.reshape(-1, 2).sum(axis=1) + p * UNIT * 700
    return np.asarray(np.maximum(
        p - grow * q + loose + grow * bands.slack_q.reshape(-1, 2).sum(axis=1), 0.0))


def _tangent(p: Array, gap: Array, ahead: Array, step: float) -> Array:
    """Masses of the profile lowered by `gap`; more where it would not be convex.

    H is 0 from the highest mass on, so all of that mass comes down by one point and g is 0
    there. In the band before, the chord that ends at 0 is below the tangent at that point.
    """
    held = np.flatnonzero(p > 0)
    top = int(held[-1]) if len(held) else 0
    if top < 3:
        return _all_down(p)
    up, down = math.expm1(step), -math.expm1(-step)
    head, gap = p[:top + 1], gap[:top + 1].copy()
    least = float(head[-1]) * down
    gap[-1], gap[-2], gap[-3] = 0.0, least, max(float(gap[-3]), float(ahead[top - 2]))
    near = head + np.append(head[1:], 0.0) + np.append(0.0, head[:-1])
    result = np.zeros(len(p))
    for _ in range(_PASSES):
        rise = np.diff(gap)
        lowered = head - np.append(rise, 0.0) / up + np.append(0.0, rise) / down
        bad = lowered < 0
        bad[-1] = False
        if not bool(bad.any()):
            result[:top] = lowered[:top]
            return result
        if bool(bad[-2]):
            return _all_down(p)  # g would have to fall below 0
        # Raising the gap at a point by t adds t (1/up + 1/down) to its own mass.
        gap = np.where(bad, gap - (lowered - 1e-7 * near) / (1 / up + 1 / down), gap)
    return _all_down(p)


def _all_down(p: Array) -> Array:
    """Every mass one lattice point lower: dominated for certain."""
    return np.append(p[1:], 0.0)

def discounted(weight: Array, step: float) -> Array:
    """sum over k >= i of weight[k] exp(-(k - i) step), in blocks so that no power overflows."""
    size = max(1, int(min(len(weight), 300.0 / step)))
    result = np.empty_like(weight)
    carried = 0.0
    for start in range((len(weight) - 1) // size * size, -1, -size):
        block = weight[start:start + size]
        grow = np.exp(step * np.arange(len(block)))
        inside = np.cumsum((block / grow)[::-1])[::-1] * grow
        # exp(-(len - i) step) carries what lies beyond the block.
        result[start:start + size] = inside + carried * (grow / grow[-1]) * math.exp(-step)
        carried = float(result[start])
    return result
