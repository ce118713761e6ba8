"""`Ledger.open_or_create`: the same again, or a refusal that says what differs."""

import os

import pytest

import privledger as pl
from tests.faults.small import guard
from tests.worlds import refused

BUDGET = pl.Budget(1.0, 1e-6)
PLAN = pl.Gaussian(20.0)


def opened(place, **options):
    return pl.Ledger.open_or_create(place, **{"budget": BUDGET, **options})


def test_it_makes_a_ledger_and_goes_on_with_it(tmp_path):
    spent = []
    for _ in range(3):
        with opened(tmp_path / "l") as ledger:
            ledger.request(PLAN, guard(ledger)).close()
            data = guard(ledger)
            with ledger.request(PLAN, data) as session:
                session.release(PLAN, data.count())
            spent.append(ledger.spent)
            uuid = ledger.state.uuid
            assert ledger.verify() == []
    assert spent == sorted(spent) and spent[0] < spent[2] and uuid


def test_in_memory_it_makes_one_each_time():
    one, other = opened(None), opened(":memory:")
    assert one.state.uuid != other.state.uuid


CAP = pl.Cap(pl.Budget(0.5, 1e-6), data="t")
OTHERS = {
    "budget": {"budget": pl.Budget(2.0, 1e-6)}, "budget, relation": {
        "budget": pl.Budget(1.5, 1e-6), "relation": "replace_one"},
    "filter": {"filter": "rdp"}, "mode": {"mode": "simulation"}, "caps": {"caps": [CAP]},
    "policy": {"policy": pl.Policy(max_epsilon=1.0, max_delta=1e-6)}}


@pytest.mark.parametrize("name", OTHERS)
def test_what_differs_is_named_and_nothing_is_written(tmp_path, name):
    place = tmp_path / "l"
    opened(place, filter="gdp").close()
    before = place.read_bytes()
    with pytest.raises(pl.InvalidValue, match=f"^{name} must be what .*l was created w") as caught:
        opened(place, **{"filter": "gdp", **OTHERS[name]})
    assert "othing was written" in str(caught.value) and place.read_bytes() == before
    opened(place, filter="auto").close()  # whatever was fixed


def test_everything_that_is_the_same_is_gone_on_with(tmp_path):
    same = {"caps": [CAP], "policy": pl.Policy(max_epsilon=1.0, max_delta=1e-6, new_ledger=True),
            "filter": "rdp", "order": 24.0}
    for _ in range(2):
        opened(tmp_path / "l", **same).close()
    with pytest.raises(pl.InvalidValue, match="^order must be"):
        opened(tmp_path / "l", **{**same, "order": 32.0})


def test_a_unit_or_a_key_that_differs(tmp_path):
    key, other = b"k" * 32, b"o" * 32
    opened(tmp_path / "l", unit="person", people_key=key).close()
    opened(tmp_path / "l", unit="person", people_key=key).close()
    refused(pl.InvalidValue, lambda: opened(tmp_path / "l"), match="^unit must be")
    refused(pl.InvalidValue, lambda: opened(tmp_path / "l", unit="person", people_key=other))


def test_simulation_never_mixes_with_private(tmp_path):
    for first, second in (("private", "simulation"), ("simulation", "private")):
        opened(tmp_path / first, mode=first).close()
        with pytest.raises(pl.InvalidValue, match="^mode must be"):
            opened(tmp_path / first, mode=second)
    opened(tmp_path / "s", mode="simulation", seed=5).close()
    opened(tmp_path / "s", mode="simulation", seed=5).close()
    with pytest.raises(pl.InvalidValue, match="^seed must be"):
        opened(tmp_path / "s", mode="simulation", seed=6)


def test_what_is_no_ledger_is_neither_opened_nor_overwritten(tmp_path):
    place = tmp_path / "l"
    place.write_bytes(b"a table" * 999)
    refused(pl.LedgerError, lambda: opened(place))
    assert place.read_bytes() == b"a table" * 999
    refused(pl.LedgerError, lambda: opened(tmp_path / "nowhere" / "l"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_of_many_that_find_none_one_makes_it(tmp_path):
    def work(place):
        with opened(place) as ledger:
            data = guard(ledger)
            with ledger.request(pl.Gaussian(50.0), data) as session:
                session.release(pl.Gaussian(50.0), data.count())

    for number in range(3):
        place = tmp_path / str(number)
        children = []
        for _ in range(6):
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    work(place)
                    status = 0
                finally:
                    os._exit(status)
            children.append(pid)
        assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 6
        with pl.Ledger.open(place) as ledger:
            assert len(ledger.state.grants) == 6 and ledger.verify() == []
