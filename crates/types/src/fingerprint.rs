//! Fingerprints: hashes that identify requests, artifacts and audit entries.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use sha2::{Digest, Sha256};

/// SHA-256 of a request or other content, displayed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, JsonSchema)]
#[schemars(with = "String")]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Placeholder (all zeros) for journaled effects that send no request, such as reading the clock.
    pub const NONE: Fingerprint = Fingerprint([0; 32]);

    /// Computes the fingerprint of `bytes`.
    pub fn of(bytes: impl AsRef<[u8]>) -> Fingerprint {
        Fingerprint(Sha256::digest(bytes).into())
    }

    pub const fn from_bytes(bytes: [u8; 32]) -> Fingerprint {
        Fingerprint(bytes)
    }

    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Seed for a random number generator, derived from the fingerprint.
    pub fn seed(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[..8]);
        u64::from_le_bytes(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// Error for a text that is not a valid fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid fingerprint: expected 64 hexadecimal digits")]
pub struct InvalidFingerprint;

impl FromStr for Fingerprint {
    type Err = InvalidFingerprint;

    fn from_str(text: &str) -> Result<Fingerprint, InvalidFingerprint> {
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(InvalidFingerprint);
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = &text[2 * index..2 * index + 2];
            *byte = u8::from_str_radix(digits, 16).map_err(|_| InvalidFingerprint)?;
        }
        Ok(Fingerprint(bytes))
    }
}

crate::serde_as_text!(Fingerprint);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprint_parses_its_display_form_and_rejects_other_text() {
        let fingerprint = Fingerprint::from_bytes(std::array::from_fn(|index| index as u8 * 7));
        assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
        for wrong in ["", "00", &"g".repeat(64), &"é".repeat(32), &"+1".repeat(32)] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(InvalidFingerprint), "{wrong}");
        }
    }
}
