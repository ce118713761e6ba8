"""Errors of six questions, each at a fifth of epsilon, ours and those of other packages.

`--python summaries=PYTHON` names one that has opendp and diffprivlib; they are no dependencies of
this project. Bounds,
categories and edges are the same for all, and delta is 0. Where the error is that of one draw, it
is the law's own standard deviation, and two packages of one law are level; others are measured,
with their standard error. Its first set is the table of
docs/ask-a-table.md, too.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from attrs import frozen
from measure import keep_part, table

import privledger as pl

HERE = Path(__file__).resolve().parent
EPSILONS = (0.1, 1.0)
RUNS = 60
RANKS = (0.25, 0.5, 0.75)
QUESTIONS = {"count": "number of rows", "sum": "sum of A", "mean": "mean of A by G",
             "quantile": "quartiles of B (rows off)", "histogram": "histogram of A, 12 intervals",
             "crosstab": "C by G, each cell"}


@frozen
class AskedSet:
    """What is asked of one data set: columns of whole numbers (a, b) and of categories (c, by)."""

    name: str
    a: str
    b: str
    c: str
    by: str


SETS = (AskedSet("adult", "age", "hours_per_week", "education", "sex"),
        AskedSet("bank", "age", "duration", "job", "marital"),
        AskedSet("credit_default", "AGE", "PAY_0", "EDUCATION", "SEX"),
        AskedSet("cmc", "wife_age", "children", "wife_education", "target"))


@frozen
class Answers:
    """Of one package: answers drawn so often, and deviations of laws where one draw is the error.
    """

    drawn: list[dict[str, list[float]]]
    laws: dict[str, float]


class Questions:
    """One data set, its truth, and what an answer is off by."""

    def __init__(self, one: AskedSet, folder: Path) -> None:
        self.schema = pl.Schema.from_dict(
            json.loads((folder / one.name / "schema.json").read_text()))
        X, y = pl.read_table(folder / one.name / f"{one.name}.csv.gz", self.schema)
        self.data = pl.Ledger.create(None, budget=pl.Budget(1e12)).protect(X, y, self.schema)
        columns = {column.name: column for column in self.schema.columns}
        values = {name: np.asarray(y if columns[name].role == "target" else X[name])
                  for name in (one.a, one.b, one.c, one.by)}
        known = {name: {str(label): place for place, label in
                        enumerate(columns[name].categories)} for name in (one.c, one.by)}
        self.c, self.by = (np.array([known[name][str(label)] for label in values[name]])
                           for name in (one.c, one.by))
        self.a, self.b = (values[name].astype(int) for name in (one.a, one.b))
        self.bounds = {part: (int(columns[name].lower), int(columns[name].upper))
                       for part, name in (("a", one.a), ("b", one.b))}
        self.sizes = len(known[one.c]), len(known[one.by])
        self.edges = np.linspace(*self.bounds["a"], 13).round().astype(int).tolist()
        names = {name: list(map(str, columns[name].categories)) for name in (one.c, one.by)}
        self.cells = [f"{left}, {right}" for left in names[one.c] for right in names[one.by]]
        self.groups, self.one = list(columns[one.by].categories), one

    def wanted(self) -> dict[str, np.ndarray]:
        """The table's own answers; quantiles have none of one value."""
        counts = np.zeros(self.sizes)
        np.add.at(counts, (self.c, self.by), 1)
        return {"count": np.array([len(self.a)]), "sum": np.array([self.a.sum()]),
                "mean": np.array([self.a[self.by == place].mean()
                                  for place in range(self.sizes[1])]),
                "histogram": np.histogram(self.a, self.edges)[0], "crosstab": counts.ravel()}

    def off(self, kind: str, told: np.ndarray) -> np.ndarray:
        """Errors of one answer; of quantiles the rows between it and the nearest right one."""
        if kind != "quantile":
            return np.asarray(told) - self.wanted()[kind]
        below = np.searchsorted(np.sort(self.b), np.asarray(told), side="left")
        within = np.searchsorted(np.sort(self.b), np.asarray(told), side="right")
        meant = np.array(RANKS) * len(self.b)
        return np.maximum(0.0, np.maximum(below - meant, meant - within))

    def ours(self, epsilon: float, runs: int) -> Answers:
        """Every question so often; once where one draw is the whole error."""
        one, found, laws = self.one, [], {}
        asked = {"count": pl.summary(pl.count()), "sum": pl.summary(pl.sum(one.a)),
                 "mean": pl.summary(pl.mean(one.a), by=[one.by]),
                 "quantile": pl.summary(pl.quantile(one.b, list(RANKS))),
                 "histogram": pl.summary(pl.histogram(one.a, self.edges[1:-1])),
                 "crosstab": pl.summary(pl.crosstab(one.c, one.by, margins=False))}
        for kind in ("count", "sum", "histogram", "crosstab"):
            laws[kind], = {row.noise_sd for row in self.data.ask(asked[kind], epsilon=epsilon).held}
        for _ in range(runs):
            told = {kind: self.data.ask(asked[kind], epsilon=epsilon).held
                    for kind in ("mean", "quantile")}
            means = {row.group: row.value for row in told["mean"]}
            found.append({"mean": [means[group,] for group in self.groups],
                          "quantile": [row.value for row in told["quantile"]
                                       if row.cell != "missing"]})
        return Answers(found, laws)

    def theirs(self, python: str, epsilon: float, runs: int, place: Path) -> dict[str, Answers]:
        """The same of every package that PYTHON has, and their versions."""
        np.savez(place, a=self.a, b=self.b, c=self.c, by=self.by)
        given = {"table": str(place), "bounds": self.bounds, "sizes": self.sizes,
                 "edges": self.edges, "ranks": RANKS, "epsilon": epsilon, "runs": runs}
        done = subprocess.run([python, str(HERE / "summaries_peers.py")], input=json.dumps(given),
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr)
        return {name: Answers(**one) for name, one in json.loads(done.stdout).items()}

    def errors(self, answers: Answers) -> dict[str, str]:
        """Root mean square error by question, over groups, cells and runs; of what was drawn with
        its standard error."""
        said = {kind: f"{sd:.4g}" for kind, sd in answers.laws.items()}
        for kind in answers.drawn[0]:
            runs = np.array([np.mean(np.square(self.off(kind, np.array(one[kind]))))
                             for one in answers.drawn])
            root = math.sqrt(runs.mean())
            wide = runs.std() / math.sqrt(len(runs)) / (2 * root) if root else 0.0
            said[kind] = f"{root:.3g} ± {wide:.2g}"
        return said


def measured(folder: Path, python: str | None, runs: int,
             sets: tuple[AskedSet, ...] = SETS) -> list[list[str]]:
    """Rows of a table: set, epsilon, package, then the error of every question."""
    rows = []
    for one in sets:
        asked = Questions(one, folder)
        for epsilon in EPSILONS:
            systems = {"ours": asked.ours(epsilon / 5, runs)}
            if python:
                systems |= asked.theirs(python, epsilon / 5, runs, Path("/tmp/summaries.npz"))
            for system, answers in systems.items():
                off = asked.errors(answers)
                rows.append([one.name, f"{epsilon:g}", system, *(
                    off.get(kind, "-") for kind in QUESTIONS)])
                print(" | ".join(rows[-1]), file=sys.stderr)
    return rows


def report(arguments: Any) -> str:
    pythons = dict(pair.split("=", 1) for pair in arguments.python)
    if "summaries" not in pythons:
        raise ModuleNotFoundError("name a Python with opendp and diffprivlib: "
                                  "--python summaries=PYTHON")
    rows = measured(Path(arguments.data), pythons["summaries"], RUNS)
    own = [row for row in rows if row[0] == SETS[0].name]
    turned = zip(*(row[3:] for row in own), strict=True)
    keep_part("Errors of summaries", table(
        ["question", *(f"{row[2]}, epsilon {row[1]}" for row in own)],
        [[name, *line] for name, line in zip(QUESTIONS.values(), turned, strict=True)]))
    return ("## Summaries beside other packages\n\nRoot mean square errors, each question at a "
            "fifth of epsilon, delta 0, the same bounds, categories and edges. Without ±: the "
            "law's own, exactly (one draw of Laplace noise, discrete in opendp); with it: of "
            f"{RUNS} runs. Draws of quantiles are rarely off, and then by many rows: ± 0 says that "
            "no run was. " + "; ".join(
                f"{one.name}: A {one.a}, B {one.b}, C {one.c}, G {one.by}" for one in SETS)
            + ". ours and opendp: add_remove. diffprivlib: one row is replaced, which hides less, "
            "and the number of rows is public to it: it cuts counts at it, and divides by it. "
            "tmlt.analytics 0.21.0 installs beside Java 17 (a minute) and answers where "
            "`PYSPARK_PYTHON` names its Python; a question takes seconds there, so it was asked by "
            "`tests/bench/tumult.py`, eight times ([ask a table](ask-a-table.md)).\n\n"
            + table(["set", "epsilon", "package", *QUESTIONS.values()], rows))
