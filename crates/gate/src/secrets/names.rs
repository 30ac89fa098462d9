//! Classification of names of variables and fields by the value they suggest: a password, a secret, a key, or none of
//! these.

use crate::pattern::among;

/// Maximum length of a name, in bytes.
pub(super) const MAX_NAME_BYTES: usize = 64;

/// Kind of secret value that a name suggests.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SecretKind {
    /// A password, which is usually chosen by a person.
    Password,
    /// A secret, which is sometimes chosen by a person but seldom short.
    Secret,
    /// A key or token, which is usually generated.
    Key,
}

/// Whether a text may end with the name of a secret: the last [`MAX_NAME_BYTES`] characters of the text contain a part
/// such as `token` or `key`.
pub(super) fn may_name(text: &str) -> bool {
    const PARTS: [&str; 10] =
        ["pass", "pw", "secret", "token", "key", "credential", "auth", "bearer", "appid", "salt"];
    let end: String =
        text.chars().rev().take(MAX_NAME_BYTES).map(|char| char.to_ascii_lowercase()).collect();
    let end: String = end.chars().rev().collect();
    PARTS.iter().any(|part| end.contains(part))
}

/// Whether a name denotes the value of a password. Returns false for names of messages, form fields and actions, such
/// as `password_hint` or `reset_password`.
pub(super) fn names_a_password(name: &str, before: &str) -> bool {
    const OTHER: &str = "error errors message messages msg label labels hint hints placeholder placeholders title \
        titles i18n translation translations column columns schema rule rules validation show hide toggle forgot \
        forgotten reset change update verify validate check has is no without require requires required route routes \
        icon autocomplete policy type types text texts help";
    const ACCOUNTS: &str = "db user smtp mail email ftp sftp admin root redis mysql pg postgres ldap ssh sudo proxy api \
        mqtt rabbit imap pop";
    let own = words(name);
    let before_pass = own.iter().rev().nth(1);
    let pass = own.last().is_some_and(|word| word == "pass")
        && !before.ends_with('<')
        && !before_pass.is_some_and(|word| among(word, ACCOUNTS));
    !pass && !own.iter().chain(&words(qualifier(before))).any(|word| among(word, OTHER))
}

/// Returns the qualifier before a name; an empty text if there is none. A qualifier is the object of which the name is
/// a field (`errors` in `errors["password"]` and `errors->password`), the attribute of which the name is the value
/// (`type` in `type="password"`), or the keyword `type` (`type Password =`). `before` is the text before the name.
fn qualifier(before: &str) -> &str {
    const QUOTES: [char; 3] = ['"', '\'', '`'];
    let unquoted = before.trim_end_matches(QUOTES);
    let quoted = unquoted.len() < before.len();
    let owner = ["[", "->", "?", "!"].iter().find_map(|end| unquoted.strip_suffix(end));
    let attribute = || unquoted.trim_end().strip_suffix([':', '=']).filter(|_| quoted);
    let keyword = || unquoted.strip_suffix("type ").map(|_| unquoted);
    let Some(rest) = owner.or_else(attribute).or_else(keyword) else { return "" };
    let rest = rest.trim_end().trim_end_matches(QUOTES);
    let part = |char: char| char.is_ascii_alphanumeric() || "_-.$".contains(char);
    let longest =
        rest.char_indices().rev().take(MAX_NAME_BYTES).take_while(|(_, char)| part(*char));
    longest.last().map_or("", |(start, _)| &rest[start..])
}

/// Whether a method with this name sets a password.
pub(super) fn sets(name: &str) -> bool {
    let method = name.rsplit(['.', ':', '>']).next().unwrap_or_default();
    let words = words(method);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    matches!(words.as_slice(), ["set" | "with", "password" | "passwd"] | ["password" | "passwd"])
}

/// Splits a name into lower-case words. `dbPassword`, `DB_PASSWORD` and `db.password` result in the same words.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    let mut chars = name.chars().peekable();
    while let Some(char) = chars.next() {
        let next_small = chars.peek().is_some_and(char::is_ascii_lowercase);
        let begins = char.is_ascii_uppercase()
            && (before.is_ascii_lowercase() || before.is_ascii_uppercase() && next_small);
        if begins || !char.is_ascii_alphanumeric() {
            words.push(String::new());
        }
        if let (true, Some(word)) = (char.is_ascii_alphabetic(), words.last_mut()) {
            word.push(char.to_ascii_lowercase());
        }
        before = char;
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Words that exclude a secret: if a name contains one of them, as in `public_key`, the value of the name is not a
/// secret.
pub(super) const NON_SECRET_WORDS: &str = "public pub hash hashed digest checksum sha md integrity site fingerprint cache \
    primary foreign partition etag commit arn";

/// Words, such as `url`, that denote an attribute of a secret: a name like `token_url` does not denote the secret
/// itself.
pub(super) const ATTRIBUTE_WORDS: &str = "id ids url uri endpoint path file arn regex pattern type name header field label \
    version selector policy";

/// Words, such as `prod`, that may follow the word for a secret: a name like `password_prod` still denotes the secret
/// itself.
const SUFFIXES: &str =
    "key base value b prod production dev staging live default old new str bytes plain string";

/// Words before `key` that make the name unambiguously the name of a secret key, as in `api_key`.
const KEY_PREFIXES: &str = "api access auth private secret encryption signing sign jwt aes master admin license \
    subscription account hmac session crypto cipher webhook deploy client";

/// Classifies a name by its words. The returned `bool` is true if the name unambiguously denotes a secret. `None` if
/// the name does not suggest a secret.
pub(super) fn classify(words: &[String]) -> Option<(SecretKind, bool)> {
    if words.iter().any(|word| among(word, NON_SECRET_WORDS)) {
        return None;
    }
    // CSRF tokens are not secrets, because each is valid for one page of one session only.
    let is_csrf = |word: &String| matches!(word.as_str(), "csrf" | "xsrf" | "authenticity");
    if words.iter().any(is_csrf) && words.last().is_some_and(|word| word == "token") {
        return None;
    }
    let core = |index: usize| {
        let word = words[index].as_str();
        let ends = |with: &[&str]| with.iter().any(|end| word.ends_with(end));
        let before = index.checked_sub(1).map(|index| words[index].as_str());
        if ends(&["password", "passwd", "passphrase", "passcode", "pwd", "securestring"])
            || matches!(
                word,
                "pass" | "dbpass" | "requirepass" | "pw" | "dbpw" | "rootpw" | "userpw"
            )
            || (before, word) == (Some("secure"), "string")
        {
            Some((SecretKind::Password, true))
        } else if ends(&["secret"]) {
            Some((SecretKind::Secret, true))
        } else if ends(&["token", "apikey", "accesskey", "secretkey", "authkey", "privatekey"])
            || matches!(word, "bearer" | "appid")
        {
            Some((SecretKind::Key, true))
        } else if word == "key" {
            before.map(|before| (SecretKind::Key, among(before, KEY_PREFIXES)))
        } else {
            let vague = matches!(
                word,
                "auth" | "creds" | "credential" | "credentials" | "tokens" | "secrets" | "salt"
            );
            vague.then_some((SecretKind::Key, false))
        }
    };
    let (index, (kind, plain)) =
        (0..words.len()).rev().find_map(|index| core(index).map(|core| (index, core)))?;
    let tail = &words[index + 1..];
    if tail.iter().any(|word| among(word, ATTRIBUTE_WORDS)) {
        return None;
    }
    Some((kind, plain && tail.iter().all(|word| among(word, SUFFIXES))))
}
