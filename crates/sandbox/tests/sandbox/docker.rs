//! What only containers can get wrong: images, an engine that goes away, a maker that is killed.

use std::io::BufRead;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use assize_config::Isolation;
use assize_sandbox::docker::{Docker, ImageInfo};
use assize_sandbox::{Backend, Command, Identity, Language, Sandbox, SandboxError, Spec};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::bench::{backend, python, skip, text};

const SOCKET: &str = "/var/run/docker.sock";

/// Set for the process that makes a sandbox and is then killed.
const KILLED: &str = "ASSIZE_TEST_KILLED_MAKER";

/// The backend, if there is one.
async fn docker() -> Option<Arc<Docker>> {
    match backend(Isolation::Docker).await {
        Ok(_) => Some(Arc::new(Docker::new(Vec::new()))),
        Err(reason) => {
            skip(Isolation::Docker, &reason);
            None
        }
    }
}

fn identity(name: &str) -> Identity {
    let id = format!("{name}-{:08x}", fastrand::u32(..));
    Identity { maker: format!("test-{}", std::process::id()), id }
}

async fn start(docker: &Arc<Docker>, name: &str, spec: Spec) -> Sandbox {
    let backend: Arc<dyn Backend> = docker.clone();
    Sandbox::start(backend, &identity(name), spec).await.unwrap()
}

/// The containers of a maker, dead or alive.
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
    let latest = Instant::now() + Duration::from_secs(10);
    while !containers(maker).is_empty() {
        assert!(Instant::now() < latest, "a container is still there");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_start_that_is_given_up_leaves_nothing() {
    let Some(docker) = docker().await else { return };
    let maker = format!("given-up-{:08x}", fastrand::u32(..));
    for (id, millis) in [5, 20, 40, 60, 100, 150].into_iter().enumerate() {
        let identity = Identity { maker: maker.clone(), id: id.to_string() };
        let backend: Arc<dyn Backend> = docker.clone();
        let started = Sandbox::start(backend, &identity, Spec::default());
        let _ = tokio::time::timeout(Duration::from_millis(millis), started).await;
    }
    wait_until_gone(&maker).await;
}

#[tokio::test]
async fn an_image_of_the_users_gets_the_guest_once() {
    let Some(docker) = docker().await else { return };
    let spec = Spec { image: Some("assize/rootfs:latest".to_owned()), ..Spec::default() };
    for _ in 0..2 {
        let sandbox = start(&docker, "derived", spec.clone()).await;
        assert_eq!(python(&sandbox, "print(2)").await.stdout, b"2\n");
        sandbox.end().await;
    }
    let images = docker.images().await.unwrap();
    let from_ours = |image: &&ImageInfo| image.from.as_deref() == Some("assize/rootfs:latest");
    let derived: Vec<_> = images
        .iter()
        .filter(from_ours)
        .filter(|image| image.name.starts_with("assize/derived:"))
        .collect();
    assert_eq!(derived.len(), 1, "{images:?}");
    docker.remove_image(&derived[0].name).await.unwrap();
    let error = docker.remove_image("python:3.12").await.unwrap_err();
    assert!(error.to_string().contains("no image of assize's own"), "{error}");
}

#[tokio::test]
async fn what_a_maker_left_behind_is_removed() {
    let Some(docker) = docker().await else { return };
    let maker = format!("left-{:08x}", fastrand::u32(..));
    let identity = Identity { maker: maker.clone(), id: "one".to_owned() };
    let backend: Arc<dyn Backend> = docker.clone();
    let sandbox = Sandbox::start(backend, &identity, Spec::default()).await.unwrap();
    assert_ne!(containers(&maker), "");
    docker.clean_up(&maker).await.unwrap();
    assert_eq!(containers(&maker), "");
    let error = sandbox.list("/tmp").await.unwrap_err();
    assert!(matches!(error, SandboxError::Broke(_)), "{error}");
}

/// Not a test of its own: the process that the next one kills.
#[tokio::test]
async fn maker_to_be_killed() {
    let Ok(maker) = std::env::var(KILLED) else { return };
    let backend: Arc<dyn Backend> = Arc::new(Docker::new(Vec::new()));
    let identity = Identity { maker, id: "one".to_owned() };
    let sandbox = Sandbox::start(backend, &identity, Spec::default()).await.unwrap();
    let stubborn = "import signal, subprocess\nfor s in range(1, 32):\n  try: signal.signal(s, signal.SIG_IGN)\n  \
                    except OSError: pass\nsubprocess.run(['sleep', '1000'])";
    let _running =
        sandbox.run(Language::Python, stubborn.as_bytes(), Command::default()).await.unwrap();
    #[expect(clippy::print_stderr, reason = "whoever waits for it hears it there")]
    {
        eprintln!("it runs");
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn a_container_goes_with_its_maker_even_if_that_is_killed() {
    if docker().await.is_none() {
        return;
    }
    let maker = format!("killed-{:08x}", fastrand::u32(..));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "docker::maker_to_be_killed", "--nocapture"])
        .env(KILLED, &maker)
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("it runs")), "the maker made nothing");
    assert_ne!(containers(&maker), "");
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_gone(&maker).await;
}

/// A door to the engine that can be shut and opened again, as if the engine were restarted.
struct Door {
    path: PathBuf,
    open: Option<JoinHandle<()>>,
}

impl Door {
    fn open(path: &Path) -> Door {
        let listener = UnixListener::bind(path).unwrap();
        let open = tokio::spawn(async move {
            // Dropped with this task, and every connection with it.
            let mut connections = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                connections.spawn(async move {
                    let mut far = UnixStream::connect(SOCKET).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                });
            }
        });
        Door { path: path.to_owned(), open: Some(open) }
    }

    async fn shut(&mut self) {
        if let Some(open) = self.open.take() {
            open.abort();
            let _ = open.await;
        }
        std::fs::remove_file(&self.path).unwrap();
    }
}

#[tokio::test]
async fn an_engine_that_goes_away_is_told_and_found_again() {
    if docker().await.is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("docker.sock");
    let mut door = Door::open(&path);
    let docker = Arc::new(Docker::new(vec![path.display().to_string()]));
    let sandbox = start(&docker, "restart", Spec::default()).await;
    let sleeping = sandbox
        .run(Language::Python, b"import time; time.sleep(20)", Command::default())
        .await
        .unwrap();
    door.shut().await;
    let error = sleeping.finish().await.unwrap_err();
    assert!(error.is_infrastructure(), "{error}");
    tokio::time::timeout(Duration::from_secs(5), sandbox.end()).await.unwrap();

    let backend: Arc<dyn Backend> = docker.clone();
    let error = Sandbox::start(backend, &identity("gone"), Spec::default()).await.unwrap_err();
    assert!(error.to_string().contains("no engine listens at"), "{error}");
    assert!(error.hint().is_some());

    let opened = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        Door::open(&path)
    };
    let (sandbox, _door) = tokio::join!(start(&docker, "again", Spec::default()), opened);
    assert_eq!(python(&sandbox, "print(3)").await.stdout, b"3\n");
    sandbox.end().await;
}
