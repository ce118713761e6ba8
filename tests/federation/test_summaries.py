"""What is summed in a summary is summed over owners; its intervals know of all their noise."""

import numpy as np
import pytest

import privledger as pl
from privledger.errors import NotGranted, UnsupportedNode
from tests.federation.test_rounds import SCHEMA, Silent, federated, owners, split, table
from tests.worlds import refused

STATISTICS = ["count", "sum(y)", "mean(y)", "std(size)", "histogram(colour)", "corr(size, y)"]
RANKS = np.linspace(0.05, 0.95, 10).tolist()


def summary(**more):
    return pl.summary(*STATISTICS, pl.quantile("y", RANKS), by=[pl.cut("size", [0.5])],
                      **{"epsilon": 2.0, "delta": 1e-6, "noise": "gaussian", "schema": SCHEMA}
                      | more)


def asked(ask, k=3, n=300, source=None):
    X, y = table(n)
    ledgers, run, parties = owners(split(X, y, [n * i // k for i in range(1, k)]),
                                   ask.plan(SCHEMA), delta=1e-6, source=source, learner="summary")
    federation, _ = federated(run, parties)
    return ledgers, ask.run(federation.data), X, y


def test_without_noise_the_answer_is_that_of_one_table():
    ask = summary()
    X, y = table(300)
    one = pl.Ledger.create(None, budget=pl.Budget(3.0, 1e-6))
    one._source = Silent()
    whole = ask.run(one.protect(X, y, SCHEMA))
    ledgers, answer, *_ = asked(ask, source=Silent)
    assert [(*row.group, row.statistic, row.cell) for row in answer.held] == [
        (*row.group, row.statistic, row.cell) for row in whole.held]
    for row, same in zip(answer.held, whole.held, strict=True):
        if row.statistic.startswith("corr"):  # spreads have a floor, which is the noise's
            continue
        assert row.value == pytest.approx(same.value, rel=1e-6, abs=1e-6), row.statistic
        if same.noise_sd is not None and row.statistic in ("count", "sum(y)"):
            assert row.noise_sd == pytest.approx(same.noise_sd * 3**0.5)  # all noise of each
    assert all(0 < ledger.spent <= 2.0 and ledger.verify() == [] for ledger in ledgers)


def test_intervals_hold_the_noise_of_all_owners():
    """16 counts in each of 12 runs of one seedless source: fewer than 150 of 192 with .95 each come
    with less than 1e-12; without the factor sqrt(9) about 94 do."""
    ask = pl.summary(pl.histogram("size", np.linspace(0.1, 0.9, 15).tolist()), epsilon=2.0,
                     delta=1e-6, noise="gaussian", schema=SCHEMA)
    kept = 0
    for _ in range(12):
        _, answer, X, _ = asked(ask, k=9, n=90)
        true = np.histogram(X["size"], [0, *np.linspace(0.1, 0.9, 15), 1])[0]
        kept += sum(row.low <= value <= row.high
                    for row, value in zip(answer.held, true, strict=True))
    assert kept >= 150


@pytest.mark.parametrize(("ask", "named"), [
    (summary(noise="laplace"), "Laplace"),
    (pl.summary(pl.median("y"), epsilon=2.0, delta=1e-6, noise="gaussian", schema=SCHEMA),
     "Exponential")])
def test_what_is_not_summed_is_refused_by_name(ask, named):
    refused(UnsupportedNode, lambda: asked(ask), match=named)


@pytest.mark.parametrize(("noise", "delta"), [("normal", 1e-6), ("gaussian", 0.0), (None, 1e-6)])
def test_noise_is_one_of_three_words(noise, delta):
    with pytest.raises(pl.InvalidValue, match="noise"):
        pl.summary("count", noise=noise, delta=delta).plan(SCHEMA)


def test_answers_of_owners_are_not_kept():
    X, y = table(30)
    ask = pl.summary("count", epsilon=1.0, delta=1e-6, noise="gaussian", schema=SCHEMA)
    _, run, parties = owners([(X, y)], ask.plan(SCHEMA), delta=1e-6, learner="summary")
    refused(NotGranted, lambda: ask.run(federated(run, parties)[0].data, keep=True), match="answer")
