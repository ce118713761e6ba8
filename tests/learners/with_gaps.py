"""A table with gaps that boosters learn: numbers, or any classes."""

import numpy as np

import privledger as pl

N = 1500


def table(classes=None, seed=0):
    rng = np.random.default_rng(seed)
    X = {"size": rng.uniform(0, 1, N), "colour": rng.choice(["red", "green", "blue"], N)}
    X["size"][rng.random(N) < 0.05] = np.nan
    signal = np.nan_to_num(X["size"], nan=0.3) + 0.5 * (X["colour"] == "red")
    if classes is None:
        return X, 10 * signal
    return X, np.array(classes)[np.digitize(signal, np.quantile(
        signal, np.linspace(0, 1, len(classes) + 1)[1:-1]))]


def schema(target):
    return pl.Schema("made up", (
        pl.Column("size", "numeric", "feature", 0, 1, missing=True),
        pl.Column("colour", "categorical", "feature", categories=("red", "green", "blue")),
        target))


NUMBER = pl.Column("y", "numeric", "target", 0, 20)


def labels(*categories):
    return pl.Column("y", "categorical", "target", categories=categories)
