//! What is too large for a message: cut in pieces beside it, by the hash of the whole.

use assize_run::{RunId, StoreError};
use assize_types::Fingerprint;
use async_nats::HeaderMap;
use futures_util::future::try_join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::wire::{self, PIECES};
use crate::link::{Found, Link, More, Reading};

/// What is larger is cut in pieces. Small, as whoever lists runs reads how all of them began.
const LARGE: usize = 32 << 10;

/// Servers take messages of a million bytes, unless they are told otherwise.
const PIECE: usize = 512 << 10;

/// In how many pieces something is: after its hash where it is spoken of, alone with each of them.
const WHOLE: &str = "Assize-Whole";
const COUNT: &str = "Assize-Pieces";

/// A message that is to be written.
pub(super) struct Packed {
    pub(super) headers: HeaderMap,
    pub(super) payload: Vec<u8>,
}

impl Link {
    /// Makes a message of something. Where it is large, `light` of it is in the message itself.
    pub(super) async fn pack<T: Serialize>(
        &self,
        run: &RunId,
        whole: &T,
        light: Option<&(impl Serialize + Sync)>,
    ) -> Result<Packed, StoreError> {
        let mut headers = HeaderMap::new();
        let bytes = serde_json::to_vec(whole).map_err(|error| self.failed(error))?;
        if bytes.len() <= LARGE {
            return Ok(Packed { headers, payload: bytes });
        }
        let (hash, count) = self.put_pieces(run, &bytes).await?;
        headers.insert(WHOLE, format!("{hash} {count}").as_str());
        let light =
            light.map(|light| serde_json::to_vec(light).map_err(|error| self.failed(error)));
        Ok(Packed { headers, payload: light.transpose()?.unwrap_or_default() })
    }

    /// What is in a message, with what is beside it.
    pub(super) async fn unpack<T: DeserializeOwned>(
        &self,
        run: &RunId,
        found: &Found,
    ) -> Result<T, StoreError> {
        let Some(whole) = found.header(WHOLE) else { return self.parse(&found.payload) };
        let (hash, count) = whole.split_once(' ').unwrap_or_default();
        let damaged =
            || self.failed(format!("the message {} is not what was kept", found.sequence));
        let hash: Fingerprint = hash.parse().map_err(|_| damaged())?;
        let count = count.parse().map_err(|_| damaged())?;
        let bytes = self.get_pieces(run, hash, count).await?.ok_or_else(damaged)?;
        self.parse(&bytes)
    }

    /// What is in the message itself: all of it, or what is light of it.
    pub(super) fn parse<T: DeserializeOwned>(&self, payload: &[u8]) -> Result<T, StoreError> {
        serde_json::from_slice(payload)
            .map_err(|error| self.failed(format!("what is kept cannot be read: {error}")))
    }

    /// Keeps bytes for a run.
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

    /// The bytes that a run has, if they are all there and are what they were.
    pub(super) async fn get_pieces(
        &self,
        run: &RunId,
        hash: Fingerprint,
        count: usize,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let get = (0..count).map(async |index| {
            self.last(PIECES, &self.subject(&wire::piece(run, hash, index))).await
        });
        let pieces: Option<Vec<Found>> = try_join_all(get).await?.into_iter().collect();
        let bytes =
            pieces.map(|pieces| pieces.into_iter().flat_map(|piece| piece.payload).collect());
        Ok(bytes.filter(|bytes: &Vec<u8>| Fingerprint::of(bytes) == hash))
    }

    /// The bytes that whichever run has.
    pub(super) async fn find_pieces(
        &self,
        hash: Fingerprint,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        let filter = self.subject(&format!("piece.*.{hash}.0"));
        let whose = |first: &Found| {
            let count = first.header(COUNT).and_then(|count| count.parse().ok()).unwrap_or(1);
            Some((first.word(2).parse::<RunId>().ok()?, count))
        };
        let Some(first) = self.last(PIECES, &filter).await? else { return Ok(None) };
        if let Some((run, count)) = whose(&first)
            && let Some(bytes) = self.get_pieces(&run, hash, count).await?
        {
            return Ok(Some(bytes));
        }
        // Whoever put it there last did not come to its end, or it is being removed there.
        let mut others = Vec::new();
        let reading = Reading { stream: PIECES, filter, from: 1, last_of_each: false };
        self.read(reading, |first| {
            others.extend(whose(&first));
            Ok(More::Wanted)
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

/// Whether there is more of it than is in the message itself.
pub(super) fn is_large(found: &Found) -> bool {
    found.header(WHOLE).is_some()
}
