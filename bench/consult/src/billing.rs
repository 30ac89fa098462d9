//! What a provider charges for the input of a whole consultation, with answers of a fixed size.
//!
//! The provider is a fake over real HTTP that caches by Anthropic's rules. Each request is also charged in
//! the plain order, with the same words: who is asked comes first, then what everybody knows, and nothing
//! is marked; and once more so without what the debates read about the company, for whoever would save on
//! that instead.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, ensure};
use assize_config::{Provider, Secret};
use assize_gateway::{Endpoint, Gateway, HttpClient};
use assize_testkit::{Billed, Captured, FakeProvider, Latency, PromptCache, Reply};
use serde_json::{Value, json};

use crate::{Args, consult, unpaced};

/// Words of what somebody says in a debate, of a finding, of a move's thesis, and of data that is made up.
const TURN: usize = 200;
const FINDING: usize = 90;
const THESIS: usize = 150;
const DATA: usize = 1200;

const FINDINGS: usize = 8;

/// The same input in two orders.
#[derive(Default)]
struct Account {
    plain: Billed,
    /// The plain order without F1 and F2 in the debates.
    bare: Billed,
    /// Of the debates alone: the most that any two share, and how long the longest prompt is.
    pack: u64,
    longest: u64,
}

pub(crate) async fn measure(args: &Args) -> anyhow::Result<()> {
    let account = Arc::new(Mutex::new(Account::default()));
    let kept = account.clone();
    // A third until it begins: what is held back for a shared beginning waits that long.
    let to_begin = args.latency() / 3;
    let latency = Latency { to_begin, to_end: args.latency() - to_begin };
    let fake = FakeProvider::caching(latency, move |before, captured| {
        kept.lock().unwrap_or_else(PoisonError::into_inner).add(captured);
        Reply::text(answer(before, &captured.body))
    });
    let endpoint = Endpoint {
        base_url: fake.base_url(),
        key: Some(Secret::new(fake.key())),
        ..Endpoint::new(Provider::Anthropic)
    };
    let model = Gateway::to_provider(&HttpClient::new(), endpoint, unpaced());
    let (wall, calls) = consult(args, Arc::new(model)).await.context("with the fake provider")?;
    let ours = fake.billed();
    let account = account.lock().unwrap_or_else(PoisonError::into_inner);
    let Account { plain, bare, pack, longest } = &*account;
    println!(
        "input of {calls} calls; all debates share {pack} tokens, the longest prompt has {longest}"
    );
    println!("                          tokens      cached     charged as");
    for (name, billed) in [
        ("in the plain order", *plain),
        ("… and without F1, F2", *bare),
        ("laid out for a cache", ours),
    ] {
        let cached = share(billed.cached as f64, billed.input as f64);
        println!("  {name:<20} {:>11} {cached:>9.1} % {:>14.0}", billed.input, billed.cost());
    }
    println!();
    let part = share(ours.cost(), plain.cost());
    let cached = share(ours.cached as f64, ours.input as f64);
    println!("{part:.1} % of the plain order's charge (to reach: at most 33.3)");
    println!("{:.1} % of it without F1 and F2 in the debates", share(ours.cost(), bare.cost()));
    println!("{cached:.1} % of the input is read from the cache (to reach: at least 80)");
    if args.rounds >= assize_debate::ROUNDS {
        ensure!(part <= 33.4 && cached >= 80.0, "the layout no longer pays as it should");
    }
    let shortest = args.latency() * args.longest_chain();
    if !shortest.is_zero() {
        let ratio = wall.as_secs_f64() / shortest.as_secs_f64();
        println!("{ratio:.2}× its longest chain, with the waits for shared beginnings");
    }
    Ok(())
}

fn share(part: f64, whole: f64) -> f64 {
    100.0 * part / whole
}

impl Account {
    fn add(&mut self, captured: &Captured) {
        // Nothing is marked, so nothing is ever in it.
        let mut nothing = PromptCache::default();
        let (bill, _) = nothing.bill(&plain(&captured.body, true), Instant::now());
        self.plain += bill;
        self.bare += nothing.bill(&plain(&captured.body, false), Instant::now()).0;
        self.longest = self.longest.max(bill.input);
        let blocks = texts(&captured.body["system"]);
        // Rules, company, move: a debate.
        if let [rules, company, _] = blocks.as_slice() {
            self.pack = (rules.len() + company.len()) as u64 / 4;
        }
    }
}

/// The same words with the question first and no marks; in debates with what is known of the company, or not.
fn plain(body: &Value, with_pack: bool) -> Value {
    let content = &body["messages"][0]["content"];
    let mut said = texts(content);
    let question = said.pop().unwrap_or_default();
    let mut known = texts(&body["system"]);
    if known.len() == 3 && !with_pack {
        known.remove(1);
    }
    known.append(&mut said);
    let mut plain = body.clone();
    plain["system"] = json!([{"type": "text", "text": question}]);
    plain["messages"][0]["content"] = json!([{"type": "text", "text": known.concat()}]);
    plain
}

fn texts(blocks: &Value) -> Vec<&str> {
    let blocks = blocks.as_array().map(Vec::as_slice).unwrap_or_default();
    blocks.iter().filter_map(|block| block["text"].as_str()).collect()
}

/// An answer of the size that is usual for what is asked; no two are equal.
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

/// So many words, of six letters with the space, as English has them.
fn words(before: usize, count: usize) -> String {
    let letters = "abcdefghijklmnopqrstuvwxyz";
    let word = |index: usize| &letters[(before + index) % 21..][..5];
    let words: Vec<&str> = (0..count).map(word).collect();
    format!("In answer {before}: {}.", words.join(" "))
}
