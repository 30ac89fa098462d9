//! Restores a microVM from a snapshot and configures it as one sandbox.

use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use assize_config::SandboxLimits;
use assize_protocol::{GuestLimits, Hello, MicroVmSettings, VERSION};
use async_trait::async_trait;

use super::builder::{MicrovmBuilder, VmConfig};
use super::emulator::{self, BootSource, Console, LaunchPlan};
use super::snapshot::{Snapshot, SnapshotError};
use super::{layers, qmp};
use crate::backend::{ResourceUsage, SandboxHandle, SandboxIdentity, StartedSandbox};
use crate::channel::Channel;
use crate::error::SandboxError;
use crate::jail::supervisor::JailSupervisor;
use crate::sandbox::environment;
use crate::spec::{LAYERS, SandboxSpec};

/// Time limit for restoring a snapshot. The same limit applies to the guest agent's reply to `Hello` afterwards.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(30);

/// CPU limit of QEMU and the guest kernel in thousandths of a CPU, in addition to the CPU limit of the programs.
const OWN_CPU_MILLIS: u32 = 250;

/// Number of random bytes that each restored microVM receives, so that its random numbers differ from those of other
/// microVMs.
const ENTROPY: usize = 64;

/// Reason why a microVM could not be restored.
#[derive(Debug, thiserror::Error)]
pub(super) enum RestoreError {
    /// The snapshot is unusable; a new snapshot may work.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
}

impl std::convert::From<RestoreError> for SandboxError {
    fn from(error: RestoreError) -> SandboxError {
        match error {
            RestoreError::Snapshot(reason) => SandboxError::failed("restoring a microVM", reason),
            RestoreError::Sandbox(error) => error,
        }
    }
}

impl MicrovmBuilder {
    /// Starts a sandbox from a snapshot.
    pub(super) async fn restore(
        &self,
        make: &VmConfig,
        snapshot: &Snapshot,
        identity: &SandboxIdentity,
        spec: &SandboxSpec,
    ) -> Result<StartedSandbox, RestoreError> {
        let disk = layers::disk(&self.folder(), &spec.layers).await?;
        let plan = LaunchPlan {
            accelerator: make.accelerator,
            megabytes: make.megabytes,
            memory: &snapshot.memory,
            root: &make.parts.image.root,
            layers: disk.as_ref().unwrap_or(&make.parts.no_layers),
            from: BootSource::Snapshot { state: &snapshot.state().map_err(SnapshotError::Memory)? },
        };
        let emulator::RunningVm { supervisor, channel, mut monitor, console } =
            emulator::start(&make.parts.qemu, self.groups(), self.users, identity, &plan).await?;
        if let Err(source) = qmp::wait_until_restored(&mut monitor, RESTORE_TIMEOUT).await {
            supervisor.end().await;
            let words = emulator::diagnostic_output(&supervisor, &console).await;
            return Err(SnapshotError::Restore { source, words }.into());
        }
        let up = async {
            // `Hello` is created only now, so that the time in it is correct when the guest agent receives it.
            let channel = Channel::over(channel, &hello(spec).map_err(|error| error.to_string())?);
            channel.welcome().await.map_err(|gone| gone.0)?;
            Ok(channel)
        };
        let why = match tokio::time::timeout(RESTORE_TIMEOUT, up).await {
            Ok(Ok(channel)) => {
                // The guest kernel enforces the CPU limit. This limit on the host is for a microVM whose kernel does
                // not enforce it.
                let cpu_millis = spec.limits.cpu_millis + OWN_CPU_MILLIS;
                supervisor
                    .group()
                    .set_cpu_quota(&SandboxLimits { cpu_millis, ..spec.limits.clone() });
                let cell = MicrovmCell { supervisor, console };
                return Ok(StartedSandbox { channel, handle: Box::new(cell) });
            }
            Ok(Err(why)) => why,
            Err(_) => "the guest agent does not respond".to_owned(),
        };
        Err(SandboxError::SandboxFailed(
            emulator::end_with_diagnostics(&supervisor, &console, &why).await,
        )
        .into())
    }
}

/// Returns the `Hello` message for a restored microVM, with fresh randomness, the current time and the limits.
fn hello(spec: &SandboxSpec) -> std::io::Result<Hello> {
    let mut entropy = vec![0; ENTROPY];
    std::io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut entropy)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let limits = &spec.limits;
    Ok(Hello {
        version: VERSION,
        limits: GuestLimits { file_bytes: limits.disk, ..GuestLimits::default() },
        env: environment(&[]),
        machine: Some(MicroVmSettings {
            entropy,
            unix_nanos: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
            memory: limits.memory,
            processes: u64::from(limits.processes),
            cpu_millis: limits.cpu_millis,
            disk_bytes: limits.disk,
            disk_files: limits.max_files(),
            layers: (!spec.layers.is_empty()).then(|| LAYERS.to_owned()),
        }),
    })
}

/// Handle on one microVM.
#[derive(Debug)]
struct MicrovmCell {
    supervisor: JailSupervisor,
    console: Console,
}

#[async_trait]
impl SandboxHandle for MicrovmCell {
    async fn usage(&self) -> ResourceUsage {
        // The guest agent measures memory use and reports it when a program ends. This cgroup counts only kills of
        // QEMU.
        ResourceUsage { peak_memory: None, ..self.supervisor.group().usage() }
    }

    async fn end(&self) {
        self.supervisor.end().await;
    }

    async fn diagnostic_output(&self) -> Option<String> {
        emulator::diagnostic_output(&self.supervisor, &self.console).await
    }
}
