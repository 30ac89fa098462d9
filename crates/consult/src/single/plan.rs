//! Plan of a debate: a new move, a run that is resumed, or a fork.

use std::collections::BTreeMap;

use assize_config::Limits;
use assize_debate::{Change, Personas, ROUNDS};
use assize_gateway::{Gateway, Providers};
use assize_run::{NewRun, Origin, Run, RunKind, Store};
use assize_sandbox::{Sandboxes, Spec};
use assize_types::text::{checked, harmless, is_invisible, shorten};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fork::{ForkRequest, check_told};
use crate::job::ground;

/// The longest document, in MiB: more would fit no model.
const LONGEST_MOVE: u64 = 1;

/// The name of the document among a run's artifacts.
const DOCUMENT: &str = "move.md";

/// The most rounds that can be asked for.
pub(super) const MOST_ROUNDS: u32 = 50;

/// What a run of a debate needs to be run again; the document is kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DebateInput {
    pub move_id: String,
    pub ticker: Option<String>,
    pub rounds: u32,
    pub temperature: f64,
    pub max_output_tokens: u32,
    pub context_window: Option<u64>,
    /// Of the sandbox that it runs in.
    #[serde(default)]
    pub limits: Limits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The isolation that was asked for; it holds when the run is resumed, unless another is asked for then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    pub provider: String,
    pub model: String,
    /// The round from which a fork asks anew.
    pub at: Option<u32>,
    /// Who was told to be somebody else, and from when on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Who answered the rounds before, if it was someone else.
    pub answered_before_by: Option<String>,
}

impl DebateInput {
    /// The sandbox that it runs in.
    pub(super) fn spec(&self) -> Spec {
        Spec { image: self.image.clone(), limits: self.limits.clone(), ..Spec::default() }
    }
}

/// What can be asked for. Of a fork, what is not said is as it was.
#[derive(Debug, Clone, Default)]
pub struct DebateAsk {
    /// The move, in Markdown or as plain text.
    pub document: Option<String>,
    pub ticker: Option<String>,
    pub rounds: Option<u32>,
    /// The image of its sandbox.
    pub image: Option<String>,
}

/// A debate that is about to begin, or to go on.
#[derive(Debug)]
pub struct DebatePlan {
    pub content: String,
    ticker: Option<String>,
    image: Option<String>,
    rounds: u32,
    pub(super) at: Option<u32>,
    /// What some are told to be from there on.
    told: BTreeMap<String, String>,
    /// What was asked for before, where this is not the first time.
    before: Option<DebateInput>,
    /// Whether it may run without a sandbox.
    pub allow_in_process: bool,
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// A move, as whoever asks words it.
fn document(text: &str) -> Result<String, Failure> {
    let text = checked("the move", LONGEST_MOVE, text)?;
    if text.starts_with("%PDF") {
        return Err(usage("the move is a PDF; save its text, and debate that"));
    }
    if text.contains('\0') {
        return Err(usage("the move has NUL characters in it, so it is no text"));
    }
    Ok(text)
}

impl DebatePlan {
    /// A debate of a new move.
    pub fn fresh(ask: &DebateAsk) -> Result<DebatePlan, Failure> {
        let content = ask.document.as_deref().map(document).transpose()?;
        Ok(DebatePlan {
            content: content.ok_or_else(|| usage("there is no move to debate"))?,
            ticker: ask.ticker.clone(),
            image: ask.image.clone(),
            rounds: ask.rounds.unwrap_or(ROUNDS),
            at: None,
            told: BTreeMap::new(),
            before: None,
            allow_in_process: false,
        })
    }

    /// The plan of a stored debate.
    pub async fn restored(run: &Run, store: &dyn Store) -> Result<DebatePlan, Failure> {
        let before = read_input(run)?;
        Ok(DebatePlan {
            content: kept_document(store, run).await?,
            ticker: before.ticker.clone(),
            image: before.image.clone(),
            rounds: before.rounds,
            at: before.at,
            told: BTreeMap::new(),
            before: Some(before),
            allow_in_process: false,
        })
    }

    /// A debate that starts from an earlier one: as that was, but for what is asked for.
    pub async fn forked(
        old: &Run,
        from: &ForkRequest,
        ask: &DebateAsk,
        store: &dyn Store,
    ) -> Result<DebatePlan, Failure> {
        from.refuse_move()?;
        let before = read_input(old)?;
        let content = match &ask.document {
            Some(text) => document(text)?,
            None => kept_document(store, old).await?,
        };
        let rounds = ask.rounds.unwrap_or(before.rounds);
        let at = from.at.as_ref().map(|at| at.round);
        if let Some(at) = at.filter(|at| *at > rounds) {
            return Err(usage(format!("there is no round {at} in a debate of {rounds} rounds")));
        }
        check_told(&from.told, &Personas::default())?;
        Ok(DebatePlan {
            content,
            ticker: ask.ticker.clone().or(before.ticker.clone()),
            image: ask.image.clone().or(before.image.clone()),
            rounds,
            at,
            told: from.told.clone(),
            before: Some(before),
            allow_in_process: false,
        })
    }

    /// What the run is to be run with: as before, where there was a before, unless flags say
    /// otherwise.
    pub(super) fn input(
        &self,
        origin: &Origin,
        providers: &Providers,
        sandboxes: &Sandboxes,
        gateway: &Gateway,
    ) -> Result<DebateInput, Failure> {
        let config = &providers.settings;
        let (provider, model) = gateway.name();
        let same = |before: &DebateInput| {
            // A cassette answers in whoever's name it was recorded.
            providers.tape.replays()
                || (before.provider.as_str(), before.model.as_str()) == (provider, model)
        };
        let other = self.before.as_ref().filter(|before| !same(before));
        if let (Some(run), Some(before)) = (origin.resumed(), &self.before) {
            return match other {
                None => Ok(before.clone()),
                Some(_) => Err(another_model(run, before, gateway)),
            };
        }
        if let (Some(parent), Some(before), None) = (origin.parent(), other, self.at) {
            let message = format!(
                "`{}` was answered by {} {}, and {provider} {model} would answer now",
                parent.id, before.provider, before.model
            );
            return Err(Failure::new(FailureKind::Settings, message).hint(format!(
                "say from which round on another model answers, such as `--at round-1` for all of \
                 it: `assize debate --fork {} --at round-4`",
                parent.id
            )));
        }
        let before = self.before.as_ref();
        let earlier = other.filter(|_| self.at != Some(1));
        Ok(DebateInput {
            move_id: before.map_or_else(|| "m1".to_owned(), |before| before.move_id.clone()),
            ticker: self.ticker.clone(),
            rounds: self.rounds,
            temperature: match (before, config.general.temperature.requested()) {
                (Some(before), None) => before.temperature,
                _ => *config.general.temperature,
            },
            max_output_tokens: match (before, config.general.max_output_tokens.requested()) {
                (Some(before), None) => before.max_output_tokens,
                _ => *config.general.max_output_tokens,
            },
            context_window: gateway.facts().map(|facts| facts.context_window),
            limits: ground::limits(sandboxes)?,
            image: self.image.clone(),
            isolation: match (config.sandbox.isolation.requested(), before) {
                (Some(asked), _) => Some(asked.to_string()),
                (None, before) => before.and_then(|before| before.isolation.clone()),
            },
            provider: provider.to_owned(),
            model: model.to_owned(),
            at: self.at,
            changes: self.changes(),
            answered_before_by: earlier.map(|old| format!("{} {}", old.provider, old.model)),
        })
    }

    /// Who is told to be somebody else: as before, and as asked for now.
    fn changes(&self) -> Vec<Change> {
        let mut changes = self.before.as_ref().map(|old| old.changes.clone()).unwrap_or_default();
        if let (Some(from_round), false) = (self.at, self.told.is_empty()) {
            changes.push(Change { from_round, personas: self.told.clone() });
        }
        changes
    }

    pub(super) fn new_run(&self, input: &DebateInput) -> NewRun {
        NewRun {
            kind: RunKind::Debate,
            title: title(&self.content),
            parent: None,
            input: json!(input),
            artifacts: vec![(DOCUMENT.to_owned(), self.content.clone().into_bytes())],
            once: None,
        }
    }
}

/// What a run was begun with.
fn read_input(run: &Run) -> Result<DebateInput, Failure> {
    let broken = |why: String| {
        let message = format!("the run `{}` cannot be read: {why}", run.id);
        Failure::new(FailureKind::Environment, message)
    };
    let input: DebateInput =
        serde_json::from_value(run.input.clone()).map_err(|error| broken(error.to_string()))?;
    if !(1..=MOST_ROUNDS).contains(&input.rounds) {
        return Err(broken(format!("no debate has {} rounds", input.rounds)));
    }
    Ok(input)
}

async fn kept_document(store: &dyn Store, run: &Run) -> Result<String, Failure> {
    let lost = |why: &str| {
        let message = format!("the move of `{}` {why}", run.id);
        Failure::new(FailureKind::Environment, message)
            .hint("debate the file again: `assize debate MOVE.md`")
    };
    let artifacts = store.artifacts(&run.id).await?;
    let artifact = artifacts.iter().find(|artifact| artifact.name == DOCUMENT);
    let artifact = artifact.ok_or_else(|| lost("was not kept"))?;
    let bytes = store.artifact(artifact.id).await?;
    String::from_utf8(bytes).map_err(|_| lost("is not UTF-8 text"))
}

fn another_model(run: &Run, before: &DebateInput, gateway: &Gateway) -> Failure {
    let (provider, model) = gateway.name();
    let message = format!(
        "`{}` was begun with {} {}, and {provider} {model} would answer now",
        run.id, before.provider, before.model
    );
    let go_on = match before.provider.as_str() {
        "rehearsal" => "go on with `--provider rehearsal` and the same `rehearsal.seed`".to_owned(),
        "cassette" => "go on with `--replay` and the same cassette".to_owned(),
        provider => format!("go on with `--provider {provider} --model {}`", before.model),
    };
    Failure::new(FailureKind::Settings, message).hint(format!(
        "{go_on}, or start from it with another model: `assize debate --fork {} --at round-4`",
        run.id
    ))
}

/// The first line of a document that says something.
fn title(content: &str) -> String {
    let plain = content.replace(is_invisible, "");
    let mut lines = plain.lines().map(|line| line.trim().trim_start_matches('#').trim());
    let line = lines.find(|line| line.contains(char::is_alphanumeric)).unwrap_or("a move");
    shorten(&harmless(&line.replace('\t', " ")), 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_that_says_something() {
        assert_eq!(title("\u{feff}# Open a bakery\n\nmore"), "Open a bakery");
        assert_eq!(title("---\n\n## \u{200b}Close it\n"), "Close it");
        assert_eq!(title("\u{1b}[2J evil"), "\u{fffd}[2J evil");
        assert_eq!(title("***\n"), "a move");
        assert_eq!(title(&"x".repeat(100)).chars().count(), 81);
    }
}
