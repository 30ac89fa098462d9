//! Conformance suite: behaviours that every backend must have.

mod files;
mod isolation;
mod limits;
mod prepared;
mod programs;
mod streams;

use assize_config::Isolation;

use crate::bench::run;

/// Defines one test for each combination of a behaviour and a backend.
macro_rules! for_every_backend {
    ($($part:ident { $($behaviour:ident),* $(,)? })*) => {
        mod jail {
            use super::{Isolation, run};
            $($(#[tokio::test(flavor = "multi_thread")]
            async fn $behaviour() { run(Isolation::Jail, super::$part::$behaviour).await; })*)*
        }
        mod docker {
            use super::{Isolation, run};
            $($(#[tokio::test(flavor = "multi_thread")]
            async fn $behaviour() { run(Isolation::Docker, super::$part::$behaviour).await; })*)*
        }
        mod microvm {
            use super::{Isolation, run};
            $($(#[tokio::test(flavor = "multi_thread")]
            async fn $behaviour() { run(Isolation::Microvm, super::$part::$behaviour).await; })*)*
        }
    };
}

for_every_backend! {
    streams {
        program_prints_and_exits,
        stdout_and_stderr_are_separate,
        exit_code_is_reported,
        fatal_signal_is_reported,
        python_traceback_shows_the_code_path,
        arguments_are_passed_unchanged,
        environment_contains_only_requested_and_default_variables,
        working_folder_defaults_to_the_workspace,
        large_input_is_echoed_unchanged,
        stdin_is_empty_by_default,
        input_that_the_program_never_reads_does_not_block,
        standard_streams_can_be_opened_by_path,
        stdout_cannot_be_reopened_for_reading,
        alternating_single_byte_writes_are_all_delivered,
        output_is_delivered_while_the_program_runs,
        large_output_is_delivered_completely,
        excess_output_is_discarded_and_the_program_continues,
        output_may_contain_any_bytes,
        long_output_without_newline_is_delivered,
        forged_frames_in_output_are_ignored,
    }
    limits {
        timeout_kills_the_program,
        timeout_kills_daemons_that_ignore_signals,
        requested_timeout_is_capped_by_the_sandbox_limit,
        memory_limit_kills_the_program,
        shared_memory_that_no_process_maps_is_limited,
        dev_zero_can_be_read,
        crash_is_not_reported_as_out_of_memory,
        memory_limit_applies_to_all_processes_together,
        processes_above_the_limit_are_refused,
        full_disk_is_reported_and_leaves_no_partial_file,
        number_of_files_on_the_disk_is_limited,
        tmp_and_workspace_share_the_disk_limit,
    }
    files {
        written_file_is_read_back_unchanged,
        write_creates_folders_and_replaces_files,
        read_error_reports_its_cause,
        read_refuses_special_files,
        write_refuses_special_files_and_magic_links,
        folder_listing_reports_entry_kinds_and_rejects_too_large_folders,
        remove_deletes_files_and_folders,
        relative_and_parent_paths_are_rejected,
    }
    isolation {
        root_file_system_is_read_only,
        code_file_cannot_be_changed_by_the_program,
        code_file_replaces_a_link_that_a_program_planted_at_its_path,
        network_is_unreachable,
        loopback_connections_work,
        programs_have_no_capabilities,
        guest_agent_cannot_be_killed_or_inspected,
    }
    programs {
        two_programs_run_concurrently,
        files_and_daemons_of_a_command_outlive_the_command,
        daemons_that_code_started_end_with_the_code,
        timeout_of_a_program_does_not_end_other_programs,
        process_with_a_dead_main_thread_is_killed,
        programs_are_the_first_choice_of_the_oom_killer,
        signal_is_delivered_to_the_program,
        program_is_killed_on_request,
        program_is_killed_when_its_handle_is_dropped,
        missing_program_is_named_in_the_error,
        bash_and_javascript_code_runs,
        layers_are_mounted_read_only,
        python_subprocesses_and_multiprocessing_work,
        common_python_libraries_work,
        sandbox_clock_matches_the_host_clock,
        ended_sandbox_returns_errors,
        invalid_limits_are_rejected,
        unknown_image_is_rejected,
        duration_and_peak_memory_are_reported,
    }
    prepared {
        prepared_interpreter_behaves_like_a_newly_started_one,
        prepared_interpreters_share_no_randomness,
        request_that_a_prepared_interpreter_cannot_serve_starts_a_new_one,
    }
}
