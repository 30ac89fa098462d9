//! Handle on one container: its resource usage and its removal.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bollard::errors::Error;
use bollard::query_parameters::{
    EventsOptionsBuilder, InspectContainerOptions, RemoveContainerOptionsBuilder,
    StatsOptionsBuilder,
};
use futures_util::StreamExt;

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
    api: bollard::Docker,
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
        api: bollard::Docker,
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
        let wanted = HashMap::from([("container", vec![self.id.as_str()]), ("event", vec!["oom"])]);
        let options = EventsOptionsBuilder::new()
            .since(&seconds(self.made - INFO_TIMEOUT))
            // The out-of-memory event may arrive after the container's end.
            .until(&seconds(SystemTime::now() + Duration::from_secs(1)))
            .filters(&wanted)
            .build();
        let events =
            self.api.events(Some(options)).take_while(|event| std::future::ready(event.is_ok()));
        tokio::time::timeout(INFO_TIMEOUT, events.count()).await.map_or(0, |count| count as u64)
    }

    /// Reads the peak memory use of the container from the engine's statistics.
    async fn engine_stats(&self) -> Option<ResourceUsage> {
        let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
        let stats = self.api.stats(&self.id, Some(options)).next().await?.ok()?;
        Some(ResourceUsage { peak_memory: stats.memory_stats?.max_usage, out_of_memory: 0 })
    }
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
        let reply = tokio::time::timeout(INFO_TIMEOUT, self.api.ping()).await;
        (!matches!(reply, Ok(Ok(_)))).then(|| "the container engine does not respond".to_owned())
    }
}

/// Kills and removes a container. Returns `false` if the engine fails or times out.
pub(super) async fn remove(api: &bollard::Docker, name: &str) -> bool {
    let removed = async {
        loop {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            match api.remove_container(name, Some(options)).await.as_ref().map_err(EngineFault::of)
            {
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
pub(super) async fn inspect(api: &bollard::Docker, id: &str) -> Result<CreatedContainer, Error> {
    let found = api.inspect_container(id, None::<InspectContainerOptions>).await?;
    let pid = found.state.and_then(|state| state.pid).filter(|pid| *pid > 0);
    let memory = pid.and_then(|pid| MemoryCgroup::of_process(pid, id));
    let host = found.host_config.unwrap_or_default();
    let limits = [("memory", host.memory), ("processes", host.pids_limit), ("CPU", host.cpu_quota)];
    let none = |limit: Option<i64>| limit.is_none_or(|limit| limit <= 0);
    let unlimited = limits.into_iter().filter(|(_, limit)| none(*limit)).map(|(name, _)| name);
    Ok(CreatedContainer { memory, unlimited: unlimited.collect() })
}
