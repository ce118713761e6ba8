"""Opening things for reading."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from privledger.errors import InvalidValue, LedgerCorrupt, LedgerError, PrivledgerError
from privledger.ledger import History, State, Store
from privledger.people.keys import read_people_key
from privledger.storage import is_url, shown, store_at

if TYPE_CHECKING:
    from privledger.guard import Ledger


class LedgerPlace(click.Path):
    """An existing file, or the URL of a ledger in a database."""

    def __init__(self) -> None:
        super().__init__(exists=True, dir_okay=False)

    def convert(self, value: Any, param: click.Parameter | None,
                ctx: click.Context | None) -> Any:
        """A PostgreSQL address as it is; anything else as a path that click checks."""
        return value if is_url(value) else super().convert(value, param, ctx)


ledger_argument = click.argument("ledger", metavar="LEDGER", type=LedgerPlace())
data_option = click.option("--data-dir", type=click.Path(exists=True, file_okay=False),
                           help="Folder that the run file's data paths are relative to "
                                "[default: $PRIVLEDGER_DATA, else the run file's folder].")


people_key_option = click.option("--people-key", type=click.Path(),
                                 help="File with the key of the ledger's people.")


@contextmanager
def reading(path: str | Path, people_key: str | None = None) -> Iterator[Ledger]:
    """A ledger opened read-only. A history that cannot be folded is a corrupt one.

    Args:
        people_key: the file of its people's key, for who looks somebody up.
    """
    from privledger.guard import Ledger  # an audit alone needs none

    key = None if people_key is None else read_people_key(people_key)
    try:
        ledger = Ledger.open(path, read_only=True, people_key=key)
    except (LedgerError, InvalidValue):
        raise
    except (PrivledgerError, ValueError, TypeError, KeyError):
        raise LedgerCorrupt(f"{shown(path)}: the history cannot be understood") from None
    try:
        yield ledger
    finally:
        ledger._history.store.close()


where_option = click.option(
    "--where", multiple=True, metavar="KEY=VALUE",
    help="Only grants and scopes of which it holds, such as team=red, library=opacus, "
         "isolation=guarded, learner=NAME, table=NAME, cap=TITLE or label:KEY=VALUE; may be "
         "repeated.")


@contextmanager
def reading_state(path: str | Path) -> Iterator[tuple[Store, State]]:
    """A store and what its history folds to, whatever is wrong with the place: for a reader who
    shows what an audit finds, and believes nothing before."""
    with reading_store(path) as store:
        try:
            state = History(store, writable=False).full()
        except LedgerError:
            raise
        except (PrivledgerError, ValueError, TypeError, KeyError):
            raise LedgerCorrupt(f"{shown(path)}: the history cannot be understood") from None
        if state.budget is None:
            raise LedgerCorrupt(f"{shown(path)}: the history is empty")
        yield store, state


@contextmanager
def reading_store(path: str | Path) -> Iterator[Store]:
    """Only the store: for an audit that wants every fault, not the first."""
    store = store_at(path, read_only=True)
    try:
        yield store
    finally:
        store.close()


def receipt_or_none(path: str | Path) -> dict[str, Any] | None:
    """The receipt of a ledger; None if its history cannot be folded, so that there is none."""
    try:
        with reading(path) as opened:
            return opened.receipt.as_dict()
    except LedgerError:
        return None
