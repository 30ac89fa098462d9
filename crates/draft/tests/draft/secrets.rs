//! Keys are found where they stand, and little else is taken for one.

#![expect(clippy::print_stdout, reason = "the numbers are what the test is for")]

use assize_draft::FileKind;
use assize_draft::hardcoded::PathScanner;
use assize_draft::secrets::{ALLOWED, Secret, SecretScanner};
use proptest::prelude::*;

use crate::corpus::{Labelled, labelled, undrawn};

fn in_line(line: &str, kind: FileKind) -> Vec<Secret> {
    SecretScanner::get().unwrap().in_line(line, kind)
}

/// How many lines were told right, and wrong.
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
            match (line.key, in_line(&line.text, line.kind).is_empty()) {
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
            "{name:>9}: precision {:.3}, recall {:.3}; {} found, {} missed, {} false alarms, {} rightly passed",
            self.precision(),
            self.recall(),
            self.found,
            self.missed,
            self.alarms,
            self.plain
        );
    }
}

#[test]
fn precision_and_recall_on_the_labelled_corpus() {
    let lines = labelled();
    for line in &lines {
        let part = if line.held_out { "held-out" } else { "seen" };
        let rules: Vec<&str> =
            in_line(&line.text, line.kind).iter().map(|secret| secret.rule).collect();
        let (number, text) = (line.number, &line.text);
        match line.key {
            Some(rule) if rules.is_empty() => {
                println!("missed ({part}) keys.txt:{number} {rule}: {text}");
            }
            Some(rule) if rule != "-" && !rules.contains(&rule) => {
                println!("by another rule ({part}) keys.txt:{number} {rule}: {rules:?}");
            }
            None if !rules.is_empty() => {
                println!("false alarm ({part}) plain.txt:{number} {rules:?}: {text}");
            }
            _ => {}
        }
    }
    let all = Counts::of(lines.iter());
    Counts::of(lines.iter().filter(|line| !line.held_out)).print("seen");
    Counts::of(lines.iter().filter(|line| line.held_out)).print("held out");
    all.print("all");
    assert!(all.found + all.missed >= 350 && all.alarms + all.plain >= 450);
    assert!(all.precision() >= 0.95, "precision {:.3}", all.precision());
    assert!(all.recall() >= 0.95, "recall {:.3}", all.recall());
}

#[test]
fn password_is_found_beside_other_words_of_its_statement() {
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
    // The word that the name belongs to makes it something else.
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

/// Otherwise a scanner that looks over this repository finds what this one is tried on.
#[test]
fn the_corpus_itself_holds_no_key_of_a_providers_form() {
    for line in undrawn() {
        let mut found = in_line(line, FileKind::Code);
        let by_place = ["assigned-", "command-line-", "login-"];
        found.retain(|secret| !by_place.iter().any(|place| secret.rule.starts_with(place)));
        assert!(found.is_empty(), "{line}: {found:?}");
    }
}

#[test]
fn no_more_than_four_characters_are_shown() {
    for line in labelled().iter().filter(|line| line.key.is_some()) {
        for secret in in_line(&line.text, line.kind) {
            let shown = secret.masked.split('…').next().unwrap_or_default();
            assert!(shown.chars().count() <= 4, "{}", secret.masked);
        }
    }
}

#[test]
fn a_line_may_say_that_it_stays() {
    for line in labelled().iter().filter(|line| line.key.is_some()) {
        let found = in_line(&format!("{} # {ALLOWED}", line.text), line.kind);
        assert!(found.iter().all(|secret| secret.allowed), "{}", line.text);
    }
}

/// That these end is all that is asked here; how fast they do is for a benchmark. Of the names in such a line
/// only the first thousand are looked at, and only so many findings told; forms are looked for in all of it.
#[test]
fn a_line_of_a_megabyte_is_looked_through() {
    let size = 1 << 20;
    let key = ["ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"].concat();
    let far_apart = format!("{}password=", "x1".repeat(500));
    for piece in ["A1", "password=", "é\"", "a://b:", &far_apart] {
        let line = piece.repeat(size / piece.len());
        let found = in_line(&format!("{line} {key} "), FileKind::Code);
        assert!(found.iter().any(|secret| secret.rule == "github-token"), "{piece}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_is_too_odd(line in "\\PC{0,200}") {
        in_line(&line, FileKind::Config);
        PathScanner::get().unwrap().in_line(&line, FileKind::Code);
    }

    #[test]
    fn no_value_is_too_odd(value in "\\PC{0,40}", middle in 0usize..8) {
        let middle = [" = \"", ": '", "=", "://u:", "\": \"", " Bearer ", "(\"", " "][middle];
        for secret in in_line(&format!("password{middle}{value}\"@x"), FileKind::Config) {
            let shown = secret.masked.split('…').next().unwrap_or_default();
            prop_assert!(shown.chars().count() <= 4);
        }
    }

    /// A placeholder has little besides its words; a key has chance, whatever words it happens to have.
    #[test]
    fn a_word_of_a_placeholder_inside_a_key_hides_nothing(
        before in "[A-Za-z0-9]{16}", after in "[A-Za-z0-9]{16}", word in 0usize..6
    ) {
        let word = ["xxxx", "fake", "Todo", "Test", "abcd", "1234"][word];
        let found = in_line(&format!("ghp_{before}{word}{after}"), FileKind::Code);
        prop_assert_eq!(found.len(), 1);
    }
}
