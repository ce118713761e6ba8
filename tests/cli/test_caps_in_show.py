"""The JSON of `show` tells each cap, and every charge in the unit in which charges add up."""

import numpy as np
import pytest

import privledger as pl
from tests.worlds import refused, schema_of

SCHEMA = schema_of("s", {"x": (0.0, 1.0)})


@pytest.mark.parametrize(("kind", "delta", "law"), [
    ("gdp", 1e-6, pl.Gaussian), ("basic", 1e-6, pl.Laplace), ("basic", 0.0, pl.Laplace),
    ("zcdp", 1e-6, pl.Gaussian)])
def test_caps_and_charges_add_up_and_so_many_more_fit(as_json, tmp_path, kind, delta, law):
    """So many of the newest that is paid for: what was handed back does not count."""
    node = law(20.0)
    path = tmp_path / "a.ledger"
    caps = [pl.Cap(pl.Budget(0.8, delta), labels={"team": "a"})]
    with pl.Ledger.create(path, budget=pl.Budget(2.0, delta), filter=kind, caps=caps) as ledger:
        data = ledger.protect({"x": np.linspace(0, 1, 30)}, SCHEMA, name="rows")
        for team in "ab":
            ledger.request(node, data, labels={"team": team}).close()
        ledger.request(law(15.0), data, labels={"team": "a"}).close(failed=RuntimeError)
        found = as_json("show", path)
        (cap,) = found["caps"]
        for key in ("amount", "share"):
            parts = [grant[key] for grant in found["grants"]]
            assert sum(parts) == pytest.approx(found[key], rel=1e-9) and parts[0] > parts[-1] == 0
        assert cap["amount"] == pytest.approx(found["grants"][0]["amount"], rel=1e-9)
        assert cap["name"] == "the cap for team a" and not cap["windowed"]
        assert found["unit"] and found["grants"][0]["labels"] == {"team": "a"}
        assert 0 < cap["spent"] < cap["epsilon"] == 0.8 and 0 < cap["share"] <= cap["full"] < 1
        for _ in range(cap["times"]):
            ledger.request(node, data, labels={"team": "a"}).close()
        refused(pl.BudgetExceeded, lambda: ledger.request(node, data, labels={"team": "a"}))


def test_before_the_first_grant_all_of_a_cap_is_left(as_json, tmp_path):
    path = tmp_path / "a.ledger"
    caps = [pl.Cap(pl.Budget(0.8, 1e-6), labels={"team": "a"})]
    pl.Ledger.create(path, budget=pl.Budget(2.0, 1e-6), caps=caps).close()
    found = as_json("show", path)
    (cap,) = found["caps"]
    assert (cap["spent"], cap["left"], cap["times"], found["amount"]) == (0, 0.8, None, 0)
