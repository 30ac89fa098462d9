//! Rendering of graphs as Mermaid flowcharts.

use std::fmt::Write as _;

use crate::builder::{END, Outline, OutlineExit};

/// Renders a graph as a flowchart. Plain arrows are edges, dotted arrows are routes, and thick arrows are fan-outs.
pub(crate) fn draw(outline: &Outline) -> String {
    let mut text = String::from("flowchart TD\n");
    body(&mut text, outline, "", 1);
    text
}

/// Mermaid keywords that cannot be node ids.
const RESERVED: [&str; 9] =
    ["end", "graph", "flowchart", "subgraph", "style", "linkStyle", "class", "classDef", "click"];

fn id(prefix: &str, name: &str) -> String {
    let mark = if RESERVED.contains(&name) { "_" } else { "" };
    format!("{prefix}{}{mark}", name.replace('-', "_"))
}

fn body(text: &mut String, outline: &Outline, prefix: &str, depth: usize) {
    let indent = "    ".repeat(depth);
    let id = |name: &str| id(prefix, name);
    let mut line = |words: String| {
        let _ = writeln!(text, "{indent}{words}");
    };
    line(format!("{}([start])", id("START")));
    let ends = |exit: &OutlineExit| exit.targets().contains(&END);
    if outline.nodes.iter().any(|node| ends(&node.exit)) {
        line(format!("{}([end])", id(END)));
    }
    for node in &outline.nodes {
        match &node.inner {
            None => {
                let _ = writeln!(text, "{indent}{}[{}]", id(node.name), node.name);
            }
            Some(inner) => {
                let _ = writeln!(text, "{indent}subgraph {}[{}]", id(node.name), node.name);
                body(text, inner, &format!("{}__", id(node.name)), depth + 1);
                let _ = writeln!(text, "{indent}end");
            }
        }
    }
    let mut arrow = |from: &str, arrow: &str, to: &str| {
        let _ = writeln!(text, "{indent}{} {arrow} {}", id(from), id(to));
    };
    arrow("START", "-->", outline.start);
    for node in &outline.nodes {
        let style = match &node.exit {
            OutlineExit::Edge(_) => "-->",
            OutlineExit::Route(_) => "-.->",
            OutlineExit::FanOut { .. } => "==>|each|",
        };
        node.exit.targets().iter().for_each(|to| arrow(node.name, style, to));
    }
}
