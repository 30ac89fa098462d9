//! Fixtures: secrets, files, sockets and processes on the host that probes look for, and the helper process that
//! provides them.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::{Map, Value};
use tempfile::TempDir;

use crate::attack::AttackError;

const HELPER: &str = include_str!("../probes/helper.py");

/// Prefix of the fixture folder's name.
const PREFIX: &str = "assize-attack-";

/// Paths of host files that are also visible in every jail. The first file that exists is used as a fixture: probes try
/// to observe when the host reads this file.
const SHARED: [&str; 2] = ["/usr/bin/env", "/bin/sh"];

/// Maximum time that the helper process may need to remove the fixtures and exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Fixtures of one attack. Dropping this value removes the fixtures. If the current process is killed, the helper
/// process removes them.
#[derive(Debug)]
pub(crate) struct Fixtures {
    helper: Child,
    folder: TempDir,
    /// Secret random values in the fixtures, by name. Probes do not receive them as input.
    pub(crate) nonces: BTreeMap<String, String>,
    /// Part of the input that is the same for every probe: paths, addresses and process ids of the fixtures.
    pub(crate) probe_input: Map<String, Value>,
}

#[derive(Deserialize)]
struct HelperOutput {
    nonces: BTreeMap<String, String>,
    given: Map<String, Value>,
}

impl Fixtures {
    /// Starts the helper process, and blocks until the helper process has created the fixtures.
    pub(crate) fn make(interpreter: &Path) -> Result<Fixtures, AttackError> {
        let failed = |error: std::io::Error| AttackError::Fixtures(error.to_string());
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir().map_err(failed)?;
        let root = folder.path().canonicalize().map_err(failed)?;
        let work = root.join("work");
        std::fs::create_dir(&work).map_err(failed)?;
        let shared = SHARED.iter().find_map(|path| Path::new(path).canonicalize().ok());
        let mut helper = Command::new(interpreter)
            .args(["-s", "-B", "-c", HELPER])
            .arg(&root)
            .arg(shared.unwrap_or_else(|| interpreter.to_owned()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        if let Some(output) = helper.stdout.take() {
            BufReader::new(output).read_line(&mut line).map_err(failed)?;
        }
        let Ok(output) = serde_json::from_str::<HelperOutput>(&line) else {
            let mut error = String::new();
            if let Some(errors) = helper.stderr.take() {
                let lines = BufReader::new(errors).lines().map_while(Result::ok);
                error = lines.last().unwrap_or_default();
            }
            finish(&mut helper);
            return Err(AttackError::Fixtures(format!("the helper process failed: {error}")));
        };
        Ok(Fixtures { helper, folder, nonces: output.nonces, probe_input: output.given })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Unique name of this set of fixtures.
    pub(crate) fn name(&self) -> String {
        let name = self.folder.path().file_name().unwrap_or_default().to_string_lossy();
        name.trim_start_matches(PREFIX).to_owned()
    }

    /// Parent folder of the working folders of probes that run on the host, without isolation.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Id of a host process that stands in for the guest agent when a probe runs on the host, where there is no guest
    /// agent.
    pub(crate) fn victim(&self) -> Option<i64> {
        self.probe_input.get("victim")?.get("pid")?.as_i64()
    }

    /// Process ids of the host processes that probes are allowed to kill.
    pub(crate) fn spares(&self) -> Vec<Value> {
        let spares = self.probe_input.get("spares").and_then(Value::as_array).into_iter().flatten();
        // The first two processes are for probes that change a process without killing it.
        spares.skip(2).cloned().collect()
    }

    /// Whether the mark of a probe, a random text, has arrived on the host, as the name of a file or in received data.
    pub(crate) fn mark_arrived(&self, mark: &str) -> bool {
        let Ok(entries) = std::fs::read_dir(self.folder.path().join("watched")) else {
            return false;
        };
        entries.flatten().any(|entry| {
            entry.file_name().to_string_lossy().contains(mark)
                || std::fs::read(entry.path()).is_ok_and(|text| {
                    text.windows(mark.len()).any(|piece| piece == mark.as_bytes())
                })
        })
    }
}

impl Drop for Fixtures {
    fn drop(&mut self) {
        finish(&mut self.helper);
    }
}

/// Closes the input of the helper process, so that the helper removes the fixtures and exits. Kills the helper after a
/// timeout.
fn finish(helper: &mut Child) {
    drop(helper.stdin.take());
    let began = Instant::now();
    while began.elapsed() < EXIT_TIMEOUT {
        match helper.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            _ => return,
        }
    }
    let _ = helper.kill();
    let _ = helper.wait();
}
