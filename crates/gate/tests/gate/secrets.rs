//! Tests of the secret scanner: its precision and recall on a labelled corpus, and its robustness against unusual
//! input.

#![expect(clippy::print_stdout, reason = "the test prints the measured figures")]

use assize_gate::FileKind;
use assize_gate::corpus::{self, CorpusCase};
use assize_gate::machine_paths::PathScanner;
use assize_gate::secrets::{ALLOW_COMMENT, FoundSecret, SecretScanner};
use proptest::prelude::*;

/// A labelled line or text of the corpus of secrets.
struct Labelled {
    case: CorpusCase,
    /// Kind of the file that contains the line or text.
    kind: FileKind,
    /// Name of the rule that should find a secret; `-` for any rule, `None` if there is no secret.
    key: Option<&'static str>,
    /// Whether the case is held out: it was not used while the rules were improved.
    held_out: bool,
}

fn labelled() -> Vec<Labelled> {
    let of = |case: CorpusCase| Labelled {
        kind: FileKind::of(case.path),
        key: (case.label != corpus::NO_SECRET).then_some(case.label),
        held_out: case.index % 3 == 2,
        case,
    };
    corpus::secrets().unwrap().into_iter().map(of).collect()
}

fn in_line(line: &str, kind: FileKind) -> Vec<FoundSecret> {
    SecretScanner::get().unwrap().in_line(line, kind)
}

/// Finds secrets in a text whose lines are all new.
fn in_text(text: &str, kind: FileKind) -> Vec<FoundSecret> {
    let found = SecretScanner::get().unwrap().in_text(text, kind, |_| true);
    found.into_iter().map(|(_, secret)| secret).collect()
}

/// Numbers of true and false positives and negatives of the secret scanner.
#[derive(Default)]
struct Counts {
    found: usize,
    missed: usize,
    alarms: usize,
    plain: usize,
}

impl Counts {
    fn of<'a>(lines: impl Iterator<Item = &'a Labelled>) -> Counts {
        let mut counts = Counts::default();
        for line in lines {
            match (line.key, in_text(&line.case.text, line.kind).is_empty()) {
                (Some(_), false) => counts.found += 1,
                (Some(_), true) => counts.missed += 1,
                (None, false) => counts.alarms += 1,
                (None, true) => counts.plain += 1,
            }
        }
        counts
    }

    fn precision(&self) -> f64 {
        self.found as f64 / (self.found + self.alarms) as f64
    }

    fn recall(&self) -> f64 {
        self.found as f64 / (self.found + self.missed) as f64
    }

    fn print(&self, name: &str) {
        println!(
            "{name:>9}: precision {:.3}, recall {:.3}; {} found, {} missed, {} false alarms, {} correctly accepted",
            self.precision(),
            self.recall(),
            self.found,
            self.missed,
            self.alarms,
            self.plain
        );
    }
}

/// Maximum number of secrets in the corpus that the scanner may miss.
const KNOWN_MISSES: usize = 3;
/// Maximum number of secrets in the corpus that may be found by a different rule than the one in their label.
const BY_ANOTHER_RULE: usize = 18;

#[test]
fn secret_scanner_has_no_false_alarms_and_few_misses_on_the_labelled_corpus() {
    let lines = labelled();
    let mut by_another_rule = 0;
    for line in &lines {
        let part = if line.held_out { "held-out" } else { "seen" };
        let rules: Vec<&str> =
            in_text(&line.case.text, line.kind).iter().map(|secret| secret.rule).collect();
        let (list, number, text) = (line.case.list, line.case.number, &line.case.text);
        match line.key {
            Some(rule) if rules.is_empty() => {
                println!("missed ({part}) {list}:{number} {rule}: {text}");
            }
            Some(rule) if rule != "-" && !rules.contains(&rule) => {
                println!("by another rule ({part}) {list}:{number} {rule}: {rules:?}");
                by_another_rule += 1;
            }
            None if !rules.is_empty() => {
                println!("false alarm ({part}) {list}:{number} {rules:?}: {text}");
            }
            _ => {}
        }
    }
    let all = Counts::of(lines.iter());
    Counts::of(lines.iter().filter(|line| !line.held_out)).print("seen");
    Counts::of(lines.iter().filter(|line| line.held_out)).print("held out");
    all.print("all");
    assert!(all.found + all.missed >= 690 && all.alarms + all.plain >= 800);
    // The missed secrets are printed above. A change of the rules may reduce their number but not increase it.
    assert!(all.missed <= KNOWN_MISSES, "{} secrets are missed", all.missed);
    assert!(
        by_another_rule <= BY_ANOTHER_RULE,
        "{by_another_rule} secrets are found by another rule than the rule in their label"
    );
    assert_eq!(all.alarms, 0);
}

#[test]
fn literal_password_is_found_and_references_and_placeholders_are_not() {
    let has_password = |line: &str| !in_line(line, FileKind::Code).is_empty();
    for line in [
        r#"create_user(is_admin=True, password="hunter2")"#,
        r#"login(type=BASIC, check=False, password="orange")"#,
        r#"if has_mail and password == "hunter2":"#,
        r#"password = "123""#,
        r#"password = "super$ecret""#,
        r#"password = "hunter2(""#,
        r#"password = """hunter2""""#,
        r#"password = f"hunter2""#,
        r#"password = ("hunter2")"#,
        "DB_PASSWORD=${DB_PASSWORD:-hunter2}",
    ] {
        assert!(has_password(line), "{line}");
    }
    for (line, path) in [
        ("DB_PASSWORD=hunter2", "run.sh"),
        ("export PGPASSWORD=hunter2", "run.sh"),
        ("ENV DB_PASSWORD hunter2", "Dockerfile"),
    ] {
        assert!(!in_line(line, FileKind::of(path)).is_empty(), "{line}");
    }
    // These lines contain no literal password: a word qualifies the name, or the value is a reference or a placeholder.
    for line in [
        r#"errors["password"] = "weak""#,
        r#"{ type: "password", value: "Anmelden" }"#,
        r#"export type Password = "weak" | "strong";"#,
        r#"password = "${PASSWORD}""#,
        r#"password = "$PASSWORD""#,
        r#"password = "getenv(PASSWORD)""#,
        r#"password = getenv("PASSWORD")"#,
        r#"password = "pw""#,
        r#"password = f"{user.password}""#,
        r#"password = (input("Password: "))"#,
        "DB_PASSWORD=${DB_PASSWORD:-}",
        "DB_PASSWORD=${DB_PASSWORD:-changeme}",
    ] {
        assert!(!has_password(line), "{line}");
    }
}

/// Checks for each multi-line or encoded text of the corpus that the rule in its label finds the secret. If the label
/// says that the text has no secret, no rule may match.
#[test]
fn multi_line_and_encoded_secrets_of_the_corpus_are_found_by_the_labelled_rule() {
    let mut texts = labelled();
    texts.retain(|text| text.case.list == "texts.txt");
    let wrong: Vec<String> = texts
        .iter()
        .filter_map(|text| {
            let rules: Vec<&str> =
                in_text(&text.case.text, text.kind).iter().map(|secret| secret.rule).collect();
            let right = match text.key {
                None => rules.is_empty(),
                Some("-") => !rules.is_empty(),
                Some(rule) => rules.contains(&rule),
            };
            (!right).then(|| format!("texts.txt:{} {:?}: {rules:?}", text.case.number, text.key))
        })
        .collect();
    assert!(texts.len() >= 120);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn multi_line_secret_is_reported_if_one_of_its_lines_is_new() {
    let scanner = SecretScanner::get().unwrap();
    let text = "env:\n  - name: DB_PASSWORD\n    value: hunter2\n  - name: MODE\n    value: fast\n";
    let lines = |new: &[usize]| -> Vec<usize> {
        let found = scanner.in_text(text, FileKind::Config, |line| new.contains(&line));
        found.into_iter().map(|(line, _)| line).collect()
    };
    assert_eq!(lines(&[2]), [2]);
    assert_eq!(lines(&[3]), [3]);
    assert_eq!(lines(&[2, 3]), [2]);
    assert_eq!(lines(&[1, 4, 5]), [] as [usize; 0]);
    let key = ["-----BEGIN PRIVATE", " KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END-----\n"].concat();
    let found = scanner.in_text(&key, FileKind::Code, |line| line == 2);
    assert_eq!(
        found.iter().map(|(line, secret)| (*line, secret.rule)).collect::<Vec<_>>(),
        [(2, "private-key")]
    );
}

#[test]
fn token_in_the_name_of_a_file_or_task_is_found() {
    let scanner = SecretScanner::get().unwrap();
    let token = ["ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"].concat();
    for name in [format!("docs/{token}.md"), format!("fix_{token}"), token] {
        assert!(scanner.in_name(&name).is_some(), "{name}");
    }
    for name in [
        "letters/xoxo-from-all-of-us-2026.txt",
        "src/api_key.rs",
        "docs/password-reset.md",
        "assets/app-3f2a9c81b7d64e50.js",
        "phase10_version_flag",
        "e2e/auth/token.spec.ts",
    ] {
        assert_eq!(scanner.in_name(name), None, "{name}");
    }
}

/// If the corpus contained keys in a known format, secret scanners would report this repository.
#[test]
fn files_of_the_secrets_corpus_contain_no_key_in_a_known_format() {
    for line in corpus::unexpanded_lines() {
        let mut found = in_line(line, FileKind::Code);
        let by_place = ["assigned-", "command-line-", "login-", "pgpass"];
        found.retain(|secret| !by_place.iter().any(|place| secret.rule.starts_with(place)));
        assert!(found.is_empty(), "{line}: {found:?}");
    }
}

#[test]
fn masked_secret_shows_at_most_four_characters() {
    for line in labelled().iter().filter(|line| line.key.is_some()) {
        for secret in in_text(&line.case.text, line.kind) {
            let shown = secret.masked.split('…').next().unwrap_or_default();
            assert!(shown.chars().count() <= 4, "{}", secret.masked);
        }
    }
}

#[test]
fn secret_with_an_allow_comment_is_marked_as_allowed() {
    for line in labelled().iter().filter(|line| line.key.is_some()) {
        let text = line.case.text.replace('\n', &format!(" # {ALLOW_COMMENT}\n"));
        let found = in_text(&format!("{text} # {ALLOW_COMMENT}"), line.kind);
        assert!(found.iter().all(|secret| secret.allowed), "{}", line.case.text);
    }
}

/// Checks that the scan of very long lines ends and finds a key at the end of the line. Speed is not tested. The
/// scanner examines only the first thousand names of a line and limits the number of findings, but it searches the
/// whole line for known key formats.
#[test]
fn secret_scanner_finds_a_key_at_the_end_of_a_line_of_one_megabyte() {
    let size = 1 << 20;
    let key = ["ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"].concat();
    let far_apart = format!("{}password=", "x1".repeat(500));
    for piece in ["A1", "password=", "é\"", "a://b:", &far_apart] {
        let line = piece.repeat(size / piece.len());
        let found = in_line(&format!("{line} {key} "), FileKind::Code);
        assert!(found.iter().any(|secret| secret.rule == "github-token"), "{piece}");
    }
}

/// Each text repeats the beginning of a multi-line statement thousands of times, but no statement is completed.
#[test]
fn secret_scanner_finds_a_key_after_many_unfinished_statements() {
    let key = ["ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"].concat();
    for piece in [
        "\"a\" +\n",
        "\"a\" \"b\" ",
        "password:\n",
        "name: password\n",
        "{\"kty\": \"RSA\"",
        "<password ",
        "kind: Secret\ndata:\n",
        "a \\\n",
        &["-----BEGIN PRIVATE", " KEY-----\n"].concat(),
    ] {
        let text = format!("{}\n\n{key}\n", piece.repeat((1 << 17) / piece.len()));
        let found = in_text(&text, FileKind::Config);
        assert!(found.iter().any(|secret| secret.rule == "github-token"), "{piece}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn secret_scanner_does_not_panic_on_random_texts(text in "(?s)[ -~\n\t\u{ad}é<>\"'=:{}\\\\]{0,300}") {
        in_text(&text, FileKind::Config);
        in_text(&format!("password: {text}"), FileKind::Code);
    }

    #[test]
    fn secret_and_path_scanners_do_not_panic_on_random_lines(line in "\\PC{0,200}") {
        in_line(&line, FileKind::Config);
        PathScanner::get().unwrap().in_line(&line, FileKind::Code);
    }

    #[test]
    fn masked_random_password_shows_at_most_four_characters(value in "\\PC{0,40}", middle in 0usize..8) {
        let middle = [" = \"", ": '", "=", "://u:", "\": \"", " Bearer ", "(\"", " "][middle];
        for secret in in_line(&format!("password{middle}{value}\"@x"), FileKind::Config) {
            let shown = secret.masked.split('…').next().unwrap_or_default();
            prop_assert!(shown.chars().count() <= 4);
        }
    }

    /// A random key may contain a placeholder word by chance. It must still be found, because enough random characters
    /// remain when the word is removed.
    #[test]
    fn secret_scanner_finds_a_random_key_that_contains_a_placeholder_word(
        before in "[A-Za-z0-9]{16}", after in "[A-Za-z0-9]{16}", word in 0usize..6
    ) {
        let word = ["xxxx", "fake", "Todo", "Test", "abcd", "1234"][word];
        let found = in_line(&format!("ghp_{before}{word}{after}"), FileKind::Code);
        prop_assert_eq!(found.len(), 1);
    }
}
