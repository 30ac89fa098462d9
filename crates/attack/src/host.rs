//! Probes on the host itself, as their own controls: plain processes, bounded and cleaned up after.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use assize_protocol::{Decoder, Kind, Reply};
use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;

use crate::catalog::{HostAction, Judge, Promise};
use crate::inside::TIGHT_WALL;
use crate::judge::before_answer;
use crate::marked;
use crate::place::{End, Failed, Place, Ran, Run};

/// When a control is ended.
const DEADLINE: Duration = Duration::from_secs(12);

/// How long what a program has written may take to arrive after its end.
const LAST_BYTES: Duration = Duration::from_millis(150);

/// The most that is kept of what a control writes.
const MOST: usize = 4 << 20;

/// Leaves two files open that the program inherits, as a careless runner would: its input, and one
/// more. Only then does the program begin.
const CARELESS: &str = r#"exec 9<>"$0" 0<>"$1"; shift; exec "$@""#;

/// The files that a control begins with: its code, its input, and one that it inherits.
const CODE: &str = "code.py";
const INPUT: &str = "input";
const INHERITED: &str = "inherited";

/// No walls at all.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) interpreter: PathBuf,
    /// Where folders for runs are made.
    pub(crate) work: PathBuf,
    pub(crate) home: String,
    /// What is in the file that the program inherits.
    pub(crate) inherited: String,
}

impl Host {
    async fn run_here(&self, run: &Run<'_>) -> std::io::Result<Ran> {
        // Runs of one probe find what the one before them left.
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
            .args([run.probe.name.as_str(), &run.given])
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
        // Whoever waits for all output waits for all who can write it.
        let patience = if run.probe.judge == Judge::Late { DEADLINE } else { LAST_BYTES };
        let _ = tokio::time::timeout(patience, async {
            let _ = reads_stdout.await;
            let _ = reads_stderr.await;
        })
        .await;
        let took = began.elapsed();
        let end = match status {
            Err(_) => {
                let _ = child.start_kill();
                End::TimedOut
            }
            Ok(status) => {
                use std::os::unix::process::ExitStatusExt;
                let status = status?;
                status.code().map_or(End::Signal(status.signal().unwrap_or(0)), End::Exit)
            }
        };
        let (stdout, stderr) = (take(&stdout), take(&stderr));
        let read = |path| std::fs::read(path).unwrap_or_default();
        let heard = [before_answer(&stdout), &stderr, &read(&input), &read(&left_open)];
        let told = match end {
            End::Exit(code) if run.probe.judge == Judge::Forged => believe(&heard, &stdout, code),
            End::Exit(code) => Some(code),
            _ => None,
        };
        let survived = !marked::find(&run.mark).is_empty();
        last.store(true, Ordering::Relaxed);
        let collected = match collecting {
            Some(collecting) => collecting.await.unwrap_or_default(),
            None => Vec::new(),
        };
        if run.probe.host == Some(HostAction::Give) {
            std::fs::write(folder.join(format!("given-{}", run.tag)), &run.mark)?;
        }
        Ok(Ran { stdout, stderr, end, told, took, wall: TIGHT_WALL, survived, collected })
    }
}

/// Collects the files of a folder as a careless runner would, through links, until `last` is
/// set. Gives each content once.
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
        if is_last || contents.iter().map(Vec::len).sum::<usize>() > MOST {
            return contents.into_iter().flatten().collect();
        }
    }
}

/// Whether a file is the runner's own, which it does not collect.
fn is_own(path: &Path) -> bool {
    path.file_name().is_some_and(|name| [CODE, INPUT, INHERITED].iter().any(|own| name == *own))
}

/// What is in a folder, if it can be listed.
fn files_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.flatten().map(|entry| entry.path()).collect()
}

/// The end that a runner would be told that takes whatever its program can write to for the channel.
fn believe(heard: &[&[u8]], stdout: &[u8], code: i32) -> Option<i32> {
    for bytes in heard {
        let mut decoder = Decoder::new();
        decoder.push(bytes);
        loop {
            match decoder.next_frame() {
                Ok(None) => break,
                Ok(Some(frame)) if frame.kind == Kind::Done => {
                    return match frame.message() {
                        Ok(Reply::Ended(ended)) => ended.exit_code,
                        _ => None,
                    };
                }
                Ok(Some(_)) => {}
                // The number that lies in the file is no frame either.
                Err(_) if bytes.len() == NONCE => break,
                Err(_) => return None,
            }
        }
    }
    (!stdout.is_empty()).then_some(code)
}

/// The length of a number that is nowhere else.
pub(crate) const NONCE: usize = 32;

type Bytes = Arc<Mutex<Vec<u8>>>;

/// Reads all there is in the background; what was read so far can be had at any time.
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
            let room = MOST - kept.len();
            kept.extend_from_slice(&buffer[..count.min(room)]);
        }
    });
    (bytes, reading)
}

fn take(bytes: &Bytes) -> Vec<u8> {
    std::mem::take(&mut bytes.lock().unwrap_or_else(PoisonError::into_inner))
}

#[async_trait]
impl Place for Host {
    fn name(&self) -> String {
        "none".to_owned()
    }

    fn guest(&self) -> Option<i32> {
        None
    }

    fn best_effort(&self, _: Promise) -> Option<String> {
        None
    }

    async fn run(&self, run: &Run<'_>) -> Result<Ran, Failed> {
        let ran = self.run_here(run).await;
        // Between two steps of a probe, what the first left is to be there.
        if run.probe.steps == 1 {
            marked::end(&run.mark);
        }
        ran.map_err(|error| Failed::Start(error.to_string()))
    }
}
