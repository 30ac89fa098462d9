//! Functions and types that depend on the kind of a run. Other modules of the server do not distinguish the kinds of
//! runs, except the modules that parse a request to start a run and start the run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use assize_code::{Attempt, CodeInput, EvalInput, OutputFile};
use assize_consult::{
    ConsultInput, ConsultJob, ConsultPlan, Conversations, DOCUMENTS, DebateInput, DebateJob,
    DebatePlan, DebateReport, DebateRequest, ForkPoint, ForkRequest, conversation_logs,
    conversations_by_move, stored_report,
};
use assize_run::{AnyTrial, ArtifactId, EffectRecord, Run, RunKind, RunOrigin, RunStatus};
use assize_service::run_json::{self, RecordView};
use assize_service::{Services, settings_of_run};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::App;
use crate::api::resume_fork::ForkBody;
use crate::api::start::refuse_unconfirmed_cost;
use crate::api::start_bodies::within;
use crate::problem::Problem;

/// Input of a run, and its result once the run is done. Their types depend on the kind of the run.
#[derive(JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(dead_code, reason = "schema only: the server sends input and result as stored")]
pub(crate) enum ContentByKind {
    Run {
        input: CodeInput,
        result: Option<assize_code::CodeVerdict>,
    },
    Consult {
        input: Box<ConsultInput>,
        result: Option<Box<assize_consult::ConsultReport>>,
    },
    Debate {
        input: DebateInput,
        result: Option<DebateReport>,
    },
    Work {
        input: Box<assize_draft::work::WorkInput>,
        result: Option<assize_draft::work::WorkReport>,
    },
    Eval {
        input: EvalInput,
        result: Option<assize_code::eval::EvalReport>,
    },
}

/// Returns the input of a run. In the input of a `work` run, the path of the workspace is replaced by the name that the
/// workspace has on this server.
pub(crate) fn input(app: &App, run: &Run) -> Value {
    let mut input = run.input.clone();
    if run.kind == RunKind::Work {
        let folder = input["workspace"].as_str().unwrap_or_default();
        input["workspace"] = json!(app.workspaces.name_of(Path::new(folder)));
    }
    input
}

/// Transcripts of a run. Their type depends on the kind of the run.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Transcripts {
    Debate { conversation_logs: Conversations },
    Consult { moves: BTreeMap<String, Conversations> },
    Run { attempts: Vec<Attempt> },
    Other { records: Vec<RecordView> },
}

impl Transcripts {
    /// Reads the transcripts of a run from its records. For a consultation, `of_move` is the id of the only move whose
    /// debate is returned; `None` returns the debates on all moves.
    pub(crate) fn new(run: &Run, records: &[EffectRecord], of_move: Option<&str>) -> Transcripts {
        match run.kind {
            RunKind::Debate => {
                Transcripts::Debate { conversation_logs: conversation_logs(records) }
            }
            RunKind::Consult => {
                let mut moves = conversations_by_move(records);
                moves.retain(|name, _| of_move.is_none_or(|wanted| name == wanted));
                Transcripts::Consult { moves }
            }
            RunKind::Code => Transcripts::Run { attempts: assize_code::history(records) },
            RunKind::Work | RunKind::Eval => {
                Transcripts::Other { records: run_json::records(records) }
            }
        }
    }
}

/// Returns the scores in the result of a debate or consultation; `None` until the run has a result.
pub(crate) fn scores(run: &Run) -> Result<Option<Value>, Problem> {
    match run.kind {
        RunKind::Debate => Ok(run.result.clone().map(|verdict| json!([verdict]))),
        RunKind::Consult => Ok(run.result.as_ref().map(|report| report["policy_scores"].clone())),
        other => {
            let detail = format!("a run of kind `{other}` has no scores");
            Err(Problem::not_found(detail))
        }
    }
}

/// Content of a document of a consultation.
pub(crate) enum ConsultDocument {
    /// Content that was rendered from the final report of the consultation.
    Rendered(Vec<u8>),
    /// Id and size in bytes of a document that was stored while the consultation was running.
    Stored(ArtifactId, u64),
}

/// Returns the documents of a consultation with their names. If the consultation is done, they are rendered from its
/// report; otherwise they are the documents stored so far.
pub(crate) async fn documents(
    app: &App,
    run: &Run,
) -> Result<Vec<(String, ConsultDocument)>, Problem> {
    if run.kind != RunKind::Consult {
        let detail = format!("`{}` has no documents: the run is not a consultation", run.id);
        return Err(Problem::not_found(detail));
    }
    if run.result.is_none() {
        let stored = app.store.artifacts(&run.id).await?.into_iter();
        let named = stored.filter_map(|one| {
            let name = one.name.strip_prefix(DOCUMENTS)?.to_owned();
            Some((name, ConsultDocument::Stored(one.id, one.bytes)))
        });
        return Ok(named.collect());
    }
    let Some(report) = stored_report(run, &app.store.records(&run.id).await?)? else {
        return Ok(Vec::new());
    };
    let updates = run_json::status_updates(&*app.store, run).await?;
    let rendered = assize_consult::document_files(&report, &updates).into_iter();
    Ok(rendered.map(|(name, bytes)| (name, ConsultDocument::Rendered(bytes))).collect())
}

/// Returns the files that the last program of a code run wrote to its working folder; none for other kinds of runs.
pub(crate) async fn output_files(app: &App, run: &Run) -> Result<Vec<OutputFile>, Problem> {
    match run.kind {
        RunKind::Code => {
            let records = app.store.records(&run.id).await?;
            Ok(assize_code::output_files(&assize_code::history(&records)))
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether live output of this run can exist on a cluster worker: the run is a code run and has the status `running`.
pub(crate) fn runs_programs(run: &Run) -> bool {
    run.kind == RunKind::Code && run.status == RunStatus::Running
}

/// Creates a fork of a debate or consultation; other kinds of runs cannot be forked.
pub(crate) async fn fork(
    app: &App,
    run: &Run,
    body: ForkBody,
    mut services: Services,
) -> Result<Box<dyn AnyTrial>, Problem> {
    let ForkBody { at, personas, document, rounds, models, yes, settings } = body;
    let at = at.map(|at| at.parse::<ForkPoint>()).transpose();
    let at = at.map_err(|error| Problem::unprocessable(error.to_string()))?;
    if at.is_none() && !personas.is_empty() {
        return Err(Problem::unprocessable("the field `personas` requires the field `at`"));
    }
    let settings = settings.applied(&services.settings)?;
    services.settings = Arc::new(settings_of_run(&settings, run)?);
    let runner = services.runner(&app.store)?;
    let from = ForkRequest { at, new_personas: personas };
    let origin = RunOrigin::Fork { parent: Box::new(run.clone()) };
    Ok(match run.kind {
        RunKind::Debate => {
            if !models.is_empty() {
                let detail = "the field `models` applies only to the fork of a consultation";
                return Err(Problem::unprocessable(detail));
            }
            let rounds = rounds.map(|rounds| within("rounds", rounds, 50)).transpose()?;
            let ask = DebateRequest { document, rounds, ..DebateRequest::default() };
            let plan = DebatePlan::forked(run, &from, &ask, &*app.store).await?;
            Box::new(runner.start::<DebateJob>(services.consult(plan), origin).await?)
        }
        RunKind::Consult => {
            if document.is_some() || rounds.is_some() {
                let detail =
                    "the fields `document` and `rounds` apply only to the fork of a debate";
                return Err(Problem::unprocessable(detail));
            }
            let plan = ConsultPlan::forked(run, &from, models, &*app.store).await?;
            let planned = runner.plan::<ConsultJob>(services.consult(plan), origin).await?;
            refuse_unconfirmed_cost(&planned.job, yes)?;
            Box::new(planned.open().await?)
        }
        other => {
            let detail = format!("a run of kind `{other}` cannot be forked");
            return Err(
                Problem::unprocessable(detail).hint("only debates and consultations can be forked")
            );
        }
    })
}
