//! Effect keys: names of effects, which stay the same when a run is resumed.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Key of one effect within its run: `m3/i1/round-4/critic`.
///
/// Segments consist of letters, digits, `_`, `-` and `.`, so that a key needs no escaping in texts, file names and
/// message subjects.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct EffectKey(Arc<str>);

/// Error for text that is not a valid [`EffectKey`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid effect key `{0}`: use segments of letters, digits, `_`, `-` and `.`, separated by \
     `/`, at most {MAX_LEN} characters in total"
)]
pub struct InvalidEffectKey(pub String);

const MAX_LEN: usize = 250;

impl EffectKey {
    pub fn new(text: &str) -> Result<EffectKey, InvalidEffectKey> {
        // `is_named` is true if the current segment has a character other than a dot.
        let (mut is_valid, mut is_named) = (text.len() <= MAX_LEN, false);
        for byte in text.bytes() {
            match byte {
                b'/' => is_valid &= std::mem::take(&mut is_named),
                b'.' => {}
                b'_' | b'-' => is_named = true,
                byte => {
                    is_valid &= byte.is_ascii_alphanumeric();
                    is_named = true;
                }
            }
        }
        if is_valid && is_named {
            Ok(EffectKey(text.into()))
        } else {
            Err(InvalidEffectKey(assize_types::text::shorten(text, MAX_LEN)))
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.0.split('/')
    }
}

impl fmt::Display for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for EffectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

impl TryFrom<String> for EffectKey {
    type Error = InvalidEffectKey;

    fn try_from(text: String) -> Result<EffectKey, InvalidEffectKey> {
        EffectKey::new(&text)
    }
}

impl From<EffectKey> for String {
    fn from(key: EffectKey) -> String {
        key.0.as_ref().to_owned()
    }
}

/// Prefix of the effect keys of a node: the labels of the branches that contain the node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct KeyScope(Option<EffectKey>);

impl KeyScope {
    /// Returns the key of `name` within this scope.
    pub(crate) fn key(&self, name: &str) -> Result<EffectKey, InvalidEffectKey> {
        match &self.0 {
            None => EffectKey::new(name),
            Some(scope) => EffectKey::new(&[scope.as_str(), name].join("/")),
        }
    }

    pub(crate) fn within(&self, name: &str) -> Result<KeyScope, InvalidEffectKey> {
        Ok(KeyScope(Some(self.key(name)?)))
    }

    pub(crate) fn as_str(&self) -> &str {
        self.0.as_ref().map_or("", EffectKey::as_str)
    }
}

/// One execution of a node. The executions of a node are numbered from 1: the first execution of the node `score_move`
/// is displayed as `score_move.1`.
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
    fn effect_key_rejects_segments_that_need_escaping() {
        for good in ["critic", "m3/i1/round-4/critic", "a.1/B_2"] {
            assert_eq!(EffectKey::new(good).unwrap().as_str(), good);
        }
        for bad in ["", "/", "a/", "/a", "a//b", "a b", "a/../b", "a/.", "ü", "a\n", "a*", "a>"] {
            assert_eq!(EffectKey::new(bad), Err(InvalidEffectKey(bad.to_owned())));
        }
        assert!(EffectKey::new(&"a".repeat(251)).is_err());
    }

    #[test]
    fn key_scope_adds_branch_labels_to_effect_keys() {
        let scope = KeyScope::default().within("m3").unwrap().within("i1").unwrap();
        assert_eq!(scope.key("round-4/critic").unwrap().as_str(), "m3/i1/round-4/critic");
        assert_eq!(scope.as_str(), "m3/i1");
        assert_eq!(KeyScope::default().key("critic").unwrap().as_str(), "critic");
        assert!(scope.key("").is_err());
    }
}
