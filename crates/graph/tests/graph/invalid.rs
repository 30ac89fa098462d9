//! Graphs that cannot run, and what is said about them.

use assize_graph::{Context, END, FanOut, Graph, GraphBuilder};

use crate::order::{Lines, Log};

async fn idle(_: Context<Log>) -> Lines {
    Ok(vec![])
}

fn with(nodes: &[&'static str]) -> GraphBuilder<Log> {
    nodes.iter().fold(Graph::builder("g"), |graph, node| graph.node(node, idle))
}

/// What is wrong, a line for each problem.
fn problems(graph: GraphBuilder<Log>) -> String {
    let invalid = graph.compile().unwrap_err();
    assert!(invalid.to_string().starts_with("the graph `g` cannot run: "));
    invalid.problems.iter().map(|problem| format!("{problem}\n")).collect()
}

#[test]
fn every_problem_names_its_node() {
    let none = |_: &Log| FanOut::from(vec![]);
    let cases = [
        problems(with(&[])),
        problems(with(&["a", "a", "no good", "END", ""]).start("b").edge("a", END)),
        problems(with(&["a", "b"]).start("a").edge("a", "c").edge("x", "a").edge("a", END)),
        problems(with(&["a", "island"]).start("a").edge("a", END).edge("island", "a")),
        problems(with(&["a"]).start("a").route("a", [], |_, _| END)),
        problems(with(&["a", "b"]).start("a").edge("a", "b").edge("b", "a")),
        // A branch that ends, one that goes round for ever, one that begins where it joins.
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
        // A branch that comes by its own fork, and one that skips its join.
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
    no node is the start
    --
    `` cannot be the name of a node: use letters, digits, `_` and `-`, and not `END`
    `END` cannot be the name of a node: use letters, digits, `_` and `-`, and not `END`
    `no good` cannot be the name of a node: use letters, digits, `_` and `-`, and not `END`
    there are two nodes `a`
    the start is `b`, and there is no such node
    nothing follows ``: give it an edge, to `END` if the run ends there
    nothing follows `END`: give it an edge, to `END` if the run ends there
    nothing follows `no good`: give it an edge, to `END` if the run ends there
    --
    `a` leads to `c`, and there is no such node
    something follows `x`, and there is no such node
    nothing follows `b`: give it an edge, to `END` if the run ends there
    what follows `a` is said twice
    --
    `island` is never reached
    --
    `a` leads to one of no targets
    --
    `a` never comes to an end
    `b` never comes to an end
    --
    `b` ends the run within a branch of `a`: lead it to `j`, where they join
    --
    `b` never comes to an end
    --
    a branch of `a` begins at `j`, where they join
    --
    a branch of `a` leads to `a` again before it joins
    --
    `c` leads out of a branch of `b` to `outer`: the branches must first join at `inner`
    ");
}
