"""The group of commands."""

from __future__ import annotations

import contextlib
import io
import sys

import click

import privledger
from privledger.cli.checking import check, verify
from privledger.cli.demo import demo
from privledger.cli.listing import learners
from privledger.cli.planning import plan
from privledger.cli.running import run
from privledger.cli.showing import record, show


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(privledger.__version__, prog_name="privledger")
def main() -> None:
    """Privacy budgets that hold: price a run, run it under a ledger, audit what was spent."""
    for stream in (sys.stdout, sys.stderr):
        # A label in letters the terminal cannot show must not end the command.
        if isinstance(stream, io.TextIOWrapper):
            with contextlib.suppress(ValueError, OSError):
                stream.reconfigure(errors="replace")


for command in (demo, plan, run, show, record, verify, check, learners):
    main.add_command(command)
