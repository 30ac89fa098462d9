//! Background task that fills a pool, replaces dead sandboxes, and ends idle sandboxes after the idle timeout.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::future::select_all;
use tokio_util::sync::CancellationToken;

use super::{Next, Shared, micros_since};
use crate::channel::until;
use crate::error::SandboxError;
use crate::sandbox::Sandbox;

/// Pause between a request and the next refill, about as long as a short program runs. During the pause, the program of
/// the request has the CPU for itself.
const YIELD: Duration = Duration::from_millis(10);

/// Interval at which a pool that lacks memory checks whether memory has become free.
const MEMORY_POLL: Duration = Duration::from_secs(5);

/// Refill task: creates one sandbox after the other until the pool is full, replaces sandboxes that die, and ends all
/// idle sandboxes after the idle timeout.
pub(super) async fn keep_filled(shared: Arc<Shared>, stop: CancellationToken) {
    loop {
        let changed = shared.changed.notified();
        tokio::pin!(changed);
        changed.as_mut().enable();
        for sandbox in shared.remove_dead() {
            tracing::warn!(id = sandbox.id(), "replacing an idle sandbox that died");
            sandbox.end().await;
        }
        let lacks = shared.needs_refill();
        if lacks && shared.has_memory() {
            // Wait first, to leave the CPU to the request that just took a sandbox.
            let start = shared.state().used + YIELD;
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep_until(start.into()) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = refill(&shared) => {}
            }
            continue;
        }
        let memory_poll = async {
            if lacks {
                tokio::time::sleep(MEMORY_POLL).await;
            } else {
                std::future::pending().await
            }
        };
        let idle = async {
            match shared.idle_end() {
                Some(end) => tokio::time::sleep_until(end.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stop.cancelled() => return,
            () = memory_poll => {}
            () = changed => {}
            () = death(&shared) => {}
            () = idle => end_idle_sandboxes(&shared, &stop).await,
        }
    }
}

/// Waits until one of the idle sandboxes dies.
async fn death(shared: &Shared) {
    let watched: Vec<_> = shared.state().idle.iter().map(|one| Box::pin(one.ended())).collect();
    if watched.is_empty() {
        return std::future::pending().await;
    }
    select_all(watched).await;
}

/// Executes one step to fill the pool: creates a sandbox, or starts an interpreter in an idle sandbox.
async fn refill(shared: &Shared) {
    let begun = Instant::now();
    let (made, to_the_front) = match shared.next() {
        Next::Prepare(sandbox) => (prepare(shared, sandbox).await, true),
        Next::Make => (make_idle(shared).await, false),
        Next::Nothing => return,
    };
    if made.is_ok() {
        shared.counters.refill_micros.fetch_add(micros_since(begun), Ordering::Relaxed);
        // The start of an interpreter in an existing sandbox does not count as a refill.
        shared.counters.refills.fetch_add(u64::from(!to_the_front), Ordering::Relaxed);
    }
    add(shared, made, to_the_front);
}

async fn make_idle(shared: &Shared) -> Result<Sandbox, SandboxError> {
    let sandbox = shared.creator.create(shared.spec.clone()).await?;
    let prepared = {
        let lane = shared.state();
        lane.without_interpreter || lane.idle.len() >= shared.interpreters()
    };
    if prepared { Ok(sandbox) } else { prepare(shared, sandbox).await }
}

async fn prepare(shared: &Shared, sandbox: Sandbox) -> Result<Sandbox, SandboxError> {
    match sandbox.prepare().await {
        Ok(()) => Ok(sandbox),
        // Without Python, an idle sandbox still saves the time to start a sandbox.
        Err(SandboxError::NoInterpreter(..)) => {
            shared.state().without_interpreter = true;
            Ok(sandbox)
        }
        Err(error) => {
            sandbox.end().await;
            Err(error)
        }
    }
}

fn add(shared: &Shared, made: Result<Sandbox, SandboxError>, to_the_front: bool) {
    let mut lane = shared.state();
    lane.compare_clocks();
    match made {
        Ok(sandbox) => {
            if to_the_front {
                lane.idle.push_front(sandbox);
            } else {
                lane.idle.push_back(sandbox);
            }
            // The idle timeout starts after the refill, however long the refill took.
            lane.used = Instant::now();
        }
        Err(error) => {
            tracing::warn!(%error, "cannot refill the warm pool");
            lane.refill_error = Some(error);
        }
    }
    drop(lane);
    shared.changed.notify_waiters();
}

/// Ends all idle sandboxes and waits for the next request, unless a request has just arrived.
async fn end_idle_sandboxes(shared: &Shared, stop: &CancellationToken) {
    let idle = {
        let mut lane = shared.state();
        if lane.idle_timeout_disabled || lane.used.elapsed() < shared.options.idle {
            return;
        }
        lane.should_fill = false;
        std::mem::take(&mut lane.idle)
    };
    for sandbox in idle {
        sandbox.end().await;
    }
    let wanted_again = until(&shared.changed, || shared.state().should_fill.then_some(()));
    tokio::select! {
        () = stop.cancelled() => {}
        () = wanted_again => {}
    }
}
