//! The store, as the commands use it: where it is, which run is meant, who works on it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use assize_config::{Environment, SettingKey, Settings};
use assize_gateway::{Caps, Gateway, Totals};
use assize_graph::{Key, Outcome, Record};
use assize_llm::Response;
use assize_run::{
    EventQuery, Lease, NewRun, Run, RunFilter, RunId, RunJournal, RunKind, RunStatus, Store,
    StoreError,
};
use assize_store::{Access, Durability, SqliteStore};
use assize_types::{Cost, Failure, FailureKind, Money};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::account::{self, Account, Lost};
use crate::choose::{self, Already, Tape};
use crate::cluster::elsewhere::Elsewhere;
use crate::cluster::{self, Member};
use crate::{Clerk, GoOn, Role};

/// Where the store is, by the settings.
pub fn path(config: &Settings, around: &Environment) -> PathBuf {
    match config.store.path.as_deref() {
        Some(path) => match path.strip_prefix("~/") {
            Some(rest) => around.home.join(rest),
            None => around.working_folder.join(path),
        },
        None => around.state_folder.join("store.db"),
    }
}

/// Opens the store to write, making it if need be.
pub async fn open(config: &Settings, around: &Environment) -> Result<Arc<dyn Store>, Failure> {
    let durability = match *config.store.durability {
        assize_config::Durability::PowerLoss => Durability::PowerLoss,
        assize_config::Durability::ProcessCrash => Durability::ProcessCrash,
    };
    open_with(config, around, durability).await
}

/// Opens the store to write what must outlive a power cut, whatever the settings say of the rest.
pub async fn open_safe(config: &Settings, around: &Environment) -> Result<Arc<dyn Store>, Failure> {
    open_with(config, around, Durability::PowerLoss).await
}

async fn open_with(
    config: &Settings,
    around: &Environment,
    durability: Durability,
) -> Result<Arc<dyn Store>, Failure> {
    config.refuse_withheld()?;
    if cluster::is_set(config) {
        return Ok(Member::join(config, around, Some(cluster::patience(config))).await?.1);
    }
    Ok(Arc::new(SqliteStore::open(&path(config, around), Access::Write(durability))?))
}

/// Opens the store for trials that are asked for with a command: in a cluster, others hold them. `safe` says that what
/// is written must outlive a power cut.
pub async fn open_for(clerk: &mut Clerk, safe: bool) -> Result<Arc<dyn Store>, Failure> {
    let Clerk { config, around, .. } = &*clerk;
    config.refuse_withheld()?;
    if cluster::is_set(config) {
        let (member, store) = Member::join(config, around, Some(cluster::patience(config))).await?;
        clerk.member = Some(member);
        return Ok(store);
    }
    if safe { open_safe(config, around).await } else { open(config, around).await }
}

/// Opens the store to read; `None` where nothing was ever kept.
pub async fn open_to_read(
    config: &Settings,
    around: &Environment,
) -> Result<Option<Arc<dyn Store>>, Failure> {
    config.refuse_withheld()?;
    if cluster::is_set(config) {
        return Ok(Some(Member::join(config, around, Some(cluster::patience(config))).await?.1));
    }
    let path = path(config, around);
    if !path.try_exists().unwrap_or(true) {
        return Ok(None);
    }
    match SqliteStore::open(&path, Access::Read) {
        Ok(store) => Ok(Some(Arc::new(store))),
        Err(StoreError::Empty { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// What the run that was made last is called, too.
const LATEST: &str = "latest";

/// The run that is meant by its name, by a beginning of it that no other has, or as the latest.
pub async fn find(store: &dyn Store, name: &str) -> Result<Run, Failure> {
    if name == LATEST {
        let mut runs = store.runs(RunFilter { limit: 1, ..RunFilter::default() }).await?;
        return if runs.is_empty() { Err(no_such_run(name)) } else { Ok(runs.swap_remove(0)) };
    }
    let filter = RunFilter { prefix: Some(name.to_owned()), ..RunFilter::default() };
    let mut runs = if name.is_empty() { Vec::new() } else { store.runs(filter).await? };
    if let Some(exact) = runs.iter().position(|run| run.id.as_str() == name) {
        return Ok(runs.swap_remove(exact));
    }
    match runs.len() {
        1 => Ok(runs.swap_remove(0)),
        0 => Err(no_such_run(name)),
        _ => {
            let names: Vec<&str> = runs.iter().take(5).map(|run| run.id.as_str()).collect();
            let more = if runs.len() > 5 { ", …" } else { "" };
            let message = format!("`{name}` could be any of {} runs", runs.len());
            let hint = format!("name one of them: {}{more}", names.join(", "));
            Err(Failure::new(FailureKind::Usage, message).hint(hint))
        }
    }
}

pub fn no_such_run(name: &str) -> Failure {
    Failure::new(FailureKind::Usage, format!("there is no run `{name}`"))
        .hint("`assize runs list` shows those there are")
}

/// A process that works on a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    host: String,
    /// Changes whenever the machine is started, and not with its name.
    boot: String,
    /// Numbers of processes mean something within it alone.
    name_space: String,
    pub pid: u32,
    /// When the process began, in the kernel's own count: numbers of processes are used again.
    started: u64,
    #[serde(default)]
    pub role: Role,
    /// It has let go by its own word.
    #[serde(default)]
    released: bool,
    /// In a cluster: which part of it. There, whoever dies is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// How many records there were when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<usize>,
    /// How many have died over it, one after the other, without getting on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) deaths: u64,
    /// The nodes that could not begin it.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) refused: BTreeSet<String>,
    /// Settings that were asked for when the run was put on the queue again: they hold until it ends.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) asked: BTreeMap<String, String>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What can be changed when a run goes on.
const CHANGEABLE: [SettingKey; 3] =
    [SettingKey::BudgetMaxCost, SettingKey::BudgetMaxTokens, SettingKey::SandboxIsolation];

impl Holder {
    pub fn this_process(role: Role) -> Holder {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
        let name_space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let pid = std::process::id();
        Holder {
            host: read("/proc/sys/kernel/hostname"),
            boot: read("/proc/sys/kernel/random/boot_id"),
            name_space: name_space.display().to_string(),
            pid,
            started: started(pid).unwrap_or_default(),
            role,
            released: false,
            node: None,
            records: None,
            deaths: 0,
            refused: BTreeSet::new(),
            asked: BTreeMap::new(),
        }
    }

    /// The process of a clerk that holds a run.
    pub fn of_clerk(clerk: &Clerk) -> Holder {
        // What others hold in a cluster is tied to this machine.
        let member = clerk.member.as_ref().filter(|_| clerk.role == Role::Worker);
        let node = member.map(|member| member.id.clone());
        Holder { node, ..Holder::this_process(clerk.role) }
    }

    /// Nobody yet, in a cluster.
    fn nobody(clerk: &Clerk, member: &Member) -> Holder {
        let node = Some(member.id.clone());
        let asked = |key: SettingKey| {
            Some((key.to_string(), clerk.config.written(key)?.requested()?.clone()))
        };
        let asked = CHANGEABLE.into_iter().filter_map(asked).collect();
        Holder { node, released: true, asked, ..Holder::this_process(clerk.role) }
    }

    /// Whether the run waits for whoever in a cluster takes it next.
    pub fn waits(run: &Run) -> bool {
        Holder::last(run).is_some_and(|last| last.released && last.node.is_some())
    }

    pub fn to_text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The same, that has let go.
    pub fn released(self) -> Holder {
        Holder { released: true, ..self }
    }

    /// Whether it is this process, which has not let go.
    fn is_here(&self) -> bool {
        let us = Holder::this_process(self.role);
        let same = (self.pid, self.started) == (us.pid, us.started);
        same && !self.released && !self.is_elsewhere()
    }

    /// Whether it is where nobody here can see if it still lives: in another container, or on another machine.
    pub fn is_elsewhere(&self) -> bool {
        let us = Holder::this_process(self.role);
        (&self.boot, &self.name_space) != (&us.boot, &us.name_space)
    }

    /// The process that worked on this run last, if it has not come to an end, there or not.
    pub fn last(run: &Run) -> Option<Holder> {
        let holder = run.holder.as_deref().filter(|_| run.status == RunStatus::Running)?;
        serde_json::from_str(holder).ok()
    }

    /// The process that works on this run, if there is one, or if there may be: of other machines
    /// and containers we cannot know.
    pub fn of(run: &Run) -> Option<Holder> {
        let holder = Holder::last(run).filter(|holder| !holder.released)?;
        if holder.node.is_some() {
            return Some(holder);
        }
        let us = Holder::this_process(Role::default());
        let gone = match (holder.boot == us.boot, holder.name_space == us.name_space) {
            (true, true) => started(holder.pid) != Some(holder.started),
            (true, false) => false,
            // The same machine, started anew since.
            (false, _) => holder.host == us.host,
        };
        (!gone).then_some(holder)
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "process {}", self.pid)?;
        let us = Holder::this_process(Role::default());
        match (self.host == us.host, self.name_space == us.name_space) {
            (false, _) => write!(f, " on {}", self.host),
            (true, false) => f.write_str(" in another container"),
            (true, true) => Ok(()),
        }
    }
}

/// Writes down that nobody works any more on a run that has not ended, as it is to go on later or its last word could
/// not be written: whoever comes next need not guess.
pub async fn let_go(store: &dyn Store, id: &RunId, life: u64) {
    let let_go = async {
        let run = store.run(id).await?;
        let ours = Holder::last(&run).filter(|last| run.epoch == life && last.is_here());
        if let Some(ours) = ours {
            store.claim(id, &ours.released().to_text(), Some(life)).await?;
        }
        Ok::<_, StoreError>(())
    };
    match let_go.await {
        Ok(()) | Err(StoreError::NoSuchRun(_) | StoreError::Fenced(_)) => {}
        Err(error) => {
            tracing::warn!(run = %id, %error, "that it was let go could not be written down");
        }
    }
}

/// When a process began; `None` if there is none of that number, or it is over and only waits to be
/// heard of.
fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name of the program may hold anything; the figures follow its last bracket.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

/// How a run stands, as people see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// For a worker of the cluster.
    Waiting,
    Running,
    /// Whoever worked on it is gone.
    Stopped,
    Done,
    Failed,
    Cancelled,
}

impl Standing {
    pub fn of(run: &Run) -> Standing {
        match run.status {
            RunStatus::Running if Holder::waits(run) => Standing::Waiting,
            RunStatus::Running if Holder::of(run).is_none() => Standing::Stopped,
            RunStatus::Running => Standing::Running,
            RunStatus::Done => Standing::Done,
            RunStatus::Failed => Standing::Failed,
            RunStatus::Cancelled => Standing::Cancelled,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Standing::Waiting => "waiting",
            Standing::Running => RunStatus::Running.name(),
            Standing::Stopped => "stopped",
            Standing::Done => RunStatus::Done.name(),
            Standing::Failed => RunStatus::Failed.name(),
            Standing::Cancelled => RunStatus::Cancelled.name(),
        }
    }
}

/// How a run stands, in one word.
pub fn status(run: &Run) -> &'static str {
    Standing::of(run).name()
}

/// Refuses to touch a run that somebody works on.
pub fn refuse_if_held(run: &Run, what: &str, instead: &str) -> Result<(), Failure> {
    match Holder::of(run) {
        None => Ok(()),
        Some(holder) => {
            let message = format!("{holder} is working on `{}`, so it cannot be {what}", run.id);
            Err(Failure::new(FailureKind::Usage, message).hint(instead))
        }
    }
}

/// Says how to resume a run by its name; `flags` stand at the end of the command.
pub fn how_to_resume(kind: RunKind, id: &RunId, flags: &str) -> String {
    match kind {
        RunKind::Debate => format!("kept as {id}; go on with `assize debate --resume {id}{flags}`"),
        _ => format!("kept as {id}; go on with `assize runs resume {id}{flags}`"),
    }
}

/// Where the input of a run says what may be spent on it.
const BUDGET: &str = "budget";

/// What a run itself has spent before, calls without an answer included; this counts against its budget. A new run has
/// spent nothing.
pub(crate) async fn spent(
    store: &Arc<dyn Store>,
    resumed: Option<&Run>,
    inherited: &[Record],
) -> Result<Already, StoreError> {
    let Some(run) = resumed else {
        return Ok(Already { account: Some(Arc::new(Account::new(store))), ..Already::default() });
    };
    let budget = &run.input[BUDGET];
    let caps = Caps {
        cost: budget["max_cost"].as_f64().and_then(Money::from_dollars),
        tokens: budget["max_tokens"].as_u64(),
    };
    let records = store.records(&run.id).await?;
    let Totals { cost, usage, .. } = answered(&records, inherited);
    let account = Account::resume(store, &run.id, &records, inherited).await?;
    let lost = account.lost();
    let (cost, tokens) = (cost + lost.cost, usage.total().saturating_add(lost.tokens));
    Ok(Already { caps, cost, tokens, account: Some(Arc::new(account)) })
}

/// What the answers came to that a run got itself, by what is kept of them.
pub fn answered(own: &[Record], inherited: &[Record]) -> Totals {
    let inherited: HashMap<&Key, &Record> =
        inherited.iter().map(|record| (&record.key, record)).collect();
    let mut totals = Totals::default();
    let lost = Lost::recorded(own);
    let own = own.iter().filter(|record| inherited.get(&record.key) != Some(record));
    for response in own.filter_map(answer) {
        totals.calls += 1;
        totals.usage += response.usage.unwrap_or_default();
        match response.cost {
            Cost::Known(cost) => totals.cost += cost,
            Cost::Local => totals.local_calls += 1,
            Cost::Unknown => totals.unpriced_calls += 1,
        }
    }
    if let Some(lost) = lost {
        totals.lost_calls = lost.calls;
        totals.lost_cost = lost.cost;
        totals.lost_tokens = lost.tokens;
    }
    totals
}

/// What a run may have taken over from the one that it was forked from; nothing, where that is gone.
pub async fn inherited(store: &dyn Store, run: &Run) -> Result<Vec<Record>, StoreError> {
    let Some(parent) = &run.parent else { return Ok(Vec::new()) };
    match store.records(parent).await {
        Err(StoreError::NoSuchRun(_)) => Ok(Vec::new()),
        records => records,
    }
}

/// What a model answered, if it is that which was recorded.
pub(crate) fn answer(record: &Record) -> Option<Response> {
    match &record.outcome {
        Outcome::Done(text) => serde_json::from_str(text).ok(),
        Outcome::Failed(_) => None,
    }
}

/// A run that is to begin, or to go on.
#[derive(Debug)]
pub struct Begin<F> {
    pub store: Arc<dyn Store>,
    /// The run that is to go on, if it is one.
    pub resumed: Option<Run>,
    pub take_over: bool,
    /// Where its calls are noted, as [`spent`] found it.
    pub(crate) account: Option<Arc<Account>>,
    /// A new one, if it is none.
    pub new: F,
}

/// Claims a run that is to go on, or makes one, to hold it here.
pub async fn begin(
    clerk: &Clerk,
    begin: Begin<impl FnOnce() -> NewRun>,
) -> Result<(Run, Arc<RunJournal>), Failure> {
    let (store, is_new) = (begin.store.clone(), begin.resumed.is_none());
    let calls = begin.account.clone();
    let mut holder = Holder::of_clerk(clerk);
    if let (Some(run), Some(_)) = (&begin.resumed, &holder.node) {
        holder.records = Some(account::progress(&store.records(&run.id).await?));
        if let Some(last) = Holder::last(run) {
            (holder.asked, holder.deaths) = (last.asked, last.deaths);
        }
    }
    let (run, claim) = claim(clerk, begin, &holder).await?;
    if let Some(calls) = calls {
        calls.begin(claim.clone()).await?;
    }
    let journal = match is_new {
        true => RunJournal::fresh(store, claim),
        false => RunJournal::open(store, claim).await?,
    };
    Ok((run, Arc::new(journal)))
}

/// The same, to have it held by whoever in the cluster takes it.
pub async fn put(
    clerk: &Clerk,
    member: &Arc<Member>,
    begin: Begin<impl FnOnce() -> NewRun>,
) -> Result<(Run, Elsewhere), Failure> {
    let store = begin.store.clone();
    let after = match &begin.resumed {
        Some(run) if Holder::waits(run) && !begin.take_over => {
            let message = format!("`{}` waits for a worker already", run.id);
            return Err(Failure::new(FailureKind::Usage, message)
                .hint("`assize cluster status` shows who there is, and what waits for whom"));
        }
        Some(_) => store.last_event().await?,
        None => 0,
    };
    let (run, _) = claim(clerk, begin, &Holder::nobody(clerk, member)).await?;
    // If this is not heard of any more, workers find the run all the same.
    member.put(&run).await?;
    let servers = member.cluster.address();
    let elsewhere = Elsewhere { store, id: run.id.clone(), servers, after };
    Ok((run, elsewhere))
}

async fn claim(
    clerk: &Clerk,
    begin: Begin<impl FnOnce() -> NewRun>,
    holder: &Holder,
) -> Result<(Run, Lease), Failure> {
    let Begin { store, resumed, take_over, new, .. } = begin;
    let holder = holder.to_text();
    match resumed {
        Some(run) => {
            // Only as it was when it was looked at, unless it is to be taken from whoever has it.
            let seen = (!take_over).then_some(run.epoch);
            let claim = store.claim(&run.id, &holder, seen).await?;
            Ok((store.run(&run.id).await?, claim))
        }
        None => {
            let mut new = new();
            let Caps { cost, tokens } = choose::caps(&clerk.config);
            new.once = clerk.once.clone();
            if cost.is_some() || tokens.is_some() {
                let cost = cost.map(Money::dollars);
                new.input[BUDGET] = json!({"max_cost": cost, "max_tokens": tokens});
            }
            if clerk.member.is_some() {
                cluster::note_needs(&mut new.input, &clerk.config)?;
            }
            Ok(store.create_run(new, &holder).await?)
        }
    }
}

/// The run of this kind that is to go on.
pub async fn to_go_on(store: &dyn Store, again: &GoOn, kind: RunKind) -> Result<Run, Failure> {
    let run = find(store, &again.run).await?;
    if run.kind != kind {
        let message = format!("`{}` is of another kind: {}", run.id, run.kind);
        let hint = format!("`assize runs resume {}` knows how", run.id);
        return Err(Failure::new(FailureKind::Usage, message).hint(hint));
    }
    if !again.take_over {
        let instead = "wait for it, stop it, or take the run over with `--take-over`";
        refuse_if_held(&run, "taken up again", instead)?;
    }
    Ok(run)
}

/// Refuses to go on with a run that was begun with another model.
pub fn refuse_another_model(
    run: &str,
    before: (&str, &str),
    gateway: &Gateway,
    tape: &Tape,
) -> Result<(), Failure> {
    // A cassette answers in whoever's name it was recorded.
    if tape.replays() || before == gateway.name() {
        return Ok(());
    }
    Err(another_model(run, before, gateway.name()))
}

/// That a run was begun with one model, and another would answer now.
fn another_model(run: &str, before: (&str, &str), now: (&str, &str)) -> Failure {
    let message = format!(
        "{run} was begun with {} {}, and {} {} would answer now",
        before.0, before.1, now.0, now.1
    );
    let hint = format!("go on with `--provider {} --model {}`", before.0, before.1);
    Failure::new(FailureKind::Settings, message).hint(hint)
}

/// The events of one run.
pub fn of(run: &Run) -> EventQuery {
    EventQuery { runs: vec![run.id.clone()], ..EventQuery::default() }
}
