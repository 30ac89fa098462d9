//! Prompts, laid out so that a provider's prompt cache can reuse as much of them as possible.
//!
//! A prompt starts with blocks that do not change between calls, such as the rules of a debate. The transcript follows,
//! to which turns are only appended. The last part is the tail, which is specific to one turn: the persona and the
//! instruction. Two requests that differ only in their tails share the whole prefix before the tail.

use std::borrow::Cow;
use std::sync::Arc;

use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The complete input of one model call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// Blocks that many calls share byte for byte, ordered from the most to the least widely shared.
    pub blocks: Vec<Block>,
    /// The conversation so far. Turns are only appended.
    pub transcript: Vec<TranscriptTurn>,
    /// Persona and instruction of the current turn. The tail may be empty only if the transcript ends with a tool
    /// result.
    pub tail: String,
}

/// A named part of the prompt that does not change between calls. Its end is a breakpoint for the provider's cache.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// Name of the block in logs and diffs. The name is not sent to the model.
    pub name: Cow<'static, str>,
    /// Text of the block. All prompts with this block share one allocation of the text.
    pub text: Arc<str>,
}

/// One turn of the conversation in a prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum TranscriptTurn {
    /// Input for the model. All prompts with this turn share one allocation of the text.
    User { text: Arc<str> },
    /// An earlier answer of the model, with its tool calls.
    Assistant {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// Result of a tool call.
    Tool(ToolResult),
}

/// A tool call that a model made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of this call, or a generated id if the provider sent no id.
    pub id: String,
    pub name: String,
    /// A JSON object; untrusted until it is validated against the tool's schema.
    pub arguments: Value,
    /// Opaque data of the provider (Google's thought signature). Later requests that contain this call must repeat it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// Result of one tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub call_id: String,
    pub name: String,
    pub content: String,
    pub failed: bool,
}

/// One message of a prompt, in the form that providers require: all consecutive turns of one role, merged.
#[derive(Debug, Clone, PartialEq)]
pub enum PromptMessage<'a> {
    /// A user message: tool results, followed by text parts. The first `stable` text parts belong to the transcript; a
    /// text part after them is the tail.
    User {
        results: Vec<&'a ToolResult>,
        parts: Vec<&'a str>,
        stable: usize,
    },
    Assistant {
        text: Cow<'a, str>,
        calls: Vec<&'a ToolCall>,
    },
}

impl Prompt {
    /// Creates a prompt that consists of one question.
    pub fn question(text: impl Into<String>) -> Prompt {
        Prompt { tail: text.into(), ..Prompt::default() }
    }

    /// Appends a block, which must not change between calls.
    pub fn block(
        mut self,
        name: impl Into<Cow<'static, str>>,
        text: impl Into<Arc<str>>,
    ) -> Prompt {
        self.blocks.push(Block { name: name.into(), text: text.into() });
        self
    }

    /// Calls `visit` with every text of the prompt.
    pub fn each_text(&self, visit: &mut dyn FnMut(&str)) {
        self.blocks.iter().for_each(|block| visit(&block.text));
        self.each_turn_text(visit);
        visit(&self.tail);
    }

    /// Calls `visit` with every text of the transcript.
    pub fn each_turn_text(&self, visit: &mut dyn FnMut(&str)) {
        for turn in &self.transcript {
            match turn {
                TranscriptTurn::User { text } => visit(text),
                TranscriptTurn::Assistant { text, calls } => {
                    visit(text);
                    calls.iter().for_each(|call| visit(&call.arguments.to_string()));
                }
                TranscriptTurn::Tool(result) => visit(&result.content),
            }
        }
    }

    /// Returns the transcript and the tail as messages of alternating roles. Consecutive turns of the same role become
    /// one message, because most providers reject consecutive messages of the same role.
    pub fn messages(&self) -> Vec<PromptMessage<'_>> {
        let mut messages: Vec<PromptMessage<'_>> = Vec::new();
        for turn in &self.transcript {
            match turn {
                TranscriptTurn::User { text } => {
                    let (_, parts, stable) = open_user(&mut messages);
                    parts.push(text);
                    *stable = parts.len();
                }
                TranscriptTurn::Tool(result) => open_user(&mut messages).0.push(result),
                TranscriptTurn::Assistant { text, calls } => match messages.last_mut() {
                    Some(PromptMessage::Assistant { text: last, calls: last_calls }) => {
                        if !last.is_empty() && !text.is_empty() {
                            last.to_mut().push_str("\n\n");
                        }
                        last.to_mut().push_str(text);
                        last_calls.extend(calls);
                    }
                    _ => messages.push(PromptMessage::Assistant {
                        text: Cow::Borrowed(text),
                        calls: calls.iter().collect(),
                    }),
                },
            }
        }
        if !self.tail.is_empty() {
            open_user(&mut messages).1.push(&self.tail);
        }
        messages
    }
}

/// Encloses untrusted text between two copies of a mark. The mark is derived from the hash of the text, so the text
/// cannot contain its mark.
pub fn enclose_untrusted(what: &str, text: &str) -> String {
    let text = text.trim_end();
    let mark = content_mark(text);
    format!(
        "{what} is everything between the two marks {mark}.\n--- {mark} ---\n{text}\n--- {mark} ---"
    )
}

/// Returns the mark of a text: 12 hexadecimal digits of its hash. A text cannot be written so that it contains its
/// mark.
pub fn content_mark(text: &str) -> String {
    let digit = |digit: u8| char::from(b"0123456789abcdef"[usize::from(digit)]);
    let mut mark = String::with_capacity(12);
    for byte in &Fingerprint::of(text).as_bytes()[..6] {
        mark.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    mark
}

type UserParts<'m, 'a> = (&'m mut Vec<&'a ToolResult>, &'m mut Vec<&'a str>, &'m mut usize);

/// Returns the parts of the last message if it is a user message; otherwise appends a user message and returns its
/// parts.
fn open_user<'m, 'a>(messages: &'m mut Vec<PromptMessage<'a>>) -> UserParts<'m, 'a> {
    if !matches!(messages.last(), Some(PromptMessage::User { .. })) {
        messages.push(PromptMessage::User { results: Vec::new(), parts: Vec::new(), stable: 0 });
    }
    match messages.last_mut() {
        Some(PromptMessage::User { results, parts, stable }) => (results, parts, stable),
        _ => unreachable!("a user message was just pushed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn consecutive_turns_of_one_role_become_one_message() {
        let result = ToolResult {
            call_id: "c1".into(),
            name: "read".into(),
            content: "ok".into(),
            failed: false,
        };
        let prompt = Prompt {
            transcript: vec![
                TranscriptTurn::User { text: "one".into() },
                TranscriptTurn::User { text: "two".into() },
                TranscriptTurn::Assistant { text: "three".into(), calls: vec![] },
                TranscriptTurn::Assistant { text: "four".into(), calls: vec![] },
                TranscriptTurn::Tool(result.clone()),
            ],
            tail: "five".into(),
            blocks: vec![],
        };
        assert_eq!(
            prompt.messages(),
            [
                PromptMessage::User { results: vec![], parts: vec!["one", "two"], stable: 2 },
                PromptMessage::Assistant { text: "three\n\nfour".into(), calls: vec![] },
                PromptMessage::User { results: vec![&result], parts: vec!["five"], stable: 0 },
            ]
        );
    }
}
