//! Splits content that is too large for one message into pieces, and stores the pieces in a separate stream. The
//! subjects of the pieces contain the hash of the whole content.

use assize_run::{RunId, StoreError};
use assize_types::Fingerprint;
use async_nats::HeaderMap;
use futures_util::future::try_join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{self, PIECES};
use crate::connection::{NatsConnection, ReadFlow, ReadSelection, StoredMessage};

/// Size in bytes above which content is stored in pieces. A small size keeps the first message of every run small; the
/// list of runs is read from these messages.
const LARGE: usize = 32 << 10;

/// Maximum size of a piece in bytes. By default, NATS servers accept messages of up to 1 MiB.
const PIECE: usize = 512 << 10;

/// Header of a message whose content is stored in pieces. Its value consists of the hash of the content and the number
/// of pieces.
const WHOLE: &str = "Assize-Whole";
/// Header of a piece; its value is the number of pieces of the whole content.
const COUNT: &str = "Assize-Pieces";

/// Headers and payload of a message that is to be written.
pub(super) struct PackedMessage {
    pub(super) headers: HeaderMap,
    pub(super) payload: Vec<u8>,
}

impl NatsConnection {
    /// Converts a value to a message. A large value is stored in pieces. The message then contains only `light`, which
    /// is the value without its large parts.
    pub(super) async fn pack<T: Serialize>(
        &self,
        run: &RunId,
        whole: &T,
        light: Option<&(impl Serialize + Sync)>,
    ) -> Result<PackedMessage, StoreError> {
        let mut headers = HeaderMap::new();
        let bytes = serde_json::to_vec(whole).map_err(|error| self.failed(error))?;
        if bytes.len() <= LARGE {
            return Ok(PackedMessage { headers, payload: bytes });
        }
        let (hash, count) = self.put_pieces(run, &bytes).await?;
        headers.insert(WHOLE, format!("{hash} {count}").as_str());
        let light =
            light.map(|light| serde_json::to_vec(light).map_err(|error| self.failed(error)));
        Ok(PackedMessage { headers, payload: light.transpose()?.unwrap_or_default() })
    }

    /// Decodes a message, including content that is stored in pieces.
    pub(super) async fn unpack<T: DeserializeOwned>(
        &self,
        run: &RunId,
        found: &StoredMessage,
    ) -> Result<T, StoreError> {
        let Some(whole) = found.header(WHOLE) else { return self.parse(&found.payload) };
        let (hash, count) = whole.split_once(' ').unwrap_or_default();
        let damaged = || {
            let number = found.sequence;
            self.failed(format!("message {number} in the stream of runs is damaged"))
        };
        let hash: Fingerprint = hash.parse().map_err(|_| damaged())?;
        let count = count.parse().map_err(|_| damaged())?;
        let bytes = self.get_pieces(run, hash, count).await?.ok_or_else(damaged)?;
        self.parse(&bytes)
    }

    /// Decodes the payload of a message. If the whole value is stored in pieces, the payload contains only the value
    /// without its large parts.
    pub(super) fn parse<T: DeserializeOwned>(&self, payload: &[u8]) -> Result<T, StoreError> {
        serde_json::from_slice(payload)
            .map_err(|error| self.failed(format!("cannot decode a stored message: {error}")))
    }

    /// Stores bytes that belong to a run in pieces. Returns the hash of the bytes and the number of pieces.
    pub(super) async fn put_pieces(
        &self,
        run: &RunId,
        bytes: &[u8],
    ) -> Result<(Fingerprint, usize), StoreError> {
        let hash = Fingerprint::of(bytes);
        let pieces: Vec<&[u8]> = match bytes.len() {
            0 => vec![&[]],
            _ => bytes.chunks(PIECE).collect(),
        };
        let count = pieces.len();
        let put = pieces.into_iter().enumerate().map(async |(index, piece)| {
            let mut headers = HeaderMap::new();
            headers.insert(COUNT, count.to_string().as_str());
            let subject = self.subject(&wire::piece(run, hash, index));
            self.add(&subject, headers, piece.to_vec()).await
        });
        try_join_all(put).await?;
        Ok((hash, count))
    }

    /// Reads bytes of a run that are stored in pieces. Returns `None` if a piece is missing or the hash does not match.
    pub(super) async fn get_pieces(
        &self,
        run: &RunId,
        hash: Fingerprint,
        count: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let get = (0..count).map(async |index| {
            self.last(PIECES, &self.subject(&wire::piece(run, hash, index))).await
        });
        let pieces: Option<Vec<StoredMessage>> = try_join_all(get).await?.into_iter().collect();
        let bytes =
            pieces.map(|pieces| pieces.into_iter().flat_map(|piece| piece.payload).collect());
        Ok(bytes.filter(|bytes: &Vec<u8>| Fingerprint::of(bytes) == hash))
    }

    /// Finds bytes by their hash among the pieces of all runs, and reads them.
    pub(super) async fn find_pieces(
        &self,
        hash: Fingerprint,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let filter = self.subject(&format!("piece.*.{hash}.0"));
        let run_and_count = |first: &StoredMessage| {
            let count = first.header(COUNT).and_then(|count| count.parse().ok()).unwrap_or(1);
            Some((first.word(2).parse::<RunId>().ok()?, count))
        };
        let Some(first) = self.last(PIECES, &filter).await? else { return Ok(None) };
        if let Some((run, count)) = run_and_count(&first)
            && let Some(bytes) = self.get_pieces(&run, hash, count).await?
        {
            return Ok(Some(bytes));
        }
        // The run that stored the bytes last lacks pieces: they are not written yet, or the run is being removed. Try
        // the other runs.
        let mut others = Vec::new();
        let reading = ReadSelection { stream: PIECES, filter, from: 1, last_of_each: false };
        self.read(reading, |first| {
            others.extend(run_and_count(&first));
            Ok(ReadFlow::Continue)
        })
        .await?;
        for (run, count) in others {
            if let Some(bytes) = self.get_pieces(&run, hash, count).await? {
                return Ok(Some(bytes));
            }
        }
        Ok(None)
    }
}

/// Whether the content of a message is stored in pieces.
pub(super) fn is_large(found: &StoredMessage) -> bool {
    found.header(WHOLE).is_some()
}
