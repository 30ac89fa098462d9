//! Tests of the Docker backend only: images, a lost connection to the engine, a killed process.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_config::Isolation;
use assize_sandbox::docker::{Docker, DockerImageInfo};
use assize_sandbox::{
    Backend, Language, ProgramCommand, Sandbox, SandboxError, SandboxIdentity, SandboxSpec,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::bench::{backend, python, skip, text};

const SOCKET: &str = "/var/run/docker.sock";

/// Environment variable that makes a test process start a sandbox and wait until it is killed.
const KILLED: &str = "ASSIZE_TEST_KILLED_MAKER";

/// Returns the Docker backend, or `None` if Docker is not available.
async fn docker() -> Option<Arc<Docker>> {
    match backend(Isolation::Docker).await {
        Ok(_) => Some(Arc::new(Docker::new(Vec::new()))),
        Err(reason) => {
            skip(Isolation::Docker, &reason);
            None
        }
    }
}

fn identity(name: &str) -> SandboxIdentity {
    let id = format!("{name}-{:08x}", fastrand::u32(..));
    SandboxIdentity { creator: format!("test-{}", std::process::id()), id }
}

async fn start(docker: &Arc<Docker>, name: &str, spec: SandboxSpec) -> Sandbox {
    let backend: Arc<dyn Backend> = docker.clone();
    Sandbox::start(backend, &identity(name), spec).await.unwrap()
}

/// Returns the ids of the containers, running or stopped, that the process named `maker` started.
fn containers(maker: &str) -> String {
    let filter = format!("label=assize.maker={maker}");
    let listed = std::process::Command::new("docker")
        .args(["ps", "-aq", "--filter", &filter])
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", text(&listed.stderr));
    text(&listed.stdout).to_owned()
}

async fn wait_until_gone(maker: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    while !containers(maker).is_empty() {
        assert!(Instant::now() < deadline, "container not removed within 10 s");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn cancelled_start_leaves_no_container() {
    let Some(docker) = docker().await else { return };
    let maker = format!("given-up-{:08x}", fastrand::u32(..));
    for (id, millis) in [5, 20, 40, 60, 100, 150].into_iter().enumerate() {
        let identity = SandboxIdentity { creator: maker.clone(), id: id.to_string() };
        let backend: Arc<dyn Backend> = docker.clone();
        let started = Sandbox::start(backend, &identity, SandboxSpec::default());
        let _ = tokio::time::timeout(Duration::from_millis(millis), started).await;
    }
    wait_until_gone(&maker).await;
}

#[tokio::test]
async fn sandbox_image_is_derived_from_a_user_image_only_once() {
    let Some(docker) = docker().await else { return };
    let spec =
        SandboxSpec { image: Some("assize/rootfs:latest".to_owned()), ..SandboxSpec::default() };
    for _ in 0..2 {
        let sandbox = start(&docker, "derived", spec.clone()).await;
        assert_eq!(python(&sandbox, "print(2)").await.stdout, b"2\n");
        sandbox.end().await;
    }
    let images = docker.images().await.unwrap();
    let from_ours =
        |image: &&DockerImageInfo| image.from.as_deref() == Some("assize/rootfs:latest");
    let derived: Vec<_> = images
        .iter()
        .filter(from_ours)
        .filter(|image| image.name.starts_with("assize/derived:"))
        .collect();
    assert_eq!(derived.len(), 1, "{images:?}");
    docker.remove_image(&derived[0].name).await.unwrap();
    let error = docker.remove_image("python:3.12").await.unwrap_err();
    assert!(error.to_string().contains("assize created no image"), "{error}");
}

#[tokio::test]
async fn clean_up_removes_leftover_containers() {
    let Some(docker) = docker().await else { return };
    let maker = format!("left-{:08x}", fastrand::u32(..));
    let identity = SandboxIdentity { creator: maker.clone(), id: "one".to_owned() };
    let backend: Arc<dyn Backend> = docker.clone();
    let sandbox = Sandbox::start(backend, &identity, SandboxSpec::default()).await.unwrap();
    assert_ne!(containers(&maker), "");
    docker.clean_up(&maker).await.unwrap();
    assert_eq!(containers(&maker), "");
    let error = sandbox.list("/tmp").await.unwrap_err();
    assert!(matches!(error, SandboxError::SandboxFailed(_)), "{error}");
}

/// Not a test: code of the process that the test `container_is_removed_when_its_process_is_killed` starts and kills.
#[tokio::test]
async fn helper_process_that_a_test_kills() {
    let Ok(creator) = std::env::var(KILLED) else { return };
    let backend: Arc<dyn Backend> = Arc::new(Docker::new(Vec::new()));
    let identity = SandboxIdentity { creator, id: "one".to_owned() };
    let sandbox = Sandbox::start(backend, &identity, SandboxSpec::default()).await.unwrap();
    let stubborn = "import signal, subprocess\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n  \
                    except OSError: pass\nsubprocess.run(['sleep', '1000'])";
    let _running = sandbox
        .run(Language::Python, stubborn.as_bytes(), ProgramCommand::default())
        .await
        .unwrap();
    #[expect(clippy::print_stderr, reason = "the parent process waits for this line")]
    {
        eprintln!("sandbox is running");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn container_is_removed_when_its_process_is_killed() {
    if docker().await.is_none() {
        return;
    }
    let maker = format!("killed-{:08x}", fastrand::u32(..));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "docker::helper_process_that_a_test_kills", "--nocapture"])
        .env(KILLED, &maker)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("sandbox is running")), "no sandbox started");
    assert_ne!(containers(&maker), "");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_gone(&maker).await;
}

/// Proxy to the engine's socket. Stopping and starting the proxy simulates a restart of the engine.
struct EngineProxy {
    path: PathBuf,
    task: Option<JoinHandle<()>>,
}

impl EngineProxy {
    fn start(path: &Path) -> EngineProxy {
        let listener = UnixListener::bind(path).unwrap();
        let task = tokio::spawn(async move {
            // When the task is aborted, this set is dropped, which closes all connections.
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                connections.spawn(async move {
                    let mut far = UnixStream::connect(SOCKET).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        EngineProxy { path: path.to_owned(), task: Some(task) }
    }

    async fn stop(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
            let _ = task.await;
        }
        std::fs::remove_file(&self.path).unwrap();
    }
}

#[tokio::test]
async fn lost_engine_connection_is_reported_and_restored() {
    if docker().await.is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docker.sock");
    let mut proxy = EngineProxy::start(&path);
    let docker = Arc::new(Docker::new(vec![path.display().to_string()]));
    let sandbox = start(&docker, "restart", SandboxSpec::default()).await;
    let sleeping = sandbox
        .run(Language::Python, b"import time; time.sleep(20)", ProgramCommand::default())
        .await
        .unwrap();
    proxy.stop().await;
    let error = sleeping.finish().await.unwrap_err();
    assert!(error.is_infrastructure(), "{error}");
    tokio::time::timeout(Duration::from_secs(5), sandbox.end()).await.unwrap();

    let backend: Arc<dyn Backend> = docker.clone();
    let error =
        Sandbox::start(backend, &identity("gone"), SandboxSpec::default()).await.unwrap_err();
    assert!(error.to_string().contains("no container engine listens at"), "{error}");
    assert!(error.hint().is_some());

    let restarted = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        EngineProxy::start(&path)
    };
    let (sandbox, _proxy) =
        tokio::join!(start(&docker, "again", SandboxSpec::default()), restarted);
    assert_eq!(python(&sandbox, "print(3)").await.stdout, b"3\n");
    sandbox.end().await;
}
