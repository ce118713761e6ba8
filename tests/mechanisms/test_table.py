"""MECHANISMS has a row for every mechanism, and what a row says is what the house does."""

import re
from pathlib import Path
from typing import get_args

import pytest

import privledger as pl
from privledger.errors import UnsupportedNode
from privledger.graph.register import MECHANISMS, Mechanism, leaf_cost

ROOT = Path(__file__).parents[2]


def test_every_mechanism_has_one_row():
    assert set(MECHANISMS) == set(get_args(Mechanism))


def test_what_has_no_row_is_refused():
    class Own(pl.Laplace):
        pass

    for one in (object(), Own(1.0)):
        with pytest.raises(UnsupportedNode, match="no accountant"):
            leaf_cost(one, "add_remove", (2.0,))


def test_every_source_that_is_a_page_exists_and_names_what_is_meant():
    for row in MECHANISMS.values():
        assert re.search(r"docs/proofs/|arXiv:", row.source), row.source
        for page in re.findall(r"docs/[\w/-]+\.md", row.source):
            assert (ROOT / page).is_file(), page
