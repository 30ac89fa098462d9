//! Size levels of prompts: a prompt is shortened level by level until it fits the model's context window.

use assize_llm::ModelRequest;

use crate::prompt::{RULES, SHORT_RULES};

/// Size level of a prompt: limits on the parts of the prompt.
#[derive(Debug)]
pub(crate) struct PromptSize {
    /// Text of the rules: complete or short.
    pub(crate) rules: &'static str,
    /// Whether the prompt contains examples.
    pub(crate) examples: bool,
    /// Maximum number of installed packages that are listed.
    pub(crate) installed: usize,
    /// Maximum number of listed packages that a program may add.
    pub(crate) addable: usize,
    /// Maximum number of bytes that are shown of each input file.
    pub(crate) glimpse: usize,
    /// Maximum number of earlier attempts that are shown. The most recent attempts are selected.
    pub(crate) attempts: usize,
    /// Maximum number of characters of a program's output that are shown: from its start, and from its end.
    pub(crate) output: (usize, usize),
    /// Maximum number of characters of a program's code that are shown: from its start, and from its end.
    pub(crate) code: (usize, usize),
    /// Maximum number of the critic's issues and of its fixes, and maximum number of characters of each.
    pub(crate) words: (usize, usize),
}

/// Size levels of prompts, from the longest to the shortest. A prompt of the last level leaves space for a task in a
/// context window of 2,048 tokens.
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

/// Lower bound of the number of bytes per token, to estimate the number of tokens of a prompt.
const BYTES_PER_TOKEN: u64 = 3;

/// Whether a request leaves enough of the context window (`window`, in tokens) for the answer: the maximum length of
/// the answer, or a third of the window if that is less.
pub(crate) fn fits(request: &ModelRequest, window: u64) -> bool {
    let mut bytes = 0;
    request.prompt.each_text(&mut |text| bytes += text.len() as u64);
    // Count the schema, too: it is added to the prompt if the provider cannot enforce schemas.
    bytes += request.schema.as_ref().map_or(0, |schema| schema.value.to_string().len() as u64);
    let answer = u64::from(request.max_tokens).min(window / 3);
    bytes.div_ceil(BYTES_PER_TOKEN) + answer <= window
}
