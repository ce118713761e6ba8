"""Printing: JSON alone on stdout, or text for people; messages on stderr."""

from __future__ import annotations

import errno
import json
import os
import stat
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import click
from click.core import ParameterSource

import privledger
from privledger.errors import (
    BudgetExceeded,
    DataError,
    InvalidValue,
    IsolationUnavailable,
    LearnerError,
    LedgerCorrupt,
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
from privledger.reading import kind_of
from privledger.reports import clean, plain
from privledger.reports.ci import FORMATS, Outcome, ci_text

if TYPE_CHECKING:
    from rich.console import Console

VERSION = privledger.__version__
WIDTH = 100

format_option = click.option("--format", "format_", type=click.Choice(["text", "json"]),
                             default="text", show_default=True,
                             help="What to print on stdout.")

_EXITS: tuple[tuple[type[BaseException], int], ...] = (
    (BudgetExceeded, REFUSED),
    (PolicyViolation, REFUSED),
    (UnsupportedNode, REFUSED),
    (LedgerCorrupt, NOT_TRUSTED),
    (LedgerMisplaced, NOT_TRUSTED),
    (LedgerMissing, NOT_TRUSTED),
    (LedgerTooNew, NOT_TRUSTED),
    (InvalidValue, USAGE),
    (DataError, USAGE),
    (LearnerError, USAGE),
    (ModelError, USAGE),
    (IsolationUnavailable, USAGE),
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
"""What a path that cannot be one is refused with: whoever gave it has to give another."""


def exit_code(error: BaseException) -> int:
    """Exit code of an error: 1 refused, 2 usage, 3 ledger not trusted, 4 anything else."""
    for kind, code in _EXITS:
        if isinstance(error, kind):
            return code
    return INTERNAL


def console(*, stderr: bool = False) -> Console:
    """A rich console that reads no markup, so that a label is only ever a label.

    NO_COLOR is respected by rich itself.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() or "COLUMNS" in os.environ else WIDTH
    return Console(stderr=stderr, markup=False, highlight=False, emoji=False, width=width)


def emit(format_: str, value: Any, render: Callable[[Console], None]) -> None:
    """Print `value` as JSON, or whatever `render` prints for people."""
    if format_ == "json":
        click.echo(json.dumps(plain(value), indent=2, allow_nan=False))
    else:
        render(console())


def say_served(format_: str, value: Any, address: str) -> None:
    """Where a page is served, at once and whole: a terminal must not wrap or delay an address."""
    click.echo(json.dumps(plain(value), indent=2, allow_nan=False) if format_ == "json"
               else clean(address))
    sys.stdout.flush()


def note(text: str) -> None:
    """A message for people, on stderr."""
    click.echo(clean(text, limit=2000), err=True)


class Guarded(click.Command):
    """A command whose failures are one clear message and a fitting exit code.

    Tracebacks are not shown: text of an unexpected exception may quote a value.
    """

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
    """On stdout, for whoever reads it by machine: a failure is never an empty, passing report."""
    if format_ == "json":
        click.echo(json.dumps({"error": kind, "message": clean(message, limit=2000),
                               "exit": code}, indent=2))
    elif format_ in FORMATS:
        found = Finding("cannot-check", -1, f"{kind}: {message}")
        click.echo(ci_text(format_, Outcome("privledger", VERSION, code, "nothing is known",
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
