//! Plans a single debate: a new run, a resumed run or a fork.

use std::collections::BTreeMap;

use assize_config::SandboxLimits;
use assize_debate::{DebatePersonas, PersonaChange, ROUNDS};
use assize_gateway::{Gateway, Providers};
use assize_run::{NewRun, Run, RunKind, RunOrigin, Store};
use assize_sandbox::{SandboxFactory, SandboxSpec};
use assize_types::text::{is_invisible, replace_control_chars, shorten, validated_text};
use assize_types::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::fork::{ForkRequest, check_new_personas};
use crate::job::placement;

/// Maximum size of a move's text, in MiB. No model could read a longer text.
const MAX_MOVE: u64 = 1;

/// Name of the artifact with the text of the move.
const DOCUMENT: &str = "move.md";

/// Maximum number of rounds of a debate.
pub(super) const MAX_ROUNDS: u32 = 50;

/// Stored input of a debate, from which its run can be resumed or forked. The move is stored as an artifact.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DebateInput {
    pub move_id: String,
    pub ticker: Option<String>,
    pub rounds: u32,
    pub temperature: f64,
    pub max_output_tokens: u32,
    pub context_window: Option<u64>,
    /// Resource limits of the sandbox in which the debate runs.
    #[serde(default)]
    pub limits: SandboxLimits,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Requested isolation. A resumed run uses the same isolation, unless the user requests a different isolation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    pub provider: String,
    pub model: String,
    /// Round from which a fork repeats the calls; null if the run is not a fork, or is a fork without a fork point.
    pub at: Option<u32>,
    /// Persona changes; each change applies from a given round on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<PersonaChange>,
    /// Provider and model that answered the rounds before `at`; null if they are the provider and model of this run.
    pub reused_model: Option<String>,
}

impl DebateInput {
    /// Spec of the sandbox in which the debate runs.
    pub(super) fn spec(&self) -> SandboxSpec {
        SandboxSpec {
            image: self.image.clone(),
            limits: self.limits.clone(),
            ..SandboxSpec::default()
        }
    }
}

/// Request for a debate. A fork uses the value of its parent run for every field that is not set.
#[derive(Debug, Clone, Default)]
pub struct DebateRequest {
    /// Text of the move, as Markdown or plain text.
    pub document: Option<String>,
    pub ticker: Option<String>,
    pub rounds: Option<u32>,
    /// Image of the sandbox in which the debate runs.
    pub image: Option<String>,
}

/// Plan of a debate that is about to start or resume.
#[derive(Debug)]
pub struct DebatePlan {
    pub content: String,
    ticker: Option<String>,
    image: Option<String>,
    rounds: u32,
    pub(super) at: Option<u32>,
    /// New personas by role. They apply from the round `at` on.
    new_personas: BTreeMap<String, String>,
    /// Stored input of the run that is resumed or forked.
    stored_input: Option<DebateInput>,
    /// Whether the debate is allowed to run without a sandbox.
    pub allow_in_process: bool,
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// Checks that the text of a move has a supported size and format.
fn document(text: &str) -> Result<String, Failure> {
    let text = validated_text("the move", MAX_MOVE, text)?;
    if text.starts_with("%PDF") {
        return Err(usage(
            "the file with the move is a PDF, which is not supported; save the move as a text file",
        ));
    }
    if text.contains('\0') {
        return Err(usage(
            "the file with the move contains NUL characters, so it is not a text file",
        ));
    }
    Ok(text)
}

impl DebatePlan {
    /// Plans the debate of a new move.
    pub fn fresh(ask: &DebateRequest) -> Result<DebatePlan, Failure> {
        let content = ask.document.as_deref().map(document).transpose()?;
        Ok(DebatePlan {
            content: content.ok_or_else(|| usage("no move to debate was given"))?,
            ticker: ask.ticker.clone(),
            image: ask.image.clone(),
            rounds: ask.rounds.unwrap_or(ROUNDS),
            at: None,
            new_personas: BTreeMap::new(),
            stored_input: None,
            allow_in_process: false,
        })
    }

    /// Plans to resume a stored debate.
    pub async fn restored(run: &Run, store: &dyn Store) -> Result<DebatePlan, Failure> {
        let before = read_input(run)?;
        Ok(DebatePlan {
            content: stored_document(store, run).await?,
            ticker: before.ticker.clone(),
            image: before.image.clone(),
            rounds: before.rounds,
            at: before.at,
            new_personas: BTreeMap::new(),
            stored_input: Some(before),
            allow_in_process: false,
        })
    }

    /// Plans a fork of a stored debate, with the requested changes.
    pub async fn forked(
        old: &Run,
        from: &ForkRequest,
        ask: &DebateRequest,
        store: &dyn Store,
    ) -> Result<DebatePlan, Failure> {
        from.refuse_move()?;
        let before = read_input(old)?;
        let content = match &ask.document {
            Some(text) => document(text)?,
            None => stored_document(store, old).await?,
        };
        let rounds = ask.rounds.unwrap_or(before.rounds);
        let at = from.at.as_ref().map(|at| at.round);
        if let Some(at) = at.filter(|at| *at > rounds) {
            let message = format!(
                "round {at} does not exist: the number of rounds of the debate is {rounds}"
            );
            return Err(usage(message));
        }
        check_new_personas(&from.new_personas, &DebatePersonas::default())?;
        Ok(DebatePlan {
            content,
            ticker: ask.ticker.clone().or(before.ticker.clone()),
            image: ask.image.clone().or(before.image.clone()),
            rounds,
            at,
            new_personas: from.new_personas.clone(),
            stored_input: Some(before),
            allow_in_process: false,
        })
    }

    /// Input of the run. A resumed run uses its stored input. A fork uses the input of its parent run, unless the
    /// request or the settings override it.
    pub(super) fn input(
        &self,
        origin: &RunOrigin,
        providers: &Providers,
        sandboxes: &SandboxFactory,
        gateway: &Gateway,
    ) -> Result<DebateInput, Failure> {
        let config = &providers.settings;
        let (provider, model) = gateway.name();
        let same = |before: &DebateInput| {
            // A cassette can replay answers of any model.
            providers.cassette.replays()
                || (before.provider.as_str(), before.model.as_str()) == (provider, model)
        };
        let other = self.stored_input.as_ref().filter(|before| !same(before));
        if let (Some(run), Some(before)) = (origin.resumed(), &self.stored_input) {
            return match other {
                None => Ok(before.clone()),
                Some(_) => Err(model_changed(run, before, gateway)),
            };
        }
        if let (Some(parent), Some(before), None) = (origin.parent(), other, self.at) {
            let message = format!(
                "the answers of run `{}` are from {} {}, but {provider} {model} is configured now",
                parent.id, before.provider, before.model
            );
            return Err(Failure::new(FailureKind::Settings, message).hint(format!(
                "choose the round from which the configured model answers: \
                 `assize debate --fork {} --at round-4`; `--at round-1` repeats the whole debate",
                parent.id
            )));
        }
        let before = self.stored_input.as_ref();
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
            limits: placement::limits(sandboxes)?,
            image: self.image.clone(),
            isolation: match (config.sandbox.isolation.requested(), before) {
                (Some(asked), _) => Some(asked.to_string()),
                (None, before) => before.and_then(|before| before.isolation.clone()),
            },
            provider: provider.to_owned(),
            model: model.to_owned(),
            at: self.at,
            changes: self.changes(),
            reused_model: earlier.map(|old| format!("{} {}", old.provider, old.model)),
        })
    }

    /// Persona changes of the parent runs and of this fork.
    fn changes(&self) -> Vec<PersonaChange> {
        let mut changes =
            self.stored_input.as_ref().map(|old| old.changes.clone()).unwrap_or_default();
        if let (Some(from_round), false) = (self.at, self.new_personas.is_empty()) {
            changes.push(PersonaChange { from_round, personas: self.new_personas.clone() });
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
            idempotency_key: None,
        }
    }
}

/// Reads and checks the stored input of a run.
fn read_input(run: &Run) -> Result<DebateInput, Failure> {
    let invalid = |why: String| {
        let message = format!("cannot read the stored input of run `{}`: {why}", run.id);
        Failure::new(FailureKind::Environment, message)
    };
    let input: DebateInput =
        serde_json::from_value(run.input.clone()).map_err(|error| invalid(error.to_string()))?;
    if !(1..=MAX_ROUNDS).contains(&input.rounds) {
        return Err(invalid(format!("invalid number of rounds: {}", input.rounds)));
    }
    Ok(input)
}

async fn stored_document(store: &dyn Store, run: &Run) -> Result<String, Failure> {
    let lost = |why: &str| {
        let message = format!("cannot read the move debated in run `{}`: {why}", run.id);
        Failure::new(FailureKind::Environment, message).hint(
            "start a new debate with the file that contains the move: `assize debate MOVE.md`",
        )
    };
    let artifacts = store.artifacts(&run.id).await?;
    let artifact = artifacts.iter().find(|artifact| artifact.name == DOCUMENT);
    let artifact = artifact.ok_or_else(|| lost("the stored file is missing"))?;
    let bytes = store.artifact(artifact.id).await?;
    String::from_utf8(bytes).map_err(|_| lost("the stored file is not UTF-8 text"))
}

fn model_changed(run: &Run, before: &DebateInput, gateway: &Gateway) -> Failure {
    let (provider, model) = gateway.name();
    let message = format!(
        "run `{}` was started with {} {}, but {provider} {model} is configured now",
        run.id, before.provider, before.model
    );
    let resume = match before.provider.as_str() {
        "rehearsal" => {
            "resume with `--provider rehearsal` and the same `rehearsal.seed`".to_owned()
        }
        "cassette" => "resume with `--replay` and the same cassette".to_owned(),
        provider => format!("resume with `--provider {provider} --model {}`", before.model),
    };
    Failure::new(FailureKind::Settings, message).hint(format!(
        "{resume}, or fork the run with a different model: `assize debate --fork {} --at round-4`",
        run.id
    ))
}

/// Title of a move: the first line of its text that contains a letter or digit.
fn title(content: &str) -> String {
    let plain = content.replace(is_invisible, "");
    let mut lines = plain.lines().map(|line| line.trim().trim_start_matches('#').trim());
    let line = lines.find(|line| line.contains(char::is_alphanumeric)).unwrap_or("a move");
    shorten(&replace_control_chars(&line.replace('\t', " ")), 80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn move_title_is_the_first_line_with_text() {
        assert_eq!(title("\u{feff}# Open a bakery\n\nmore"), "Open a bakery");
        assert_eq!(title("---\n\n## \u{200b}Close it\n"), "Close it");
        assert_eq!(title("\u{1b}[2J evil"), "\u{fffd}[2J evil");
        assert_eq!(title("***\n"), "a move");
        assert_eq!(title(&"x".repeat(100)).chars().count(), 81);
    }
}
