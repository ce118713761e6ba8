"""The plan that fixes a ledger's filter for life says so, and what another filter would cost."""

import pytest

import privledger as pl
from tests.worlds import refused, schema_of

ONE = schema_of("t", {"x": (0, 1)})
PURE = pl.Laplace(1 / .3)


def protected(**options):
    ledger = pl.Ledger.create(None, budget=pl.Budget(2.0, 1e-5), **options)
    return ledger, ledger.protect({"x": [0.5] * 9}, ONE)


def test_the_first_request_says_what_it_fixed_and_what_others_would_cost():
    ledger, data = protected()
    with ledger.request(pl.Gaussian(20.0), data) as session:
        found = dict(session.fixes)
        assert "fixed the filter gdp for life" in repr(session)
        assert session.cheaper == () and found["gdp"] == ledger.spent
        session.close()
    assert set(found) == {"gdp", "zcdp", "rdp", "basic"}
    with data.ledger.request(PURE, data) as later:
        assert later.fixes == () and "for life" not in repr(later)
        assert dict(later.cheaper)["basic"] == pytest.approx(.3)


def test_a_refused_request_fixes_nothing_and_the_next_one_does():
    ledger, data = protected()
    refused(pl.BudgetExceeded, lambda: ledger.request(pl.Gaussian(.01), data))
    with ledger.request(PURE, data) as session:
        assert dict(session.fixes)["basic"] == pytest.approx(.3) == ledger.spent


def test_a_scope_that_came_first_fixed_it():
    ledger, data = protected()
    scope = ledger.open_scope(pl.IndividualFilter("gdp", .01))
    inside = pl.IndividualFilter("gdp", .01, node=pl.Gaussian(20.0))
    with ledger.request(inside, data, scope=scope) as session:
        assert session.fixes == session.cheaper == ()
    with ledger.request(PURE, data) as session:
        assert session.fixes == () and dict(session.cheaper)["basic"] == pytest.approx(.3)


def test_where_the_owner_chose_the_filter_nothing_is_said():
    ledger, data = protected(filter="gdp")
    with ledger.request(PURE, data) as session:
        assert session.fixes == session.cheaper == ()
