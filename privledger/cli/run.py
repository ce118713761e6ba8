"""`privledger run`: plan, reserve, fit, evaluate, settle."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import numpy as np
from numpy.typing import NDArray

from privledger.accounting import promise
from privledger.broker import RemoteLearner
from privledger.cli.output import (
    FILE,
    PLACE,
    Reply,
    command,
    data_option,
    is_ours,
    note,
    reading_store,
    where,
)
from privledger.cli.plan import (
    GUARDED,
    Prepared,
    filter_rows,
    isolate_option,
    isolation,
    limit_option,
    making,
    prepare,
    run_argument,
)
from privledger.cli.terminal import (
    GREEN,
    RED,
    charge,
    grid,
    pairs,
    quality,
    quiet_option,
    room,
    text,
    watching,
)
from privledger.cli.verify import dated
from privledger.engines import Engine
from privledger.engines.engine_choice import ENGINES, EngineChoice, started
from privledger.errors import (
    BudgetExceeded,
    InvalidPlan,
    InvalidValue,
    LedgerCorrupt,
    LedgerMissing,
    PrivledgerError,
)
from privledger.gate import INTERNAL
from privledger.graph import to_json
from privledger.guard import Ledger
from privledger.guard.dataset import Dataset
from privledger.guard.policing import keep_policy
from privledger.guard.reserve import MOST_WAIT, patience, refused_grant
from privledger.ledger import Origins, audit
from privledger.numerals import many
from privledger.plugins.holdout import WHY
from privledger.plugins.model_file import ModelFacts, kept, write_model
from privledger.reports import release_count
from privledger.reports.receipt import receipt_of
from privledger.rounding import exact
from privledger.runs import RunFile
from privledger.storage import is_url, shown
from privledger.tables.encode import encode_features, encode_target
from privledger.tables.frames import column_of
from privledger.tables.person_ids import persons
from privledger.tables.person_keys import passing_people_key
from privledger.tables.schema import Schema
from privledger.tables.sources import check_columns, read_table, scan_files

if TYPE_CHECKING:
    from rich.console import Console


# `--engine`: the run's table on disk, in chunks that worker processes answer.

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = (
    click.option("--engine", "name", type=click.Choice(ENGINES),
                 help="Write the table to disk in chunks, and answer with worker processes, on "
                      "this "
                      "machine or on a Dask cluster [default: the run file's, else in memory]."),
    click.option("--workers", type=click.IntRange(1, 1024),
                 help="For --engine: number of processes [default: one per usable processor]."),
    click.option("--scheduler", metavar="ADDRESS",
                 help="For --engine dask: an existing cluster, such as tls://host:8786."),
    click.option("--tls-ca", type=FILE,
                 help="For --scheduler: certificate of the authority that signs the cluster's "
                      "certificates."),
    click.option("--tls-cert", type=FILE,
                 help="For --scheduler: certificate of this client."),
    click.option("--tls-key", type=FILE,
                 help="For --scheduler: key of this client."),
    click.option("--spool", type=click.Path(file_okay=False),
                 help="For --engine: folder of the chunks, to be kept; every worker must reach it "
                      "under this path [default: a temporary folder]."),
)


def engine_options(command: F) -> F:
    """What the command line says about engines."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def wanted_engine(run: RunFile, given: dict[str, Any]) -> EngineChoice | None:
    """The run file's engine, and over it what the command line says.

    Raises:
        InvalidPlan: options that go with an engine, and none; or a holdout beside one.
    """
    said = {key: one for key, one in given.items() if one is not None}
    choice = run.engine
    if said and choice is None and "name" not in said:
        raise InvalidPlan(f"--{min(said).replace('_', '-')}", "given", "given with --engine")
    if said:
        choice = (EngineChoice.of(said, Path()) if choice is None else choice.over(said, Path()))
    if choice is not None and run.evaluate is not None and run.evaluate.holdout is not None:
        raise InvalidPlan("[evaluate] holdout", run.evaluate.holdout, "left out with an engine: "
                                                                      "rows are written to chunks "
                                                                      "as they are read, and none "
                                                                      "is held out. Name public "
                                                                      "rows by test")
    return choice


# Public rows: splitting them off before the guard, and scoring a model on them.

Table = tuple[Any, Any]


def split_off(X: Any, y: Any, schema: Schema, fraction: float) -> tuple[Table, Table]:
    """The private part and the public part, before anything is protected.

    A row's side is a function of that row alone; where the schema names a person's column, of the
    person alone. A split by position would move other rows when one row comes or goes, which no
    accountant here could price.
    """
    public = _public_people(X, schema, fraction) if schema.person else _public_rows(
        X, y, schema, fraction)
    if public.all() or not public.any():
        raise InvalidPlan("[evaluate] holdout", fraction, "a share that leaves rows on both sides")
    return ((take_holdout(X, ~public), take_holdout(y, ~public)),
            (take_holdout(X, public), take_holdout(y, public)))


def _public_people(X: object, schema: Schema, fraction: float) -> NDArray[np.bool_]:
    column = schema.person or ""
    found = persons(column_of(X, column), column)
    sides = np.array([_is_below(one.encode(), fraction) for one in found.ids], dtype=bool)
    return sides[found.rows]


def _is_below(content: bytes, fraction: float) -> bool:
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little") < int(
        fraction * 2.0**64)


def _public_rows(X: object, y: object, schema: Schema, fraction: float) -> NDArray[np.bool_]:
    columns = encode_features(X, schema, strict=False)
    parts = [*columns.arrays, encode_target(y, schema)]
    table = np.stack([np.asarray(part, dtype="<f8") for part in parts], axis=1)
    return np.array([_is_below(row.tobytes(), fraction) for row in table], dtype=bool)


def take_holdout(table: Any, mask: NDArray[np.bool_]) -> Any:
    """Rows of a frame, a series, a mapping of columns or an array."""
    if isinstance(table, Mapping):
        return {name: np.asarray(column)[mask] for name, column in table.items()}
    return table[mask]


def score(model: Any, X: Any, y: Any, schema: Schema) -> dict[str, Any]:
    """How good the model is on public rows. Post-processing: costs nothing.

    Returns:
        `model` and `baseline` (the same without learning anything), and how many `rows`.
    """
    truth = encode_target(y, schema)
    predicted = model.predict(X)
    if schema.task == "classification":
        codes = encode_target(predicted, schema)
        counts = np.bincount(truth, minlength=len(schema.target.categories))
        return {"rows": len(truth), "model": {"accuracy": float((codes == truth).mean())},
                "baseline": {"accuracy": float(counts.max() / len(truth))}}
    errors = np.asarray(predicted, dtype=np.float64) - truth
    centred = truth - truth.mean()
    spread = float(np.square(centred).mean())
    mse = float(np.square(errors).mean())
    return {
        "rows": len(truth),
        "model": {"rmse": mse**0.5, "mae": float(np.abs(errors).mean()),
                  "r2": 1 - mse / spread if spread else 0.0},
        "baseline": {"rmse": spread**0.5, "mae": float(np.abs(centred).mean()), "r2": 0.0},
    }


@command
@run_argument
@data_option
@click.option("--ledger", type=PLACE,
              help="Ledger file, continued if it exists [default: the run file's].")
@click.option("--model", type=PLACE, help="Where to save the fitted model, for privledger predict.")
@click.option("--receipt", type=PLACE,
              help="Where to write the receipt, as JSON; keep it with the model.")
@click.option("--new-ledger", is_flag=True,
              help="Create a new ledger although a receipt of an earlier one is beside it.")
@click.option("--wait", type=click.FloatRange(min=0, max=MOST_WAIT), metavar="SECONDS",
              help="Seconds to wait in the queue for budget [default: the run file's, else 0].")
@isolate_option
@click.option("--isolate-timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS",
              help="The same as --limit silence_seconds=SECONDS.")
@limit_option
@engine_options
@quiet_option
def run(run_file: str, data_dir: str | None, ledger: str | None, model: str | None,
        receipt: str | None, new_ledger: bool, wait: float | None, isolate: bool | None,
        isolate_timeout: float | None, limits: dict[str, Any],
        **engine: Any) -> Reply:
    """Price a run, reserve its budget, train, and score it: on public rows, or privately.

    Exit code 1 if the ledger refuses; then no data was opened. 3 if the ledger it would continue
    cannot be trusted, or is gone although a receipt of it is there. 4 if the model or the receipt
    could not be written after the fit, or an isolated learner failed. 2 if it cannot be isolated
    here.
    """
    check_outputs(model, receipt)
    seconds = None if wait is None else patience(wait)
    choice = wanted_engine(RunFile.load(run_file), engine)
    hidden = () if choice is None else choice.files
    with making(isolate, data_dir, ledger, limits, isolate_timeout, hidden) as make:
        prepared = prepare(run_file, data_dir, ledger, make)
        files = data_files(prepared.run, data_dir)
        if prepared.exists and new_ledger:
            raise click.UsageError(f"--new-ledger: {shown(prepared.ledger)} exists already, and a "
                                   "run continues it")
        if not (prepared.exists or new_ledger):
            refuse_if_remembered(prepared, receipt)
        return carried_out(prepared, files, model, receipt, seconds, choice)


def carried_out(prepared: Prepared, files: tuple[Path, Path | None], model: str | None,
                receipt: str | None = None, seconds: float | None = None,
                choice: EngineChoice | None = None) -> Reply:
    """Reserve, train, score, settle, and keep what was asked to be kept."""
    with open_ledger(prepared, files[0], None if choice is not None else partial(
            protect, prepared, files=files, engine=None, spool=None)) as book:
        book.wait = prepared.run.wait if seconds is None else seconds
        refuse_early(prepared, book)
        result = train(prepared, book, files, choice)
        saved = save(result, prepared, model) if model else True
        if receipt:
            told = {"ledger": Path(shown(book.path)).name, **dated(book)}
            saved = written_run(told, receipt) and saved
    del result["model"]
    return Reply(result, lambda out: render_run(out, result), 0 if saved else INTERNAL)


def check_outputs(model: str | None, receipt: str | None) -> None:
    """Find out before the budget is spent, not after."""
    for name in (model, receipt):
        if not name:
            continue
        place = Path(name).absolute()
        if not place.parent.is_dir():
            raise InvalidPlan("output file", name, "in a folder that exists")
        if not os.access(place if place.exists() else place.parent, os.W_OK):
            raise InvalidPlan("output file", name, "one that may be written")


def data_files(run: RunFile, data_dir: str | None) -> tuple[Path, Path | None]:
    """The table and the public test file, found before a ledger is made for them."""
    test = run.evaluate.test if run.evaluate is not None else None
    return (run.data_path(run.table, data_dir, several=True),
            None if test is None else run.data_path(test, data_dir, several=True))


def refuse_if_remembered(prepared: Prepared, receipt: str | None) -> None:
    """A receipt beside the place of a ledger that is gone: it was spent from, and is not new."""
    if is_url(prepared.ledger):
        return
    found = receipt_of(prepared.ledger, receipt)  # the latter is about to be written over
    if found is not None:
        raise LedgerMissing(
            f"{shown(prepared.ledger)} is missing, but {found.name} is a receipt of it. Losing a "
            "ledger does not return what it had spent. Restore the ledger, or use --new-ledger if "
            "this is another one. Nothing was read")


@contextmanager
def open_ledger(prepared: Prepared, table: Path,
                protecting: Callable[[Ledger], object] | None = None) -> Iterator[Ledger]:
    """The run's ledger: continued, or created from [budget] if the plan fits it, and the table
    the schema.

    Args:
        protecting: puts the table behind a ledger: tried on one in memory before a new ledger is
            made, so that a table with a wrong value leaves none. None for a table that is read in
            chunks: then names and types of its columns are checked.
    """
    run = prepared.run
    if prepared.exists:
        with reading_store(prepared.ledger) as store:
            findings = audit(store)
        if findings:
            first = findings[0]
            raise LedgerCorrupt(f"{shown(prepared.ledger)}: {first.rule}: {first.message}. Nothing "
                                "was read. Run privledger verify")
        book = Ledger.open(prepared.ledger, people_key=run.key_path)
    else:
        if prepared.price.error is not None:
            raise prepared.price.error
        place = prepared.ledger
        if not is_url(place) and not Path(place).absolute().parent.is_dir():
            raise InvalidPlan("ledger", str(place), "in a folder that exists")
        check_columns(table, prepared.schema)
        asked: dict[str, Any] = {"budget": run.budget, "relation": run.relation,
                                 "filter": run.filter, "unit": run.unit_for(prepared.schema)}
        if protecting is not None:
            key = None if run.key_path is None else passing_people_key()
            with Ledger.create(None, **asked, people_key=key) as trial:
                protecting(trial)
        book = Ledger.open_or_create(  # another run may have been first since it was looked for
            prepared.ledger, **asked, people_key=run.key_path)
    with book:
        book.owner_labels = run.labels
        yield book


def refuse_early(prepared: Prepared, book: Ledger) -> None:
    """Refuse what cannot fit before the table is even read, and leave a line about it. What may
    fit later is refused when it was waited for."""
    error = prepared.price.error
    if error is not None and not (book.wait and isinstance(error, BudgetExceeded)):
        book._history.note(refused_grant(prepared.run.learner, error))
        raise error
    if prepared.run.score is not None:
        keep_policy(book._history.state.policy, Origins(asserted=(f"private score ({WHY})",)))


def train(prepared: Prepared, book: Ledger, files: tuple[Path, Path | None],
          choice: EngineChoice | None = None) -> dict[str, Any]:
    """Protect the table, fit under a grant, score on public rows, or on those held out."""
    run, schema = prepared.run, prepared.schema
    with started(choice) as engine:
        with watching(book, release_count(prepared.node)):
            spool = None if choice is None else choice.spool
            data, public = protect(prepared, book, files=files, engine=engine, spool=spool)
            fitted = fit(prepared, data)
        answered_by = None if engine is None else engine.description
    scores = None if public is None else score(fitted, *public, schema)
    scored = None if run.score is None else fitted.private_score_
    return {
        "learner": run.learner, "isolation": isolation(prepared.model),
        "private": book.mode == "private", "ledger": book.path,
        "fixes": prepared.price.fixes, "cheaper": prepared.price.cheaper,
        "epsilon": prepared.price.charged, "delta": prepared.price.charged_delta,
        "relation": book.relation, "unit": book.unit, "spent": book.spent, "left": book.left,
        "budget": book.budget, "filter": prepared.price.filter,
        "theorem": prepared.price.filter_theorem,
        "engine": answered_by, "evaluation": scores,
        "private_score": None if scored is None else scored.as_dict(),
        "receipt": book.receipt.as_dict(dated=True),
        "plan": to_json(prepared.node), "model": fitted,
    }


def protect(prepared: Prepared, book: Ledger, *, files: tuple[Path, Path | None],
            engine: Engine | None, spool: str | None) -> tuple[Dataset, Table | None]:
    """The table behind the guard, and the public rows, if there are any."""
    run, schema = prepared.run, prepared.schema
    table, test = files
    public = None if test is None else read_table(test, schema)
    y = None
    if engine is None:
        X, y = read_table(table, schema)
        if run.evaluate is not None and run.evaluate.holdout is not None:
            (X, y), public = split_off(X, y, schema, run.evaluate.holdout)
    else:
        X = scan_files(table, [column.name for column in schema.columns], schema)
    # A run file that says replace_label says that its features are public.
    data = book.protect(X, y, schema, name=run.data,
                        public_features=book.relation == "replace_label",
                        unlabelled=bool(getattr(prepared.model, "unlabelled", False)),
                        target=None if engine is None else schema.target.name,
                        engine=engine, spool=spool)
    return data, public


def fit(prepared: Prepared, data: Dataset) -> Any:
    """Train, and score privately where the run says so: `private_score_`, for its model file, too.
    What a learner says when it fails may quote a value, so it is not passed on."""
    score = prepared.run.score
    try:
        if score is None:
            return prepared.model.fit(data)
        fitted, found = score.fit(prepared.model, data)
        fitted.private_score_ = found
        return fitted
    except InvalidValue as error:
        if is_ours(error) and isinstance(error.rule, str):
            raise PrivledgerError(f"the fit failed: {error.name} must be {error.rule}") from None
        told = where(error)
    except PrivledgerError as error:
        if is_ours(error):
            raise
        told = where(error)
    except Exception as error:
        told = where(error)
    raise PrivledgerError(f"the fit failed with {told}. Its message is not shown, because it could "
                          "quote a record. What was reserved stays spent")


def save(result: dict[str, Any], prepared: Prepared, path: str) -> bool:
    """Keep a fitted model. The budget is spent by now, so a failure is said, and exits 4."""
    fitted = result["model"]
    facts = ModelFacts(prepared.run.learner, prepared.schema, result["relation"],
                       result["isolation"], result["private"], result["receipt"])
    try:
        made = fitted.keep(facts) if isinstance(fitted, RemoteLearner) else kept(fitted, facts)
        write_model(made, path)
    except (OSError, PrivledgerError) as error:
        why = type(error).__name__ if isinstance(error, OSError) else str(error)
        note(f"the model could not be written to {path}: {why}")
        return False
    return True


def written_run(told: object, path: str) -> bool:
    """Keep a receipt as JSON. The budget is spent by now, so a failure is said, and exits 4."""
    try:
        Path(path).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else type(error).__name__
        note(f"the receipt could not be written to {path}: {why}. `privledger receipt` prints it")
        return False
    return True


def render_run(out: Console, result: dict[str, Any]) -> None:
    """Totals, score, receipt, and where the ledger is."""
    if not result["private"]:
        out.print(text("NOT PRIVATE: simulation with seeded noise", RED))
    scores, budget, receipt = result["evaluation"], result["budget"], result["receipt"]
    out.print(text(f"{result['learner']}: trained and settled", GREEN))
    if result["isolation"] != GUARDED:
        out.print(text(f"{result['isolation']}: the learner ran in a process without rows"))
    if result["engine"] is not None:
        out.print(text(f"answered by {result['engine']}"))
    out.print(pairs([
        ("this run", f"epsilon {charge(result['epsilon'])} at delta {exact(result['delta'])}, "
                     f"{promise(result['relation'], result['unit'])}"),
        ("ledger total", f"epsilon {charge(result['spent'])} of {exact(budget.epsilon)} spent. "
                         f"{room(result['left'], budget.epsilon)}"),
        ("theorem", result["theorem"]),
        *filter_rows(result["filter"], result["fixes"], result["cheaper"]),
    ]))
    if scores is not None:
        out.print(grid(("score on public rows", "model", "without learning"),
                       [(name, quality(value), quality(scores["baseline"].get(name)))
                        for name, value in scores["model"].items()]))
        out.print(text(f"{many(scores['rows'], 'public row')}", "dim"))
    if result["private_score"] is not None:
        render_private_score(out, result["private_score"], result["unit"])
    out.print(pairs([
        ("receipt", f"{many(receipt['entries'], 'entry', 'entries')}, head {receipt['head']}"),
        ("ledger", result["ledger"]),
        ("next", f"privledger show {result['ledger']}"),
    ]))


def render_private_score(out: Console, told: dict[str, Any], unit: str) -> None:
    """Figures of a score that was paid for, with both intervals."""
    def ends(found: Any) -> str:
        return "-" if found is None else f"{quality(found[0])} to {quality(found[1])}"

    rows = [(name, quality(one["value"]), *map(ends, (one["noise"], one["noise_and_sample"])))
            for name, one in told["scores"].items()]
    out.print(grid(("private score", "value", "95 % of the noise", "95 % of noise and sample"),
                   rows))
    whom = "people" if unit == "person" else "records"
    out.print(text(f"about {told['records_about']:.0f} {whom} held out by a private coin each "
                   f"(share {told['holdout']:.3g}); epsilon {charge(told['epsilon'])} for the "
                   "score alone, asserted: a fitted model's predict treats every row alone", "dim"))
