"""What happened as it is written, for tests that look at the stored form."""

import copy

from privledger.ledger.codec import decode, encode
from privledger.ledger.entries import GENESIS, make_entry
from privledger.storage import MemoryStore


def body_of(thing):
    """The body of an event, or of what holds one: an entry, a line, a grant, a scope."""
    return encode(getattr(thing, "event", thing))


def said(*lines):
    """Events from pairs of a kind and a body."""
    return [decode(kind, body) for kind, body in lines]


def lines_of(ledger):
    """Pairs of a kind and a body, which a test may change: the history of a ledger."""
    return [(entry.event.kind, copy.deepcopy(body_of(entry)))
            for entry in ledger._history.store.read()]


def chained(*lines):
    """Entries with right hashes, whatever they say."""
    found, head = [], GENESIS
    for position, event in enumerate(said(*lines)):
        found.append(make_entry(position, event, head))
        head = found[-1].hash
    return found


def stored(*lines):
    """A history as an author without scruples would write it, with a chain that holds."""
    store = MemoryStore()
    with store.transaction() as transaction:
        for entry in chained(*lines):
            transaction.append(entry)
    return store
