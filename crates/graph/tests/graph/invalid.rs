//! Tests of the problems that are reported for invalid graphs.

use assize_graph::{Context, END, FanOut, Graph, GraphBuilder};

use crate::order::{Lines, Log};

async fn idle(_: Context<Log>) -> Lines {
    Ok(vec![])
}

fn with(nodes: &[&'static str]) -> GraphBuilder<Log> {
    nodes.iter().fold(Graph::builder("g"), |graph, node| graph.node(node, idle))
}

/// Returns the problems of an invalid graph, one per line.
fn problems(graph: GraphBuilder<Log>) -> String {
    let invalid = graph.compile().unwrap_err();
    assert!(invalid.to_string().starts_with("graph `g` is invalid: "));
    invalid.problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn invalid_graph_reports_every_problem_with_its_node() {
    let none = |_: &Log| FanOut::from(vec![]);
    let cases = [
        problems(with(&[])),
        problems(with(&["a", "a", "no good", "END", ""]).start("b").edge("a", END)),
        problems(with(&["a", "b"]).start("a").edge("a", "c").edge("x", "a").edge("a", END)),
        problems(with(&["a", "island"]).start("a").edge("a", END).edge("island", "a")),
        problems(with(&["a"]).start("a").route("a", [], |_, _| END)),
        problems(with(&["a", "b"]).start("a").edge("a", "b").edge("b", "a")),
        // Graphs with an invalid branch: it ends the run, loops forever, or starts at its join.
        problems(
            with(&["a", "b", "c", "j"])
                .start("a")
                .fan_out("a", ["b", "c"], "j", none)
                .edge("b", END)
                .edge("c", "j")
                .edge("j", END),
        ),
        problems(
            with(&["a", "b", "c", "j"])
                .start("a")
                .fan_out("a", ["b", "c"], "j", none)
                .edge("b", "b")
                .edge("c", "j")
                .edge("j", END),
        ),
        problems(with(&["a", "j"]).start("a").fan_out("a", ["j"], "j", none).edge("j", END)),
        // Graphs with an invalid branch: it leads back to its fan-out node, or skips its join.
        problems(
            with(&["a", "b", "j"])
                .start("a")
                .fan_out("a", ["b"], "j", none)
                .route("b", ["a", "j"], |_, _| "j")
                .edge("j", END),
        ),
        problems(
            with(&["a", "b", "c", "inner", "outer"])
                .start("a")
                .fan_out("a", ["b"], "outer", none)
                .fan_out("b", ["c"], "inner", none)
                .edge("c", "outer")
                .edge("inner", "outer")
                .edge("outer", END),
        ),
    ];
    insta::assert_snapshot!(cases.join("--\n"), @r"
    the start node is missing
    --
    invalid node name ``: use at most 60 letters, digits, `_` and `-`, and not `END`
    invalid node name `END`: use at most 60 letters, digits, `_` and `-`, and not `END`
    invalid node name `no good`: use at most 60 letters, digits, `_` and `-`, and not `END`
    duplicate node `a`
    unknown start node `b`
    node `` has no outgoing edge: add an edge to another node or to `END`
    node `END` has no outgoing edge: add an edge to another node or to `END`
    node `no good` has no outgoing edge: add an edge to another node or to `END`
    --
    node `a` leads to the unknown node `c`
    an edge, route or fan-out starts at the unknown node `x`
    node `b` has no outgoing edge: add an edge to another node or to `END`
    node `a` has more than one outgoing edge, route or fan-out
    --
    node `island` is unreachable from the start node
    --
    node `a` has a route or fan-out without targets
    --
    `END` is unreachable from node `a`
    `END` is unreachable from node `b`
    --
    node `b` ends the run inside a branch of `a`: replace `END` by the join `j`
    --
    `END` is unreachable from node `b`
    --
    a branch of node `a` starts at the join `j` of the branches
    --
    a branch of node `a` leads back to `a` before the join of the branches
    --
    node `c` leads out of a branch of `b` to `outer`: the branches must join at `inner` first
    ");
}
