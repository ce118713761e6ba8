"""A purse for deltas: what plans with one of their own cost beside a filter, and never more."""

import json
import math
import subprocess
import sys

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.accounting import delta_from_mu, failing, gaussian_tradeoff, pure_tradeoff
from privledger.cli import main
from privledger.ledger.filters import fixed_filter
from privledger.runs import RunFile
from tests.all_cases import all_cases
from tests.alone import verify_history
from tests.worlds import SIZES as SCHEMA
from tests.worlds import refused

KINDS = ("gdp", "zcdp", "rdp")
SAID = pl.Asserted(0.3, "so it was said", 1e-6)


def ledger_of(kind="gdp", failure=2e-6, where=None, epsilon=3.0, **more):
    ledger = pl.Ledger.create(where, budget=pl.Budget(epsilon, 1e-5, failure=failure), filter=kind,
                              **more)
    return ledger, ledger.protect({"size": [0.1, 0.2]}, [1, 2], SCHEMA, name="t")


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_purse_holds_is_granted_and_no_more(kind, tmp_path):
    ledger, data = ledger_of(kind, where=tmp_path / "l.ledger")
    for _ in range(2):
        ledger.request(SAID, data)
    before, opened = ledger.spent, data._vault.opened
    with pytest.raises(pl.BudgetExceeded, match="delta reserve") as caught:
        ledger.request(pl.Asserted(0.001, "so it was said", 1e-12), data)
    assert caught.value.unit == "delta"
    assert caught.value.left == 0
    ledger.request(pl.Gaussian(20.0), data)  # epsilon is left
    assert ledger.spent > before and data._vault.opened == opened
    assert ledger.verify() == []
    ledger.close()
    with pl.Ledger.open(tmp_path / "l.ledger", read_only=True) as again:
        assert again.budget == pl.Budget(3.0, 1e-5, failure=2e-6)
        assert again.spent == ledger.spent
    found = subprocess.run([sys.executable, verify_history.__file__, str(tmp_path / "l.ledger")],
                           capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_purse_or_in_a_cap_without_one_it_is_refused(kind):
    ledger, data = ledger_of(kind, 0.0)
    refused(pl.errors.UnsupportedNode, lambda: ledger.request(SAID, data), match="failure")
    ledger, data = ledger_of(kind, caps=[pl.Cap(pl.Budget(2.0, 1e-5), labels={"team": "a"}),
                                         pl.Cap(pl.Budget(2.0, 1e-5, 1e-6), labels={"team": "b"})])
    refused(pl.BudgetExceeded, lambda: ledger.request(SAID, data, labels={"team": "a"}))
    ledger.request(SAID, data, labels={"team": "b"})
    refused(pl.BudgetExceeded, lambda: ledger.request(SAID, data, labels={"team": "b"}))
    ledger.request(SAID, data)
    assert ledger.verify() == []


def test_the_rest_of_delta_is_what_everything_else_is_converted_at():
    for kind in KINDS:
        smaller = fixed_filter(kind, pl.Budget(3.0, 8e-6), 8.0 if kind == "rdp" else None)
        purse = fixed_filter(kind, pl.Budget(3.0, 1e-5, 2e-6), 8.0 if kind == "rdp" else None)
        assert purse.cap_units <= smaller.cap_units
        assert purse.cap_units == pytest.approx(smaller.cap_units, rel=1e-9)
        assert smaller.delta_cap_units == 0 < purse.delta_cap_units
        assert purse.epsilon_of(10**55) >= smaller.epsilon_of(10**55)


def openly_failing(mu, epsilon, delta, at):
    """The profile at `at` of what is known of a Gaussian, and of what shows everything with
    probability `delta` and is randomised response else: the worst (epsilon, delta) mechanism."""
    yes = 1 / (1 + math.exp(-epsilon))

    def gaussian(e):  # of a loss above e, for any sign of e
        return delta_from_mu(mu, e) if e >= 0 else 1 - math.exp(e) * (1 - delta_from_mu(mu, -e))

    return delta + (1 - delta) * (yes * gaussian(at - epsilon) + (1 - yes) * gaussian(at + epsilon))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(KINDS), st.floats(0.01, 1.0), st.floats(1e-9, 1.9e-6), st.floats(3, 50))
def test_never_below_the_worst_that_keeps_its_word(kind, epsilon, delta, noise):
    ledger, data = ledger_of(kind, epsilon=30.0)
    ledger.request(pl.Asserted(epsilon, "so it was said", delta), data)
    ledger.request(pl.Gaussian(noise), data)
    assert openly_failing(1 / noise, epsilon, delta, ledger.spent) <= 1e-5 * (1 + 1e-9)


def test_a_test_has_that_many_more_hits():
    kept = gaussian_tradeoff(1.0)
    for lost in (1e-9, 1e-3, 0.4):
        whole = failing(kept, lost)
        for wrong in (0.0, 1e-6, 0.01, 0.5, 1.0):
            assert min(1, kept.hits(wrong) + lost) <= whole.hits(wrong) <= min(
                1, kept.hits(wrong) + lost + 1e-12)
        assert whole.delta(0.3) >= kept.delta(0.3) + lost
    assert failing(kept, 0.0) is kept
    assert failing(pure_tradeoff(1.0), 1.0).hits(0.0) == 1.0


@all_cases("bad", [-1e-9, 1e-5, 1.0, float("nan"), float("inf"), True, "0", None])
def test_a_purse_is_a_part_of_delta(bad):
    refused(pl.InvalidValue, lambda: pl.Budget(1.0, 1e-5, failure=bad))


def test_it_is_written_only_where_there_is_one():
    """Ledgers without one are byte for byte what they were."""
    for failure, keys in ((0.0, {"epsilon", "delta"}), (2e-6, {"epsilon", "delta", "failure"})):
        ledger, _ = ledger_of(failure=failure, caps=[
            pl.Cap(pl.Budget(1.0, 1e-5, failure), data="t")])
        body = json.loads(next(iter(ledger._history.store.rows(-1)))[2])
        assert set(body["budget"]) == keys
        assert ("failure" in body["caps"][0]) == ("failure" in keys)


def test_a_run_file_may_have_one(tmp_path):
    text = ('[run]\nlearner = "sgbdt-regressor"\n[data]\ntable = "t.csv"\nschema = "s.json"\n'
            "[budget]\nepsilon = 1.0\ndelta = 1e-5\nfailure = 1e-6\n")
    (tmp_path / "r.toml").write_text(text)
    import tomllib
    assert RunFile.from_dict(tomllib.loads(text), tmp_path / "r.toml").budget == pl.Budget(
        1.0, 1e-5, 1e-6)


def test_it_is_shown(tmp_path):
    for failure, shown in ((2e-6, True), (0.0, False)):
        ledger, data = ledger_of(failure=failure, where=tmp_path / f"{failure}.ledger")
        if shown:
            ledger.request(SAID, data)
        ledger.close()
        said = " ".join(CliRunner().invoke(main, ["show", str(tmp_path / f"{failure}.ledger")]
                                           ).output.split())
        assert ("delta 1e-06 of 2e-06 charged by plans" in said) == shown
