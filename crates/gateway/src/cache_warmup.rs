//! Cache warm-up: one call writes a shared prompt prefix to the provider's cache before other calls send the same
//! prefix.
//!
//! A provider has cached the prefix of a prompt when the answer to that prompt starts. If 15 calls with the same prefix
//! were sent at once, all of them would pay the full price for the prefix. So the first call is sent alone, and the
//! other 14 calls wait until the answer to it has started.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use assize_llm::{ModelRequest, SchemaDelivery};
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use crate::estimate::likely_tokens;

/// All providers cache prompt prefixes of at least this many tokens. Calls do not wait for shorter prefixes.
const MIN_PREFIX: u64 = 4096;

/// Time for which a prefix is assumed to stay in the provider's cache after its last use.
const CACHE_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// Maximum time that a call waits for another call that writes their shared prefix to the cache.
const MAX_WAIT: Duration = Duration::from_secs(30);

/// Prompt prefixes that this process has sent to one model, with their state in the provider's cache.
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
    /// The prefix is assumed to be in the provider's cache until this time.
    Cached(Instant),
}

/// Hash and estimated number of tokens of a prompt prefix. Several calls can have the same prefix.
#[derive(Debug, Clone, Copy)]
struct Prefix {
    hash: PrefixHash,
    tokens: u64,
}

/// Permit to send a call. The first call with a prefix writes the prefix to the provider's cache. If its permit is
/// dropped before its answer has started, a waiting call takes over this role.
#[derive(Debug)]
pub(crate) struct WarmupPermit<'a> {
    warmup: &'a CacheWarmup,
    prefixes: Vec<Prefix>,
    /// Whether this call writes the prefix to the provider's cache, so that other calls with the prefix wait for its
    /// answer to start.
    first: bool,
    started: AtomicBool,
}

impl CacheWarmup {
    /// Returns the permit to send a request. First waits, at most for [`MAX_WAIT`], while another call is writing a
    /// long prefix of the request's prompt to the provider's cache.
    pub(crate) async fn permit(&self, request: &ModelRequest) -> WarmupPermit<'_> {
        let prefixes = prefixes(request);
        let deadline = Instant::now() + MAX_WAIT;
        let first = loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            // This task registers for the notification before the check, so that it misses no change.
            changed.as_mut().enable();
            match self.try_start(&prefixes) {
                Some(first) => break first,
                None if timeout_at(deadline, changed).await.is_err() => break false,
                None => {}
            }
        };
        WarmupPermit { warmup: self, prefixes, first, started: AtomicBool::new(false) }
    }

    /// Returns `None` if the call must wait for another call with the same prefix. Returns `Some(true)` if the call is
    /// the first with its prefix, so that other calls wait for it. Returns `Some(false)` if the call can be sent at
    /// once and no other call must wait for it.
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
    /// Whether other calls wait until the answer to this call starts. If so, the answer must be streamed.
    pub(crate) fn is_first(&self) -> bool {
        self.first
    }

    /// Records that the answer has started, so that the prefixes of the prompt are in the provider's cache.
    pub(crate) fn answer_started(&self) {
        if !self.started.swap(true, Ordering::Relaxed) {
            let cached = PrefixState::Cached(Instant::now() + CACHE_LIFETIME);
            let mut known = self.warmup.known.lock();
            known.extend(self.prefixes.iter().map(|prefix| (prefix.hash, cached)));
            self.warmup.changed.notify_waiters();
        }
    }
}

impl Drop for WarmupPermit<'_> {
    fn drop(&mut self) {
        if self.first && !self.started.load(Ordering::Relaxed) {
            let mut known = self.warmup.known.lock();
            for prefix in &self.prefixes {
                if known.get(&prefix.hash) == Some(&PrefixState::Sent) {
                    known.remove(&prefix.hash);
                }
            }
            self.warmup.changed.notify_waiters();
        }
    }
}

/// Returns the prefixes of a request that a provider can cache, the shortest first. One prefix ends after each block of
/// the prompt, and one after the transcript.
fn prefixes(request: &ModelRequest) -> Vec<Prefix> {
    let mut hasher = Sha256::new();
    let mut bytes = 0;
    let mut add = |text: &str| {
        bytes += text.len() as u64;
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
        Prefix { hash: hasher.clone().finalize().into(), tokens: likely_tokens(bytes) }
    };
    // In the provider's cache, tools and an enforced schema precede the blocks of the prompt.
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

    /// Whether a call with this request must wait for another call.
    async fn waits(primer: &CacheWarmup, request: &ModelRequest) -> bool {
        timeout_at(Instant::now() + Duration::from_secs(1), primer.permit(request)).await.is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn calls_with_a_shared_prefix_wait_until_the_first_answer_starts() {
        let primer = CacheWarmup::default();
        let first = primer.permit(&request(&["a", "b"])).await;
        assert!(first.is_first());
        // A request with the shared block `a` waits. A request without that block does not.
        assert!(waits(&primer, &request(&["a", "c"])).await);
        assert!(!waits(&primer, &request(&["b"])).await);
        first.answer_started();
        drop(first);
        let second = primer.permit(&request(&["a", "c"])).await;
        // The block `c` is not in the cache yet, so other calls with this block wait.
        assert!(second.is_first());
        assert!(waits(&primer, &request(&["a", "c", "d"])).await);
        assert!(!waits(&primer, &request(&["a"])).await);
        second.answer_started();
        assert!(!primer.permit(&request(&["a", "c"])).await.is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_call_warms_up_the_cache_if_the_first_call_fails() {
        let primer = CacheWarmup::default();
        let first = primer.permit(&request(&["a"])).await;
        let again = request(&["a"]);
        let waiting = primer.permit(&again);
        let (second, ()) = tokio::join!(waiting, async { drop(first) });
        assert!(second.is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_for_a_cache_warm_up_times_out_and_cached_prefixes_expire() {
        let primer = CacheWarmup::default();
        let stuck = primer.permit(&request(&["a"])).await;
        let start = Instant::now();
        assert!(!primer.permit(&request(&["a"])).await.is_first());
        assert_eq!(start.elapsed(), MAX_WAIT);
        stuck.answer_started();
        tokio::time::advance(CACHE_LIFETIME).await;
        assert!(primer.permit(&request(&["a"])).await.is_first());
    }

    #[tokio::test(start_paused = true)]
    async fn calls_with_short_prompts_do_not_wait_for_the_cache() {
        let primer = CacheWarmup::default();
        let short = ModelRequest::new(Prompt::question("Now?").block("rules", "Be kind."));
        let first = primer.permit(&short).await;
        assert!(!first.is_first());
        assert!(!waits(&primer, &short).await);
    }
}
