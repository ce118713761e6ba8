"""Checks that public structure never comes from records, and of tables that should not be given."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from attrs import evolve

from privledger.errors import PrivledgerError
from privledger.graph import IndividualFilter, Node, OneOf, children, to_json
from privledger.graph.selection import PartitionSelection
from privledger.plugins import Priced
from privledger.testing.examples import (
    Example,
    example_schema,
    examples_for,
    extremes,
    listed_values,
    read_columns,
    same_records,
)
from privledger.testing.examples import (
    example as table_for,
)
from privledger.testing.fitting import (
    Way,
    attempt,
    fail,
    fresh,
    outputs,
    recording,
    relation_of,
    ways,
)

STRUCTURE, BAD = "structure-is-public", "bad-input-is-refused"


def variants_of(given: Example, relation: str) -> dict[str, Example]:
    """Tables of the same schema with little in them; under `replace_label`, other labels only."""
    low, _ = extremes(given.schema)
    y = given.y.copy()
    y[given.labelled] = low
    order = np.argsort((np.arange(given.n_records) * 97) % 241)
    found = {"one class or value only": evolve(given, y=y)}
    if relation == "replace_label":
        return found
    return found | {
        "permuted rows": given.take(order), "one row": given.take(np.arange(1)),
        "constant columns": same_records(given, given.n_records, low),
        "half of the rows": given.take(np.arange(given.n_records // 2)),
    }


def _public_side(learner: Priced, way: Way, table: Example) -> dict[str, Any]:
    """What must not depend on records, of a fit on `table`."""
    with recording() as asked:
        fitted = way.fit(table)
    plan = fresh(learner).plan(table.schema)
    found: dict[str, Any] = {
             "plan": to_json(fitted.plan(table.schema)),
             "shape of the outputs": outputs(fitted, table_probes(table)).shape}
    for name in ("classes_", "n_features_in_", "feature_names_in_", "n_outputs_"):
        if hasattr(fitted, name):
            found[name] = np.asarray(getattr(fitted, name)).tolist()
    if not _open_ended(plan):
        found["number of releases"] = sum(grant.releases for grant in asked.grants)
    return found


def table_probes(table: Example) -> dict[str, Any]:
    """Probe points from the schema alone: every corner of a small grid, shape (n_probes,)."""
    axes = []
    columns = read_columns(table.schema)
    for column in columns:
        axes.append(np.linspace(column.lower, column.upper, 3) if column.kind == "numeric"
                    else np.array(listed_values(column), dtype=object))
    size = max(len(axis) for axis in axes) * 2
    return {column.name: axis[(np.arange(size) * (place + 1)) % len(axis)]
            for place, (column, axis) in enumerate(zip(columns, axes, strict=True))}


def probes_beside(table: Example) -> dict[str, Any]:
    """The first record of the table, and a grid of the schema. Chosen by the kit, so public."""
    grid = table_probes(table)
    return {name: np.concatenate([np.asarray(table.X[name][:1], dtype=grid[name].dtype), column])
            for name, column in grid.items()}


def _open_ended(node: Node) -> bool:
    """Whether the plan leaves the number of releases open until answers are there."""
    if isinstance(node, OneOf | IndividualFilter | PartitionSelection):
        return True
    return any(map(_open_ended, children(node)))


def check_structure_is_public(learner: Priced, example: Example | None = None) -> None:
    """Classes, features, plan and number of releases are the same whatever the records are."""
    for given in examples_for(learner, example):
        for way in ways(learner):
            usual = _public_side(learner, way, given)
            for name, table in variants_of(given, relation_of(learner)).items():
                for what, value in _public_side(learner, way, table).items():
                    if value != usual.get(what):
                        fail(STRUCTURE, f"{way.name}, with {name}, the {what} is another")


def bad_tables(given: Example) -> dict[str, tuple[Any, Any]]:
    """Tables that do not fit the schema, or hardly."""
    first = given.schema.features[0].name
    category = next((c.name for c in given.schema.features if c.kind == "categorical"), None)

    def with_cells(name: str, value: Any, everywhere: bool = False) -> tuple[Any, Any]:
        column = given.X[name].astype(object if isinstance(value, str) else float)
        column[slice(None) if everywhere else slice(0, 1)] = value
        return given.X | {name: column}, given.y

    stranger: Any = given.y.astype(object)
    stranger[0] = "a class that the schema does not list"
    tables = {
        "no rows": (given.take(np.arange(0)).X, given.y[:0]),
        "one row": (given.take(np.arange(1)).X, given.y[:1]),
        "a column of missing cells": with_cells(first, np.nan, everywhere=True),
        "NaN": with_cells(first, np.nan), "infinity": with_cells(first, np.inf),
        "a column too few": ({n: c for n, c in given.X.items() if n != first}, given.y),
        "a target of another length": (given.X, given.y[:-1]),
        "no target": (given.X, None), "a stranger in the target": (given.X, stranger),
    }
    if category is not None:
        tables["an unknown category"] = with_cells(category, "an unlisted colour")
    return tables


def check_bad_input_is_refused(learner: Priced, example: Example | None = None) -> None:
    """A table that does not fit: a clear PrivledgerError, or a whole fit; every grant settled."""
    for given in examples_for(learner, example):
        for name, (X, y) in bad_tables(given).items():
            for way in ways(learner):
                with recording() as asked, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        way.fit(given, (X, y))
                    except PrivledgerError:
                        pass
                    except Exception as error:
                        fail(BAD, f"{way.name}, with {name}: {type(error).__name__} instead of a "
                                  "PrivledgerError")
                if asked.unsettled:
                    fail(BAD, f"with {name}: a grant was left open")
    _wrong_schema(learner)


def _wrong_schema(learner: Priced) -> None:
    """A target of a kind that the learner does not do is refused before anything is read."""
    tasks = learner.info.tasks
    for task in ("regression", "classification"):
        if not tasks or task in tasks or not {"regression", "classification"} & set(tasks):
            continue
        fit = attempt(ways(learner)[0], table_for(example_schema(task), task),
                      wait_for=Exception)
        if fit.error is None:
            fail(BAD, f"a target for {task} was taken by a learner that does {', '.join(tasks)}")
        if not isinstance(fit.error, PrivledgerError):
            fail(BAD, f"a target for {task}: {type(fit.error).__name__} instead of a "
                      "PrivledgerError")
        if fit.early or fit.opened:
            fail(BAD, f"a target for {task} was refused after rows were read")
