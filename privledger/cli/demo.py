"""`privledger demo`: the main job on real data, end to end, with nothing to download."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from privledger.cli.output import PLACE, Reply, command
from privledger.cli.plan import claim_dict, render_claims, render_composition, render_price
from privledger.cli.record import CONFIDENTIAL
from privledger.cli.run import score
from privledger.cli.show import grants_tree
from privledger.cli.terminal import (
    GREEN,
    RED,
    YELLOW,
    flow,
    grid,
    pairs,
    quiet_option,
    text,
    verdict_text,
    watching,
)
from privledger.errors import BudgetExceeded, LearnerError
from privledger.guard import Ledger, data_spend
from privledger.guard.dataset import Dataset
from privledger.ledger import Budget
from privledger.numerals import many
from privledger.plugins import load_learner
from privledger.reports import ledger_report, release_count
from privledger.reports.pricing import price_plan
from privledger.rounding import exact, upward_percent
from privledger.tables.schema import Column, Schema

if TYPE_CHECKING:
    from rich.console import Console


LEARNER, BUDGET = "sgbdt-classifier", Budget(1.0, 1e-6)
MOST_SPENT = 5


@command
@click.option("--ledger", type=PLACE,
              help="Where to keep the ledger [default: a new temporary folder].")
@quiet_option
def demo(ledger: str | None) -> Reply:
    """The whole story on real data in half a minute; needs no files."""
    place = Path(ledger) if ledger else Path(tempfile.mkdtemp(prefix="privledger-")) / "demo.ledger"
    schema = demo_schema()
    model = load_learner(LEARNER)(epsilon=BUDGET.epsilon, delta=BUDGET.delta, schema=schema,
                                  individual_filter="gdp")
    node = model.plan(schema)
    price = price_plan(node, BUDGET.delta, budget=BUDGET)
    found: dict[str, Any] = {"price": price, "claims": model.claimed(schema), "node": node}
    with Ledger.create(place, budget=BUDGET, filter=price.filter) as book:
        X, y, X_public, y_public = demo_tables()
        data = book.protect(X, y, schema)
        with watching(book, release_count(node)):
            model.fit(data)
        found["scores"] = score(model, X_public, y_public, schema)
        found["open_score"] = without_privacy(X, y, X_public, y_public)
        found["spend"] = highest(book)
        found["refusal"] = ask_again(data, schema)
    with Ledger.open(place, read_only=True) as book:
        found["report"] = ledger_report(book._history.store, book.state)
    return Reply(as_dict(found), lambda out: render_demo(out, found))


def without_privacy(X: Any, y: Any, X_public: Any, y_public: Any) -> float:
    """Accuracy of scikit-learn's boosting on the same rows, with no privacy at all."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    # Threads that wait for each other on a busy machine took half a minute for this table.
    with threadpool_limits(limits=1):
        model = HistGradientBoostingClassifier(random_state=0).fit(X, y)
        return float(model.score(X_public, y_public))


def highest(book: Ledger) -> dict[str, Any]:
    """The records with the highest spend, and the mean share of the cap."""
    spend = data_spend(book._history.store, book.state)
    if spend is None:
        return {"records": [], "mean_share": 1.0}
    order = np.argsort(-spend.spent, kind="stable")[:MOST_SPENT]
    return {
        "records": [{"row": int(row), "share": float(spend.spent[row] / spend.cap),
                     "rounds": [line.rounds for line in book.record(int(row)).lines]}
                    for row in order],
        "mean_share": float(spend.spent.mean() / spend.cap),
    }


def ask_again(data: Dataset, schema: Any) -> dict[str, Any]:
    """A second run for the same epsilon: refused before it reads a row."""
    again = load_learner(LEARNER)(epsilon=BUDGET.epsilon, delta=BUDGET.delta, schema=schema,
                                  individual_filter="gdp")
    before = data._vault.opened
    try:
        again.fit(data)
    except BudgetExceeded as error:
        return {"message": str(error), "opened_before": before, "opened_after": data._vault.opened}
    raise LearnerError("the second run was granted: this is a defect, please report it")


def as_dict(found: dict[str, Any]) -> dict[str, Any]:
    """Everything the demo showed, as JSON values."""
    report = found["report"]
    return {
        "price": found["price"], "claims": [claim_dict(step) for step in found["claims"]],
        "evaluation": found["scores"] | {"not_private": {"accuracy": found["open_score"]}},
        "spend": found["spend"] | {"notice": CONFIDENTIAL}, "refusal": found["refusal"],
        "ledger": report.as_dict(),
    }


def render_demo(out: Console, found: dict[str, Any]) -> None:
    """Six short chapters: the result first, the theory after it."""
    report = found["report"]
    chapter(out, 1, f"the result, under a budget of epsilon {exact(BUDGET.epsilon)}, delta "
                    f"{exact(BUDGET.delta)}, on rows treated as public")
    render_scores(out, found)
    out.print(text(f"{many(report.grants[0].releases, 'release')} with exact noise, settled in one "
                   "transaction"))
    chapter(out, 2, "what it spent")
    out.print(grants_tree(report, plans=False))
    render_spend(out, found["spend"])
    chapter(out, 3, "a second run requests epsilon 1 again")
    render_refusal(out, found["refusal"])
    chapter(out, 4, "verify: re-read the ledger and re-price every entry")
    flow(out, verdict_text(report.verdict))
    chapter(out, 5, "the price, known before any data is read")
    render_composition(out, found["node"])
    render_price(out, found["price"], release_count(found["node"]))
    render_claims(out, found["claims"])
    chapter(out, 6, "what to do next")
    first = next((int(one["row"]) for one in found["spend"]["records"]), 0)
    out.print(pairs([
        ("ledger", report.location),
        ("try", f"privledger show {report.location}"),
        ("", f"privledger record {report.location} {first}"),
        ("", f"privledger verify {report.location}"),
        ("", "privledger learners"),
    ]))


def chapter(out: Console, number: int, title: str) -> None:
    """A heading."""
    from rich.rule import Rule

    out.print(Rule(text(f"{number}  {title}", "bold"), align="left", style="dim"))


def render_scores(out: Console, found: dict[str, Any]) -> None:
    """Private, trivial and unprotected, side by side."""
    scores = found["scores"]
    out.print(grid(("accuracy", "", ""), [
        ("private", f"{100 * scores['model']['accuracy']:.1f} %",
         f"{LEARNER}, epsilon {exact(BUDGET.epsilon)}"),
        ("majority class", f"{100 * scores['baseline']['accuracy']:.1f} %", "learns nothing"),
        ("not private", f"{100 * found['open_score']:.1f} %",
         "HistGradientBoostingClassifier, no protection"),
    ]))


def render_spend(out: Console, spend: dict[str, Any]) -> None:
    """The records that paid most."""
    out.print(text(CONFIDENTIAL, YELLOW))
    rows = [(item["row"], upward_percent(item["share"]),
             ", ".join("all" if n is None else str(n) for n in item["rounds"]))
            for item in spend["records"]]
    out.print(grid(("record", "share of its cap", "rounds"), rows))
    out.print(text(f"a record spent {upward_percent(spend['mean_share'])} of its cap on average"))


def render_refusal(out: Console, refusal: dict[str, Any]) -> None:
    """The refusal, and the proof that nothing was read for it."""
    out.print(text(refusal["message"], RED))
    more = refusal["opened_after"] - refusal["opened_before"]
    first, again = many(refusal["opened_before"], "time"), many(more, "time")
    out.print(text(f"the guarded table was opened {first} for the first run, {again} more for "
                   "this one", GREEN if more == 0 else RED))


# The demo's table: scikit-learn's breast cancer data, under bounds written by hand.
#
# No bound below was computed from the table. A nucleus in these images is a few tens of
# micrometres wide, so lengths end at 40 or 50 and areas at a few thousand; ratios and depths
# (smoothness, concavity, symmetry, fractal dimension) end at a round number that their definition
# suggests; standard errors are a fraction of the range of what they belong to. A value outside is
# clipped. Too wide or too narrow a bound costs accuracy, never privacy.

_UPPER = {
    # measure: (mean, standard error, worst)
    "radius": (40.0, 4.0, 50.0),
    "texture": (50.0, 5.0, 60.0),
    "perimeter": (250.0, 25.0, 320.0),
    "area": (3000.0, 300.0, 5000.0),
    "smoothness": (0.25, 0.05, 0.3),
    "compactness": (0.5, 0.2, 1.5),
    "concavity": (0.5, 0.4, 1.5),
    "concave points": (0.25, 0.1, 0.4),
    "symmetry": (0.5, 0.1, 0.8),
    "fractal dimension": (0.15, 0.05, 0.3),
}
TEST_EVERY = 4


def demo_schema() -> Schema:
    """Thirty numeric features from zero to a round upper limit, and the diagnosis."""
    upper = {f"mean {name}": limits[0] for name, limits in _UPPER.items()}
    upper |= {f"{name} error": limits[1] for name, limits in _UPPER.items()}
    upper |= {f"worst {name}": limits[2] for name, limits in _UPPER.items()}
    columns = [Column(name, "numeric", "feature", 0.0, limit, provenance="physical")
               for name, limit in upper.items()]
    target = Column("diagnosis", "categorical", "target", categories=("malignant", "benign"))
    return Schema("breast cancer (Wisconsin, diagnostic)", (*columns, target))


def demo_tables() -> tuple[Any, Any, Any, Any]:
    """X and y of the private part, X and y of the part treated as public: every fourth row."""
    from sklearn.datasets import load_breast_cancer

    bundle = load_breast_cancer()
    place = [list(bundle.feature_names).index(column.name) for column in demo_schema().features]
    X = bundle.data[:, place]
    y = np.array(["malignant", "benign"])[bundle.target]
    public = np.arange(len(y)) % TEST_EVERY == 0
    return X[~public], y[~public], X[public], y[public]
