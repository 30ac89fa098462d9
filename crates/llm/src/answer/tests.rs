//! Tests of parsing typed answers: the steps, and the corpus of malformed answers.

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
fn corpus_of_malformed_answers_parses_as_expected() {
    let corpus = corpus();
    assert!(corpus.len() >= 149, "the corpus has only {} answers", corpus.len());
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

/// Parses a text as an answer. If that succeeds, checks that the parsed values occur in the text.
fn fuzz_reader(text: &str) {
    if let Ok((value, fixes)) = READER.read(text) {
        // If no fix was needed, serde_json parses the same value.
        if fixes.is_empty() {
            let strict: Value = serde_json::from_str(text.trim()).unwrap();
            assert_eq!(strict, value);
        }
        // A parsed string occurs literally in the answer, unless the answer contains escapes.
        let reasoning = value["reasoning"].as_str().unwrap();
        assert!(
            text.contains('\\') || text.contains(reasoning),
            "the parsed text {reasoning:?} is not in the answer {text:?}"
        );
        let impact = value["impact"].as_u64().unwrap();
        assert!((1..=10).contains(&impact));
        // No value is invented: the digits of the number occur in the text.
        assert!(
            text.contains(&impact.to_string()),
            "the parsed number {impact} is not in the answer {text:?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn fuzz_answer_reader_invents_no_values_in_arbitrary_text(text in "(?s).{0,120}") {
        fuzz_reader(&text);
    }

    #[test]
    fn fuzz_answer_reader_invents_no_values_in_mutated_answers(
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

/// Test model that returns prepared answers in order and records the requests.
struct Scripted {
    answers: Mutex<Vec<Result<ModelResponse, ModelError>>>,
    requests: Mutex<Vec<ModelRequest>>,
}

impl Scripted {
    fn new(answers: Vec<Result<ModelResponse, ModelError>>) -> Scripted {
        Scripted { answers: Mutex::new(answers), requests: Mutex::default() }
    }
}

#[async_trait]
impl Model for Scripted {
    async fn generate(
        &self,
        request: &ModelRequest,
        _: CallOptions<'_>,
    ) -> Result<ModelResponse, ModelError> {
        self.requests.lock().unwrap().push(request.clone());
        self.answers.lock().unwrap().remove(0)
    }
}

fn reply(text: &str) -> Result<ModelResponse, ModelError> {
    Ok(ModelResponse {
        text: text.to_owned(),
        tool_calls: vec![],
        stop: StopReason::End,
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

fn reply_with(text: &str, stop: StopReason) -> Result<ModelResponse, ModelError> {
    reply(text).map(|response| ModelResponse { stop, ..response })
}

const GOOD: &str = r#"{"impact": 8, "reasoning": "solid"}"#;

async fn ask(
    answers: Vec<Result<ModelResponse, ModelError>>,
) -> (Result<TypedAnswer<Verdict>, AnswerError>, Vec<ModelRequest>) {
    let model = Scripted::new(answers);
    let ask = JsonRequest::<Verdict>::new(ModelRequest::question("Score it."));
    let outcome = model.generate_json(ask, CallOptions::default()).await;
    (outcome, model.requests.into_inner().unwrap())
}

#[tokio::test]
async fn provenance_reports_the_parsing_step_that_succeeded() {
    let native = reply(GOOD).map(|response| ModelResponse { schema_enforced: true, ..response });
    let steps = [
        (vec![native], Provenance::Native),
        (vec![reply(GOOD)], Provenance::Parsed),
        (vec![reply("{'impact': 8, 'reasoning': 'x'}")], Provenance::Repaired(vec![Fix::Quotes])),
        (vec![reply("no"), reply(GOOD)], Provenance::Reasked(vec![])),
        (
            vec![reply("no"), reply("{impact: 8, reasoning: 'x'}")],
            Provenance::Reasked(vec![Fix::UnquotedKey, Fix::Quotes]),
        ),
    ];
    for (answers, provenance) in steps {
        let calls = answers.len();
        let (answer, _) = ask(answers).await;
        let answer = answer.unwrap();
        assert_eq!((answer.value.impact, answer.provenance.clone()), (8, provenance));
        let usage = ModelResponse::total_usage(&answer.responses).unwrap();
        assert_eq!(usage.input, 10 * calls as u64);
    }
}

#[tokio::test]
async fn second_request_contains_the_first_answer_and_its_error() {
    let (answer, asked) =
        ask(vec![reply(r#"{"impact": 11, "reasoning": "x"}"#), reply(GOOD)]).await;
    answer.unwrap();
    let again = &asked[1].prompt;
    assert_eq!(
        again.transcript,
        [
            TranscriptTurn::User { text: "Score it.".into() },
            TranscriptTurn::Assistant {
                text: r#"{"impact": 11, "reasoning": "x"}"#.into(),
                calls: vec![]
            },
        ]
    );
    assert!(again.tail.contains("11 is greater than the maximum of 10"), "{}", again.tail);
    assert_eq!(asked[1].schema, asked[0].schema);
}

#[tokio::test]
async fn malformed_answer_without_extractor_or_default_is_an_error() {
    let (outcome, asked) = ask(vec![reply("Impact: 8"), reply("Impact: 8!")]).await;
    let error = outcome.unwrap_err();
    assert_eq!(
        error.to_string(),
        "neither of the model's two answers could be parsed; error in the second answer: there is no \
         JSON object in the answer"
    );
    assert_eq!((error.responses().len(), asked.len()), (2, 2));
}

#[tokio::test]
async fn extracted_or_default_value_is_used_if_parsing_fails_and_is_flagged() {
    let find = |text: &str| {
        let digits = text.split("Impact: ").nth(1)?;
        let impact =
            digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok()?;
        Some(Verdict { impact, reasoning: String::new(), confidence: None })
    };
    let neutral = Verdict { impact: 5, reasoning: String::new(), confidence: None };
    let ask = || {
        JsonRequest::new(ModelRequest::question("Score it."))
            .extract(&find)
            .or_default(neutral.clone())
    };
    let model = Scripted::new(vec![reply("Impact: 7"), reply("Impact: 8")]);
    let answer = model.generate_json(ask(), CallOptions::default()).await.unwrap();
    assert_eq!((answer.value.impact, answer.provenance), (8, Provenance::Extracted));

    let model = Scripted::new(vec![reply("no"), reply("never")]);
    let answer = model.generate_json(ask(), CallOptions::default()).await.unwrap();
    assert_eq!((answer.value.impact, &answer.provenance), (5, &Provenance::Defaulted));
    assert!(answer.provenance.is_doubtful());

    let model = Scripted::new(vec![reply_with("I cannot", StopReason::Refused)]);
    let answer = model.generate_json(ask(), CallOptions::default()).await.unwrap();
    assert_eq!(answer.provenance, Provenance::Defaulted);
}

#[tokio::test]
async fn request_that_the_model_declined_is_not_repeated() {
    let (outcome, asked) =
        ask(vec![reply_with("I cannot help with that.", StopReason::Refused)]).await;
    assert!(matches!(outcome, Err(AnswerError::Refused { .. })));
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn cut_off_answer_with_text_after_the_json_is_requested_again() {
    let draft = format!("Let me try {GOOD}. No wait, that is wrong, recomput");
    let (outcome, asked) = ask(vec![reply_with(&draft, StopReason::MaxTokens), reply(GOOD)]).await;
    assert_eq!((outcome.unwrap().provenance, asked.len()), (Provenance::Reasked(vec![]), 2));
    // If the answer is cut off right after the JSON object, the object is complete and accepted.
    let (outcome, asked) =
        ask(vec![reply_with(&format!("{GOOD}\n```"), StopReason::MaxTokens)]).await;
    assert_eq!((outcome.unwrap().value.impact, asked.len()), (8, 1));
}

#[tokio::test]
async fn second_request_after_a_cut_off_answer_asks_for_shorter_texts() {
    let cut = r#"{"impact": 8, "reasoning": "so"#;
    let (outcome, asked) =
        ask(vec![reply_with(cut, StopReason::MaxTokens), reply_with(cut, StopReason::MaxTokens)])
            .await;
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "both answers of the model were cut off at 4096 output tokens"
    );
    assert!(asked[1].prompt.tail.contains("keep every text in it short"));
}

#[tokio::test]
async fn error_of_a_failed_second_call_contains_the_first_response_and_parsing_error() {
    let cancelled = Err(ModelError::new(ErrorKind::Cancelled, "interrupted"));
    let (outcome, _) = ask(vec![reply("no"), cancelled]).await;
    let error = outcome.unwrap_err();
    assert_eq!(error.model_error().unwrap().kind(), ErrorKind::Cancelled);
    assert_eq!(error.responses().len(), 1);
    assert_eq!(
        error.to_string(),
        "the model's answer could not be parsed (there is no JSON object in the answer), and the second \
         request failed: interrupted"
    );
}

#[tokio::test]
async fn default_value_is_not_used_if_the_budget_is_exhausted() {
    let neutral = Verdict { impact: 5, reasoning: String::new(), confidence: None };
    let spent = || Err(ModelError::new(ErrorKind::Budget, "spent"));
    let broken = || Err(ModelError::new(ErrorKind::Server, "broken"));
    for (second, is_answered) in [(spent(), false), (broken(), true)] {
        let model = Scripted::new(vec![reply("no"), second]);
        let ask = JsonRequest::new(ModelRequest::question("Score it.")).or_default(neutral.clone());
        let outcome = model.generate_json(ask, CallOptions::default()).await;
        assert_eq!(outcome.is_ok(), is_answered);
    }
}
