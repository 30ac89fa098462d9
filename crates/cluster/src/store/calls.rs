//! Records of model calls. The lease holder of a run stores each call before it sends the call, and again when the call
//! has ended. If the lease holder dies, the next lease holder can read which calls have no recorded answer although the
//! provider may have charged for them.

use assize_run::{CallState, Lease, RunId, StoreError, StoredCall};
use async_nats::HeaderMap;
use tokio::time::Instant;

use super::ClusterStore;
use super::wire::{self, CALLS};
use crate::connection::{ReadFlow, ReadSelection};

impl ClusterStore {
    /// Stores the state of a model call. `number` identifies the call within this epoch of the run. Fails if the call
    /// is about to be sent and this process has lost the lease.
    pub(super) async fn write_call(
        &self,
        claim: &Lease,
        number: u64,
        noted: StoredCall,
    ) -> Result<(), StoreError> {
        let payload = serde_json::to_vec(&noted).map_err(|error| self.link.failed(error))?;
        let subject = self.subject(format!("call.{}.{}.{number}", claim.run, claim.epoch));
        loop {
            let begun = Instant::now();
            self.link.add(&subject, HeaderMap::new(), payload.clone()).await?;
            if noted.state == CallState::Answered {
                return Ok(());
            }
            // Check for a later claim only after the write. Then either the next lease holder sees this call, or this
            // check sees the claim of the next lease holder.
            if self.get(wire::turn(&claim.run, claim.epoch + 1)).await?.is_some() {
                break;
            }
            // Only the lease holder may send the call. If the write took long, the lease may be lost by now, so repeat
            // the write and the check.
            let times = self.link.options.times;
            if noted.state != CallState::Sent || begun.elapsed() < times.noting() {
                return Ok(());
            }
        }
        if let Err(error @ StoreError::NoSuchRun(_)) = self.outline(&claim.run).await {
            self.purge(CALLS, &format!("call.{}.>", claim.run)).await?;
            return Err(error);
        }
        match noted.state {
            CallState::Sent => Err(StoreError::Fenced(claim.run.clone())),
            // The end of a call may be stored even after the lease is lost.
            CallState::Answered | CallState::Lost | CallState::Free => Ok(()),
        }
    }

    /// Reads all stored model calls of a run, each with its epoch.
    pub(super) async fn read_calls(
        &self,
        run: &RunId,
    ) -> Result<Vec<(u64, StoredCall)>, StoreError> {
        let filter = self.subject(format!("call.{run}.>"));
        let reading = ReadSelection { stream: CALLS, filter, from: 1, last_of_each: false };
        let mut calls = Vec::new();
        // The subject consists of the cluster name, `call`, the run id, the epoch and the number of the call.
        let epoch_index = self.subject("call".to_owned()).split('.').count() + 1;
        self.link
            .read(reading, |found| {
                let noted = self.link.parse(&found.payload)?;
                calls.push((found.word(epoch_index).parse().unwrap_or_default(), noted));
                Ok(ReadFlow::Continue)
            })
            .await?;
        Ok(calls)
    }
}
