"""What happened as it is written, for tests that look at the stored form."""

from __future__ import annotations

from privledger.ledger.codec import decode, encode


def body_of(thing):
    """The body of an event, or of what holds one: an entry, a line, a grant, a scope."""
    return encode(getattr(thing, "event", thing))


def said(*lines):
    """Events from pairs of a kind and a body."""
    return [decode(kind, body) for kind, body in lines]
