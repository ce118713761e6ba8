"""Notebook displays and pictures: escaped, honest, and without matplotlib where it is absent."""

import pickle
import sys

import numpy as np
import pytest

import privledger as pl
from privledger import plot
from privledger.notebook import Plan
from tests.worlds import refused, schema_of

EVIL = "<img src=x onerror=alert(1)>"


@pytest.fixture
def ledger():
    made = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), filter="gdp",
                            caps=[pl.Cap(pl.Budget(0.1, 1e-6), labels={"team": EVIL})])
    schema = schema_of("t", {"x": (0, 1)})
    data = made.protect({"x": np.linspace(0, 1, 20)}, schema, name=EVIL + "$x$")
    for _ in range(3):
        with made.request(pl.Gaussian(20.0), data) as session:
            session.release(pl.Gaussian(20.0), data.count())
    cap = pl.IndividualFilter("gdp", 0.01, node=pl.Repeat(pl.Gaussian(20.0), 3))
    with made.request(cap, data) as session:
        session.release(pl.Gaussian(20.0), session.filtered(cap).sum("x"))
    with pytest.raises(pl.BudgetExceeded) as caught:
        made.request(pl.Gaussian(8.0), data, labels={"team": EVIL})
    return made, caught.value


def test_displays_are_escaped(ledger):
    made, refusal = ledger
    for shown in (made._repr_html_(), refusal._repr_html_(),
                  pickle.loads(pickle.dumps(refusal))._repr_html_(),
                  Plan(pl.Asserted(0.5, EVIL))._repr_html_()):
        assert "<img" not in shown and shown.count("<") == shown.count(">")
    assert "&lt;img" in refusal._repr_html_()
    assert "epsilon 1," in made._repr_html_() and "NOT PRIVATE" not in made._repr_html_()
    simulated = pl.Ledger.create(None, budget=pl.Budget(1.0, 1e-6), mode="simulation")
    assert "NOT PRIVATE" in simulated._repr_html_()


def test_a_plan_shows_multiplicities_and_stays_short():
    plan = Plan(pl.Repeat(pl.Sequential([pl.Gaussian(5.0)] * 3), 4))
    assert "3 x Gaussian" in repr(plan) and "12 times in all" in plan._repr_html_()
    large = Plan(pl.Sequential([pl.Gaussian(5.0 + i) for i in range(3000)]))._repr_html_()
    assert large.count("<li") < 600 and "and more" in large
    refused(pl.InvalidValue, lambda: Plan("no plan"))


def test_points_end_where_the_ledger_stands(ledger):
    made, _ = ledger
    points = plot.burn_down_points(made)
    assert points[0] == (0, 1.0) and points[-1][1] == pytest.approx(made.left)
    left = [value for _, value in points]
    assert left == sorted(left, reverse=True) and len(points) == 6


def test_curves_are_what_epsilon_says():
    node = pl.Gaussian(3.0)
    for delta, value in plot.curve_points(node, deltas=(1e-9, 1e-5)):
        assert value == pl.epsilon(node, delta)
    assert plot.curve_points(node, deltas=(0.0,)) == []


def test_without_matplotlib_the_way_to_it_is_named(ledger, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    refused(ImportError, lambda: plot.burn_down(ledger[0]), match=r"privledger\[plot\]")


def test_pictures_can_be_drawn(ledger, tmp_path):
    pytest.importorskip("matplotlib")
    made, _ = ledger
    for number, axes in enumerate((plot.burn_down(made), plot.spend_histogram(made),
                                   plot.epsilon_delta(pl.Gaussian(3.0)))):
        place = tmp_path / f"{number}.png"
        axes.figure.savefig(place)
        assert place.read_bytes().startswith(b"\x89PNG")
    assert plot.spend_histogram(made).get_title().startswith("CONFIDENTIAL")
    refused(pl.errors.DataError, lambda: plot.epsilon_delta(pl.Gaussian(3.0), deltas=(0.0,)))
