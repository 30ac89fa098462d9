//! A cache of prompts, by the rules that Anthropic's documentation states.
//!
//! Tools come first, then the system text, then the messages. A request may mark up to four ends of blocks;
//! what comes before a mark is written if it has enough tokens, and read if it, or what comes before one of
//! the twenty blocks up to it, was written before by a request whose answer has begun. What nobody reads for
//! five minutes is gone.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The shortest prefix that is cached, in tokens, for the models that ask for most.
const MINIMUM: u64 = 4096;

const KEPT: Duration = Duration::from_secs(5 * 60);

/// How many blocks before a mark are looked at.
const LOOK_BACK: usize = 20;

/// The input tokens of a request, as they are charged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Billed {
    /// All of them.
    pub input: u64,
    /// Those that were read from the cache.
    pub cached: u64,
    /// Those that were written to it.
    pub written: u64,
}

impl Billed {
    /// What they cost, in tokens at the plain price: reading is a tenth of it, writing a quarter more.
    pub fn cost(self) -> f64 {
        let plain = self.input - self.cached - self.written;
        plain as f64 + self.cached as f64 * 0.1 + self.written as f64 * 1.25
    }
}

impl std::ops::AddAssign for Billed {
    fn add_assign(&mut self, other: Billed) {
        self.input += other.input;
        self.cached += other.cached;
        self.written += other.written;
    }
}

/// What a provider has cached.
#[derive(Debug, Default)]
pub struct PromptCache {
    /// The hash of a prefix, whether it can be read yet, and until when it is kept.
    entries: HashMap<u64, (bool, Instant)>,
}

/// The prefixes that a request has written, for when its answer begins.
#[derive(Debug, Clone, Default)]
pub struct Written(Vec<u64>);

/// The end of one block: what it and all before it come to.
struct End {
    prefix: u64,
    tokens: u64,
    marked: bool,
}

impl PromptCache {
    /// Charges a request to the Messages API.
    pub fn bill(&mut self, body: &Value, now: Instant) -> (Billed, Written) {
        self.entries.retain(|_, (_, until)| *until > now);
        let ends = ends(body);
        let input = ends.last().map_or(0, |end| end.tokens);
        let mut hit = None;
        for (index, _) in ends.iter().enumerate().filter(|(_, end)| end.marked) {
            let near = index.saturating_sub(LOOK_BACK)..=index;
            let readable =
                |end: &&End| self.entries.get(&end.prefix).is_some_and(|(readable, _)| *readable);
            hit = ends[near].iter().rfind(readable).or(hit);
        }
        if let Some((_, until)) = hit.and_then(|end| self.entries.get_mut(&end.prefix)) {
            *until = now + KEPT;
        }
        let cached = hit.map_or(0, |end| end.tokens);
        let new = ends.iter().filter(|end| end.marked && end.tokens >= MINIMUM.max(cached + 1));
        let mut written = (0, Vec::new());
        for end in new {
            written.0 = end.tokens - cached;
            written.1.push(end.prefix);
            self.entries.entry(end.prefix).or_insert((false, now + KEPT));
        }
        (Billed { input, cached, written: written.0 }, Written(written.1))
    }

    /// The answer to a request has begun: from now on, others can read what it wrote.
    pub fn begun(&mut self, written: &Written, now: Instant) {
        self.entries.extend(written.0.iter().map(|prefix| (*prefix, (true, now + KEPT))));
    }
}

fn ends(body: &Value) -> Vec<End> {
    let mut hasher = DefaultHasher::new();
    // Another model, or another shape of the answer, shares nothing.
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

    /// A request whose blocks have so many tokens; those below zero are marked.
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

    fn billed(input: u64, cached: u64, written: u64) -> Billed {
        Billed { input, cached, written }
    }

    #[test]
    fn what_is_marked_is_written_and_read_once_the_answer_has_begun() {
        let mut cache = PromptCache::default();
        let now = Instant::now();
        let mut first = request(&[("a", -5000), ("b", 10)]);
        let (bill, written) = cache.bill(&first, now);
        assert_eq!(bill, billed(5010, 0, 5000));
        assert_eq!(cache.bill(&first, now).0, bill, "nobody has begun to answer yet");
        cache.begun(&written, now);
        assert_eq!(cache.bill(&first, now).0, billed(5010, 5000, 0));
        // What follows is written, and what comes before it read.
        let more = request(&[("a", 5000), ("b", 10), ("c", -100), ("d", 7)]);
        assert_eq!(cache.bill(&more, now).0, billed(5117, 5000, 110));
        // Another beginning shares nothing; without marks nothing is read.
        assert_eq!(cache.bill(&request(&[("z", 1), ("a", -5000)]), now).0, billed(5001, 0, 5001));
        assert_eq!(cache.bill(&request(&[("a", 5000), ("b", 10)]), now).0, billed(5010, 0, 0));
        // Nor does another shape of the answer share anything.
        first["output_config"] = json!({"format": {}});
        assert_eq!(cache.bill(&first, now).0.cached, 0);
    }

    #[test]
    fn short_old_and_far_prefixes_are_not_read() {
        let mut cache = PromptCache::default();
        let now = Instant::now();
        assert_eq!(cache.bill(&request(&[("a", -4095)]), now).0, billed(4095, 0, 0));
        let (_, written) = cache.bill(&request(&[("a", -5000)]), now);
        cache.begun(&written, now);
        let followed_by = |count: usize| {
            let mut blocks = vec![("a", 5000)];
            blocks.extend(std::iter::repeat_n(("b", 1), count - 1));
            blocks.push(("b", -1));
            request(&blocks)
        };
        assert_eq!(cache.bill(&followed_by(20), now).0.cached, 5000);
        assert_eq!(cache.bill(&followed_by(21), now).0.cached, 0);
        let later = now + KEPT - Duration::from_secs(1);
        assert_eq!(cache.bill(&request(&[("a", -5000)]), later).0.cached, 5000, "and is kept anew");
        assert_eq!(cache.bill(&request(&[("a", -5000)]), later + KEPT).0.cached, 0);
    }
}
