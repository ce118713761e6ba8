"""The server goes away while sessions are being closed, and comes back."""

import threading

import pytest

import privledger as pl
from privledger.ledger import settle
from tests.faults.small import guard

G = pl.Gaussian(90.0)


def sessions(url, number):
    ledger = pl.Ledger.create(url, budget=pl.Budget(1.0, 1e-6), filter="gdp")
    data = guard(ledger)
    made = [ledger.request(pl.Repeat(G, 3), data) for _ in range(number)]
    for session in made:
        session.release(G, pl.questions.Query(data, (pl.questions.Ones(),)))
    return ledger, made


def settled(url):
    with pl.Ledger.open(url) as ledger:
        assert ledger.verify() == []
        return [(grant.status, grant.releases) for grant in ledger.state.grants.values()]


@pytest.fixture(autouse=True)
def _own_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_server_that_comes_back_is_waited_for(postgres, monkeypatch):
    monkeypatch.setattr(settle, "LONG_PAUSES", (0.1,) * 100)
    url = postgres.url()
    ledger, made = sessions(url, 12)
    postgres.stop()
    errors = []

    def close(session):
        try:
            session.close()
        except pl.errors.NotSettled as error:
            errors.append(error)

    threads = [threading.Thread(target=close, args=(session,)) for session in made]
    for thread in threads:
        thread.start()
    postgres.start()
    for thread in threads:
        thread.join(120)
    ledger.close()
    assert not errors and settled(url) == [("settled", 1)] * 12


def test_a_server_that_stays_away_leaves_spills_that_the_next_opening_takes_up(
        postgres, monkeypatch, tmp_path):
    monkeypatch.setattr(settle, "LONG_PAUSES", (0.01,))
    url = postgres.url()
    _, made = sessions(url, 3)
    postgres.stop()
    try:
        for session in made:
            with pytest.raises(pl.errors.NotSettled) as caught:
                session.close()
            assert caught.value.spill.startswith(str(tmp_path / "state" / "privledger"))
    finally:
        postgres.start()
    assert settled(url) == [("settled", 1)] * 3
    assert not list((tmp_path / "state" / "privledger").iterdir())
