//! Lets one call put a shared beginning into the provider's cache before the others send it, too.
//!
//! A provider has the beginning of a prompt in its cache once the first answer to it has begun. Fifteen
//! calls that share one and leave together would all pay for it in full; so fourteen are held back until
//! the first is being answered.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_llm::{Delivery, Request};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::estimate::likely_tokens;

/// The shortest beginning that all providers cache, in tokens. Nobody is held back for less.
const WORTHWHILE: u64 = 4096;

/// How long a beginning is taken to be in the cache after it was last used.
const KEPT: Duration = Duration::from_secs(5 * 60);

/// The longest that a call is held back: the first may be stuck.
const PATIENCE: Duration = Duration::from_secs(30);

/// What is in the cache of one model, as far as it was put there from here.
#[derive(Debug, Default)]
pub(crate) struct Primer {
    known: Mutex<HashMap<Prefix, Known>>,
    changed: Notify,
}

/// The hash of the beginning of a prompt.
type Prefix = [u8; 32];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// It was sent, and nothing has come back yet.
    Coming,
    /// It is there until this moment.
    There(Instant),
}

/// A beginning of a prompt that others may share, and how many tokens it has.
#[derive(Debug, Clone, Copy)]
struct Beginning {
    prefix: Prefix,
    tokens: u64,
}

/// A call that may be sent. Dropped before its answer began, it lets another be the first.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    primer: &'a Primer,
    beginnings: Vec<Beginning>,
    /// Whether others wait for its answer to begin.
    first: bool,
    begun: AtomicBool,
}

impl Primer {
    /// Waits while another call is about to put most of this one into the cache.
    pub(crate) async fn turn(&self, request: &Request) -> Turn<'_> {
        let beginnings = beginnings(request);
        let patience = Instant::now() + PATIENCE;
        let first = loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // What changes from here on wakes it.
            changed.as_mut().enable();
            match self.take(&beginnings) {
                Some(first) => break first,
                None if timeout_at(patience, changed).await.is_err() => break false,
                None => {}
            }
        };
        Turn { primer: self, beginnings, first, begun: AtomicBool::new(false) }
    }

    /// Whether the call is the first with a beginning that is worth waiting for; `None` if it should wait
    /// itself.
    fn take(&self, beginnings: &[Beginning]) -> Option<bool> {
        let mut known = self.known.lock();
        let now = Instant::now();
        known.retain(|_, known| !matches!(known, Known::There(until) if *until <= now));
        let longest = |wanted: fn(&Known) -> bool| {
            let such = beginnings.iter().filter(|one| known.get(&one.prefix).is_some_and(wanted));
            such.map(|one| one.tokens).max().unwrap_or(0)
        };
        let there = longest(|known| matches!(known, Known::There(_)));
        let coming = longest(|known| *known == Known::Coming);
        if coming >= there + WORTHWHILE {
            return None;
        }
        let whole = beginnings.last().map_or(0, |one| one.tokens);
        let first = whole >= there + WORTHWHILE;
        if first {
            for one in beginnings {
                known.entry(one.prefix).or_insert(Known::Coming);
            }
        }
        Some(first)
    }
}

impl Turn<'_> {
    /// Whether it should be told when the answer begins, rather than when it is there.
    pub(crate) fn is_first(&self) -> bool {
        self.first
    }

    /// The answer has begun: what was sent is in the cache.
    pub(crate) fn begun(&self) {
        if !self.begun.swap(true, Ordering::Relaxed) {
            let there = Known::There(Instant::now() + KEPT);
            let mut known = self.primer.known.lock();
            known.extend(self.beginnings.iter().map(|one| (one.prefix, there)));
            self.primer.changed.notify_waiters();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if self.first && !self.begun.load(Ordering::Relaxed) {
            let mut known = self.primer.known.lock();
            for one in &self.beginnings {
                if known.get(&one.prefix) == Some(&Known::Coming) {
                    known.remove(&one.prefix);
                }
            }
            self.primer.changed.notify_waiters();
        }
    }
}

/// The beginnings of a request that a provider would cache, the shortest first: up to the end of each
/// block, and of the transcript.
fn beginnings(request: &Request) -> Vec<Beginning> {
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut add = |text: &str| {
        bytes += text.len() as u64;
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
        Beginning { prefix: hasher.clone().finalize().into(), tokens: likely_tokens(bytes) }
    };
    // Tools and a schema that the provider enforces come before everything else.
    for tool in &request.tools {
        add(&tool.name);
        add(&tool.description);
        add(&tool.parameters.to_string());
    }
    if let Some(schema) = request.schema.as_ref().filter(|one| one.delivery == Delivery::Native) {
        add(&schema.value.to_string());
    }
    let prompt = &request.prompt;
    let mut beginnings: Vec<Beginning> =
        prompt.blocks.iter().map(|block| add(&block.text)).collect();
    let mut end = None;
    prompt.each_turn_text(&mut |text| end = Some(add(text)));
    beginnings.extend(end);
    beginnings.retain(|one| one.tokens >= WORTHWHILE);
    beginnings
}

#[cfg(test)]
mod tests {
    use assize_llm::Prompt;

    use super::*;

    fn request(blocks: &[&str]) -> Request {
        let prompt = blocks.iter().fold(Prompt::question("Now?"), |prompt, text| {
            prompt.block("block", text.repeat(4 * WORTHWHILE as usize))
        });
        Request::new(prompt)
    }

    /// Whether the call would have to wait.
    async fn waits(primer: &Primer, request: &Request) -> bool {
        timeout_at(Instant::now() + Duration::from_secs(1), primer.turn(request)).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn one_goes_first_and_the_others_follow_once_it_is_answered() {
        let primer = Primer::default();
        let first = primer.turn(&request(&["a", "b"])).await;
        assert!(first.is_first());
        // It shares the first block; another does not.
        assert!(waits(&primer, &request(&["a", "c"])).await);
        assert!(!waits(&primer, &request(&["b"])).await);
        first.begun();
        drop(first);
        let second = primer.turn(&request(&["a", "c"])).await;
        // Its own second block is new, and may be waited for.
        assert!(second.is_first());
        assert!(waits(&primer, &request(&["a", "c", "d"])).await);
        assert!(!waits(&primer, &request(&["a"])).await);
        second.begun();
        assert!(!primer.turn(&request(&["a", "c"])).await.is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn when_the_first_fails_another_is_the_first() {
        let primer = Primer::default();
        let first = primer.turn(&request(&["a"])).await;
        let again = request(&["a"]);
        let waiting = primer.turn(&again);
        let (second, ()) = tokio::join!(waiting, async { drop(first) });
        assert!(second.is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever_and_nothing_is_kept_for_ever() {
        let primer = Primer::default();
        let stuck = primer.turn(&request(&["a"])).await;
        let begun = Instant::now();
        assert!(!primer.turn(&request(&["a"])).await.is_first());
        assert_eq!(begun.elapsed(), PATIENCE);
        stuck.begun();
        tokio::time::advance(KEPT).await;
        assert!(primer.turn(&request(&["a"])).await.is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn short_prompts_are_not_held_back() {
        let primer = Primer::default();
        let short = Request::new(Prompt::question("Now?").block("rules", "Be kind."));
        let first = primer.turn(&short).await;
        assert!(!first.is_first());
        assert!(!waits(&primer, &short).await);
    }
}
