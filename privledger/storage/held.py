"""Secrets of the grants that this process holds: who has one may say what became of its grant.

A database that many clients write cannot tell them apart by what they send. So whoever reserves
makes a secret and leaves only its digest there; releases, settlements and refunds come with it.
It is kept in memory, and nowhere else: a grant whose holder died keeps its whole charge.
"""

from __future__ import annotations

import re
import secrets
from collections import OrderedDict
from hashlib import sha256

from privledger.ledger.entries import Entry
from privledger.ledger.events import Corrected, Crashed, Granted, Released, Settled

MOST = 100_000
"""Grants that are remembered; settled ones are for corrections only, the oldest go first."""

_GIVEN = (Released, Settled, Crashed, Corrected)


class Held:
    """Grant -> secret."""

    def __init__(self) -> None:
        self._secrets: OrderedDict[str, bytes] = OrderedDict()

    def proof(self, entry: Entry) -> bytes | None:
        """What the database asks for beside an entry: the digest for a grant that begins, the
        secret for one that goes on, None where nothing is asked or known."""
        name = getattr(entry.event, "grant", None)
        if not isinstance(name, str):
            return None
        if isinstance(entry.event, Granted):
            if name not in self._secrets:
                self._secrets[name] = secrets.token_bytes(32)
                if len(self._secrets) > MOST:
                    self._secrets.popitem(last=False)
            return sha256(self._secrets[name]).digest()
        return self._secrets.get(name) if isinstance(entry.event, _GIVEN) else None

    def secret(self, grant: str) -> str:
        """For whoever must settle later, perhaps in another process; empty if it is not known.
        Keep it as safe as that."""
        return self._secrets.get(grant, b"").hex()

    def take(self, grant: str, secret: str) -> None:
        """Hold a grant that another process left."""
        if grant not in self._secrets and re.fullmatch("[0-9a-f]{64}", secret):
            self._secrets[grant] = bytes.fromhex(secret)

    def __repr__(self) -> str:
        return f"Held({len(self._secrets)} grants)"
