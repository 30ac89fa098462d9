//! The system calls that programs under trial may make: a list of what is allowed.
//!
//! What is not on it answers "operation not permitted", so that a program can say so. Calls that
//! newer libraries try first and know how to do without answer "not implemented", so that they do.
//!
//! The filter is a tree of comparisons rather than a list of them: the kernel walks through it once
//! for every call there is when it is laid on a program, which with a list takes longer than all
//! else that a jail is made of.

mod calls;

use libc::sock_filter;

use self::calls::{ALLOWED, ALLOWED_OLD, conditional};
use crate::sys;

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Allowed,
    Refused,
    /// As if the kernel did not know it.
    Missing,
    /// As if it were done.
    Nothing,
    /// Allowed if all of one of these holds.
    If(Vec<Vec<Check>>),
}

/// Something about the lower half of an argument; where the kernel looks at the upper half too, it
/// has a check of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Is(u32, u32),
    UpperIs(u32, u32),
    IsNot(u32, u32),
    /// None of these bits.
    Without(u32, u32),
}

/// The filter, ready to be laid on.
pub(crate) struct Filter(Vec<sock_filter>);

impl Filter {
    /// With `all_in_sight`, no memory can be had that is not seen in some process.
    pub(crate) fn new(all_in_sight: bool) -> Result<Filter, String> {
        let architecture = match std::env::consts::ARCH {
            "x86_64" => 0xc000_003e,
            "aarch64" => 0xc000_00b7,
            other => return Err(format!("no system calls are known for {other}")),
        };
        Ok(Filter(assemble(architecture, &verdicts(all_in_sight))))
    }

    /// Lays it on this process, for good.
    pub(crate) fn apply(&self) -> std::io::Result<()> {
        sys::lay_on_filter(&self.0)
    }
}

/// What becomes of each call, from the number it begins with to the next: sorted, and the first is 0.
fn verdicts(all_in_sight: bool) -> Vec<(u32, Verdict)> {
    let plain = ALLOWED.iter().copied().chain([ALLOWED_OLD]).flatten();
    let plain = plain.map(|call| (*call, Verdict::Allowed));
    let mut calls: Vec<(u32, Verdict)> = plain
        .chain(conditional(all_in_sight))
        .filter_map(|(call, verdict)| Some((u32::try_from(call).ok()?, verdict)))
        .collect();
    calls.sort_by_key(|(call, _)| *call);
    let mut spans = vec![(0, Verdict::Refused)];
    for (call, verdict) in calls {
        // One call, and after it nothing until the next.
        spans.retain(|(start, _)| *start < call);
        if spans.last().is_none_or(|(_, last)| *last != verdict) {
            spans.push((call, verdict));
        }
        spans.push((call + 1, Verdict::Refused));
    }
    spans
}

// What the kernel calls the words of its filters.
const LOAD: u16 = 0x20;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const JUMP_IF_ANY: u16 = 0x45;
const RETURN: u16 = 0x06;
const ALLOW: u32 = 0x7fff_0000;
const KILL: u32 = 0x8000_0000;
const ERROR: u32 = 0x0005_0000;
/// Where the number, the architecture and the arguments of a call are.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
const ARGUMENTS: u32 = 16;

fn word(code: u16, value: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k: value }
}

fn branch(code: u16, value: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { code, jt: then, jf: otherwise, k: value }
}

fn assemble(architecture: u32, spans: &[(u32, Verdict)]) -> Vec<sock_filter> {
    let mut program = vec![
        word(LOAD, ARCHITECTURE),
        // Calls of another architecture have other numbers.
        branch(JUMP_IF_EQUAL, architecture, 1, 0),
        word(RETURN, KILL),
        word(LOAD, NUMBER),
    ];
    // After the tree, one block for each verdict there is.
    let (mut blocks, mut known): (Vec<sock_filter>, Vec<(&Verdict, usize)>) =
        (Vec::new(), Vec::new());
    for (_, verdict) in spans {
        if !known.iter().any(|(each, _)| *each == verdict) {
            known.push((verdict, blocks.len()));
            blocks.extend(block(verdict));
        }
    }
    let size = program.len() + 2 * spans.len() - 1;
    let block_of = |verdict: &Verdict| {
        known.iter().find(|(each, _)| *each == verdict).map_or(0, |(_, at)| size + at)
    };
    grow(spans, &block_of, &mut program);
    program.extend(blocks);
    program
}

/// A tree that finds the span in which a number lies.
fn grow(
    spans: &[(u32, Verdict)],
    block_of: &dyn Fn(&Verdict) -> usize,
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
            // The lower part of the tree follows; a part of so many spans has twice as many words.
            let beyond = u8::try_from(2 * lower.len() - 1).unwrap_or(u8::MAX);
            program.push(branch(JUMP_IF_AT_LEAST, upper[0].0, beyond, 0));
            grow(lower, block_of, program);
            grow(upper, block_of, program);
        }
    }
}

fn block(verdict: &Verdict) -> Vec<sock_filter> {
    let error = |errno: i32| vec![word(RETURN, ERROR | errno.cast_unsigned())];
    match verdict {
        Verdict::Allowed => vec![word(RETURN, ALLOW)],
        Verdict::Refused => error(libc::EPERM),
        Verdict::Missing => error(libc::ENOSYS),
        Verdict::Nothing => error(0),
        Verdict::If(alternatives) => {
            let mut words = Vec::new();
            for checks in alternatives {
                for (index, check) in checks.iter().enumerate() {
                    // Past the checks that are left, each of two words, and the leave.
                    let next = u8::try_from(2 * (checks.len() - index - 1) + 1).unwrap_or(u8::MAX);
                    let (half, test) = match *check {
                        Check::Is(argument, value) => {
                            (2 * argument, branch(JUMP_IF_EQUAL, value, 0, next))
                        }
                        Check::UpperIs(argument, value) => {
                            (2 * argument + 1, branch(JUMP_IF_EQUAL, value, 0, next))
                        }
                        Check::IsNot(argument, value) => {
                            (2 * argument, branch(JUMP_IF_EQUAL, value, next, 0))
                        }
                        Check::Without(argument, bits) => {
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

    const HERE: u32 = 7;

    /// What the kernel would answer.
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
                other => panic!("an unknown word {other}"),
            }
        }
    }

    fn call(number: c_long, arguments: [u64; 6]) -> u32 {
        run(&assemble(HERE, &verdicts(false)), HERE, u32::try_from(number).unwrap(), arguments)
    }

    const REFUSED: u32 = ERROR | libc::EPERM.cast_unsigned();

    #[test]
    fn every_call_has_the_verdict_of_its_list() {
        let program = assemble(HERE, &verdicts(false));
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
    fn what_depends_on_arguments_is_looked_at() {
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
        // How large what is left of a crash may be can be asked, and not be set.
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
    fn no_jump_is_too_far_for_its_word() {
        let spans = verdicts(true);
        assert!(spans.len() / 2 * 2 <= usize::from(u8::MAX), "{} spans", spans.len());
    }
}
