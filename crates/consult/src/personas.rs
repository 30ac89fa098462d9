//! Personas of a consultation: two for the inferences, the analysts, the critic and the decision makers. Users can
//! export the personas to a file, edit the file, and pass it to a new consultation.

use assize_debate::Persona;
use assize_types::{
    Failure, FailureKind,
    text::{one_line, shorten},
};
use serde::{Deserialize, Serialize};

/// All personas of a consultation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConsultPersonas {
    /// Persona of the agent that analyzes the financial data and writes F1.
    pub financial: String,
    /// Persona of the agent that analyzes the news and writes F2.
    pub trend: String,
    /// Personas of the analysts, who propose moves. Their ids are `analyst_1`, `analyst_2` and so on.
    #[serde(rename = "analyst")]
    pub analysts: Vec<Persona>,
    pub critic: String,
    /// Personas of the decision makers, who answer the critic and score the moves. Their ids are `D1`, `D2` and so on.
    #[serde(rename = "decision_maker")]
    pub decision_makers: Vec<Persona>,
}

/// Error for an invalid personas file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidPersonas(String);

/// Maximum number of analysts. The maximum number of decision makers is the same.
const MAX_COUNT: usize = 12;

/// Maximum length of a persona, in characters.
const MAX_LENGTH: usize = 8000;

/// Default personas of the two agents that write the inferences, and then of the analysts. A line `== NAME` precedes
/// each persona.
const DEFAULTS: &str = include_str!("../data/personas.txt");

impl Default for ConsultPersonas {
    fn default() -> ConsultPersonas {
        let debate = assize_debate::DebatePersonas::default();
        let mut all = Persona::read_all(DEFAULTS);
        let mut next = || all.next().map(|one| one.persona).unwrap_or_default();
        ConsultPersonas {
            financial: next(),
            trend: next(),
            analysts: all.collect(),
            critic: debate.critic,
            decision_makers: debate.decision_makers,
        }
    }
}

impl ConsultPersonas {
    /// Parses a personas file.
    pub fn read(text: &str) -> Result<ConsultPersonas, InvalidPersonas> {
        let personas: ConsultPersonas = toml_edit::de::from_str(text).map_err(|error| {
            let what = one_line(error.message());
            InvalidPersonas(match error.span().filter(|span| span.start > 0) {
                Some(span) => {
                    let before = text.get(..span.start).unwrap_or_default();
                    format!("line {}: {what}", before.matches('\n').count() + 1)
                }
                None => what,
            })
        })?;
        for (what, count) in [
            ("analyst", personas.analysts.len()),
            ("decision_maker", personas.decision_makers.len()),
        ] {
            if !(1..=MAX_COUNT).contains(&count) {
                return Err(InvalidPersonas(format!(
                    "expected 1 to {MAX_COUNT} `[[{what}]]` entries, found {count}"
                )));
            }
        }
        let named: Vec<&Persona> =
            personas.analysts.iter().chain(&personas.decision_makers).collect();
        for (index, Persona { name, .. }) in named.iter().enumerate() {
            let bad = |what: &str| {
                let shown = shorten(&one_line(name).replace(char::is_control, ""), 60);
                Err(InvalidPersonas(format!("invalid name `{shown}`: {what}")))
            };
            if name.trim().is_empty() {
                return bad("the name is empty");
            }
            if name.chars().count() > 60 || name.contains(char::is_control) {
                return bad(
                    "a name is one line of at most 60 characters, without control characters",
                );
            }
            if named[..index].iter().any(|other| other.name == *name) {
                return bad("two personas have this name");
            }
        }
        let fixed = [("financial", &personas.financial), ("trend", &personas.trend)];
        let texts = fixed.into_iter().chain([("critic", &personas.critic)]);
        let texts = texts.chain(named.iter().map(|one| (one.name.as_str(), &one.persona)));
        for (role, text) in texts {
            if text.trim().is_empty() {
                return Err(InvalidPersonas(format!("the persona of `{role}` is empty")));
            }
            let length = text.chars().count();
            if length > MAX_LENGTH {
                return Err(InvalidPersonas(format!(
                    "the persona of `{role}` has {length} characters; the maximum is {MAX_LENGTH}"
                )));
            }
        }
        Ok(personas)
    }

    /// Formats the personas as a TOML file that users can edit and pass to a new consultation.
    pub fn to_file(&self) -> String {
        let text = |name: &str, value: &str| format!("{name} = {}\n", block(value));
        let mut file = String::from(
            "# Personas of a consultation. Edit them and pass the file back:\n\
             #   assize consult NVDA --personas FILE\n\
             # You can also add or remove analysts and decision makers.\n\n",
        );
        file.push_str(&text("financial", &self.financial));
        file.push_str(&text("trend", &self.trend));
        file.push_str(&text("critic", &self.critic));
        for (kind, all) in [("analyst", &self.analysts), ("decision_maker", &self.decision_makers)]
        {
            for Persona { name, persona } in all {
                let (name, persona) = (quoted(name), text("persona", persona));
                file.push_str(&format!("\n[[{kind}]]\nname = {name}\n{persona}"));
            }
        }
        file
    }

    /// Returns the personas that take part in debates: the critic and the decision makers.
    pub fn of_debate(&self) -> assize_debate::DebatePersonas {
        assize_debate::DebatePersonas {
            critic: self.critic.clone(),
            decision_makers: self.decision_makers.clone(),
        }
    }
}

/// Formats text as a multi-line TOML string: a literal string, or an escaped string if a literal string cannot
/// contain the text.
fn block(text: &str) -> String {
    let is_control = |c: char| c.is_control() && c != '\n' && c != '\t';
    if text.contains("''") || text.ends_with('\'') || text.contains(is_control) {
        format!("\"\"\"\n{}\"\"\"", escaped(text, true))
    } else {
        format!("'''\n{text}'''")
    }
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", escaped(text, false))
}

fn escaped(text: &str, lines: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => escaped.extend(['\\', c]),
            '\n' if lines => escaped.push(c),
            c if c.is_control() => escaped.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => escaped.push(c),
        }
    }
    escaped
}

impl From<InvalidPersonas> for Failure {
    fn from(error: InvalidPersonas) -> Failure {
        Failure::new(FailureKind::Usage, format!("invalid personas file: {error}"))
            .hint("`assize consult --export-personas` prints a valid personas file")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn exported_personas_parse_to_equal_personas() {
        let personas = ConsultPersonas::default();
        assert_eq!((personas.analysts.len(), personas.decision_makers.len()), (5, 3));
        assert_eq!(ConsultPersonas::read(&personas.to_file()), Ok(personas));
    }

    proptest! {
        #[test]
        fn any_persona_text_survives_export_and_parsing(
            name in "[\\PC\u{301}\u{200b}\"']{1,20}x",
            text in "(?s).{0,40}x('''|\"\"\"|\\\\|'|\r\n|\u{1b}|\\[\\[analyst\\]\\]\n){0,3}",
        ) {
            let mut personas = ConsultPersonas { critic: text.clone(), ..ConsultPersonas::default() };
            personas.analysts[0] = Persona { name, persona: text };
            prop_assert_eq!(ConsultPersonas::read(&personas.to_file()), Ok(personas));
        }
    }

    #[test]
    fn invalid_personas_file_reports_the_reason() {
        let error = |text: &str| ConsultPersonas::read(text).unwrap_err().to_string();
        assert!(error("").contains("missing field `financial`"), "{}", error(""));
        assert!(error("x = ").contains("line 1"), "{}", error("x = "));
        let file = ConsultPersonas::default().to_file();
        let unknown = format!("boss = 'me'\n{file}");
        assert!(error(&unknown).contains("unknown field `boss`"), "{}", error(&unknown));
        let none = &file[..file.find("[[analyst]]").unwrap()];
        let none = format!("{none}analyst = []\ndecision_maker = []\n");
        assert!(
            error(&none).contains("1 to 12 `[[analyst]]` entries, found 0"),
            "{}",
            error(&none)
        );
        let empty = file.replacen("Market Builder", " ", 1);
        assert!(error(&empty).contains("is empty"), "{}", error(&empty));
        let twice = file.replacen("Market Builder", "Contrarian", 1);
        assert_eq!(error(&twice), "invalid name `Contrarian`: two personas have this name");
        let silent = file.replacen("You propose moves that win", "", 1);
        let silent = silent.replacen("critic = '''", "critic = ''\nx = '''", 1);
        assert!(error(&silent).starts_with("line "), "{}", error(&silent));
    }
}
