//! Conformance suite: behaviours that every backend must have.

mod files;
mod isolation;
mod limits;
mod prepared;
mod programs;
mod streams;

use assize_config::Isolation;

use crate::bench::run;

/// Defines a test for each behaviour and backend.
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
        environment_has_only_given_and_default_variables,
        working_folder_defaults_to_the_workspace,
        large_input_is_echoed_unchanged,
        stdin_is_empty_by_default,
        unread_input_does_not_block,
        standard_streams_can_be_opened_by_path,
        stdout_cannot_be_reopened_for_reading,
        alternating_single_byte_writes_are_all_delivered,
        output_is_delivered_while_the_program_runs,
        large_output_is_complete,
        excess_output_is_discarded_and_the_program_continues,
        output_may_contain_any_bytes,
        long_output_without_newline_is_delivered,
        forged_frames_in_output_are_ignored,
    }
    limits {
        timeout_kills_the_program,
        timeout_kills_daemons_that_ignore_signals,
        requested_timeout_is_capped_by_the_limit,
        memory_limit_kills_the_program,
        shared_memory_without_a_mapping_is_limited,
        dev_zero_can_be_read,
        crash_is_not_reported_as_out_of_memory,
        memory_limit_applies_to_all_processes_together,
        processes_are_limited,
        full_disk_is_reported_and_leaves_no_partial_file,
        number_of_files_is_limited,
        tmp_and_workspace_share_the_disk_limit,
    }
    files {
        written_file_is_read_back_unchanged,
        write_creates_folders_and_replaces_files,
        read_errors_have_a_cause,
        read_refuses_special_files,
        write_refuses_special_files_and_magic_links,
        folder_listing_has_kinds_and_is_limited,
        files_and_folders_are_removed,
        relative_and_parent_paths_are_rejected,
    }
    isolation {
        root_is_read_only,
        code_cannot_be_changed_by_the_program,
        code_replaces_a_link_planted_at_its_path,
        network_is_unreachable,
        loopback_works,
        programs_have_no_capabilities,
        guest_agent_cannot_be_killed_or_inspected,
    }
    programs {
        two_programs_run_concurrently,
        files_and_daemons_of_a_command_survive_it,
        daemons_of_code_end_with_it,
        timeout_spares_other_programs,
        process_with_a_dead_main_thread_is_killed,
        programs_are_preferred_by_the_oom_killer,
        signal_can_be_sent,
        program_can_be_killed,
        program_is_killed_when_its_handle_is_dropped,
        missing_program_is_named_in_the_error,
        bash_and_javascript_run,
        layers_are_mounted_read_only,
        subprocesses_and_multiprocessing_work,
        common_libraries_work,
        clock_matches_the_host,
        ended_sandbox_returns_errors,
        invalid_limits_are_rejected,
        unknown_image_is_rejected,
        duration_and_peak_memory_are_reported,
    }
    prepared {
        prepared_interpreter_behaves_like_a_fresh_one,
        prepared_interpreters_share_no_randomness,
        unsupported_request_starts_a_fresh_interpreter,
    }
}
