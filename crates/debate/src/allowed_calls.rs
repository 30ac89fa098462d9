//! Checks whether a model call of a debate is allowed. The check is necessary because a debate that runs in a sandbox
//! is untrusted.

use assize_llm::{Block, ModelRequest};

use crate::prompt::blocks;
use crate::spec::DebateSpec;
use crate::state::LogName;

/// The model calls that one debate is allowed to make.
#[derive(Debug, Clone)]
pub struct AllowedCalls {
    blocks: Vec<Block>,
    temperature: f32,
    max_tokens: u32,
    rounds: u32,
    makers: usize,
    blind: bool,
}

impl AllowedCalls {
    pub fn of(job: &DebateSpec) -> AllowedCalls {
        AllowedCalls {
            blocks: blocks(&job.move_document, &job.company),
            temperature: job.options.temperature,
            max_tokens: job.options.max_tokens,
            rounds: job.max_rounds,
            makers: job.personas.decision_makers.len(),
            blind: job.options.blind_scores,
        }
    }

    /// Returns the reason why a call is not allowed, or `None` if the call is allowed.
    pub fn rejection_reason(&self, key: &str, request: &ModelRequest) -> Option<String> {
        if !self.is_call(key) {
            return Some(format!(
                "invalid call key `{key}`: this debate has no call with this key"
            ));
        }
        let checks = [
            ("prompt prefix", request.prompt.blocks != self.blocks),
            ("list of tools", !request.tools.is_empty()),
            ("token limit", request.max_tokens != self.max_tokens),
            ("temperature", request.temperature != self.temperature),
            ("sample number", request.sample != 0),
        ];
        let (what, _) = checks.into_iter().find(|(_, differs)| *differs)?;
        Some(format!("the {what} of call `{key}` differs from the {what} of the debate"))
    }

    fn is_call(&self, key: &str) -> bool {
        let segments: Vec<&str> = key.split('/').collect();
        let log = |name: &str| {
            let log: Option<LogName> = name.parse().ok();
            log.filter(|log| log.index() < self.makers && log.to_string() == name)
        };
        let round = |name: &str| {
            let round = name.strip_prefix("round-").and_then(|digits| digits.parse::<u32>().ok());
            round.filter(|round| {
                (1..=self.rounds).contains(round) && format!("round-{round}") == name
            })
        };
        match segments.as_slice() {
            ["round-1", "critic"] => true,
            [name, after, what] if after.starts_with("after-") => {
                let entries = after.strip_prefix("after-").and_then(|digits| digits.parse().ok());
                let within = entries.is_some_and(|count: u32| {
                    (1..=2 * self.rounds).contains(&count) && format!("after-{count}") == *after
                });
                log(name).is_some() && within && is_score(what)
            }
            [name, turn, who] => {
                let (Some(log), Some(round)) = (log(name), round(turn)) else { return false };
                let speaker = who.strip_suffix("-shorter").unwrap_or(who);
                speaker == log.decision_maker_id()
                    || (speaker == "critic" && round > 1)
                    || matches!(*who, "summary" | "summary-2")
            }
            [name, what] => {
                let blind = self.blind
                    && what.strip_suffix("-2").unwrap_or(what) == crate::call_position::BLIND;
                log(name).is_some() && (is_score(what) || blind)
            }
            _ => false,
        }
    }
}

/// Whether `name` is the last key segment of a call that requests scores, or that requests a summary for the prompt of
/// such a call.
fn is_score(name: &str) -> bool {
    matches!(name.strip_suffix("-2").unwrap_or(name), "score" | "score-shorter" | "score-summary")
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use assize_llm::{CallOptions, Model, ModelError, ModelResponse, StopReason};
    use assize_types::{Cancel, Cost, Money, Usage};
    use async_trait::async_trait;

    use super::*;
    use crate::{DebateCompany, DebateOptions, DebatePersonas, MoveDocument};

    fn job() -> DebateSpec {
        DebateSpec {
            move_document: MoveDocument {
                move_id: "m1".to_owned(),
                content: "Open it.".to_owned(),
            },
            company: DebateCompany::default(),
            personas: DebatePersonas::default(),
            max_rounds: 3,
            options: DebateOptions { blind_scores: true, ..DebateOptions::default() },
            changes: Vec::new(),
        }
    }

    struct Recorder(Mutex<Vec<(String, ModelRequest)>>);

    #[async_trait]
    impl Model for Recorder {
        async fn generate(
            &self,
            request: &ModelRequest,
            call: CallOptions<'_>,
        ) -> Result<ModelResponse, ModelError> {
            let key = call.key.unwrap_or_default().to_owned();
            self.0.lock().unwrap().push((key, request.clone()));
            Ok(ModelResponse {
                text: "Neither JSON nor scores.".to_owned(),
                tool_calls: vec![],
                stop: StopReason::End,
                usage: Some(Usage::default()),
                cost: Cost::Known(Money::ZERO),
                provider: "test".into(),
                model: "test".into(),
                schema_enforced: false,
                rehearsal: false,
                attempts: 1,
                duration_ms: 1,
            })
        }
    }

    #[tokio::test]
    async fn allowed_calls_are_exactly_the_calls_of_the_debate() {
        let (job, recorder) = (job(), Arc::new(Recorder(Mutex::default())));
        job.run(recorder.clone(), Cancel::new()).await.unwrap();
        let bounds = AllowedCalls::of(&job);
        let asked = recorder.0.lock().unwrap();
        // All scores, blind scores included, are requested twice, because the first answers cannot be parsed.
        assert_eq!(asked.len(), 1 + 3 + 2 * 6 + 3 * 2 + 3 * 2);
        for (key, request) in asked.iter() {
            assert_eq!(bounds.rejection_reason(key, request), None);
        }
        let (_, request) = &asked[0];
        for key in [
            "",
            "critic",
            "a/b/c/critic",
            "i1/round-999999/critic",
            "i4/round-1/D4",
            "i1/round-2/D2",
            "i1/round-02/critic",
            "i01/round-2/critic",
            "i1/round-1/critic",
            "round-2/critic",
            "i1/score-3",
            "i1/after-0/score",
            "i1/after-07/score",
            "i1/after-7/score",
            "i1/after-2/critic",
            "i4/after-2/score",
            "m1/i1/score",
        ] {
            assert!(bounds.rejection_reason(key, request).is_some(), "{key}");
        }
        let complaint =
            |request: ModelRequest| bounds.rejection_reason("round-1/critic", &request).unwrap();
        let long = ModelRequest { max_tokens: 4_000_000, ..request.clone() };
        assert!(complaint(long).contains("token limit"));
        let mut other = request.clone();
        other.prompt.blocks[2].text = "Something else".into();
        assert!(complaint(other).contains("prompt prefix"));
    }
}
