"""`privledger people-key`: the key under which a ledger knows its people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from privledger.cli.output import Guarded, emit, format_option
from privledger.cli.printing import GREEN, text
from privledger.people.keys import make_people_key

if TYPE_CHECKING:
    from rich.console import Console


@click.command("people-key", cls=Guarded)
@click.argument("file", type=click.Path(dir_okay=False))
@format_option
def people_key(file: str, format_: str) -> None:
    """Make a key for people in a new FILE, which nobody else can read.

    A ledger with unit person keeps digests of ids under this key, and never the key: without the
    file no table can be added, and nobody looked up. Keep a copy of it apart from the ledger.
    """
    check = make_people_key(file).check

    def render(out: Console) -> None:
        out.print(text(f"a new key in {file}, for its owner alone; check value {check}", GREEN))
        out.print("keep a copy where no ledger is: whoever has both can look people up")

    emit(format_, {"file": file, "check": check}, render)
