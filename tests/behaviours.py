"""What event time has to do, a line for each behaviour that Flink's own tests ask for, and where it
is tested here.

It is a list to see that nothing is left out. ``tests/unit/test_behaviours.py`` holds that every
test exists. A behaviour of windows in brackets is a row of the table of ``tests/windows``.
"""

from __future__ import annotations

BEHAVIOURS: dict[str, dict[str, tuple[str, ...]]] = {
    "timers": {
        "every timer is with the key-groups of its key": (
            "simulation/test_timers::test_every_timer_fires_once_unless_it_was_deleted_or_replaced",
        ),
        "one alarm for the first timer of the wall clock, moved by an earlier one": (
            "contract/test_timers::test_an_earlier_timer_of_the_wall_clock_comes_first",
            "unit/runtime/operators/test_timed::test_it_asks_to_be_called_when_the_first_is_due",
        ),
        "a timer set within the callback fires": (
            "contract/test_timers::test_a_timer_is_gone_before_it_fires_and_may_be_set_again",
            "contract/test_timers::test_a_periodic_timer_of_the_wall_clock_catches_up",
        ),
        "both clocks are readable": (
            "contract/test_timers::test_a_timer_fires_when_the_watermark_has_come_to_its_time",
            "contract/test_timers::test_a_restored_function_knows_how_far_event_time_had_come",
        ),
        "set and fire, without leaks between keys, times and clocks": (
            "contract/test_timers::test_keys_and_times_do_not_leak_into_each_other",
            "contract/test_timers::test_timers_of_both_clocks_for_one_time_fire_once_each",
        ),
        "deleted timers do not fire, and others do": (
            "contract/test_timers::test_a_deleted_timer_does_not_fire_and_others_do",
            "contract/test_timers::test_a_timer_of_the_wall_clock_may_be_deleted",
            "contract/test_timers::test_a_timer_may_delete_others_that_are_due",
        ),
        "setting a timer twice is setting it once": (
            "contract/test_timers::test_a_timer_that_is_set_twice_fires_once",
            "unit/state/test_timer_index::test_the_same_timer_again_adds_nothing",
        ),
        "all timers can be seen, each with its key": (
            "unit/testing/test_timers::"
            "test_timers_that_have_not_fired_are_shown_in_the_order_of_their_times",
        ),
        "timers of both clocks in a snapshot fire after a restore": (
            "contract/test_timers::test_what_is_pending_in_a_snapshot_fires_after_a_restore",
            "contract/test_timers::"
            "test_overdue_timers_of_the_wall_clock_fire_before_rows_after_a_restore",
        ),
        "a snapshot of one is restored into two with half of the key-groups each": (
            "simulation/test_timers::test_the_fixed_seeds_cover_what_they_should",
        ),
        "the queue is in order through any additions and removals": (
            "unit/state/test_timer_index::test_it_agrees_with_a_set_that_is_sorted",
            "unit/state/test_timer_index::test_removing_says_whether_there_was_one",
        ),
        "state and side outputs in a callback": (
            "contract/test_timers::test_a_timer_sees_the_state_of_its_key",
            "contract/test_timers::test_a_timer_emits_into_side_outputs",
        ),
        "timers never run beside rows": (
            "simulation/test_timers::test_markers_pass_while_many_timers_fire",
        ),
        "the end of input fires what is left, and ignores what is set then": (
            "contract/test_timers::test_all_that_is_left_fires_at_the_end_of_input",
            "contract/test_timers::test_what_is_set_at_the_end_of_time_is_ignored_and_told",
        ),
        "a drain, and a start with more input": (
            "simulation/test_ended::test_a_job_goes_on_from_where_its_input_had_ended",
        ),
    },
    "windows": {
        "a row is in its windows, also before 1970 and with offsets": (
            "windows/test_windows::test_a_row_is_in_the_tumbling_window_that_contains_its_time",
            "windows/test_windows::test_a_row_is_in_every_sliding_window_that_contains_its_time",
            "windows/test_behaviours::test_windows_behave[several windows do not interfere]",
            "windows/test_behaviours::test_windows_behave[before 1970 and with an offset]",
        ),
        "wrong sizes, slides and offsets are refused": (
            "windows/test_windows::test_windows_that_make_no_sense_are_refused",
        ),
        "tumbling, sliding and cumulating, aggregated, reduced and by a function": (
            "windows/test_behaviours::test_windows_behave[cumulating]",
            "windows/test_window_rows::test_a_function_is_given_all_rows_of_a_key_in_a_window",
            "windows/test_window_rows::test_rows_are_folded_by_any_function",
        ),
        "rows in no window are not late": (
            "windows/test_behaviours::"
            "test_windows_behave[rows in a gap are in no window and not late]",
        ),
        "a window fires once, and its state goes": (
            "windows/test_behaviours::"
            "test_windows_behave[a window that has fired does not fire again]",
            "windows/test_windows::test_a_pane_goes_with_the_last_window_that_needs_it",
        ),
        "nothing is emitted of an empty window": (
            "windows/test_behaviours::test_windows_behave[nothing is emitted of nothing]",
            "windows/test_windows::test_a_window_without_rows_emits_nothing",
        ),
        "lateness of nothing, of some time, and beyond the end of time": tuple(
            f"windows/test_behaviours::test_windows_behave[{kind}, {lateness} lateness]"
            for kind in ("tumbling", "sliding", "session")
            for lateness in ("no", "some", "huge")
        ),
        "late for some windows counts in the others": (
            "windows/test_behaviours::"
            "test_windows_behave[late for some windows counts in the others]",
        ),
        "late rows within the lateness update results": (
            "windows/test_behaviours::test_windows_behave[updates]",
            "windows/test_windows::test_updates_come_at_the_end_with_late_rows_and_at_last",
        ),
        "sessions merge: touching, covering, bridging, identical": (
            "windows/test_behaviours::test_windows_behave[sessions that touch merge]",
            "windows/test_behaviours::test_windows_behave[a row covers several sessions]",
            "windows/test_behaviours::test_windows_behave[a row bridges two sessions]",
            "windows/test_behaviours::"
            "test_windows_behave[an identical session changes nothing but the count]",
        ),
        "gaps that rows say themselves": (
            "windows/test_behaviours::test_windows_behave[gaps of rows]",
        ),
        "a late row is judged after it has met sessions": (
            "windows/test_behaviours::test_windows_behave[a late row joins a session that is open]",
        ),
        "windows of the wall clock": (
            "windows/test_windows::test_in_processing_time_a_window_ends_with_the_clock",
            "windows/test_sessions::"
            "test_in_processing_time_a_session_ends_when_no_row_has_come_for_the_gap",
            "windows/test_windows::"
            "test_a_window_that_has_ended_meanwhile_is_emitted_at_once_after_a_restore",
        ),
        "early results": (
            "windows/test_windows::test_early_results_have_the_keys_that_have_changed",
        ),
        "an expired slice takes no row, with a restore and without": (
            "windows/test_behaviours::test_windows_behave[an expired slice takes no row]",
            "windows/test_windows::test_what_has_fired_does_not_fire_again_and_late_rows_stay_late",
        ),
        "windows of numbers of rows": (
            "windows/test_count_windows::"
            "test_a_window_is_the_last_rows_each_time_that_more_have_come",
        ),
        "windows of windows": ("windows/test_windows::test_windows_of_windows_nest",),
        "late rows of windows with and without a key": (
            "windows/test_windows::test_a_row_that_no_window_takes_any_more_is_late",
        ),
        "a drain, and a start with more input": (
            "simulation/test_ended::test_a_job_goes_on_from_where_its_input_had_ended",
        ),
    },
    "joins": {
        "windows: every way to join, in columns and through crashes": (
            "unit/runtime/test_joins::test_rows_of_a_window_are_joined_when_it_is_complete",
            "unit/runtime/test_joins::test_rows_are_joined_in_every_window_that_slides",
            "simulation/test_joins::test_a_join_is_what_duckdb_says",
        ),
        "intervals: both bounds belong to them, and a microsecond more does not": (
            "unit/runtime/test_joins::test_both_bounds_belong_to_the_interval",
            "unit/runtime/test_joins::test_a_microsecond_outside_of_the_interval_is_outside",
        ),
        "intervals: state goes exactly when nothing can match it": (
            "unit/runtime/test_joins::"
            "test_a_row_is_kept_while_one_in_time_can_match_it_and_no_longer",
            "unit/runtime/test_joins::test_a_right_row_is_kept_for_as_long_as_the_lower_bound_says",
        ),
        "late rows and rows without a time are put aside": (
            "unit/runtime/test_joins::test_a_row_is_late_when_it_can_match_nothing_any_more",
            "unit/runtime/test_joins::test_a_row_without_a_time_is_late",
        ),
        "outer rows are padded once, and the watermark waits for them": (
            "unit/runtime/test_joins::test_an_unmatched_row_goes_out_once_its_pane_can_match_nothing",
            "unit/runtime/test_joins::test_the_watermark_is_held_back_by_what_may_still_be_emitted",
            "simulation/test_joins::test_a_window_behind_an_outer_join_takes_all_of_its_rows",
        ),
        "by the key alone, with and without a time to live; semi": (
            "unit/runtime/test_joins::test_all_rows_of_a_key_are_joined",
            "unit/runtime/test_joins::test_rows_go_when_their_time_is_over",
            "unit/runtime/test_joins::"
            "test_a_left_row_is_emitted_once_where_it_is_asked_whether_there_is_a_right_one",
        ),
        "as of: the newest that is not newer, late rows, ages": (
            "unit/runtime/test_joins::"
            "test_a_left_row_is_joined_with_the_newest_one_that_is_not_newer",
            "unit/runtime/test_joins::"
            "test_a_right_row_that_comes_late_is_the_newest_for_those_that_follow",
            "unit/runtime/test_joins::test_what_is_older_than_the_age_is_not_joined_and_goes",
        ),
        "one quiet side": (
            "simulation/test_joins::"
            "test_a_join_of_sources_that_are_idle_now_and_then_leaves_nothing_out",
        ),
        "left rows wait for the end of the right side": (
            "simulation/test_wait_for_right::test_a_left_row_meets_all_right_rows",
        ),
        "a drain, and a start with more input": (
            "simulation/test_ended::test_a_job_goes_on_from_where_its_input_had_ended",
            "unit/runtime/test_joins::test_after_the_last_watermark_a_job_may_go_on_with_more_rows",
        ),
    },
    "side outputs, rows that are kept, patterns, calls": {
        "every kind of function has side outputs, and unknown ones are refused": (
            "unit/testing/test_sides::test_every_kind_of_function_has_them",
            "unit/plan/test_sides::test_a_name_that_is_unknown_is_refused_with_those_there_are",
        ),
        "a side output that nobody reads harms nothing": (
            "unit/testing/test_sides::test_what_nobody_reads_is_counted_and_can_be_read_by_a_test",
        ),
        "the first row of a key, and the newest, with ties": (
            "unit/runtime/operators/test_deduplicate::"
            "test_a_row_is_emitted_at_once_when_its_key_is_new",
            "unit/runtime/operators/test_deduplicate::"
            "test_every_row_that_is_as_new_as_the_newest_is_an_update",
        ),
        "keys are forgotten by event time": (
            "unit/runtime/operators/test_deduplicate::"
            "test_keys_are_forgotten_when_event_time_is_past_them",
        ),
        "the best rows of a key, ties in the order of arrival": (
            "unit/runtime/operators/test_top::"
            "test_of_equal_values_the_one_that_came_first_is_before_the_others",
        ),
        "patterns: contiguity, quantifiers, until, groups, what must not come, what is skipped": (
            "unit/runtime/operators/test_patterns::test_a_pattern_matches",
            "property/test_patterns::test_what_is_found_row_by_row_is_what_every_way_finds",
        ),
        "patterns: order, late rows, time that is over": (
            "unit/runtime/operators/test_patterns::"
            "test_rows_are_matched_in_the_order_of_their_times",
            "unit/runtime/operators/test_patterns::"
            "test_a_row_behind_the_watermark_or_without_a_time_is_late",
            "unit/runtime/operators/test_patterns::"
            "test_a_partial_match_times_out_with_the_watermark",
        ),
        "patterns: an epoch in the middle of a match, on every backend": (
            "contract/test_patterns::test_a_match_is_found_through_crashes",
        ),
        "calls: ordered, and free between two watermarks": (
            "simulation/test_map_async::"
            "test_every_row_has_its_result_once_and_on_its_side_of_watermarks",
            "simulation/test_map_async::test_ordered_results_are_in_the_order_of_the_rows",
        ),
        "calls: what is in flight is bounded, in snapshots, and called again": (
            "unit/runtime/operators/test_map_async::"
            "test_what_is_in_flight_is_state_of_the_operator_and_bounded",
            "unit/runtime/operators/test_map_async::"
            "test_a_snapshot_does_not_wait_and_a_restored_job_calls_again",
        ),
        "calls: time-outs, retries, errors": (
            "unit/runtime/operators/test_map_async::"
            "test_without_an_answer_in_time_it_goes_on_with_another_row",
            "unit/runtime/operators/test_map_async::"
            "test_a_call_that_fails_is_made_again_after_a_pause",
            "unit/runtime/operators/test_map_async::"
            "test_an_error_names_the_row_and_how_often_it_was_tried",
        ),
        "calls: the end of input waits for all": (
            "unit/runtime/operators/test_map_async::test_the_end_of_input_waits_for_all_answers",
        ),
    },
}
