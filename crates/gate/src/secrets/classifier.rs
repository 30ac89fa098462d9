//! Classification of values: decides whether a text is random, a password chosen by a person, or a placeholder.

use std::collections::BTreeSet;

use regex::Regex;

use crate::pattern::{InvalidPattern, compile};

/// Matches words that are common in placeholders, and well-known passwords. A text is judged by the characters that
/// remain when these words are removed.
const WORDS: &str = r"(?ix) examples? | sample | dummy | placeholder | change | redacted | filtered | hidden | masked | fake
    | todo | fixme | x{4,} | \*{3,} | \.{3,} | …+ | •+ | testing | tests? | mock | stub | invalid | wrong | valid
    | your | insert | replace | enter | here | this | secret | passwords? | passwort | passwd | passphrase | pass
    | tokens? | keys? | apikey | api | value | usernames? | user | admin | root | postgres | mysql | guest
    | default | demo | foo | bar | baz | qux | abcdef | abc | 0*123\d* | 321 | super | long | random | string
    | production | develop(?:ment)? | local(?:host)? | not | real | access | client | jwt | private | hunter2
    | letmein | qwerty | minio | none | null | undefined | with | goes | please | some | auth | bearer | basic";

/// Matches texts that are used instead of a secret: template fields, references, file names and pieces of code.
const STAND_IN: &str = r"(?x) ^[<\[].*[>\]]$ | \$[({] | \$[A-Z][A-Z_]{3} | \{\{ | \}\} | ^\{?[\w.]*\}$ | EXAMPLE(?:KEY)?$
    | ^(?:[srp]k_test|pk_live)_ | \(\? | \[\^ | \\[dwsrnt] | :// | %3A%2F%2F | \bsha(?:1|256|384|512)[:-]
    | ^[.*]{0,2}/ | ^~/ | \.(?:pem|key|pub|crt|cer|p12|jks|json|ya?ml|toml|ini|env|txt|md|html?|sh|py|rs|go|js|ts)$
    | ^(?:os|process|env|self|this|config|settings|args|options|vault|secrets|var|local|data)[.:]\w";

/// Matches lists of alternatives, as in validation rules: `string|null`, `required|min:8`.
const ALTERNATIVES: &str = r"^\w+(?::[\w,]+)?(?:\|\w+(?::[\w,]+)?)+$";

/// Matches further beginnings of placeholders and code, in addition to [`STAND_IN`].
const STAND_IN_START: &str = r"^[$%{:),;\]] | ^\.\$ | ^[A-Za-z_]\w*\(";

/// Matches references that are used instead of a literal password: a variable (`$NAME`, `$this->name`, `:name`), a
/// format directive (`%s`, `%(name)s`, `%NAME%`), a template field (`{name}`, `<name>`), a call or an item
/// (`env(NAME)`, `env[NAME]`), a password hash (`$2y$…`), or the key of a message (`errors.password.weak`).
const REFERENCE: &str = r"^\$[A-Za-z_]\w*(?:(?:->|::|\.)\w+)*$ | ^:[A-Za-z_]\w*$
    | ^%(?:\(|\{|\S+%$|[\d.-]*[sdvqr]$) | \{[A-Za-z_][\w.!:]*\} | ^\{ | <[^<>]*> | ^[A-Za-z_][\w.:]*!?(?:\(.*\)|\[.*\])$
    | ^\$[\w-]+\$ | ^[a-z_]+(?:\.[a-z_]+){2,}$";

/// Minimum length of a literal password that has a digit, in bytes.
const MIN_PASSWORD: usize = 3;
/// Minimum length of a literal password without a digit, in bytes.
const MIN_WORD_PASSWORD: usize = 4;

/// Minimum number of consecutive consonants in a text that counts as random. No word has so many consecutive
/// consonants.
const MIN_CONSONANTS: usize = 6;

/// Matches words that do not count as part of a password: words of placeholders, names of other fields, and words of
/// forms, such as `required`. A literal that is assigned to a password variable is a password only if letters or digits
/// remain when these words are removed.
const NOT_PASSWORD: &str = r"(?ix) examples? | sample | dummy | placeholders? | change(?:d|me)? | redacted | filtered | hidden | masked
    | fake | visible | todo | fixme | x{3,} | testing | tests? | mock | stub | invalid | incorrect | wrong | valid | insert | replace
    | enter | secret | passwords? | passwort | passwd | passphrase | passcode | pass | pwd | tokens? | keys? | value | usernames?
    | users? | login | email | field | input | form | label | database | confirm(?:ation)? | default | demo | \b(?:foo|bar|baz|qux)\b
    | strings? | required | optional | length | undefined | forgot(?:ten)? | reset | bcrypt | argon2\w* | md5 | scram | sha
    | \b(?:a|all|any|api|be|current|db|empty|false|goes|here|in|is|max|me|min|my|name|new|no|none|not|null|off|old|on|one|our
      |plain|please|real|right|set|show|some|str|text|that|the|this|to|true|two|type|with|yes|your|256|512|1)\b";

/// Matches placeholder words. A lower-case value that contains one of them is not a password.
const PLACEHOLDER: &str = r"fake|dummy|placeholder|redacted|example|sample";

/// Matches words of test data. A value that contains one of them is a password only if letters remain when the words of
/// [`NOT_PASSWORD`] are removed; digits alone are not enough.
const FIXTURE: &str = r"(?i)example|sample|dummy|placeholder|changeme|redacted|fake|mock|stub|test";

/// Matches parts of a regular expression, a URL, a template or a program. Random texts seldom contain them.
const PATTERN: &str =
    r"\[\^?\w-\w|\(\?[:=!]|\\[dws]|\.\*|://|\{\{|\$\{\w+[}:]|<%|/>|</|%s|\(\)|, |; |=> ";

/// Default passwords in the container images of common services.
pub(super) const SERVICE_DEFAULTS: [&str; 9] =
    ["postgres", "mysql", "root", "admin", "guest", "minioadmin", "rabbitmq", "mongo", "redis"];

/// Classifier that decides from the characters of a value whether the value is a secret.
#[derive(Debug)]
pub(super) struct SecretClassifier {
    words: Regex,
    stand_in: Regex,
    alternatives: Regex,
    reference: Regex,
    not_password: Regex,
    placeholder: Regex,
    fixture: Regex,
    pattern: Regex,
}

impl SecretClassifier {
    pub(super) fn compile() -> Result<SecretClassifier, InvalidPattern> {
        Ok(SecretClassifier {
            words: compile("placeholder words", WORDS)?,
            stand_in: compile("stand-ins", &format!("{STAND_IN} | {STAND_IN_START}"))?,
            alternatives: compile("alternatives", ALTERNATIVES)?,
            reference: compile("references", &format!("{STAND_IN} | {REFERENCE}"))?,
            not_password: compile("password placeholders", NOT_PASSWORD)?,
            placeholder: compile("placeholders", PLACEHOLDER)?,
            fixture: compile("test data", FIXTURE)?,
            pattern: compile("patterns", PATTERN)?,
        })
    }

    /// Returns a text without its placeholder words and separators.
    fn rest(&self, text: &str) -> String {
        self.words.replace_all(text, "").replace(['_', '-', '.', '/', ':', ' '], "")
    }

    /// Whether a text that has the format of a key is a real key. A reference, a text that consists mostly of
    /// placeholder words, and a text with too little variation are not real keys.
    pub(super) fn is_real_key(&self, text: &str) -> bool {
        let rest = self.rest(text);
        !self.stand_in.is_match(text)
            && rest.len() >= 12
            && rest.len() * 3 >= text.len()
            && order(text) < 0.4
            && entropy(&rest) >= 2.5
    }

    /// Whether a text is random and not a path.
    pub(super) fn is_random_value(&self, text: &str) -> bool {
        self.is_random(text, 4) && !is_path(text)
    }

    /// Whether a text is random. Among letters and digits, the character class must change on average at least once
    /// every `at_most` characters.
    fn is_random(&self, text: &str, at_most: usize) -> bool {
        let rest = self.rest(text);
        self.is_real_key(text)
            && text.is_ascii()
            && rest.len() >= 14
            && entropy(&rest) >= 3.0
            && class_changes(&rest) * at_most >= rest.len()
    }

    /// Whether a text is random although it has few digits, because it has more consecutive consonants than any word.
    pub(super) fn is_random_by_consonants(&self, text: &str) -> bool {
        let rest = self.rest(text);
        let vowel = |char: char| "aeiouyAEIOUY".contains(char);
        let mut parts = rest.split(|char: char| !char.is_ascii_alphabetic() || vowel(char));
        self.is_random(text, 8) && parts.any(|part| part.len() >= MIN_CONSONANTS)
    }

    /// Whether a text of letters, digits and punctuation is random, like the `SECRET_KEY` of Django and the salts of
    /// WordPress. Braces and dollar signs in such a text do not make it a template.
    pub(super) fn is_random_with_punctuation(&self, text: &str) -> bool {
        let text = text.strip_prefix("django-insecure-").unwrap_or(text);
        let count = |is: fn(&u8) -> bool| text.bytes().filter(is).count();
        let signs: BTreeSet<u8> = text.bytes().filter(u8::is_ascii_punctuation).collect();
        let longest_word = text.split(|char: char| !char.is_ascii_alphabetic()).map(str::len).max();
        let changes =
            text.as_bytes().windows(2).filter(|pair| class(pair[0]) != class(pair[1])).count();
        text.is_ascii()
            && text.len() >= 24
            && signs.len() >= 4
            && count(u8::is_ascii_punctuation) * 12 >= text.len()
            && count(u8::is_ascii_digit) >= 2
            && count(u8::is_ascii_lowercase) >= 3
            && count(|byte| *byte == b' ') * 12 <= text.len()
            && longest_word.unwrap_or_default() <= 12
            && changes * 5 >= text.len() * 2
            && entropy(text) >= 4.0
            && !self.pattern.is_match(text)
    }

    /// Whether a text may be a password chosen by a person.
    pub(super) fn may_be_chosen_password(&self, text: &str) -> bool {
        let rest = self.rest(text);
        let inner = rest.trim_end_matches(['!', '?', '*', '=', '+', '\\']);
        let count = |is: fn(&u8) -> bool| inner.bytes().filter(is).count();
        let digits = count(u8::is_ascii_digit);
        let letters = count(u8::is_ascii_alphabetic);
        let signs = count(|byte| b"!@#$%^&*+?=~".contains(byte));
        !self.stand_in.is_match(text)
            && !self.alternatives.is_match(text)
            && text.len() >= 8
            && rest.len() >= 6
            && order(text) < 0.5
            && (letters > 0 && digits + signs > 0
                || digits > 0 && signs > 0
                || class_changes(&rest) >= 3
                || mixed(&rest))
    }

    /// Whether a text is a password and not a placeholder. The text must be at a position where only a password is
    /// expected, such as next to a user name.
    pub(super) fn is_password(&self, text: &str) -> bool {
        !self.stand_in.is_match(text) && self.rest(text).len() >= 6 && order(text) < 0.5
    }

    /// Whether a literal that is assigned to a password variable is a real password. Well-known passwords count too;
    /// placeholders and references to other values do not. A password has at least four characters, or three
    /// characters with at least one digit.
    pub(super) fn is_literal_password(&self, text: &str) -> bool {
        let spaced = text.replace(['_', '-', '.'], " ");
        let rest = self.not_password.replace_all(&spaced, "");
        let counts = |char: char| match self.fixture.is_match(text) {
            true => char.is_alphabetic(),
            false => char.is_alphanumeric(),
        };
        let reference = self.reference.is_match(text)
            || self.alternatives.is_match(text)
            // A text with one of these beginnings is a selector, an alias, a tag or a path. A text with one of the
            // endings below is a label or a folder.
            || text.starts_with(['#', '.', '@', '&', '*', '!', '/', '\\', '|'])
            || text.ends_with([':', '?', '…', '/']);
        let digit = text.bytes().any(|byte| byte.is_ascii_digit());
        let long_enough = text.len() >= if digit { MIN_PASSWORD } else { MIN_WORD_PASSWORD };
        let small = |byte: u8| byte.is_ascii_lowercase() || b"_-. ".contains(&byte);
        let placeholder = self.placeholder.is_match(text) && text.bytes().all(small);
        // A text that is not ASCII is taken for the label of a form field and not for a password.
        !reference && !placeholder && long_enough && text.is_ascii() && rest.chars().any(counts)
    }
}

/// How regular a text is, from 0 to 1: the share of pairs of neighbouring characters that are equal or consecutive, as
/// in `aaaa` and `abcd`. In texts of at least 12 bytes, pairs of characters at distance two are also counted, as in
/// `a1b2c3d4e5f6`, and the larger of the two shares is returned.
fn order(text: &str) -> f64 {
    let bytes = text.as_bytes();
    let share = |step: usize| {
        let follows = |pair: &&[u8]| pair[step].wrapping_sub(pair[0]) <= 1;
        let count = bytes.windows(step + 1).filter(follows).count();
        if bytes.len() <= step { 1.0 } else { count as f64 / (bytes.len() - step) as f64 }
    };
    if bytes.len() < 12 { share(1) } else { share(1).max(share(2)) }
}

/// Whether a text is a path: it has several components, and at least one of them is a word. Base64 text also contains
/// slashes, but hardly ever a word between them.
fn is_path(text: &str) -> bool {
    let is_word =
        |part: &str| part.len() >= 5 && part.bytes().all(|byte| byte.is_ascii_lowercase());
    text.matches('/').count() >= 2 && text.split('/').any(is_word)
}

/// Class of a character: 0 for lower case, 1 for upper case, 2 for a digit, 3 for any other character.
fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    }
}

/// Counts the pairs of neighbouring letters or digits with different classes (see [`class`]). A capital before a
/// lower-case letter is not counted, because capitalised words begin with such a pair.
fn class_changes(text: &str) -> usize {
    let follow = |pair: &&[u8]| {
        let (left, right) = (class(pair[0]), class(pair[1]));
        left != right && left.max(right) < 3 && (left, right) != (1, 0)
    };
    text.as_bytes().windows(2).filter(follow).count()
}

/// Whether a text mixes upper and lower case differently than `camelCase` does: it has at least two lower-case letters,
/// and at least two capital letters that are not followed by a lower-case letter.
fn mixed(text: &str) -> bool {
    let is = |is: fn(&u8) -> bool| text.bytes().filter(is).count();
    let (capitals, small) = (is(u8::is_ascii_uppercase), is(u8::is_ascii_lowercase));
    let humps = text
        .as_bytes()
        .windows(2)
        .filter(|pair| pair[0].is_ascii_uppercase() && pair[1].is_ascii_lowercase());
    small >= 2 && capitals > humps.count() + 1
}

/// Shannon entropy of a text, in bits per character.
fn entropy(text: &str) -> f64 {
    let mut counts = [0u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = text.len() as f64;
    let share = |count: &u32| f64::from(*count) / all;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}
