//! Whether a text came about by chance, was picked by somebody, or only stands where a secret will.

use std::sync::LazyLock;

use regex::Regex;

/// The words of placeholders, and of passwords that everybody knows. One of them in a text says nothing: what
/// counts is what is left without them.
static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?ix) examples? | sample | dummy | placeholder | change | redacted | filtered | hidden | masked | fake
          | todo | fixme | x{4,} | \*{3,} | \.{3,} | …+ | •+ | testing | tests? | mock | stub | invalid | wrong | valid
          | your | insert | replace | enter | here | this | secret | passwords? | passwort | passwd | passphrase | pass
          | tokens? | keys? | apikey | api | value | usernames? | user | admin | root | postgres | mysql | guest
          | default | demo | foo | bar | baz | qux | abcdef | abc | 0*123\d* | 321 | super | long | random | string
          | production | develop(?:ment)? | local(?:host)? | not | real | access | client | jwt | private | hunter2
          | letmein | qwerty | minio | none | null | undefined | with | goes | please | some | auth | bearer | basic",
    )
    .ok()
});

/// What nobody writes for a secret itself: a variable, a field of a template, a part of a program.
static STAND_IN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?x) ^[<\[].*[>\]]$ | ^[$%{:),;\]] | \$[({] | \{\{ | \}\} | ^\{?[\w.]*\}$ | EXAMPLE(?:KEY)?$
          | ^(?:[srp]k_test|pk_live)_ | \(\? | \[\^ | \\[dwsrnt] | :// | %3A%2F%2F | \bsha(?:1|256|384|512)[:-]
          | ^\.{0,2}/ | ^~/ | \.(?:pem|key|pub|crt|cer|p12|jks|json|ya?ml|toml|ini|env|txt|md|html?|sh|py|rs|go|js|ts)$ | ^[A-Za-z_]\w*\(
          | ^(?:os|process|env|self|this|config|settings|args|options|vault|secrets|var|local|data)[.:]\w",
    )
    .ok()
});

/// How many neighbours are the same or follow one another, as in `aaaa` and `abcd`, from 0 to 1.
fn order(text: &str) -> f64 {
    let bytes = text.as_bytes();
    let in_order = bytes.windows(2).filter(|pair| pair[1].wrapping_sub(pair[0]) <= 1).count();
    if bytes.len() < 2 { 1.0 } else { in_order as f64 / (bytes.len() - 1) as f64 }
}

/// How often one kind of character follows another where no word begins: digits among letters, capitals after
/// small ones.
fn breaks(text: &str) -> usize {
    let kind = |byte: u8| match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    };
    let follow = |pair: &&[u8]| {
        let (left, right) = (kind(pair[0]), kind(pair[1]));
        left != right && left.max(right) < 3 && (left, right) != (1, 0)
    };
    text.as_bytes().windows(2).filter(follow).count()
}

/// Capitals and small letters, but not as in `camelCase`.
fn mixed(text: &str) -> bool {
    let is = |is: fn(&u8) -> bool| text.bytes().filter(is).count();
    let (capitals, small) = (is(u8::is_ascii_uppercase), is(u8::is_ascii_lowercase));
    let humps = text
        .as_bytes()
        .windows(2)
        .filter(|pair| pair[0].is_ascii_uppercase() && pair[1].is_ascii_lowercase());
    small >= 2 && capitals > humps.count() + 1
}

/// How much chance is in a text, in bits for each character.
fn entropy(text: &str) -> f64 {
    let mut counts = [0u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = text.len() as f64;
    let share = |count: &u32| f64::from(*count) / all;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

/// A text without the words of placeholders and what joins them.
fn rest(text: &str) -> String {
    let Some(words) = WORDS.as_ref() else { return text.to_owned() };
    words.replace_all(text, "").replace(['_', '-', '.', '/', ':', ' '], "")
}

fn stands_in(text: &str) -> bool {
    STAND_IN.as_ref().is_none_or(|stand_in| stand_in.is_match(text))
}

/// What has the form of a key is one, unless little is left of it without the words of a placeholder.
pub(super) fn fills_a_form(text: &str) -> bool {
    let rest = rest(text);
    !stands_in(text) && rest.len() >= 12 && order(text) < 0.4 && entropy(&rest) >= 2.5
}

/// Nobody would write this but by drawing it.
pub(super) fn drawn(text: &str) -> bool {
    let rest = rest(text);
    fills_a_form(text)
        && text.is_ascii()
        && rest.len() >= 14
        && entropy(&rest) >= 3.0
        && breaks(&rest) * 4 >= rest.len()
}

/// Somebody may have thought of this as a password.
pub(super) fn picked(text: &str) -> bool {
    let rest = rest(text);
    let inner = rest.trim_end_matches(['!', '?', '*', '=', '+', '\\']);
    let count = |is: fn(&u8) -> bool| inner.bytes().filter(is).count();
    let digits = count(u8::is_ascii_digit);
    let letters = count(u8::is_ascii_alphabetic);
    let signs = count(|byte| b"!@#$%^&*+?=~".contains(byte));
    !stands_in(text)
        && text.len() >= 8
        && rest.len() >= 6
        && order(text) < 0.5
        && (letters > 0 && digits + signs > 0
            || digits > 0 && signs > 0
            || breaks(&rest) >= 3
            || mixed(&rest))
}

/// A password beside a user: nothing else stands there.
pub(super) fn is_password(text: &str) -> bool {
    !stands_in(text) && rest(text).len() >= 6 && order(text) < 0.5
}
