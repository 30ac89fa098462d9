//! What must be true of a graph before it may run.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use crate::builder::{END, OutlineExit};

/// A graph that cannot run, and everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidGraph {
    pub graph: &'static str,
    pub problems: Vec<Problem>,
}

impl std::error::Error for InvalidGraph {}

impl fmt::Display for InvalidGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the graph `{}` cannot run: ", self.graph)?;
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

/// Something wrong with a graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Problem {
    #[error(
        "`{node}` cannot be the name of a node: use letters, digits, `_` and `-`, and not `END`"
    )]
    BadName { node: &'static str },
    #[error("there are two nodes `{node}`")]
    DuplicateNode { node: &'static str },
    #[error("no node is the start")]
    NoStart,
    #[error("the start is `{node}`, and there is no such node")]
    UnknownStart { node: &'static str },
    #[error("`{from}` leads to `{to}`, and there is no such node")]
    UnknownTarget { from: &'static str, to: &'static str },
    #[error("something follows `{node}`, and there is no such node")]
    UnknownSource { node: &'static str },
    #[error("nothing follows `{node}`: give it an edge, to `END` if the run ends there")]
    NoExit { node: &'static str },
    #[error("what follows `{node}` is said twice")]
    SecondExit { node: &'static str },
    #[error("`{node}` leads to one of no targets")]
    NoTargets { node: &'static str },
    #[error("`{node}` is never reached")]
    Unreachable { node: &'static str },
    #[error("`{node}` never comes to an end")]
    Endless { node: &'static str },
    #[error(
        "`{node}` ends the run within a branch of `{fork}`: lead it to `{join}`, where they join"
    )]
    EndInBranch { node: &'static str, fork: &'static str, join: &'static str },
    #[error(
        "`{node}` leads out of a branch of `{fork}` to `{to}`: the branches must first join at \
         `{join}`"
    )]
    LeavesBranch { node: &'static str, fork: &'static str, join: &'static str, to: &'static str },
    #[error("a branch of `{fork}` begins at `{join}`, where they join")]
    BranchIsJoin { fork: &'static str, join: &'static str },
    #[error("a branch of `{fork}` leads to `{fork}` again before it joins")]
    ForkInItself { fork: &'static str },
}

type Exits<'a> = HashMap<&'static str, &'a OutlineExit>;

/// Checks the shape of a graph, and says where it starts.
pub(crate) fn check(
    graph: &'static str,
    start: Option<&'static str>,
    nodes: &[&'static str],
    exits: &[(&'static str, OutlineExit)],
) -> Result<&'static str, InvalidGraph> {
    let invalid = |problems: BTreeSet<Problem>| InvalidGraph {
        graph,
        problems: problems.into_iter().collect(),
    };
    let problems = names(start, nodes, exits);
    let (Some(start), true) = (start, problems.is_empty()) else { return Err(invalid(problems)) };
    let exits: Exits<'_> = exits.iter().map(|(from, exit)| (*from, exit)).collect();
    let mut walk = Walk { exits: &exits, seen: HashSet::new(), problems };
    walk.visit(start, &[]);
    let mut problems = walk.problems;
    let reached: HashSet<&str> = walk.seen.iter().map(|(node, _)| *node).collect();
    let ending = ending(&exits);
    for node in nodes.iter().copied() {
        if !reached.contains(node) {
            problems.insert(Problem::Unreachable { node });
        } else if !ending.contains(node) {
            problems.insert(Problem::Endless { node });
        }
    }
    if problems.is_empty() { Ok(start) } else { Err(invalid(problems)) }
}

/// Everything is named, once, and exists.
fn names(
    start: Option<&'static str>,
    nodes: &[&'static str],
    exits: &[(&'static str, OutlineExit)],
) -> BTreeSet<Problem> {
    let mut problems = BTreeSet::new();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut known = HashSet::new();
    for node in nodes.iter().copied() {
        if node.is_empty() || node.len() > 60 || !node.chars().all(plain) || node == END {
            problems.insert(Problem::BadName { node });
        }
        if !known.insert(node) {
            problems.insert(Problem::DuplicateNode { node });
        }
    }
    match start {
        None => {
            problems.insert(Problem::NoStart);
        }
        Some(node) if !known.contains(node) => {
            problems.insert(Problem::UnknownStart { node });
        }
        Some(_) => {}
    }
    let mut leaving = HashSet::new();
    for (from, exit) in exits {
        if !known.contains(from) {
            problems.insert(Problem::UnknownSource { node: from });
        }
        if !leaving.insert(*from) {
            problems.insert(Problem::SecondExit { node: from });
        }
        if exit.targets().is_empty() {
            problems.insert(Problem::NoTargets { node: from });
        }
        let may_end = matches!(exit, OutlineExit::Edge(_) | OutlineExit::Route(_));
        for to in exit.targets().iter().chain(exit.join().iter()) {
            if !(known.contains(to) || may_end && *to == END) {
                problems.insert(Problem::UnknownTarget { from, to });
            }
        }
    }
    for node in nodes.iter().copied().filter(|node| !leaving.contains(node)) {
        problems.insert(Problem::NoExit { node });
    }
    problems
}

impl OutlineExit {
    pub(crate) fn targets(&self) -> &[&'static str] {
        match self {
            OutlineExit::Edge(to) => std::slice::from_ref(to),
            OutlineExit::Route(to) | OutlineExit::FanOut { to, .. } => to,
        }
    }

    pub(crate) fn join(&self) -> Option<&'static str> {
        match self {
            OutlineExit::FanOut { join, .. } => Some(join),
            OutlineExit::Edge(_) | OutlineExit::Route(_) => None,
        }
    }
}

/// Walks every way through the graph, with the forks whose branches it is in.
struct Walk<'a> {
    exits: &'a Exits<'a>,
    seen: HashSet<(&'static str, Vec<(&'static str, &'static str)>)>,
    problems: BTreeSet<Problem>,
}

impl Walk<'_> {
    /// `forks` are the forks and joins around this node, the outermost first.
    fn visit(&mut self, node: &'static str, forks: &[(&'static str, &'static str)]) {
        if !self.seen.insert((node, forks.to_vec())) {
            return;
        }
        let Some(exit) = self.exits.get(node) else { return };
        let Some(join) = exit.join() else {
            return exit.targets().iter().for_each(|to| self.follow(node, to, forks));
        };
        if forks.iter().any(|(fork, _)| *fork == node) {
            self.problems.insert(Problem::ForkInItself { fork: node });
            return;
        }
        let within: Vec<_> = forks.iter().copied().chain([(node, join)]).collect();
        for to in exit.targets() {
            if *to == join {
                self.problems.insert(Problem::BranchIsJoin { fork: node, join });
            } else {
                self.follow(node, to, &within);
            }
        }
        // With no branches at all the join comes next.
        self.follow(node, join, forks);
    }

    fn follow(
        &mut self,
        node: &'static str,
        to: &'static str,
        forks: &[(&'static str, &'static str)],
    ) {
        match forks.split_last() {
            Some(((_, join), around)) if to == *join => self.visit(to, around),
            Some(((fork, join), _)) if to == END => {
                self.problems.insert(Problem::EndInBranch { node, fork, join });
            }
            Some(((fork, join), around)) if around.iter().any(|(_, outer)| *outer == to) => {
                self.problems.insert(Problem::LeavesBranch { node, fork, join, to });
            }
            _ if to == END => {}
            _ => self.visit(to, forks),
        }
    }
}

/// The nodes from which the end can be reached.
fn ending(exits: &Exits<'_>) -> HashSet<&'static str> {
    let mut ending = HashSet::from([END]);
    loop {
        let more: Vec<&'static str> = exits
            .iter()
            .filter(|(from, exit)| {
                let next = exit.join().map_or(exit.targets().to_vec(), |join| vec![join]);
                !ending.contains(*from) && next.iter().any(|to| ending.contains(to))
            })
            .map(|(from, _)| *from)
            .collect();
        if more.is_empty() {
            return ending;
        }
        ending.extend(more);
    }
}
