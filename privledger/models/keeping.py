"""Fitted learners <-> model files."""

from __future__ import annotations

import inspect
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from attrs import frozen

from privledger.errors import ModelError, PrivledgerError
from privledger.facts.schema import Schema
from privledger.models.file import MOST_MB, ModelFile, read_model, write_model
from privledger.models.tree import Records, TreeReader, Writer
from privledger.plugins import load_learner

# What a fitted learner holds beside what it learned; none of it belongs into a file.
_GUARDED = ("ledger_", "data_", "stream_scope_")
# What a fit that was refused may leave behind: nothing of it was learned.
_BEFORE = {"schema_", "relation_", "n_features_in_", "feature_names_in_", "receipt_",
           "fell_back_"}


@frozen
class ModelFacts:
    """What the owner vouches for, beside what the learner made.

    Attributes:
        learner: the entry point's name. schema: of the table it was fitted on.
        relation: what neighbouring tables differ in. isolation: how it was kept from the rows.
        private: False for simulated noise, NOT PRIVATE.
        receipt: the ledger's head after the fit, as JSON values, or None.
    """

    learner: str
    schema: Schema
    relation: str
    isolation: str = "guarded"
    private: bool = True
    receipt: dict[str, Any] | None = None

    def header(self) -> dict[str, Any]:
        """The facts as JSON values, with the version that writes them."""
        return {"privledger": _version(), "learner": self.learner,
                "schema": self.schema.to_dict(), "relation": self.relation,
                "isolation": self.isolation, "private": self.private, "receipt": self.receipt}


def _version() -> str:
    try:
        return version("privledger")
    except PackageNotFoundError:
        return ""


def kept(learner: Any, facts: ModelFacts) -> ModelFile:
    """A fitted learner as a model file: its parameters, and its attributes that end in "_".

    Raises:
        ModelError: it holds something that such a file has no word for, or would lose.
    """
    writer = Writer(Records.of(type(learner)))
    fitted = {name: writer.tree(value, name) for name, value in sorted(vars(learner).items())
              if _is_fitted(type(learner), name) and name not in _GUARDED}
    names = sorted(inspect.signature(type(learner)).parameters)
    lost = [name for name in vars(learner) if not name.endswith("_") and name[0] != "_"
            and name not in names and name not in fitted]
    if lost:
        raise ModelError(f"{facts.learner} sets {lost[0]!r:.60}, which a model file would lose: "
                         "what was learned ends in an underscore, or is listed in "
                         "model_attributes")
    params = {name: writer.tree(getattr(learner, name, None), name) for name in names
              if name not in ("schema", "scope")}
    return ModelFile(facts.header() | {"params": params, "fitted": fitted}, tuple(writer.arrays))


def _is_fitted(kind: type, name: str) -> bool:
    return (name.endswith("_") and not name.startswith("_")) or name in getattr(
        kind, "model_attributes", ())


def revived(model: ModelFile, kind: type) -> Any:
    """The learner of a model file, of the class that is registered under its name.

    Raises:
        ModelError: the file is not of this learner, or says what none can hold.
    """
    header = model.header
    reader = TreeReader(Records.of(kind), list(model.arrays))
    try:
        schema = Schema.from_dict(header["schema"])
        # In the order they were written in: a record may stand once and be named again.
        fitted = {name: reader.value(tree) for name, tree in _table(header["fitted"]).items()}
        params = {name: reader.value(tree) for name, tree in _table(header["params"]).items()}
        learner = kind(**params, schema=schema)
    except PrivledgerError as error:
        raise ModelError(f"the model cannot be read: {error}") from None
    except Exception:
        raise ModelError(f"the model is not one of {header['learner']}: it was made with other "
                         "parameters") from None
    for name, value in fitted.items():
        if not _is_fitted(kind, name) or name in _GUARDED or hasattr(kind, name):
            raise ModelError(f"the model sets {name!r:.60}, which {header['learner']} does not "
                             "learn")
        setattr(learner, name, value)
    return learner


def _table(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ModelError("a model file without parameters or attributes")
    return value


def save_model(learner: Any, path: str | Path) -> None:
    """Write a fitted learner to a model file: released values only, and no code.

    Args:
        learner: fitted; of a class that is registered as an entry point.
        path: of the file, which is replaced if it is there.

    Raises:
        ModelError: it is not fitted, or holds something that such a file has no word for.
            OSError.
    """
    info, ledger = learner.info, getattr(learner, "ledger_", None)
    schema = getattr(learner, "schema_", None) or learner.schema or getattr(
        getattr(learner, "data_", None), "schema", None)
    if not isinstance(schema, Schema):
        raise ModelError("a model is kept with its schema; this learner has none")
    receipt = getattr(learner, "receipt_", None)
    facts = ModelFacts(info.name, schema, getattr(learner, "relation", "add_remove"),
                  private=getattr(ledger, "mode", "private") == "private" and bool(
                      getattr(learner, "private_", True)),
                  receipt=None if receipt is None else receipt.as_dict(dated=True))
    model = kept(learner, facts)
    if not set(model.header["fitted"]) - _BEFORE:
        raise ModelError(f"{info.name} is not fitted yet: there is nothing to keep; fit it first")
    write_model(model, path)


def load_model(path: str | Path, *, most_mb: int = MOST_MB) -> Any:
    """A fitted learner from a model file. Its class is looked up by name among those installed.

    Args:
        path: of a file that `save_model`, or `run --model`, wrote.
        most_mb: MiB that the file may have.

    Raises:
        ModelError: not a model file, or one that says what no such learner can hold.
        LearnerError: its learner is not installed. The learner's package is imported.
    """
    model = read_model(path, most_mb=most_mb)
    return revived(model, load_learner(model.header["learner"]))
