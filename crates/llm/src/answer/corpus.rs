//! Corpus of malformed answers: the answers in `corpus/answers.txt`, and generated answers that are too long for a
//! file.

use serde_json::{Value, json};

use super::Fix;

const ANSWERS: &str = include_str!("../../corpus/answers.txt");

/// Expected value of most answers in the corpus.
const USUAL: &str = r#"{"impact": 8, "reasoning": "solid"}"#;

/// Expected result of parsing an answer.
pub(super) enum Outcome {
    Value(Value, Vec<Fix>),
    /// The answer is rejected with an error that contains this text.
    Refused(&'static str),
}

/// Returns name, text and expected result of each answer in the corpus.
pub(super) fn corpus() -> Vec<(&'static str, String, Outcome)> {
    let lines: Vec<&str> = ANSWERS.lines().filter(|line| !line.starts_with("%%")).collect();
    // Each answer starts with a line `== name | outcome`.
    let starts = lines.iter().enumerate().filter(|(_, line)| line.starts_with("== "));
    let starts: Vec<usize> = starts.map(|(index, _)| index).collect();
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let written = starts.iter().zip(ends).map(|(start, end)| {
        let (name, outcome) = lines[*start]["== ".len()..].split_once(" | ").unwrap();
        (name, unescape(&lines[start + 1..end].join("\n")), read(outcome))
    });
    let refused = Outcome::Refused;
    // An unoptimized parser needs seconds for each megabyte.
    let times = if std::env::var_os("ASSIZE_TEST_FULL").is_some() { 10 } else { 1 };
    let noise = "lorem ipsum { dolor [ sit ".repeat(8_000 * times);
    let more_noise = "blah { blah ".repeat(10_000 * times);
    let reasoning = "x".repeat(200_000 * times);
    let long = [
        ("deep lists", "[".repeat(100_000), refused("nested too deeply")),
        ("deep objects", "{\"a\":".repeat(50_000), refused("nested too deeply")),
        ("deep closed lists", "[".repeat(5000) + &"]".repeat(5000), refused("nested too deeply")),
        ("long noise", noise, refused("unexpected")),
        ("answer after long noise", more_noise + USUAL, read("surrounding_text")),
        (
            "comments without end",
            "[/*".repeat(30_000 * times),
            refused("too much text that is not JSON"),
        ),
        (
            "long text",
            USUAL.replace("solid", &reasoning),
            Outcome::Value(json!({"impact": 8, "reasoning": reasoning}), vec![]),
        ),
        ("quotes without end", "{\"".repeat(30_000 * times), refused("unexpected")),
    ];
    written.chain(long).collect()
}

/// Parses the expected outcome of an answer, in the format of the corpus file.
fn read(outcome: &'static str) -> Outcome {
    if let Some(words) = outcome.strip_prefix("! ") {
        return Outcome::Refused(words);
    }
    let (fixes, value) = outcome.split_once(" => ").unwrap_or((outcome, ""));
    let fixes = fixes.split(' ').filter(|name| *name != "-");
    let fixes = fixes.map(|name| serde_json::from_value(name.into()).unwrap()).collect();
    let value = if value.is_empty() { USUAL } else { value };
    Outcome::Value(serde_json::from_str(value).unwrap(), fixes)
}

/// Replaces each `\u{…}` in a text by its character.
fn unescape(text: &str) -> String {
    let mut parts = text.split("\\u{");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| {
        let (code, rest) = part.split_once('}').unwrap();
        let character = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
        format!("{line}{character}{rest}")
    })
}
