"""The group of commands."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

import privledger
from privledger.cli.checking import check, verify
from privledger.cli.correcting import correct
from privledger.cli.demo import demo
from privledger.cli.explaining import explain_command
from privledger.cli.exporting import export
from privledger.cli.listing import learners
from privledger.cli.output import say_failure
from privledger.cli.overlapping import overlap
from privledger.cli.planning import plan
from privledger.cli.receipts import receipt
from privledger.cli.reporting import report
from privledger.cli.running import run
from privledger.cli.showing import record, show
from privledger.cli.windowing import window
from privledger.reports.ci import FORMATS

INTERRUPTED, CLOSED_PIPE = 130, 141


class Commands(click.Group):
    """The group, with one way out for usage errors, interruption and closed pipes."""

    def main(self, args: Sequence[str] | None = None, prog_name: str | None = None,
             complete_var: str | None = None, standalone_mode: bool = True,
             **extra: Any) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        try:
            code = super().main(given, prog_name, complete_var, standalone_mode=False, **extra)
        except click.Abort:
            code = _said(given, "Interrupted", "interrupted; a reservation that was made stays "
                         "spent", INTERRUPTED)
        except click.ClickException as error:
            code = _said(given, type(error).__name__, error.format_message(), error.exit_code,
                         error)
        except (BrokenPipeError, SystemExit):
            # Whoever read our output stopped reading; what was done is done. (click turns a
            # closed pipe into SystemExit, and nothing else, when it is not in charge.)
            sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
            code = CLOSED_PIPE
        if not standalone_mode:
            return code
        sys.exit(code if isinstance(code, int) else 0)


def _said(given: list[str], kind: str, message: str, code: int,
          error: click.ClickException | None = None) -> int:
    text = " ".join(given)
    for format_ in ("json", *FORMATS):
        if f"--format {format_}" in text or f"--format={format_}" in text:
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


COMMANDS = (demo, plan, explain_command, run, show, record, correct, receipt, verify, export,
            report, check, overlap, window, learners)
for command in COMMANDS:
    main.add_command(command)
