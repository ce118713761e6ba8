"""An interrupt at every line of a commit to a real file, beside another thread and client."""

from __future__ import annotations

import sys

import pytest

import privledger as pl
from privledger.ledger import History, audit
from privledger.storage import SQLiteStore
from tests.bodies import body_of, said
from tests.simulation.schedules import inside
from tests.simulation.world import WATCHED, World

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning")


def line(name):
    return lambda state: said(("refused", {"number": name}))


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_nobody_else_is_held_up_by_an_interrupt_at_any_line(tmp_path, every):
    pl.Ledger.create(tmp_path / "x.ledger", budget=pl.Budget(1.0), filter="basic").close()
    store = SQLiteStore(tmp_path / "x.ledger")
    second = SQLiteStore(tmp_path / "x.ledger")
    history, other = History(store), History(second)
    watched = {*WATCHED, *(name for name in sys.modules if name.startswith("privledger.storage."))}
    hits = 0
    for number in range(1, 500, every):
        with inside(World(number, watched)) as world:
            names = [f"{number}.{who}" for who in range(3)]
            first = world.add(lambda names=names: history.commit(line(names[0])), [number])
            beside = world.add(lambda names=names: history.commit(line(names[1])))
            world.run()
            client = world.add(lambda names=names: other.commit(line(names[2])))
            world.run_on(client)
        hits += first.was_hit
        assert first.error is None or isinstance(first.error, KeyboardInterrupt), repr(first.error)
        assert beside.error is None and client.error is None, (number, beside.error, client.error)
        last = [body_of(one)["number"] for one in store.read()[-3:] if one.event.kind == "refused"]
        assert set(names[1:]) <= set(last) and len(set(last)) == len(last), number
    assert hits > 200 / every and audit(store) == []
    assert history.refresh().refusals == len(store.read()) - 2
    store.close()
    second.close()
