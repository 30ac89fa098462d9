//! Simulated prompt cache that follows the rules in Anthropic's documentation.
//!
//! The order of a prompt is tools, system text, messages. A request may set up to four breakpoints at the ends of
//! blocks. The prefix up to a breakpoint is written to the cache if it has enough tokens. A request reads the longest
//! cached prefix that ends at a breakpoint or at one of the twenty blocks before the breakpoint. A new prefix can be
//! read as soon as the provider starts to answer the request that wrote it. Entries that are not read for five minutes
//! expire.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Minimum number of tokens in a cached prefix. Models have different minimums; this constant is the highest minimum.
const MIN_PREFIX: u64 = 4096;

/// Time after which a cache entry expires if it is not read.
const LIFETIME: Duration = Duration::from_secs(5 * 60);

/// Number of blocks before a breakpoint that are searched for the end of a cached prefix.
const LOOK_BACK: usize = 20;

/// Input tokens that the provider charges for a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BilledTokens {
    /// All input tokens of the request, including those read from or written to the cache.
    pub input: u64,
    /// Tokens read from the cache.
    pub cached: u64,
    /// Tokens written to the cache.
    pub written: u64,
}

impl BilledTokens {
    /// Cost, in tokens at the base price. A token read from the cache costs a tenth of the base price, and a token
    /// written to the cache costs 1.25 times the base price.
    pub fn cost(self) -> f64 {
        let plain = self.input - self.cached - self.written;
        plain as f64 + self.cached as f64 * 0.1 + self.written as f64 * 1.25
    }
}

impl std::ops::AddAssign for BilledTokens {
    fn add_assign(&mut self, other: BilledTokens) {
        self.input += other.input;
        self.cached += other.cached;
        self.written += other.written;
    }
}

/// Simulated prompt cache of a provider.
#[derive(Debug, Default)]
pub struct PromptCache {
    /// For each hash of a prefix: whether the prefix can be read already, and when its entry expires.
    entries: HashMap<u64, (bool, Instant)>,
}

/// Hashes of the prefixes that a request writes. The prefixes become readable when the answer to the request starts.
#[derive(Debug, Clone, Default)]
pub struct WrittenPrefixes(Vec<u64>);

/// End of a block: hash and number of tokens of the prompt up to this end, and whether the end is a breakpoint.
struct End {
    prefix: u64,
    tokens: u64,
    marked: bool,
}

impl PromptCache {
    /// Returns the charged tokens of a request to the Messages API, and the prefixes that the request writes.
    pub fn bill(&mut self, body: &Value, now: Instant) -> (BilledTokens, WrittenPrefixes) {
        self.entries.retain(|_, (_, until)| *until > now);
        let ends = block_ends(body);
        let input = ends.last().map_or(0, |end| end.tokens);
        let mut hit = None;
        for (index, _) in ends.iter().enumerate().filter(|(_, end)| end.marked) {
            let near = index.saturating_sub(LOOK_BACK)..=index;
            let readable =
                |end: &&End| self.entries.get(&end.prefix).is_some_and(|(readable, _)| *readable);
            hit = ends[near].iter().rfind(readable).or(hit);
        }
        if let Some((_, until)) = hit.and_then(|end| self.entries.get_mut(&end.prefix)) {
            *until = now + LIFETIME;
        }
        let cached = hit.map_or(0, |end| end.tokens);
        let new = ends.iter().filter(|end| end.marked && end.tokens >= MIN_PREFIX.max(cached + 1));
        let mut written = (0, Vec::new());
        for end in new {
            written.0 = end.tokens - cached;
            written.1.push(end.prefix);
            self.entries.entry(end.prefix).or_insert((false, now + LIFETIME));
        }
        (BilledTokens { input, cached, written: written.0 }, WrittenPrefixes(written.1))
    }

    /// Makes the prefixes of a request readable. Call this method when the answer to the request starts.
    pub fn mark_readable(&mut self, written: &WrittenPrefixes, now: Instant) {
        self.entries.extend(written.0.iter().map(|prefix| (*prefix, (true, now + LIFETIME))));
    }
}

fn block_ends(body: &Value) -> Vec<End> {
    let mut hasher = DefaultHasher::new();
    // Requests with another model or another output format share no prefix.
    body["model"].to_string().hash(&mut hasher);
    body["output_config"].to_string().hash(&mut hasher);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut bytes =
        body["output_config"].as_object().map_or(0, |_| body["output_config"].to_string().len());
    let mut ends = Vec::new();
    let mut add = |place: &str, mut block: Value| {
        let marked = block.as_object_mut().and_then(|block| block.remove("cache_control"));
        let text = block["text"].as_str().map_or_else(|| block.to_string(), str::to_owned);
        (place, &text).hash(&mut hasher);
        bytes += text.len();
        let tokens = bytes.div_ceil(4) as u64;
        ends.push(End { prefix: hasher.finish(), tokens, marked: marked.is_some() });
    };
    list(&body["tools"]).into_iter().for_each(|tool| add("tools", tool));
    list(&body["system"]).into_iter().for_each(|block| add("system", block));
    for message in list(&body["messages"]) {
        let role = message["role"].as_str().unwrap_or_default();
        list(&message["content"]).into_iter().for_each(|block| add(role, block));
    }
    ends
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Creates a request with one text block for each pair of a letter and a number of tokens. The text repeats the
    /// letter. A negative number also sets a breakpoint at the end of the block.
    fn request(blocks: &[(&str, i64)]) -> Value {
        let block = |&(letter, tokens): &(&str, i64)| {
            let text = letter.repeat(4 * tokens.unsigned_abs() as usize);
            match tokens < 0 {
                true => json!({"text": text, "cache_control": {"type": "ephemeral"}}),
                false => json!({"text": text}),
            }
        };
        json!({"messages": [{"role": "user", "content": blocks.iter().map(block).collect::<Vec<_>>()}]})
    }

    fn billed(input: u64, cached: u64, written: u64) -> BilledTokens {
        BilledTokens { input, cached, written }
    }

    #[test]
    fn cached_prefix_is_readable_as_soon_as_the_answer_to_its_request_starts() {
        let mut cache = PromptCache::default();
        let now = Instant::now();
        let mut first = request(&[("a", -5000), ("b", 10)]);
        let (bill, written) = cache.bill(&first, now);
        assert_eq!(bill, billed(5010, 0, 5000));
        assert_eq!(
            cache.bill(&first, now).0,
            bill,
            "the prefix was read before the answer started"
        );
        cache.mark_readable(&written, now);
        assert_eq!(cache.bill(&first, now).0, billed(5010, 5000, 0));
        // The cached prefix is read, and the blocks after it up to the breakpoint are written.
        let more = request(&[("a", 5000), ("b", 10), ("c", -100), ("d", 7)]);
        assert_eq!(cache.bill(&more, now).0, billed(5117, 5000, 110));
        // A request with another prefix reads nothing from the cache, and neither does one without a breakpoint.
        assert_eq!(cache.bill(&request(&[("z", 1), ("a", -5000)]), now).0, billed(5001, 0, 5001));
        assert_eq!(cache.bill(&request(&[("a", 5000), ("b", 10)]), now).0, billed(5010, 0, 0));
        // A request with another output format reads nothing, either.
        first["output_config"] = json!({"format": {}});
        assert_eq!(cache.bill(&first, now).0.cached, 0);
    }

    #[test]
    fn prompt_cache_ignores_prefixes_that_are_too_short_expired_or_too_far_before_the_breakpoint() {
        let mut cache = PromptCache::default();
        let now = Instant::now();
        assert_eq!(cache.bill(&request(&[("a", -4095)]), now).0, billed(4095, 0, 0));
        let (_, written) = cache.bill(&request(&[("a", -5000)]), now);
        cache.mark_readable(&written, now);
        let followed_by = |count: usize| {
            let mut blocks = vec![("a", 5000)];
            blocks.extend(std::iter::repeat_n(("b", 1), count - 1));
            blocks.push(("b", -1));
            request(&blocks)
        };
        assert_eq!(cache.bill(&followed_by(20), now).0.cached, 5000);
        assert_eq!(cache.bill(&followed_by(21), now).0.cached, 0);
        let later = now + LIFETIME - Duration::from_secs(1);
        assert_eq!(
            cache.bill(&request(&[("a", -5000)]), later).0.cached,
            5000,
            "the earlier read did not renew the cache entry"
        );
        assert_eq!(cache.bill(&request(&[("a", -5000)]), later + LIFETIME).0.cached, 0);
    }
}
