"""Two prices of a federation: declared and alone, from the node to every reader."""

import csv
import io
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from privledger.cli.app import main
from privledger.cli.output import reading_state
from privledger.graph import cost_of, trusts
from privledger.ledger.view import view_of
from privledger.nodes import Federated, alone
from tests.all_cases import all_cases
from tests.alone import verify_history
from tests.worlds import refused, schema_of

SCHEMA = schema_of("one", {"x": (-1.0, 1.0)})
DELTA = 1e-6
NODES = st.sampled_from([
    pl.Gaussian(6.0), pl.Repeat(pl.Gaussian(9.0), 4), pl.Gaussian(5.0, (0.5, 0.5)),
    pl.Sequential([pl.Gaussian(20.0), pl.Parallel([pl.Gaussian(7.0), pl.Gaussian(8.0)])]),
    pl.PoissonSample(0.1, pl.Gaussian(3.0)), pl.nodes.OneOf([pl.Gaussian(4.0), pl.Gaussian(5.0)])])
ROSTERS = st.integers(1, 50).flatmap(
    lambda parties: st.tuples(st.just(parties), st.integers(0, parties - 1)))


@settings(max_examples=20, deadline=None)
@given(NODES, ROSTERS)
def test_whole_noise_has_one_price_twice(node, roster):
    plan = Federated(node, *roster)
    assert cost_of(plan) == cost_of(node)
    assert alone(plan) == node
    assert pl.epsilon(plan, DELTA) == pl.epsilon(alone(plan), DELTA) == pl.epsilon(node, DELTA)


@settings(max_examples=20, deadline=None)
@given(NODES, ROSTERS)
def test_shared_noise_is_no_cheaper_than_its_node_and_dearer_alone(node, roster):
    plan = Federated(node, *roster, noise="shared")
    declared, own = pl.epsilon(plan, DELTA), pl.epsilon(alone(plan), DELTA)
    assert cost_of(plan) == cost_of(node)
    assert pl.epsilon(node, DELTA) == declared <= own * (1 + 1e-12)


@settings(max_examples=30, deadline=None)
@given(st.floats(0.5, 100), ROSTERS)
def test_a_share_is_no_more_noise_than_its_part(noise, roster):
    parties, colluding = roster
    share = alone(Federated(pl.Gaussian(noise), parties, colluding, noise="shared"))
    exact = noise / math.sqrt(parties - colluding)
    assert exact * (1 - 1e-12) <= share.noise_multiplier <= exact * (1 + 1e-15)


def test_more_colluders_bring_the_two_prices_together():
    found = [pl.epsilon(alone(Federated(pl.Gaussian(9.0), 20, bad, noise="shared")), DELTA)
             for bad in range(20)]
    assert found == sorted(found, reverse=True)
    assert found[-1] == pl.epsilon(pl.Gaussian(9.0), DELTA)


def test_what_sharing_by_five_and_by_twenty_costs_alone():
    """Against the closed formula of a Gaussian with less noise."""
    noise = pl.calibrate(pl.Gaussian, 0.54, 1e-5)
    for parties in (5, 20):
        found = pl.epsilon(alone(Federated(pl.Gaussian(noise), parties, 0, noise="shared")), 1e-5)
        assert found == pytest.approx(pl.epsilon(pl.Gaussian(noise / parties**0.5), 1e-5))


NODE = {"node": pl.Gaussian(1.0), "parties": 5, "colluding": 4}
SHARED = {"noise": "shared"}


@all_cases("wrong", [
    {"parties": 0}, {"parties": 1001}, {"parties": True}, {"colluding": 5}, {"colluding": -1},
    {"colluding": 0.5}, {"least_honest": 0}, {"least_honest": 2}, {"seen_by": "nobody"},
    {"noise": "half"}, {"node": "Gaussian"}, {"node": Federated(pl.Gaussian(1.0), 2, 1)} | SHARED,
    {"node": pl.Laplace(1.0)} | SHARED, {"node": pl.nodes.Group(2, pl.Gaussian(1.0))} | SHARED,
    {"node": pl.IndividualFilter("gdp", 1.0)} | SHARED,
    {"node": pl.Repeat(pl.Gaussian(0.0099), 2)} | SHARED])
def test_what_cannot_be_is_refused(wrong):
    refused((pl.errors.InvalidMechanism, pl.InvalidValue), lambda: Federated(**(NODE | wrong)))


def test_shared_noise_is_one_gaussian_within_what_bends_a_price():
    """It holds by a bound on Gaussian DP, so there is no delta that anything could bend."""
    shared, one = Federated(pl.Gaussian(4.0), 5, 1, noise="shared"), pl.Gaussian(4.0)
    for bent in (lambda node: pl.nodes.Group(2, node), lambda node: pl.PoissonSample(0.1, node),
                 lambda node: pl.nodes.OneOf([node, pl.Gaussian(6.0)])):
        assert pl.epsilon(bent(shared), DELTA) == pl.epsilon(bent(one), DELTA)


@pytest.mark.parametrize(("steps", "parties"), [(0.45, 2), (0.5, 3), (0.6, 5)])
def test_a_sum_of_rounded_shares_is_near_in_ratio_everywhere(steps, parties):
    """Exact sums of probabilities, with shares so small that the bound is far from zero: the
    ratio to a post-processed Gaussian is within what the proof says, in the tails as well."""
    points = np.arange(-60, 61)
    edges = np.concatenate([points - 0.5, [points[-1] + 0.5]])
    cdf = np.vectorize(lambda x, s: 0.5 * math.erfc(-x / (s * math.sqrt(2))))
    one = np.diff(cdf(edges, steps))
    total = one
    for _ in range(parties - 1):
        total = np.convolve(total, one)
    # The Gaussian of all shares, parties - 1 uniforms beside it, rounded: by quadrature.
    fine = 64
    grid = np.arange(-20 * fine, 20 * fine + 1) / fine
    wide = steps * math.sqrt(parties)
    dense = np.exp(-grid**2 / (2 * wide**2)) / (wide * math.sqrt(2 * math.pi))
    window = np.full(fine + 1, 1.0 / fine)
    window[[0, -1]] /= 2
    for _ in range(parties):
        dense = np.convolve(dense, window, mode="same")
    middle, far = len(total) // 2, 6
    ratio = total[middle - far:middle + far + 1] / dense[::fine][20 - far:20 + far + 1]
    parts = [2 * sum(math.exp(-2 * math.pi**2 * steps**2 * m * m * j / (j + 1))
                     for m in range(1, 9)) for j in range(1, parties)]
    bound = sum(-math.log1p(-part) for part in parts)
    assert np.abs(np.log(ratio)).max() <= bound
    assert np.abs(np.log(ratio)).max() >= parts[0] / 50  # and the test would see a smaller one


def _ledger(path, plan, kind="basic"):
    ledger = pl.Ledger.create(path, budget=pl.Budget(3.0, DELTA), filter=kind)
    data = ledger.protect({"x": np.linspace(-1, 1, 50)}, schema=SCHEMA, name="table")
    with ledger.request(plan, data, delta=1e-7 if kind == "basic" else 0.0) as session:
        session.release(pl.Gaussian(9.0), data.count())
    return ledger


@pytest.mark.parametrize("noise", ["local", "shared"])
def test_every_reader_prints_both(tmp_path, noise):
    place = tmp_path / "ledger.db"
    plan = Federated(pl.Gaussian(9.0), 5, 1, 2, "parties", noise)
    _ledger(place, plan).close()
    with reading_state(str(place)) as (_, state):
        (one,) = view_of(state).federated
    same = one.alone.epsilon.value == one.declared.epsilon.value
    assert same is (noise == "local")
    assert one.alone.epsilon.value >= one.declared.epsilon.value
    run = CliRunner()
    words = [f"declared epsilon {one.declared.epsilon.text()}",
             f"alone epsilon {one.alone.epsilon.text()}", "5 parties"]

    def said(*command):
        found = run.invoke(main, [*map(str, command)])
        assert found.exit_code == 0, found.output
        return " ".join(found.output.split())

    shown = said("show", place)
    assert all(word in shown for word in words)
    value = json.loads(said("show", place, "--format", "json"))
    assert value["alone"] == value["grants"][0]["alone"] == one.alone.epsilon.value
    text = said("explain", place, one.name)
    assert "declared epsilon" in text and "alone epsilon" in text and "5 parties" in text
    said("report", place, "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert all(word in page for word in words)
    said("export", place, "--as", "csv", "-o", tmp_path / "ledger.csv")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "ledger.csv").read_text())))
    assert float(rows[0]["alone"]) == one.alone.epsilon.value
    found = subprocess.run(
        [sys.executable, "-I", Path(verify_history.__file__), place],
        capture_output=True, text=True, check=True)
    assert f"5 parties (1 may collude, 2 honest at least), noise {noise}" in found.stdout
    line = next(line for line in found.stdout.splitlines() if "declared" in line)
    figures = [float(line.split(f"{word} epsilon ")[1].split()[0].rstrip(","))
               for word in ("declared", "alone")]
    assert figures == pytest.approx([one.declared.epsilon.value, one.alone.epsilon.value], rel=1e-4)


@all_cases("noise", ["local", "shared"])
@all_cases("kind", ["gdp", "zcdp", "rdp", "auto"])
def test_every_filter_takes_both(kind, noise):
    ledger = _ledger(None, Federated(pl.Gaussian(9.0), 5, 4, noise=noise), kind)
    other = _ledger(None, pl.Gaussian(9.0), kind)
    assert ledger.spent == other.spent


def test_what_is_asked_to_be_believed_is_said_once():
    plan = pl.Sequential([Federated(pl.Gaussian(9.0), 5, 4), Federated(pl.Gaussian(8.0), 5, 4)])
    (one,) = trusts(plan)
    assert "each adds the whole noise" in one.text
    assert trusts(alone(plan)) == ()
