//! Runs probes on the host without isolation (as *controls*), with a deadline, and cleans up after them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use assize_protocol::{FrameDecoder, FrameKind, GuestReply};
use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use crate::catalog::{GuaranteedLimit, HostAction, SuccessCriterion};
use crate::judge::before_answer;
use crate::marked_processes;
use crate::sandbox_target::TIGHT_WALL;
use crate::target::{AttackTarget, ProbeEnd, ProbeResult, ProbeRun, ProbeRunError};

/// Maximum duration of one run of a probe on the host.
const DEADLINE: Duration = Duration::from_secs(12);

/// Maximum time to wait for the remaining output of a probe after its program has ended.
const OUTPUT_GRACE: Duration = Duration::from_millis(150);

/// Maximum number of bytes to store of each output stream of a probe, and of the files collected from a probe.
const MAX_KEPT: usize = 4 << 20;

/// Shell command that starts a probe on the host without protection: the probe inherits its input and one more file,
/// both opened for reading and writing.
const CARELESS: &str = r#"exec 9<>"$0" 0<>"$1"; shift; exec "$@""#;

/// Name of the file that contains the Python code of a probe.
const CODE: &str = "code.py";

/// Name of the file that is the standard input of a probe.
const INPUT: &str = "input";

/// Name of the file that a probe inherits as an open file descriptor.
const INHERITED: &str = "inherited";

/// Runs probes on the host, without isolation.
#[derive(Debug)]
pub(crate) struct HostTarget {
    pub(crate) interpreter: PathBuf,
    /// Folder that contains a working folder for each probe.
    pub(crate) work: PathBuf,
    pub(crate) home: String,
    /// Content of the file that each probe inherits as an open file descriptor.
    pub(crate) inherited: String,
}

impl HostTarget {
    async fn run_here(&self, run: &ProbeRun<'_>) -> std::io::Result<ProbeResult> {
        // The steps of a probe share a folder, so that later steps can find the files that earlier steps left.
        let folder = self.work.join(&run.tag);
        std::fs::create_dir_all(&folder)?;
        let (code, input, left_open) =
            (folder.join(CODE), folder.join(INPUT), folder.join(INHERITED));
        std::fs::write(&code, &run.code)?;
        std::fs::write(&input, "")?;
        std::fs::write(&left_open, &self.inherited)?;
        let began = Instant::now();
        let mut child = Command::new("/bin/sh")
            .args(["-c", CARELESS])
            .args([&left_open, &input, &self.interpreter])
            .args(["-s", "-B"])
            .arg(&code)
            .args([run.probe.name.as_str(), &run.input])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &self.home)
            .env("LANG", "C.UTF-8")
            .current_dir(&folder)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let last = Arc::new(AtomicBool::new(false));
        let collecting = (run.probe.host == Some(HostAction::Collect)).then(|| {
            let (folder, last) = (folder.clone(), Arc::clone(&last));
            tokio::task::spawn_blocking(move || keep_collecting(&folder, &last))
        });
        let (stdout, reads_stdout) = collect(child.stdout.take());
        let (stderr, reads_stderr) = collect(child.stderr.take());
        let status = tokio::time::timeout(DEADLINE, child.wait()).await;
        // Probes with the criterion `Late` try to delay the end of the run by keeping the output open.
        let grace = if run.probe.judge == SuccessCriterion::Late { DEADLINE } else { OUTPUT_GRACE };
        let _ = tokio::time::timeout(grace, async {
            let _ = reads_stdout.await;
            let _ = reads_stderr.await;
        })
        .await;
        let took = began.elapsed();
        let end = match status {
            Err(_) => {
                let _ = child.start_kill();
                ProbeEnd::TimedOut
            }
            Ok(status) => {
                use std::os::unix::process::ExitStatusExt;
                let status = status?;
                status.code().map_or(ProbeEnd::Signal(status.signal().unwrap_or(0)), ProbeEnd::Exit)
            }
        };
        let (stdout, stderr) = (take(&stdout), take(&stderr));
        let read = |path| std::fs::read(path).unwrap_or_default();
        let writable = [before_answer(&stdout), &stderr, &read(&input), &read(&left_open)];
        let reported_exit_code = match end {
            ProbeEnd::Exit(code) if run.probe.judge == SuccessCriterion::Forged => {
                careless_exit_code(&writable, &stdout, code)
            }
            ProbeEnd::Exit(code) => Some(code),
            _ => None,
        };
        let survived = !marked_processes::find(&run.mark).is_empty();
        last.store(true, Ordering::Relaxed);
        let collected = match collecting {
            Some(collecting) => collecting.await.unwrap_or_default(),
            None => Vec::new(),
        };
        if run.probe.host == Some(HostAction::Give) {
            std::fs::write(folder.join(format!("given-{}", run.tag)), &run.mark)?;
        }
        Ok(ProbeResult {
            stdout,
            stderr,
            end,
            reported_exit_code,
            took,
            timeout: TIGHT_WALL,
            survived,
            collected,
        })
    }
}

/// Reads the files in a folder and in its direct subfolders repeatedly, following links. Stops after the first pass
/// that began after `last` was set, or when the total size of the contents exceeds [`MAX_KEPT`] after a pass. Returns
/// each distinct file content once.
fn keep_collecting(folder: &Path, last: &AtomicBool) -> Vec<u8> {
    let mut contents = BTreeSet::new();
    loop {
        let is_last = last.load(Ordering::Relaxed);
        for path in files_in(folder).into_iter().filter(|path| !is_own(path)) {
            let inside = if path.is_dir() { files_in(&path) } else { vec![path] };
            for path in inside.into_iter().filter(|path| path.is_file()) {
                contents.extend(std::fs::read(path));
            }
        }
        if is_last || contents.iter().map(Vec::len).sum::<usize>() > MAX_KEPT {
            return contents.into_iter().flatten().collect();
        }
    }
}

/// Whether this module created the file: the code, the input or the inherited file of a probe. These files are not
/// collected.
fn is_own(path: &Path) -> bool {
    path.file_name().is_some_and(|name| [CODE, INPUT, INHERITED].iter().any(|own| name == *own))
}

/// Returns the paths in a folder, or no path if the folder cannot be listed.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// Returns the exit code that a careless host would report for a probe. A careless host trusts every message in the
/// guest agent's protocol, even a message that the probe wrote to its own output or to a file that it had open.
fn careless_exit_code(writable: &[&[u8]], stdout: &[u8], code: i32) -> Option<i32> {
    for bytes in writable {
        let mut decoder = FrameDecoder::new();
        decoder.push(bytes);
        loop {
            match decoder.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) if frame.kind == FrameKind::Done => {
                    return match frame.message() {
                        Ok(GuestReply::Ended(ended)) => ended.exit_code,
                        _ => None,
                    };
                }
                Ok(Some(_)) => {}
                // The inherited file still contains only its nonce, so it was not forged.
                Err(_) if bytes.len() == NONCE => break,
                Err(_) => return None,
            }
        }
    }
    (!stdout.is_empty()).then_some(code)
}

/// Length of a nonce in hexadecimal digits.
pub(crate) const NONCE: usize = 32;

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Reads a pipe in the background. The bytes read so far are available at any time.
fn collect(
    pipe: Option<impl AsyncRead + Unpin + Send + 'static>,
) -> (Bytes, tokio::task::JoinHandle<()>) {
    let bytes = Bytes::default();
    let kept = Arc::clone(&bytes);
    let reading = tokio::spawn(async move {
        let Some(mut pipe) = pipe else { return };
        let mut buffer = vec![0; 64 * 1024];
        while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
            let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
            let room = MAX_KEPT - kept.len();
            kept.extend_from_slice(&buffer[..count.min(room)]);
        }
    });
    (bytes, reading)
}

fn take(bytes: &Bytes) -> Vec<u8> {
    std::mem::take(&mut bytes.lock().unwrap_or_else(PoisonError::into_inner))
}

#[async_trait]
impl AttackTarget for HostTarget {
    fn name(&self) -> String {
        "none".to_owned()
    }

    fn guest_pid(&self) -> Option<i32> {
        None
    }

    fn best_effort(&self, _: GuaranteedLimit) -> Option<String> {
        None
    }

    async fn run(&self, run: &ProbeRun<'_>) -> Result<ProbeResult, ProbeRunError> {
        let ran = self.run_here(run).await;
        // A probe with several steps needs its processes until the last step. The caller kills them then.
        if run.probe.steps == 1 {
            marked_processes::kill_all(&run.mark);
        }
        ran.map_err(|error| ProbeRunError::Start(error.to_string()))
    }
}
