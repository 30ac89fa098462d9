//! The project's own tests, in a sandbox.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_draft::{NotVerified, Verified, Verifier, Verify};
use assize_sandbox::{Command, Layer, Limits, Spec};
use async_trait::async_trait;

use crate::config::{Config, Surroundings};
use crate::walls;

/// The most that it may print, and how much of its end is kept.
const OUTPUT: u64 = 8 << 20;
const KEPT: usize = 8 << 10;

/// What a shell ends with that cannot find a command, or cannot run it.
const NOT_THERE: [i32; 2] = [126, 127];

/// Copies the workspace to where it can be written to, and runs the command there.
const SCRIPT: &str = "mkdir -p /tmp/workspace && cp -R \"$WORKSPACE/.\" /tmp/workspace/ && \
    cd /tmp/workspace && exec /bin/sh -c \"$VERIFY\" 2>&1";

/// Runs commands in the sandbox that the settings ask for.
pub(super) struct InSandbox {
    config: Config,
    around: Surroundings,
}

impl InSandbox {
    pub(super) fn new(config: &Config, around: &Surroundings) -> Arc<InSandbox> {
        Arc::new(InSandbox { config: config.clone(), around: around.clone() })
    }
}

#[async_trait]
impl Verifier for InSandbox {
    async fn verify(&self, how: &Verify, copy: &Path) -> Result<Verified, NotVerified> {
        let failed = |error: &dyn std::fmt::Display| NotVerified(error.to_string());
        let layer = |folder: &Path| {
            Layer::of(folder).map_err(|error| {
                NotVerified(format!("`{}` cannot be used: {error}", folder.display()))
            })
        };
        let workspace = layer(copy)?;
        let others: Vec<Layer> =
            how.layers.iter().map(|folder| layer(Path::new(folder))).collect::<Result<_, _>>()?;
        let memory = how.memory_mb << 20;
        let wall = Duration::from_secs(how.seconds);
        let limits =
            Limits { memory, wall, disk: memory, output: OUTPUT, ..walls::limits(&self.config) };
        let layers = std::iter::once(&workspace).chain(&others).cloned().collect();
        let spec = Spec { limits, layers, ..Spec::default() };
        let made = walls::make(&self.config, &self.around, &[], &spec).await;
        let (_manager, sandbox, _) = made.map_err(|failure| failed(&failure.message()))?;
        let mut path = "/usr/local/bin:/usr/bin:/bin".to_owned();
        let mut command = Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .env("WORKSPACE", &workspace.at)
            .env("VERIFY", &how.command)
            .env("HOME", "/tmp")
            .wall(wall);
        for (index, layer) in others.iter().enumerate() {
            path = format!("{}/bin:{path}", layer.at);
            command = command.env(format!("LAYER{}", index + 1), &layer.at);
        }
        let begun = Instant::now();
        let ran = async { sandbox.exec(command.env("PATH", path)).await?.finish().await };
        let ran = ran.await;
        sandbox.end().await;
        let finished = ran.map_err(|error| failed(&error))?;
        let outcome = &finished.outcome;
        let start = finished.stdout.len().saturating_sub(KEPT);
        let output = String::from_utf8_lossy(&finished.stdout[start..]).into_owned();
        if outcome.exit_code.is_some_and(|code| NOT_THERE.contains(&code)) {
            let last = output.lines().last().unwrap_or_default();
            return Err(NotVerified(format!(
                "a command of `{}` is not there: {last}",
                how.command
            )));
        }
        let told = match outcome {
            outcome if outcome.success() => "passed".to_owned(),
            outcome if outcome.timed_out => format!("took longer than {} s", how.seconds),
            outcome if outcome.out_of_memory => format!("needed more than {} MB", how.memory_mb),
            outcome => match (outcome.exit_code, outcome.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("ended by signal {signal}"),
                (None, None) => "did not end well".to_owned(),
            },
        };
        Ok(Verified {
            command: how.command.clone(),
            passed: outcome.success(),
            outcome: told,
            output,
            isolation: sandbox.isolation().to_string(),
            seconds: begun.elapsed().as_secs(),
        })
    }
}
