//! Whether a text was generated at random, chosen by a person, or only stands where a secret will.

use std::collections::BTreeSet;

use regex::Regex;

use crate::pattern::{BadPattern, compile};

/// Words of placeholders and of well-known passwords. One of them in a text proves nothing: what counts is what is
/// left without them.
const WORDS: &str = r"(?ix) examples? | sample | dummy | placeholder | change | redacted | filtered | hidden | masked | fake
    | todo | fixme | x{4,} | \*{3,} | \.{3,} | …+ | •+ | testing | tests? | mock | stub | invalid | wrong | valid
    | your | insert | replace | enter | here | this | secret | passwords? | passwort | passwd | passphrase | pass
    | tokens? | keys? | apikey | api | value | usernames? | user | admin | root | postgres | mysql | guest
    | default | demo | foo | bar | baz | qux | abcdef | abc | 0*123\d* | 321 | super | long | random | string
    | production | develop(?:ment)? | local(?:host)? | not | real | access | client | jwt | private | hunter2
    | letmein | qwerty | minio | none | null | undefined | with | goes | please | some | auth | bearer | basic";

/// Stand-ins for a secret: a field of a template, a part of a program.
const STAND_IN: &str = r"(?x) ^[<\[].*[>\]]$ | \$[({] | \$[A-Z][A-Z_]{3} | \{\{ | \}\} | ^\{?[\w.]*\}$ | EXAMPLE(?:KEY)?$
    | ^(?:[srp]k_test|pk_live)_ | \(\? | \[\^ | \\[dwsrnt] | :// | %3A%2F%2F | \bsha(?:1|256|384|512)[:-]
    | ^[.*]{0,2}/ | ^~/ | \.(?:pem|key|pub|crt|cer|p12|jks|json|ya?ml|toml|ini|env|txt|md|html?|sh|py|rs|go|js|ts)$
    | ^(?:os|process|env|self|this|config|settings|args|options|vault|secrets|var|local|data)[.:]\w";

/// Alternatives: `string|null`, `required|min:8`.
const ALTERNATIVES: &str = r"^\w+(?::[\w,]+)?(?:\|\w+(?::[\w,]+)?)+$";

/// What else a longer value that stands in for a secret begins with.
const STAND_IN_START: &str = r"^[$%{:),;\]] | ^\.\$ | ^[A-Za-z_]\w*\(";

/// References that a literal may be instead of a password: a variable (`$NAME`, `$this->name`, `:name`), a directive of
/// a format (`%s`, `%(name)s`, `%NAME%`), a template (`{name}`, `<name>`), a call or an item (`env(NAME)`, `env[NAME]`),
/// the hash of a password (`$2y$…`), the key of a message (`errors.password.weak`).
const REFERENCE: &str = r"^\$[A-Za-z_]\w*(?:(?:->|::|\.)\w+)*$ | ^:[A-Za-z_]\w*$
    | ^%(?:\(|\{|\S+%$|[\d.-]*[sdvqr]$) | \{[A-Za-z_][\w.!:]*\} | ^\{ | <[^<>]*> | ^[A-Za-z_][\w.:]*!?(?:\(.*\)|\[.*\])$
    | ^\$[\w-]+\$ | ^[a-z_]+(?:\.[a-z_]+){2,}$";

/// The shortest literal that is a password, and the shortest without a digit.
const SHORTEST: usize = 3;
const SHORTEST_WORD: usize = 4;

/// The fewest consonants in a row that occur in no word.
const CONSONANTS: usize = 6;

/// Words that make the value of a password a placeholder, the name of another field, or a setting of a form. A value
/// is a password if letters or digits are left without these words.
const NO_PASSWORD: &str = r"(?ix) examples? | sample | dummy | placeholders? | change(?:d|me)? | redacted | filtered | hidden | masked
    | fake | visible | todo | fixme | x{3,} | testing | tests? | mock | stub | invalid | incorrect | wrong | valid | insert | replace
    | enter | secret | passwords? | passwort | passwd | passphrase | passcode | pass | pwd | tokens? | keys? | value | usernames?
    | users? | login | email | field | input | form | label | database | confirm(?:ation)? | default | demo | \b(?:foo|bar|baz|qux)\b
    | strings? | required | optional | length | undefined | forgot(?:ten)? | reset | bcrypt | argon2\w* | md5 | scram | sha
    | \b(?:a|all|any|api|be|current|db|empty|false|goes|here|in|is|max|me|min|my|name|new|no|none|not|null|off|old|on|one|our
      |plain|please|real|right|set|show|some|str|text|that|the|this|to|true|two|type|with|yes|your|256|512|1)\b";

/// Words of placeholders: with one of these, small letters alone make no password.
const PLACEHOLDER: &str = r"fake|dummy|placeholder|redacted|example|sample";

/// Words of test data: with one of these, only letters make a password.
const FIXTURE: &str = r"(?i)example|sample|dummy|placeholder|changeme|redacted|fake|mock|stub|test";

/// Parts of a regular expression, an address, a template or a program, which random signs seldom form.
const PATTERN: &str =
    r"\[\^?\w-\w|\(\?[:=!]|\\[dws]|\.\*|://|\{\{|\$\{\w+[}:]|<%|/>|</|%s|\(\)|, |; |=> ";

/// Passwords that images of services come with.
pub(super) const SERVICE_DEFAULTS: [&str; 9] =
    ["postgres", "mysql", "root", "admin", "guest", "minioadmin", "rabbitmq", "mongo", "redis"];

/// Decides by its characters whether a text is a secret.
#[derive(Debug)]
pub(super) struct Chance {
    words: Regex,
    stand_in: Regex,
    alternatives: Regex,
    reference: Regex,
    no_password: Regex,
    placeholder: Regex,
    fixture: Regex,
    pattern: Regex,
}

impl Chance {
    pub(super) fn compile() -> Result<Chance, BadPattern> {
        Ok(Chance {
            words: compile("placeholder words", WORDS)?,
            stand_in: compile("stand-ins", &format!("{STAND_IN} | {STAND_IN_START}"))?,
            alternatives: compile("alternatives", ALTERNATIVES)?,
            reference: compile("references", &format!("{STAND_IN} | {REFERENCE}"))?,
            no_password: compile("password placeholders", NO_PASSWORD)?,
            placeholder: compile("placeholders", PLACEHOLDER)?,
            fixture: compile("test data", FIXTURE)?,
            pattern: compile("patterns", PATTERN)?,
        })
    }

    /// A text without the words of placeholders and the characters that join them.
    fn rest(&self, text: &str) -> String {
        self.words.replace_all(text, "").replace(['_', '-', '.', '/', ':', ' '], "")
    }

    /// Whether a text with the form of a key is one, and not mostly words of a placeholder.
    pub(super) fn fills_a_form(&self, text: &str) -> bool {
        let rest = self.rest(text);
        !self.stand_in.is_match(text)
            && rest.len() >= 12
            && rest.len() * 3 >= text.len()
            && order(text) < 0.4
            && entropy(&rest) >= 2.5
    }

    /// Whether a text was generated at random.
    pub(super) fn drawn(&self, text: &str) -> bool {
        self.is_random(text, 4) && !is_path(text)
    }

    /// Whether a text is no word, with a change of the kind of character after at most so many.
    fn is_random(&self, text: &str, at_most: usize) -> bool {
        let rest = self.rest(text);
        self.fills_a_form(text)
            && text.is_ascii()
            && rest.len() >= 14
            && entropy(&rest) >= 3.0
            && breaks(&rest) * at_most >= rest.len()
    }

    /// Whether a text was generated at random although it has few digits: no word has so many consonants in a row.
    pub(super) fn unspeakable(&self, text: &str) -> bool {
        let rest = self.rest(text);
        let vowel = |char: char| "aeiouyAEIOUY".contains(char);
        let mut parts = rest.split(|char: char| !char.is_ascii_alphabetic() || vowel(char));
        self.is_random(text, 8) && parts.any(|part| part.len() >= CONSONANTS)
    }

    /// Whether a text of letters, digits and signs was generated at random, as `SECRET_KEY` of Django and the salts of
    /// WordPress are. Braces and dollars in it are chance, and no template.
    pub(super) fn scrambled(&self, text: &str) -> bool {
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

    /// Whether a person may have chosen a text as a password.
    pub(super) fn picked(&self, text: &str) -> bool {
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
                || breaks(&rest) >= 3
                || mixed(&rest))
    }

    /// Whether a text beside a user's name is a password: nothing else stands there.
    pub(super) fn is_password(&self, text: &str) -> bool {
        !self.stand_in.is_match(text) && self.rest(text).len() >= 6 && order(text) < 0.5
    }

    /// Whether a literal that is assigned to a password is one, however well known: neither a placeholder nor a reference
    /// to another value. It has four characters, or three with a digit.
    pub(super) fn is_literal_password(&self, text: &str) -> bool {
        let spaced = text.replace(['_', '-', '.'], " ");
        let rest = self.no_password.replace_all(&spaced, "");
        let counts = |char: char| match self.fixture.is_match(text) {
            true => char.is_alphabetic(),
            false => char.is_alphanumeric(),
        };
        let reference = self.reference.is_match(text)
            || self.alternatives.is_match(text)
            // A selector, an alias, a tag or a path; at the end, a label or a folder.
            || text.starts_with(['#', '.', '@', '&', '*', '!', '/', '\\', '|'])
            || text.ends_with([':', '?', '…', '/']);
        let digit = text.bytes().any(|byte| byte.is_ascii_digit());
        let long_enough = text.len() >= if digit { SHORTEST } else { SHORTEST_WORD };
        let small = |byte: u8| byte.is_ascii_lowercase() || b"_-. ".contains(&byte);
        let placeholder = self.placeholder.is_match(text) && text.bytes().all(small);
        // A word in another alphabet is a label of a form.
        !reference && !placeholder && long_enough && text.is_ascii() && rest.chars().any(counts)
    }
}

/// How many neighbours are the same or follow one another, as in `aaaa` and `abcd`, or in a longer text every other
/// character, as in `a1b2c3d4e5f6`; from 0 to 1.
fn order(text: &str) -> f64 {
    let bytes = text.as_bytes();
    let share = |step: usize| {
        let follows = |pair: &&[u8]| pair[step].wrapping_sub(pair[0]) <= 1;
        let count = bytes.windows(step + 1).filter(follows).count();
        if bytes.len() <= step { 1.0 } else { count as f64 / (bytes.len() - step) as f64 }
    };
    if bytes.len() < 12 { share(1) } else { share(1).max(share(2)) }
}

/// Whether a text is a path: several parts, one of them a word. Base64 has slashes, and hardly ever a word between them.
fn is_path(text: &str) -> bool {
    let is_word =
        |part: &str| part.len() >= 5 && part.bytes().all(|byte| byte.is_ascii_lowercase());
    text.matches('/').count() >= 2 && text.split('/').any(is_word)
}

/// Small letters, capitals, digits, and all else.
fn class(byte: u8) -> u8 {
    match byte {
        b'a'..=b'z' => 0,
        b'A'..=b'Z' => 1,
        b'0'..=b'9' => 2,
        _ => 3,
    }
}

/// How often one kind of character follows another where no word begins: digits among letters, capitals after
/// small ones.
fn breaks(text: &str) -> usize {
    let follow = |pair: &&[u8]| {
        let (left, right) = (class(pair[0]), class(pair[1]));
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
