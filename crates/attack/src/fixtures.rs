//! What probes look for on the host, and the helper that holds it.

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

/// Our folders begin with this.
const PREFIX: &str = "assize-attack-";

/// Files that every sandbox made of this machine's own sees too; one of them is watched.
const SHARED: [&str; 2] = ["/usr/bin/env", "/bin/sh"];

/// How long the helper may take to make everything, and to remove it.
const SOON: Duration = Duration::from_secs(10);

/// The fixtures of one attack. They are gone when it is dropped; and should we be killed, the helper
/// notices, removes them and goes.
#[derive(Debug)]
pub(crate) struct Fixtures {
    helper: Child,
    folder: TempDir,
    /// The numbers that are nowhere else, by name. No probe is told any of them.
    pub(crate) nonces: BTreeMap<String, String>,
    /// What every probe is told: where to look.
    pub(crate) given: Map<String, Value>,
}

#[derive(Deserialize)]
struct Made {
    nonces: BTreeMap<String, String>,
    given: Map<String, Value>,
}

impl Fixtures {
    /// Makes them. It blocks for as long as an interpreter takes to start, twice.
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
        let Ok(made) = serde_json::from_str::<Made>(&line) else {
            let mut words = String::new();
            if let Some(errors) = helper.stderr.take() {
                let lines = BufReader::new(errors).lines().map_while(Result::ok);
                words = lines.last().unwrap_or_default();
            }
            finish(&mut helper);
            return Err(AttackError::Fixtures(format!("the helper ended: {words}")));
        };
        Ok(Fixtures { helper, folder, nonces: made.nonces, given: made.given })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// What this set of fixtures is known by.
    pub(crate) fn name(&self) -> String {
        let name = self.folder.path().file_name().unwrap_or_default().to_string_lossy();
        name.trim_start_matches(PREFIX).to_owned()
    }

    /// Where controls work.
    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// A process of the host that probes may do to what they would do to a guest.
    pub(crate) fn victim(&self) -> Option<i64> {
        self.given.get("victim")?.get("pid")?.as_i64()
    }

    /// Processes that probes may end.
    pub(crate) fn spares(&self) -> Vec<Value> {
        let spares = self.given.get("spares").and_then(Value::as_array).into_iter().flatten();
        // The first two are for probes that only touch them.
        spares.skip(2).cloned().collect()
    }

    /// Whether a mark arrived on the host: as the name of something, or within what was received.
    pub(crate) fn heard(&self, mark: &str) -> bool {
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

/// Lets the helper clean up and go.
fn finish(helper: &mut Child) {
    drop(helper.stdin.take());
    let began = Instant::now();
    while began.elapsed() < SOON {
        match helper.try_wait() {
            Ok(None) => std::thread::sleep(Duration::from_millis(5)),
            _ => return,
        }
    }
    let _ = helper.kill();
    let _ = helper.wait();
}
