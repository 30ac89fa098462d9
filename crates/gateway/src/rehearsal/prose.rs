//! Generates the text answers of the rehearsal model from words of the prompt.

use std::collections::BTreeMap;

use assize_llm::{Prompt, TranscriptTurn};

/// Sentence templates with placeholders for two words of the prompt.
const SENTENCES: &[&str] = &[
    "The case depends on {a}; whether {b} can support it is the first open question.",
    "I agree about {a}, but the evidence for {b} is weak.",
    "If the claim about {a} is true, most of the argument about {b} follows.",
    "A figure for {a} is missing; without it, {b} is only an opinion.",
    "I would decide about {a} before {b}, because a mistake there costs more to correct.",
    "The strongest objection concerns {a}, and it has not been answered yet.",
    "There is a cheaper way to test {b} than to commit to {a} at once.",
    "Even without {a}, the argument for {b} holds, which supports it.",
    "The timing of {a} matters more than its size.",
    "No argument so far connects {a} with {b}; the connection needs a reason.",
    "A small trial of {a} would show within weeks whether {b} follows.",
    "I accept the point about {b} and maintain the one about {a}.",
];

/// Stop words, which are not used as topic words of a prompt.
const COMMON: &str = "about above after again against along answer because before being below between could \
    different doing every explain first following given other please question shall should \
    something their there these thing things those through under until where whether which while \
    would write yours";

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

/// Maximum number of topic words.
const MAX_WORDS: usize = 40;

/// Returns the topic words of the prompt: the most frequent words of the first text that contains usable words. The
/// texts are tried in this order: the last block (unless it is the only block), the tail, the turns of the transcript
/// from the last to the first, and the blocks from the last to the first.
fn topic(prompt: &Prompt) -> Vec<String> {
    let turns = prompt.transcript.iter().rev().filter_map(|turn| match turn {
        TranscriptTurn::User { text } => Some(&**text),
        TranscriptTurn::Assistant { text, .. } => Some(text.as_str()),
        TranscriptTurn::Tool(_) => None,
    });
    // The last of several blocks is the most specific block. A single block contains only rules.
    let matter = prompt.blocks.iter().skip(1).next_back().map(|block| &*block.text);
    let blocks = prompt.blocks.iter().rev().map(|block| &*block.text);
    let texts = matter.into_iter().chain([prompt.tail.as_str()]).chain(turns).chain(blocks);
    let words = texts.map(frequent).find(|words| !words.is_empty());
    words.unwrap_or_else(|| vec!["this".to_owned(), "that".to_owned()])
}

/// The most frequent usable words of a text: words of 5 to 20 letters that are not stop words.
fn frequent(text: &str) -> Vec<String> {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for word in text.split(|c: char| !c.is_alphanumeric()).map(str::to_lowercase) {
        let usable =
            (5..=20).contains(&word.chars().count()) && word.chars().all(char::is_alphabetic);
        if usable && !COMMON.split(' ').any(|common| common == word) {
            *counted.entry(word).or_default() += 1;
        }
    }
    let mut words: Vec<(String, usize)> = counted.into_iter().collect();
    if words.is_empty() {
        return Vec::new();
    }
    words.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    words.truncate(MAX_WORDS);
    let mut words: Vec<String> = words.into_iter().map(|(word, _)| word).collect();
    words.sort_unstable();
    words.push("the proposal".to_owned());
    words
}
