//! Splits content that is too large for one message into pieces in another stream, addressed by the hash of the whole.

use assize_run::{RunId, StoreError};
use assize_types::Fingerprint;
use async_nats::HeaderMap;
use futures_util::future::try_join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{self, PIECES};
use crate::link::{NatsConnection, ReadFlow, ReadSelection, StoredMessage};

/// Size above which content is split. It is small because listing runs reads the first message of every run.
const LARGE: usize = 32 << 10;

/// Size of a piece. By default, NATS servers accept messages of up to 1 MiB.
const PIECE: usize = 512 << 10;

/// Header of a message whose content is split: hash of the content, number of pieces.
const WHOLE: &str = "Assize-Whole";
/// Header of a piece: number of pieces.
const COUNT: &str = "Assize-Pieces";

/// A message to be written.
pub(super) struct PackedMessage {
    pub(super) headers: HeaderMap,
    pub(super) payload: Vec<u8>,
}

impl NatsConnection {
    /// Converts a value to a message. If it is large, its pieces are stored, and the message contains only `light`.
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

    /// Decodes a message, including content stored in pieces.
    pub(super) async fn unpack<T: DeserializeOwned>(
        &self,
        run: &RunId,
        found: &StoredMessage,
    ) -> Result<T, StoreError> {
        let Some(whole) = found.header(WHOLE) else { return self.parse(&found.payload) };
        let (hash, count) = whole.split_once(' ').unwrap_or_default();
        let damaged = || self.failed(format!("message {} is damaged", found.sequence));
        let hash: Fingerprint = hash.parse().map_err(|_| damaged())?;
        let count = count.parse().map_err(|_| damaged())?;
        let bytes = self.get_pieces(run, hash, count).await?.ok_or_else(damaged)?;
        self.parse(&bytes)
    }

    /// Decodes the message itself: the whole value, or its light form if the value is large.
    pub(super) fn parse<T: DeserializeOwned>(&self, payload: &[u8]) -> Result<T, StoreError> {
        serde_json::from_slice(payload)
            .map_err(|error| self.failed(format!("cannot decode a stored message: {error}")))
    }

    /// Stores bytes for a run, in pieces. Returns their hash and the number of pieces.
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

    /// Reads the bytes of a run; `None` if a piece is missing or the hash does not match.
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

    /// Reads bytes by their hash, from any run that has them.
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
        // The latest writer has not stored all pieces, or its run is being removed: try the other runs.
        let mut others = Vec::new();
        let reading = ReadSelection { stream: PIECES, filter, from: 1, last_of_each: false };
        self.read(reading, |first| {
            others.extend(run_and_count(&first));
            Ok(ReadFlow::Wanted)
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
