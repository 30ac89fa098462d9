//! Broken answers as models write them, and what must become of each.

use serde_json::{Value, json};

use super::Fix;

pub(super) enum Outcome {
    /// Reads as impact 8, reasoning "solid", after these fixes.
    Usual(Vec<Fix>),
    Value(Value, Vec<Fix>),
    /// Refused, with these words.
    Refused(&'static str),
}

use Outcome::{Refused, Usual};

fn value(value: Value, fixes: &[Fix]) -> Outcome {
    Outcome::Value(value, fixes.to_vec())
}

/// Name, text and outcome of each.
pub(super) fn corpus() -> Vec<(&'static str, String, Outcome)> {
    use Fix::*;
    let usual = r#"{"impact": 8, "reasoning": "solid"}"#;
    let s = str::to_owned;
    vec![
        // Well formed.
        ("plain", s(usual), Usual(vec![])),
        ("compact", s(r#"{"impact":8,"reasoning":"solid"}"#), Usual(vec![])),
        ("other order", s(r#"{"reasoning": "solid", "impact": 8}"#), Usual(vec![])),
        ("blank lines around", format!("\n\n  {usual}\r\n\t"), Usual(vec![])),
        ("unicode escape", s(r#"{"impact": 8, "reasoning": "s\u006flid"}"#), Usual(vec![])),
        (
            "surrogate pair",
            s(r#"{"impact": 8, "reasoning": "\ud83d\ude00"}"#),
            value(json!({"impact": 8, "reasoning": "😀"}), &[]),
        ),
        (
            "optional given",
            s(r#"{"impact": 8, "reasoning": "x", "confidence": 0.5}"#),
            value(json!({"impact": 8, "reasoning": "x", "confidence": 0.5}), &[]),
        ),
        (
            "optional null",
            s(r#"{"impact": 8, "reasoning": "x", "confidence": null}"#),
            value(json!({"impact": 8, "reasoning": "x", "confidence": null}), &[]),
        ),
        (
            "unknown key kept by the schema",
            s(r#"{"impact": 8, "reasoning": "solid", "mood": 1}"#),
            value(json!({"impact": 8, "reasoning": "solid", "mood": 1}), &[]),
        ),
        (
            "exponent",
            s(r#"{"impact": 8, "reasoning": "x", "confidence": 5e-1}"#),
            value(json!({"impact": 8, "reasoning": "x", "confidence": 0.5}), &[]),
        ),
        // Fences and words around it.
        ("fence with tag", format!("```json\n{usual}\n```"), Usual(vec![CodeFence])),
        ("fence without tag", format!("```\n{usual}\n```"), Usual(vec![CodeFence])),
        ("fence with upper-case tag", format!("```JSON\n{usual}\n```\n"), Usual(vec![CodeFence])),
        ("fence not closed", format!("```json\n{usual}"), Usual(vec![SurroundingText])),
        (
            "fence and words",
            format!("Here you go:\n```json\n{usual}\n```\nAnything else?"),
            Usual(vec![SurroundingText]),
        ),
        ("words before", format!("My verdict: {usual}"), Usual(vec![SurroundingText])),
        ("words after", format!("{usual}\n\nI hope this helps."), Usual(vec![SurroundingText])),
        (
            "braces in the words",
            format!("The set {{1, 2}} is irrelevant. {usual}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "brackets in the words",
            format!("See [1] and [2]. {usual}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "template in the words",
            format!("I fill in {{impact}} now: {usual}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "thinking first",
            format!("<think>maybe {{\"impact\": 3, \"reasoning\": \"no\"}}</think>{usual}"),
            Usual(vec![Thinking]),
        ),
        (
            "thinking never ends",
            format!("<think>{{\"impact\": 3, \"reasoning\": \"no\"}} or {usual}"),
            Refused("before the thinking does"),
        ),
        ("same twice", format!("{usual}\n{usual}"), Usual(vec![SurroundingText])),
        (
            "two that differ",
            format!("{usual} or rather {}", usual.replace('8', "3")),
            Refused("2 different JSON objects"),
        ),
        ("a list of verdicts", format!("[{usual}]"), Refused("is not of type")),
        ("one fits, one does not", format!("{{\"a\": 1}} {usual}"), Usual(vec![SurroundingText])),
        ("nested in a wrapper", format!("{{\"answer\": {usual}}}"), Refused("required property")),
        ("string of JSON", format!("{:?}", usual), Refused("unexpected")),
        ("XML around it", format!("<json>{usual}</json>"), Usual(vec![SurroundingText])),
        ("HTML entities", s("{&quot;impact&quot;: 8}"), Refused("unexpected `&`")),
        // Characters nobody sees.
        ("byte-order mark", format!("\u{feff}{usual}"), Usual(vec![InvisibleCharacters])),
        (
            "zero-width space inside",
            s("{\u{200b}\"impact\": 8, \"reasoning\": \"solid\"}"),
            Usual(vec![InvisibleCharacters]),
        ),
        (
            "right-to-left mark in a key",
            s("{\"\u{200f}impact\": 8, \"reasoning\": \"solid\"}"),
            Usual(vec![InvisibleCharacters]),
        ),
        (
            "right-to-left override in a text is content",
            s("{\"impact\": 8, \"reasoning\": \"\u{202e}dilos\"}"),
            value(json!({"impact": 8, "reasoning": "\u{202e}dilos"}), &[]),
        ),
        (
            "no-break spaces",
            s("{\u{a0}\"impact\":\u{a0}8, \"reasoning\": \"solid\"}"),
            Usual(vec![InvisibleCharacters]),
        ),
        (
            "direction marks around",
            format!("\u{2067}{usual}\u{2069}"),
            Usual(vec![InvisibleCharacters]),
        ),
        (
            "raw newline in a text",
            s("{\"impact\": 8, \"reasoning\": \"so\nlid\"}"),
            value(json!({"impact": 8, "reasoning": "so\nlid"}), &[RawControlCharacters]),
        ),
        (
            "raw tab in a text",
            s("{\"impact\": 8, \"reasoning\": \"so\tlid\"}"),
            value(json!({"impact": 8, "reasoning": "so\tlid"}), &[RawControlCharacters]),
        ),
        (
            "NUL in a text",
            s("{\"impact\": 8, \"reasoning\": \"so\0lid\"}"),
            value(json!({"impact": 8, "reasoning": "so\0lid"}), &[RawControlCharacters]),
        ),
        (
            "escape sequence in a text",
            s("{\"impact\": 8, \"reasoning\": \"\u{1b}[31mred\"}"),
            value(json!({"impact": 8, "reasoning": "\u{1b}[31mred"}), &[RawControlCharacters]),
        ),
        (
            "NUL between members",
            s("{\"impact\": 8,\0 \"reasoning\": \"solid\"}"),
            Refused("unexpected"),
        ),
        // Quotes, commas, comments, literals.
        ("single quotes", s("{'impact': 8, 'reasoning': 'solid'}"), Usual(vec![Quotes])),
        ("typographic quotes", s("{“impact”: 8, “reasoning”: “solid”}"), Usual(vec![Quotes])),
        ("backticks", s("{`impact`: 8, `reasoning`: `solid`}"), Usual(vec![Quotes])),
        ("mixed quotes", s("{\"impact\": 8, 'reasoning': \"solid\"}"), Usual(vec![Quotes])),
        (
            "apostrophe in single quotes",
            s("{'impact': 8, 'reasoning': 'it's solid'}"),
            Refused("unexpected `s`"),
        ),
        (
            "escaped apostrophe",
            s(r#"{'impact': 8, 'reasoning': 'it\'s'}"#),
            value(json!({"impact": 8, "reasoning": "it's"}), &[Quotes, BadEscape]),
        ),
        ("unquoted keys", s("{impact: 8, reasoning: \"solid\"}"), Usual(vec![UnquotedKey])),
        (
            "unquoted text",
            s("{\"impact\": 8, \"reasoning\": solid}"),
            Refused("unexpected `solid`"),
        ),
        (
            "trailing comma",
            s(r#"{"impact": 8, "reasoning": "solid",}"#),
            Usual(vec![TrailingComma]),
        ),
        (
            "trailing comma and blank",
            s("{\"impact\": 8, \"reasoning\": \"solid\" ,\n}"),
            Usual(vec![TrailingComma]),
        ),
        ("leading comma", s(r#"{, "impact": 8, "reasoning": "solid"}"#), Refused("unexpected `,`")),
        ("two commas", s(r#"{"impact": 8,, "reasoning": "solid"}"#), Refused("unexpected `,`")),
        ("missing comma", s("{\"impact\": 8\n\"reasoning\": \"solid\"}"), Refused("unexpected")),
        (
            "equals for colon",
            s(r#"{"impact" = 8, "reasoning" = "solid"}"#),
            Refused("unexpected `=`"),
        ),
        (
            "line comment",
            s("{\"impact\": 8, // high\n\"reasoning\": \"solid\"}"),
            Usual(vec![Comments]),
        ),
        (
            "hash comment",
            s("{\"impact\": 8, # high\n\"reasoning\": \"solid\"}"),
            Usual(vec![Comments]),
        ),
        (
            "block comment",
            s("{/* mine */\"impact\": 8, \"reasoning\": \"solid\"}"),
            Usual(vec![Comments]),
        ),
        ("block comment not closed", s("{\"impact\": 8 /* and so on"), Refused("cut off")),
        (
            "slashes in a text are content",
            s(r#"{"impact": 8, "reasoning": "a // b"}"#),
            value(json!({"impact": 8, "reasoning": "a // b"}), &[]),
        ),
        (
            "Python None",
            s(r#"{"impact": 8, "reasoning": "solid", "confidence": None}"#),
            value(json!({"impact": 8, "reasoning": "solid", "confidence": null}), &[Literal]),
        ),
        (
            "undefined",
            s(r#"{"impact": 8, "reasoning": "solid", "confidence": undefined}"#),
            value(json!({"impact": 8, "reasoning": "solid", "confidence": null}), &[Literal]),
        ),
        (
            "bad escape",
            s(r#"{"impact": 8, "reasoning": "so\_lid"}"#),
            value(json!({"impact": 8, "reasoning": "so_lid"}), &[BadEscape]),
        ),
        (
            "half a surrogate pair",
            s(r#"{"impact": 8, "reasoning": "\ud83d"}"#),
            Refused("surrogate"),
        ),
        (
            "everything at once",
            s("```json\n{impact: '8', // high\n 'reasoning': \"solid\",}\n```"),
            Usual(vec![UnquotedKey, Quotes, Comments, TrailingComma, Retyped, CodeFence]),
        ),
        // Numbers.
        ("number as text", s(r#"{"impact": "8", "reasoning": "solid"}"#), Usual(vec![Retyped])),
        (
            "number as padded text",
            s(r#"{"impact": " 8 ", "reasoning": "solid"}"#),
            Usual(vec![Retyped]),
        ),
        (
            "whole number as a float",
            s(r#"{"impact": 8.0, "reasoning": "solid"}"#),
            Usual(vec![Retyped]),
        ),
        ("plus sign", s(r#"{"impact": +8, "reasoning": "solid"}"#), Usual(vec![NumberFormat])),
        ("leading zero", s(r#"{"impact": 08, "reasoning": "solid"}"#), Refused("unexpected `08`")),
        (
            "no digit before the point",
            s(r#"{"impact": 8, "reasoning": "solid", "confidence": .5}"#),
            value(json!({"impact": 8, "reasoning": "solid", "confidence": 0.5}), &[NumberFormat]),
        ),
        (
            "no digit after the point",
            s(r#"{"impact": 8., "reasoning": "solid"}"#),
            Usual(vec![NumberFormat]),
        ),
        (
            "a fraction is not rounded",
            s(r#"{"impact": 7.5, "reasoning": "solid"}"#),
            Refused("`/impact`: 7.5 is not of type \"integer\""),
        ),
        ("out of ten", s(r#"{"impact": 8/10, "reasoning": "solid"}"#), Refused("unexpected `/`")),
        (
            "out of ten as text",
            s(r#"{"impact": "8/10", "reasoning": "solid"}"#),
            Refused("is not of type \"integer\""),
        ),
        (
            "number in words",
            s(r#"{"impact": "eight", "reasoning": "solid"}"#),
            Refused("is not of type \"integer\""),
        ),
        ("percent", s(r#"{"impact": 80%, "reasoning": "solid"}"#), Refused("unexpected `%`")),
        (
            "too large",
            s(r#"{"impact": 11, "reasoning": "solid"}"#),
            Refused("`/impact`: 11 is greater than the maximum of 10"),
        ),
        (
            "too small",
            s(r#"{"impact": 0, "reasoning": "solid"}"#),
            Refused("`/impact`: 0 is less than the minimum of 1"),
        ),
        (
            "negative",
            s(r#"{"impact": -8, "reasoning": "solid"}"#),
            Refused("less than the minimum"),
        ),
        ("huge", s(r#"{"impact": 1e400, "reasoning": "solid"}"#), Refused("unexpected `1e400`")),
        (
            "NaN",
            s(r#"{"impact": NaN, "reasoning": "solid"}"#),
            Refused("`NaN` is not a JSON number"),
        ),
        (
            "infinity",
            s(r#"{"impact": -Infinity, "reasoning": "solid"}"#),
            Refused("`Infinity` is not a JSON number"),
        ),
        (
            "two minus signs",
            s(r#"{"impact": --8, "reasoning": "solid"}"#),
            Refused("unexpected `--8`"),
        ),
        (
            "number where text is wanted",
            s(r#"{"impact": 8, "reasoning": 42}"#),
            value(json!({"impact": 8, "reasoning": "42"}), &[Retyped]),
        ),
        (
            "a flag is no number",
            s(r#"{"impact": true, "reasoning": "solid"}"#),
            Refused("is not of type"),
        ),
        // Keys.
        ("missing key", s(r#"{"impact": 8}"#), Refused("\"reasoning\" is a required property")),
        (
            "null for a number",
            s(r#"{"impact": null, "reasoning": "solid"}"#),
            Refused("null is not of type"),
        ),
        (
            "key in another case",
            s(r#"{"Impact": 8, "REASONING": "solid"}"#),
            Usual(vec![KeySpelling]),
        ),
        (
            "two spellings of a key",
            s(r#"{"Impact": 8, "IMPACT": 3, "reasoning": "solid"}"#),
            Refused("required property"),
        ),
        (
            "same key twice, same value",
            s(r#"{"impact": 8, "impact": 8, "reasoning": "solid"}"#),
            Usual(vec![RepeatedKey]),
        ),
        (
            "same key twice, other value",
            s(r#"{"impact": 8, "impact": 3, "reasoning": "solid"}"#),
            Refused("`impact` is given twice"),
        ),
        ("number as key", s(r#"{1: 8, "reasoning": "solid"}"#), Refused("unexpected `1`")),
        // Cut off.
        ("cut in a key", s(r#"{"impact": 8, "reas"#), Refused("cut off")),
        ("cut in a text", s(r#"{"impact": 8, "reasoning": "sol"#), Refused("cut off")),
        ("cut after a colon", s(r#"{"impact":"#), Refused("cut off")),
        ("cut in a number", s(r#"{"reasoning": "solid", "impact": 1"#), Refused("cut off")),
        ("cut before the brace", s(r#"{"impact": 8, "reasoning": "solid""#), Refused("cut off")),
        (
            "cut, but whole inside",
            format!("{{\"draft\": {usual}, \"final\": {{\"impact\""),
            Refused("cut off"),
        ),
        (
            "a draft, then a final answer that is cut off",
            format!("Draft: {usual}. On reflection: {{\"impact\": 3"),
            Refused("cut off"),
        ),
        (
            "two values for a key, and an example inside",
            s(r#"{"impact": 9, "impact": 3, "example": {"impact": 5, "reasoning": "x"}}"#),
            Refused("given twice"),
        ),
        (
            "a list of which one cannot be read",
            s(r#"{"scores": [{"impact": NaN}, {"impact": 7, "reasoning": "x"}]}"#),
            Refused("NaN"),
        ),
        (
            "thinking cut off",
            s(r#"<think>maybe {"impact": 3, "reasoning": "x"} hmm"#),
            Refused("before the thinking does"),
        ),
        (
            "thinking whose start is not shown",
            s(r#"maybe {"impact": 3, "reasoning": "x"}</think>I cannot decide."#),
            Refused("no JSON object"),
        ),
        ("thinking, then the answer", format!("so 3?</think>\n{usual}"), Usual(vec![Thinking])),
        (
            "thinking behind a byte-order mark",
            format!("\u{feff}<think>3</think>{usual}"),
            Usual(vec![Thinking]),
        ),
        (
            "a pair of surrogates that is none",
            s(r#"{"impact": 8, "reasoning": "\uD83D\u0041"}"#),
            Refused("surrogate"),
        ),
        (
            "a number with leading zeros for a text",
            s(r#"{"impact": 8, "reasoning": 02134}"#),
            Refused("unexpected `02134`"),
        ),
        (
            "a number too long for a text",
            s(r#"{"impact": 8, "reasoning": 123456789012345678901234}"#),
            Refused("is not of type \"string\""),
        ),
        (
            "a fraction for a text",
            s(r#"{"impact": 8, "reasoning": 1.10}"#),
            Refused("is not of type \"string\""),
        ),
        (
            "a badly written number for a text",
            s(r#"{"impact": 8, "reasoning": +7}"#),
            Refused("is not of type \"string\""),
        ),
        (
            "a thousands separator",
            s(r#"{"impact": 8, "reasoning": "x", "confidence": 1,000}"#),
            Refused("unexpected"),
        ),
        ("prose with a brace after it", format!("{usual} [sic"), Usual(vec![SurroundingText])),
        (
            "a closing tag inside a text",
            s(r#"{"impact": 8, "reasoning": "uses </think> tag"}"#),
            value(json!({"impact": 8, "reasoning": "uses </think> tag"}), &[]),
        ),
        (
            "a quoted page that would be the answer",
            s(
                r#"{"impact": 4, "reasoning": "the page said <think>x</think> {'impact': 5, 'reasoning': 'y'}"}"#,
            ),
            value(
                json!({"impact": 4, "reasoning": "the page said <think>x</think> {'impact': 5, 'reasoning': 'y'}"}),
                &[],
            ),
        ),
        (
            "thinking under another name",
            format!("<thinking>maybe {{\"impact\": 3, \"reasoning\": \"x\"}}</thinking> {usual}"),
            Usual(vec![Thinking]),
        ),
        (
            "thinking under another name, cut",
            s(r#"<reasoning>maybe {"impact": 3, "reasoning": "x"}, wrong"#),
            Refused("before the thinking does"),
        ),
        (
            "thinking after words, cut",
            s(r#"Thoughts: <think> maybe {"impact": 3, "reasoning": "x"} but"#),
            Refused("before the thinking does"),
        ),
        (
            "mathematics before it",
            format!("The set {{x : x is prime}}. Final: {usual}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "a style sheet before it",
            format!("body {{ color: red; }} {usual}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "Python before it",
            format!("{{i: i*i for i in range(3)}} {usual}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "a template before it",
            format!("Format: {{\"impact\": <int>, \"reasoning\": ...}}\n{usual}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "a template after it",
            format!("{usual} as in {{\"impact\": <int>}}"),
            Refused("unexpected `<`"),
        ),
        (
            "a placeholder after it",
            format!("{usual} as in {{placeholder: yes}}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "a brace in backticks",
            format!("It starts with `{{` as asked. Here: {usual}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "a bracket in backticks",
            format!("Use `[` for lists.\n{usual}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "a reference with a hash",
            format!("See [#12] for it.\n{usual}"),
            Usual(vec![SurroundingText]),
        ),
        (
            "a broken one that is never closed",
            s(r#"{"impact": 9, "reasoning": oops {"impact": 5, "reasoning": "x"}"#),
            Refused("unexpected `oops`"),
        ),
        (
            "a path with single backslashes",
            s(r#"{"impact": 8, "reasoning": "C:\Program \d+"}"#),
            value(json!({"impact": 8, "reasoning": "C:\\Program \\d+"}), &[BadEscape]),
        ),
        ("cut in an escape", s(r#"{"impact": 8, "reasoning": "\u00"#), Refused("cut off")),
        ("cut fence", s("```json\n{\"impact\": 8,"), Refused("cut off")),
        // Nothing to read.
        ("empty", s(""), Refused("the answer is empty")),
        ("blank", s(" \n\t "), Refused("the answer is empty")),
        ("invisible alone", s("\u{feff}\u{200b}"), Refused("the answer is empty")),
        ("words alone", s("I would rather not."), Refused("there is no JSON object")),
        ("scores in words", s("Impact: 8, reasoning: solid"), Refused("there is no JSON object")),
        ("null", s("null"), Refused("there is no JSON object")),
        ("empty object", s("{}"), Refused("required property")),
        ("empty list", s("[]"), Refused("is not of type \"object\"")),
        ("YAML", s("impact: 8\nreasoning: solid"), Refused("there is no JSON object")),
        (
            "an error page",
            s("<!DOCTYPE html><html><style>a{color:red}</style></html>"),
            Refused("unexpected"),
        ),
        // Too much.
        ("deep lists", "[".repeat(100_000), Refused("nested too deeply")),
        ("deep objects", "{\"a\":".repeat(50_000), Refused("nested too deeply")),
        (
            "deep and closed",
            format!("{}{}", "[".repeat(5000), "]".repeat(5000)),
            Refused("nested too deeply"),
        ),
        ("megabytes of noise", "lorem ipsum { dolor [ sit ".repeat(80_000), Refused("unexpected")),
        (
            "a needle in megabytes",
            format!("{}{usual}", "blah { blah ".repeat(100_000)),
            Usual(vec![SurroundingText]),
        ),
        ("comments that never end", "[/*".repeat(300_000), Refused("too much noise")),
        (
            "a text of megabytes",
            format!("{{\"impact\": 8, \"reasoning\": \"{}\"}}", "x".repeat(2_000_000)),
            value(json!({"impact": 8, "reasoning": "x".repeat(2_000_000)}), &[]),
        ),
        ("quotes without end", "{\"".repeat(300_000), Refused("unexpected")),
    ]
}
