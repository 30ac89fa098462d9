//! A backend to test, a folder for its records, and short ways to say what is tested.

use std::path::Path;
use std::sync::Arc;

use assize_config::{Isolation, Limits};
use assize_sandbox::docker::Docker;
use assize_sandbox::microvm::{self, Microvm};
use assize_sandbox::{
    Backend, Command, Finished, Interpreter, Language, Manager, Sandbox, SandboxError, Spec,
};
use assize_testkit::cache_folder;

/// The backend, or why there is none.
pub(crate) async fn backend(isolation: Isolation) -> Result<Arc<dyn Backend>, String> {
    let search = std::env::var_os("PATH");
    match isolation {
        Isolation::Jail => {
            // Not a version manager's: it takes longer to say which it is than a test does.
            let python = Some(Path::new("/usr/bin/python3")).filter(|path| path.exists());
            let found = Language::ALL.into_iter().filter_map(|language| {
                let named = python.filter(|_| language == Language::Python);
                Interpreter::find(language, named, search.as_deref()).ok()
            });
            Ok(Arc::new(assize_sandbox::jail::Jail::new(found.collect())))
        }
        Isolation::Docker => {
            let docker = Docker::new(Vec::new());
            let found = docker.probe().await.map_err(|error| error.to_string())?;
            found.image.map_err(|reason| format!("the image: {reason}"))?;
            Ok(Arc::new(docker))
        }
        Isolation::Microvm => {
            let microvm = microvm();
            microvm.is_ready().map_err(|error| error.to_string())?;
            Ok(Arc::new(microvm))
        }
    }
}

/// How much longer programs may take in a machine that is emulated.
const SLOWER: u32 = 6;

/// Set where the tests themselves run in a machine.
const WITHIN: &str = "ASSIZE_TEST_WITHIN_A_MACHINE";

/// Machines, from where the program itself keeps what they are made from.
pub(crate) fn microvm() -> Microvm {
    Microvm::new(microvm_options(&cache_folder()))
}

/// Options for microVMs made from what is in a cache folder.
pub(crate) fn microvm_options(cache: &Path) -> microvm::Options {
    let search = std::env::var_os("PATH");
    microvm::Options { cache: cache.to_owned(), search, ..microvm::Options::default() }
}

/// As many, or fewer where the tests themselves run in a machine.
pub(crate) fn many(count: usize) -> usize {
    if std::env::var_os(WITHIN).is_some() { count / 10 } else { count }
}

pub(crate) struct Bench {
    pub(crate) manager: Manager,
    pub(crate) folder: Arc<tempfile::TempDir>,
}

impl Bench {
    pub(crate) async fn new(backend: Arc<dyn Backend>) -> Bench {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let manager = Manager::open(folder.path().join("makers"), backend, &[]).await.unwrap();
        Bench { manager, folder }
    }

    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.with(|_| {}).await
    }

    pub(crate) async fn with(&self, change: impl FnOnce(&mut Limits)) -> Sandbox {
        let mut spec = Spec::default();
        change(&mut spec.limits);
        if self.manager.isolation() == Isolation::Microvm || std::env::var_os(WITHIN).is_some() {
            // A processor that is imitated takes its time.
            spec.limits.cpu_millis = 1000;
            spec.limits.wall *= SLOWER;
        }
        self.manager.make(spec).await.unwrap()
    }

    /// Runs a piece of Python in a sandbox of its own.
    pub(crate) async fn python(&self, code: &str) -> Finished {
        python(&self.sandbox().await, code).await
    }
}

/// Runs a piece of Python.
pub(crate) async fn python(sandbox: &Sandbox, code: &str) -> Finished {
    try_python(sandbox, code, Command::default()).await.unwrap()
}

pub(crate) async fn try_python(
    sandbox: &Sandbox,
    code: &str,
    command: Command,
) -> Result<Finished, SandboxError> {
    sandbox.run(Language::Python, code.as_bytes(), command).await?.finish().await
}

pub(crate) async fn shell(sandbox: &Sandbox, script: &str) -> Finished {
    sandbox
        .exec(Command::new("/bin/sh").args(["-c", script]))
        .await
        .unwrap()
        .finish()
        .await
        .unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs a test for a backend, if there is one.
pub(crate) async fn run<F: Future<Output = ()>>(
    isolation: Isolation,
    test: impl FnOnce(Bench) -> F,
) {
    match backend(isolation).await {
        Ok(backend) => {
            let bench = Bench::new(backend).await;
            // A test that uses nothing but the manager needs it all the same.
            let _folder = Arc::clone(&bench.folder);
            test(bench).await;
        }
        Err(reason) => skip(isolation, &reason),
    }
}

#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
pub(crate) fn skip(isolation: Isolation, reason: &str) {
    let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name == isolation.name()),
        "{isolation} is required: {reason}"
    );
    eprintln!("skipped: {reason}");
}
