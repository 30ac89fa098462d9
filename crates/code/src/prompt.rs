//! Prompts of the code loop, ordered for the provider's prompt cache.
//!
//! The rules, the sandbox and the task come first and never change within a run. The earlier attempts follow, and new
//! attempts are only appended. The current instruction comes last. The prompts for generation and critique differ only
//! in this instruction.

use std::fmt::Write as _;

use assize_config::ALLOWED_PACKAGES;
use assize_llm::{ModelRequest, Prompt, Schema, TranscriptTurn, enclose_untrusted};
use assize_sandbox::Language;

use crate::answer::{CODE, CRITIQUE};
use crate::execution::CodeFailure;
use crate::packages::{PackageSource, normalize_name};
use crate::prompt_size::{PROMPT_SIZES, PromptSize, fits};
use crate::runner::{CodeOptions, SandboxFacts};
use crate::state::{Attempt, CodeState};
use crate::task::CodeTask;

pub(crate) const RULES: &str = include_str!("../prompts/rules.txt").trim_ascii_end();

const EXAMPLES: &str = include_str!("../prompts/examples.txt").trim_ascii_end();

pub(crate) const SHORT_RULES: &str = include_str!("../prompts/short_rules.txt").trim_ascii_end();

/// Builder of the prompts of one run.
#[derive(Clone, Copy)]
pub(crate) struct CodePrompts<'a> {
    pub(crate) state: &'a CodeState,
    pub(crate) facts: &'a SandboxFacts,
    pub(crate) options: &'a CodeOptions,
    /// Source of packages that may be added to the sandbox; `None` if no packages may be added.
    pub(crate) packages: Option<&'a PackageSource>,
}

impl CodePrompts<'_> {
    /// Builds the model request for the next program.
    pub(crate) fn generation(self) -> ModelRequest {
        let now = match self.state.attempt() {
            0 => "Write the program.".to_owned(),
            tried => format!(
                "Write the next program. It must not fail for any reason that one of the {tried} before \
                 it failed for. If the approach itself was wrong, take another one. Do not apologise in \
                 comments, and do not mention earlier attempts in what it prints."
            ),
        };
        self.fitted(&format!("Now: {now}"), &CODE.schema)
    }

    /// Builds the model request for a critique of the last attempt.
    pub(crate) fn criticism(self) -> ModelRequest {
        self.fitted(
            "Now: be the critic of the last attempt. Read its code against what happened, find the \
             cause, not only the place where it showed, and say what to change. Name lines, values and \
             functions. At most five issues, each in one sentence, and one fix for each in the same \
             order. If an earlier attempt failed for the same reason, say so. Where the sandbox forbids \
             what the program tries (network, files that are not there, more memory or time), the fix is \
             another way to the goal, not another try.",
            &CRITIQUE.schema,
        )
    }

    /// Builds the longest request that fits the model's context window, or the shortest request if none fits.
    fn fitted(self, tail: &str, schema: &Schema) -> ModelRequest {
        let [fullest, .., shortest] = &PROMPT_SIZES;
        let Some(window) = self.options.context_window else {
            return self.request(tail, schema, fullest);
        };
        let shorter = PROMPT_SIZES.iter().map(|extent| self.request(tail, schema, extent));
        let fitting = shorter.into_iter().find(|request| fits(request, window));
        fitting.unwrap_or_else(|| self.request(tail, schema, shortest))
    }

    fn request(self, tail: &str, schema: &Schema, extent: &PromptSize) -> ModelRequest {
        let task = &self.state.task;
        let mut prompt = Prompt::default().block("rules", extent.rules);
        if extent.examples {
            prompt = prompt.block("examples", EXAMPLES);
        }
        let prompt = prompt
            .block("sandbox", self.sandbox(extent))
            .block("task", describe(task, self.facts, extent));
        let turns = self.state.history.iter().map(|attempt| attempt_turn(attempt, extent));
        let skipped = self.state.history.len().saturating_sub(extent.attempts);
        let transcript = turns.skip(skipped).collect();
        let prompt = Prompt { transcript, tail: tail.to_owned(), ..prompt };
        ModelRequest {
            temperature: self.options.temperature,
            max_tokens: self.options.max_tokens,
            schema: Some(schema.clone()),
            ..ModelRequest::new(prompt)
        }
    }

    /// Lists the installed packages, starting with those that are on the list of allowed packages.
    fn installed(self, extent: &PromptSize) -> String {
        let wanted = |installed: &&String| {
            let name = installed.split("==").next().unwrap_or_default();
            self.packages.is_some_and(|packages| packages.allowed.contains(&normalize_name(name)))
        };
        let (likely, others): (Vec<_>, Vec<_>) = self.facts.modules.iter().partition(wanted);
        let shown: Vec<&str> =
            likely.into_iter().chain(others).take(extent.installed).map(String::as_str).collect();
        listed(&shown, self.facts.modules.len())
    }

    fn sandbox(self, extent: &PromptSize) -> String {
        let (language, facts) = (self.state.task.language, self.facts);
        let limits = &self.options.spec.limits;
        let more = match (language, self.packages) {
            (Language::Python, Some(_)) if extent.addable == 0 => {
                " Name the packages you import in `dependencies`.".to_owned()
            }
            (Language::Python, Some(packages)) => {
                let mut allowed: Vec<&str> = packages.allowed.iter().map(String::as_str).collect();
                let all = allowed.len();
                if extent.addable < all {
                    // Sort the packages like the default list, which starts with the most used packages.
                    let rank = |name: &&str| {
                        ALLOWED_PACKAGES.split_whitespace().position(|one| one == *name)
                    };
                    allowed.sort_by_key(|name| rank(name).unwrap_or(usize::MAX));
                    allowed.truncate(extent.addable);
                }
                format!(
                    " Packages that are not there can be had by naming them in `dependencies`, but only these: {}.",
                    listed(&allowed, all)
                )
            }
            _ => " Nothing can be added to it: leave `dependencies` empty.".to_owned(),
        };
        let modules = match (language, facts.modules.is_empty()) {
            (Language::Python, false) if extent.installed == 0 => {
                "Prefer its standard library.".to_owned()
            }
            (Language::Python, true) => "Only its standard library can be imported.".to_owned(),
            (Language::Python, false) => format!(
                "Besides its standard library there are these packages: {}.",
                self.installed(extent)
            ),
            (Language::Bash, _) => {
                format!(
                    "Programs that are there, besides the usual small ones: {}.",
                    facts.modules.join(", ")
                )
            }
            (Language::JavaScript, _) => {
                "Only Node's own modules can be required; the file is a CommonJS module.".to_owned()
            }
        };
        format!(
            "The sandbox: {language} {}. {modules}{more} There is no network, and there are no files but those that \
         the task names. The program starts in the folder `/workspace`, where it can write, as in `/tmp`; \
         {} MB in all, which count as memory. It may use {} MB of memory, {} processes, and run for {} \
         seconds on {} of a processor.",
            facts.version,
            limits.disk >> 20,
            limits.memory >> 20,
            limits.processes,
            limits.wall.as_secs_f64(),
            f64::from(limits.cpu_millis) / 1000.0,
        )
    }
}

/// Joins names to a list, and adds `and others` if there are more names than shown.
fn listed(shown: &[&str], all: usize) -> String {
    let more = if shown.len() < all { " and others" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// Describes the task with its files, tests and expected output.
fn describe(task: &CodeTask, facts: &SandboxFacts, extent: &PromptSize) -> String {
    let mut text = format!("{}\n", enclose_untrusted("The task", &task.task));
    if task.inputs.is_empty() {
        text.push_str("No files are given.\n");
    } else {
        text.push_str("These files are in the working folder, and cannot be changed:\n");
        for input in &task.inputs {
            let _ = writeln!(
                text,
                "- `{}`, {} bytes; {}",
                input.name,
                input.bytes.len(),
                glimpse(&input.bytes, extent.input_bytes)
            );
        }
    }
    if !facts.files.is_empty() {
        let shown: Vec<String> =
            facts.files.iter().take(100).map(|name| format!("{name:?}")).collect();
        let _ = writeln!(
            text,
            "Earlier programs left these files in the working folder, which may be read and changed: {}",
            shown.join(", ")
        );
    }
    if let Some(tests) = task.tests.as_ref().filter(|_| task.shows_tests) {
        let how = match task.language {
            Language::Python => {
                "The program is run by itself, and must end well; then tests import it as the module \
                 `solution` and find its public names, where what is below `if __name__ == \"__main__\":` \
                 does not run"
            }
            Language::JavaScript => {
                "The program is run by itself, and must end well; then tests require it as `solution` and \
                 find what it exports"
            }
            Language::Bash => {
                "The program is run by itself, and must end well; then tests source it, or run it, by the \
                 path in $SOLUTION"
            }
        };
        let _ = writeln!(
            text,
            "{how}. All of them must pass.\n{}",
            enclose_untrusted("The file of tests", tests)
        );
    }
    if let Some(expect) = &task.expect {
        let _ = writeln!(text, "Its output must fit what is expected of it: {expect}");
    }
    text
}

/// Describes the start of a file, if it is text.
fn glimpse(bytes: &[u8], max: usize) -> String {
    let start = &bytes[..bytes.len().min(max)];
    match std::str::from_utf8(start) {
        _ if bytes.is_empty() => "it is empty".to_owned(),
        Ok(text) if !text.contains('\0') => format!("it begins with {text:?}"),
        // The text is valid UTF-8, but was cut in the middle of a character.
        Err(error) if error.error_len().is_none() && !start.contains(&0) => {
            let text = String::from_utf8_lossy(&start[..error.valid_up_to()]);
            format!("it begins with {text:?}")
        }
        _ => "it is not text".to_owned(),
    }
}

/// Describes one attempt: its code, outcome, output, failed tests and critique.
fn attempt_turn(attempt: &Attempt, extent: &PromptSize) -> TranscriptTurn {
    let mut text = format!("Attempt {}", attempt.attempt);
    if let Some(candidate) = attempt.candidate {
        let _ = write!(text, ", program {candidate}");
    }
    match &attempt.code {
        Some(code) => {
            let _ = writeln!(
                text,
                ":\n{}",
                enclose_untrusted("The program", &shortened(code, extent.code))
            );
        }
        None if attempt.error == Some(CodeFailure::Declined) => {
            text.push_str(": the answer was declined.\n");
        }
        None => text.push_str(": the answer had no program in it.\n"),
    }
    let refused = attempt.error.as_ref().filter(|error| attempt.code.is_some() && !error.was_run());
    if let Some(error) = refused {
        let _ = writeln!(text, "It was not run: {error}.");
    } else if let Some(execution) = &attempt.execution {
        match &attempt.error {
            Some(error) => {
                let _ = writeln!(text, "What happened: {error}.");
            }
            None => text.push_str("What happened: it succeeded.\n"),
        }
        for (name, output) in
            [("standard output", &execution.stdout), ("standard error", &execution.stderr)]
        {
            let output = output.trim_end();
            if output.is_empty() {
                let _ = writeln!(text, "It wrote nothing to {name}.");
            } else {
                let output = shortened(output, extent.output);
                let _ = writeln!(text, "{}", enclose_untrusted(&format!("Its {name}"), &output));
            }
        }
        for (met, words) in [
            (execution.outcome.output_cut, "It wrote more than is kept, and the rest is missing."),
            (execution.outcome.disk_full, "At its end there was no room left for files."),
        ] {
            if met {
                let _ = writeln!(text, "{words}");
            }
        }
        for failed in execution.tests.iter().flat_map(|report| &report.failed).take(5) {
            let name = one_line(&assize_types::text::shorten(&failed.name, 100), extent);
            let what = format!("The test `{name}` failed. What it said");
            let _ = writeln!(
                text,
                "{}",
                enclose_untrusted(&what, &shortened(&failed.error, extent.output))
            );
        }
    }
    if let Some(critique) = &attempt.critique {
        text.push_str("The critic says:\n");
        for issue in critique.issues.iter().take(extent.critique.0) {
            let _ = writeln!(text, "- issue: {}", one_line(issue, extent));
        }
        for fix in critique.suggested_fixes.iter().take(extent.critique.0) {
            let _ = writeln!(text, "- fix: {}", one_line(fix, extent));
        }
    }
    TranscriptTurn::User { text: text.into() }
}

fn one_line(text: &str, extent: &PromptSize) -> String {
    assize_types::text::shorten(&assize_types::text::one_line(text), extent.critique.1)
}

/// Returns a text, or only its first `head` and last `tail` characters if the text is longer than `head + tail`.
fn shortened(text: &str, (head, tail): (usize, usize)) -> String {
    let count = text.chars().count();
    if count <= head + tail {
        return text.to_owned();
    }
    let left_out = count - head - tail;
    let head: String = text.chars().take(head).collect();
    let tail: String = text.chars().skip(count - tail).collect();
    format!("{head}\n[… {left_out} characters left out …]\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execution::CodeExecution;
    use crate::packages::allowed;
    use crate::prompt_size::fits;
    use crate::state::CodeUpdate;
    use assize_graph::State;

    /// Creates the state after two failed attempts with long outputs.
    fn late_state() -> CodeState {
        let mut state =
            CodeState::new(CodeTask::new("Plot the sales of each month, and name the best one."));
        for number in 1..=2 {
            let code = "print('a line of the program')\n".repeat(200);
            let mut execution = CodeExecution::not_run(CodeFailure::Declined);
            execution.stderr = "Traceback: something went wrong here\n".repeat(300);
            execution.failure = Some(CodeFailure::NoCode);
            let attempt = Attempt::from_text(number, Some(code), "");
            state.apply(CodeUpdate::Generated(Box::new(attempt)));
            state.apply(CodeUpdate::Executed(Box::new(execution)));
        }
        state
    }

    fn requests(window: Option<u64>, state: &CodeState) -> [ModelRequest; 2] {
        let modules = (0..300).map(|number| format!("package-{number}==1.{number}")).collect();
        let facts = SandboxFacts { version: "3.11.2".to_owned(), modules, files: Vec::new() };
        let packages = PackageSource {
            folder: "/nowhere".into(),
            allowed: allowed("+").into_iter().collect(),
            pip: Vec::new(),
            wheels: None,
            env: Vec::new(),
        };
        let options =
            CodeOptions { context_window: window, max_tokens: 4096, ..CodeOptions::default() };
        let words =
            CodePrompts { state, facts: &facts, options: &options, packages: Some(&packages) };
        [words.generation(), words.criticism()]
    }

    fn text(request: &ModelRequest) -> String {
        let mut all = String::new();
        request.prompt.each_text(&mut |text| all.push_str(text));
        all
    }

    #[test]
    fn prompts_fit_a_context_window_of_2048_tokens() {
        let fresh = CodeState::new(CodeTask::new("Add two numbers."));
        for state in [fresh, late_state()] {
            for request in requests(Some(2048), &state) {
                let text = text(&request);
                // A token usually has four bytes. A quarter of the context window must remain for the answer.
                assert!(text.len() < 1536 * 4, "{} bytes: {text}", text.len());
                assert!(fits(&request, 2048), "{text}");
                assert!(text.contains(&state.task.task), "{text}");
            }
        }
    }

    #[test]
    fn prompts_are_shortened_only_as_far_as_needed() {
        let state = late_state();
        let lengths: Vec<usize> =
            [None, Some(128_000), Some(16_000), Some(8192), Some(4096), Some(2048)]
                .into_iter()
                .map(|window| text(&requests(window, &state)[0]).len())
                .collect();
        assert_eq!(lengths[0], lengths[1], "a large window must not shorten the prompt");
        assert!(lengths.is_sorted_by(|a, b| a >= b) && lengths[5] * 3 < lengths[0], "{lengths:?}");
        let [request, _] = requests(Some(4096), &state);
        let shown = text(&request);
        // The most used packages come first.
        assert!(shown.contains("numpy, pandas") || !shown.contains("but only these"), "{shown}");
    }
}
