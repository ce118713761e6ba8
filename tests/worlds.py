"""Tables and ledgers that many suites live in, by name; and what "refused, unread" means."""

from __future__ import annotations

import numpy as np

import privledger as pl
from privledger.noise.source import SystemSource

PEOPLE = pl.Schema("people", (
    pl.Column("size", "numeric", "feature", 0.0, 1.0),
    pl.Column("colour", "categorical", "feature", categories=("red", "green")),
    pl.Column("kind", "categorical", "target", categories=("a", "b", "c"))))
SIXTY = 60
SIXTY_X = {"size": np.arange(SIXTY) / SIXTY,
           "colour": np.array(["red", "green"], dtype=object)[np.arange(SIXTY) % 2]}
SIXTY_Y = np.array(["a", "b", "c"])[np.arange(SIXTY) % 3]
SIZES = pl.Schema("made up", (pl.Column("size", "numeric", "feature", 0, 1),
                              pl.Column("y", "numeric", "target", 0, 20)))
MADE_UP = pl.Schema("made up", (
    pl.Column("size", "numeric", "feature", 0, 1),
    pl.Column("colour", "categorical", "feature", categories=("red", "green", "blue")),
    pl.Column("y", "numeric", "target", 0, 20)))


class Silent(SystemSource):
    """No noise at all: only to compare sums. Never outside a test."""

    def gaussian(self, sigma, size):
        return np.zeros(size, dtype=np.int64)


def sixty(relation="add_remove", people=None, **options):
    """(ledger, data) of sixty rows that nearly no noise hides, with any number of releases."""
    ledger = pl.Ledger.create(None, budget=pl.Budget(1e12, 1e-6), relation=relation, **options)
    more = {} if people is None else {"people": people}
    return ledger, ledger.protect(SIXTY_X, SIXTY_Y, PEOPLE, **more)


def made_up(n, seed=0):
    """(X, y) of `MADE_UP`: what a model can learn."""
    rng = np.random.default_rng(seed)
    X = {"size": rng.uniform(0, 1, n), "colour": rng.choice(["red", "green", "blue"], n)}
    return X, 10 * X["size"] + 5 * (X["colour"] == "red")


def refuses(ledger, data, mechanism, query, error=pl.errors.UnsupportedNode, match="", node=None):
    """The release of `mechanism` under a grant of `node`, or of itself, is refused, unread."""
    import pytest  # owners in processes of their own need none

    with ledger.request(mechanism if node is None else node, data) as session:
        with pytest.raises(error, match=match or None):
            session.release(mechanism, query)
        assert session.releases == 0
    assert data._vault.opened == 0
