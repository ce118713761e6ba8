"""A choice among members that begin alike may fall late: it then costs more than any of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privledger as pl
from tests.worlds import refused

A, B, C = pl.Laplace(1.0), pl.Laplace(1.5), pl.Gaussian(1.5)
ORDERS = [1.5, 2.0, 4.0, 8.0]


def begun(*rest, first=A):
    return pl.nodes.OneOf([pl.Sequential([first, one]) for one in rest])


@pytest.mark.parametrize("delta", [1e-3, 0.05, 0.1])
def test_what_members_share_comes_before_the_choice(delta):
    """Members with crossing profiles: 1.5975 was charged for 1.6053 at delta 0.1."""
    late = pl.epsilon(begun(pl.Laplace(1.0), C), delta)
    assert late >= pl.epsilon(pl.Sequential([A, pl.nodes.OneOf([pl.Laplace(1.0), C])]),
                              delta) - 1e-9
    assert pl.epsilon(begun(pl.Laplace(1.0), C), 0.1) > 1.605


def test_nothing_else_grows():
    late, apart = begun(B, C), pl.nodes.OneOf([pl.Sequential([A, B]), pl.Sequential([A, C])])
    assert pl.epsilon(begun(B, pl.Laplace(3.0))) == pytest.approx(1 + 1 / 1.5)
    worst = np.maximum(*(pl.rdp(member, ORDERS) for member in apart.nodes))
    assert np.allclose(pl.rdp(late, ORDERS), worst, rtol=1e-12)
    gaussians = begun(pl.Gaussian(3.0), pl.Gaussian(2.0), first=C)
    assert pl.epsilon(gaussians, 1e-6) == pytest.approx(pl.epsilon(gaussians.nodes[1], 1e-6))


def test_members_that_differ_at_once_cost_the_dearest_profile():
    node = pl.nodes.OneOf([pl.Repeat(A, 2), pl.Repeat(C, 2)])
    worst = max(pl.epsilon(member, 1e-3) for member in node.nodes)
    assert pl.epsilon(node, 1e-3, accountant="pld") == pytest.approx(worst, rel=1e-4)


def test_without_a_common_beginning_there_are_no_dominating_pairs():
    circle = pl.nodes.OneOf([pl.Sequential([A, B]), pl.Sequential([B, C]), pl.Sequential([C, A])])
    refused(pl.errors.UnsupportedNode, lambda: pl.epsilon(circle, 1e-3, accountant="pld"))
    assert pl.epsilon(circle, 1e-3) >= max(
        pl.epsilon(member, 1e-3, accountant="rdp") for member in circle.nodes) * (1 - 1e-9)


@pytest.mark.parametrize("wrap", [
    lambda node: pl.PoissonSample(0.1, node), lambda node: pl.nodes.Group(2, node),
    lambda node: pl.Parallel([pl.PoissonSample(0.1, node)])])
def test_a_late_choice_within_a_sample_or_group_is_refused(wrap):
    node = pl.nodes.OneOf([wrap(pl.Sequential([A, B])), wrap(pl.Sequential([A, C]))])
    refused(pl.errors.UnsupportedNode, lambda: pl.epsilon(node, 1e-3))
    assert pl.epsilon(wrap(begun(B, C)), 1e-3) > 0  # the choice inside is priced


def test_units_that_overlap_are_not_told_apart_by_what_they_share():
    sample = pl.PoissonSample(0.1, pl.Sequential([A, B]))
    other = pl.PoissonSample(0.1, pl.Sequential([A, C]))
    refused(pl.errors.UnsupportedNode, lambda: pl.epsilon(pl.nodes.OneOf([pl.Sequential([sample,
            C]), pl.Sequential([sample, other])]), 1e-3))


leaves = st.sampled_from([A, B, C, pl.Gaussian(3.0)])
members = st.lists(st.lists(leaves, min_size=1, max_size=3).map(pl.Sequential), min_size=1,
                   max_size=3)


@settings(max_examples=20, deadline=None)
@given(members)
def test_never_below_a_member(members):
    node = pl.nodes.OneOf(members)
    for member in members:
        assert pl.delta(node, 1.0) >= pl.delta(member, 1.0) * (1 - 1e-4)
        assert (pl.rdp(node, ORDERS) >= pl.rdp(member, ORDERS) * (1 - 1e-12)).all()
