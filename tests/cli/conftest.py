"""A small table, a tiny learner, and ledgers with something in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

import privledger as pl
from privledger.cli import demo, main, make, plan

SCHEMA = {
    "name": "tiny",
    "columns": [
        {"name": "x", "kind": "numeric", "lower": 0, "upper": 1},
        {"name": "label", "kind": "categorical", "categories": ["no", "yes"], "role": "target"}]}
RUN = """
[run]
learner = "tiny"
[params]
rounds = 3
[data]
schema = "schema.json"
table = "table.csv"
name = "people"
[budget]
epsilon = 1.0
delta = 1e-6
[ledger]
path = "run.ledger"
"""
POLICY = "[policy]\nmax_epsilon = 1.0\nmax_delta = 1e-6\n"


class Tiny:
    """Counts the records a few times; predicts the first class."""

    info = pl.LearnerInfo("tiny", "counts", "nobody, 2026", ("add_remove",), ("classification",))

    def __init__(self, epsilon: float = 1.0, delta: float = 1e-6, schema: Any = None,
                 rounds: int = 3, fail: bool = False) -> None:
        self.epsilon, self.delta, self.schema = epsilon, delta, schema
        self.rounds, self.fail = rounds, fail

    def plan(self, schema: pl.Schema) -> pl.Node:
        noise = pl.calibrate(lambda z: pl.Repeat(pl.Gaussian(z), self.rounds), self.epsilon,
                             self.delta)
        return pl.Repeat(pl.Gaussian(noise), self.rounds)

    def claimed(self, schema: pl.Schema) -> tuple[pl.ClaimStep, ...]:
        return (pl.ClaimStep("counting", "Theorem [red]1", 0.1, self.epsilon, self.delta, "why"),
                pl.ClaimStep("nothing", "Lemma 2", None, float("inf"), self.delta))

    def fit(self, data: Any) -> Tiny:
        plan = self.plan(data.schema)
        with data.ledger.request(plan, data, learner="tiny", delta=self.delta) as session:
            for _ in range(self.rounds):
                session.release(plan.node, data.count())
                if self.fail:
                    raise RuntimeError("the value is 4711")
        return self

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), "no")


@pytest.fixture(autouse=True)
def tiny_learner(monkeypatch: pytest.MonkeyPatch) -> None:
    """`load_learner` knows `tiny`, whatever else is installed."""
    real = plan.load_learner

    def load(name: str) -> Any:
        return Tiny if name == "tiny" else real(name)

    for module in (plan, make, demo):
        monkeypatch.setattr(module, "load_learner", load)
    monkeypatch.delenv("PRIVLEDGER_DATA", raising=False)


@pytest.fixture
def call() -> Callable[..., Result]:
    def invoke(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(argument) for argument in arguments])

    return invoke


@pytest.fixture
def as_json(call: Callable[..., Result]) -> Callable[..., Any]:
    """Parse all of stdout: anything beside JSON on it fails."""
    return lambda *arguments: json.loads(call(*arguments, "--format", "json").stdout)


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    rows = "".join(f"{i / 40},{'yes' if i % 3 else 'no'}\n" for i in range(40))
    (tmp_path / "schema.json").write_text(json.dumps(SCHEMA), encoding="utf-8")
    (tmp_path / "table.csv").write_text("x,label\n" + rows, encoding="utf-8")
    place = tmp_path / "run.toml"
    place.write_text(RUN, encoding="utf-8")
    return place


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    place = tmp_path / "policy.toml"
    place.write_text(POLICY, encoding="utf-8")
    return place


def _make(path: Path, *, mode: str = "private", learner: str = "tiny", releases: int = 1,
                epsilon: float = 1.0, filter: str = "auto") -> Path:
    """A ledger with one settled grant of epsilon 0.5 (none for `releases` 0)."""
    with pl.Ledger.create(path, budget=pl.Budget(epsilon, 1e-6), mode=mode,
                          filter=filter) as ledger:
        if releases:
            _spend(ledger, learner, releases)
    return path


def _spend(ledger: pl.Ledger, learner: str = "tiny", releases: int = 1) -> None:
    schema = pl.Schema.from_dict(SCHEMA)
    data = ledger.protect({"x": np.linspace(0, 1, 20)}, np.array(["no", "yes"] * 10), schema,
                          name="people")
    node = pl.Gaussian(pl.calibrate(lambda z: pl.Repeat(pl.Gaussian(z), releases), 0.5, 1e-6))
    with ledger.request(pl.Repeat(node, releases), data, learner=learner) as session:
        for _ in range(releases):
            session.release(node, data.count())


@pytest.fixture
def ledger_file(tmp_path: Path) -> Path:
    return _make(tmp_path / "book.ledger")


@pytest.fixture
def make_ledger() -> Callable[..., Path]:
    return _make


@pytest.fixture
def spend() -> Callable[..., None]:
    return _spend
