//! Calls to models, noted before they are sent and when they are over: should whoever makes them die, the next one
//! knows what may have been paid for besides what was recorded.

use assize_run::{CallState, Lease, Noted, RunId, StoreError};
use async_nats::HeaderMap;
use tokio::time::Instant;

use super::ClusterStore;
use super::wire::{self, CALLS};
use crate::link::{More, Reading};

impl ClusterStore {
    /// Notes how far a call is, under its number in this life of the run.
    pub(super) async fn write_call(
        &self,
        claim: &Lease,
        number: u64,
        noted: Noted,
    ) -> Result<(), StoreError> {
        let payload = serde_json::to_vec(&noted).map_err(|error| self.link.failed(error))?;
        let subject = self.subject(format!("call.{}.{}.{number}", claim.run, claim.epoch));
        loop {
            let begun = Instant::now();
            self.link.add(&subject, HeaderMap::new(), payload.clone()).await?;
            if noted.how == CallState::Answered {
                return Ok(());
            }
            // Only then it is looked: whoever takes the run sees the note, or is seen.
            if self.get(wire::turn(&claim.run, claim.epoch + 1)).await?.is_some() {
                break;
            }
            // After a long wait the claim may be lost by now, and a call is only made under it.
            let times = self.link.options.times;
            if noted.how != CallState::Sent || begun.elapsed() < times.noting() {
                return Ok(());
            }
        }
        if let Err(error @ StoreError::NoSuchRun(_)) = self.outline(&claim.run).await {
            self.purge(CALLS, &format!("call.{}.>", claim.run)).await?;
            return Err(error);
        }
        match noted.how {
            CallState::Sent => Err(StoreError::Fenced(claim.run.clone())),
            // The last word of whoever had the run counts.
            CallState::Answered | CallState::Lost | CallState::Free => Ok(()),
        }
    }

    /// All calls of a run, each with the life in which it was made.
    pub(super) async fn read_calls(&self, run: &RunId) -> Result<Vec<(u64, Noted)>, StoreError> {
        let filter = self.subject(format!("call.{run}.>"));
        let reading = Reading { stream: CALLS, filter, from: 1, last_of_each: false };
        let mut calls = Vec::new();
        // After what the cluster is called and what this is: the run, its life, a number.
        let life = self.subject("call".to_owned()).split('.').count() + 1;
        self.link
            .read(reading, |found| {
                let noted = self.link.parse(&found.payload)?;
                calls.push((found.word(life).parse().unwrap_or_default(), noted));
                Ok(More::Wanted)
            })
            .await?;
        Ok(calls)
    }
}
