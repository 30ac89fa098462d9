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
        "summary": "A rehearsal stands here for what a model would read out of the material.",
        "findings": [
            finding("What carries the company", "One activity pays for the others; how much it does is for a model to say."),
            finding("What changes", "Something moves that was stable before; a model would name it and date it."),
            finding("What is missing", "The material does not answer every question that a decision would need."),
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
            "thesis": format!("The move goes for {what}. A rehearsal makes no claim about how much that is."),
            "actions": ["Name one person who answers for it", "Try it where a failure is cheap", "Decide by what was seen"],
            "cost": "for a model to estimate",
            "timeline": "for a model to estimate",
            "risks": ["It is begun beside everything else and never finished"],
            "citations": ["F1.1", "F2.2"],
        })
    };
    json!({"moves": (0..count).map(one).collect::<Vec<_>>()})
}
