//! Measures how many input tokens a provider charges for a whole consultation, with answers of a fixed size.
//!
//! The provider is a fake over real HTTP that caches prompts by Anthropic's rules. For comparison, the charge is also
//! computed for the same requests in a *plain order*: each prompt has the same words, but begins with the question to
//! the role, continues with the shared context, and has no cache breakpoints. The charge in the plain order is also
//! computed without the company documents in the prompts of debates: a design without caching could save tokens by
//! omitting these documents.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, ensure};
use assize_config::{ApiKey, Provider};
use assize_gateway::{Endpoint, Gateway, HttpClient};
use assize_testkit::{
    BilledTokens, CapturedRequest, FakeProvider, FakeReply, Latency, PromptCache,
};
use serde_json::{Value, json};

use crate::{Args, consult, unlimited_options};

/// Number of words in one contribution to a debate.
const TURN: usize = 200;
/// Number of words in one finding of an inference document.
const FINDING: usize = 90;
/// Number of words in the thesis of a proposed business move.
const THESIS: usize = 150;
/// Number of words in the synthetic data about a company.
const DATA: usize = 1200;

/// Number of findings in an inference document.
const FINDINGS: usize = 8;

/// Sizes of the prompts of a consultation, and the charge if all prompts had the plain order (question first, no
/// caching).
#[derive(Default)]
struct Account {
    /// Charged tokens if all prompts have the plain order: question first, no cache breakpoints.
    plain: BilledTokens,
    /// Charged tokens in the plain order if the prompts of debates do not contain the company documents F1 and F2.
    plain_without_documents: BilledTokens,
    /// Number of tokens that the prompts of all debates have in common: the rules and the company documents.
    shared_tokens: u64,
    /// Number of tokens in the longest prompt.
    longest: u64,
}

pub(crate) async fn measure(args: &Args) -> anyhow::Result<()> {
    let account = Arc::new(Mutex::new(Account::default()));
    let shared = account.clone();
    // The first byte arrives after a third of the latency. Calls that wait for a cached prefix are delayed by that
    // time.
    let to_begin = args.latency() / 3;
    let latency = Latency { to_first_byte: to_begin, to_last_byte: args.latency() - to_begin };
    let fake = FakeProvider::with_prompt_cache(latency, move |before, captured| {
        shared.lock().unwrap_or_else(PoisonError::into_inner).add(captured);
        FakeReply::text(answer(before, &captured.body))
    });
    let endpoint = Endpoint {
        base_url: fake.base_url(),
        key: Some(ApiKey::new(fake.key())),
        ..Endpoint::new(Provider::Anthropic)
    };
    let model = Gateway::to_provider(&HttpClient::new(), endpoint, unlimited_options());
    let (wall, calls) = consult(args, Arc::new(model))
        .await
        .context("the consultation with the fake provider failed")?;
    let ours = fake.billed_tokens();
    let account = account.lock().unwrap_or_else(PoisonError::into_inner);
    let Account { plain, plain_without_documents: bare, shared_tokens: pack, longest } = &*account;
    println!(
        "charge for the input of {calls} calls; the prompts of all debates have {pack} tokens in common, \
         and the longest prompt has {longest} tokens"
    );
    println!("                            tokens      cached charged tokens");
    for (name, billed) in [
        ("in the plain order", *plain),
        ("plain, no F1 and F2", *bare),
        ("cache-friendly order", ours),
    ] {
        let cached = share(billed.cached as f64, billed.input as f64);
        println!("  {name:<20} {:>11} {cached:>9.1} % {:>14.0}", billed.input, billed.cost());
    }
    println!();
    let part = share(ours.cost(), plain.cost());
    let cached = share(ours.cached as f64, ours.input as f64);
    println!(
        "the charge in the cache-friendly order is {part:.1} % of the charge in the plain order \
         (target: at most 33.3 %)"
    );
    println!(
        "the charge in the cache-friendly order is {:.1} % of the charge in the plain order without the \
         documents F1 and F2 in the prompts of debates",
        share(ours.cost(), bare.cost())
    );
    println!("{cached:.1} % of the input is read from the cache (target: at least 80 %)");
    if args.rounds >= assize_debate::ROUNDS {
        ensure!(
            part < 33.35 && cached >= 80.0,
            "the cache-friendly prompt order saves less than the target"
        );
    }
    let shortest = args.latency() * args.longest_chain();
    if !shortest.is_zero() {
        let ratio = wall.as_secs_f64() / shortest.as_secs_f64();
        println!(
            "the wall time, including waits for cached prefixes, is {ratio:.2} times the duration of the \
             longest chain of calls"
        );
    }
    Ok(())
}

fn share(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

impl Account {
    fn add(&mut self, captured: &CapturedRequest) {
        // Requests in the plain order have no cache breakpoints, so this cache stays empty.
        let mut empty_cache = PromptCache::default();
        let (bill, _) = empty_cache.bill(&in_plain_order(&captured.body, true), Instant::now());
        self.plain += bill;
        self.plain_without_documents +=
            empty_cache.bill(&in_plain_order(&captured.body, false), Instant::now()).0;
        self.longest = self.longest.max(bill.input);
        let blocks = texts(&captured.body["system"]);
        // A debate has three system blocks: rules, company, move.
        if let [rules, company, _] = blocks.as_slice() {
            self.shared_tokens = (rules.len() + company.len()) as u64 / 4;
        }
    }
}

/// Rearranges a request into the plain order: question first, no cache breakpoints. If `with_pack` is false, the
/// company documents are removed from requests of debates.
fn in_plain_order(body: &Value, with_pack: bool) -> Value {
    let content = &body["messages"][0]["content"];
    let mut turns = texts(content);
    let question = turns.pop().unwrap_or_default();
    let mut context = texts(&body["system"]);
    if context.len() == 3 && !with_pack {
        context.remove(1);
    }
    context.append(&mut turns);
    let mut plain = body.clone();
    plain["system"] = json!([{"type": "text", "text": question}]);
    plain["messages"][0]["content"] = json!([{"type": "text", "text": context.concat()}]);
    plain
}

fn texts(blocks: &Value) -> Vec<&str> {
    let blocks = blocks.as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect()
}

/// Answer of the fake provider to the request `body`. It has the length of a typical answer to such a request. `before`
/// is the number of earlier requests. This number is part of the answer, so that no two answers are equal.
fn answer(before: usize, body: &Value) -> String {
    let asked = &body["output_config"]["format"]["schema"]["properties"];
    let question = texts(&body["messages"][0]["content"]).pop().unwrap_or_default();
    if asked.get("findings").is_some() {
        let finding = |index: usize| json!({"title": format!("Finding {index}"), "statement": words(before, FINDING), "evidence": []});
        let findings: Vec<Value> = (0..FINDINGS).map(finding).collect();
        json!({"summary": words(before, TURN), "findings": findings}).to_string()
    } else if asked.get("moves").is_some() {
        let proposed = |index: usize| {
            json!({
                "title": format!("Move {index} of call {before}"), "thesis": words(before, THESIS),
                "actions": [words(before, 40), words(before, 40), words(before, 40)],
                "cost": words(before, 20), "timeline": words(before, 20),
                "risks": [words(before, 30), words(before, 30)], "citations": ["F1.1", "F2.2"],
            })
        };
        json!({"moves": [proposed(1), proposed(2), proposed(3)]}).to_string()
    } else if question.contains("strategic_alignment") {
        json!({
            "reasoning": words(before, 40), "impact": 6, "feasibility": 5, "risk_adjusted_return": 7,
            "strategic_alignment": 6,
        })
        .to_string()
    } else if question.starts_with("No data") {
        words(before, DATA)
    } else {
        words(before, TURN)
    }
}

/// Text of `count` words. Its words depend on `before`, the number of earlier requests. Each word has six characters
/// including the space, which is the average in English.
fn words(before: usize, count: usize) -> String {
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let word = |index: usize| &letters[(before + index) % 21..][..5];
    let words: Vec<&str> = (0..count).map(word).collect();
    format!("In answer {before}: {}.", words.join(" "))
}
