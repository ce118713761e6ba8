"""Long families of cases: every n-th is in the default run, the others are behind the marker.

Which ones is fixed, so that a run says the same each time; strides are odd, so that they do not
always meet the same half of alternating cases. `pytest -m slow` runs all the others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import settings

STRIDES = {
    "tests/questions/test_feature_scores.py::test_one_record_moves_scores_as_the_bound_says": 3,
    "tests/papers/test_distributed.py"
    "::test_a_fit_costs_what_one_owner_does_and_releases_once_for_each": 3,
    "tests/properties/test_one_reading.py::test_every_reader_says_the_same": 3,
    "tests/plugins/test_holdout.py::test_under_add_remove_it_costs_no_more_than_the_fit": 3,
    "tests/testing/test_cheats.py::test_the_learner_they_are_made_from_is_honest": 3,
    "tests/cli/test_terminals.py::test_a_narrow_terminal_loses_no_figure_and_breaks_no_table": 3,
    "tests/learners/test_auto.py::test_plan_and_fit_are_those_of_the_chosen_learner": 3,
    "tests/reports/test_by_hand.py::test_the_script_gives_the_total": 3,
    "tests/reports/test_unverified_claims.py"
    "::test_every_shipped_learner_hands_labels_to_its_request": 3,
    "tests/standalone/test_every_doctoring.py"
    "::test_a_field_of_another_type_is_a_finding_and_no_internal_error": 5,
    "tests/standalone/test_every_doctoring.py::test_with_a_receipt_nothing_passes": 3,
    "tests/faults/test_files_from_anybody.py"
    "::test_small_files_have_an_answer_that_is_not_a_fault_of_ours": 3,
    "tests/engines/test_spool_faults.py::test_what_can_be_computed_again_is": 3,
    "tests/engines/test_spool_history.py"
    "::test_a_reply_that_lies_about_what_it_read_is_a_typed_error": 3,
    "tests/accounting/pld/test_pairs.py::test_epsilon_of_one_run": 3,
    "tests/accounting/pld/test_masses.py::test_a_fine_mesh_is_nearly_exact": 3,
    "tests/accounting/pld/test_price.py::test_delta_and_epsilon_are_inverse": 3,
    "tests/accounting/pld/test_price.py::test_enclosed_and_monotone": 3,
    "tests/accounting/test_odd_ends.py::test_repeated_coins_are_never_below_the_truth": 3,
    "tests/accounting/test_records.py::test_records_do_not_depend_on_their_neighbours": 3,
    "tests/accounting/test_records.py::test_sampled_laplace": 3,
    "tests/accounting/test_oracle.py::test_a_sample_costs_no_more_than_all": 5,
    "tests/accounting/test_oracle.py::test_parts_cost_no_more_than_a_sequence": 5,
    "tests/accounting/test_oracle.py::test_more_noise_costs_less": 5,
    "tests/accounting/test_oracle.py::test_never_below_what_is_possible": 37,
    "tests/accounting/test_oracle.py::test_composites_are_never_below_what_is_possible": 11,
    "tests/accounting/test_gaussian.py::test_closed_forms_are_tight_and_never_below": 9,
    "tests/accounting/test_records.py::test_sampled_gaussian": 5,
    "tests/accounting/test_allocation.py::test_one_pass_is_never_below_the_truth_and_close": 3,
    "tests/accounting/test_allocation.py::test_the_truth_lies_between": 3,
    "tests/simulation/test_simulation.py::test_no_schedule_hangs_or_loses_anything": 5,
    "tests/simulation/test_simulation.py::test_the_simulation_notices": 3,
    "tests/bench/zoo/test_zoo.py::test_what_is_done_to_a_plain_table_is_found": 9,
    "tests/bench/zoo/test_zoo.py::test_a_lock_finds": 3,
    "tests/learners/test_reading_a_fit.py::test_a_fit_enters_few_files": 5,
    "tests/broker/test_limits.py::test_passing_a_limit_ends_the_learner_and_keeps_the_charge": 3,
    "tests/broker/test_escape.py::test_a_broken_conversation_keeps_the_charge": 5,
    "tests/broker/test_escape.py::test_predictions_are_labels_one_for_each_row": 3,
    "tests/broker/test_kept.py::test_a_hostile_model_is_refused": 3,
    "tests/broker/test_brokered.py::test_s_gbdt_is_the_same_model": 3,
    "tests/broker/test_every_release.py::test_a_confined_process_gets_the_same_answers": 3,
    "tests/federation/test_kills.py::test_killed_some_times": 3,
    "tests/faults/test_any_file.py::test_whatever_a_file_says_is_no_fault_of_ours": 15,
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
    "tests/accounting/test_oracle.py::test_grid_and_counts_never_exceed_one_exact_round": 7,
    "tests/accounting/test_oracle.py::test_grid_and_counts_never_exceed_an_enumeration": 3,
    "tests/accounting/test_oracle.py::test_two_laplace_releases": 3,
    "tests/accounting/test_oracle.py::test_many_responses_are_a_binomial_sum": 3,
    "tests/accounting/test_random_configurations.py::test_between_a_lower_bound_and_renyi": 31,
    "tests/accounting/pld/test_single.py::test_epsilon_of_coins": 7,
    "tests/accounting/pld/test_single.py::test_delta_of_coins": 3,
    "tests/accounting/pld/test_faults_once_found.py"
    "::test_a_sampled_giant_is_seen_whenever_it_is_sampled": 3,
    "tests/faults/test_races.py::test_eight_race_for_the_last_of_the_budget": 3,
    "tests/noise/test_top_k.py::test_draws_follow_the_law": 9,
    "tests/noise/test_samplers.py::test_float_quantile_is_well_inside_the_margin": 3,
    "tests/guard/test_choosing.py::test_draws_follow_the_mechanism": 3,
    "tests/questions/test_choices.py::test_one_record_moves_scores_as_far_as_proved": 3,
    "tests/faults/test_torn_files.py::test_some_broken_calls": 3,
    "tests/faults/test_torn_files.py::test_some_bytes": 3,
    "tests/learners/test_dpboost.py::test_every_option_stays_inside_its_budget": 5,
    "tests/learners/test_dpboost.py::test_it_learns_and_its_price_is_its_epsilon": 3,
    "tests/learners/test_label_private.py::test_it_learns": 3,
    "tests/faults/test_hostile_text.py::test_nothing_raw_reaches_the_terminal": 7,
    "tests/faults/test_torn_files.py::test_some_power_cuts": 3,
    "tests/faults/test_failed_settle.py::test_a_forged_spill_changes_nothing": 5,
    "tests/accounting/test_calibrate.py::test_samples_at_tiny_epsilons_take_some_seconds": 9,
    "tests/accounting/test_oracle.py::test_a_larger_sample_and_more_rounds_cost_more": 5,
    "tests/accounting/pld/test_gaps.py::test_price_and_lower_bound_are_close": 3,
    "tests/testing/test_scans.py::test_a_script_s_own_table_is_not_its_learner_s_noise": 3,
    "tests/testing/test_kinds.py::test_honest_learners_of_other_kinds_conform": 5,
    "tests/testing/lockstep/test_locks.py::test_shipped_learners_hold_close_to_their_price": 3,
    "tests/testing/lockstep/test_locks.py"
    "::test_one_person_more_or_less_shows_no_more_than_was_paid": 3,
    "tests/testing/lockstep/test_locks.py"
    "::test_allocations_and_samples_of_a_fixed_size_are_replayed": 3,
    "tests/bench/zoo/test_zoo.py::test_rows_that_are_prepared_alone_are_left_alone": 3,
    "tests/bench/zoo/test_zoo.py::test_honest_learners_do_nothing_to_plain_tables": 3,
    "tests/storage/test_addresses.py::test_a_password_is_on_no_screen": 9,
    "tests/standalone/test_verify_history.py::test_it_runs_alone_in_an_empty_folder": 3,
    "tests/engines/test_same_numbers.py::test_every_learner_is_handed_the_same_numbers": 3,
    "tests/engines/test_spool_faults.py"
    "::test_a_worker_that_is_killed_costs_an_attempt_and_no_more": 3,
    "tests/cli/test_verdict.py::test_words_fit_their_numbers_on_every_surface": 3,
    "tests/cli/test_learner_errors.py::test_a_failing_learner_leaks_nothing": 7,
    "tests/cli/test_engines_of_runs.py::test_a_run_in_chunks": 3,
    "tests/properties/test_one_reading.py::test_every_command_says_the_same": 3,
    "tests/properties/test_one_reading.py::test_every_reader_says_the_same_of_a_fit": 5,
    "tests/learners/test_bin_rule.py::test_a_lock_holds_where_quantiles_are_bought": 5,
    "tests/learners/test_everyday.py::test_the_feature_that_tells_leads_and_no_row_is_needed": 3,
    "tests/learners/test_sgbdt.py::test_a_stream_reserves_the_extra_rounds_that_it_runs": 3,
    "tests/learners/test_sgbdt.py::test_every_option_stays_inside_its_budget": 3,
    "tests/learners/test_floor.py::test_without_declared_rows_the_bought_number_decides": 5,
    "tests/learners/test_floor.py::test_above_the_floor_nothing_is_said": 5,
    "tests/broker/test_limits.py::test_a_deep_plan_is_refused_by_its_depth": 3,
    "tests/questions/test_chunks.py::test_sums_are_the_same_for_every_chunking_and_order": 3,
    "tests/voices/test_every_learner.py::test_it_fits_and_predicts": 5,
    "tests/models/test_keeping.py::test_a_model_comes_back_the_same": 5,
    "tests/questions/test_groups.py"
    "::test_groups_are_named_from_a_smaller_size_on_than_by_others": 3,
    "tests/accounting/pld/test_price.py"
    "::test_losses_far_below_the_mesh_do_not_wrap_from_below": 3,
    "tests/broker/test_kept.py::test_a_learner_in_its_own_process_is_kept": 3,
    "tests/federation/test_calls.py"
    "::test_an_owner_that_spoils_it_makes_it_void_and_charges_stand": 3,
    "tests/accounting/pld/test_allocated.py::test_rounds_of_giant_losses_have_a_price": 3,
    "tests/accounting/pld/test_attained.py::test_mean_stays_and_variance_falls": 3,
    "tests/engines/test_ingest.py::test_a_wrong_value_is_refused_in_the_same_words": 3,
    "tests/engines/test_ingest.py::test_a_reply_that_is_none_is_as_good_as_none": 3,
    "tests/engines/test_ingest.py::test_a_file_that_changes_is_refused": 3}
"""Family -> stride. A family is a test function with its file, whatever its cases are called."""

EXAMPLES = {
    "tests/engines/test_ingest.py::test_workers_write_what_this_process_writes": 4,
    "tests/engines/test_ingest.py::test_workers_write_what_this_process_writes_of_texts": 4,
    "tests/accounting/pld/test_attained.py::test_below_is_below_above": 3,
    "tests/accounting/pld/test_ranges.py::test_both_sides_meet": 7,
    "tests/accounting/pld/test_masses.py::test_any_pair_on_any_lattice": 40,
    "tests/tables/test_csv.py::test_one_record_more_moves_the_count_by_one_at_most": 200,
    "tests/tables/test_csv.py::test_what_a_writer_wrote_comes_back_at_any_block": 100,
    "tests/tables/test_csv.py::test_two_broken_records_swallow_nobody": 100,
    "tests/properties/test_composition_laws.py::test_adding_a_node_never_costs_less": 20,
    "tests/properties/test_composition_laws.py::test_best_is_no_worse_than_any_accountant": 20,
    "tests/properties/test_composition_laws.py::test_json_goes_there_and_back": 20,
    "tests/standalone/test_verify_history.py::test_both_say_the_same_of_random_ledgers": 20,
    "tests/broker/test_wire.py::test_no_message_reads_a_row_or_raises": 40,
    "tests/ledger/test_lines.py::test_reading_is_parsing": 40,
    "tests/ledger/test_lines.py::test_taking_apart_is_parsing": 100,
    "tests/questions/test_choices.py::test_scores_are_those_of_the_definition": 20}
"""Family -> examples of the default run; the slow one tries all that its settings say."""

STATISTICAL = "-epsilon-holds]"
"""The check of the kit that takes seconds: by default where a suite asks for it by itself."""


def thin(items: Iterable[pytest.Item], slow: bool = False) -> None:
    """Mark as slow what is not in the default run; `slow`: where all the rest is asked for."""
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
        if family in EXAMPLES and slow:
            item.add_marker(pytest.mark.slow)
        elif family in EXAMPLES:
            _fewer(item.obj, EXAMPLES[family])


def _fewer(test: object, most: int) -> None:
    """A property looks at so many examples."""
    inner = getattr(test, "__func__", test)
    inner._hypothesis_internal_use_settings = settings(
        inner._hypothesis_internal_use_settings, max_examples=most)
