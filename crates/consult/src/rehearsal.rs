//! Answers of the rehearsal model in a consultation: placeholders that make no claim about a company.

use assize_llm::{ModelError, ModelRequest};
use serde_json::{Value, json};

use crate::answer::{INFERENCE, PROPOSAL};

/// Placeholder moves of the rehearsal model, three per analyst. Each line has the title and the aim of a move.
const STAND_INS: &str = include_str!("../data/rehearsal_moves.txt");

/// Returns the rehearsal answer to a request of a consultation; `None` for any other request.
pub fn answer(request: &ModelRequest) -> Option<Result<String, ModelError>> {
    let schema = request.schema.as_ref()?;
    let value = if *schema == INFERENCE.schema {
        inference()
    } else if *schema == PROPOSAL.schema {
        proposal(&request.prompt.tail)
    } else {
        return None;
    };
    Some(Ok(value.to_string()))
}

fn inference() -> Value {
    let finding = |title: &str, statement: &str| json!({"title": title, "statement": statement, "evidence": []});
    json!({
        "summary": "Placeholder of the rehearsal model: a real model would interpret the data here.",
        "findings": [
            finding("Main source of income", "One activity finances the others; a real model would say which one, and by how much."),
            finding("Change of the market", "A condition that was stable has changed; a real model would name it and give the date."),
            finding("Missing information", "The data does not answer every question that a decision needs."),
        ],
    })
}

fn proposal(tail: &str) -> Value {
    let personas = crate::ConsultPersonas::default();
    let named = |name: &str| tail.starts_with(&format!("You are the {name}."));
    let analyst = personas.analysts.iter().position(|one| named(&one.name)).unwrap_or_default();
    let count = tail.split_once("propose exactly ").and_then(|(_, rest)| rest.split(' ').next());
    let count: usize = count.and_then(|count| count.parse().ok()).unwrap_or(crate::MOVES);
    let stand_ins: Vec<(&str, &str)> =
        STAND_INS.lines().filter_map(|line| line.split_once(" | ")).collect();
    let one = |index: usize| {
        let (title, what) = stand_ins[(3 * analyst + index % 3) % stand_ins.len()];
        json!({
            "title": title,
            "thesis": format!("The move aims at {what}. The rehearsal model does not estimate the effect of the move."),
            "actions": ["Name one person who is responsible", "Test the move where a failure is cheap", "Decide by the results of the test"],
            "cost": "not estimated (rehearsal)",
            "timeline": "not estimated (rehearsal)",
            "risks": ["The move is started beside other projects and never finished"],
            "citations": ["F1.1", "F2.2"],
        })
    };
    json!({"moves": (0..count).map(one).collect::<Vec<_>>()})
}
