"""`whatif --how-many` and `check --warn-at`: in units, exact, held against the ledger itself."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.cli.app import main
from privledger.graph import cost_of
from privledger.ledger.events import Granted
from privledger.ledger.view_charges import forecast, fullness
from tests.worlds import schema_of

SCHEMA = schema_of("t", {"x": (0, 1)})
COUNT = pl.Gaussian(20.0)


def made(path=None, spent=0, **options):
    ledger = pl.Ledger.create(path, budget=pl.Budget(1.0, 1e-6), **options)
    data = ledger.protect({"x": np.arange(50) / 50}, SCHEMA, name="t")
    for _ in range(spent):
        ledger.request(COUNT, data, learner="a", labels={"team": "a"}).close()
    return ledger, data


def run(*args):
    return CliRunner().invoke(main, list(args))


def until_refused(ledger, data, plan, **options):
    times = 0
    while True:
        try:
            ledger.request(plan, data, **options).close()
        except pl.BudgetExceeded:
            return times
        times += 1


@settings(max_examples=12)
@given(st.sampled_from(["gdp", "zcdp", "rdp", "basic"]), st.floats(6.0, 40.0), st.integers(0, 3))
def test_exactly_so_many_more_fit(kind, noise, spent):
    order = 16.0 if kind == "rdp" else None
    delta = 1e-7 if kind == "basic" else 0.0
    ledger, data = made(filter=kind, order=order)
    plan = pl.Gaussian(noise)
    for _ in range(spent):
        try:
            ledger.request(plan, data, delta=delta).close()
        except pl.BudgetExceeded:
            break
    state = ledger.state
    cost = cost_of(plan, "add_remove", state.rule.orders)
    asked = Granted("", "", "t", {}, delta, 0, 0)
    assert forecast(state, state.rule, cost, asked).times == until_refused(
        ledger, data, plan, delta=delta)


def test_a_cap_of_the_grants_own_team_counts(tmp_path):
    path = str(tmp_path / "l.ledger")
    caps = [pl.Cap(pl.Budget(0.5, 1e-6), labels={"team": "a"})]
    ledger, data = made(path, 1, caps=caps, filter="gdp")
    grant = next(iter(ledger.state.grants))
    found = json.loads(run("whatif", path, "--again", grant, "--how-many", "--format",
                           "json").output)["how_many"]
    assert [room["name"] for room in found["rooms"]] == ["the ledger", "the cap for team a"]
    assert "more would be granted" in run("whatif", path, "--again", grant, "--how-many").output
    assert found["times"] == until_refused(ledger, data, COUNT, labels={"team": "a"})
    assert run("whatif", path, "--how-many").exit_code == 2


def test_what_costs_nothing_fits_any_number_of_times():
    state = made(spent=1)[0].state
    cost = cost_of(pl.nodes.Public("a schema"), "add_remove")
    assert forecast(state, state.rule, cost, Granted("", "", "", {}, 0.0, 0, 0)).times is None


def test_an_overspent_ledger_has_no_room():
    ledger, _ = made(spent=1)
    ledger.correct(next(iter(ledger.state.grants)), pl.Gaussian(0.5), "less noise")
    state = ledger.state
    cost = cost_of(COUNT, "add_remove")
    assert forecast(state, state.rule, cost, Granted("", "", "", {}, 0.0, 0, 0)).times == 0
    assert fullness(state)[0][1].value > 1


@pytest.mark.parametrize("format_", ["text", "json", "github", "junit", "sarif"])
def test_a_warning_passes_and_is_said(tmp_path, format_):
    path, policy = str(tmp_path / "l.ledger"), tmp_path / "p.toml"
    policy.write_text("[policy]\nmax_epsilon = 1.0\nmax_delta = 1e-6\n")
    ledger, _ = made(path, 3, filter="gdp")
    share = ledger.state.units / ledger.state.rule.cap_units
    assert share < 0.5 * ledger.spent  # epsilon would have cried much earlier
    args = ("check", path, "--policy", str(policy), "--format", format_, "--warn-at")
    quiet, loud = run(*args, str(share * 1.01)), run(*args, str(share * 0.99))
    assert quiet.exit_code == loud.exit_code == 0
    assert "is spent, in the filter" in " ".join(loud.output.split())
    assert "is spent, in the filter" not in " ".join(quiet.output.split())


@pytest.mark.parametrize("bad", ["0", "-1", "nan", "1.1"])
def test_the_share_is_checked(tmp_path, bad):
    path, policy = str(tmp_path / "l.ledger"), tmp_path / "p.toml"
    policy.write_text("[policy]\nmax_epsilon = 1.0\nmax_delta = 1e-6\n")
    made(path, 1)
    assert run("check", path, "--policy", str(policy), "--warn-at", bad).exit_code == 2
