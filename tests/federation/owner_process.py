"""One owner as a process of its own, honest or not; the test says which on its command line.

    python -m tests.federation.owner_process CONFIG.json
"""

import json
import os
import sys
import time
from pathlib import Path

import privledger as pl
from privledger.federation import Party, Run
from privledger.federation.calls import answer_calls
from privledger.federation.cards import read_card, read_identity
from privledger.tables.values import array_in, array_out
from tests.worlds import MADE_UP as SCHEMA
from tests.worlds import Silent
from tests.worlds import made_up as table


class Told:
    """A party whose replies a test may change. `kind` says how; "" changes nothing."""

    def __init__(self, party, kind, mute=0.0):
        self.party, self.kind, self.left, self.last = party, kind, 1, None
        self.mute = mute
        self.run = party.run

    @property
    def statement(self):
        return self.party.statement

    def close(self):
        self.party.close()

    def answer(self, message):
        reply = self.party.answer(message)
        if "masked" not in reply or message["round"] < 3:
            return reply
        before, self.last = self.last, reply
        if self.kind == "gone":
            os._exit(7) if self.own_process else sys.exit(7)
        if self.kind == "mute":
            time.sleep(self.mute)
        if self.kind == "replay" and before is not None:
            return before
        wrong = self.kind == "short" or (self.kind == "short once" and self.left)
        if wrong or self.kind == "no numbers":
            self.left = 0
            words = array_in(reply["masked"], "u")
            return reply | {"masked": array_out(words[:-1]) if wrong else "nothing"}
        return reply

    own_process = False


def run_of(agreed):
    """The run that a config names."""
    return Run.from_agreed(agreed)


def take_part(config, *, own_process=False):
    """Answer one run. Returns what the owner's ledger spent."""
    X, y = table(config["rows"])
    first, last = config["part"]
    X, y = {name: array[first:last] for name, array in X.items()}, y[first:last]
    own = read_identity(config["secret"])
    with pl.Ledger.create(config["ledger"], budget=pl.Budget(3.0, 1e-6)) as ledger:
        if config["silent"]:
            ledger._source = Silent()
        party = Told(Party(run_of(config["agreed"]), own.card.owner.name,
                           ledger.protect(X, y, SCHEMA, name="table"), own.secret),
                     config["kind"], config.get("mute", 0.0))
        party.own_process = own_process
        answer_calls(party, own, read_card(config["other"]), config["address"], wait=120)
        return ledger.spent


if __name__ == "__main__":
    print(take_part(json.loads(Path(sys.argv[1]).read_text()), own_process=True))
