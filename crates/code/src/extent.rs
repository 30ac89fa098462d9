//! How much of everything a prompt shows, so that it fits small context windows.

use assize_llm::Request;

use crate::prompt::{RULES, SHORT_RULES};

/// How much of everything a prompt shows.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) rules: &'static str,
    pub(crate) examples: bool,
    /// Names of installed packages, and of those that may be added.
    pub(crate) installed: usize,
    pub(crate) addable: usize,
    /// Bytes of an input file.
    pub(crate) glimpse: usize,
    /// Attempts before the next one, the last ones first to be kept.
    pub(crate) attempts: usize,
    /// Characters of an output: of its beginning and of its end.
    pub(crate) output: (usize, usize),
    /// The same of a program.
    pub(crate) code: (usize, usize),
    /// A critic's issues and fixes: how many of each, and characters of each one.
    pub(crate) words: (usize, usize),
}

/// From the fullest to the shortest. The last leaves room for a task in a window of 2,048 tokens.
pub(crate) const EXTENTS: [Extent; 4] = [
    Extent {
        rules: RULES,
        examples: true,
        installed: 80,
        addable: usize::MAX,
        glimpse: 400,
        attempts: usize::MAX,
        output: (1500, 3000),
        code: (40_000, 20_000),
        words: (10, 1000),
    },
    Extent {
        rules: RULES,
        examples: false,
        installed: 20,
        addable: 20,
        glimpse: 200,
        attempts: 3,
        output: (500, 1500),
        code: (4000, 2000),
        words: (5, 300),
    },
    Extent {
        rules: SHORT_RULES,
        examples: false,
        installed: 8,
        addable: 8,
        glimpse: 120,
        attempts: 1,
        output: (100, 500),
        code: (1200, 600),
        words: (3, 160),
    },
    Extent {
        rules: SHORT_RULES,
        examples: false,
        installed: 0,
        addable: 0,
        glimpse: 60,
        attempts: 1,
        output: (0, 240),
        code: (400, 200),
        words: (2, 80),
    },
];

/// Bytes that a token has at least, in prompts like ours.
const BYTES_A_TOKEN: u64 = 3;

/// Whether a request leaves a third of the window, or all of its longest answer, for the answer.
pub(crate) fn fits(request: &Request, window: u64) -> bool {
    let mut bytes = 0;
    request.prompt.each_text(&mut |text| bytes += text.len() as u64);
    // A provider that cannot enforce the schema finds it in the prompt.
    bytes += request.schema.as_ref().map_or(0, |schema| schema.value.to_string().len() as u64);
    let answer = u64::from(request.max_tokens).min(window / 3);
    bytes.div_ceil(BYTES_A_TOKEN) + answer <= window
}
