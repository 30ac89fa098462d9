//! Test bench: a backend under test with a manager in a temporary folder, and helper functions that run programs.

use std::path::Path;
use std::sync::Arc;

use assize_config::{Isolation, SandboxLimits};
use assize_sandbox::docker::Docker;
use assize_sandbox::microvm::{self, Microvm};
use assize_sandbox::{
    Backend, FinishedProgram, Interpreter, Language, ProgramCommand, Sandbox, SandboxError,
    SandboxManager, SandboxSpec,
};
use assize_testkit::cache_folder;

/// Returns the backend, or the reason why it is not available.
pub(crate) async fn backend(isolation: Isolation) -> Result<Arc<dyn Backend>, String> {
    let search = std::env::var_os("PATH");
    match isolation {
        Isolation::Jail => {
            // The system's Python is preferred, because finding the Python of a version manager takes longer than a
            // test.
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
            found.image.map_err(|reason| format!("no sandbox image: {reason}"))?;
            Ok(Arc::new(docker))
        }
        Isolation::Microvm => {
            let microvm = microvm();
            microvm.is_ready().map_err(|error| error.to_string())?;
            Ok(Arc::new(microvm))
        }
    }
}

/// Factor by which timeouts are longer in an emulated microVM.
const EMULATION_SLOWDOWN: u32 = 6;

/// Environment variable that is set if the tests themselves run in a microVM.
const INSIDE_MICROVM: &str = "ASSIZE_TEST_WITHIN_A_MACHINE";

/// Creates a microVM backend with assize's default cache folder.
pub(crate) fn microvm() -> Microvm {
    Microvm::new(microvm_options(&cache_folder()))
}

/// Returns the options of a microVM backend with this cache folder.
pub(crate) fn microvm_options(cache: &Path) -> microvm::MicrovmOptions {
    let search = std::env::var_os("PATH");
    microvm::MicrovmOptions {
        cache: cache.to_owned(),
        search,
        ..microvm::MicrovmOptions::default()
    }
}

/// Returns `count`, or a tenth of it if the tests themselves run in a microVM.
pub(crate) fn many(count: usize) -> usize {
    if std::env::var_os(INSIDE_MICROVM).is_some() { count / 10 } else { count }
}

pub(crate) struct Bench {
    pub(crate) manager: SandboxManager,
    pub(crate) folder: Arc<tempfile::TempDir>,
}

impl Bench {
    pub(crate) async fn new(backend: Arc<dyn Backend>) -> Bench {
        let folder = Arc::new(tempfile::tempdir().unwrap());
        let manager =
            SandboxManager::open(folder.path().join("makers"), backend, &[]).await.unwrap();
        Bench { manager, folder }
    }

    pub(crate) async fn sandbox(&self) -> Sandbox {
        self.with(|_| {}).await
    }

    pub(crate) async fn with(&self, change: impl FnOnce(&mut SandboxLimits)) -> Sandbox {
        let mut spec = SandboxSpec::default();
        change(&mut spec.limits);
        let inside_microvm = std::env::var_os(INSIDE_MICROVM).is_some();
        if self.manager.isolation() == Isolation::Microvm || inside_microvm {
            // An emulated CPU is slow, so the sandbox gets a whole CPU and more time.
            spec.limits.cpu_millis = 1000;
            spec.limits.wall *= EMULATION_SLOWDOWN;
        }
        self.manager.create(spec).await.unwrap()
    }

    /// Runs Python code in a new sandbox.
    pub(crate) async fn python(&self, code: &str) -> FinishedProgram {
        python(&self.sandbox().await, code).await
    }
}

/// Runs Python code in a sandbox.
pub(crate) async fn python(sandbox: &Sandbox, code: &str) -> FinishedProgram {
    try_python(sandbox, code, ProgramCommand::default()).await.unwrap()
}

pub(crate) async fn try_python(
    sandbox: &Sandbox,
    code: &str,
    command: ProgramCommand,
) -> Result<FinishedProgram, SandboxError> {
    sandbox.run(Language::Python, code.as_bytes(), command).await?.finish().await
}

pub(crate) async fn shell(sandbox: &Sandbox, script: &str) -> FinishedProgram {
    sandbox
        .exec(ProgramCommand::new("/bin/sh").args(["-c", script]))
        .await
        .unwrap()
        .finish()
        .await
        .unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Runs a test with a backend, or skips it if the backend is not available.
pub(crate) async fn run<F: Future<Output = ()>>(
    isolation: Isolation,
    test: impl FnOnce(Bench) -> F,
) {
    match backend(isolation).await {
        Ok(backend) => {
            let bench = Bench::new(backend).await;
            // Keeps the temporary folder for tests that move only the manager out of the bench.
            let _folder = Arc::clone(&bench.folder);
            test(bench).await;
        }
        Err(reason) => skip(isolation, &reason),
    }
}

#[expect(clippy::print_stderr, reason = "the test log shows which tests are skipped")]
pub(crate) fn skip(isolation: Isolation, reason: &str) {
    let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name == isolation.name()),
        "{isolation} is required: {reason}"
    );
    eprintln!("skipped: {reason}");
}
