"""Whom a promise is about, and whose people are known: what a history may say of it."""

from __future__ import annotations

from collections.abc import Sequence

from privledger.accounting import UNITS
from privledger.errors import LedgerCorrupt
from privledger.ledger.events import Created, Enrolled, Granted


def unit_of(event: Created) -> str:
    """Whom the promise is about.

    Raises:
        LedgerCorrupt: a unit that nobody knows, or one without what goes with it.
    """
    if event.unit not in UNITS or (event.unit != "row" and event.format < 4):
        raise LedgerCorrupt("the promise is about a unit that is not known here: "
                            f"one of {', '.join(UNITS)}, and row before format 4")
    if (event.unit == "person") != (event.key_check is not None):
        raise LedgerCorrupt("a key of people goes with unit person, and with no other")
    return event.unit


def check_enrolment(unit: str, number: int, position: int, event: Enrolled) -> None:
    """Refuse people under unit row, and people under other names than the next.

    Args:
        number: of enrolments before it.
    """
    if unit != "person":
        raise LedgerCorrupt(f"entry {position} enrols people, and the promise is about rows")
    if (event.people.name, event.members.name) != (f"people:{number}", f"members:{number}"):
        raise LedgerCorrupt(f"entry {position} enrols people under other names than its own")


def check_granted(unit: str, enrolled: Sequence[tuple[int, Enrolled]], position: int,
                  event: Granted) -> None:
    """Refuse a grant for a table of which the people are not known."""
    number = event.enrolled
    if unit != "person" and number is None:
        return
    if (unit != "person" or type(number) is not int or not 0 <= number < len(enrolled)
            or enrolled[number][1].data != event.data):
        raise LedgerCorrupt(f"entry {position} grants a table whose people are not known")
