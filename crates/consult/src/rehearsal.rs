//! What the rehearsal model says in a consultation, so that the whole of it can be seen without a model:
//! plain stand-ins that claim nothing about anybody.

use assize_llm::{ModelError, Request};
use serde_json::{Value, json};

use crate::answer::{INFERENCE, PROPOSAL};

/// Moves that any company could think about, one row for each analyst.
const MOVES: [[(&str, &str); 3]; 5] = [
    [
        (
            "Open one neighbouring market properly",
            "a market whose customers already ask for the product",
        ),
        (
            "Sell to those who repair and resell",
            "buyers who know the product and are not called on today",
        ),
        ("Offer a smaller first step", "customers who hesitate at the size of the usual contract"),
    ],
    [
        ("Stop the two weakest lines", "capital and attention that earn less there than elsewhere"),
        ("Pay down what falls due first", "room to act when others have to borrow"),
        ("Fund projects in stages", "money that is only spent while the case holds"),
    ],
    [
        ("Make the service part of the product", "revenue that does not end with the sale"),
        ("Retire options that few use", "a product that is easier to make and to explain"),
        ("Let partners build on it", "uses that the company would never build itself"),
    ],
    [
        ("Qualify a second source", "the part that stops everything if it is late"),
        ("Write down who knows what", "knowledge that leaves with three people"),
        ("Rehearse the worst week", "the days in which trust is lost"),
    ],
    [
        ("Grow more slowly for a year", "problems that growth hides"),
        ("Sell the division that everyone likes", "a price that will not be offered again"),
        ("Leave the race for scale", "customers who want care rather than size"),
    ],
];

/// What is answered to a request of a consultation; `None` if it is about something else.
pub fn answer(request: &Request) -> Option<Result<String, ModelError>> {
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
    let personas = crate::Personas::default();
    let named = |name: &str| tail.starts_with(&format!("You are the {name}."));
    let analyst = personas.analysts.iter().position(|one| named(&one.name)).unwrap_or_default();
    let count = tail.split_once("propose exactly ").and_then(|(_, rest)| rest.split(' ').next());
    let count: usize = count.and_then(|count| count.parse().ok()).unwrap_or(crate::MOVES);
    let one = |index: usize| {
        let (title, what) = MOVES[analyst % MOVES.len()][index % 3];
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
