"""What is added from outside, with toys of each kind; and what is not, because it is closed.

docs/contributing.md has the files that each kind touches; the files named there exist.
"""

from __future__ import annotations

import ast
import re
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from attrs import frozen

import privledger as pl
from privledger.graph.fold import cost_of, fold
from privledger.graph.node_checks import Nested, Row
from privledger.graph.nodes import NODES, check_node
from privledger.guard.creating import creation
from privledger.ledger.history import first_entries
from privledger.ledger.view import view_of
from privledger.storage import MemoryStore
from privledger.testing.scans import inside_names
from tests.worlds import refused, schema_of

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
LAPLACE = pl.Laplace(scale=20.0)

LEARNER = '''
"""The noisy number of records, for every row."""

import numpy as np
import privledger as pl


class Counter:
    info = pl.LearnerInfo("toy-counter", "one noisy count")

    def plan(self, schema):
        return pl.Laplace(scale=20.0)

    def claimed(self, schema):
        return (pl.ClaimStep("count", "nowhere", 0.05, 0.05, 0.0),)

    def fit(self, X, y=None):
        plan = self.plan(X.schema)
        with X.ledger.request(plan, X, learner=self.info.name) as session:
            self.count_ = session.release(plan, X.count())
        return self

    def predict(self, X):
        return np.full(len(X), self.count_)
'''


def guarded(ledger):
    schema = schema_of("toy", {"x": (0.0, 1.0)}, y=(0.0, 1.0))
    return ledger.protect({"x": np.linspace(0, 1, 40)}, np.linspace(0, 1, 40), schema)


@pytest.fixture
def ledger():
    return pl.Ledger.create(None, budget=pl.Budget(1.0, 0.0))


def test_a_learner_is_a_package_of_its_own(tmp_path, monkeypatch, ledger):
    info = tmp_path / "toy-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[privledger.learners]\ntoy-counter = toy:Counter\n")
    (tmp_path / "toy.py").write_text(LEARNER)
    monkeypatch.syspath_prepend(str(tmp_path))
    learner = pl.load_learner("toy-counter")()
    assert "toy-counter" in pl.plugins.learner_names()
    assert isinstance(learner, pl.Learner)
    learner.fit(guarded(ledger))
    assert ledger.verify() == []
    assert not list(inside_names(ast.parse(LEARNER)))


class Copying:
    """A store of a stranger's: what a memory store keeps, and each entry as a line of a file."""

    def __init__(self, path):
        self.path, self.inner, self.location = path, MemoryStore(), str(path)

    def __getattr__(self, name):
        return getattr(self.inner, name)

    @contextmanager
    def transaction(self):
        before = len(self.inner.read())
        with self.inner.transaction() as transaction:
            yield transaction
        with self.path.open("a", encoding="utf-8") as file:
            file.writelines(f"{entry.hash}\n" for entry in self.inner.read(before - 1))


def test_a_store_is_whatever_keeps_the_contract(tmp_path):
    store = Copying(tmp_path / "copy.txt")
    lines, source = creation(pl.Budget(1.0, 0.0), "add_remove", "auto", None, "private", None, (),
                             None)
    with store.transaction() as transaction:
        for entry in first_entries(lines):
            transaction.append(entry)
    ledger = pl.Ledger(store, source)
    data = guarded(ledger)
    with ledger.request(LAPLACE, data) as session:
        session.release(LAPLACE, data.count())
    assert ledger.verify() == []
    assert store.path.read_text().split() == [entry.hash for entry in store.read()]


def test_a_question_of_ones_own_is_asserted(ledger):
    data = guarded(ledger)
    ask = data.custom(lambda columns: (columns["x"] > 0.5) * 1.0, 1.0, "each record is 0 or 1")
    with ledger.request(LAPLACE, data) as session:
        session.release(LAPLACE, ask)
    assert ledger.verify() == []
    assert ask.blocks[0].asserted


def test_a_block_of_a_strangers_make_is_refused_before_anything_is_read(ledger):
    class Mine(pl.questions.Ones):
        """A subclass is a stranger: its sensitivity would be a claim."""

    data = guarded(ledger)
    with ledger.request(LAPLACE, data) as session, pytest.raises(pl.PrivledgerError):
        session.release(LAPLACE, data.query((Mine(),), None, "mine"))


@frozen
class Staircase:
    """A mechanism of a stranger's: nobody proved what it costs."""

    epsilon: float


def test_a_mechanism_of_a_strangers_make_has_no_price_but_what_somebody_vouches_for(ledger):
    refused(pl.PrivledgerError, lambda: pl.epsilon(Staircase(1.0)))
    vouched = pl.Asserted(0.5, "staircase mechanism, arXiv:1212.1186, Theorem 1")
    assert pl.epsilon(vouched) == 0.5
    ledger.request(vouched, guarded(ledger)).close()


@frozen(cache_hash=True)
class Reviewed(Nested):
    """A composite of an insider's to be: what is inside, after a colleague looked at it."""

    node: object
    by: str

    def __attrs_post_init__(self):
        check_node("Reviewed node", self.node)


def test_a_composite_is_a_row_and_a_price(monkeypatch, ledger):
    """What the page says is all: it is priced, granted, metered, written, checked and shown."""
    plan = Reviewed(LAPLACE, "a colleague")
    with pytest.raises(pl.PrivledgerError):
        pl.epsilon(plan)  # a closed set: without its row nobody knows it
    monkeypatch.setitem(NODES, "Reviewed", Row(
        Reviewed, through=True, relations=("add_remove",), elsewhere="not proved"))
    with pytest.raises(pl.errors.UnsupportedNode):
        pl.epsilon(plan)  # nor has it a price without its rule
    fold.register(Reviewed, lambda node, relation, orders: cost_of(node.node, relation, orders))
    assert pl.epsilon(plan) == pl.epsilon(LAPLACE)
    with pytest.raises(pl.errors.RelationMismatch, match="not proved"):
        pl.epsilon(plan, relation="replace_one")
    data = guarded(ledger)
    with ledger.request(plan, data) as session:
        session.release(LAPLACE, data.count())
        refused(pl.errors.NotGranted, lambda: session.release(LAPLACE, data.count()))
    assert ledger.verify() == []
    assert pl.nodes.from_json(pl.nodes.to_json(plan)) == plan
    assert pl.nodes.label(plan) == "Reviewed(by=a colleague)"
    assert "Reviewed" in str(ledger.state.grants[max(ledger.state.grants)].event.plan)


def test_a_panel_is_a_function_of_the_view(ledger):
    """Every figure that the package shows is there to be shown otherwise."""
    data = guarded(ledger)
    with ledger.request(LAPLACE, data) as session:
        session.release(LAPLACE, data.count())

    def panel(state):
        view = view_of(state)
        return f"<p>{view.spent.text()} of {view.promised[0].text()}</p>"

    assert re.fullmatch(r"<p>0\.05\d* of 1</p>", panel(ledger.state))


def test_every_file_that_the_page_names_is_there():
    named = re.findall(r"`((?:privledger|learners|tests|docs)/[^`*<]+)`", PAGE)
    assert len(named) > 20
    assert not [name for name in named if not (ROOT / name).exists()]
