//! The walls of one container: its account, and its end.

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

use super::engine::Fault;
use crate::backend::{Account, Cell};
use crate::cgroup::Memory;
use crate::words::Words;

/// How long a container may take to go. The engine goes on without us.
const END: Duration = Duration::from_secs(20);

/// How long we wait for what the engine knows about a container that is gone.
const NEWS: Duration = Duration::from_secs(3);

/// How often we look whether somebody else's removal is done.
const LOOK: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct DockerCell {
    api: bollard::Docker,
    id: String,
    made: SystemTime,
    /// Where the kernel's account can be read; else the engine is asked.
    memory: Option<Memory>,
    words: Words,
    /// What was read last, for when nothing can be read any more.
    last: Mutex<Account>,
    ended: tokio::sync::Mutex<bool>,
}

impl DockerCell {
    pub(super) fn new(
        api: bollard::Docker,
        id: String,
        memory: Option<Memory>,
        words: Words,
    ) -> DockerCell {
        let (last, ended) = (Mutex::default(), tokio::sync::Mutex::new(false));
        DockerCell { api, id, made: SystemTime::now(), memory, words, last, ended }
    }

    fn last(&self) -> Account {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often memory ran out in a container that is gone, and its account with it.
    async fn recall(&self) -> u64 {
        let seconds = |time: SystemTime| {
            let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            since.as_secs().to_string()
        };
        let wanted = HashMap::from([("container", vec![self.id.as_str()]), ("event", vec!["oom"])]);
        let options = EventsOptionsBuilder::new()
            .since(&seconds(self.made - NEWS))
            // The news may be slower than the end itself.
            .until(&seconds(SystemTime::now() + Duration::from_secs(1)))
            .filters(&wanted)
            .build();
        let events =
            self.api.events(Some(options)).take_while(|event| std::future::ready(event.is_ok()));
        tokio::time::timeout(NEWS, events.count()).await.map_or(0, |count| count as u64)
    }

    /// The most memory in use, as far as the engine knows it.
    async fn ask(&self) -> Option<Account> {
        let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
        let stats = self.api.stats(&self.id, Some(options)).next().await?.ok()?;
        Some(Account { peak_memory: stats.memory_stats?.max_usage, out_of_memory: 0 })
    }
}

#[async_trait]
impl Cell for DockerCell {
    fn external_id(&self) -> Option<&str> {
        Some(&self.id)
    }

    async fn account(&self) -> Account {
        let read = match &self.memory {
            Some(memory) => memory.read(),
            None => self.ask().await,
        };
        let account = match read {
            Some(account) => account,
            // We ended it ourselves, and know what we knew.
            None if *self.ended.lock().await => self.last(),
            None => {
                let last = self.last();
                Account { out_of_memory: last.out_of_memory.max(self.recall().await), ..last }
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

    async fn last_words(&self) -> Option<String> {
        if let Some(words) = self.words.get() {
            return Some(words);
        }
        let answer = tokio::time::timeout(NEWS, self.api.ping()).await;
        (!matches!(answer, Ok(Ok(_)))).then(|| "the engine does not answer any more".to_owned())
    }
}

/// Kills a container and removes it. `false` when the engine cannot be asked, or takes too long.
pub(super) async fn remove(api: &bollard::Docker, name: &str) -> bool {
    let removed = async {
        loop {
            let options = RemoveContainerOptionsBuilder::new().force(true).v(true).build();
            match api.remove_container(name, Some(options)).await.as_ref().map_err(Fault::of) {
                Ok(()) => return true,
                Err(Fault::Missing) => return true,
                // It is being removed, because it ended by itself.
                Err(Fault::Conflict) => tokio::time::sleep(LOOK).await,
                Err(_) => return false,
            }
        }
    };
    tokio::time::timeout(END, removed).await.unwrap_or(false)
}

/// What the engine made of what was asked for.
pub(super) struct Made {
    /// Where the kernel's account can be read, if its first process is on this machine.
    pub(super) memory: Option<Memory>,
    /// The limits that it does not hold, whatever it was asked.
    pub(super) unlimited: Vec<&'static str>,
}

pub(super) async fn look_at(api: &bollard::Docker, id: &str) -> Result<Made, Error> {
    let found = api.inspect_container(id, None::<InspectContainerOptions>).await?;
    let pid = found.state.and_then(|state| state.pid).filter(|pid| *pid > 0);
    let memory = pid.and_then(|pid| Memory::of_process(pid, id));
    let host = found.host_config.unwrap_or_default();
    let limits =
        [("memory", host.memory), ("processes", host.pids_limit), ("processor", host.cpu_quota)];
    let none = |limit: Option<i64>| limit.is_none_or(|limit| limit <= 0);
    let unlimited = limits.into_iter().filter(|(_, limit)| none(*limit)).map(|(name, _)| name);
    Ok(Made { memory, unlimited: unlimited.collect() })
}
