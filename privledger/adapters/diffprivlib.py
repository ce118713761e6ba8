"""diffprivlib: an accountant that reserves in a ledger before any row is read.

Every entry point of diffprivlib calls `check` before it reads and `spend` when it is done. The
charge is made by `check`, durably, and stays.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from importlib.metadata import version

from privledger.errors import BudgetExceeded, InvalidValue
from privledger.graph.additive import Asserted
from privledger.guard.elsewhere import ForeignGrant
from privledger.guard.ledger import Ledger
from privledger.mutex import Mutex, Uncopied
from privledger.rounding import non_negative, probability

try:
    from diffprivlib.accountant import BudgetAccountant
    from diffprivlib.utils import BudgetError, PrivacyLeakWarning
except ImportError:  # the class is there, and says what is missing when one is made
    BudgetAccountant = None

WHY = "diffprivlib says so, of its own mechanism and of neighbours as this ledger has them"


class LedgerBudget(Uncopied, BudgetAccountant or object):  # type: ignore[misc]
    """A `BudgetAccountant` whose budget is a ledger's.

    Copies and clones are the same object, so that a grid search pays for every fit; pickling
    raises, so that no other process fits uncharged. Warnings of diffprivlib that privacy leaks
    (bounds that were read from the data) are errors from here on, as tools warn before they check.
    """

    _UNPICKLED = ("a {} cannot go to another process, which would fit uncharged: fit with "
                  "n_jobs=1; nothing was charged")

    def __init__(self, ledger: Ledger, *, table: str, learner: str = "",
                 labels: Mapping[str, str] | None = None) -> None:
        """Args: table, learner, labels: as of `Ledger.foreign`."""
        if BudgetAccountant is None:
            raise ModuleNotFoundError("diffprivlib is not installed, or not for this scikit-learn")
        super().__init__()
        self._ledger, self._table, self._learner = ledger, table, learner
        self._labels = dict(labels or {})
        self._open: list[tuple[float, float, ForeignGrant]] = []
        self._spent: list[tuple[float, float]] = []
        self._lock = Mutex()
        warnings.simplefilter("error", PrivacyLeakWarning)

    @property
    def spent_budget(self) -> list[tuple[float, float]]:
        """What was asked and charged so far, finished or not."""
        return [*getattr(self, "_spent", ())]

    def check(self, epsilon: float, delta: float) -> bool:
        """Reserve (epsilon, delta), durably, or refuse. The charge stays whatever happens then.

        Raises:
            BudgetError: it does not fit; nothing was charged, and diffprivlib reads nothing.
        """
        cost = non_negative("epsilon", epsilon), probability("delta", delta, zero=True)
        warnings.simplefilter("error", PrivacyLeakWarning)
        if cost == (0.0, 0.0):
            return True
        try:
            grant = self._ledger.foreign(
                Asserted(cost[0], WHY, cost[1]), table=self._table, library="diffprivlib",
                version=version("diffprivlib"), hook="BudgetAccountant.check",
                learner=self._learner, labels=self._labels, delta=cost[1])
        except BudgetExceeded as error:
            raise BudgetError(str(error)) from error
        with self._lock:
            self._open.append((*cost, grant))
            self._spent.append(cost)
        return True

    def spend(self, epsilon: float, delta: float) -> LedgerBudget:
        """Settle what `check` reserved; where nothing of this size is open, reserve it first."""
        cost = non_negative("epsilon", epsilon), probability("delta", delta, zero=True)
        if cost != (0.0, 0.0):
            grant = self._take(cost)
            if grant is None:
                self.check(*cost)
                grant = self._take(cost)
            assert grant is not None
            grant.close()
        return self

    def _take(self, cost: tuple[float, float]) -> ForeignGrant | None:
        with self._lock:
            for place, (epsilon, delta, grant) in enumerate(self._open):
                if (epsilon, delta) == cost:
                    del self._open[place]
                    return grant
        return None

    def __repr__(self, n_budget_max: int = 5) -> str:
        return f"LedgerBudget({self._table}, {len(self._spent)} charged)"


def refuse_fixed_noise(model: object) -> None:
    """Refuse an estimator with a seed: the same noise on two neighbouring tables cancels.

    Raises:
        InvalidValue: some `random_state` of it is not None.
    """
    params: Mapping[str, object] = getattr(model, "get_params", dict)()
    if any(key.rpartition("__")[2] == "random_state" and value is not None
           for key, value in params.items()):
        raise InvalidValue("random_state", "given", "None: noise that can be repeated protects no "
                                                    "person")
