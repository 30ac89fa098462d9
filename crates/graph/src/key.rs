//! Names of effects, the same in every attempt at a run.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// The name of one effect within its run: `m3/i1/round-4/critic`.
///
/// Segments are made of letters, digits, `_`, `-` and `.`, so that every store can hold a key as it
/// is: as text, as the name of a file, as the subject of a message.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(Arc<str>);

/// A text that cannot be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` cannot name an effect: names are segments of letters, digits, `_`, `-` and `.` with `/` \
     between them, at most {LONGEST} characters in all"
)]
pub struct BadKey(pub String);

const LONGEST: usize = 250;

impl Key {
    pub fn new(text: &str) -> Result<Key, BadKey> {
        // Whether the segment so far has anything but dots.
        let (mut is_sound, mut is_named) = (text.len() <= LONGEST, false);
        for byte in text.bytes() {
            match byte {
                b'/' => is_sound &= std::mem::take(&mut is_named),
                b'.' => {}
                b'_' | b'-' => is_named = true,
                byte => {
                    is_sound &= byte.is_ascii_alphanumeric();
                    is_named = true;
                }
            }
        }
        if is_sound && is_named {
            Ok(Key(text.into()))
        } else {
            Err(BadKey(assize_types::text::shorten(text, LONGEST)))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl TryFrom<String> for Key {
    type Error = BadKey;

    fn try_from(text: String) -> Result<Key, BadKey> {
        Key::new(&text)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> String {
        key.0.as_ref().to_owned()
    }
}

/// Where in a run a task stands: the labels of the branches that led to it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Scope(Option<Key>);

impl Scope {
    /// The key of something within this scope.
    pub(crate) fn key(&self, name: &str) -> Result<Key, BadKey> {
        match &self.0 {
            None => Key::new(name),
            Some(scope) => Key::new(&[scope.as_str(), name].join("/")),
        }
    }

    pub(crate) fn within(&self, name: &str) -> Result<Scope, BadKey> {
        Ok(Scope(Some(self.key(name)?)))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", Key::as_str)
    }
}

/// One of the visits of a node, counted from 1: `score_move.1`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Visit {
    pub(crate) node: &'static str,
    pub(crate) number: u32,
}

impl fmt::Display for Visit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.node, self.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_every_store_can_hold_is_a_key() {
        for good in ["critic", "m3/i1/round-4/critic", "a.1/B_2"] {
            assert_eq!(Key::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "/", "a/", "/a", "a//b", "a b", "a/../b", "a/.", "ü", "a\n", "a*", "a>"] {
            assert_eq!(Key::new(bad), Err(BadKey(bad.to_owned())));
        }
        assert!(Key::new(&"a".repeat(251)).is_err());
    }

    #[test]
    fn a_scope_is_the_beginning_of_its_keys() {
        let scope = Scope::default().within("m3").unwrap().within("i1").unwrap();
        assert_eq!(scope.key("round-4/critic").unwrap().as_str(), "m3/i1/round-4/critic");
        assert_eq!(scope.as_str(), "m3/i1");
        assert_eq!(Scope::default().key("critic").unwrap().as_str(), "critic");
        assert!(scope.key("").is_err());
    }
}
