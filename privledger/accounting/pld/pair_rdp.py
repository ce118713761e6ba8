"""Renyi bounds of dominating pairs.

A pair that dominates has larger Renyi divergences at every order above 1, and so has the pair
that connect-the-dots makes of it (docs/proofs/fixed-size.md, lemma). The mesh need not be
uniform here: it follows the probe, however narrow the bulk of the losses is.
"""

from __future__ import annotations

import math

import numpy as np

from privledger.accounting.moments import Array, log_gain, raise_bounds
from privledger.accounting.pld.accountant import Items
from privledger.accounting.pld.grid import TooMuch
from privledger.accounting.pld.losses import Losses, resolve
from privledger.accounting.pld.masses import dots
from privledger.accounting.pld.pairs import Pair

_BETWEEN = 24  # mesh points between two points of the probe
_CHUNK = 16
_FAR = 40.0  # nats


def losses_rdp(losses: Losses, orders: tuple[float, ...]) -> Array:
    """Bounds in nats, shape (len(orders),); infinity where nothing is proved."""
    found = np.zeros(len(orders))
    lanes = [losses.remove] if losses.symmetric else [losses.remove, losses.add]
    try:
        for lane in lanes:
            found = np.maximum(found, _lane(resolve(lane, 1e-30), orders))
    except TooMuch:
        return np.full(len(orders), math.inf)
    return found


def _lane(items: Items, orders: tuple[float, ...]) -> Array:
    total = np.zeros(len(orders))
    for pair, count in items:
        total = total + count * pair_rdp(pair, orders)
    return raise_bounds(total)


def pair_rdp(pair: Pair, orders: tuple[float, ...]) -> Array:
    """Renyi divergence of P from Q at each order, rounded up."""
    beta = np.array(orders) - 1
    atoms = pair.atoms()
    if atoms.infinite > 0:
        return np.full(len(beta), math.inf)
    edges = _seen(pair, _mesh(pair))
    tail = np.array([pair.log_tail_moment(float(edges[-1]), float(b)) for b in beta])
    loss, p, blur = _dots(pair, edges)
    blur = max(blur, atoms.blur + 4e-15 * float(np.max(np.abs(atoms.loss), initial=0.0)))
    loss, p = np.append(loss, atoms.loss), np.append(p, atoms.p)
    kept = (p > 0) & (loss != 0)
    log_p, loss = np.log(p[kept]), loss[kept]
    parts = []
    for start in range(0, len(beta), _CHUNK):
        rows = beta[start:start + _CHUNK, None]
        logs = log_p + log_gain(np.broadcast_to(loss, (len(rows), len(loss))), rows)
        parts.append(np.logaddexp.reduce(logs, axis=1, initial=-math.inf))
    # The margin covers masses that rounding moved up below loss 0.
    log_moment = np.logaddexp(np.concatenate(parts), tail) + 1e-10
    if atoms.q_only > 0:
        # E_Q (P/Q)^order = 1 + E_P gain + beta (Q mass without P mass): see `moments`.
        log_moment = np.logaddexp(log_moment, np.log(beta * atoms.q_only))
    # Losses moved up by b raise a Renyi divergence by at most order / (order - 1) b.
    return raise_bounds(np.logaddexp(0.0, log_moment) / beta + (1 + 1 / beta) * blur)


def _mesh(pair: Pair) -> Array:
    """Points of the probe with more between them, up to the largest finite loss."""
    points = np.unique(pair.probe()[0])
    if math.isfinite(pair.top):
        points = np.unique(np.append(points, pair.top))
    if len(points) < 2:
        return np.array([points[0], points[0]])
    steps = np.arange(_BETWEEN) / _BETWEEN
    inside = points[:-1, None] + np.diff(points)[:, None] * steps
    end = points[-1]
    # High orders look far beyond the mass: there a tail bound needs a large loss to be close.
    beyond = [] if math.isfinite(pair.top) else end + np.linspace(0.0, _FAR, 4001)[1:]
    return np.concatenate([inside.ravel(), [end], beyond])


def _seen(pair: Pair, edges: Array) -> Array:
    """The mesh up to where band masses underflow: from there on the tail's bound counts."""
    if len(edges) < 3 or math.isfinite(pair.top):
        return edges
    full = np.flatnonzero(pair.bands(edges).p > 1e-280)
    return edges[:int(full[-1]) + 2] if len(full) else edges[:2]


def _dots(pair: Pair, edges: Array) -> tuple[Array, Array, float]:
    """Connect-the-dots on any mesh: losses and P masses, rounded up, and the edges' error."""
    bands = pair.bands(edges)
    width = np.maximum(np.diff(edges), 1e-300)
    rise, mass = dots(bands.p, bands.q, bands.slack_p, bands.slack_q, edges[:-1], width, 1)
    p = np.append(0.0, rise) + np.append(mass - rise, 0.0)
    p[0] += bands.below
    return edges, p * (1 + 4e-15), bands.blur
