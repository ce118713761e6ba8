"""`privledger predict`: a kept model on a table. Post-processing: costs nothing."""

from __future__ import annotations

import csv
import io
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from attrs import evolve

from privledger.broker import DEFAULTS, Limits, RemoteLearner
from privledger.cli.output import FILE, PLACE, Reply, command, note
from privledger.cli.plan import HERE, isolate_option, limit_option, saying_how, wanted
from privledger.errors import InvalidPlan, LearnerError, ModelError, PrivledgerError
from privledger.plugins import find_learner, load_learner
from privledger.plugins.model_file import ModelFile, read_model, revived
from privledger.tables.listing import members
from privledger.tables.schema import Schema
from privledger.tables.sources import read_features


@partial(command, formats=click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text", show_default=True,
    help="What to print on stdout; text is CSV."))
@click.argument("model", type=FILE, metavar="MODEL")
@click.argument("table", type=click.Path(exists=True), metavar="TABLE")
@click.option("-o", "--output", type=PLACE, metavar="FILE",
              help="Where to write the predictions, as CSV [default: stdout].")
@click.option("--schema", "schema_file", type=FILE,
              help="Refuse unless the model was fitted under this schema.")
@click.option("--proba", is_flag=True,
              help="The share of each class instead of a label: one column for each class.")
@isolate_option
@limit_option
def predict(model: str, table: str, output: str | None, schema_file: str | None, proba: bool,
            isolate: bool | None, limits: dict[str, Any]) -> Reply:
    """Predict every row of TABLE with MODEL, as kept by run --model.

    TABLE is a CSV or Parquet file, or a folder of them. It has the schema's feature columns; its
    target, if it is there, is not looked at.
    Predictions are made of released values: they cost nothing, and no ledger is opened.
    """
    if output and not Path(output).absolute().parent.is_dir():
        raise click.UsageError(f"-o {output}: no such folder")
    allowed = Limits.of(limits)
    found = read_model(model, most_mb=allowed.model_mb)
    schema = Schema.from_dict(found.header["schema"])
    if schema_file is not None and Schema.load(schema_file) != schema:
        raise ModelError("the model was fitted under another schema")
    X = read_features(table, schema)
    heads, values = predictions(found, X, isolate, allowed,
                                (Path(model), Path(table), *members(table)), proba=proba)
    if not found.header["private"]:
        note("NOT PRIVATE: the model was made with seeded noise, in simulation")
    name = schema.target.name
    heads = heads or (name,)
    if output:
        Path(output).write_text(predictions_csv(heads, values), encoding="utf-8")
        note(f"{len(values)} predictions written to {output}")
    return Reply({"learner": found.header["learner"], "private": found.header["private"],
                  "target": name, "rows": len(values), "output": output,
                  "predictions": None if output else values} | (
                      {"classes": heads} if proba else {}),
                 lambda out: None if output else click.echo(predictions_csv(heads, values),
                                                            nl=False))


def predictions(model: ModelFile, X: Any, isolate: bool | None, limits: Limits,
                private: tuple[Path, ...], *, proba: bool = False
                ) -> tuple[tuple[Any, ...], list[Any]]:
    """Numbers or labels, one per row, by the learner's own class, here or in its own process; with
    `proba` the classes, and a share of each per row."""
    name = model.header["learner"]
    point = find_learner(name)
    if wanted(isolate, name):
        if proba:
            raise InvalidPlan("--proba", "given", "left out where the learner is isolated: its "
                              "process answers labels")
        with saying_how(isolate):
            learner: Any = RemoteLearner.revive(point, model, private=private, limits=limits)
    else:
        if evolve(limits, model_mb=DEFAULTS.model_mb) != DEFAULTS:
            raise InvalidPlan("--limit", "given", HERE + "; model_mb counts everywhere")
        learner = revived(model, load_learner(name))
    try:
        return _plain(learner, X, proba)
    finally:
        if isinstance(learner, RemoteLearner):
            learner.close()


def _plain(learner: Any, X: Any, proba: bool) -> tuple[tuple[Any, ...], list[Any]]:
    if not hasattr(learner, "predict"):
        raise LearnerError(f"{learner.info.name} predicts nothing: privledger.load_model(MODEL) "
                           "has its answer_, or applies it by transform(table)")
    if proba and not hasattr(learner, "predict_proba"):
        raise LearnerError(f"{learner.info.name} has no shares of classes: leave --proba out")
    try:
        found = np.asarray((learner.predict_proba if proba else learner.predict)(X)).tolist()
        heads = tuple(np.asarray(learner.classes_).tolist()) if proba else ()
    except PrivledgerError:
        raise
    except Exception as error:  # its text may quote a value
        raise ModelError(f"the model cannot predict: {type(error).__name__}") from None
    if any(not isinstance(value, str | int | float) for row in found
           for value in (row if proba and len(row) == len(heads) else [row])):
        raise ModelError("the model predicted something that is neither number nor label")
    return heads, list(found)


def predictions_csv(heads: tuple[Any, ...], values: list[Any]) -> str:
    """One column under the target's name, or one for each class."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(heads)
    lines.writerows([[repr(value) if isinstance(value, float) else value
                      for value in (row if isinstance(row, list) else [row])] for row in values])
    return text.getvalue()
