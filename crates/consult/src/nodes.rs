//! Nodes of the consultation graph.

use std::sync::Arc;

use crate::negotiation::{
    AffectedLimit, AffectedMoves, DebateOutcome, DebateResult, TooManyMovesAffected, negotiate,
};
use assize_debate::{DebateSpec, DebateVerdict, JudgeScore, MoveDocument};
use assize_graph::{Context, GraphEvent, NodeError};
use assize_llm::{AnswerError, CallTotals, JsonRequest, Provenance};
use assize_run::{ConsultLayer, JournaledModel, LayerStatus, RunEvent};
use futures_util::future::try_join;
use serde_json::json;

use crate::ConsultContext;
use crate::answer::{INFERENCE, Inference, Move, MoveProposal, PROPOSAL};
use crate::documents::{self, MoveChecker, MoveSuggestion};
use crate::figures::SourceFigures;
use crate::prompt::ConsultPrompts;
use crate::rank::{TIE_RULE, rank};
use crate::sources::SourceDocument;
use crate::state::{ConsultItem, ConsultState, ConsultUpdate, Flag, FlagKind, InferenceSide};

type Updates = Result<Vec<ConsultUpdate>, NodeError>;

/// Error that ends a consultation because there is nothing to process: no work item, no proposed move or no debated
/// move.
#[derive(Debug, thiserror::Error)]
pub enum ConsultError {
    #[error("a node of the consultation graph has no work item")]
    MissingWorkItem,
    #[error("no analyst proposed a move that could be debated: {0}")]
    NoMoves(String),
    #[error("no move could be debated: {0}")]
    NotDebated(String),
}

fn started(layer: impl Into<ConsultLayer>) -> GraphEvent {
    RunEvent::LayerStart { layer: layer.into(), status: LayerStatus::Running }.into()
}

fn completed(layer: u32, artifacts: &[String]) -> GraphEvent {
    let (layer, artifacts) = (layer.into(), artifacts.to_vec());
    let status = LayerStatus::Done;
    RunEvent::LayerComplete { layer, status, artifacts, total_policies_scored: None }.into()
}

fn agent_start(layer: u32, agent_id: &str, persona: &str) -> GraphEvent {
    let (agent_id, persona) = (agent_id.to_owned(), persona.to_owned());
    RunEvent::AgentStart { layer, agent_id, persona }.into()
}

fn agent_complete(layer: u32, agent_id: &str, output: &[String], titles: &[String]) -> GraphEvent {
    let (agent_id, output, titles) = (agent_id.to_owned(), output.to_vec(), titles.to_vec());
    RunEvent::AgentComplete { layer, agent_id, output, titles }.into()
}

fn flag(kind: FlagKind, move_id: Option<&str>, message: impl Into<String>) -> ConsultUpdate {
    ConsultUpdate::Flagged(Flag {
        kind,
        move_id: move_id.map(str::to_owned),
        message: message.into(),
    })
}

/// Emits the event that a layer (a stage) of the consultation starts.
pub(crate) async fn start_layer(context: Context<ConsultState>, layer: ConsultLayer) -> Updates {
    context.emit(started(layer));
    Ok(Vec::new())
}

/// Emits the event that layer 1 (the stage that writes the inferences F1 and F2) is complete.
pub(crate) async fn layer_1_reduce(context: Context<ConsultState>) -> Updates {
    context.emit(completed(1, &["F1.md".to_owned(), "F2.md".to_owned()]));
    Ok(Vec::new())
}

impl ConsultContext {
    /// Stores a document, so that users can read it while the run continues. Does nothing without a document store.
    async fn store_document(&self, name: &str, text: &str) -> Result<(), NodeError> {
        match &self.document_store {
            Some(documents) => Ok(documents.put(name, text).await?),
            None => Ok(()),
        }
    }

    fn prompts<'a>(&'a self, state: &'a ConsultState) -> ConsultPrompts<'a> {
        ConsultPrompts { state, personas: &self.personas, options: self.debate_options }
    }

    /// Gathers the company data from the requested sources.
    pub(crate) async fn layer_0_gather(self: Arc<Self>, context: Context<ConsultState>) -> Updates {
        context.emit(started(0));
        for side in InferenceSide::BOTH {
            let (id, persona, _) = side.gatherer();
            context.emit(agent_start(0, id, persona));
        }
        let mut updates = Vec::new();
        let state = context.state();
        if state.company.name.is_none() {
            let called = state.company.display_name();
            let message = format!("company name for {called} not verified (no source configured)");
            updates.push(flag(FlagKind::CompanyNotVerified, None, message));
        }
        let mut gathered = (*self.gathered).clone();
        if self.generates_synthetic_data() {
            let make = |side: InferenceSide| self.synthesis(&context, side);
            let (financial, news) =
                try_join(make(InferenceSide::Financial), make(InferenceSide::Trend)).await?;
            for ((text, spent), title, into) in [
                (financial, "synthetic figures", &mut gathered.financial),
                (news, "synthetic news", &mut gathered.news),
            ] {
                updates.push(ConsultUpdate::Spent(spent));
                let text =
                    documents::labelled(Some(documents::SYNTHETIC), &documents::clean(&text));
                into.push(SourceDocument { title: title.to_owned(), text });
            }
            gathered.synthetic = true;
        }
        for note in &gathered.notes {
            updates.push(flag(FlagKind::Source, None, note.clone()));
        }
        if let Some(label) = documents::synthetic_label(&gathered) {
            updates.push(flag(FlagKind::Synthetic, None, documents::as_message(label)));
        }
        let raw = |financial: bool| {
            let text = documents::joined_documents(&gathered, financial);
            let nothing = "No data of this kind is available.".to_owned();
            Arc::<str>::from(if text.trim().is_empty() { nothing } else { text })
        };
        let (financial, news) = (raw(true), raw(false));
        for (side, text) in [(InferenceSide::Financial, &financial), (InferenceSide::Trend, &news)]
        {
            let (id, persona, document) = side.gatherer();
            self.store_document(document, text).await?;
            let title = format!("{persona} of {}", state.company.display_name());
            context.emit(agent_complete(0, id, &[document.to_owned()], &[title]));
        }
        context.emit(completed(
            0,
            &["financial_data_raw.md".to_owned(), "news_data_raw.md".to_owned()],
        ));
        updates.push(ConsultUpdate::Gathered { gathered: Arc::new(gathered), financial, news });
        Ok(updates)
    }

    /// Requests synthetic company data from a model, as input of one inference: F1 (finances) or F2 (trends).
    async fn synthesis(
        &self,
        context: &Context<ConsultState>,
        side: InferenceSide,
    ) -> Result<(String, CallTotals), NodeError> {
        let key = format!("synthetic/{}", side.agent());
        // The run cannot continue without data, so a refusal of the model counts as a failed call.
        let asking = JournaledModel::new(context, &**self.models.of("synthesizer"), key)
            .refusal_is_failure();
        let request = self.prompts(context.state()).synthesis(side);
        let response = asking.request_answer(&request).await??;
        Ok((response.text, asking.spent()))
    }

    /// Lets a model write one inference from the data: F1 (finances) or F2 (trends). Analysts need both inferences to
    /// propose moves, so any failure ends the run. The run can be resumed.
    pub(crate) async fn inference_agent(
        self: Arc<Self>,
        context: Context<ConsultState>,
    ) -> Updates {
        let Some(ConsultItem::Inference(side)) = context.item().copied() else {
            return Err(ConsultError::MissingWorkItem.into());
        };
        let agent = side.agent();
        let (name, title) = match side {
            InferenceSide::Financial => ("F1", "financial inference"),
            InferenceSide::Trend => ("F2", "trend inference"),
        };
        context.emit(agent_start(1, agent, title));
        let state = context.state();
        let (inference, spent) = self.infer(&context, side).await?;
        let known = SourceFigures::in_sources(&state.gathered);
        let title = format!("{title} of {}", state.company.display_name());
        let (document, unsupported) = documents::inference(name, &title, &inference, &known);
        let label = documents::synthetic_label(&state.gathered);
        let document = documents::labelled(label, &documents::truncate_document(document));
        self.store_document(&format!("{name}.md"), &document).await?;
        context.emit(agent_complete(1, agent, &[format!("{name}.md")], &[title]));
        let (inference, document) = (Arc::new(inference), Arc::from(document));
        let mut updates = vec![
            ConsultUpdate::Spent(spent),
            ConsultUpdate::Inferred { side, inference, document },
        ];
        if !unsupported.is_empty() {
            let message = format!("{name}: figures found in no source: {}", unsupported.join(", "));
            updates.push(flag(FlagKind::UnsupportedFigure, None, message));
        }
        Ok(updates)
    }

    /// Requests the inference F1 or F2 from its model. An answer that cannot be parsed is also journaled. If a
    /// resumed run can parse none of the journaled answers, it requests a new answer.
    async fn infer(
        &self,
        context: &Context<ConsultState>,
        side: InferenceSide,
    ) -> Result<(Inference, CallTotals), NodeError> {
        let reader = INFERENCE.reader.as_ref().ok_or(AnswerError::Schema)?;
        let request = self.prompts(context.state()).inference(side);
        let model = &**self.models.of(side.agent());
        let mut spent = CallTotals::default();
        for attempt in 1.. {
            let key =
                if attempt == 1 { "infer".to_owned() } else { format!("infer-anew-{attempt}") };
            let asking = JournaledModel::new(context, model, key);
            let asking = if attempt == 1 { asking } else { asking.extra() };
            let ask = JsonRequest::<Inference>::new(request.clone()).with_reader(reader);
            let answer = asking.request_json(ask).await?;
            spent = spent.plus(asking.spent());
            match answer {
                Ok(answer) => {
                    asking.record_failure().await?;
                    return Ok((answer.value, spent));
                }
                Err(_) if !asking.sent_any_call() => asking.record_failure().await?,
                Err(error) => return Err(error.into()),
            }
        }
        Err(ConsultError::MissingWorkItem.into())
    }

    /// Requests moves from an analyst, checks them and stores their documents. If the analyst's calls fail, the run
    /// continues without moves of this analyst.
    pub(crate) async fn analyst_agent(self: Arc<Self>, context: Context<ConsultState>) -> Updates {
        let Some(ConsultItem::Analyst(index)) = context.item().copied() else {
            return Err(ConsultError::MissingWorkItem.into());
        };
        let agent = format!("analyst_{}", index + 1);
        let persona = &self.personas.analysts[index].name;
        context.emit(agent_start(2, &agent, persona));
        let mut updates = Vec::new();
        let Proposed { moves, spent, complaint, failed } =
            self.request_moves(&context, index, &agent).await?;
        updates.push(ConsultUpdate::Spent(spent));
        if let Some(complaint) = complaint {
            if failed {
                updates.push(ConsultUpdate::MovesLost(self.moves.saturating_sub(moves.len())));
            }
            updates.push(flag(FlagKind::Moves, None, format!("{agent}, {persona}: {complaint}")));
        }
        let state = context.state();
        // Inferences are not sources: only gathered data supports a figure.
        let known = SourceFigures::in_sources(&state.gathered);
        let (Some(f1), Some(f2)) =
            (state.inference(InferenceSide::Financial), state.inference(InferenceSide::Trend))
        else {
            return Err(ConsultError::MissingWorkItem.into());
        };
        let library = MoveChecker { inferences: [("F1", f1), ("F2", f2)], known: &known };
        let label = documents::synthetic_label(&state.gathered);
        let (mut outputs, mut titles) = (Vec::new(), Vec::new());
        for (place, proposed) in moves.into_iter().enumerate() {
            // The number in the id depends only on the analyst and on the position of the move. It stays the same if
            // another analyst proposes fewer moves.
            let move_id = format!("m{}", index * self.moves + place + 1);
            let mut suggestion = library.check((move_id.clone(), &agent, persona), proposed);
            let content = documents::truncate_document(std::mem::take(&mut suggestion.content));
            suggestion.content = documents::labelled(label, &content);
            self.store_document(&format!("moves/{move_id}.md"), &suggestion.content).await?;
            updates.extend(flags_of_suggestion(&suggestion));
            outputs.push(format!("{move_id}.md"));
            titles.push(suggestion.proposed.title.clone());
            updates.push(ConsultUpdate::Suggested(Arc::new(suggestion)));
        }
        context.emit(agent_complete(2, &agent, &outputs, &titles));
        Ok(updates)
    }

    /// Requests moves from an analyst, and requests them again if their number is wrong.
    async fn request_moves(
        &self,
        context: &Context<ConsultState>,
        index: usize,
        agent: &str,
    ) -> Result<Proposed, NodeError> {
        let words = self.prompts(context.state());
        let reader = PROPOSAL.reader.as_ref().ok_or(AnswerError::Schema)?;
        let model = &**self.models.of(agent);
        let mut spent = CallTotals::default();
        let mut best: Option<Vec<Move>> = None;
        let (mut complaint, mut failed) = (None, false);
        // Whether this execution of the run has sent a request to the model, or has moves. If all answers come from the
        // journal and contain no move, the loop requests moves again.
        let mut asked = false;
        let keys = (1..).flat_map(|attempt| match attempt {
            1 => [("propose".to_owned(), false), ("propose-again".to_owned(), true)],
            attempt => [
                (format!("propose-anew-{attempt}"), false),
                (format!("propose-anew-{attempt}-again"), true),
            ],
        });
        for (key, again) in keys {
            if !again && asked {
                break;
            }
            let request = match &best {
                Some(moves) if again => {
                    let given = serde_json::to_string(&json!({"moves": moves})).unwrap_or_default();
                    words.proposal_again(index, self.moves, &given, moves.len())
                }
                _ => words.proposal(index, self.moves),
            };
            let key_is_extra = key != "propose";
            let asking = JournaledModel::new(context, model, key);
            let asking = if key_is_extra { asking.extra() } else { asking };
            let answer = asking
                .request_json(JsonRequest::<MoveProposal>::new(request).with_reader(reader))
                .await?;
            spent = spent.plus(asking.spent());
            match answer {
                Ok(answer) => {
                    failed = false;
                    let mut moves = answer.value.moves;
                    moves.retain(Move::is_debatable);
                    let right = moves.len() == self.moves;
                    complaint = (!right).then(|| {
                        let (count, requested) = (moves.len(), self.moves);
                        format!("number of proposed moves: {count} (requested: {requested})")
                    });
                    let better =
                        best.as_ref().is_none_or(|best| moves.len() >= best.len().min(self.moves));
                    if better {
                        best = Some(moves);
                    }
                    if right {
                        break;
                    }
                }
                Err(error) if error.model_error().is_some_and(assize_debate::ends_the_run) => {
                    return Err(error.into());
                }
                Err(error) => {
                    failed = error.model_error().is_some();
                    complaint = Some(error.to_string());
                }
            }
            asking.record_failure().await?;
            asked |= asking.sent_any_call() || best.as_ref().is_some_and(|moves| !moves.is_empty());
        }
        let mut moves = best.unwrap_or_default();
        moves.truncate(self.moves);
        Ok(Proposed { moves, spent, complaint, failed })
    }

    pub(crate) async fn layer_2_reduce(self: Arc<Self>, context: Context<ConsultState>) -> Updates {
        let state = context.state();
        if state.move_suggestions.is_empty() {
            return Err(ConsultError::NoMoves(flagged(state, FlagKind::Moves)).into());
        }
        let total = state.moves_lost + state.move_suggestions.len();
        TooManyMovesAffected::check(state.moves_lost, total, &flagged(state, FlagKind::Moves))?;
        let documents: Vec<String> =
            state.move_suggestions.iter().map(|one| format!("{}.md", one.move_id)).collect();
        context.emit(completed(2, &documents));
        Ok(Vec::new())
    }

    /// Runs the debate of one move.
    pub(crate) async fn negotiation(
        self: Arc<Self>,
        context: Context<ConsultState>,
        affected: Arc<AffectedMoves>,
    ) -> Updates {
        let state = context.state();
        let Some(ConsultItem::Debate(index)) = context.item().copied() else {
            return Err(ConsultError::MissingWorkItem.into());
        };
        let suggestion = &state.move_suggestions[index];
        let job = DebateSpec {
            move_document: MoveDocument {
                move_id: suggestion.move_id.clone(),
                content: suggestion.content.clone(),
            },
            company: assize_debate::DebateCompany {
                ticker: state.company.ticker.as_ref().map(ToString::to_string),
                name: state.company.name.clone(),
                pack: Some(self.prompts(state).pack()),
            },
            personas: self.personas.of_debate(),
            max_rounds: self.rounds,
            options: self.debate_options,
            changes: (self.forks.iter())
                .filter_map(|turning| turning.change(&suggestion.move_id))
                .collect(),
        };
        let move_id = suggestion.move_id.clone();
        let (lost, total) = (state.moves_lost, state.moves_lost + state.move_suggestions.len());
        let limit = Some(AffectedLimit { affected, lost, total });
        let negotiated = negotiate(&context, &*self.debates, &self.models, &job, limit).await?;
        let DebateOutcome { verdict, not_isolated, weaker, .. } = match negotiated {
            DebateResult::Outcome(outcome) => *outcome,
            DebateResult::OpeningFailed(error) => {
                let message = format!(
                    "{move_id} was not debated, as the opening critique failed: {}",
                    error.message()
                );
                context.emit(RunEvent::Warning { move_id, message: message.clone() });
                return Ok(vec![flag(FlagKind::NotDebated, None, message)]);
            }
        };
        let mut updates = flags_of(&verdict);
        if let Some(why) = not_isolated {
            updates.push(flag(FlagKind::NoIsolation, Some(&move_id), why));
        }
        updates.extend(weaker.map(|message| flag(FlagKind::WeakerIsolation, None, message)));
        updates.push(ConsultUpdate::Spent(verdict.spent));
        updates.push(ConsultUpdate::Debated(Arc::new(verdict)));
        Ok(updates)
    }

    pub(crate) async fn rank_and_output(
        self: Arc<Self>,
        context: Context<ConsultState>,
    ) -> Updates {
        let state = context.state();
        if state.policy_scores.is_empty() {
            return Err(ConsultError::NotDebated(flagged(state, FlagKind::NotDebated)).into());
        }
        check_affected(state)?;
        context.emit(RunEvent::LayerComplete {
            layer: ConsultLayer::DEBATES,
            status: LayerStatus::Done,
            artifacts: ["policy_scores", "conversation_logs"].map(str::to_owned).to_vec(),
            total_policies_scored: Some(state.policy_scores.len()),
        });
        let ranked = rank(state.policy_scores.iter().map(|verdict| &**verdict));
        let mut updates = Vec::new();
        if let Some(message) = assumed_warning(state.policy_scores.iter().map(|one| &**one)) {
            updates.push(flag(FlagKind::Assumed, None, message));
        }
        if !ranked.ties.is_empty() {
            let ties: Vec<String> = ranked.ties.iter().map(|tie| tie.join(" and ")).collect();
            let message = format!("same total score for {}; {TIE_RULE}", ties.join(", "));
            updates.push(flag(FlagKind::Tie, None, message));
        }
        for id in &ranked.recommended_moves {
            if let Some(tie) = ranked.ties.iter().find(|tie| tie.contains(id)) {
                let others: Vec<&str> =
                    tie.iter().filter(|other| *other != id).map(String::as_str).collect();
                let message = format!("same total score as {}", others.join(" and "));
                updates.push(flag(FlagKind::Tie, Some(id), message));
            }
        }
        for turning in &self.forks {
            let of = turning.at.move_id.as_deref();
            updates.push(flag(FlagKind::Forked, of, turning.to_string()));
        }
        if state.spent.rehearsal {
            updates.push(flag(FlagKind::Rehearsal, None, "no model was called"));
        }
        context.emit(RunEvent::PipelineComplete {
            recommended: ranked.recommended_moves.clone(),
            other: ranked.other_moves.clone(),
        });
        updates.push(ConsultUpdate::Ranked(Arc::new(ranked)));
        Ok(updates)
    }
}

/// Moves that one analyst proposed, the cost of the calls, and the problem with the proposal, if any.
struct Proposed {
    moves: Vec<Move>,
    spent: CallTotals,
    /// Problem with the proposal: a wrong number of moves, or the error of the call. `None` if there is no problem.
    complaint: Option<String>,
    /// Whether the last call failed permanently, that is, after all its retries.
    failed: bool,
}

/// Joins the messages of all flags of one kind.
fn flagged(state: &ConsultState, kind: FlagKind) -> String {
    let flags = state.flags.iter().filter(|flag| flag.kind == kind);
    flags.map(|flag| flag.message.as_str()).collect::<Vec<_>>().join("; ")
}

/// Returns an error if failed calls affect more than half of the moves. A move counts as affected if it was never
/// proposed or not debated, if its debate is partial, or if the call of one of its judges failed.
fn check_affected(state: &ConsultState) -> Result<(), TooManyMovesAffected> {
    let not_debated = state.move_suggestions.len() - state.policy_scores.len();
    let errors: Vec<&str> =
        state.policy_scores.iter().filter_map(|verdict| verdict.first_error()).collect();
    let affected = state.moves_lost + not_debated + errors.len();
    let total = state.moves_lost + state.move_suggestions.len();
    let error = errors
        .last()
        .map_or_else(|| flagged(state, FlagKind::NotDebated), |&error| error.to_owned());
    TooManyMovesAffected::check(affected, total, &error)
}

fn flags_of_suggestion(suggestion: &MoveSuggestion) -> Vec<ConsultUpdate> {
    let id = Some(suggestion.move_id.as_str());
    let mut flags = Vec::new();
    if !suggestion.unsupported_figures.is_empty() {
        let figures = suggestion.unsupported_figures.join(", ");
        let message = format!("figures found in no source: {figures}");
        flags.push(flag(FlagKind::UnsupportedFigure, id, message));
    }
    if !suggestion.unresolved_citations.is_empty() {
        let message = format!(
            "the move cites unknown findings: {}",
            suggestion.unresolved_citations.join(", ")
        );
        flags.push(flag(FlagKind::UnresolvedCitation, id, message));
    }
    flags
}

/// Kind of flag for scores that the model did not return as requested: [`FlagKind::Assumed`] or [`FlagKind::Repaired`].
fn doubt_kind(score: &JudgeScore) -> FlagKind {
    let assumed = score.provenance == Provenance::Defaulted || !score.assumed.is_empty();
    if assumed { FlagKind::Assumed } else { FlagKind::Repaired }
}

/// Returns a warning for the report if at least half of the judges' score cards contain assumed scores.
fn assumed_warning<'a>(verdicts: impl Iterator<Item = &'a DebateVerdict>) -> Option<String> {
    let scores: Vec<&JudgeScore> =
        verdicts.flat_map(|verdict| verdict.scores_by_agent.values()).collect();
    let assumed = scores.iter().filter(|score| doubt_kind(score) == FlagKind::Assumed).count();
    (2 * assumed >= scores.len() && assumed > 0).then(|| {
        format!(
            "{assumed} of {} score cards (one for each judge and move) contain assumed scores of 5: the \
             ranking is unreliable",
            scores.len()
        )
    })
}

fn flags_of(verdict: &DebateVerdict) -> Vec<ConsultUpdate> {
    let id = Some(verdict.move_id.as_str());
    let partial = verdict.partial.iter().map(|(log, partial)| {
        let message = format!(
            "conversation {log} ended after {} of {} rounds: {}",
            partial.completed_rounds, verdict.rounds, partial.error
        );
        flag(FlagKind::Partial, id, message)
    });
    let all = [("", &verdict.scores_by_agent), (" before the debate", &verdict.blind_scores)];
    let doubtful = all.into_iter().flat_map(|(when, scores)| {
        scores.iter().filter_map(move |(judge, score)| {
            let message = format!("the scores of {judge}{when}: {}", score.caveat()?);
            Some(flag(doubt_kind(score), id, message))
        })
    });
    let without_blind_score = verdict.agents.keys().filter(|judge| {
        !verdict.blind_scores.is_empty() && !verdict.blind_scores.contains_key(*judge)
    });
    let without_blind_score = without_blind_score.map(|judge| {
        flag(FlagKind::Partial, id, format!("{judge} gave no scores before the debate"))
    });
    partial.chain(doubtful).chain(without_blind_score).collect()
}
