//! Normalisation of text before it is searched for secrets: removes invisible characters, resolves escapes, and decodes
//! base64, base32 and hexadecimal text once.

use std::borrow::Cow;

use assize_types::text;
use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use regex::{Captures, Regex};

use crate::pattern::{InvalidPattern, compile};

/// Base64 decoder that accepts text without padding, and text whose last character has unused bits that are not zero.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Minimum length of base64 text that is found within a line, in characters. Half this length is enough for a text that
/// is known to be a whole value, such as a field of a Kubernetes `Secret`.
const MIN_BASE64: usize = 24;
/// Minimum length of base32 and hexadecimal text, in characters.
const MIN_ENCODED: usize = 32;

/// Decoder that normalises text and decodes its encoded parts.
#[derive(Debug)]
pub(super) struct TextDecoder {
    encoded: Regex,
    escapes: Regex,
    encrypted: Regex,
}

/// Content of an encoded part of a line.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    Text(String),
    /// The decoded bytes are a private key in binary form.
    Key,
}

impl TextDecoder {
    pub(super) fn compile() -> Result<TextDecoder, InvalidPattern> {
        Ok(TextDecoder {
            encoded: compile("encoded text", r"[A-Za-z0-9+/_-]{24,}={0,6}")?,
            escapes: compile(
                "escapes",
                r"\\x([0-9A-Fa-f]{2})|\\u([0-9A-Fa-f]{4})|\\u\{([0-9A-Fa-f]{1,6})\}|%([0-9A-Fa-f]{2})|&#x([0-9A-Fa-f]{1,6});|&#(\d{1,7});|\\([0-3][0-7]{2})",
            )?,
            encrypted: compile("values that SOPS encrypted", r"ENC\[AES256_GCM,[^\]]*\]?")?,
        })
    }

    /// Returns a line without invisible characters, and with encrypted values replaced by `<encrypted>`.
    pub(super) fn visible<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let shown = match line.is_ascii() || !line.contains(is_invisible) {
            true => Cow::Borrowed(line),
            false => Cow::Owned(line.chars().filter(|char| !is_invisible(*char)).collect()),
        };
        match shown.contains("ENC[") {
            true => Cow::Owned(self.encrypted.replace_all(&shown, "<encrypted>").into_owned()),
            false => shown,
        }
    }

    /// Returns a line with the escapes of visible ASCII characters resolved; `None` if it has no such escapes.
    pub(super) fn unescaped(&self, line: &str) -> Option<String> {
        if !line.contains(['\\', '%']) && !line.contains("&#") {
            return None;
        }
        let read = |captures: &Captures<'_>| {
            let digits = |group: usize| captures.get(group).map(|digits| digits.as_str());
            let hex = || (1..=5).find_map(digits).map(|text| u32::from_str_radix(text, 16));
            let decimal = || digits(6).map(str::parse);
            let octal = || digits(7).map(|text| u32::from_str_radix(text, 8));
            let code = hex().or_else(decimal).or_else(octal).and_then(Result::ok);
            let char = code.and_then(char::from_u32).filter(char::is_ascii_graphic);
            char.map_or_else(|| captures[0].to_owned(), String::from)
        };
        let text = self.escapes.replace_all(line, read);
        (text != line).then(|| text.into_owned())
    }

    /// Decodes all parts of a line that may be encoded. Returns the decoded texts and private keys.
    pub(super) fn decoded(&self, line: &str) -> Vec<Decoded> {
        let mut all = Vec::new();
        for piece in self.encoded.find_iter(line) {
            let piece = piece.as_str().trim_end_matches('=');
            let readings = [base64(piece), hexadecimal(piece), base32(piece)];
            for bytes in readings.into_iter().flatten() {
                if is_private_key(&bytes) {
                    all.push(Decoded::Key);
                } else if let Some(text) = readable(bytes) {
                    all.push(Decoded::Text(text));
                }
            }
        }
        all
    }
}

/// Decodes base64, in the standard or the URL-safe alphabet, to text; `None` if the decoded bytes are not UTF-8.
pub(super) fn base64_text(text: &str) -> Option<String> {
    String::from_utf8(base64(text.trim_end_matches('='))?).ok()
}

/// Whether a character has no width when displayed, so that an author can hide it inside a key.
fn is_invisible(char: char) -> bool {
    text::is_invisible(char)
        || matches!(char, '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}')
}

fn base64(text: &str) -> Option<Vec<u8>> {
    if text.len() < MIN_BASE64 / 2 {
        return None;
    }
    LENIENT.decode(text.replace('-', "+").replace('_', "/")).ok()
}

fn hexadecimal(text: &str) -> Option<Vec<u8>> {
    if text.len() < MIN_ENCODED || !text.len().is_multiple_of(2) {
        return None;
    }
    let digit = |byte: &u8| char::from(*byte).to_digit(16);
    let pair = |pair: &[u8]| u8::try_from(digit(&pair[0])? * 16 + digit(&pair[1])?).ok();
    text.as_bytes().chunks_exact(2).map(pair).collect()
}

fn base32(text: &str) -> Option<Vec<u8>> {
    if text.len() < MIN_ENCODED {
        return None;
    }
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for byte in text.bytes() {
        let five = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a',
            b'2'..=b'7' => byte - b'2' + 26,
            _ => return None,
        };
        bits = (bits << 5 | u32::from(five)) & 0xfff;
        count += 5;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xff) as u8);
        }
    }
    Some(bytes)
}

/// Converts bytes in UTF-8, or ASCII characters in UTF-16 (little-endian), to text; `None` if the bytes are not text.
fn readable(bytes: Vec<u8>) -> Option<String> {
    let wide = bytes.len() >= 8 && bytes.iter().skip(1).step_by(2).all(|byte| *byte == 0);
    let bytes = if wide { bytes.into_iter().step_by(2).collect() } else { bytes };
    let text = String::from_utf8(bytes).ok()?;
    text.chars().all(|char| !char.is_control() || char.is_whitespace()).then_some(text)
}

/// Whether bytes are a private key: in DER format (PKCS#8, PKCS#1, SEC1, PKCS#12), in OpenSSH format, or in a Java key
/// store.
fn is_private_key(bytes: &[u8]) -> bool {
    if bytes.starts_with(b"openssh-key-v1\0") || bytes.starts_with(&[0xfe, 0xed, 0xfe, 0xed]) {
        return true;
    }
    let Some((0x30, rest)) = bytes.split_first().map(|(tag, rest)| (*tag, rest)) else {
        return false;
    };
    let Some((length, inner)) = rest.split_first() else { return false };
    let long = usize::from(length.saturating_sub(0x80));
    let Some(inner) = (long <= 3).then(|| inner.get(long..)).flatten() else { return false };
    // In DER, a private key starts with a version number, followed by an algorithm, a large number, or the key itself.
    let versions: [&[u8]; 5] = [
        &[2, 1, 0, 0x30],
        &[2, 1, 0, 2, 0x82],
        &[2, 1, 0, 2, 0x81],
        &[2, 1, 1, 4],
        &[2, 1, 3, 0x30],
    ];
    bytes.len() >= 16 && versions.iter().any(|version| inner.starts_with(version))
}

#[cfg(test)]
mod tests {
    use base64::prelude::BASE64_STANDARD;

    use super::*;

    #[test]
    fn private_key_in_der_format_is_recognised_and_other_der_data_is_not() {
        for start in [
            &[0x30, 0x82, 4, 0xbd, 2, 1, 0, 0x30, 0x0d][..],
            &[0x30, 0x82, 4, 0xa4, 2, 1, 0, 2, 0x82, 1, 1],
            &[0x30, 0x77, 2, 1, 1, 4, 0x20],
            &[0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70],
        ] {
            assert!(is_private_key(&[start, &[0xab; 40]].concat()), "{start:x?}");
        }
        for start in [
            &[0x30, 0x82, 3, 0x10, 0x30, 0x82, 2][..],
            &[0x30, 0x82, 1, 0x22, 0x30, 0x0d, 6, 9],
            &[0x30, 0x82, 1, 0x0a, 2, 0x82, 1, 1],
            b"0123456789",
            &[],
            &[0x30],
        ] {
            assert!(!is_private_key(&[start, &[0xab; 40]].concat()), "{start:x?}");
        }
    }

    #[test]
    fn decoder_decodes_each_encoding_and_escape() {
        let decoder = TextDecoder::compile().unwrap();
        let text = "a text of some length";
        let hex: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
        let wide: Vec<u8> = text.bytes().flat_map(|byte| [byte, 0]).collect();
        let base32 = "MEQHIZLYOQQG6ZRAONXW2ZJANRSW4Z3UNA======";
        for line in [
            BASE64_STANDARD.encode(text),
            hex.to_uppercase(),
            hex,
            BASE64_STANDARD.encode(wide),
            base32.to_owned(),
        ] {
            let found = decoder.decoded(&line);
            assert!(found.contains(&Decoded::Text(text.to_owned())), "{line}: {found:?}");
        }
        for line in
            [r"\x67hp", r"\u0067hp", r"\u{67}hp", "%67hp", "&#x67;hp", "&#103;hp", r"\147hp"]
        {
            assert_eq!(decoder.unescaped(line).as_deref(), Some("ghp"), "{line}");
        }
        assert_eq!(decoder.unescaped(r"100% \d\x0a%20"), None);
        assert_eq!(decoder.visible("g\u{200b}h\u{ad}p"), "ghp");
    }
}
