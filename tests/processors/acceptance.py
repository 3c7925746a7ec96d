"""Spark's own tests of stateful processors, each with its counterpart here.

The keys are the names of Spark's tests. A value names tests of ours, as ``file::test``, or says why
there is none. Spark runs the first two files in six variants: DataFrames and rows, each plain, with
another format of checkpoints, and through Connect; the second and third of these have no meaning
here. ``test_acceptance`` checks this list, and ``tests/spark/test_acceptance.py`` does the same on
Spark. What Spark tests of its offline repartition is in ``test_rescales``, which that file replays
too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_FOLDER = "tests/processors"


@dataclass(frozen=True, slots=True)
class Ours:
    """Tests of ours that see the same. ``note`` says what they leave out or do otherwise."""

    tests: tuple[str, ...]
    note: str = ""
    in_one_variant: str = ""
    """Why it is not run in both variants."""


@dataclass(frozen=True, slots=True)
class Without:
    """There is no counterpart."""

    reason: str


Counterpart = Ours | Without


def _in(file: str, *names: str, note: str = "", in_one_variant: str = "") -> Ours:
    return Ours(tuple(f"{_FOLDER}/{file}.py::{name}" for name in names), note, in_one_variant)


def _transform(*names: str, note: str = "") -> Ours:
    return _in("test_transform_with_state", *names, note=note)


def _tester(*names: str, note: str = "") -> Ours:
    return _in("test_tws_tester", *names, note=note)


def _with_group_state(*names: str) -> Ours:
    why = "the function has DataFrames alone"
    return _in("test_apply_in_pandas_with_state", *names, in_one_variant=why)


def _read_as_a_dataframe(name: str) -> Ours:
    return Ours(
        (f"tests/spark/test_processor_states.py::{name}",),
        note="the rows are the same; their columns have our names, and there is no feed of changes",
        in_one_variant="what is in a state does not depend on the variant",
    )


_OF_THE_TESTER = "It is about TwsTester itself: "
_IN_PANDAS = "the setting is one of DataFrames"
_FRAMES = _in(
    "test_values",
    "test_18_19_frames_have_so_many_rows_and_bytes_at_most",
    in_one_variant=_IN_PANDAS,
)

# ------------------------------------------------------------ test_pandas_transform_with_state.py

TRANSFORM_WITH_STATE: Mapping[str, Counterpart] = {
    "test_transform_with_state_basic": _transform("test_1_basic"),
    "test_transform_with_state_query_restarts": _in(
        "test_restarts",
        "test_2_a_query_goes_on",
        note="Spark's counts of state variables in the progress of a query are left out",
    ),
    "test_transform_with_state_proc_timer": _transform(
        "test_3_timers_of_the_wall_clock", "test_3_timers_fire_while_nothing_comes"
    ),
    "test_transform_with_state_event_time": _transform(
        "test_4_event_time",
        note="a row that is older than the watermark is dropped at once; Spark's filter is a batch "
        "behind",
    ),
    "test_transform_with_state_with_wmark_and_non_event_time": _transform(
        "test_5_no_row_is_late_without_event_time"
    ),
    "test_transform_with_state_non_contiguous_grouping_cols": _transform(
        "test_6_non_contiguous_grouping_columns"
    ),
    "test_transform_with_state_non_contiguous_grouping_cols_with_init_state": _in(
        "test_initial_state", "test_7_keys_stand_elsewhere_in_the_initial_state"
    ),
    "test_transform_with_state_chaining_ops": Ours(
        ("tests/spark/test_stateful_queries.py::test_8_event_time_goes_on_behind_the_processor",),
        in_one_variant="the operator behind it does not see the variant",
    ),
    "test_transform_with_state_batch_query": _transform(
        "test_9_a_map", note="rows that have an end are a stream like any other"
    ),
    "test_transform_with_state_batch_query_initial_state": Ours(
        ("tests/spark/test_stateful_queries.py::test_9_10_a_table_with_an_initial_state",)
    ),
    "test_transform_with_state_in_pandas_composite_type": _transform("test_11_composite_types"),
    "test_composite_output_schema": _transform("test_12_composite_output"),
    "test_transform_with_state_with_timers_single_partition": _transform(
        "test_3_timers_of_the_wall_clock",
        "test_4_event_time",
        note="these have one subtask anyway; test_rescales has one and four",
    ),
    "test_schema_evolution_scenarios": _in(
        "test_restarts", "test_14_types_change_from_start_to_start"
    ),
    "test_schema_evolution_fails": _in("test_restarts", "test_15_what_loses_digits_is_refused"),
    "test_not_nullable_fails": _in(
        "test_restarts",
        "test_16_fields_need_not_be_nullable",
        note="Spark refuses the schema, Mainstay the change that cannot be made",
        in_one_variant="types of states are checked before any variant comes in",
    ),
    "test_transform_with_state_int_to_decimal_coercion": _in(
        "test_values",
        "test_17_a_whole_number_fits_a_decimal",
        note="always taken, because nothing is lost; Spark has a setting",
        in_one_variant=_IN_PANDAS,
    ),
    "test_transform_with_state_with_bytes_limit": _FRAMES,
    "test_transform_with_state_with_records_limit": _FRAMES,
    "test_transform_with_state_large_values": _transform("test_20_large_values"),
}

# ------------------------------------------------------------ ..._state_variable.py

STATE_VARIABLES: Mapping[str, Counterpart] = {
    "test_transform_with_state_basic": _transform("test_1_basic"),
    "test_transform_with_state_non_exist_value_state": _transform(
        "test_22_a_state_that_is_not_there"
    ),
    "test_transform_with_state_list_state": _transform("test_23_25_lists"),
    "test_transform_with_state_list_state_large_list": _transform("test_24_a_large_list"),
    "test_transform_with_state_list_state_large_ttl": _transform("test_23_25_lists"),
    "test_transform_with_state_map_state": _transform("test_26_27_maps"),
    "test_transform_with_state_map_state_large_ttl": _transform("test_26_27_maps"),
    "test_value_state_ttl_basic": _transform("test_28_a_value_with_a_time_to_live"),
    "test_value_state_ttl_expiration": _transform(
        "test_29_what_has_expired_is_gone",
        "test_29_an_entry_that_is_not_written_again_expires_alone",
    ),
    "test_transform_with_state_init_state": _in(
        "test_initial_state", "test_10_30_initial_state_comes_first"
    ),
    "test_transform_with_state_init_state_with_extra_transformation": _in(
        "test_initial_state", "test_31_another_operator_follows"
    ),
    "test_transform_with_state_init_state_with_timers": _in(
        "test_initial_state", "test_32_timers_of_the_initial_state"
    ),
    "test_transform_with_map_state_metadata": _read_as_a_dataframe(
        "test_33_a_map_with_a_time_to_live"
    ),
    "test_transform_with_map_state_metadata_with_init_state": _read_as_a_dataframe(
        "test_34_a_value_that_began_with_an_initial_state"
    ),
    "test_transform_with_list_state_metadata": _read_as_a_dataframe("test_35_lists_and_timers"),
    "test_transform_with_value_state_metadata": _read_as_a_dataframe("test_36_a_value"),
    "test_transform_with_state_restart_with_multiple_rows_init_state": _in(
        "test_initial_state", "test_37_several_rows_of_a_key"
    ),
    "test_transform_with_state_with_timers_single_partition": _in(
        "test_initial_state",
        "test_32_timers_of_the_initial_state",
        "test_37_several_rows_of_a_key",
        note="these have one subtask anyway",
    ),
}

# ------------------------------------------------------------ test_tws_tester.py

TWS_TESTER: Mapping[str, Counterpart] = {
    "test_running_count_processor": _tester("test_running_count"),
    "test_running_count_processor_pandas": _tester("test_running_count"),
    "test_direct_access_to_value_state": _tester("test_states_are_preset"),
    "test_topk_processor": _tester("test_top_k"),
    "test_topk_processor_pandas": _tester("test_top_k"),
    "test_direct_access_to_list_state": _tester("test_states_are_preset"),
    "test_word_frequency_processor": _tester("test_word_frequency"),
    "test_word_frequency_processor_pandas": _tester("test_word_frequency"),
    "test_direct_access_to_map_state": _tester("test_states_are_preset"),
    "test_step_function": _tester("test_states_are_preset"),
    "test_row_by_row": _tester("test_row_by_row"),
    "test_initial_state_row": _tester("test_an_initial_state"),
    "test_initial_state_pandas": _tester("test_an_initial_state"),
    "test_all_methods_processor": _tester("test_all_methods"),
    "test_both_initial_states_specified": Without(
        f"{_OF_THE_TESTER}it has an argument for each variant. Here there is one."
    ),
    "test_timer_registration_raises_error_in_none_mode": _tester(
        "test_no_timers_without_a_time_mode"
    ),
    "test_delete_timer_raises_error_in_none_mode": _tester("test_no_timers_without_a_time_mode"),
    "test_list_timers_raises_error_in_none_mode": _tester("test_no_timers_without_a_time_mode"),
    "test_empty_input_row": _tester(
        "test_a_slice_without_rows_calls_nothing", note="as in Spark's engine, unlike the tester"
    ),
    "test_empty_input_pandas": _tester(
        "test_a_slice_without_rows_calls_nothing", note="as in Spark's engine, unlike the tester"
    ),
    "test_empty_initial_state_row": _tester("test_an_initial_state_without_rows"),
    "test_empty_initial_state_pandas": _tester("test_an_initial_state_without_rows"),
    "test_none_values_in_input": _tester("test_rows_of_a_call"),
    "test_single_row_input": _tester("test_rows_of_a_call"),
    "test_peek_nonexistent_state": _tester("test_rows_of_a_call"),
    "test_update_nonexistent_state": Without(
        f"{_OF_THE_TESTER}its way into a state that was not declared."
    ),
    "test_peek_state_before_initialization": Without(
        f"{_OF_THE_TESTER}its way into a state that was not declared."
    ),
    "test_clear_nonexistent_value_state": _tester("test_what_is_cleared_is_that_of_one_key"),
    "test_clear_nonexistent_list_state": _tester("test_what_is_cleared_is_that_of_one_key"),
    "test_clear_nonexistent_map_state": _tester("test_what_is_cleared_is_that_of_one_key"),
    "test_delete_if_exists_nonexistent": _tester("test_a_state_that_never_was_can_be_deleted"),
    "test_numeric_key": _tester("test_keys_are_passed_through"),
    "test_tuple_key": _tester("test_a_key_of_several_columns"),
    "test_special_characters_in_key": _tester("test_keys_are_passed_through"),
    "test_null_key_value_row": _tester("test_keys_are_passed_through"),
    "test_null_key_value_pandas": _tester("test_keys_are_passed_through"),
    "test_pandas_with_multiple_rows": _tester("test_rows_of_a_call"),
    "test_pandas_dtype_preservation": _tester("test_whole_numbers_stay_whole"),
    "test_processor_init_called_once": _tester("test_init_is_called_once"),
    "test_delete_value_state": _tester("test_what_is_cleared_is_that_of_one_key"),
    "test_delete_list_state": _tester("test_what_is_cleared_is_that_of_one_key"),
    "test_delete_map_state": _tester("test_what_is_cleared_is_that_of_one_key"),
    "test_delete_nonexistent_state_raises_error": Without(
        f"{_OF_THE_TESTER}its way into a state that was not declared."
    ),
    "test_processing_time_timers": _tester("test_processing_time_timers"),
    "test_processing_time_timers_pandas": _tester("test_processing_time_timers"),
    "test_event_time_timers_manual_watermark": _tester("test_event_time_timers"),
    "test_late_event_filtering": _tester("test_late_rows_are_dropped"),
    "test_registers_on_time_events": _tester("test_rows_in_time_set_timers"),
    "test_timer_registration_in_none_mode_raises_error": _tester(
        "test_no_timers_without_a_time_mode"
    ),
    "test_set_processing_time_in_wrong_mode_raises_error": Without(
        f"{_OF_THE_TESTER}its clock, which a test moves."
    ),
    "test_set_watermark_in_wrong_mode_raises_error": Without(
        f"{_OF_THE_TESTER}its watermark, which a test moves."
    ),
    "test_eventtime_mode_requires_extractor": Without(
        f"{_OF_THE_TESTER}how it finds the time of a row. Here a column of a stream is that."
    ),
    "test_processing_time_must_move_forward": Without(
        f"{_OF_THE_TESTER}its clock, which a test moves."
    ),
    "test_watermark_must_move_forward": Without(
        f"{_OF_THE_TESTER}its watermark, which a test moves."
    ),
    "test_timer_cannot_be_registered_in_past": Without(
        "The tester refuses what Spark's engine takes: a timer for the past fires at the next "
        "opportunity. So it does here: tests/processors/test_values.py::"
        "test_timers_for_the_past_fire_after_the_slice_and_do_not_loop."
    ),
    "test_fuzz_running_count": _tester("test_random_rows"),
    "test_fuzz_topk": _tester("test_random_rows"),
    "test_fuzz_word_frequency": _tester("test_random_rows"),
}

# ------------------------------------------------------------ test_pandas_grouped_map_with_state.py

APPLY_IN_PANDAS: Mapping[str, Counterpart] = {
    "test_apply_in_pandas_with_state_basic": _with_group_state("test_basic_more_and_no_data"),
    "test_apply_in_pandas_with_state_basic_no_state": _with_group_state("test_no_state"),
    "test_apply_in_pandas_with_state_basic_no_state_no_data": _with_group_state(
        "test_empty_frames"
    ),
    "test_apply_in_pandas_with_state_basic_more_data": _with_group_state(
        "test_basic_more_and_no_data"
    ),
    "test_apply_in_pandas_with_state_basic_fewer_data": _with_group_state("test_empty_frames"),
    "test_apply_in_pandas_with_state_basic_with_null": _with_group_state(
        "test_null_in_an_output_column"
    ),
    "test_apply_in_pandas_with_state_python_worker_random_failure": _with_group_state(
        "test_a_function_that_dies_now_and_then"
    ),
    "test_apply_in_pandas_with_state_int_to_decimal_coercion": _with_group_state(
        "test_an_integer_for_a_decimal"
    ),
}

FILES: Mapping[str, Mapping[str, Counterpart]] = {
    "test_pandas_transform_with_state.py": TRANSFORM_WITH_STATE,
    "test_pandas_transform_with_state_state_variable.py": STATE_VARIABLES,
    "test_tws_tester.py": TWS_TESTER,
    "test_pandas_grouped_map_with_state.py": APPLY_IN_PANDAS,
}
"""The tests of each of Spark's files."""
