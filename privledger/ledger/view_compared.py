"""What a history was compared with, and what can therefore not have been seen.

A history that was cut short, or written anew from its beginning, is a valid history: only
something that was kept elsewhere tells it from the one that was there. So every answer about a
ledger says first what it was compared with. The stand-alone verifier has the same sentences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from privledger.numerals import many

_SHOWN = 12
NOTHING_SEEN = ("a tail that was cut off, an older copy put back, or a history rewritten from its "
                "beginning cannot be seen")


@frozen
class Comparison:
    """What was compared with.

    Attributes:
        kind: `receipt`, `head` or `nothing`.
        time: when the receipt was made, if it says so.
        entries: how many it had seen. head: the hash that must be there.
        signature: `checked`, `not checked`, or None where nothing could be signed.
        cannot_see: what this comparison leaves open, as a clause.
    """

    kind: str
    cannot_see: str
    time: str | None = None
    entries: int | None = None
    head: str | None = None
    signature: str | None = None

    @property
    def text(self) -> str:
        """What was compared with, and what that leaves open; one line."""
        if self.kind == "nothing":
            return f"compared with no receipt: {self.cannot_see}"
        if self.kind == "head":
            return (f"compared with the head {str(self.head)[:_SHOWN]} that was expected: "
                    f"{self.cannot_see}")
        seen = many(self.entries or 0, "entry", "entries")
        which = f"the receipt of {self.time}" if self.time else "a receipt without a date"
        return (f"compared with {which}, {seen}, "
                f"head {str(self.head)[:_SHOWN]}: {self.cannot_see}")

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        return {"with": self.kind, "time": self.time, "entries": self.entries, "head": self.head,
                "signature": self.signature, "cannot_see": self.cannot_see, "text": self.text}


def comparison(receipt: Mapping[str, Any] | None = None, head: str | None = None, *,
               signed: bool = False) -> Comparison:
    """What a history is compared with.

    Args:
        receipt: as `load_receipt` reads it. head: a hash that is expected, without a receipt.
        signed: the receipt's signature is checked as well.
    """
    if receipt is not None:
        time, entries = receipt.get("time"), int(receipt["entries"])
        return Comparison(
            "receipt", f"what was cut off or rewritten after entry {entries} cannot be seen",
            time if isinstance(time, str) else None, entries, str(receipt["head"]),
            "checked" if signed else "not checked")
    if head is not None:
        return Comparison("head", "what was cut off or rewritten after it cannot be seen",
                          head=head)
    return Comparison("nothing", NOTHING_SEEN)
