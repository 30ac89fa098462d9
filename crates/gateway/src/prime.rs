//! Cache warm-up: lets one call put a shared prompt prefix into the provider's cache before other calls send it.
//!
//! A provider has cached the prefix of a prompt once its first answer has started. Fifteen concurrent calls with the
//! same prefix would all pay for it in full; so fourteen wait until the answer to the first has started.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_llm::{ModelRequest, SchemaDelivery};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::estimate::likely_tokens;

/// Minimum length of a prefix that all providers cache, in tokens. Calls do not wait for shorter ones.
const MIN_PREFIX: u64 = 4096;

/// How long a prefix is assumed to stay in the cache after its last use.
const CACHE_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// Maximum wait of a call, because the first call may be stuck.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Prefixes that this process has put into the cache of one model.
#[derive(Debug, Default)]
pub(crate) struct CacheWarmup {
    known: Mutex<HashMap<PrefixHash, PrefixState>>,
    changed: Notify,
}

/// Hash of a prompt prefix.
type PrefixHash = [u8; 32];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PrefixState {
    /// The prefix was sent, and the answer has not started yet.
    Sent,
    /// The prefix is in the cache until this time.
    Cached(Instant),
}

/// A prompt prefix that other calls may share, with its number of tokens.
#[derive(Debug, Clone, Copy)]
struct Prefix {
    hash: PrefixHash,
    tokens: u64,
}

/// Permission to send a call. If it is dropped before the answer has started, another call becomes the first.
#[derive(Debug)]
pub(crate) struct WarmupPermit<'a> {
    primer: &'a CacheWarmup,
    prefixes: Vec<Prefix>,
    /// Whether other calls wait until this call's answer has started.
    first: bool,
    started: AtomicBool,
}

impl CacheWarmup {
    /// Waits while another call is about to put a large part of this prompt into the cache.
    pub(crate) async fn turn(&self, request: &ModelRequest) -> WarmupPermit<'_> {
        let prefixes = prefixes(request);
        let deadline = Instant::now() + MAX_WAIT;
        let first = loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // Register before the check, so that no change is missed.
            changed.as_mut().enable();
            match self.try_start(&prefixes) {
                Some(first) => break first,
                None if timeout_at(deadline, changed).await.is_err() => break false,
                None => {}
            }
        };
        WarmupPermit { primer: self, prefixes, first, started: AtomicBool::new(false) }
    }

    /// Returns whether the call is the first with a prefix that other calls should wait for; `None` if this call should
    /// wait.
    fn try_start(&self, prefixes: &[Prefix]) -> Option<bool> {
        let mut known = self.known.lock();
        let now = Instant::now();
        known.retain(|_, state| !matches!(state, PrefixState::Cached(until) if *until <= now));
        let longest = |in_state: fn(&PrefixState) -> bool| {
            let found = prefixes.iter().filter(|it| known.get(&it.hash).is_some_and(in_state));
            found.map(|prefix| prefix.tokens).max().unwrap_or(0)
        };
        let cached = longest(|state| matches!(state, PrefixState::Cached(_)));
        let sent = longest(|state| *state == PrefixState::Sent);
        if sent >= cached + MIN_PREFIX {
            return None;
        }
        let whole = prefixes.last().map_or(0, |prefix| prefix.tokens);
        let first = whole >= cached + MIN_PREFIX;
        if first {
            for prefix in prefixes {
                known.entry(prefix.hash).or_insert(PrefixState::Sent);
            }
        }
        Some(first)
    }
}

impl WarmupPermit<'_> {
    /// Whether other calls wait for this one, so that its answer must be streamed to see when it starts.
    pub(crate) fn is_first(&self) -> bool {
        self.first
    }

    /// Records that the answer has started: the prompt is in the cache.
    pub(crate) fn begun(&self) {
        if !self.started.swap(true, Ordering::Relaxed) {
            let cached = PrefixState::Cached(Instant::now() + CACHE_LIFETIME);
            let mut known = self.primer.known.lock();
            known.extend(self.prefixes.iter().map(|prefix| (prefix.hash, cached)));
            self.primer.changed.notify_waiters();
        }
    }
}

impl Drop for WarmupPermit<'_> {
    fn drop(&mut self) {
        if self.first && !self.started.load(Ordering::Relaxed) {
            let mut known = self.primer.known.lock();
            for prefix in &self.prefixes {
                if known.get(&prefix.hash) == Some(&PrefixState::Sent) {
                    known.remove(&prefix.hash);
                }
            }
            self.primer.changed.notify_waiters();
        }
    }
}

/// Prefixes of a request that a provider would cache, the shortest first: up to the end of each block, and of the
/// transcript.
fn prefixes(request: &ModelRequest) -> Vec<Prefix> {
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut add = |text: &str| {
        bytes += text.len() as u64;
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
        Prefix { hash: hasher.clone().finalize().into(), tokens: likely_tokens(bytes) }
    };
    // In the cached prompt, tools and an enforced schema come before everything else.
    for tool in &request.tools {
        add(&tool.name);
        add(&tool.description);
        add(&tool.parameters.to_string());
    }
    if let Some(schema) = request.schema.as_ref().filter(|it| it.delivery == SchemaDelivery::Native)
    {
        add(&schema.value.to_string());
    }
    let prompt = &request.prompt;
    let mut prefixes: Vec<Prefix> = prompt.blocks.iter().map(|block| add(&block.text)).collect();
    let mut end = None;
    prompt.each_turn_text(&mut |text| end = Some(add(text)));
    prefixes.extend(end);
    prefixes.retain(|prefix| prefix.tokens >= MIN_PREFIX);
    prefixes
}

#[cfg(test)]
mod tests {
    use assize_llm::Prompt;

    use super::*;

    fn request(blocks: &[&str]) -> ModelRequest {
        let prompt = blocks.iter().fold(Prompt::question("Now?"), |prompt, text| {
            prompt.block("block", text.repeat(4 * MIN_PREFIX as usize))
        });
        ModelRequest::new(prompt)
    }

    /// Whether the call has to wait.
    async fn waits(primer: &CacheWarmup, request: &ModelRequest) -> bool {
        timeout_at(Instant::now() + Duration::from_secs(1), primer.turn(request)).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_with_a_shared_prefix_wait_until_the_first_answer_starts() {
        let primer = CacheWarmup::default();
        let first = primer.turn(&request(&["a", "b"])).await;
        assert!(first.is_first());
        // The first request shares the block `a`; the second request does not.
        assert!(waits(&primer, &request(&["a", "c"])).await);
        assert!(!waits(&primer, &request(&["b"])).await);
        first.begun();
        drop(first);
        let second = primer.turn(&request(&["a", "c"])).await;
        // The block `c` is new, so other calls wait for it.
        assert!(second.is_first());
        assert!(waits(&primer, &request(&["a", "c", "d"])).await);
        assert!(!waits(&primer, &request(&["a"])).await);
        second.begun();
        assert!(!primer.turn(&request(&["a", "c"])).await.is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn next_call_becomes_the_first_if_the_first_fails() {
        let primer = CacheWarmup::default();
        let first = primer.turn(&request(&["a"])).await;
        let again = request(&["a"]);
        let waiting = primer.turn(&again);
        let (second, ()) = tokio::join!(waiting, async { drop(first) });
        assert!(second.is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn waits_and_cached_prefixes_expire() {
        let primer = CacheWarmup::default();
        let stuck = primer.turn(&request(&["a"])).await;
        let start = Instant::now();
        assert!(!primer.turn(&request(&["a"])).await.is_first());
        assert_eq!(start.elapsed(), MAX_WAIT);
        stuck.begun();
        tokio::time::advance(CACHE_LIFETIME).await;
        assert!(primer.turn(&request(&["a"])).await.is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn short_prompts_do_not_wait() {
        let primer = CacheWarmup::default();
        let short = ModelRequest::new(Prompt::question("Now?").block("rules", "Be kind."));
        let first = primer.turn(&short).await;
        assert!(!first.is_first());
        assert!(!waits(&primer, &short).await);
    }
}
