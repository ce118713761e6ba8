"""Tables and ledgers that many suites live in, by name; and what "refused, unread" means."""

from __future__ import annotations

import threading

import numpy as np

import privledger as pl
from privledger.noise.source import SystemSource


def schema_of(name, features, **target):
    """A schema of public ranges (pairs) and categories (lists): features, then the target."""
    def column(role, name, values):
        if isinstance(values, tuple):
            return pl.Column(name, "numeric", role, *values)
        return pl.Column(name, "categorical", role, categories=tuple(values))

    return pl.Schema(name, (*(column("feature", *one) for one in features.items()),
                            *(column("target", *one) for one in target.items())))


PEOPLE = schema_of("people", {"size": (0.0, 1.0), "colour": ["red", "green"]}, kind=["a", "b", "c"])
SIXTY = 60
SIXTY_X = {"size": np.arange(SIXTY) / SIXTY,
           "colour": np.array(["red", "green"], dtype=object)[np.arange(SIXTY) % 2]}
SIXTY_Y = np.array(["a", "b", "c"])[np.arange(SIXTY) % 3]
SIZES = schema_of("made up", {"size": (0, 1)}, y=(0, 20))
MADE_UP = schema_of("made up", {"size": (0, 1), "colour": ["red", "green", "blue"]}, y=(0, 20))


class NoVault:
    """For handles of questions that are never asked of a ledger."""

    identity = "toy"


class Silent(SystemSource):
    """No noise at all: only to compare sums. Never outside a test."""

    def gaussian(self, sigma, size):
        return np.zeros(size, dtype=np.int64)


def protected(budget, *table, place=None, **options):
    """(ledger, data) of a table behind a new ledger; options of `Ledger.create` and `protect`."""
    theirs = {name: options.pop(name) for name in (
        "name", "public_features", "unlabelled", "people", "engine", "spool") if name in options}
    ledger = pl.Ledger.create(place, budget=budget, **options)
    return ledger, ledger.protect(*table, **theirs)


def sixty(relation="add_remove", people=None, **options):
    """(ledger, data) of sixty rows that nearly no noise hides, with any number of releases."""
    more = {} if people is None else {"people": people}
    return protected(pl.Budget(1e12, 1e-6), SIXTY_X, SIXTY_Y, PEOPLE, relation=relation, **more,
                     **options)


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


def refused(error, *calls, match=None):
    """Each of the calls is refused in this way."""
    import pytest

    assert calls
    for call in calls:
        with pytest.raises(error, match=match):
            call()


def together(n, work):
    """So many threads do it at once, each to its end."""
    threads = [threading.Thread(target=work) for _ in range(n)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
