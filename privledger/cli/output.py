"""What every command shares: one opener, one printer, one way to end. JSON is alone on stdout.

Messages go to stderr.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click
from attrs import evolve, frozen
from click.core import ParameterSource

import privledger
from privledger.cli.terminal import console, progress
from privledger.errors import (
    BudgetExceeded,
    DataError,
    InvalidPlan,
    InvalidValue,
    IsolationUnavailable,
    LearnerError,
    LedgerCorrupt,
    LedgerError,
    LedgerMisplaced,
    LedgerMissing,
    LedgerTooNew,
    ModelError,
    PolicyViolation,
    PrivledgerError,
    UnsupportedNode,
    public_name,
)
from privledger.findings import Finding
from privledger.gate import INTERNAL, NOT_TRUSTED, REFUSED, USAGE
from privledger.ledger import Entry, State, Store
from privledger.ledger.view import Comparison, comparison
from privledger.reading import kind_of
from privledger.reports import LedgerReport, Past, Survey, clean, load_receipt, plain, survey
from privledger.reports.ci import FORMATS, Outcome, ci_text
from privledger.reports.receipt import (
    check_signature,
    check_signed_with,
    past_of,
    read_key,
    read_public_key,
)
from privledger.reports.spend import full_state, laid_out
from privledger.reports.survey import Reading, read_once
from privledger.storage import is_url, shown, store_at
from privledger.tables.person_keys import read_people_key

if TYPE_CHECKING:
    from rich.console import Console

    from privledger.guard import Ledger


VERSION = privledger.__version__

FILE, PLACE = click.Path(exists=True, dir_okay=False), click.Path(dir_okay=False)
"""A file that is there, and where one may be."""
format_option = click.option("--format", "format_", type=click.Choice(["text", "json"]),
                             default="text", show_default=True, help="Output format on stdout.")

_EXITS: tuple[tuple[tuple[type[BaseException], ...], int], ...] = (
    ((BudgetExceeded, PolicyViolation, UnsupportedNode), REFUSED),
    ((LedgerCorrupt, LedgerMisplaced, LedgerMissing, LedgerTooNew), NOT_TRUSTED),
    ((InvalidValue, DataError, LearnerError, ModelError, IsolationUnavailable), USAGE),
)


def without_effect(why: str, *names: str) -> None:
    """Refuse options that were given on the command line and that nothing would look at.

    Args:
        why: completes "--option has no effect".
        names: of parameters of the command that runs.
    """
    context = click.get_current_context()
    given = [one.opts[-1] for one in context.command.params if one.name in names
             and context.get_parameter_source(one.name) is ParameterSource.COMMANDLINE]
    if given:
        raise click.UsageError(f"{', '.join(given)} {'has' if len(given) == 1 else 'have'} no "
                               f"effect {why}")


_NO_PATH = (errno.ENAMETOOLONG, errno.ELOOP, errno.ENOTDIR, errno.EISDIR)
"""What a path that cannot be one is refused with: the caller has to give another."""


def exit_code(error: BaseException) -> int:
    """Exit code of an error: 1 refused, 2 usage, 3 ledger not trusted, 4 anything else."""
    return next((code for kinds, code in _EXITS if isinstance(error, kinds)), INTERNAL)


@frozen
class Reply:
    """What a command has to say: as JSON values, or what makes them; printed for people; and its
    exit code."""

    value: Any
    render: Callable[[Console], Any]
    code: int = 0
    other: Callable[[str], str] = str  # in a format beside text and JSON


def command(function: Callable[..., Reply | None], group: click.Group | None = None,
            formats: Callable[[Any], Any] = format_option) -> click.Command:
    """A command that tells what `function` returns, in the format that is asked for, and ends with
    its code. None where it said everything itself."""
    def call(format_: str, **given: Any) -> None:
        with progress():
            told = function(**given)
        if told is None:
            return
        if format_ == "json":
            click.echo(as_json(told.value() if callable(told.value) else told.value))
        elif format_ == "text":
            told.render(console())
        else:
            click.echo(told.other(format_))
        if told.code:
            click.get_current_context().exit(told.code)

    options = function.__dict__.pop("__click_params__", [])
    whole: Any = formats(update_wrapper(call, function))
    whole.__click_params__ += options
    name = function.__name__.removesuffix("_command").replace("_", "-")
    made = (click if group is None else group).command(name, cls=Guarded)(whole)
    assert isinstance(made, click.Command)
    return made


def asks_json() -> bool:
    """Whether the command that runs was asked for JSON."""
    return click.get_current_context().params.get("format_") == "json"


def as_json(value: Any) -> str:
    """Records as objects, in a text without NaN."""
    return json.dumps(plain(value), indent=2, allow_nan=False)


def check_free(place: str, ledger: str | None, *, force: bool) -> None:
    """Nothing is overwritten unless that was said, and no file of the ledger itself ever is."""
    if not Path(place).exists():
        return
    if ledger is not None and any(Path(own).exists() and os.path.samefile(place, own)
                                  for own in (ledger, f"{ledger}-wal", f"{ledger}-shm")):
        raise click.UsageError(f"{place} belongs to the ledger itself")
    if not force:
        raise click.UsageError(f"{place} exists already; --force overwrites it")


def say_served(format_: str, value: Any, address: str) -> None:
    """Where a page is served, at once and whole: a terminal must not wrap or delay an address."""
    click.echo(as_json(value) if format_ == "json" else clean(address))
    sys.stdout.flush()


def note(text: str) -> None:
    """A message for people, on stderr."""
    click.echo(clean(text, limit=2000), err=True)


WORDS = "privledger.words"


class Guarded(click.Command):
    """A command whose failures are one clear message and a fitting exit code.

    Tracebacks are not shown: text of an unexpected exception may quote a value.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the words for the completion of a command that cannot be parsed yet."""
        ctx.meta[WORDS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; an error becomes its exit code, and an unknown one says no value."""
        try:
            self._check_files(ctx)
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except PrivledgerError as error:
            _fail(ctx, type(error).__name__, str(error), exit_code(error))
        except OSError as error:  # a full disk or a closed folder is no fault of this package
            _fail(ctx, "InternalError", f"a file or a stream cannot be used: {where(error)}",
                  USAGE if error.errno in _NO_PATH else INTERNAL)
        except Exception as error:
            _fail(ctx, "InternalError", f"internal error: {where(error)}", INTERNAL)

    def _check_files(self, ctx: click.Context) -> None:
        """No command opens a FIFO, a socket or a device: that alone may wait for ever."""
        for param in self.params:
            given = ctx.params.get(param.name or "")
            if not isinstance(param.type, click.Path) or given is None:
                continue
            for path in given if isinstance(given, tuple) else (given,):
                kind = _kind(path) if isinstance(path, str) and path != "-" else ""
                if kind:
                    raise click.BadParameter(f"{path} is {kind}, not a file", ctx, param)


def _kind(path: str) -> str:
    """What is there instead of a file of bytes; empty for a file, a folder, or nothing at all."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    return "" if stat.S_ISDIR(mode) else kind_of(mode)


def where(error: BaseException) -> str:
    """The type of an unexpected exception and the line of code; never a text of its own."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    name = public_name(type(error))
    if isinstance(error, OSError) and isinstance(error.errno, int):
        name = f"{name} ({os.strerror(error.errno)})"
    if trace is None:
        return name
    module = trace.tb_frame.f_globals.get("__name__", "?")
    return f"{name} in {module}, line {trace.tb_lineno}"


def say_failure(format_: str, kind: str, message: str, code: int) -> None:
    """On stdout, for programs that read it: a failure is never an empty, passing report."""
    if format_ == "json":
        click.echo(json.dumps({"error": kind, "message": clean(message, limit=2000),
                               "exit": code}, indent=2))
    elif format_ in FORMATS:
        found = Finding("cannot-check", -1, f"{kind}: {message}")
        click.echo(ci_text(format_, Outcome("privledger", VERSION, code, "nothing was checked",
                                            {}, (found,))))


def is_ours(error: PrivledgerError) -> bool:
    """Whether this package's own code wrote the error's text, and no caller of it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    module = "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", ""))
    return module.partition(".")[0] == "privledger" and public_name(type(error)) == (
        type(error).__name__)


def _fail(ctx: click.Context, kind: str, message: str, code: int) -> NoReturn:
    say_failure(str(ctx.params.get("format_")), kind, message, code)
    called = ctx.command_path.partition(" ")[2]  # all its words, however the program is called
    note(f"privledger {called}: {message}")
    ctx.exit(code)


# Opening things for reading.

class LedgerPlace(click.Path):
    """An existing file, or the URL of a ledger in a database."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A PostgreSQL address as it is; anything else as a path that click checks."""
        return value if is_url(value) else super().convert(value, param, ctx)


ledger_argument = click.argument("ledger", metavar="LEDGER", type=LedgerPlace())
data_option = click.option("--data-dir", type=click.Path(exists=True, file_okay=False),
                           help="Folder that the run file's data paths are relative to "
                                "[default: $PRIVLEDGER_DATA, else the run file's folder].")


people_key_option = click.option("--people-key", type=click.Path(),
                                 help="File with the key of the ledger's people.")


def _completing(names: Callable[[State], Iterable[str]] | None = None) -> Callable[..., list[str]]:
    """What a shell offers: names in the ledger that was typed already, or learners. A name with
    signs that move a cursor is not offered, and what cannot be read offers nothing."""
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
        try:
            if names is None:
                from privledger.plugins import learner_names

                found: Iterable[str] = learner_names()
            else:
                # An option that still lacks its value keeps click from reading the rest.
                place = next(one for one in ctx.meta[WORDS] if is_url(one) or Path(one).is_file())
                with reading_state(place) as (_, state):
                    found = names(state)
        except Exception:  # a message would stand in the middle of a command
            return []
        return [name for name in found if name.startswith(incomplete) and clean(name) == name]

    return complete


complete_learner = _completing()
complete_grant = _completing(lambda state: (*state.grants, *state.scopes))
complete_table = _completing(lambda state: state.tables)


@contextmanager
def reading(path: str | Path, people_key: str | None = None) -> Iterator[Ledger]:
    """A ledger opened read-only. A history that cannot be folded is a corrupt one.

    Args:
        people_key: the file of its people's key, to look a person up.
    """
    from privledger.guard import Ledger  # an audit alone needs none

    key = None if people_key is None else read_people_key(people_key)
    try:
        ledger = Ledger.open(path, read_only=True, people_key=key)
    except (LedgerError, InvalidValue):
        raise
    except (PrivledgerError, ValueError, TypeError, KeyError):
        raise LedgerCorrupt(f"{shown(path)}: the history cannot be understood") from None
    with closing(ledger._history.store):
        yield ledger


where_option = click.option("--where", multiple=True, metavar="KEY=VALUE",
                            help="Only grants and scopes that match, such as team=red, "
                                 "library=opacus, isolation=guarded, learner=NAME, table=NAME, "
                                 "cap=TITLE or label:KEY=VALUE; may be repeated.")


@contextmanager
def reading_state(path: str | Path) -> Iterator[tuple[Store, State]]:
    """A store and what its history folds to, whatever is wrong with the place: for a reader who
    shows what an audit finds, and believes nothing before."""
    with reading_store(path) as store:
        yield store, full_state(store)


def reading_store(path: str | Path) -> closing[Store]:
    """Only the store: for an audit that wants every fault, not the first."""
    return closing(store_at(path, read_only=True))


def receipt_or_none(path: str | Path) -> dict[str, Any] | None:
    """The receipt of a ledger; None if its history cannot be folded, so that there is none."""
    try:
        with reading(path) as opened:
            return opened.receipt.as_dict()
    except LedgerError:
        return None


# What was kept elsewhere about a ledger: a receipt, a head, keys.

receipt_option = click.option(
    "--receipt", type=FILE,
    help="A receipt that was released with a model: detects deleted last entries or an old copy.")
key_option = click.option("--key-file", type=FILE,
                           help="The receipt must be signed with the secret in this file.")
public_option = click.option(
    "--public-key", type=FILE,
    help="The receipt must be signed with the Ed25519 key whose public half (PEM) this is.")


@frozen
class Witness:
    """What was kept elsewhere about a history: a receipt, a head, or nothing."""

    receipt: dict[str, Any] | None = None
    head: str | None = None
    key_file: str | None = None
    public_key: str | None = None

    @property
    def present(self) -> bool:
        """Whether there is anything to compare the history with."""
        return self.receipt is not None or self.head is not None

    @property
    def comparison(self) -> Comparison:
        """What it is worth, in words."""
        return comparison(self.receipt, self.head, signed=bool(self.key_file or self.public_key))

    def survey(self, store: Store, *, whole: bool = False) -> Survey:
        """Audit `store`, and take down what `compare` needs."""
        return survey(store, 0 if self.receipt is None else self.receipt["entries"], self.head,
                      whole=whole)

    def read(self, store: Store, *, whole: bool = False) -> Reading:
        """Read `store` once; its findings begin with whatever the witness contradicts."""
        found = read_once(store, 0 if self.receipt is None else self.receipt["entries"],
                          self.head, self.comparison, whole=whole)
        past = found.seen.past
        wrong = self.compare(past) if self.present and past.entries else []
        return evolve(found, findings=(*wrong, *found.findings)) if wrong else found

    def report(self, store: Store, *, whole: bool = False) -> LedgerReport:
        """The same, laid out."""
        return laid_out(store, self.read(store, whole=whole), self.comparison)[0]

    def past_of(self, entries: Sequence[Entry]) -> Past:
        """What `compare` needs, of entries that were read already."""
        return past_of(entries, 0 if self.receipt is None else self.receipt["entries"], self.head)

    def compare(self, past: Past) -> list[Finding]:
        """Everything about a history that the witness contradicts."""
        found = []
        if self.receipt is not None:
            found += [*self._signature(self.receipt), *past.receipt_is_there(self.receipt)]
        return [*found, *past.head_is_there()]

    def _signature(self, receipt: dict[str, Any]) -> list[Finding]:
        """A receipt that should be signed, and is not, by this key."""
        public = read_public_key(self.public_key) if self.public_key else None
        secret = read_key(self.key_file) if self.key_file else None
        try:
            if public is not None:
                check_signed_with(receipt, public)
            if secret is not None:
                check_signature(receipt, secret)
        except InvalidPlan as error:
            return [Finding("receipt-is-signed", -1, str(error))]
        return []


def kept_elsewhere(receipt: str | None, head: str | None, key_file: str | None,
            public_key: str | None) -> Witness:
    """Read what the options name; a key without a receipt would check nothing."""
    if (key_file or public_key) and receipt is None:
        raise click.UsageError("a key needs --receipt, the only thing that is signed")
    if head is not None and not re.fullmatch("[0-9a-f]{64}", head):
        raise click.UsageError("--expect-head takes 64 hexadecimal digits")
    return Witness(load_receipt(receipt) if receipt else None, head, key_file, public_key)
