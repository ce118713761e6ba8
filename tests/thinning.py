"""Long families of cases: every n-th is in the default run, the others are behind the marker.

Which ones is fixed, so that a run says the same each time; strides are odd, so that they do not
always meet the same half of alternating cases. `pytest -m slow` runs all the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

STRIDES = {
    "tests/accounting/test_oracle.py::test_never_below_what_is_possible": 5,
    "tests/accounting/test_oracle.py::test_composites_are_never_below_what_is_possible": 3,
    "tests/accounting/test_oracle.py::test_grid_and_counts_never_exceed_one_exact_round": 3,
    "tests/accounting/test_oracle.py::test_grid_and_counts_never_exceed_an_enumeration": 3,
    "tests/accounting/test_oracle.py::test_two_laplace_releases": 3,
    "tests/accounting/test_oracle.py::test_many_responses_are_a_binomial_sum": 3,
    "tests/accounting/test_random_configurations.py::test_between_a_lower_bound_and_renyi": 5,
    "tests/accounting/pld/test_single.py::test_epsilon_of_coins": 3,
    "tests/accounting/pld/test_single.py::test_delta_of_coins": 3,
    "tests/accounting/pld/test_faults_once_found.py"
    "::test_a_sampled_giant_is_seen_whenever_it_is_sampled": 3,
    "tests/faults/test_races.py::test_eight_race_for_the_last_of_the_budget": 3,
    "tests/noise/test_top_k.py::test_draws_follow_the_law": 5,
    "tests/noise/test_samplers.py::test_float_quantile_is_well_inside_the_margin": 3,
    "tests/guard/test_choosing.py::test_draws_follow_the_mechanism": 3,
    "tests/questions/test_choices.py::test_one_record_moves_scores_as_far_as_proved": 3,
    "tests/faults/test_broken_files.py::test_some_broken_calls": 3,
    "tests/faults/test_torn_files.py::test_some_bytes": 3,
    "tests/learners/test_dpboost.py::test_every_option_stays_inside_its_budget": 3,
    "tests/learners/test_dpboost.py::test_it_learns_and_its_price_is_its_epsilon": 3,
    "tests/learners/test_label_private.py::test_it_learns": 3,
}
"""Family -> stride. A family is a test function with its file, whatever its cases are called."""

STATISTICAL = "-epsilon-holds]"
"""The check of the kit that takes seconds: by default where a suite asks for it by itself."""


def thin(items: Iterable[pytest.Item]) -> None:
    """Mark as slow what is not in the default run."""
    seen: Counter[str] = Counter()
    for item in items:
        family = item.nodeid.partition("[")[0]
        stride = STRIDES.get(family)
        if item.nodeid.endswith(STATISTICAL) and "test_conformance" not in item.nodeid:
            item.add_marker(pytest.mark.slow)
        if stride is not None:
            if seen[family] % stride:
                item.add_marker(pytest.mark.slow)
            seen[family] += 1
