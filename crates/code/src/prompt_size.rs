//! Size levels of prompts: a prompt is shortened level by level until it fits the model's context window.

use assize_llm::ModelRequest;

use crate::prompt::{RULES, SHORT_RULES};

/// Size level of a prompt: limits on the contents of the prompt.
#[derive(Debug)]
pub(crate) struct PromptSize {
    /// Rules for the model that the prompt contains: the complete text or the short version.
    pub(crate) rules: &'static str,
    /// Whether the prompt contains examples.
    pub(crate) examples: bool,
    /// Maximum number of the sandbox's installed packages that the prompt lists.
    pub(crate) installed: usize,
    /// Maximum number of allowed additional packages that the prompt lists.
    pub(crate) addable: usize,
    /// Maximum number of bytes of each input file that the prompt shows.
    pub(crate) input_bytes: usize,
    /// Maximum number of earlier attempts that the prompt shows. The most recent attempts are selected.
    pub(crate) attempts: usize,
    /// How much of a program's output the prompt shows: number of characters from its start, and from its end.
    pub(crate) output: (usize, usize),
    /// How much of a program's code the prompt shows: number of characters from its start, and from its end.
    pub(crate) code: (usize, usize),
    /// How much of a critique the prompt shows: maximum number of issues, which is also the maximum number of fixes,
    /// and maximum number of characters of each issue or fix.
    pub(crate) critique: (usize, usize),
}

/// Size levels of prompts, from the longest to the shortest. A prompt of the last level leaves space for a task in a
/// context window of 2,048 tokens.
pub(crate) const PROMPT_SIZES: [PromptSize; 4] = [
    PromptSize {
        rules: RULES,
        examples: true,
        installed: 80,
        addable: usize::MAX,
        input_bytes: 400,
        attempts: usize::MAX,
        output: (1500, 3000),
        code: (40_000, 20_000),
        critique: (10, 1000),
    },
    PromptSize {
        rules: RULES,
        examples: false,
        installed: 20,
        addable: 20,
        input_bytes: 200,
        attempts: 3,
        output: (500, 1500),
        code: (4000, 2000),
        critique: (5, 300),
    },
    PromptSize {
        rules: SHORT_RULES,
        examples: false,
        installed: 8,
        addable: 8,
        input_bytes: 120,
        attempts: 1,
        output: (100, 500),
        code: (1200, 600),
        critique: (3, 160),
    },
    PromptSize {
        rules: SHORT_RULES,
        examples: false,
        installed: 0,
        addable: 0,
        input_bytes: 60,
        attempts: 1,
        output: (0, 240),
        code: (400, 200),
        critique: (2, 80),
    },
];

/// Lower bound of the number of bytes per token, to estimate the number of tokens of a prompt.
const BYTES_PER_TOKEN: u64 = 3;

/// Whether a request and its answer fit a context window of `window` tokens. The space for the answer is the request's
/// `max_tokens`, but at most a third of the window.
pub(crate) fn fits(request: &ModelRequest, window: u64) -> bool {
    let mut bytes = 0;
    request.prompt.each_text(&mut |text| bytes += text.len() as u64);
    // Count the schema, too: it is added to the prompt if the provider cannot enforce schemas.
    bytes += request.schema.as_ref().map_or(0, |schema| schema.value.to_string().len() as u64);
    let answer = u64::from(request.max_tokens).min(window / 3);
    bytes.div_ceil(BYTES_PER_TOKEN) + answer <= window
}
