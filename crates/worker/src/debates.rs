//! Debates of a run that is held in one place, held wherever there is a sandbox for them.
//!
//! Whoever holds the run puts each debate on the queue and answers its questions, as it would in one process.
//! Whoever takes it makes the sandbox, passes on what is asked there, and reports what it came to. Should they die,
//! somebody else begins anew, and is answered at once what was answered before.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use assize_cluster::{
    Answering, Cluster, DEBATE, MOST_TRIES, Member, Needs, Unanswered, Work, in_a_sandbox,
    isolation_of, needs_of,
};
use assize_config::Limits;
use assize_consult::{DebateError, DebateOutcome, Debates, InSandboxes, ModelProxy, ModelSource};
use assize_consult::{RemoteDebateError, RemoteDebates};
use assize_debate::Job;
use assize_graph::{JournalError, NodeError, RunError};
use assize_llm::{ErrorKind, ModelError, Request, Response};
use assize_run::{Run, RunId, RunStatus, Store, StoreError};
use assize_sandbox::Spec;
use assize_types::{Cancel, CancelReason};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::worker::{Host, Outcome};

/// A debate that is to be held.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct DebateWork {
    run: RunId,
    /// In which life of the run.
    life: u64,
    /// Under which name its questions are answered.
    desk: String,
    /// The walls that were asked for.
    isolation: Option<String>,
    image: Option<String>,
    limits: Limits,
}

/// What whoever holds a debate says to whoever holds the run.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Said {
    /// Somebody begins it: what is it about?
    Job {
        attempt: String,
    },
    Ask {
        key: String,
        request: Box<Request>,
    },
    /// It is over.
    CameTo(CameTo),
}

/// What a debate came to.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum CameTo {
    /// Behind such walls.
    Verdict {
        held: Box<DebateOutcome>,
        walls: String,
    },
    Failed {
        why: String,
    },
    /// Nothing where it was tried; elsewhere it may come to something.
    NotHere {
        attempt: String,
        node: String,
        why: String,
    },
    /// Nothing, as whoever held it was told to stop.
    LetGo {
        attempt: String,
    },
}

/// What is told about a debate.
enum Told {
    Begun { attempt: String },
    CameTo(CameTo),
}

/// Who has tried a debate since it got on the last time.
#[derive(Default)]
struct Tried {
    /// Those who have not said why they did not come to an end.
    silent: BTreeSet<String>,
    refused: BTreeSet<String>,
    /// Where it was refused.
    nodes: BTreeSet<String>,
}

/// Runs debates in the sandboxes of a cluster.
#[derive(Debug)]
pub struct ClusterDebates(pub Arc<Member>);

impl RemoteDebates for ClusterDebates {
    fn of_run(&self, run: &Run, spec: Spec) -> Arc<dyn Debates> {
        Arc::new(InCluster {
            member: self.0.clone(),
            run: run.id.clone(),
            life: run.epoch,
            needs: in_a_sandbox(needs_of(run), run),
            isolation: isolation_of(run),
            spec,
            isolations: Mutex::default(),
        })
    }
}

/// Debates of one run in the sandboxes of a cluster.
struct InCluster {
    member: Arc<Member>,
    run: RunId,
    life: u64,
    needs: Needs,
    isolation: Option<String>,
    spec: Spec,
    /// Behind which boundaries debates ran so far.
    isolations: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl Debates for InCluster {
    fn isolation(&self) -> String {
        let isolations = self.isolations.lock();
        match isolations.is_empty() {
            true => "sandboxes of the cluster".to_owned(),
            false => {
                let all: Vec<&str> = isolations.iter().map(String::as_str).collect();
                format!("the cluster: {}", all.join(", "))
            }
        }
    }

    async fn hold(
        &self,
        job: &Job,
        proxy: Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<DebateOutcome, NodeError> {
        let desk = format!("{}-{}-{}", self.run, self.life, job.move_document.move_id);
        let (told, mut came) = mpsc::unbounded_channel();
        let counter = Counter { job: json!(job), proxy: proxy.clone(), told };
        let answered = self.member.cluster.answer(&desk, Arc::new(counter)).await;
        let _open = answered.map_err(RemoteDebateError::from)?;
        let body = json!(DebateWork {
            run: self.run.clone(),
            life: self.life,
            desk: desk.clone(),
            isolation: self.isolation.clone(),
            image: self.spec.image.clone(),
            limits: self.spec.limits.clone(),
        });
        // Jobs that were put on the queue since a worker last began the debate.
        let mut unbegun = 0;
        let (mut turn, mut remade) = (0, Vec::new());
        let (mut tried, mut answers) = (Tried::default(), proxy.begin());
        loop {
            turn += 1;
            unbegun += 1;
            let (kind, about, body) = (DEBATE.to_owned(), desk.clone(), body.clone());
            let work = Work { kind, about, turn, body };
            self.member.queue.put(&self.needs, &work).await.map_err(RemoteDebateError::from)?;
            loop {
                let told = tokio::select! {
                    told = came.recv() => told,
                    reason = cancel.cancelled() => {
                        return Err(RunError::Cancelled { reason }.into());
                    }
                    () = tokio::time::sleep(self.member.cluster.times().lease()) => None,
                };
                // Whoever gets on may break as often as it likes.
                let now = proxy.begin();
                if now > answers {
                    (answers, tried) = (now, Tried::default());
                }
                match told {
                    Some(Told::CameTo(CameTo::Verdict { mut held, walls })) => {
                        self.isolations.lock().insert(walls);
                        held.remade.splice(0..0, remade);
                        return Ok(*held);
                    }
                    Some(Told::CameTo(CameTo::Failed { why })) => {
                        return Err(RemoteDebateError::Failed(why).into());
                    }
                    Some(Told::CameTo(CameTo::NotHere { attempt, node, why })) => {
                        tried.silent.remove(&attempt);
                        tried.refused.insert(attempt);
                        if tried.nodes.insert(node) {
                            remade.push(why.clone());
                        }
                        if tried.refused.len() as u64 >= MOST_TRIES
                            && self.nowhere_else(&tried).await?
                        {
                            return Err(RemoteDebateError::Nowhere(why).into());
                        }
                    }
                    Some(Told::CameTo(CameTo::LetGo { attempt })) => {
                        tried.silent.remove(&attempt);
                    }
                    Some(Told::Begun { attempt }) => {
                        unbegun = 0;
                        tried.silent.insert(attempt);
                        if tried.silent.len() as u64 > MOST_TRIES {
                            return Err(RemoteDebateError::GivenUp { tries: MOST_TRIES }.into());
                        }
                    }
                    // Whoever took it may have taken us for dead, and let it go.
                    None if !self.waits(&desk).await? && came.is_empty() => break,
                    None => {}
                }
            }
            self.check().await?;
            if unbegun >= MOST_TRIES {
                return Err(RemoteDebateError::NotBegun { tries: MOST_TRIES }.into());
            }
        }
    }
}

impl InCluster {
    /// Whether somebody is to debate or does.
    async fn waits(&self, desk: &str) -> Result<bool, RemoteDebateError> {
        Ok(self.member.queue.has(DEBATE, desk).await?)
    }

    /// Whether nobody is there who might still do it.
    async fn nowhere_else(&self, tried: &Tried) -> Result<bool, RemoteDebateError> {
        Ok(self.member.nobody_for(&self.needs, &tried.nodes).await?)
    }

    /// Refuses to go on with a run that somebody else has: nobody debates for us any more, so nothing else says so.
    async fn check(&self) -> Result<(), NodeError> {
        match self.member.store.run(&self.run).await {
            Ok(run) if run.status == RunStatus::Running && run.epoch == self.life => Ok(()),
            Ok(_) | Err(StoreError::NoSuchRun(_)) => {
                Err(RunError::Journal(JournalError::Fenced).into())
            }
            Err(error) => Err(RemoteDebateError::from(error).into()),
        }
    }
}

/// Answers what is asked about one debate.
struct Counter {
    job: Value,
    proxy: Arc<ModelProxy>,
    told: mpsc::UnboundedSender<Told>,
}

#[async_trait]
impl Answering for Counter {
    async fn answer(&self, question: Value) -> Value {
        match serde_json::from_value(question) {
            Ok(Said::Job { attempt }) => {
                let _ = self.told.send(Told::Begun { attempt });
                self.job.clone()
            }
            Ok(Said::Ask { key, request }) => {
                let answer = self.proxy.answer(&key, &request).await;
                json!(answer.map_err(|error| (error.kind(), error.message().to_owned())))
            }
            Ok(Said::CameTo(came_to)) => {
                // A second one says the same.
                let _ = self.told.send(Told::CameTo(came_to));
                Value::Null
            }
            Err(error) => {
                tracing::warn!(%error, "a question about a debate is not understood");
                Value::Null
            }
        }
    }
}

/// The desk of a run that is held elsewhere.
struct Away {
    cluster: Cluster,
    desk: String,
    /// Nobody is there any more.
    gone: AtomicBool,
}

impl Away {
    async fn say(&self, said: &Said) -> Result<Value, Unanswered> {
        let answer = self.cluster.ask(&self.desk, &json!(said)).await;
        if let Err(Unanswered::Gone) = answer {
            self.gone.store(true, Ordering::Relaxed);
        }
        answer
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl ModelSource for Away {
    async fn ask(&self, key: &str, request: &Request) -> Result<Response, ModelError> {
        let internal = |why: String| ModelError::new(ErrorKind::Internal, why);
        let said = Said::Ask { key: key.to_owned(), request: Box::new(request.clone()) };
        let answer = self.say(&said).await.map_err(|error| internal(error.to_string()))?;
        let answer: Result<Response, (ErrorKind, String)> =
            serde_json::from_value(answer).map_err(|error| internal(error.to_string()))?;
        answer.map_err(|(kind, message)| ModelError::new(kind, message))
    }
}

/// Holds a debate that somebody put on the queue.
pub(crate) async fn hold(host: &Host, work: DebateWork, cancel: &Cancel) -> Outcome {
    match host.store.run(&work.run).await {
        Ok(run) if run.status == RunStatus::Running && run.epoch == work.life => {}
        // Whoever holds the run now has put it on the queue anew.
        Ok(_) | Err(StoreError::NoSuchRun(_)) => return Outcome::Done,
        Err(error) => return Outcome::NotHere { why: error.to_string() },
    }
    let desk = work.desk.clone();
    let away = Away { cluster: host.member.cluster.clone(), desk, gone: AtomicBool::new(false) };
    let away = Arc::new(away);
    // What was lost to others and comes back here shares nothing with what is still leaving.
    let begun = host.debates.fetch_add(1, Ordering::Relaxed);
    let attempt = format!("{}-{begun}", host.member.id);
    let came_to = match debate(host, &work, &attempt, &away, cancel).await {
        Ok(came_to) => came_to,
        Err(outcome) => {
            if let Outcome::Paused = &outcome
                && cancel.reason() == CancelReason::Paused
            {
                let let_go = Said::CameTo(CameTo::LetGo { attempt });
                let limit = host.member.cluster.times().retry();
                let _ = tokio::time::timeout(limit, away.say(&let_go)).await;
            }
            return outcome;
        }
    };
    let not_here = match &came_to {
        CameTo::NotHere { why, .. } => Some(why.clone()),
        CameTo::Verdict { .. } | CameTo::Failed { .. } | CameTo::LetGo { .. } => None,
    };
    // If nobody is there to be told, nobody waits for it.
    match (away.say(&Said::CameTo(came_to)).await, not_here) {
        (Err(Unanswered::Gone), _) | (Ok(_), None) => Outcome::Done,
        (Ok(_), Some(why)) | (Err(Unanswered::Failed(why)), _) => Outcome::NotHere { why },
    }
}

async fn debate(
    host: &Host,
    work: &DebateWork,
    attempt: &str,
    away: &Arc<Away>,
    cancel: &Cancel,
) -> Result<CameTo, Outcome> {
    let not_here = |why: String| {
        let (attempt, node) = (attempt.to_owned(), host.member.id.clone());
        Ok(CameTo::NotHere { attempt, node, why })
    };
    let job = match away.say(&Said::Job { attempt: attempt.to_owned() }).await {
        Ok(job) => job,
        Err(Unanswered::Gone) => return Err(Outcome::Done),
        Err(Unanswered::Failed(why)) => return Ok(CameTo::Failed { why }),
    };
    let job: Job = match serde_json::from_value(job) {
        Ok(job) => job,
        Err(error) => return Ok(CameTo::Failed { why: error.to_string() }),
    };
    let spec = Spec { image: work.image.clone(), limits: work.limits.clone(), ..Spec::default() };
    let ground = match host.ground(work.isolation.as_deref(), &spec).await {
        Ok(ground) => ground,
        Err(failure) => return not_here(failure.message().to_owned()),
    };
    let debates = InSandboxes {
        manager: ground.manager.clone(),
        layer: ground.layer.clone(),
        spec,
        run: format!("{}-{}-{attempt}", work.run, work.life),
        may_do_without: false,
        weaker: ground.weaker.clone(),
        isolation: ground.why.clone(),
    };
    let proxy = Arc::new(ModelProxy::new(away.clone(), &job));
    let held = debates.hold(&job, proxy, cancel).await;
    if cancel.is_cancelled() {
        return Err(Outcome::Paused);
    }
    match held {
        Ok(held) => Ok(CameTo::Verdict { held: Box::new(held), walls: ground.why.clone() }),
        // Whoever holds the run next puts it on the queue anew.
        Err(_) if away.is_gone() => Err(Outcome::Done),
        Err(NodeError::Stop(error)) => Ok(CameTo::Failed { why: error.to_string() }),
        Err(NodeError::Failed(error)) => {
            let why = error.to_string();
            match error.downcast::<DebateError>() {
                Ok(error) if error.is_infrastructure() => not_here(why),
                _ => Ok(CameTo::Failed { why }),
            }
        }
    }
}
