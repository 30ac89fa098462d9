//! Code in colours: enough of each language to tell words, texts and remarks apart at a glance.

use crate::terminal::{DIM, GOOD, KEYWORD, NUMBER, harmless, paint};
use assize_code::Language;

const PYTHON: &str = "False None True and as assert async await break case class continue def del elif \
    else except finally for from global if import in is lambda match nonlocal not or pass raise return \
    try while with yield";
const JAVASCRIPT: &str = "async await break case catch class const continue default delete do else \
    export extends false finally for from function if import in instanceof let new null of return \
    static super switch this throw true try typeof undefined var void while yield";
const BASH: &str = "case declare do done elif else esac exit export fi for function if in local \
    readonly return select set shift source then time trap unset until while";

/// The code with its styles. Nothing in it can drive a terminal.
pub(super) fn code(code: &str, language: Language) -> String {
    let keywords = match language {
        Language::Python => PYTHON,
        Language::JavaScript => JAVASCRIPT,
        Language::Bash => BASH,
    };
    let keywords: Vec<&str> = keywords.split_whitespace().collect();
    let remark = if language == Language::JavaScript { "//" } else { "#" };
    let mut styled = String::new();
    let mut before = '\n';
    let mut rest = code;
    while let Some(c) = rest.chars().next() {
        // In Bash a mark within a word begins no remark.
        let may_begin = language != Language::Bash || before.is_whitespace() || before == ';';
        let (length, style) = if let Some(length) = text(rest, language) {
            (length, Some(GOOD))
        } else if rest.starts_with(remark) && may_begin {
            (rest.find('\n').unwrap_or(rest.len()), Some(DIM))
        } else if c.is_alphabetic() || c == '_' {
            let length = run(rest, |c| c.is_alphanumeric() || c == '_');
            (length, keywords.contains(&&rest[..length]).then_some(KEYWORD))
        } else if c.is_ascii_digit() {
            (run(rest, |c| c.is_alphanumeric() || c == '.' || c == '_'), Some(NUMBER))
        } else {
            (c.len_utf8(), None)
        };
        let (piece, after) = rest.split_at(length);
        // A style for each line: whoever pages through them sees one at a time.
        let lines = piece.split('\n').map(|line| match style {
            Some(style) if !line.is_empty() => paint(style, harmless(line)),
            _ => harmless(line),
        });
        styled.push_str(&lines.collect::<Vec<_>>().join("\n"));
        before = piece.chars().next_back().unwrap_or(before);
        rest = after;
    }
    styled
}

fn run(text: &str, fits: impl Fn(char) -> bool) -> usize {
    text.find(|c| !fits(c)).unwrap_or(text.len())
}

/// How long the text in quotes is that begins here, if one does.
fn text(rest: &str, language: Language) -> Option<usize> {
    let quotes: &[&str] = match language {
        Language::Python => &["\"\"\"", "'''", "\"", "'"],
        Language::JavaScript => &["`", "\"", "'"],
        Language::Bash => &["\"", "'"],
    };
    let quote = quotes.iter().find(|quote| rest.starts_with(**quote))?;
    let lasts = quote.len() == 3 || *quote == "`" || language == Language::Bash;
    let escapes = !(language == Language::Bash && *quote == "'");
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(quote.len()) {
        match c {
            _ if escaped => escaped = false,
            '\\' if escapes => escaped = true,
            '\n' if !lasts => return Some(at),
            _ if rest[at..].starts_with(*quote) => return Some(at + quote.len()),
            _ => {}
        }
    }
    Some(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(styled: &str) -> String {
        anstream::adapter::strip_str(styled).to_string()
    }

    #[test]
    fn nothing_is_lost_and_nothing_drives_the_terminal() {
        for (language, text) in [
            (
                Language::Python,
                "def f(x):  # a remark\n    return 'it\\'s' + \"\"\"two\nlines\"\"\" + x[1:]\n",
            ),
            (Language::JavaScript, "const f = `a ${1}`; // done\nlet s = 'open\nvar é = \"x"),
            (Language::Bash, "for f in *; do echo \"$f #no\" a#b; done # yes\n"),
        ] {
            assert_eq!(plain(&code(text, language)), text);
            assert!(code(text, language).contains("\u{1b}["), "{language}");
        }
        let evil = "print('\u{1b}[2J')";
        assert_eq!(plain(&code(evil, Language::Python)), "print('\u{fffd}[2J')");
    }
}
