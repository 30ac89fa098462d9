//! Size levels of prompts, so that they fit small context windows.

use assize_llm::ModelRequest;

use crate::prompt::{RULES, SHORT_RULES};

/// Limits on the parts of a prompt.
#[derive(Debug)]
pub(crate) struct PromptSize {
    pub(crate) rules: &'static str,
    pub(crate) examples: bool,
    /// Number of installed packages that are listed.
    pub(crate) installed: usize,
    /// Number of packages listed that may be added.
    pub(crate) addable: usize,
    /// Bytes shown of each input file.
    pub(crate) glimpse: usize,
    /// Number of earlier attempts shown; the most recent ones.
    pub(crate) attempts: usize,
    /// Characters of an output: at its start and at its end.
    pub(crate) output: (usize, usize),
    /// Characters of a program: at its start and at its end.
    pub(crate) code: (usize, usize),
    /// Issues and fixes of the critic: number of each, and characters of each.
    pub(crate) words: (usize, usize),
}

/// Size levels from the fullest to the shortest. The last leaves room for a task in a window of 2,048 tokens.
pub(crate) const EXTENTS: [PromptSize; 4] = [
    PromptSize {
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
    PromptSize {
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
    PromptSize {
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
    PromptSize {
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

/// Lower bound of the bytes per token in these prompts.
const BYTES_PER_TOKEN: u64 = 3;

/// Whether a request leaves room in the window for the answer: its maximum length, or a third of the window if less.
pub(crate) fn fits(request: &ModelRequest, window: u64) -> bool {
    let mut bytes = 0;
    request.prompt.each_text(&mut |text| bytes += text.len() as u64);
    // For a provider that cannot enforce a schema, the schema is added to the prompt.
    bytes += request.schema.as_ref().map_or(0, |schema| schema.value.to_string().len() as u64);
    let answer = u64::from(request.max_tokens).min(window / 3);
    bytes.div_ceil(BYTES_PER_TOKEN) + answer <= window
}
