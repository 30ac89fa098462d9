//! The machine that all others are copies of: started once, frozen, and kept for as long as nothing that it
//! depends on changes.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_protocol::{Decoder, Kind, VERSION, Welcome};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use super::emulator::{self, From, Plan};
use super::monitor;
use super::origin::Origin;
use super::snapshot::{Snapshot, SnapshotError};
use super::workshop::{Make, Workshop, hold};
use crate::backend::Identity;
use crate::error::SandboxError;
use crate::guest::{self, GuestFile};
use crate::memfd::data_file;

/// How long a machine may take to start from nothing, and to be frozen.
const BOOT: Duration = Duration::from_secs(90);
const FREEZE: Duration = Duration::from_secs(20);

/// A snapshot that was taken so long ago is of a version that is not used any more, or is soon taken anew.
const OLD: Duration = Duration::from_secs(7 * 24 * 3600);

impl Workshop {
    /// The frozen machine: as it was kept, or made now. Only one process makes one at a time.
    pub(super) async fn freeze(
        &self,
        make: &Make,
        identity: &Identity,
    ) -> Result<Snapshot, SandboxError> {
        let snapshots = self.folder().join("snapshots");
        let (origin, ticks) = (self.origin(make), make.parts.ticks);
        let place = snapshots.join(origin.name());
        if let Ok(snapshot) = load(&place, &origin, ticks).await {
            return Ok(snapshot);
        }
        let held = hold(&self.folder()).await;
        match load(&place, &origin, ticks).await {
            Ok(snapshot) => return Ok(snapshot),
            Err(reason) => {
                tracing::info!(%reason, megabytes = make.megabytes, "no usable snapshot, creating one");
            }
        }
        let snapshot = Arc::new(self.boot(make, identity).await?);
        let saved = Arc::clone(&snapshot);
        let kept = tokio::task::spawn_blocking(move || {
            remove_old(&snapshots);
            let kept = std::fs::create_dir_all(&snapshots)
                .and_then(|()| saved.save(&place, &origin, ticks));
            drop((saved, held));
            kept
        });
        if let Err(error) = kept.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            tracing::warn!(%error, "the frozen machine cannot be kept, and is made anew the next time");
        }
        // Nobody else has it by now.
        Arc::into_inner(snapshot).ok_or_else(|| SandboxError::failed("freezing a machine", "lost"))
    }

    /// Folder of a snapshot.
    pub(super) fn place(&self, make: &Make) -> PathBuf {
        self.folder().join("snapshots").join(self.origin(make).name())
    }

    fn origin(&self, make: &Make) -> Origin {
        Origin::new(make, self.first_process())
    }

    fn first_process(&self) -> &[u8] {
        self.options.first_process.as_deref().unwrap_or(guest::PROGRAM)
    }

    /// Starts a machine from nothing, and freezes it when its guest is up.
    async fn boot(&self, make: &Make, identity: &Identity) -> Result<Snapshot, SandboxError> {
        let &Make { ref parts, accelerator, megabytes } = make;
        self.say(&format!(
            "a machine of {megabytes} MB is started and frozen, once; all others are copies of it"
        ));
        let failed = |error: std::io::Error| SandboxError::failed("starting a machine", error);
        let memory = data_file("assize-memory").map_err(failed)?;
        memory.set_len(megabytes << 20).map_err(failed)?;
        let initrd = parts.image.initrd(self.first_process()).map_err(failed)?;
        let plan = Plan {
            accelerator,
            megabytes,
            memory: &memory,
            root: &parts.image.root,
            layers: &parts.no_layers,
            from: From::Kernel { kernel: &parts.image.kernel, initrd: &initrd, ticks: parts.ticks },
        };
        let boot = Identity { id: format!("{}-boot", identity.id), ..identity.clone() };
        let emulator::Machine { keeper, mut channel, monitor, console } =
            emulator::start(&parts.qemu, self.groups(), self.users, &boot, &plan).await?;
        let frozen = async {
            match tokio::time::timeout(BOOT, first_word(&mut channel)).await {
                Ok(heard) => heard?,
                Err(_) => {
                    return Err(format!("it is not up after {} seconds", BOOT.as_secs()));
                }
            }
            monitor::freeze(monitor, FREEZE).await.map_err(|error| error.to_string())
        };
        match frozen.await {
            Ok(state) => {
                keeper.end().await;
                Snapshot::new(memory, &state).map_err(failed)
            }
            Err(why) => {
                let why = emulator::end_with_words(&keeper, &console, &why).await;
                Err(SandboxError::failed("starting a machine", why))
            }
        }
    }
}

/// Waits until a guest says by itself that it is up, and speaks as we do.
async fn first_word(channel: &mut UnixStream) -> Result<(), String> {
    let mut decoder = Decoder::new();
    let mut buffer = vec![0; 4096];
    loop {
        if let Some(frame) = decoder.next_frame().map_err(|error| error.to_string())? {
            let welcome: Welcome = frame.message().map_err(|error| error.to_string())?;
            return match (frame.kind, welcome.version) {
                (Kind::Hello, VERSION) => Ok(()),
                _ => Err("its guest is of another version".to_owned()),
            };
        }
        match channel.read(&mut buffer).await {
            Ok(0) | Err(_) => return Err("it ended before it was up".to_owned()),
            Ok(count) => decoder.push(&buffer[..count]),
        }
    }
}

async fn load(place: &Path, origin: &Origin, ticks: u64) -> Result<Snapshot, SnapshotError> {
    let (place, origin) = (place.to_owned(), origin.clone());
    let loaded = tokio::task::spawn_blocking(move || Snapshot::load(&place, &origin, ticks)).await;
    loaded.unwrap_or_else(|error| Err(SnapshotError::Memory(std::io::Error::other(error))))
}

/// Removes what is not used any more, and what somebody who was killed has left half done.
fn remove_old(snapshots: &Path) {
    for entry in std::fs::read_dir(snapshots).into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|found| found.modified());
        let old = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > OLD));
        if old || entry.path().extension().is_some_and(|ending| ending == "partial") {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// How many thousand ticks the processor counts in a second, as a program that may ask it says.
pub(super) async fn ticks() -> Result<u64, SandboxError> {
    let failed = |reason: String| SandboxError::failed("measuring the processor", reason);
    let guest = GuestFile::get()?;
    let told = tokio::process::Command::new(guest.path()).arg("ticks").output().await;
    let told = told.map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&told.stdout).into_owned();
    text.parse().map_err(|_| failed(String::from_utf8_lossy(&told.stderr).into_owned()))
}
