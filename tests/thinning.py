"""Long families of cases: every n-th is in the default run, the others are behind the marker.

Which ones is fixed, so that a run says the same each time; strides are odd, so that they do not
always meet the same half of alternating cases. `pytest -m slow` runs all the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

STRIDES = {
    "tests/accounting/test_oracle.py::test_never_below_what_is_possible": 19,
    "tests/accounting/test_oracle.py::test_composites_are_never_below_what_is_possible": 7,
    "tests/accounting/test_gaussian.py::test_closed_forms_are_tight_and_never_below": 9,
    "tests/accounting/test_records.py::test_sampled_gaussian": 5,
    "tests/accounting/test_allocation.py::test_one_pass_is_never_below_the_truth_and_close": 3,
    "tests/accounting/test_allocation.py::test_the_truth_lies_between": 3,
    "tests/simulation/test_simulation.py::test_no_schedule_hangs_or_loses_anything": 3,
    "tests/simulation/test_simulation.py::test_the_simulation_notices": 3,
    "tests/zoo/test_zoo.py::test_what_is_done_to_a_plain_table_is_found": 5,
    "tests/zoo/test_zoo.py::test_a_lock_finds": 3,
    "tests/learners/test_reading_a_fit.py::test_a_fit_enters_few_files": 5,
    "tests/broker/test_limits.py::test_passing_a_limit_ends_the_learner_and_keeps_the_charge": 3,
    "tests/broker/test_escape.py::test_a_broken_conversation_keeps_the_charge": 5,
    "tests/broker/test_escape.py::test_predictions_are_labels_one_for_each_row": 3,
    "tests/broker/test_kept.py::test_a_hostile_model_is_refused": 3,
    "tests/broker/test_brokered.py::test_s_gbdt_is_the_same_model": 3,
    "tests/broker/test_every_release.py::test_a_confined_process_gets_the_same_answers": 3,
    "tests/federation/test_kills.py::test_killed_some_times": 3,
    "tests/faults/test_any_file.py::test_whatever_a_file_says_is_no_fault_of_ours": 5,
    "tests/faults/test_files_from_anybody.py"
    "::test_small_files_have_an_answer_that_is_not_a_fault_of_ours": 3,
    "tests/faults/test_hostile_text.py::test_stores_keep_any_text_as_it_is": 15,
    "tests/faults/test_ledger_model.py::test_ledgers_follow_the_model": 3,
    "tests/guard/test_what_leaves_the_guard.py::test_an_interrupt_at_every_line_inside": 3,
    "tests/noise_laws/test_wrong_noise.py::test_wrong_noise_is_seen": 3,
    "tests/noise_laws/test_noise_law.py::test_right_noise_holds": 3,
    "tests/ledger/test_exact_fits.py"
    "::test_what_adds_up_to_the_budget_fits_and_nothing_more": 3,
    "tests/standalone/test_whole_steps.py"
    "::test_what_was_granted_is_right_and_a_tenth_less_is_not": 5,
    "tests/voices/test_one_row_each.py::test_a_fit_is_the_same_to_the_last_bit": 5,
    "tests/accounting/test_oracle.py::test_grid_and_counts_never_exceed_one_exact_round": 3,
    "tests/accounting/test_oracle.py::test_grid_and_counts_never_exceed_an_enumeration": 3,
    "tests/accounting/test_oracle.py::test_two_laplace_releases": 3,
    "tests/accounting/test_oracle.py::test_many_responses_are_a_binomial_sum": 3,
    "tests/accounting/test_random_configurations.py::test_between_a_lower_bound_and_renyi": 15,
    "tests/accounting/pld/test_single.py::test_epsilon_of_coins": 3,
    "tests/accounting/pld/test_single.py::test_delta_of_coins": 3,
    "tests/accounting/pld/test_faults_once_found.py"
    "::test_a_sampled_giant_is_seen_whenever_it_is_sampled": 3,
    "tests/faults/test_races.py::test_eight_race_for_the_last_of_the_budget": 3,
    "tests/noise/test_top_k.py::test_draws_follow_the_law": 9,
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
