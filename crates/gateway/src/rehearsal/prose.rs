//! Text in the manner of an answer, made of the question's own words.

use assize_llm::{Prompt, Turn};

/// Sentences with places for two of the question's words.
const SENTENCES: &[&str] = &[
    "The weight rests on {a}, and whether {b} can carry it is the first thing to settle.",
    "On {a} I agree; on {b} the case is thinner than it looks.",
    "If {a} holds, most of what follows about {b} holds with it.",
    "What is missing is a figure for {a}: without one, {b} stays an opinion.",
    "I would put {a} before {b}, since a mistake there costs more to undo.",
    "The strongest objection concerns {a}, and it has not been answered yet.",
    "There is a cheaper way to learn about {b} than to commit to {a} at once.",
    "Take {a} away and the argument for {b} still stands, which speaks for it.",
    "The timing of {a} matters more here than its size.",
    "Nothing said so far ties {a} to {b}; that link should be made or dropped.",
    "A small trial of {a} would show within weeks whether {b} follows.",
    "I concede the point about {b}, and hold on to the one about {a}.",
];

/// Words that say nothing about what a question is about.
const COMMON: &[&str] = &[
    "about",
    "above",
    "after",
    "again",
    "against",
    "along",
    "answer",
    "because",
    "before",
    "being",
    "below",
    "between",
    "could",
    "different",
    "doing",
    "every",
    "explain",
    "first",
    "following",
    "given",
    "other",
    "please",
    "question",
    "shall",
    "should",
    "something",
    "their",
    "there",
    "these",
    "thing",
    "things",
    "those",
    "through",
    "under",
    "until",
    "where",
    "whether",
    "which",
    "while",
    "would",
    "write",
    "yours",
];

pub(super) fn answer(prompt: &Prompt, dice: &mut fastrand::Rng) -> String {
    let words = topic(prompt);
    let count = dice.usize(3..=5);
    let mut order: Vec<usize> = (0..SENTENCES.len()).collect();
    dice.shuffle(&mut order);
    let sentences = order.into_iter().take(count).map(|index| {
        let first = dice.usize(..words.len());
        let other = first + dice.usize(1..words.len());
        let (a, b) = (&words[first], &words[other % words.len()]);
        SENTENCES[index].replace("{a}", &format!("“{a}”")).replace("{b}", &format!("“{b}”"))
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// The words that the answer speaks of: from what is asked now, else from what was said before.
fn topic(prompt: &Prompt) -> Vec<String> {
    let said = prompt.transcript.iter().rev().filter_map(|turn| match turn {
        Turn::User { text } | Turn::Assistant { text, .. } => Some(text.as_str()),
        Turn::Tool(_) => None,
    });
    let blocks = prompt.blocks.iter().rev().map(|block| block.text.as_str());
    for text in [prompt.tail.as_str()].into_iter().chain(said).chain(blocks) {
        let mut words: Vec<String> = text
            .split(|c: char| !c.is_alphanumeric())
            .map(str::to_lowercase)
            .filter(|word| {
                (5..=20).contains(&word.chars().count()) && !COMMON.contains(&word.as_str())
            })
            .collect();
        words.sort_unstable();
        words.dedup();
        if !words.is_empty() {
            words.push("the matter at hand".to_owned());
            return words;
        }
    }
    vec!["this".to_owned(), "that".to_owned()]
}
