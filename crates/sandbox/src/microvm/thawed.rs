//! Copies of a frozen machine: each runs on from where that one stopped, and is told what makes it a
//! sandbox like no other.

use std::fs::File;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use assize_config::Limits;
use assize_protocol::{GuestLimits, Hello, Machine, VERSION};
use async_trait::async_trait;

use super::emulator::{self, Console, From, Plan};
use super::snapshot::{Snapshot, SnapshotError};
use super::workshop::{Make, Workshop};
use super::{layers, monitor};
use crate::backend::{Account, Cell, Identity, Started};
use crate::channel::Channel;
use crate::error::SandboxError;
use crate::jail::keeper::Keeper;
use crate::sandbox::environment;
use crate::spec::{LAYERS, Spec};

/// How long a machine may take to be thawed.
const THAW: Duration = Duration::from_secs(30);

/// What they need of a processor, with all that the emulator does for them.
const OWN_CPU_MILLIS: u32 = 250;

/// Fresh randomness for a machine.
const ENTROPY: usize = 64;

/// Why no microVM was restored.
#[derive(Debug, thiserror::Error)]
pub(super) enum RestoreError {
    /// The snapshot is of no use, and a new one may be.
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

impl Workshop {
    /// Makes a sandbox of a frozen machine.
    pub(super) async fn thaw(
        &self,
        make: &Make,
        snapshot: &Snapshot,
        identity: &Identity,
        spec: &Spec,
    ) -> Result<Started, RestoreError> {
        let disk = layers::disk(&self.folder(), &spec.layers).await?;
        let plan = Plan {
            accelerator: make.accelerator,
            megabytes: make.megabytes,
            memory: &snapshot.memory,
            root: &make.parts.image.root,
            layers: disk.as_ref().unwrap_or(&make.parts.no_layers),
            from: From::Frozen { state: &snapshot.state().map_err(SnapshotError::Memory)? },
        };
        let emulator::Machine { keeper, channel, mut monitor, console } =
            emulator::start(&make.parts.qemu, self.groups(), self.users, identity, &plan).await?;
        if let Err(source) = monitor::thawed(&mut monitor, THAW).await {
            keeper.end().await;
            let words = emulator::last_words(&keeper, &console).await;
            return Err(SnapshotError::Restore { source, words }.into());
        }
        let up = async {
            // Only now, so that the time is right when it is heard.
            let channel = Channel::over(channel, &hello(spec).map_err(|error| error.to_string())?);
            channel.welcome().await.map_err(|gone| gone.0)?;
            Ok(channel)
        };
        let why = match tokio::time::timeout(THAW, up).await {
            Ok(Ok(channel)) => {
                // The limit is held inside; this is for a machine that does not hold it.
                let cpu_millis = spec.limits.cpu_millis + OWN_CPU_MILLIS;
                keeper.group().share(&Limits { cpu_millis, ..spec.limits.clone() });
                let cell = MicrovmCell { keeper, console };
                return Ok(Started { channel, cell: Box::new(cell) });
            }
            Ok(Err(why)) => why,
            Err(_) => "the guest does not answer".to_owned(),
        };
        Err(SandboxError::Broke(emulator::end_with_words(&keeper, &console, &why).await).into())
    }
}

/// What a machine is told that must be like no other.
fn hello(spec: &Spec) -> std::io::Result<Hello> {
    let mut entropy = vec![0; ENTROPY];
    std::io::Read::read_exact(&mut File::open("/dev/urandom")?, &mut entropy)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let limits = &spec.limits;
    Ok(Hello {
        version: VERSION,
        limits: GuestLimits { file_bytes: limits.disk, ..GuestLimits::default() },
        env: environment(&[]),
        machine: Some(Machine {
            entropy,
            unix_nanos: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
            memory: limits.memory,
            processes: u64::from(limits.processes),
            cpu_millis: limits.cpu_millis,
            disk_bytes: limits.disk,
            disk_files: limits.files(),
            layers: (!spec.layers.is_empty()).then(|| LAYERS.to_owned()),
        }),
    })
}

/// The walls of one machine.
#[derive(Debug)]
struct MicrovmCell {
    keeper: Keeper,
    console: Console,
}

#[async_trait]
impl Cell for MicrovmCell {
    async fn account(&self) -> Account {
        // The guest keeps it, and tells with each program's end; unless the whole machine was ended.
        Account { peak_memory: None, ..self.keeper.group().account() }
    }

    async fn end(&self) {
        self.keeper.end().await;
    }

    async fn last_words(&self) -> Option<String> {
        emulator::last_words(&self.keeper, &self.console).await
    }
}
