//! What the server does with a run by its kind. No other module matches on the kind of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use assize_code::{Attempt, CodeInput, EvalInput, LeftFile};
use assize_consult::{
    At, ConsultInput, ConsultJob, ConsultPlan, Conversations, DOCUMENTS, DebateAsk, DebateInput,
    DebateJob, DebatePlan, DebateReport, ForkRequest, consulted, conversation_logs, moves_logs,
};
use assize_run::{AnyTrial, ArtifactId, Origin, Record, Run, RunKind, RunStatus};
use assize_service::reading::{self, RecordView};
use assize_service::{Services, settings_of_run};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::App;
use crate::api::again::Fork;
use crate::api::asks::within;
use crate::api::start::refuse_dear;
use crate::problem::Problem;

/// Input of a run, and its result once it is done, by its kind.
#[derive(JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[expect(dead_code, reason = "describes runs, whose content is answered as the store has it")]
pub(crate) enum ContentByKind {
    Run { input: CodeInput, result: Option<assize_code::Verdict> },
    Consult { input: Box<ConsultInput>, result: Option<Box<assize_consult::Report>> },
    Debate { input: DebateInput, result: Option<DebateReport> },
    Work { input: Box<assize_draft::work::WorkInput>, result: Option<assize_draft::work::Worked> },
    Eval { input: EvalInput, result: Option<assize_code::eval::Report> },
}

/// The input of a run; of a worker, with the name of its workspace on this server in place of the path.
pub(crate) fn input(app: &App, run: &Run) -> Value {
    let mut input = run.input.clone();
    if run.kind == RunKind::Work {
        let folder = input["workspace"].as_str().unwrap_or_default();
        input["workspace"] = json!(app.desks.name_of(Path::new(folder)));
    }
    input
}

/// What was said and done in a run, by its kind
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub(crate) enum Transcripts {
    Debate { conversation_logs: Conversations },
    Consult { moves: BTreeMap<String, Conversations> },
    Run { attempts: Vec<Attempt> },
    Other { records: Vec<RecordView> },
}

impl Transcripts {
    /// The transcripts of a run; of a consultation, of one move alone where it is named.
    pub(crate) fn new(run: &Run, records: &[Record], of_move: Option<&str>) -> Transcripts {
        match run.kind {
            RunKind::Debate => {
                Transcripts::Debate { conversation_logs: conversation_logs(records) }
            }
            RunKind::Consult => {
                let mut moves = moves_logs(records);
                moves.retain(|name, _| of_move.is_none_or(|wanted| name == wanted));
                Transcripts::Consult { moves }
            }
            RunKind::Code => Transcripts::Run { attempts: assize_code::history(records) },
            RunKind::Work | RunKind::Eval => {
                Transcripts::Other { records: reading::records(records) }
            }
        }
    }
}

/// The scores in the result of a run, once it has one.
pub(crate) fn scores(run: &Run) -> Result<Option<Value>, Problem> {
    match run.kind {
        RunKind::Debate => Ok(run.result.clone().map(|verdict| json!([verdict]))),
        RunKind::Consult => Ok(run.result.as_ref().map(|report| report["policy_scores"].clone())),
        other => {
            let detail = format!("nothing is scored in a run of the kind `{other}`");
            Err(Problem::not_found(detail))
        }
    }
}

/// Content of a document of a consultation.
pub(crate) enum Document {
    /// Rendered from the report.
    Rendered(Vec<u8>),
    /// Stored while the consultation runs, with its size.
    Stored(ArtifactId, u64),
}

/// The documents of a consultation, by name: of its report, or those that were written so far.
pub(crate) async fn documents(app: &App, run: &Run) -> Result<Vec<(String, Document)>, Problem> {
    if run.kind != RunKind::Consult {
        return Err(Problem::not_found(format!("`{}` writes no documents", run.id)));
    }
    if run.result.is_none() {
        let stored = app.store.artifacts(&run.id).await?.into_iter();
        let named = stored.filter_map(|one| {
            let name = one.name.strip_prefix(DOCUMENTS)?.to_owned();
            Some((name, Document::Stored(one.id, one.bytes)))
        });
        return Ok(named.collect());
    }
    let Some(report) = consulted(run, &app.store.records(&run.id).await?)? else {
        return Ok(Vec::new());
    };
    let told = reading::status_updates(&*app.store, run).await?;
    let rendered = assize_consult::documents(&report, &told).into_iter();
    Ok(rendered.map(|(name, bytes)| (name, Document::Rendered(bytes))).collect())
}

/// The files that the last program of a run left.
pub(crate) async fn left_files(app: &App, run: &Run) -> Result<Vec<LeftFile>, Problem> {
    match run.kind {
        RunKind::Code => {
            let records = app.store.records(&run.id).await?;
            Ok(assize_code::left(&assize_code::history(&records)))
        }
        _ => Ok(Vec::new()),
    }
}

/// Whether a worker of the cluster may be running programs of this run, whose output can be watched.
pub(crate) fn runs_programs(run: &Run) -> bool {
    run.kind == RunKind::Code && run.status == RunStatus::Running
}

/// Opens a new run that starts from an earlier one.
pub(crate) async fn fork(
    app: &App,
    run: &Run,
    body: Fork,
    mut services: Services,
) -> Result<Box<dyn AnyTrial>, Problem> {
    let Fork { at, told, document, rounds, models, yes, settings } = body;
    let at = at.map(|at| at.parse::<At>()).transpose();
    let at = at.map_err(|error| Problem::unusable(error.to_string()))?;
    if at.is_none() && !told.is_empty() {
        return Err(Problem::unusable("`told` goes with `at`"));
    }
    let settings = settings.applied(&services.settings)?;
    services.settings = Arc::new(settings_of_run(&settings, run)?);
    let runner = services.runner(&app.store)?;
    let from = ForkRequest { at, told };
    let origin = Origin::Fork { parent: Box::new(run.clone()) };
    Ok(match run.kind {
        RunKind::Debate => {
            if !models.is_empty() {
                return Err(Problem::unusable("`models` can be changed in a consultation alone"));
            }
            let rounds = rounds.map(|rounds| within("rounds", rounds, 50)).transpose()?;
            let ask = DebateAsk { document, rounds, ..DebateAsk::default() };
            let plan = DebatePlan::forked(run, &from, &ask, &*app.store).await?;
            Box::new(runner.start::<DebateJob>(services.consult(plan), origin).await?)
        }
        RunKind::Consult => {
            if document.is_some() || rounds.is_some() {
                let detail = "`document` and `rounds` can be changed in a debate alone";
                return Err(Problem::unusable(detail));
            }
            let plan = ConsultPlan::forked(run, &from, models, &*app.store).await?;
            let planned = runner.plan::<ConsultJob>(services.consult(plan), origin).await?;
            refuse_dear(&planned.job, yes)?;
            Box::new(planned.open().await?)
        }
        other => {
            let detail = format!("a run of the kind `{other}` cannot be forked");
            return Err(Problem::unusable(detail).hint("debates and consultations can be"));
        }
    })
}
