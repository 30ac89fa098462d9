//! Validation of a graph: names, edges, routes and fan-outs of its nodes, and reachability.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;

use crate::builder::{END, OutlineExit};

/// Error for an invalid graph, with all problems found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidGraph {
    pub graph: &'static str,
    pub problems: Vec<GraphProblem>,
}

impl std::error::Error for InvalidGraph {}

impl fmt::Display for InvalidGraph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph `{}` is invalid: ", self.graph)?;
        for (index, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if index > 0 { "; " } else { "" })?;
        }
        Ok(())
    }
}

/// One reason why a graph is invalid.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum GraphProblem {
    #[error(
        "invalid node name `{node}`: use at most {MAX_NAME} letters, digits, `_` and `-`, and not `END`"
    )]
    BadName { node: &'static str },
    #[error("duplicate node `{node}`")]
    DuplicateNode { node: &'static str },
    #[error("the start node is missing")]
    NoStart,
    #[error("unknown start node `{node}`")]
    UnknownStart { node: &'static str },
    #[error("node `{from}` leads to the unknown node `{to}`")]
    UnknownTarget { from: &'static str, to: &'static str },
    #[error("an edge, route or fan-out starts at the unknown node `{node}`")]
    UnknownSource { node: &'static str },
    #[error("node `{node}` has no outgoing edge: add an edge to another node or to `END`")]
    NoExit { node: &'static str },
    #[error("node `{node}` has more than one outgoing edge, route or fan-out")]
    SecondExit { node: &'static str },
    #[error("node `{node}` has a route or fan-out without targets")]
    NoTargets { node: &'static str },
    #[error("node `{node}` is unreachable from the start node")]
    Unreachable { node: &'static str },
    #[error("`END` is unreachable from node `{node}`")]
    EndUnreachable { node: &'static str },
    #[error(
        "node `{node}` ends the run inside a branch of `{fork}`: replace `END` by the join `{join}`"
    )]
    EndInBranch { node: &'static str, fork: &'static str, join: &'static str },
    #[error(
        "node `{node}` leads out of a branch of `{fork}` to `{to}`: the branches must join at `{join}` first"
    )]
    LeavesBranch { node: &'static str, fork: &'static str, join: &'static str, to: &'static str },
    #[error("a branch of node `{fork}` starts at the join `{join}` of the branches")]
    BranchIsJoin { fork: &'static str, join: &'static str },
    #[error("a branch of node `{fork}` leads back to `{fork}` before the join of the branches")]
    ForkInItself { fork: &'static str },
}

/// Maximum length of a node name in bytes.
const MAX_NAME: usize = 60;

type Exits<'a> = HashMap<&'static str, &'a OutlineExit>;

/// Validates a graph and returns its start node.
pub(crate) fn check(
    graph: &'static str,
    start: Option<&'static str>,
    nodes: &[&'static str],
    exits: &[(&'static str, OutlineExit)],
) -> Result<&'static str, InvalidGraph> {
    let invalid = |problems: BTreeSet<GraphProblem>| InvalidGraph {
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
            problems.insert(GraphProblem::Unreachable { node });
        } else if !ending.contains(node) {
            problems.insert(GraphProblem::EndUnreachable { node });
        }
    }
    if problems.is_empty() { Ok(start) } else { Err(invalid(problems)) }
}

/// Checks that every node name is valid, unique and defined, and that exactly one edge, route or fan-out starts at every
/// node.
fn names(
    start: Option<&'static str>,
    nodes: &[&'static str],
    exits: &[(&'static str, OutlineExit)],
) -> BTreeSet<GraphProblem> {
    let mut problems = BTreeSet::new();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let mut known = HashSet::new();
    for node in nodes.iter().copied() {
        if node.is_empty() || node.len() > MAX_NAME || !node.chars().all(plain) || node == END {
            problems.insert(GraphProblem::BadName { node });
        }
        if !known.insert(node) {
            problems.insert(GraphProblem::DuplicateNode { node });
        }
    }
    match start {
        None => {
            problems.insert(GraphProblem::NoStart);
        }
        Some(node) if !known.contains(node) => {
            problems.insert(GraphProblem::UnknownStart { node });
        }
        Some(_) => {}
    }
    let mut leaving = HashSet::new();
    for (from, exit) in exits {
        if !known.contains(from) {
            problems.insert(GraphProblem::UnknownSource { node: from });
        }
        if !leaving.insert(*from) {
            problems.insert(GraphProblem::SecondExit { node: from });
        }
        if exit.targets().is_empty() {
            problems.insert(GraphProblem::NoTargets { node: from });
        }
        let may_end = matches!(exit, OutlineExit::Edge(_) | OutlineExit::Route(_));
        for to in exit.targets().iter().chain(exit.join().iter()) {
            if !(known.contains(to) || may_end && *to == END) {
                problems.insert(GraphProblem::UnknownTarget { from, to });
            }
        }
    }
    for node in nodes.iter().copied().filter(|node| !leaving.contains(node)) {
        problems.insert(GraphProblem::NoExit { node });
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

/// Visits every path through the graph and tracks which fan-outs enclose each node.
struct Walk<'a> {
    exits: &'a Exits<'a>,
    seen: HashSet<(&'static str, Vec<(&'static str, &'static str)>)>,
    problems: BTreeSet<GraphProblem>,
}

impl Walk<'_> {
    /// Checks the paths that start at `node`. `forks` lists the fan-outs that enclose `node`, the outermost first, each
    /// as a pair: the node that fans out, and the node at which its branches join.
    fn visit(&mut self, node: &'static str, forks: &[(&'static str, &'static str)]) {
        if !self.seen.insert((node, forks.to_vec())) {
            return;
        }
        let Some(exit) = self.exits.get(node) else { return };
        let Some(join) = exit.join() else {
            return exit.targets().iter().for_each(|to| self.follow(node, to, forks));
        };
        if forks.iter().any(|(fork, _)| *fork == node) {
            self.problems.insert(GraphProblem::ForkInItself { fork: node });
            return;
        }
        let within: Vec<_> = forks.iter().copied().chain([(node, join)]).collect();
        for to in exit.targets() {
            if *to == join {
                self.problems.insert(GraphProblem::BranchIsJoin { fork: node, join });
            } else {
                self.follow(node, to, &within);
            }
        }
        // A fan-out without branches continues directly at its join.
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
                self.problems.insert(GraphProblem::EndInBranch { node, fork, join });
            }
            Some(((fork, join), around)) if around.iter().any(|(_, outer)| *outer == to) => {
                self.problems.insert(GraphProblem::LeavesBranch { node, fork, join, to });
            }
            _ if to == END => {}
            _ => self.visit(to, forks),
        }
    }
}

/// Nodes from which `END` can be reached.
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
