"""Releases as columns."""

import numpy as np

import privledger as pl
from privledger.graph import Context
from privledger.ledger.events import read_node
from privledger.ledger.log import CHUNK, ReleaseLog

G, H = pl.Gaussian(1.0), pl.Gaussian(2.0)


def test_columns_and_entries_say_the_same():
    log = ReleaseLog()
    chain = (Context("poisson", "s", rate=0.1),)
    for number in range(CHUNK + 5):
        log.add(chain if number % 3 == 0 else (), G if number % 2 else H, f"q{number % 4}", number)
    columns = log.columns()
    assert {array.dtype for array in columns.values()} == {np.dtype(np.int32)}
    assert columns["cells"].tolist() == list(range(CHUNK + 5))
    events = list(log.events("g"))
    assert [event.first for event in events] == [0, CHUNK]
    seen = []
    for event in events:
        nodes = [read_node(node) for node in event.nodes]
        seen += [(*nodes[node], event.questions[question], cells)
                 for node, question, cells in event.items]
    assert seen == [(chain if n % 3 == 0 else (), G if n % 2 else H, f"q{n % 4}", n)
                    for n in range(CHUNK + 5)]
