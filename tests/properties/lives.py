"""Random lives of real ledgers: what an owner, learners and mishaps may do, one after another."""

from __future__ import annotations

from hypothesis import strategies as st

import privledger as pl
from privledger.errors import UnsupportedNode
from tests.bodies import said
from tests.worlds import schema_of

SCHEMA = schema_of("one", {"x": (-1.0, 1.0)})
ROWS = {"x": [1.0, -1.0, 0.5, 0.0, 0.25]}
TABLES = ("people", "others")
FILTERS = ("gdp", "zcdp", "rdp", "basic")

noises = st.floats(15.0, 80.0)
gaussians = st.builds(pl.Gaussian, noises)
laplaces = st.builds(pl.Laplace, noises)
mechanisms = {"gdp": gaussians, "zcdp": st.one_of(gaussians, laplaces),
              "rdp": st.one_of(gaussians, laplaces), "basic": st.one_of(gaussians, laplaces)}
names = st.sampled_from(["", "anna", "bert", "a + b"])
tables = st.sampled_from(TABLES)
labels = st.sampled_from([None, {"team": "red"}, {"team": "blue", "project": "p"}])


def steps(kind: str) -> st.SearchStrategy[tuple[object, ...]]:
    """One thing that happens to a ledger with this filter."""
    noise = mechanisms[kind]
    ends = st.sampled_from(["settled", "failed", "handed back", "crashed", "open"])
    fit = st.tuples(st.just("fit"), noise, st.integers(1, 3), tables, names, labels, ends)
    more = [fit, fit, fit,
            st.tuples(st.just("mixed"), noise, noise, tables, names),
            st.tuples(st.just("asserted"), noise, tables, names),
            st.tuples(st.just("correct"), st.integers(0, 9), st.one_of(noise, st.just(None))),
            st.tuples(st.just("window")), st.tuples(st.just("refused"), tables, names)]
    if kind != "basic":
        cap = st.floats(1e-5, 3e-3)
        more += [st.tuples(st.just("filtered"), cap, tables, names, ends),
                 st.tuples(st.just("scope"), cap),
                 st.tuples(st.just("draw"), st.integers(0, 3), tables, names, ends)]
    return st.one_of(more)


def lives(kind: str, most: int) -> st.SearchStrategy[list[tuple[object, ...]]]:
    """What happens to a ledger with this filter, in order."""
    return st.lists(steps(kind), min_size=1, max_size=most)


class Life:
    """A ledger that is lived, step by step. Whatever it refuses is part of the life."""

    def __init__(self, kind: str, path: object = None) -> None:
        self.ledger = pl.Ledger.create(path, budget=pl.Budget(3.0, 1e-6), filter=kind)
        self.tables = {name: self.ledger.protect(ROWS, SCHEMA, name=name) for name in TABLES}
        self.kind, self.scopes, self.bound, self.open = kind, [], {}, []

    def run(self, happening: list[tuple[object, ...]]) -> pl.Ledger:
        """Everything in order; then the ledger, with nothing left to write."""
        for what, *rest in happening:
            try:
                getattr(self, what)(*rest)
            except (pl.BudgetExceeded, UnsupportedNode, pl.NotGranted, pl.InvalidValue):
                continue
        self.ledger._history.flush()
        return self.ledger

    def _fit(self, plan, table, learner, end, ask, **options):
        delta = 1e-8 if self.kind == "basic" else 0.0
        session = self.ledger.request(plan, self.tables[table], learner=learner, delta=delta,
                                      **options)
        self.open.append(session)
        if end in ("settled", "failed"):
            ask(session)
        if end == "crashed":
            self.ledger._history.commit(lambda state: said(("crashed", {
                "grant": session.grant, "time": "", "why": "gone"})))
        elif end != "open":
            session.close(None if end == "settled" else RuntimeError)

    def fit(self, noise, times, table, learner, labels, end):
        def ask(session):
            for _ in range(times):
                session.release(noise, self.tables[table].count())

        self._fit(pl.Repeat(noise, times), table, learner, end, ask, labels=labels)

    def mixed(self, first, second, table, learner):
        self._fit(pl.Sequential([first, second]), table, learner, "settled",
                  lambda session: session.release(first, self.tables[table].count()))

    def asserted(self, noise, table, learner):
        data = self.tables[table]
        self._fit(noise, table, learner, "settled", lambda session: session.release(
            noise, data.custom(lambda columns: columns["x"], 1.0, "so they say")))

    def filtered(self, cap, table, learner, end):
        node = pl.IndividualFilter("gdp", cap)
        self._fit(node, table, learner, end, lambda session: session.release(
            pl.Gaussian(200.0), session.filtered(node).sum("x")))

    def scope(self, cap):
        self.scopes.append(self.ledger.open_scope(pl.IndividualFilter("gdp", cap)))

    def draw(self, place, table, learner, end):
        if self.scopes:
            scope = self.scopes[place % len(self.scopes)]
            self._fit(scope.node, table, learner, end, lambda session: session.release(
                pl.Gaussian(200.0), session.filtered().sum("x")), scope=scope)

    def correct(self, place, plan):
        grants = list(self.ledger.state.grants)
        # Nothing promised at all would overspend every budget: that is another test's.
        if grants and plan is not None:
            self.ledger.correct(grants[place % len(grants)], plan, "an audit")

    def window(self):
        self.ledger.open_window(f"w{len(self.ledger.state.opened)}")

    def refused(self, table, learner):
        noise = pl.Laplace(1e-3) if self.kind == "basic" else pl.Gaussian(1e-3)
        self.ledger.request(noise, self.tables[table], learner=learner)
