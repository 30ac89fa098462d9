//! Schemas of the answers in which a model writes or reviews a program, and extraction of code from these answers.
//!
//! The doc comments of [`GeneratedCode`] and [`Critique`] are part of the schemas, so the model reads them.

use std::sync::LazyLock;

use assize_llm::answer::TypedSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A program that a model proposes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratedCode {
    /// Complete source code of the program.
    pub code: String,
    /// Packages that the program needs and the sandbox does not have. Each is the package's name in the package index.
    pub dependencies: Vec<String>,
    /// Reasons for the way in which the program is written, in one or two sentences.
    pub reasoning: String,
    /// Probability that the program does what the task asks for, from 0 to 1.
    #[schemars(range(min = 0, max = 1))]
    pub confidence: f64,
}

/// Why a program failed, in a model's words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Critique {
    /// Errors of the program, most serious first.
    pub issues: Vec<String>,
    /// Proposed correction for each error, in the same order.
    pub suggested_fixes: Vec<String>,
}

pub(crate) static CODE: LazyLock<TypedSchema> = LazyLock::new(TypedSchema::of::<GeneratedCode>);
pub(crate) static CRITIQUE: LazyLock<TypedSchema> = LazyLock::new(TypedSchema::of::<Critique>);

/// Returns the code without the Markdown fence that some models put around it; `None` if the code is empty.
pub(crate) fn program(code: &str) -> Option<String> {
    let code = fenced(code).unwrap_or_else(|| code.to_owned());
    let code = code.trim_end();
    (!code.trim().is_empty()).then(|| format!("{code}\n"))
}

/// Returns the longest fenced code block in the answer `text`; `None` if the answer has no block or only empty blocks.
pub(crate) fn in_fences(text: &str) -> Option<String> {
    let mut blocks = Vec::new();
    let mut open: Option<Vec<&str>> = None;
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        match (&mut open, is_fence) {
            (None, true) => open = Some(Vec::new()),
            (Some(lines), true) => {
                blocks.push(lines.join("\n"));
                open = None;
            }
            (Some(lines), false) => lines.push(line),
            (None, false) => {}
        }
    }
    blocks.into_iter().max_by_key(String::len).and_then(|block| program(&block))
}

/// Returns the content of a text that is exactly one fenced code block; `None` for other texts.
fn fenced(code: &str) -> Option<String> {
    let inner = code.trim().strip_prefix("```")?.strip_suffix("```")?;
    let (_, program) = inner.split_once('\n')?;
    Some(program.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn program_is_extracted_with_and_without_markdown_fences() {
        assert_eq!(program("print(1)").as_deref(), Some("print(1)\n"));
        assert_eq!(program("```python\nprint(1)\n```\n").as_deref(), Some("print(1)\n"));
        // Fences inside the program are not removed.
        assert_eq!(program("x = '''\n```\n'''").as_deref(), Some("x = '''\n```\n'''\n"));
        assert_eq!(program(" \n\n"), None);
        assert_eq!(program("```python\n```"), None);
        let prose =
            "Here:\n```\na\n```\nor rather\n  ```python\nprint(2)\nprint(3)\n```\nGood luck";
        assert_eq!(in_fences(prose).as_deref(), Some("print(2)\nprint(3)\n"));
        assert_eq!(in_fences("I would rather not."), None);
        assert_eq!(in_fences("```\nnever closed"), None);
    }

    #[test]
    fn answer_schema_requires_all_fields() {
        assert!(CODE.reader.is_some() && CRITIQUE.reader.is_some());
        let required = &CODE.schema.value["required"];
        assert_eq!(
            *required,
            serde_json::json!(["code", "dependencies", "reasoning", "confidence"])
        );
    }
}
