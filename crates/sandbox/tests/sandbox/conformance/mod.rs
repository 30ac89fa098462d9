//! The behaviours that every backend has in common.

mod files;
mod limits;
mod programs;
mod talking;
mod waiting;
mod walls;

use assize_config::Isolation;

use crate::bench::run;

/// Each behaviour is a test of each backend.
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
    talking {
        a_program_prints_and_ends,
        output_and_errors_are_told_apart,
        an_exit_code_is_passed_on,
        a_signal_is_told,
        an_exception_reads_as_it_does_anywhere,
        arguments_arrive_as_they_are,
        the_environment_is_what_was_given,
        the_working_folder_is_the_workspace_or_another,
        input_is_passed_through_both_ways,
        without_input_there_is_none,
        input_that_nobody_reads_is_no_trouble,
        input_and_output_can_be_opened_by_name,
        what_was_written_cannot_be_taken_back,
        a_byte_here_and_a_byte_there_is_no_trouble,
        output_comes_as_it_is_written,
        much_output_comes_whole,
        too_much_output_is_cut_and_the_program_goes_on,
        any_bytes_may_be_written,
        a_line_without_an_end_is_no_trouble,
        frames_in_the_output_are_only_output,
    }
    limits {
        time_runs_out,
        time_runs_out_for_what_ignores_signals_and_leaves_the_tree,
        a_shorter_time_can_be_asked_for_and_no_longer_one,
        memory_runs_out,
        shared_memory_out_of_sight_is_limited,
        zeros_can_be_read,
        a_crash_is_not_for_want_of_memory,
        memory_is_counted_for_all_processes_together,
        processes_are_limited,
        the_disk_runs_full,
        files_are_limited_in_number,
        the_workspace_is_on_the_same_disk,
    }
    files {
        a_file_is_written_and_read,
        writing_makes_folders_and_replaces_files,
        reading_says_what_is_wrong,
        what_is_no_plain_file_is_not_read,
        what_the_host_writes_goes_through_no_door_of_the_kernel,
        a_folder_is_listed,
        files_and_folders_are_removed,
        paths_are_whole,
    }
    walls {
        the_root_is_read_only,
        code_cannot_be_changed_by_the_program,
        code_replaces_what_a_program_left_in_its_place,
        there_is_no_network,
        the_loopback_works,
        programs_have_no_rights,
        the_first_process_cannot_be_killed_or_looked_into,
    }
    programs {
        two_programs_run_at_once,
        what_one_program_leaves_the_next_one_finds,
        what_code_started_ends_with_it,
        a_time_out_spares_other_programs,
        a_process_that_looks_dead_is_ended_too,
        programs_are_the_first_to_go,
        a_signal_can_be_sent,
        a_program_can_be_killed,
        a_program_that_nobody_waits_for_is_killed,
        a_missing_program_is_named,
        bash_and_javascript_run_too,
        layers_are_seen_and_cannot_be_written,
        subprocesses_and_multiprocessing_work,
        common_libraries_work,
        the_clock_is_right,
        a_sandbox_that_ended_says_so,
        limits_must_make_sense,
        an_unknown_image_is_refused,
        duration_and_memory_are_told,
    }
    waiting {
        a_waiting_interpreter_behaves_like_a_fresh_one,
        no_two_waiting_interpreters_are_alike,
        what_a_waiting_interpreter_cannot_be_told_starts_a_fresh_one,
    }
}
