//! Debates of a run, which any worker with a free sandbox can execute.
//!
//! The lease holder of the run queues a job for each debate and answers the model requests of the debate over RPC. The
//! worker that receives the job creates the sandbox, forwards the model requests from the sandbox to the lease holder,
//! and reports the result. If that worker dies, another worker starts the debate again, and the lease holder answers
//! the repeated model requests from its journal.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use assize_cluster::{
    Cluster, ClusterClient, DEBATE, MAX_DELIVERIES, QueuedJob, Requirements, RpcError, RpcHandler,
    isolation_of, requirements_of, with_sandbox_requirements,
};
use assize_config::SandboxLimits;
use assize_consult::{
    DebateError, DebateOutcome, DebateRunner, ModelProxy, ModelSource, SandboxedDebates,
};
use assize_consult::{RemoteDebateError, RemoteDebates};
use assize_debate::DebateSpec;
use assize_graph::{JournalError, NodeError, RunError};
use assize_llm::{ErrorKind, ModelError, ModelRequest, ModelResponse};
use assize_run::{Run, RunId, RunStatus, Store, StoreError};
use assize_sandbox::SandboxSpec;
use assize_types::{Cancel, CancelReason};
use async_trait::async_trait;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::worker::{JobOutcome, WorkerContext};

/// Body of the queued job that executes one debate.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct QueuedDebate {
    run: RunId,
    /// Epoch of the run's lease when the job was queued.
    epoch: u64,
    /// RPC name under which the run's lease holder serves this debate.
    peer: String,
    /// Isolation that the user requested for the sandbox.
    isolation: Option<String>,
    image: Option<String>,
    limits: SandboxLimits,
}

/// RPC request that the worker of a debate sends to the run's lease holder.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DebateRequest {
    /// Reports that an attempt to execute the debate starts, and requests the description of the debate.
    Job { attempt: String },
    /// Asks the lease holder to send this request to the model, and to return the model's response.
    Ask { key: String, request: Box<ModelRequest> },
    /// Reports the result of an attempt to execute the debate.
    Report(DebateReport),
}

/// Result of an attempt to execute a debate.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum DebateReport {
    /// The debate ended with a verdict. `isolation` describes the sandbox of the debate.
    Verdict { outcome: Box<DebateOutcome>, isolation: String },
    /// The debate failed.
    Failed { why: String },
    /// This worker cannot execute the debate, but another worker may be able to.
    NotHere { attempt: String, node: String, why: String },
    /// The worker stopped before the debate ended.
    Released { attempt: String },
}

/// Event that the RPC server of a debate sends to `run_debate`, which waits for the result of the debate.
enum DebateEvent {
    Started { attempt: String },
    Report(DebateReport),
}

/// Attempts of workers to execute a debate. Only attempts since the last new model call of the debate are counted.
#[derive(Default)]
struct Attempts {
    /// Ids of the attempts that have started but have not reported a result.
    silent: BTreeSet<String>,
    /// Ids of the attempts whose worker reported that it cannot execute the debate.
    refused: BTreeSet<String>,
    /// Ids of the nodes that reported that they cannot execute the debate.
    nodes: BTreeSet<String>,
}

/// Runs debates in the sandboxes of a cluster.
#[derive(Debug)]
pub struct ClusterDebates(pub Arc<ClusterClient>);

impl RemoteDebates for ClusterDebates {
    fn of_run(&self, run: &Run, spec: SandboxSpec) -> Arc<dyn DebateRunner> {
        Arc::new(InCluster {
            member: self.0.clone(),
            run: run.id.clone(),
            epoch: run.epoch,
            needs: with_sandbox_requirements(requirements_of(run), run),
            isolation: isolation_of(run),
            spec,
            isolations: Mutex::default(),
        })
    }
}

/// Runs the debates of one run in the sandboxes of a cluster.
struct InCluster {
    member: Arc<ClusterClient>,
    run: RunId,
    epoch: u64,
    needs: Requirements,
    isolation: Option<String>,
    spec: SandboxSpec,
    /// Isolations of the sandboxes that the debates of the run have used so far.
    isolations: Mutex<BTreeSet<String>>,
}

#[async_trait]
impl DebateRunner for InCluster {
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

    async fn run_debate(
        &self,
        job: &DebateSpec,
        proxy: Arc<ModelProxy>,
        cancel: &Cancel,
    ) -> Result<DebateOutcome, NodeError> {
        let peer = format!("{}-{}-{}", self.run, self.epoch, job.move_document.move_id);
        let (sender, mut events) = mpsc::unbounded_channel();
        let server = DebateServer { job: json!(job), proxy: proxy.clone(), events: sender };
        let serving = self.member.cluster.serve_rpc(&peer, Arc::new(server)).await;
        let _serving = serving.map_err(RemoteDebateError::from)?;
        let body = json!(QueuedDebate {
            run: self.run.clone(),
            epoch: self.epoch,
            peer: peer.clone(),
            isolation: self.isolation.clone(),
            image: self.spec.image.clone(),
            limits: self.spec.limits.clone(),
        });
        // Number of jobs that were queued since a worker last started the debate.
        let mut unstarted = 0;
        let (mut turn, mut remade) = (0, Vec::new());
        let (mut attempts, mut answers) = (Attempts::default(), proxy.start_attempt());
        loop {
            turn += 1;
            unstarted += 1;
            let (kind, about, body) = (DEBATE.to_owned(), peer.clone(), body.clone());
            let work = QueuedJob { kind, about, turn, body };
            self.member.queue.add(&self.needs, &work).await.map_err(RemoteDebateError::from)?;
            loop {
                let event = tokio::select! {
                    event = events.recv() => event,
                    reason = cancel.cancelled() => {
                        return Err(RunError::Cancelled { reason }.into());
                    }
                    () = tokio::time::sleep(self.member.cluster.times().lease()) => None,
                };
                // Forget earlier attempts once the debate makes progress: only attempts since then count.
                let now = proxy.start_attempt();
                if now > answers {
                    (answers, attempts) = (now, Attempts::default());
                }
                match event {
                    Some(DebateEvent::Report(DebateReport::Verdict { mut outcome, isolation })) => {
                        self.isolations.lock().insert(isolation);
                        outcome.remade.splice(0..0, remade);
                        return Ok(*outcome);
                    }
                    Some(DebateEvent::Report(DebateReport::Failed { why })) => {
                        return Err(RemoteDebateError::Failed(why).into());
                    }
                    Some(DebateEvent::Report(DebateReport::NotHere { attempt, node, why })) => {
                        attempts.silent.remove(&attempt);
                        attempts.refused.insert(attempt);
                        if attempts.nodes.insert(node) {
                            remade.push(why.clone());
                        }
                        if attempts.refused.len() as u64 >= MAX_DELIVERIES
                            && self.no_other_worker(&attempts).await?
                        {
                            return Err(RemoteDebateError::NoWorker(why).into());
                        }
                    }
                    Some(DebateEvent::Report(DebateReport::Released { attempt })) => {
                        attempts.silent.remove(&attempt);
                    }
                    Some(DebateEvent::Started { attempt }) => {
                        unstarted = 0;
                        attempts.silent.insert(attempt);
                        if attempts.silent.len() as u64 > MAX_DELIVERIES {
                            return Err(
                                RemoteDebateError::NotFinished { tries: MAX_DELIVERIES }.into()
                            );
                        }
                    }
                    // The job is no longer queued: a worker may have assumed that this process is dead and removed the
                    // job. Queue it again.
                    None if !self.is_queued(&peer).await? && events.is_empty() => break,
                    None => {}
                }
            }
            self.check_lease().await?;
            if unstarted >= MAX_DELIVERIES {
                return Err(RemoteDebateError::NotStarted { tries: MAX_DELIVERIES }.into());
            }
        }
    }
}

impl InCluster {
    /// Whether the job that executes the debate is still in the queue, either waiting or delivered to a worker.
    async fn is_queued(&self, peer: &str) -> Result<bool, RemoteDebateError> {
        Ok(self.member.queue.has(DEBATE, peer).await?)
    }

    /// Whether every worker that meets the requirements has reported that it cannot execute the debate.
    async fn no_other_worker(&self, attempts: &Attempts) -> Result<bool, RemoteDebateError> {
        Ok(self.member.no_worker_for(&self.needs, &attempts.nodes).await?)
    }

    /// Fails if this process has lost the lease on the run. In that case workers remove the jobs of the run's debates
    /// from the queue. Without this check, this process would report that no worker could start the debates.
    async fn check_lease(&self) -> Result<(), NodeError> {
        match self.member.store.run(&self.run).await {
            Ok(run) if run.status == RunStatus::Running && run.epoch == self.epoch => Ok(()),
            Ok(_) | Err(StoreError::NoSuchRun(_)) => {
                Err(RunError::Journal(JournalError::Fenced).into())
            }
            Err(error) => Err(RemoteDebateError::from(error).into()),
        }
    }
}

/// RPC server with which the run's lease holder serves one debate.
struct DebateServer {
    job: Value,
    proxy: Arc<ModelProxy>,
    events: mpsc::UnboundedSender<DebateEvent>,
}

#[async_trait]
impl RpcHandler for DebateServer {
    async fn handle(&self, question: Value) -> Value {
        match serde_json::from_value(question) {
            Ok(DebateRequest::Job { attempt }) => {
                let _ = self.events.send(DebateEvent::Started { attempt });
                self.job.clone()
            }
            Ok(DebateRequest::Ask { key, request }) => {
                let answer = self.proxy.answer(&key, &request).await;
                json!(answer.map_err(|error| (error.kind(), error.message().to_owned())))
            }
            Ok(DebateRequest::Report(report)) => {
                // The report may arrive twice. Both copies have the same content, so the second has no effect.
                let _ = self.events.send(DebateEvent::Report(report));
                Value::Null
            }
            Err(error) => {
                tracing::warn!(%error, "received an invalid request from the worker of a debate");
                Value::Null
            }
        }
    }
}

/// RPC client with which the worker of a debate sends requests to the run's lease holder.
struct RemoteLeaseHolder {
    cluster: Cluster,
    peer: String,
    /// Whether the lease holder no longer replies.
    gone: AtomicBool,
}

impl RemoteLeaseHolder {
    async fn send(&self, request: &DebateRequest) -> Result<Value, RpcError> {
        let reply = self.cluster.call(&self.peer, &json!(request)).await;
        if let Err(RpcError::NoReply) = reply {
            self.gone.store(true, Ordering::Relaxed);
        }
        reply
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl ModelSource for RemoteLeaseHolder {
    async fn answer_call(
        &self,
        key: &str,
        request: &ModelRequest,
    ) -> Result<ModelResponse, ModelError> {
        let internal = |why: String| ModelError::new(ErrorKind::Internal, why);
        let ask = DebateRequest::Ask { key: key.to_owned(), request: Box::new(request.clone()) };
        let answer = self.send(&ask).await.map_err(|error| internal(error.to_string()))?;
        let answer: Result<ModelResponse, (ErrorKind, String)> =
            serde_json::from_value(answer).map_err(|error| internal(error.to_string()))?;
        answer.map_err(|(kind, message)| ModelError::new(kind, message))
    }
}

/// Executes the debate of a queued job and reports the result to the run's lease holder.
pub(crate) async fn execute_debate(
    host: &WorkerContext,
    work: QueuedDebate,
    cancel: &Cancel,
) -> JobOutcome {
    let run = match host.store.run(&work.run).await {
        Ok(run) if run.status == RunStatus::Running && run.epoch == work.epoch => run,
        // The run has ended, or it has a new lease holder, which has queued its own jobs. This job is not needed.
        Ok(_) | Err(StoreError::NoSuchRun(_)) => return JobOutcome::Done,
        Err(error) => return JobOutcome::CannotExecute { why: error.to_string() },
    };
    let needs = with_sandbox_requirements(requirements_of(&run), &run);
    let memory = needs.memory.max(work.limits.memory >> 20);
    if let Some(why) = host.check_requirements(&Requirements { memory, ..needs }) {
        return JobOutcome::DeadLetter { why };
    }
    let cluster = host.member.cluster.clone();
    let holder =
        RemoteLeaseHolder { cluster, peer: work.peer.clone(), gone: AtomicBool::new(false) };
    let holder = Arc::new(holder);
    // The id of the attempt is unique. So a redelivered job does not share a sandbox with an earlier attempt on the
    // same worker whose lease expired.
    let number = host.debates.fetch_add(1, Ordering::Relaxed);
    let attempt = format!("{}-{number}", host.member.id);
    let report = match debate(host, &work, &attempt, &holder, cancel).await {
        Ok(report) => report,
        Err(outcome) => {
            if let JobOutcome::Paused = &outcome
                && cancel.reason() == CancelReason::ShuttingDown
            {
                let released = DebateRequest::Report(DebateReport::Released { attempt });
                let limit = host.member.cluster.times().retry();
                let _ = tokio::time::timeout(limit, holder.send(&released)).await;
            }
            return outcome;
        }
    };
    let not_here = match &report {
        DebateReport::NotHere { why, .. } => Some(why.clone()),
        DebateReport::Verdict { .. }
        | DebateReport::Failed { .. }
        | DebateReport::Released { .. } => None,
    };
    // If the lease holder does not reply, the result is not needed.
    match (holder.send(&DebateRequest::Report(report)).await, not_here) {
        (Err(RpcError::NoReply), _) | (Ok(_), None) => JobOutcome::Done,
        (Ok(_), Some(why)) | (Err(RpcError::Failed(why)), _) => JobOutcome::CannotExecute { why },
    }
}

async fn debate(
    host: &WorkerContext,
    work: &QueuedDebate,
    attempt: &str,
    holder: &Arc<RemoteLeaseHolder>,
    cancel: &Cancel,
) -> Result<DebateReport, JobOutcome> {
    let not_here = |why: String| {
        let (attempt, node) = (attempt.to_owned(), host.member.id.clone());
        Ok(DebateReport::NotHere { attempt, node, why })
    };
    let job = match holder.send(&DebateRequest::Job { attempt: attempt.to_owned() }).await {
        Ok(job) => job,
        Err(RpcError::NoReply) => return Err(JobOutcome::Done),
        Err(RpcError::Failed(why)) => return Ok(DebateReport::Failed { why }),
    };
    let job: DebateSpec = match serde_json::from_value(job) {
        Ok(job) => job,
        Err(error) => return Ok(DebateReport::Failed { why: error.to_string() }),
    };
    let spec = SandboxSpec {
        image: work.image.clone(),
        limits: work.limits.clone(),
        ..SandboxSpec::default()
    };
    let backend = match host.backend_for(work.isolation.as_deref(), &spec).await {
        Ok(backend) => backend,
        Err(failure) => return not_here(failure.message().to_owned()),
    };
    let debates = SandboxedDebates {
        manager: backend.manager.clone(),
        layer: backend.layer.clone(),
        spec,
        run: format!("{}-{}-{attempt}", work.run, work.epoch),
        allow_in_process: false,
        weaker: backend.weaker.clone(),
        isolation: backend.isolation.clone(),
    };
    let proxy = Arc::new(ModelProxy::new(holder.clone(), &job));
    let outcome = debates.run_debate(&job, proxy, cancel).await;
    if cancel.is_cancelled() {
        return Err(JobOutcome::Paused);
    }
    match outcome {
        Ok(outcome) => {
            let isolation = backend.isolation.clone();
            Ok(DebateReport::Verdict { outcome: Box::new(outcome), isolation })
        }
        // The lease holder does not reply. The next lease holder of the run queues the debate again.
        Err(_) if holder.is_gone() => Err(JobOutcome::Done),
        Err(NodeError::Stop(error)) => Ok(DebateReport::Failed { why: error.to_string() }),
        Err(NodeError::Failed(error)) => {
            let why = error.to_string();
            match error.downcast::<DebateError>() {
                Ok(error) if error.is_infrastructure() => not_here(why),
                _ => Ok(DebateReport::Failed { why }),
            }
        }
    }
}
