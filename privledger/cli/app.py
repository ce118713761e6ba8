"""The group of commands."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, TextIO

import click
from click.shell_completion import CompletionItem

import privledger
from privledger.cli.special import import_quickly

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

USAGE, INTERRUPTED, CLOSED_PIPE = 2, 130, 141
FORMATS = ("json", "sarif", "junit", "github")

GROUPS: dict[str, dict[str, tuple[str, str]]] = {
    "Start": {
        "demo": ("demo:demo", "A complete example on real data, in half a minute."),
        "init": ("make:init", "Write a schema from a public description."),
        "doctor": ("doctor:doctor", "What is wrong with a table, for its owner alone."),
        "ask": ("ask:ask", "Ask a table in SQL: counts, means, quantiles by groups."),
        "plan": ("plan:plan", "Price a run; no data is opened."),
        "run": ("run:run", "Price a run, reserve its budget, train and score."),
        "fit": ("fit:fit_command", "Train on a table, without a run file."),
        "predict": ("predict:predict", "Predict a table with a saved model."),
    },
    "Look": {
        "show": ("show:show", "What was spent, what is left, what needs attention."),
        "top": ("record:top", "Who spent most: learners, mechanisms, tables, grants."),
        "log": ("show:log", "The entries in order, one line each."),
        "record": ("record:record", "What one record, or one person, spent, and on what."),
        "risk": ("explain:risk", "The most that an attacker could find out, in words."),
        "report": ("report:report", "Write a report as one self-contained HTML page."),
        "serve": ("serve:serve", "A read-only page about a ledger, on 127.0.0.1."),
        "explain": ("explain:explain_command", "Which "
                                               "theorem proves a price, and what others say."),
    },
    "Decide": {
        "check": ("check:check", "Check a ledger or a run against a policy, for CI."),
        "whatif": ("whatif:whatif", "What would fit, or change, in a ledger."),
    },
    "Prove": {
        "verify": ("verify:verify", "Re-read and re-price every entry of a ledger."),
        "receipt": ("verify:receipt", "Print a receipt of a ledger, to keep elsewhere."),
        "prove": ("verify:prove", "Prove what was spent, or that an entry exists."),
        "witness": ("verify:witness", "Countersign receipts of other owners' ledgers."),
        "overlap": ("diff:overlap", "Find tables that several ledgers protected."),
        "export": ("export:export", "Write the whole history as JSON lines."),
        "diff": ("diff:diff", "Compare two ledgers or two plans."),
    },
    "Keep": {
        "correct": ("keep:correct", "Append a correction; it never returns budget."),
        "window": ("keep:window", "Open a window: caps per window start from zero."),
        "people-key": ("keep:people_key", "Make the people key of a ledger."),
        "backup": ("keep:backup", "Copy a ledger, even one in use, to a new file."),
        "restore": ("keep:restore", "Restore a backup, and list what it lacks."),
    },
    "Make": {
        "new": ("make:new", "Write a plugin package that works."),
        "audit": ("audit:audit", "Try to disprove a learner's epsilon by fitting it."),
        "learners": ("make:learners", "List the installed learners."),
    },
    "Together": {
        "federate": ("federate:federate", "Train one model over several owners' tables."),
    },
}
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}
"""Name of a command -> module below `privledger.cli` and the name in it, and its help in one line.

Loaded when called; the help stands here so that a list of commands loads none of them.
"""


def _elsewhere() -> dict[str, list[EntryPoint]]:
    """Commands that installed packages bring; none is imported."""
    return brought(frozenset(COMMANDS))


def _listed() -> list[tuple[str, str]]:
    """Every command with its line of help; none is imported."""
    lines = {name: short for name, (_, short) in COMMANDS.items()}
    return sorted((lines | {name: described_command(points)
                            for name, points in _elsewhere().items()}).items())


class _Loaded(Mapping[str, click.Command]):
    """`COMMANDS` and those of other packages, each imported when it is asked for."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in COMMANDS:
            return load(name, _elsewhere()[name])
        module, _, attribute = COMMANDS[name][0].partition(":")
        found: click.Command = getattr(import_module(f"privledger.cli.{module}"), attribute)
        return found

    def __contains__(self, name: object) -> bool:
        return name in COMMANDS or name in _elsewhere()

    def __iter__(self) -> Iterator[str]:
        return iter((*COMMANDS, *_elsewhere()))

    def __len__(self) -> int:
        return len(COMMANDS) + len(_elsewhere())


class Commands(click.Group):
    """The group, with one way out for usage errors, interruption and closed pipes.

    The module of a command is imported when the command is called, so that each starts fast.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.commands = _Loaded()  # type: ignore[assignment]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without loading one."""
        listed = dict(_listed())
        for title, group in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, listed.pop(name)) for name in group])
        if listed:
            with formatter.section("Commands of other packages"):
                formatter.write_dl(list(listed.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names of commands, without loading one; options as click finds them."""
        names = [CompletionItem(name, help=short) for name, short in _listed()
                 if name.startswith(incomplete)]
        return [*names, *click.Command.shell_complete(self, ctx, incomplete)]

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None,
             complete_var: str | None = None, standalone_mode: bool = True,
             **extra: Any) -> Any:
        """Run a command; every way it may end becomes a message on stderr and an exit code."""
        given = list(sys.argv[1:] if args is None else args)
        import_quickly()
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:  # closed by the caller: it is not read
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warned
                code = super().main(given, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort as error:
            if isinstance(error.__context__, EOFError):  # no user is there to answer a question
                code = _said(given, "UsageError", "the input ended before the last question was "
                             "answered; --help says which options answer them", USAGE)
            else:
                code = _said(given, "Interrupted", "interrupted. A reservation that was made stays "
                                                   "spent", INTERRUPTED)
        except click.ClickException as error:
            kind, error = type(error).__name__, _with_meant(error)
            code = _said(given, kind, error.format_message(), error.exit_code, error)
        except (BrokenPipeError, SystemExit):
            # The reader of our output stopped reading; what was done is done. (click turns a
            # closed pipe into SystemExit, and nothing else, when it is not in charge.)
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            code = CLOSED_PIPE
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else 0)


def _with_meant(error: click.ClickException) -> click.ClickException:
    """Of a name that is none, with the one that was meant, if one is near."""
    found = re.match(r"No such command '(.*)'|'(.*)' is not (one of .*)", error.message, re.DOTALL)
    if found is None or not isinstance(error, click.UsageError):
        return error
    from privledger.numerals import meant, meant_of

    name, value, listed = found.groups()
    group, more = None if error.ctx is None else error.ctx.command, ""
    if name is not None and isinstance(group, click.Group) and error.ctx is not None:
        more = meant(name, group.list_commands(error.ctx))
    elif listed is not None:
        more = meant_of(listed.rstrip("."), value)
    return click.UsageError(error.format_message().rstrip(".") + more, error.ctx) if more else error


def _warned(message: Warning | str, category: type[Warning], filename: str, lineno: int,
            file: TextIO | None = None, line: str | None = None) -> None:
    """A warning is for the user at the terminal: in one line, without a line of our code."""
    from privledger.cli.output import note

    note(f"warning: {message}")


def _said(given: list[str], kind: str, message: str, code: int,
          error: click.ClickException | None = None) -> int:
    text = " ".join(given)
    for format_ in FORMATS:
        if f"--format {format_}" in text or f"--format={format_}" in text:
            from privledger.cli.output import say_failure

            say_failure(format_, kind, message, code)
    if error is not None:
        error.show()
    else:
        click.echo(f"privledger: {message}", err=True)
    return code


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"],
                                             "max_content_width": 100})
@click.version_option(privledger.__version__, prog_name="privledger")
def main() -> None:
    """Privacy budgets that hold: price a run, run it under a ledger, audit what was spent."""
    for stream in (sys.stdout, sys.stderr):
        # A label in letters the terminal cannot show must not end the command.
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError, OSError):
                stream.reconfigure(errors="replace")


# Commands that installed packages bring: the entry-point group `privledger.commands`.
#
# Nothing of them is imported before one is called, and what is broken in one stays there. A name of
# ours is never theirs.

GROUP = "privledger.commands"
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def brought(ours: frozenset[str]) -> dict[str, list[EntryPoint]]:
    """Name -> the different places that bring it; nothing is imported."""
    from importlib.metadata import entry_points  # reads e-mail headers: most commands need none

    found: dict[str, dict[str, EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        if _NAME.fullmatch(point.name) and point.name not in ours:
            found.setdefault(point.name, {})[point.value] = point
    return {name: list(points.values()) for name, points in found.items()}


def described_command(points: list[EntryPoint]) -> str:
    """A line for the list of commands."""
    return "Of " + " and ".join(sorted(point.module.partition(".")[0] for point in points)) + "."


def load(name: str, points: list[EntryPoint]) -> click.Command:
    """The command.

    Raises:
        click.ClickException: two packages bring it, it cannot be imported, or is no command.
    """
    if len(points) > 1:
        # Whichever came first on the path would win, and the user would not be told which.
        raise click.ClickException(f"command {name} is provided by more than one package, so none "
                                   f"is used: {', '.join(sorted(one.value for one in points))}")
    try:
        command = points[0].load()
    except Exception as error:
        raise click.ClickException(f"command {name} of {points[0].value} cannot be imported: "
                                   f"{type(error).__name__}: {error}") from error
    if not isinstance(command, click.Command):
        raise click.ClickException(f"{points[0].value} is no command")
    return command
