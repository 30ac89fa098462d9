//! The ladder, and the corpus of broken answers with what becomes of each.

use std::sync::{LazyLock, Mutex};

use assize_types::{Cost, Money, Usage};
use proptest::prelude::*;

use super::corpus::{Outcome, corpus};
use super::*;
use crate::error::ErrorKind;

#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
struct Verdict {
    #[schemars(range(min = 1, max = 10))]
    impact: u8,
    reasoning: String,
    #[serde(default)]
    confidence: Option<f64>,
}

#[test]
fn the_corpus_of_broken_answers() {
    let corpus = corpus();
    assert!(corpus.len() >= 149, "the corpus has shrunk to {}", corpus.len());
    let mut failures = Vec::new();
    for (name, text, expected) in corpus {
        let outcome = READER.read(&text);
        let fine = match (&expected, &outcome) {
            (Outcome::Value(wanted, fixes), Ok((value, made))) => wanted == value && fixes == made,
            (Outcome::Refused(words), Err(reason)) => reason.to_string().contains(words),
            _ => false,
        };
        if !fine {
            let shown: String = format!("{outcome:?}").chars().take(300).collect();
            failures.push(format!("{name}: {shown}"));
        }
        if let Ok((value, _)) = outcome {
            let verdict: Verdict = serde_json::from_value(value).unwrap();
            assert!((1..=10).contains(&verdict.impact), "{name}");
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

static READER: LazyLock<AnswerReader> =
    LazyLock::new(|| AnswerReader::new(&Schema::of::<Verdict>()).unwrap());

/// Reads anything and checks what must hold of every outcome. Fuzzers call this with what they like.
fn fuzz_reader(text: &str) {
    if let Ok((value, fixes)) = READER.read(text) {
        // What is read strictly, serde_json reads the same.
        if fixes.is_empty() {
            let strict: Value = serde_json::from_str(text.trim()).unwrap();
            assert_eq!(strict, value);
        }
        // A text stands in the answer as it was written, unless it was written with escapes.
        let reasoning = value["reasoning"].as_str().unwrap();
        assert!(
            text.contains('\\') || text.contains(reasoning),
            "{reasoning:?} is not in {text:?}"
        );
        let impact = value["impact"].as_u64().unwrap();
        assert!((1..=10).contains(&impact));
        // Nothing is made up: the digits of the number stand in the text.
        assert!(text.contains(&impact.to_string()), "{impact} is not in {text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fuzz_arbitrary_text(text in "(?s).{0,120}") {
        fuzz_reader(&text);
    }

    #[test]
    fn fuzz_mutations_of_a_good_answer(
        edits in prop::collection::vec((0usize..60, prop_oneof![
            Just("{"), Just("}"), Just("["), Just("]"), Just("\""), Just("'"), Just(","), Just(":"),
            Just("\\"), Just("/*"), Just("*/"), Just("//"), Just("\n"), Just("8"), Just("-"), Just("e"),
            Just("."), Just("\u{feff}"), Just("```"), Just("null"), Just("\u{201d}"), Just("")
        ], any::<bool>()), 1..6)
    ) {
        let mut text: Vec<char> = r#"{"impact": 8, "reasoning": "solid", "confidence": 0.5}"#.chars().collect();
        for (at, insert, replace) in edits {
            let at = at.min(text.len() - 1);
            let end = if replace { at + 1 } else { at };
            text.splice(at..end, insert.chars());
            if text.is_empty() { text.push(' '); }
        }
        let text: String = text.into_iter().collect();
        fuzz_reader(&text);
    }
}

/// Answers with what it was given, in order, and keeps what it was asked.
struct Scripted {
    answers: Mutex<Vec<Result<Response, ModelError>>>,
    asked: Mutex<Vec<Request>>,
}

impl Scripted {
    fn new(answers: Vec<Result<Response, ModelError>>) -> Scripted {
        Scripted { answers: Mutex::new(answers), asked: Mutex::default() }
    }
}

#[async_trait]
impl Model for Scripted {
    async fn generate(&self, request: &Request, _: Call<'_>) -> Result<Response, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        self.answers.lock().unwrap().remove(0)
    }
}

fn says(text: &str) -> Result<Response, ModelError> {
    Ok(Response {
        text: text.to_owned(),
        tool_calls: vec![],
        stop: Stop::End,
        usage: Some(Usage { input: 10, output: 5, ..Usage::default() }),
        cost: Cost::Known(Money::from_nanos(100)),
        provider: "test".into(),
        model: "test".into(),
        schema_enforced: false,
        rehearsal: false,
        attempts: 1,
        duration_ms: 0,
    })
}

fn stops(text: &str, stop: Stop) -> Result<Response, ModelError> {
    says(text).map(|response| Response { stop, ..response })
}

const GOOD: &str = r#"{"impact": 8, "reasoning": "solid"}"#;

async fn ask(
    answers: Vec<Result<Response, ModelError>>,
) -> (Result<Answer<Verdict>, AnswerError>, Vec<Request>) {
    let model = Scripted::new(answers);
    let ask = JsonAsk::<Verdict>::new(Request::question("Score it."));
    let outcome = model.generate_json(ask, Call::default()).await;
    (outcome, model.asked.into_inner().unwrap())
}

#[tokio::test]
async fn each_rung_says_that_it_was_the_one() {
    let native = says(GOOD).map(|response| Response { schema_enforced: true, ..response });
    let rungs = [
        (vec![native], Provenance::Native),
        (vec![says(GOOD)], Provenance::Parsed),
        (vec![says("{'impact': 8, 'reasoning': 'x'}")], Provenance::Repaired(vec![Fix::Quotes])),
        (vec![says("no"), says(GOOD)], Provenance::Reasked(vec![])),
        (
            vec![says("no"), says("{impact: 8, reasoning: 'x'}")],
            Provenance::Reasked(vec![Fix::UnquotedKey, Fix::Quotes]),
        ),
    ];
    for (answers, provenance) in rungs {
        let calls = answers.len();
        let (answer, _) = ask(answers).await;
        let answer = answer.unwrap();
        assert_eq!((answer.value.impact, answer.provenance.clone()), (8, provenance));
        let usage = Response::total_usage(&answer.responses).unwrap();
        assert_eq!(usage.input, 10 * calls as u64);
    }
}

#[tokio::test]
async fn the_second_question_carries_the_first_answer_and_what_was_wrong() {
    let (answer, asked) = ask(vec![says(r#"{"impact": 11, "reasoning": "x"}"#), says(GOOD)]).await;
    answer.unwrap();
    let again = &asked[1].prompt;
    assert_eq!(
        again.transcript,
        [
            Turn::User { text: "Score it.".into() },
            Turn::Assistant { text: r#"{"impact": 11, "reasoning": "x"}"#.into(), calls: vec![] },
        ]
    );
    assert!(again.tail.contains("11 is greater than the maximum of 10"), "{}", again.tail);
    assert_eq!(asked[1].schema, asked[0].schema);
}

#[tokio::test]
async fn without_a_callers_rung_a_bad_answer_is_an_error() {
    let (outcome, asked) = ask(vec![says("Impact: 8"), says("Impact: 8!")]).await;
    let error = outcome.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the model's answer does not have the asked shape, twice: there is no JSON object in the answer"
    );
    assert_eq!((error.responses().len(), asked.len()), (2, 2));
}

#[tokio::test]
async fn the_callers_pattern_and_default_come_last_and_are_flagged() {
    let find = |text: &str| {
        let digits = text.split("Impact: ").nth(1)?;
        let impact =
            digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()?;
        Some(Verdict { impact, reasoning: String::new(), confidence: None })
    };
    let neutral = Verdict { impact: 5, reasoning: String::new(), confidence: None };
    let ask =
        || JsonAsk::new(Request::question("Score it.")).extract(&find).or_default(neutral.clone());
    let model = Scripted::new(vec![says("Impact: 7"), says("Impact: 8")]);
    let answer = model.generate_json(ask(), Call::default()).await.unwrap();
    assert_eq!((answer.value.impact, answer.provenance), (8, Provenance::Extracted));

    let model = Scripted::new(vec![says("no"), says("never")]);
    let answer = model.generate_json(ask(), Call::default()).await.unwrap();
    assert_eq!((answer.value.impact, &answer.provenance), (5, &Provenance::Defaulted));
    assert!(answer.provenance.is_doubtful());

    let model = Scripted::new(vec![stops("I cannot", Stop::Refused)]);
    let answer = model.generate_json(ask(), Call::default()).await.unwrap();
    assert_eq!(answer.provenance, Provenance::Defaulted);
}

#[tokio::test]
async fn a_refusal_is_not_asked_again() {
    let (outcome, asked) = ask(vec![stops("I cannot help with that.", Stop::Refused)]).await;
    assert!(matches!(outcome, Err(AnswerError::Refused { .. })));
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn a_draft_in_an_answer_that_is_cut_off_is_not_the_answer() {
    let draft = format!("Let me try {GOOD}. No wait, that is wrong, recomput");
    let (outcome, asked) = ask(vec![stops(&draft, Stop::MaxTokens), says(GOOD)]).await;
    assert_eq!((outcome.unwrap().provenance, asked.len()), (Provenance::Reasked(vec![]), 2));
    // Cut off right behind it, it is whole.
    let (outcome, asked) = ask(vec![stops(&format!("{GOOD}\n```"), Stop::MaxTokens)]).await;
    assert_eq!((outcome.unwrap().value.impact, asked.len()), (8, 1));
}

#[tokio::test]
async fn an_answer_that_is_cut_off_is_asked_for_again_shorter() {
    let cut = r#"{"impact": 8, "reasoning": "so"#;
    let (outcome, asked) =
        ask(vec![stops(cut, Stop::MaxTokens), stops(cut, Stop::MaxTokens)]).await;
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "the answer was cut off at 4096 output tokens, twice"
    );
    assert!(asked[1].prompt.tail.contains("keep every text in it short"));
}

#[tokio::test]
async fn a_second_question_that_fails_keeps_what_was_paid_for_and_says_why() {
    let cancelled = Err(ModelError::new(ErrorKind::Cancelled, "interrupted"));
    let (outcome, _) = ask(vec![says("no"), cancelled]).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.model_error().unwrap().kind(), ErrorKind::Cancelled);
    assert_eq!(error.responses().len(), 1);
    assert_eq!(
        error.to_string(),
        "the answer could not be read (there is no JSON object in the answer), and asking again \
         failed: interrupted"
    );
}

#[tokio::test]
async fn a_default_does_not_stand_in_for_a_budget_that_is_spent() {
    let neutral = Verdict { impact: 5, reasoning: String::new(), confidence: None };
    let spent = || Err(ModelError::new(ErrorKind::Budget, "spent"));
    let broken = || Err(ModelError::new(ErrorKind::Server, "broken"));
    for (second, is_answered) in [(spent(), false), (broken(), true)] {
        let model = Scripted::new(vec![says("no"), second]);
        let ask = JsonAsk::new(Request::question("Score it.")).or_default(neutral.clone());
        let outcome = model.generate_json(ask, Call::default()).await;
        assert_eq!(outcome.is_ok(), is_answered);
    }
}
