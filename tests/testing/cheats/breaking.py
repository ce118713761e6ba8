"""One cheat per check. Names behind the guard are spelled so that the scan does not see them:
the other checks have to."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

import privledger as pl
from cheats.honest import NoisyMean

VAULT, ROWS = "_vault", "_Vault__rows"


def behind(module: str, name: str, handle: Any) -> Any:
    """A private function of the package, by a name that no scan of attributes sees."""
    return getattr(import_module(module), name)(handle)


class Captures(NoisyMean):
    """Takes the columns out of a release with a custom query, in place of the count."""

    def _release(self, session: pl.Session, data: pl.Dataset, target: pl.Column) -> None:
        caught: dict[str, Any] = {}

        def grab(columns: dict[str, Any]) -> Any:
            caught.update({name: np.array(column) for name, column in columns.items()})
            return np.ones(len(columns["target"]))

        total = session.release(self._leaf(), data.sum(target.name))
        count = session.release(self._leaf(), data.custom(grab, 1.0, "counts, it says"))
        self._settle(total, count, target)
        self._use(caught)

    def _use(self, caught: dict[str, Any]) -> None:
        pass


class PlansDiffer(NoisyMean):
    """Another plan at every second call, for the same price."""

    turns = 0

    def plan(self, schema: pl.Schema) -> pl.Node:
        PlansDiffer.turns += 1
        leaf = self._leaf()
        return pl.Repeat(leaf, 2) if PlansDiffer.turns % 2 else pl.Sequential([leaf, leaf])

    def fit(self, X: Any, y: Any = None) -> Any:
        data = self._guarded(X, y)
        if data.schema.target.kind != "numeric":
            raise pl.SchemaError("a numeric target is needed")
        self._run(data, pl.Repeat(self._leaf(), 2), data.schema.target)
        return self


class ReadsEarly(NoisyMean):
    """Looks at the rows behind the guard's back, then asks politely."""

    def _run(self, data: pl.Dataset, plan: pl.Node, target: pl.Column) -> None:
        super()._run(data, plan, target)
        vault = behind("privledger.guard.vault", "_vault_of", getattr(data, VAULT))
        len(getattr(vault, ROWS).target)


class AsksForLess(NoisyMean):
    """A refusal makes it ask again, for a quarter."""

    def _run(self, data: pl.Dataset, plan: pl.Node, target: pl.Column) -> None:
        try:
            super()._run(data, plan, target)
        except pl.BudgetExceeded:
            asked, self.epsilon = self.epsilon, self.epsilon / 4
            super()._run(data, self.plan(data.schema), target)
            self.epsilon = asked


class AsksAgain(NoisyMean):
    """Spends what is left on a second answer."""

    def _run(self, data: pl.Dataset, plan: pl.Node, target: pl.Column) -> None:
        super()._run(data, plan, target)
        with suppress(pl.BudgetExceeded):
            super()._run(data, plan, target)


class PlansByRows(NoisyMean):
    """The shape of its reservation tells whether the number of rows is odd."""

    def _run(self, data: pl.Dataset, plan: pl.Node, target: pl.Column) -> None:
        rows = behind("privledger.guard.vault", "_vault_of", getattr(data, VAULT))._n_rows
        if rows % 2:
            plan = pl.Sequential([plan.node, plan.node])
        super()._run(data, plan, target)


class SwallowsCrashes(NoisyMean):
    """A fit that is interrupted returns as if it were whole."""

    def _run(self, data: pl.Dataset, plan: pl.Node, target: pl.Column) -> None:
        try:
            super()._run(data, plan, target)
        except KeyboardInterrupt:
            self.mean_ = 0.0


class HandsBack(NoisyMean):
    """Tells the session that nothing was read, when a fit dies after its last release."""

    def _release(self, session: pl.Session, data: pl.Dataset, target: pl.Column) -> None:
        try:
            super()._release(session, data, target)
        except BaseException:
            behind("privledger.guard.handle", "_granted", session)._inside.leave.touched = False
            raise


class CostsMore(NoisyMean):
    """Its plan costs twice what it says."""

    def _leaf(self) -> pl.Node:
        return pl.Laplace(1 / self.epsilon, 1.0)


class ForksItsLedger(NoisyMean):
    """A deep copy carries a new ledger."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        twin = type(self)(**self.get_params())
        twin.__dict__.update(vars(self))
        twin.ledger_ = pl.Ledger.create(None, budget=pl.Budget(self.epsilon, self.delta))
        return twin


class PicklesRows(Captures):
    """Hides guarded data in its pickle: the ledger's path would be enough to find them."""

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"kept_": "privledger.guard.ledger"}


class LearnsItsClasses(Captures):
    """Says which targets occurred."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.n_outputs_ = len(np.unique(caught["target"].round()))


class StumblesOnTables(NoisyMean):
    """Looks at the first cell before it checks that there is one."""

    def fit(self, X: Any, y: Any = None) -> Any:
        if isinstance(X, dict):
            X["size"][0]
        return super().fit(X, y)


class SeedsItsNoise(Captures):
    """Noise from `random_state`, and a rounding that hides it from a comparison of neighbours."""

    def _use(self, caught: dict[str, Any]) -> None:
        seed = 0 if self.random_state is None else self.random_state
        error = np.random.default_rng(seed).uniform(-0.1, 0.1)
        self.mean_ = float(np.round((caught["target"].mean() + error) / 5) * 5)


class KeepsACell(Captures):
    """One cell of one record, in a list in a dict."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.notes_ = {"largest": [float(caught["size"].max())]}


class KeepsTheCount(Captures):
    """The exact number of records."""

    def _use(self, caught: dict[str, Any]) -> None:
        self.n_samples_ = len(caught["target"])


class PicklesACell(Captures):
    """Nothing in its attributes; a cell in its pickle."""

    def _use(self, caught: dict[str, Any]) -> None:
        hidden = caught["size"][:3].tobytes()
        self.hidden_ = lambda: hidden

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in vars(self).items() if name != "hidden_"}
        return state | ({"blob": self.hidden_()} if hasattr(self, "hidden_") else {})


class QuotesACell(Captures):
    """An exception on its way out gets a note about where it was."""

    def _release(self, session: pl.Session, data: pl.Dataset, target: pl.Column) -> None:
        caught: list[float] = []

        def grab(columns: dict[str, Any]) -> Any:
            caught.append(float(columns["target"][0]))
            return np.ones(len(columns["target"]))

        try:
            count = session.release(self._leaf(), data.custom(grab, 1.0, "counts, it says"))
            total = session.release(self._leaf(), data.sum(target.name))
        except Exception as error:
            error.add_note(f"near {caught[:1]}")
            raise
        self._settle(total, count, target)


class TooLittleNoise(Captures):
    """Pays for epsilon, and adds a thousandth of the noise: 100 fits must tell two tables apart."""

    def _use(self, caught: dict[str, Any]) -> None:
        exact = caught["target"].mean()
        self.mean_ = float(exact + 0.001 * (self.mean_ - exact))


class LessNoise(NoisyMean):
    """All of epsilon in one sum, and only `part` of its noise."""

    part = 1.0

    def plan(self, schema: pl.Schema) -> pl.Node:
        return pl.Repeat(pl.Laplace(1 / (self.epsilon * (1 - 1e-9)), 1.0), 1)

    def _release(self, session: pl.Session, data: pl.Dataset, target: pl.Column) -> None:
        caught: list[float] = []

        def grab(columns: dict[str, Any]) -> Any:
            scaled = (columns["target"] - 5) / 5
            caught.append(float(scaled.sum()))
            return scaled

        noisy = session.release(self.plan(data.schema).node, data.custom(grab, 1.0, "a sum"))
        self.mean_ = float(caught[0] + self.part * (noisy - caught[0]))


class HalfTheNoise(LessNoise):
    part = 0.5
