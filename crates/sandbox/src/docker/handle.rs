//! Handle on one container: its resource usage and its removal.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use super::api::{EngineApi, EngineError};
use super::engine::EngineFault;
use crate::backend::{ResourceUsage, SandboxHandle};
use crate::cgroup::MemoryCgroup;
use crate::diagnostics::DiagnosticOutput;

/// Maximum time to wait for the removal of a container. After a timeout, the engine continues the removal by itself.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Time limit of a query to the engine about a container that has ended.
const INFO_TIMEOUT: Duration = Duration::from_secs(3);

/// Poll interval while the engine removes a container that ended on its own.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Handle on one container.
#[derive(Debug)]
pub(super) struct DockerHandle {
    api: EngineApi,
    id: String,
    made: SystemTime,
    /// Memory cgroup of the container. If it is not readable (`None`), the memory use is read from the statistics of
    /// the engine.
    memory: Option<MemoryCgroup>,
    words: DiagnosticOutput,
    /// Memory usage that was read last. It is reported after the container has ended.
    last: Mutex<ResourceUsage>,
    ended: tokio::sync::Mutex<bool>,
}

impl DockerHandle {
    pub(super) fn new(
        api: EngineApi,
        id: String,
        memory: Option<MemoryCgroup>,
        words: DiagnosticOutput,
    ) -> DockerHandle {
        let (last, ended) = (Mutex::default(), tokio::sync::Mutex::new(false));
        DockerHandle { api, id, made: SystemTime::now(), memory, words, last, ended }
    }

    fn last(&self) -> ResourceUsage {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of out-of-memory events of a container that has ended, according to the engine's event log.
    async fn oom_events(&self) -> u64 {
        let seconds = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            since.as_secs().to_string()
        };
        let wanted = json!({"container": [self.id], "event": ["oom"]}).to_string();
        let since = seconds(self.made - INFO_TIMEOUT);
        // The out-of-memory event may arrive after the container's end.
        let until = seconds(SystemTime::now() + Duration::from_secs(1));
        let query = [("since", since.as_str()), ("until", &until), ("filters", &wanted)];
        let events =
            tokio::time::timeout(INFO_TIMEOUT, self.api.get_bytes("/events", &query)).await;
        let Ok(Ok(events)) = events else { return 0 };
        let events = serde_json::Deserializer::from_slice(&events).into_iter::<IgnoredAny>();
        events.take_while(Result::is_ok).count() as u64
    }

    /// Reads the peak memory use of the container from the engine's statistics.
    async fn engine_stats(&self) -> Option<ResourceUsage> {
        let path = format!("/containers/{}/stats", self.id);
        let once = [("stream", "false"), ("one-shot", "true")];
        let stats: ContainerStats = self.api.get(&path, &once).await.ok()?;
        Some(ResourceUsage { peak_memory: stats.memory_stats.max_usage, out_of_memory: 0 })
    }
}

/// Statistics of a container.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ContainerStats {
    memory_stats: MemoryStats,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct MemoryStats {
    max_usage: Option<u64>,
}

#[async_trait]
impl SandboxHandle for DockerHandle {
    fn external_id(&self) -> Option<&str> {
        Some(&self.id)
    }

    async fn usage(&self) -> ResourceUsage {
        let read = match &self.memory {
            Some(memory) => memory.read(),
            None => self.engine_stats().await,
        };
        let account = match read {
            Some(account) => account,
            // This process has ended the container, so no newer usage than the last one exists.
            None if *self.ended.lock().await => self.last(),
            None => {
                let last = self.last();
                let out_of_memory = last.out_of_memory.max(self.oom_events().await);
                ResourceUsage { out_of_memory, ..last }
            }
        };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = account;
        account
    }

    async fn end(&self) {
        let mut ended = self.ended.lock().await;
        if !*ended {
            *ended = remove(&self.api, &self.id).await;
        }
    }

    async fn diagnostic_output(&self) -> Option<String> {
        if let Some(output) = self.words.get() {
            return Some(output);
        }
        let reply = tokio::time::timeout(INFO_TIMEOUT, self.api.get_bytes("/_ping", &[])).await;
        (!matches!(reply, Ok(Ok(_)))).then(|| "the container engine does not respond".to_owned())
    }
}

/// Kills and removes a container. Returns `false` if the engine fails or times out.
pub(super) async fn remove(api: &EngineApi, name: &str) -> bool {
    let path = format!("/containers/{name}");
    let removed = async {
        loop {
            let removed = api.delete(&path, &[("force", "true"), ("v", "true")]).await;
            match removed.as_ref().map_err(EngineFault::of) {
                Ok(()) => return true,
                Err(EngineFault::Missing) => return true,
                // The container ended on its own and is being removed.
                Err(EngineFault::Conflict) => tokio::time::sleep(POLL_INTERVAL).await,
                Err(_) => return false,
            }
        }
    };
    tokio::time::timeout(REMOVE_TIMEOUT, removed).await.unwrap_or(false)
}

/// Properties of a container that the engine has created.
pub(super) struct CreatedContainer {
    /// Memory cgroup of the container, if the container runs on this machine and its cgroup is readable.
    pub(super) memory: Option<MemoryCgroup>,
    /// Names of the requested limits that the engine does not enforce.
    pub(super) unlimited: Vec<&'static str>,
}

/// Requests the properties of a container from the engine.
pub(super) async fn inspect(api: &EngineApi, id: &str) -> Result<CreatedContainer, EngineError> {
    let found: Container = api.get(&format!("/containers/{id}/json"), &[]).await?;
    let pid = Some(found.state.pid).filter(|pid| *pid > 0);
    let memory = pid.and_then(|pid| MemoryCgroup::of_process(pid, id));
    let host = found.host_config;
    let limits = [("memory", host.memory), ("processes", host.pids_limit), ("CPU", host.cpu_quota)];
    let none = |limit: Option<i64>| limit.is_none_or(|limit| limit <= 0);
    let unlimited = limits.into_iter().filter(|(_, limit)| none(*limit)).map(|(name, _)| name);
    Ok(CreatedContainer { memory, unlimited: unlimited.collect() })
}

/// Properties of a container, as the engine reports them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Container {
    state: ContainerState,
    host_config: ContainerLimits,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ContainerState {
    pid: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct ContainerLimits {
    memory: Option<i64>,
    pids_limit: Option<i64>,
    cpu_quota: Option<i64>,
}
