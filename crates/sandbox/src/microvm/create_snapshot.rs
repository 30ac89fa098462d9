//! Creates snapshots: boots a microVM once, saves its state, and reuses the snapshot as long as its origin (the
//! software and hardware that it was created with) is unchanged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_protocol::{FrameDecoder, FrameKind, VERSION, Welcome};
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use super::builder::{MicrovmBuilder, VmConfig, lock_folder};
use super::emulator::{self, BootSource, LaunchPlan};
use super::origin::SnapshotOrigin;
use super::qmp;
use super::snapshot::{Snapshot, SnapshotError};
use crate::backend::SandboxIdentity;
use crate::error::SandboxError;
use crate::guest::{self, GuestFile};
use crate::memfd::data_file;

/// Time limits for the first and the second attempt to boot a microVM. Under emulation, a boot takes 4 to 10 seconds,
/// but on rare occasions it hangs.
const BOOT_TIMEOUTS: [Duration; 2] = [Duration::from_secs(45), Duration::from_secs(90)];

/// Time limit for saving the state of a microVM.
const SAVE_TIMEOUT: Duration = Duration::from_secs(20);

/// Age after which a snapshot is removed from the disk, because it may belong to a version of assize that is no longer
/// used. A snapshot that is still needed is created again.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 3600);

impl MicrovmBuilder {
    /// Loads the snapshot from disk, or creates it. Only one process creates a snapshot at a time.
    pub(super) async fn load_or_create_snapshot(
        &self,
        make: &VmConfig,
        identity: &SandboxIdentity,
    ) -> Result<Snapshot, SandboxError> {
        let snapshots = self.folder().join("snapshots");
        let (origin, ticks) = (self.origin(make), make.parts.tsc_khz);
        let place = snapshots.join(origin.name());
        if let Ok(snapshot) = load(&place, &origin, ticks).await {
            return Ok(snapshot);
        }
        let lock = lock_folder(&self.folder()).await;
        match load(&place, &origin, ticks).await {
            Ok(snapshot) => return Ok(snapshot),
            Err(reason) => {
                tracing::info!(%reason, megabytes = make.megabytes, "no usable snapshot, creating one");
            }
        }
        let snapshot = Arc::new(self.boot(make, identity).await?);
        let to_save = Arc::clone(&snapshot);
        let saved = tokio::task::spawn_blocking(move || {
            remove_old(&snapshots);
            let saved = std::fs::create_dir_all(&snapshots)
                .and_then(|()| to_save.save(&place, &origin, ticks));
            drop((to_save, lock));
            saved
        });
        if let Err(error) = saved.await.unwrap_or_else(|error| Err(std::io::Error::other(error))) {
            tracing::warn!(%error, "cannot save the snapshot; the next process creates it again");
        }
        // The save task has dropped its reference, so this is the only one.
        let lost = || SandboxError::failed("creating a snapshot", "the snapshot is still in use");
        Arc::into_inner(snapshot).ok_or_else(lost)
    }

    /// Returns the folder on disk for the snapshot of this configuration.
    pub(super) fn snapshot_folder(&self, make: &VmConfig) -> PathBuf {
        self.folder().join("snapshots").join(self.origin(make).name())
    }

    fn origin(&self, make: &VmConfig) -> SnapshotOrigin {
        SnapshotOrigin::new(make, self.first_process())
    }

    fn first_process(&self) -> &[u8] {
        self.options.first_process.as_deref().unwrap_or(guest::PROGRAM)
    }

    /// Boots a microVM and saves its state when its guest agent is ready. If the boot hangs, tries a second time, with
    /// a longer time limit.
    async fn boot(
        &self,
        make: &VmConfig,
        identity: &SandboxIdentity,
    ) -> Result<Snapshot, SandboxError> {
        self.notify_user(&format!(
            "creating the snapshot of a microVM with {} MB of memory (only once; later sandboxes are restored from \
             this snapshot)",
            make.megabytes
        ));
        let [first, second] = BOOT_TIMEOUTS;
        match self.try_to_boot(make, identity, first).await {
            Err(BootError::TimedOut(_)) => {
                let seconds = first.as_secs();
                self.notify_user(&format!(
                    "the microVM did not boot within {seconds} s; trying again"
                ));
            }
            Err(BootError::Failed(error)) => return Err(error),
            Ok(snapshot) => return Ok(snapshot),
        }
        self.try_to_boot(make, identity, second).await.map_err(|error| match error {
            BootError::TimedOut(error) | BootError::Failed(error) => error,
        })
    }

    async fn try_to_boot(
        &self,
        make: &VmConfig,
        identity: &SandboxIdentity,
        limit: Duration,
    ) -> Result<Snapshot, BootError> {
        let &VmConfig { ref parts, accelerator, megabytes } = make;
        let failed = |error: std::io::Error| SandboxError::failed("booting a microVM", error);
        let memory = data_file("assize-memory").map_err(failed)?;
        memory.set_len(megabytes << 20).map_err(failed)?;
        let initrd = parts.image.initrd(self.first_process()).map_err(failed)?;
        let plan = LaunchPlan {
            accelerator,
            megabytes,
            memory: &memory,
            root: &parts.image.root,
            layers: &parts.no_layers,
            from: BootSource::Kernel {
                kernel: &parts.image.kernel,
                initrd: &initrd,
                ticks: parts.tsc_khz,
            },
        };
        let boot = SandboxIdentity { id: format!("{}-boot", identity.id), ..identity.clone() };
        let emulator::RunningVm { supervisor, mut channel, monitor, console } =
            emulator::start(&parts.qemu, self.groups(), self.users, &boot, &plan).await?;
        let (why, timed_out) = match tokio::time::timeout(limit, wait_for_guest(&mut channel)).await
        {
            Ok(Ok(())) => match qmp::save_state(monitor, SAVE_TIMEOUT).await {
                Ok(state) => {
                    supervisor.end().await;
                    return Ok(Snapshot::new(memory, &state).map_err(failed)?);
                }
                Err(error) => (error.to_string(), false),
            },
            Ok(Err(why)) => (why, false),
            Err(_) => (format!("the guest agent was not ready after {} s", limit.as_secs()), true),
        };
        let why = emulator::end_with_diagnostics(&supervisor, &console, &why).await;
        let error = SandboxError::failed("booting a microVM", why);
        Err(if timed_out { BootError::TimedOut(error) } else { BootError::Failed(error) })
    }
}

/// Why a microVM did not boot.
enum BootError {
    TimedOut(SandboxError),
    Failed(SandboxError),
}

impl From<SandboxError> for BootError {
    fn from(error: SandboxError) -> BootError {
        BootError::Failed(error)
    }
}

/// Waits until the guest agent reports that it is ready, and checks its protocol version.
async fn wait_for_guest(channel: &mut UnixStream) -> Result<(), String> {
    let mut decoder = FrameDecoder::new();
    let mut buffer = vec![0; 4096];
    loop {
        if let Some(frame) = decoder.next_frame().map_err(|error| error.to_string())? {
            let welcome: Welcome = frame.message().map_err(|error| error.to_string())?;
            return match (frame.kind, welcome.version) {
                (FrameKind::Hello, VERSION) => Ok(()),
                _ => Err("the guest agent has an unsupported protocol version".to_owned()),
            };
        }
        match channel.read(&mut buffer).await {
            Ok(0) | Err(_) => return Err("the microVM ended during boot".to_owned()),
            Ok(count) => decoder.push(&buffer[..count]),
        }
    }
}

async fn load(
    place: &Path,
    origin: &SnapshotOrigin,
    ticks: u64,
) -> Result<Snapshot, SnapshotError> {
    let (place, origin) = (place.to_owned(), origin.clone());
    let loaded = tokio::task::spawn_blocking(move || Snapshot::load(&place, &origin, ticks)).await;
    loaded.unwrap_or_else(|error| Err(SnapshotError::Memory(std::io::Error::other(error))))
}

/// Removes old snapshots, and unfinished snapshots of processes that were killed.
fn remove_old(snapshots: &Path) {
    for entry in std::fs::read_dir(snapshots).into_iter().flatten().flatten() {
        let made = entry.metadata().and_then(|found| found.modified());
        let old = made.is_ok_and(|made| made.elapsed().is_ok_and(|age| age > MAX_AGE));
        if old || entry.path().extension().is_some_and(|ending| ending == "partial") {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Measures the frequency of the CPU's time-stamp counter (TSC) in kHz. Runs the guest agent binary for the
/// measurement, because the measurement needs `unsafe` code, which only the guest crate contains.
pub(super) async fn measure_tsc_khz() -> Result<u64, SandboxError> {
    let failed = |reason: String| SandboxError::failed("measuring the CPU's TSC frequency", reason);
    let guest = GuestFile::get()?;
    let output = tokio::process::Command::new(guest.path()).arg("ticks").output().await;
    let output = output.map_err(|error| failed(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.parse().map_err(|_| failed(String::from_utf8_lossy(&output.stderr).into_owned()))
}
