//! Prompts, laid out so that a provider's prompt cache can reuse as much of them as possible.
//!
//! Byte-stable blocks come first (house rules, the company, the move), the append-only transcript
//! after them, and what is particular to this turn (persona, instruction) last. Two requests that
//! differ in their tails alone share everything before it.

use std::borrow::Cow;
use std::sync::Arc;

use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All that a model is told in one call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Prompt {
    /// What stays the same, byte for byte, over many calls; most shared first.
    pub blocks: Vec<Block>,
    /// What has happened so far; entries are only ever added at its end.
    pub transcript: Vec<Turn>,
    /// What is asked in this turn; may be empty only where the transcript ends in a tool's result.
    pub tail: String,
}

/// A named, byte-stable part of the prompt; its end is a cache breakpoint.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Block {
    /// For logs and diffs; the model does not see it.
    pub name: Cow<'static, str>,
    /// Shared by all the prompts that begin with it.
    pub text: Arc<str>,
}

/// One entry of the transcript.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Turn {
    /// Something the model is given to read; shared by all the prompts that have it.
    User { text: Arc<str> },
    /// Something this model said before, with the tool calls it made.
    Assistant {
        text: String,
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
    },
    /// What a tool answered.
    Tool(ToolResult),
}

/// A tool call that a model made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id for this call, or one of ours where the provider has none.
    pub id: String,
    pub name: String,
    /// An object; hostile until it has been checked against the tool's schema.
    pub arguments: Value,
    /// What the provider wants to see again with this call, unread (Google's thought signature).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// The answer of a tool to one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    pub call_id: String,
    pub name: String,
    pub content: String,
    pub failed: bool,
}

/// A run of turns by one speaker, as the providers want them.
#[derive(Debug, Clone, PartialEq)]
pub enum Message<'a> {
    /// Tool results first, then text parts. `stable` counts the parts that belong to the
    /// transcript; what is beyond them is the tail.
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
    /// A prompt that is one question.
    pub fn question(text: impl Into<String>) -> Prompt {
        Prompt { tail: text.into(), ..Prompt::default() }
    }

    /// Adds a stable block.
    pub fn block(
        mut self,
        name: impl Into<Cow<'static, str>>,
        text: impl Into<Arc<str>>,
    ) -> Prompt {
        self.blocks.push(Block { name: name.into(), text: text.into() });
        self
    }

    /// Shows `look` every piece of text in it.
    pub fn each_text(&self, look: &mut dyn FnMut(&str)) {
        self.blocks.iter().for_each(|block| look(&block.text));
        self.each_turn_text(look);
        look(&self.tail);
    }

    /// Shows `look` every piece of text in the transcript.
    pub fn each_turn_text(&self, look: &mut dyn FnMut(&str)) {
        for turn in &self.transcript {
            match turn {
                Turn::User { text } => look(text),
                Turn::Assistant { text, calls } => {
                    look(text);
                    calls.iter().for_each(|call| look(&call.arguments.to_string()));
                }
                Turn::Tool(result) => look(&result.content),
            }
        }
    }

    /// The transcript and the tail as alternating messages: neighbours of one speaker are one
    /// message, since most providers refuse two in a row.
    pub fn messages(&self) -> Vec<Message<'_>> {
        let mut messages: Vec<Message<'_>> = Vec::new();
        for turn in &self.transcript {
            match turn {
                Turn::User { text } => {
                    let (_, parts, stable) = open_user(&mut messages);
                    parts.push(text);
                    *stable = parts.len();
                }
                Turn::Tool(result) => open_user(&mut messages).0.push(result),
                Turn::Assistant { text, calls } => match messages.last_mut() {
                    Some(Message::Assistant { text: said, calls: made }) => {
                        if !said.is_empty() && !text.is_empty() {
                            said.to_mut().push_str("\n\n");
                        }
                        said.to_mut().push_str(text);
                        made.extend(calls);
                    }
                    _ => messages.push(Message::Assistant {
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

/// Text that is not ours between marks that it cannot contain, since they are made of its own hash.
pub fn fenced(what: &str, text: &str) -> String {
    let text = text.trim_end();
    let mark = mark_of(text);
    format!(
        "{what} is everything between the two marks {mark}.\n--- {mark} ---\n{text}\n--- {mark} ---"
    )
}

/// A mark that a text cannot contain.
pub fn mark_of(text: &str) -> String {
    let digit = |digit: u8| char::from(b"0123456789abcdef"[usize::from(digit)]);
    let mut mark = String::with_capacity(12);
    for byte in &Fingerprint::of(text).as_bytes()[..6] {
        mark.extend([digit(byte >> 4), digit(byte & 15)]);
    }
    mark
}

type UserParts<'m, 'a> = (&'m mut Vec<&'a ToolResult>, &'m mut Vec<&'a str>, &'m mut usize);

/// The last message if it is the user's and still open for more, else a new one.
fn open_user<'m, 'a>(messages: &'m mut Vec<Message<'a>>) -> UserParts<'m, 'a> {
    if !matches!(messages.last(), Some(Message::User { .. })) {
        messages.push(Message::User { results: Vec::new(), parts: Vec::new(), stable: 0 });
    }
    match messages.last_mut() {
        Some(Message::User { results, parts, stable }) => (results, parts, stable),
        _ => unreachable!("a user message was just pushed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_of_one_speaker_become_one_message() {
        let result = ToolResult {
            call_id: "c1".into(),
            name: "read".into(),
            content: "ok".into(),
            failed: false,
        };
        let prompt = Prompt {
            transcript: vec![
                Turn::User { text: "one".into() },
                Turn::User { text: "two".into() },
                Turn::Assistant { text: "three".into(), calls: vec![] },
                Turn::Assistant { text: "four".into(), calls: vec![] },
                Turn::Tool(result.clone()),
            ],
            tail: "five".into(),
            blocks: vec![],
        };
        assert_eq!(
            prompt.messages(),
            [
                Message::User { results: vec![], parts: vec!["one", "two"], stable: 2 },
                Message::Assistant { text: "three\n\nfour".into(), calls: vec![] },
                Message::User { results: vec![&result], parts: vec!["five"], stable: 0 },
            ]
        );
    }
}
