"""What an audit collects: rules that do not hold, and where."""

from __future__ import annotations

from attrs import frozen


@frozen
class Finding:
    """One rule that does not hold.

    Attributes:
        rule: a sentence with hyphens, stable across versions.
        position: entry number in the history, or -1 for the file as a whole.
        message: what was found; never a record's value.
    """

    rule: str
    position: int
    message: str
