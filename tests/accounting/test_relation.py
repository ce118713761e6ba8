"""The neighbouring relation is always explicit."""

import pytest

from privledger.accounting import RELATIONS, check_relation
from privledger.errors import InvalidValue


def test_known_relations_pass() -> None:
    assert [check_relation(name) for name in RELATIONS] == list(RELATIONS)


@pytest.mark.parametrize("value", ["", "ADD_REMOVE", None, True, 1, ("add_remove",)])
def test_anything_else_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue):
        check_relation(value)
