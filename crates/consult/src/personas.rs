//! Who takes part: two who infer, some who propose, and those who debate. All of it can be exported,
//! edited and passed back.

use assize_debate::Persona;
use assize_types::{
    Failure, FailureKind,
    text::{one_line, shorten},
};
use serde::{Deserialize, Serialize};

/// Everybody in a consultation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Personas {
    /// Who reads the figures and writes F1.
    pub financial: String,
    /// Who reads the news and writes F2.
    pub trend: String,
    /// Who propose moves; their ids are `analyst_1`, `analyst_2` and so on.
    #[serde(rename = "analyst")]
    pub analysts: Vec<Persona>,
    pub critic: String,
    /// Who answer the critic and score; their ids are `D1`, `D2` and so on.
    #[serde(rename = "decision_maker")]
    pub decision_makers: Vec<Persona>,
}

/// A file of personas that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct BadPersonas(String);

/// The most analysts, and the most decision makers.
const MOST: usize = 12;

/// The longest text about one of them, in characters.
const LONGEST: usize = 8000;

/// What is said to each by default, after a line `== name`: to those who infer, then to the analysts.
const DEFAULTS: &str = include_str!("../data/personas.txt");

impl Default for Personas {
    fn default() -> Personas {
        let debate = assize_debate::Personas::default();
        let mut said = Persona::read_all(DEFAULTS);
        let mut inferring = || said.next().map(|one| one.persona).unwrap_or_default();
        Personas {
            financial: inferring(),
            trend: inferring(),
            analysts: said.collect(),
            critic: debate.critic,
            decision_makers: debate.decision_makers,
        }
    }
}

impl Personas {
    /// Reads a file of personas.
    pub fn read(text: &str) -> Result<Personas, BadPersonas> {
        let personas: Personas = toml_edit::de::from_str(text).map_err(|error| {
            let what = one_line(error.message());
            BadPersonas(match error.span().filter(|span| span.start > 0) {
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
            if !(1..=MOST).contains(&count) {
                return Err(BadPersonas(format!(
                    "there must be one to {MOST} of `[[{what}]]`, not {count}"
                )));
            }
        }
        let named: Vec<&Persona> =
            personas.analysts.iter().chain(&personas.decision_makers).collect();
        for (index, Persona { name, .. }) in named.iter().enumerate() {
            let bad = |what: &str| {
                let shown = shorten(&one_line(name).replace(char::is_control, ""), 60);
                Err(BadPersonas(format!("the name `{shown}` {what}")))
            };
            if name.trim().is_empty() {
                return bad("is empty");
            }
            if name.chars().count() > 60 || name.contains(char::is_control) {
                return bad(
                    "is too long, or has control characters: a name is one line of 60 characters",
                );
            }
            if named[..index].iter().any(|other| other.name == *name) {
                return bad("is there twice");
            }
        }
        let fixed = [("financial", &personas.financial), ("trend", &personas.trend)];
        let texts = fixed.into_iter().chain([("critic", &personas.critic)]);
        let texts = texts.chain(named.iter().map(|one| (one.name.as_str(), &one.persona)));
        for (who, text) in texts {
            if text.trim().is_empty() {
                return Err(BadPersonas(format!("nothing is said to `{who}`")));
            }
            let length = text.chars().count();
            if length > LONGEST {
                return Err(BadPersonas(format!(
                    "what is said to `{who}` has {length} characters, and {LONGEST} are the most"
                )));
            }
        }
        Ok(personas)
    }

    /// As a file that can be edited and read again.
    pub fn to_file(&self) -> String {
        let text = |name: &str, value: &str| format!("{name} = {}\n", block(value));
        let mut file = String::from(
            "# Who takes part in a consultation. Edit what you like and pass it back:\n\
             #   assize consult NVDA --personas FILE\n\
             # Add or remove analysts and decision makers; everything else follows from their number.\n\n",
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

    /// Those of them who debate.
    pub fn of_debate(&self) -> assize_debate::Personas {
        assize_debate::Personas {
            critic: self.critic.clone(),
            decision_makers: self.decision_makers.clone(),
        }
    }
}

/// A text of several lines: as it is, or escaped where it has what would end it.
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

impl From<BadPersonas> for Failure {
    fn from(error: BadPersonas) -> Failure {
        Failure::new(FailureKind::Usage, format!("the file of personas cannot be used: {error}"))
            .hint("`assize consult --export-personas` prints one that can")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_exported_can_be_read_again() {
        let personas = Personas::default();
        assert_eq!((personas.analysts.len(), personas.decision_makers.len()), (5, 3));
        assert_eq!(Personas::read(&personas.to_file()), Ok(personas));
    }

    proptest! {
        #[test]
        fn whatever_is_said_to_somebody_is_exported_as_it_is(
            name in "[\\PC\u{301}\u{200b}\"']{1,20}x",
            text in "(?s).{0,40}x('''|\"\"\"|\\\\|'|\r\n|\u{1b}|\\[\\[analyst\\]\\]\n){0,3}",
        ) {
            let mut personas = Personas { critic: text.clone(), ..Personas::default() };
            personas.analysts[0] = Persona { name, persona: text };
            prop_assert_eq!(Personas::read(&personas.to_file()), Ok(personas));
        }
    }

    #[test]
    fn files_that_cannot_be_used_say_why() {
        let told = |text: &str| Personas::read(text).unwrap_err().to_string();
        assert!(told("").contains("missing field `financial`"), "{}", told(""));
        assert!(told("x = ").contains("line 1"), "{}", told("x = "));
        let file = Personas::default().to_file();
        let unknown = format!("boss = 'me'\n{file}");
        assert!(told(&unknown).contains("unknown field `boss`"), "{}", told(&unknown));
        let nobody = &file[..file.find("[[analyst]]").unwrap()];
        let nobody = format!("{nobody}analyst = []\ndecision_maker = []\n");
        assert!(told(&nobody).contains("one to 12 of `[[analyst]]`, not 0"), "{}", told(&nobody));
        let empty = file.replacen("Market Builder", " ", 1);
        assert!(told(&empty).contains("is empty"), "{}", told(&empty));
        let twice = file.replacen("Market Builder", "Contrarian", 1);
        assert_eq!(told(&twice), "the name `Contrarian` is there twice");
        let silent = file.replacen("You propose moves that win", "", 1);
        let silent = silent.replacen("critic = '''", "critic = ''\nx = '''", 1);
        assert!(told(&silent).starts_with("line "), "{}", told(&silent));
    }
}
