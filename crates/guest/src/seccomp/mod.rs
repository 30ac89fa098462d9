//! Seccomp filter for programs under trial: an allow list of system calls.
//!
//! Other system calls fail with `EPERM`, which programs can report. Calls for which libraries have a fallback fail with
//! `ENOSYS` instead, so that the libraries use the fallback.
//!
//! The filter is a binary search tree instead of a list of comparisons. When a filter is installed, the kernel
//! evaluates it once for every system call number. With a list, this would take longer than the whole remaining setup
//! of a jail.

mod calls;

use libc::sock_filter;

use self::calls::{ALLOWED, ALLOWED_OLD, conditional};
use crate::sys;

/// Action of the filter for one system call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SyscallAction {
    Allowed,
    /// The system call fails with `EPERM`.
    Refused,
    /// The system call fails with `ENOSYS`, as if the kernel did not implement it.
    Missing,
    /// The system call returns 0 and has no effect.
    Nothing,
    /// The system call is allowed if all checks of at least one alternative pass. Otherwise it fails with `EPERM`.
    If(Vec<Vec<ArgumentCheck>>),
}

/// Condition on an argument of a system call. The fields are the index of the argument and a value. All variants check
/// the lower 32 bits of the argument, except `UpperIs`, which checks the upper 32 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ArgumentCheck {
    Is(u32, u32),
    UpperIs(u32, u32),
    IsNot(u32, u32),
    /// None of the bits of the value is set in the argument.
    Without(u32, u32),
}

/// Assembled BPF program of the filter.
pub(crate) struct SeccompFilter(Vec<sock_filter>);

impl SeccompFilter {
    /// Assembles the filter. With `all_in_sight`, programs can allocate only memory that the memory watch (the guest
    /// agent's own check of the memory limit) can count.
    pub(crate) fn new(all_in_sight: bool) -> Result<SeccompFilter, String> {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => 0xc000_003e,
            "aarch64" => 0xc000_00b7,
            other => return Err(format!("unsupported CPU architecture `{other}`")),
        };
        Ok(SeccompFilter(assemble(architecture, &action_ranges(all_in_sight))))
    }

    /// Installs the filter on this process, irrevocably.
    pub(crate) fn apply(&self) -> std::io::Result<()> {
        sys::install_seccomp_filter(&self.0)
    }
}

/// Returns the actions for ranges of system call numbers, sorted by the first number of each range. The first range
/// begins at 0.
fn action_ranges(all_in_sight: bool) -> Vec<(u32, SyscallAction)> {
    let plain = ALLOWED.iter().copied().chain([ALLOWED_OLD]).flatten();
    let plain = plain.map(|call| (*call, SyscallAction::Allowed));
    let mut calls: Vec<(u32, SyscallAction)> = plain
        .chain(conditional(all_in_sight))
        .filter_map(|(call, verdict)| Some((u32::try_from(call).ok()?, verdict)))
        .collect();
    calls.sort_by_key(|(call, _)| *call);
    let mut spans = vec![(0, SyscallAction::Refused)];
    for (call, verdict) in calls {
        // The action applies to this number only; all numbers up to the next listed call are refused.
        spans.retain(|(start, _)| *start < call);
        if spans.last().is_none_or(|(_, last)| *last != verdict) {
            spans.push((call, verdict));
        }
        spans.push((call + 1, SyscallAction::Refused));
    }
    spans
}

// BPF instructions and seccomp return values.
const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const ERROR: u32 = 0x0005_0000;
// Byte offsets of fields in `struct seccomp_data`.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

fn word(code: u16, value: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k: value }
}

fn branch(code: u16, value: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code, jt: then, jf: otherwise, k: value }
}

/// Assembles the BPF program: architecture check, search tree, one block for each action.
fn assemble(architecture: u32, spans: &[(u32, SyscallAction)]) -> Vec<sock_filter> {
    let mut program = vec![
        word(LOAD, ARCHITECTURE),
        // Other architectures number their system calls differently.
        branch(JUMP_IF_EQUAL, architecture, 1, 0),
        word(RETURN, KILL),
        word(LOAD, NUMBER),
    ];
    // The blocks of instructions follow the tree, one block for each distinct action.
    let (mut blocks, mut known): (Vec<sock_filter>, Vec<(&SyscallAction, usize)>) =
        (Vec::new(), Vec::new());
    for (_, verdict) in spans {
        if !known.iter().any(|(each, _)| *each == verdict) {
            known.push((verdict, blocks.len()));
            blocks.extend(block(verdict));
        }
    }
    let size = program.len() + 2 * spans.len() - 1;
    let block_of = |verdict: &SyscallAction| {
        known.iter().find(|(each, _)| *each == verdict).map_or(0, |(_, at)| size + at)
    };
    push_tree(spans, &block_of, &mut program);
    program.extend(blocks);
    program
}

/// Appends a binary search tree for the system call number. The tree jumps to the block of instructions for the range
/// that contains the number.
fn push_tree(
    spans: &[(u32, SyscallAction)],
    block_of: &dyn Fn(&SyscallAction) -> usize,
    program: &mut Vec<sock_filter>,
) {
    match spans {
        [] => {}
        [(_, verdict)] => {
            let away = block_of(verdict) - program.len() - 1;
            program.push(word(JUMP, u32::try_from(away).unwrap_or(0)));
        }
        spans => {
            let (lower, upper) = spans.split_at(spans.len() / 2);
            // The lower subtree follows; a subtree of n spans has 2n - 1 instructions.
            let skip_lower = u8::try_from(2 * lower.len() - 1).unwrap_or(u8::MAX);
            program.push(branch(JUMP_IF_AT_LEAST, upper[0].0, skip_lower, 0));
            push_tree(lower, block_of, program);
            push_tree(upper, block_of, program);
        }
    }
}

/// Returns the instructions that execute one action.
fn block(verdict: &SyscallAction) -> Vec<sock_filter> {
    let error = |errno: i32| vec![word(RETURN, ERROR | errno.cast_unsigned())];
    match verdict {
        SyscallAction::Allowed => vec![word(RETURN, ALLOW)],
        SyscallAction::Refused => error(libc::EPERM),
        SyscallAction::Missing => error(libc::ENOSYS),
        SyscallAction::Nothing => error(0),
        SyscallAction::If(alternatives) => {
            let mut words = Vec::new();
            for checks in alternatives {
                for (index, check) in checks.iter().enumerate() {
                    // A failed check skips the remaining checks, which have two instructions each, and the return.
                    let next = u8::try_from(2 * (checks.len() - index - 1) + 1).unwrap_or(u8::MAX);
                    let (half, test) = match *check {
                        ArgumentCheck::Is(argument, value) => {
                            (2 * argument, branch(JUMP_IF_EQUAL, value, 0, next))
                        }
                        ArgumentCheck::UpperIs(argument, value) => {
                            (2 * argument + 1, branch(JUMP_IF_EQUAL, value, 0, next))
                        }
                        ArgumentCheck::IsNot(argument, value) => {
                            (2 * argument, branch(JUMP_IF_EQUAL, value, next, 0))
                        }
                        ArgumentCheck::Without(argument, bits) => {
                            (2 * argument, branch(JUMP_IF_ANY, bits, next, 0))
                        }
                    };
                    words.extend([word(LOAD, ARGUMENTS + 4 * half), test]);
                }
                words.push(word(RETURN, ALLOW));
            }
            words.extend(error(libc::EPERM));
            words
        }
    }
}

#[cfg(test)]
mod tests {
    use libc::c_long;

    use super::*;

    /// Architecture number that no real architecture has, used in tests.
    const HERE: u32 = 7;

    /// Interprets the BPF program as the kernel does, and returns its result.
    fn run(program: &[sock_filter], architecture: u32, number: u32, arguments: [u64; 6]) -> u32 {
        let (mut at, mut loaded) = (0_usize, 0_u32);
        loop {
            let word = program[at];
            at += 1;
            let jump = |holds: bool| usize::from(if holds { word.jt } else { word.jf });
            match word.code {
                LOAD => {
                    loaded = match word.k {
                        NUMBER => number,
                        ARCHITECTURE => architecture,
                        offset => {
                            let half = (offset - ARGUMENTS) / 4;
                            (arguments[(half / 2) as usize] >> (32 * (half % 2))) as u32
                        }
                    }
                }
                JUMP => at += word.k as usize,
                JUMP_IF_EQUAL => at += jump(loaded == word.k),
                JUMP_IF_AT_LEAST => at += jump(loaded >= word.k),
                JUMP_IF_ANY => at += jump(loaded & word.k != 0),
                RETURN => return word.k,
                other => panic!("unknown instruction {other}"),
            }
        }
    }

    fn call(number: c_long, arguments: [u64; 6]) -> u32 {
        run(&assemble(HERE, &action_ranges(false)), HERE, u32::try_from(number).unwrap(), arguments)
    }

    const REFUSED: u32 = ERROR | libc::EPERM.cast_unsigned();

    #[test]
    fn filter_applies_the_listed_action_to_every_system_call() {
        let program = assemble(HERE, &action_ranges(false));
        let plain: Vec<u32> = ALLOWED
            .iter()
            .copied()
            .chain([ALLOWED_OLD])
            .flatten()
            .map(|call| u32::try_from(*call).unwrap())
            .collect();
        let others: Vec<u32> =
            conditional(false).iter().map(|(call, _)| u32::try_from(*call).unwrap()).collect();
        assert!(plain.iter().all(|call| !others.contains(call)));
        for number in (0..700).chain([0x4000_0000, 0x4000_0001, u32::MAX]) {
            if others.contains(&number) {
                continue;
            }
            let expected = if plain.contains(&number) { ALLOW } else { REFUSED };
            assert_eq!(run(&program, HERE, number, [0; 6]), expected, "{number}");
        }
        assert_eq!(run(&program, HERE + 1, 0, [0; 6]), KILL);
    }

    #[test]
    fn filter_checks_the_arguments_of_conditional_system_calls() {
        let of = |number, arguments: &[i64]| {
            let mut all = [0; 6];
            for (place, value) in all.iter_mut().zip(arguments) {
                *place = value.cast_unsigned();
            }
            call(number, all)
        };
        assert_eq!(of(libc::SYS_clone, &[0x11]), ALLOW);
        assert_eq!(of(libc::SYS_clone, &[0x1000_0011]), REFUSED);
        assert_eq!(of(libc::SYS_clone3, &[]), ERROR | libc::ENOSYS.cast_unsigned());
        assert_eq!(of(libc::SYS_sync, &[]), ERROR);
        assert_eq!(of(libc::SYS_socket, &[1, 1, 77]), ALLOW);
        assert_eq!(of(libc::SYS_socket, &[2, 1, 6]), ALLOW);
        assert_eq!(of(libc::SYS_socket, &[10, 2, 17]), ALLOW);
        assert_eq!(of(libc::SYS_socket, &[2, 0x8_0802, 0]), ALLOW);
        for wrong in
            [[16, 3, 0], [2, 1, 262], [2, 3, 1], [17, 3, 0], [40, 1, 0], [2, 6, 0], [10, 5, 0]]
        {
            assert_eq!(of(libc::SYS_socket, &wrong), REFUSED, "{wrong:?}");
        }
        assert_eq!(of(libc::SYS_socketpair, &[2, 1, 0]), REFUSED);
        assert_eq!(of(libc::SYS_ioctl, &[0, 0x5412]), REFUSED);
        assert_eq!(of(libc::SYS_ioctl, &[0, 0x5401]), ALLOW);
        assert_eq!(of(libc::SYS_fcntl, &[0, 1026]), REFUSED);
        assert_eq!(of(libc::SYS_fcntl, &[0, 1030]), ALLOW);
        assert_eq!(of(libc::SYS_prlimit64, &[1]), REFUSED);
        assert_eq!(of(libc::SYS_prlimit64, &[0]), ALLOW);
        // A program can read its core dump limit, but not set it.
        assert_eq!(of(libc::SYS_prlimit64, &[0, 4, 0, 0x7fff_0000]), ALLOW);
        for pointer in [0x7fff_0000, 0x1_0000_0000] {
            assert_eq!(of(libc::SYS_prlimit64, &[0, 4, pointer]), REFUSED);
            assert_eq!(of(libc::SYS_prlimit64, &[0, 7, pointer]), ALLOW);
        }
        assert_eq!(of(libc::SYS_setrlimit, &[4]), REFUSED);
        assert_eq!(of(libc::SYS_fsync, &[1]), ERROR);
        assert_eq!(of(libc::SYS_setpriority, &[1, 0]), REFUSED);
        assert_eq!(of(libc::SYS_personality, &[0xffff_ffff]), ALLOW);
        assert_eq!(of(libc::SYS_personality, &[0x0004_0000]), REFUSED);
        assert_eq!(of(libc::SYS_mmap, &[0, 0, 0, 0x4_0022]), REFUSED);
    }

    #[test]
    fn filter_jump_offsets_fit_into_one_byte() {
        let spans = action_ranges(true);
        assert!(spans.len() / 2 * 2 <= usize::from(u8::MAX), "{} spans", spans.len());
    }
}
