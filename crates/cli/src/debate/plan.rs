//! What is to be debated: a new move, a run that goes on, or a fork of one.

use std::collections::BTreeMap;

use assize_debate::{Change, Personas, Place, ROUNDS};
use assize_gateway::Gateway;
use assize_graph::{Key, Record};
use assize_llm::Request;
use assize_store::{NewRun, Run, Store};
use assize_types::Cancel;
use assize_types::text::{is_invisible, shorten};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::args::DebateArgs;
use crate::config::Config;
use crate::failure::{Failure, FailureKind};
use crate::terminal;
use crate::{fork, input, kept};

/// The longest document, in MiB: more would fit no model.
const LONGEST_MOVE: u64 = 1;

/// The name of the document among a run's artifacts.
const DOCUMENT: &str = "move.md";

/// The most rounds that can be asked for.
pub(super) const MOST_ROUNDS: u32 = 50;

/// What a run of a debate needs to be run again; the document is kept beside it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Input {
    pub(super) move_id: String,
    pub(super) ticker: Option<String>,
    pub(super) rounds: u32,
    pub(super) temperature: f64,
    pub(super) max_output_tokens: u32,
    pub(super) context_window: Option<u64>,
    pub(super) provider: String,
    pub(super) model: String,
    /// The round from which a fork asks anew.
    pub(super) at: Option<u32>,
    /// Who was told to be somebody else, and from when on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) changes: Vec<Change>,
    /// Who answered the rounds before, if it was someone else.
    pub(super) answered_before_by: Option<String>,
}

/// A debate that is about to begin, or to go on.
pub(super) struct Plan {
    pub(super) content: String,
    ticker: Option<String>,
    rounds: u32,
    at: Option<u32>,
    /// What some are told to be from there on.
    told: BTreeMap<String, String>,
    /// What was asked for before, where this is not the first time.
    before: Option<Input>,
    /// The run to go on with.
    pub(super) resumed: Option<Run>,
    /// The run to start from.
    parent: Option<Run>,
}

fn usage(message: impl Into<String>) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// Flags that mean nothing here are refused, not forgotten.
pub(super) fn refuse_idle_flags(args: &DebateArgs) -> Result<(), Failure> {
    if args.take_over && args.resume.is_none() {
        return Err(usage("`--take-over` goes with `--resume RUN`"));
    }
    fork::refuse_idle_flags(&args.fork)?;
    if args.fork.at.as_ref().is_some_and(|at| at.move_id.is_some()) {
        let message = "a debate is about one move: name a round, such as `--at round-4`";
        return Err(usage(message));
    }
    let fixed = [
        ("--temperature", args.model.temperature.is_some()),
        ("--max-output-tokens", args.model.max_output_tokens.is_some()),
    ];
    if let Some((flag, _)) = fixed.into_iter().find(|(_, given)| args.resume.is_some() && *given) {
        return Err(usage(format!("`{flag}` cannot change in a run that goes on"))
            .hint("start a new one from it with `--fork RUN`"));
    }
    Ok(())
}

/// The move that was named.
pub(super) async fn document(args: &DebateArgs, cancel: &Cancel) -> Result<String, Failure> {
    const WHAT: &str = "the move";
    let text = match &args.document {
        Some(path) if path.as_os_str() == "-" => {
            input::from_standard_input(WHAT, LONGEST_MOVE, cancel).await?
        }
        Some(path) => input::from_file(WHAT, LONGEST_MOVE, path)?,
        None => {
            return Err(usage("there is no move to debate")
                .hint("name a file, such as `assize debate MOVE.md`; `-` reads standard input"));
        }
    };
    if text.starts_with("%PDF") {
        return Err(usage("the move is a PDF; save its text, and debate that"));
    }
    if text.contains('\0') {
        return Err(usage("the move has NUL characters in it, so it is no text"));
    }
    Ok(text)
}

impl Plan {
    /// A debate of a new move.
    pub(super) fn fresh(args: &DebateArgs, content: String) -> Plan {
        Plan {
            content,
            ticker: args.ticker.clone(),
            rounds: args.rounds.unwrap_or(ROUNDS),
            at: None,
            told: BTreeMap::new(),
            before: None,
            resumed: None,
            parent: None,
        }
    }

    /// A debate that starts from an earlier one: goes on with it, or is forked from it.
    pub(super) async fn from_earlier(
        name: &str,
        args: &DebateArgs,
        store: &dyn Store,
        cancel: &Cancel,
    ) -> Result<Plan, Failure> {
        let old = kept::find(store, name).await?;
        if old.kind != "debate" {
            return Err(usage(format!("`{}` is no debate but a {}", old.id, old.kind)));
        }
        let before = read_input(&old)?;
        let content = match &args.document {
            Some(_) => document(args, cancel).await?,
            None => kept_document(store, &old).await?,
        };
        if args.resume.is_some() {
            if !args.take_over {
                let instead = "wait for it, stop it, or take the run over with `--take-over`";
                kept::refuse_if_held(&old, "taken up again", instead)?;
            }
            return Ok(Plan {
                content,
                ticker: before.ticker.clone(),
                rounds: before.rounds,
                at: before.at,
                told: BTreeMap::new(),
                before: Some(before),
                resumed: Some(old),
                parent: None,
            });
        }
        let rounds = args.rounds.unwrap_or(before.rounds);
        let at = args.fork.at.as_ref().map(|at| at.round);
        if let Some(at) = at.filter(|at| *at > rounds) {
            return Err(usage(format!("there is no round {at} in a debate of {rounds} rounds")));
        }
        let ticker = args.ticker.clone().or(before.ticker.clone());
        let (before, resumed, parent) = (Some(before), None, Some(old));
        let told = fork::told(&args.fork, &Personas::default())?;
        Ok(Plan { content, ticker, rounds, at, told, before, resumed, parent })
    }

    /// What the run is to be run with: as before, where there was a before, unless flags say
    /// otherwise.
    pub(super) fn input(
        &self,
        args: &DebateArgs,
        config: &Config,
        gateway: &Gateway,
    ) -> Result<Input, Failure> {
        let (provider, model) = gateway.name();
        let same = |before: &Input| {
            // A cassette answers in whoever's name it was recorded.
            args.model.replay.is_some()
                || (before.provider.as_str(), before.model.as_str()) == (provider, model)
        };
        let other = self.before.as_ref().filter(|before| !same(before));
        if let (Some(run), Some(before)) = (&self.resumed, &self.before) {
            return match other {
                None => Ok(before.clone()),
                Some(_) => Err(another_model(run, before, gateway)),
            };
        }
        if let (Some(parent), Some(before), None) = (&self.parent, other, self.at) {
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
        let set = config.decimal("temperature").unwrap_or_else(|| Request::TEMPERATURE.into());
        let longest = config.whole("max_output_tokens").map_or(Request::MAX_TOKENS, |n| n as u32);
        let before = self.before.as_ref();
        let earlier = other.filter(|_| self.at != Some(1));
        Ok(Input {
            move_id: before.map_or_else(|| "m1".to_owned(), |before| before.move_id.clone()),
            ticker: self.ticker.clone(),
            rounds: self.rounds,
            temperature: match (before, &args.model.temperature) {
                (Some(before), None) => before.temperature,
                _ => set,
            },
            max_output_tokens: match (before, &args.model.max_output_tokens) {
                (Some(before), None) => before.max_output_tokens,
                _ => longest,
            },
            context_window: gateway.facts().map(|facts| facts.context_window),
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

    /// What the run may take over from the one it is, or was, forked from.
    pub(super) async fn inherited(&self, store: &dyn Store) -> Result<Vec<Record>, Failure> {
        let early = |key: &Key| {
            let before = |at| Place::of(key).is_some_and(|place| place.is_before(at));
            self.at.is_none_or(before)
        };
        fork::inherited(store, self.resumed.as_ref(), self.parent.as_ref(), early).await
    }

    pub(super) fn new_run(&self, input: &Input) -> NewRun {
        NewRun {
            kind: "debate".to_owned(),
            title: title(&self.content),
            parent: self.parent.as_ref().map(|run| run.id.clone()),
            input: json!(input),
            artifacts: vec![(DOCUMENT.to_owned(), self.content.clone().into_bytes())],
        }
    }
}

/// What a run was begun with.
fn read_input(run: &Run) -> Result<Input, Failure> {
    let broken = |why: String| {
        let message = format!("the run `{}` cannot be read: {why}", run.id);
        Failure::new(FailureKind::Environment, message)
    };
    let input: Input =
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

fn another_model(run: &Run, before: &Input, gateway: &Gateway) -> Failure {
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
    shorten(&terminal::harmless(&line.replace('\t', " ")), 80)
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
