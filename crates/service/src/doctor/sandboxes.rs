//! Checks of `assize doctor` on the sandbox backends: which work on this machine, and how each enforces its limits.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_config::{Isolation, RequestedIsolation, Settings};
use assize_sandbox::choice::SelectedBackend;
use assize_sandbox::{Enforcement, Language, SandboxError, SandboxFactory, SandboxSpec};
use assize_types::Failure;
use schemars::JsonSchema;
use serde::Serialize;

/// Results of the checks on all sandbox backends, and which backends new runs use.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SandboxesReport {
    pub backends: Vec<BackendReport>,
    /// Path of the interpreter for each language; null if none was found.
    pub interpreters: BTreeMap<&'static str, Option<String>>,
    /// Why no interpreter was found, for each language without an interpreter.
    #[serde(skip)]
    pub missing_interpreters: BTreeMap<&'static str, String>,
    /// Sandbox backend that new code runs use; null if none is available.
    pub used: Option<Isolation>,
    /// Why new code runs use this backend, or why no backend is available.
    pub why: String,
    /// Sandbox backend that new debates use; null if none is available.
    pub used_for_debates: Option<Isolation>,
    /// Why new debates use this backend, or why no backend is available.
    pub why_for_debates: String,
    /// Why no backend can be used for new runs.
    #[serde(skip)]
    failure: Option<Failure>,
}

/// Result of the checks on one sandbox backend.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BackendReport {
    pub isolation: Isolation,
    pub available: bool,
    /// Time in milliseconds to create one sandbox; null if the backend is not available.
    pub start_ms: Option<f64>,
    pub unavailable_reason: Option<String>,
    pub hint: Option<String>,
    /// How the backend runs sandboxes, such as microVMs with KVM or with emulation; null if the backend has only one
    /// way to run sandboxes.
    pub method: Option<String>,
    /// How the backend enforces each limit.
    pub enforcement: Option<Enforcement>,
    #[serde(skip)]
    error: Option<SandboxError>,
}

impl SandboxesReport {
    /// Checks all backends. Creates one sandbox with each backend, because no other check shows whether the backend
    /// works.
    pub(super) async fn new(sandboxes: &SandboxFactory) -> SandboxesReport {
        let (mut interpreters, mut missing_interpreters) = (BTreeMap::new(), BTreeMap::new());
        for language in Language::ALL {
            let found = sandboxes.interpreter(language).map_err(|why| {
                missing_interpreters.insert(language.name(), why);
            });
            let path = found.ok().map(|found| found.program.display().to_string());
            interpreters.insert(language.name(), path);
        }
        let mut backends = Vec::new();
        for isolation in Isolation::ALL {
            backends.push(BackendReport::new(isolation, sandboxes).await);
        }
        let explained = |chosen: Result<SelectedBackend, Failure>| match chosen {
            Ok(chosen) => (Some(chosen.backend.isolation()), chosen.why),
            Err(failure) => (None, failure.render()),
        };
        let chosen = sandboxes.choose(&[]).await;
        let failure = chosen.as_ref().err().cloned();
        let (used, why) = explained(chosen);
        let spec = SandboxSpec { limits: sandboxes.limits_of_debates(), ..SandboxSpec::default() };
        let (used_for_debates, why_for_debates) =
            explained(sandboxes.choose_for_debates(&spec).await);
        SandboxesReport {
            backends,
            interpreters,
            missing_interpreters,
            used,
            why,
            used_for_debates,
            why_for_debates,
            failure,
        }
    }

    /// Fails if the setting `sandbox.isolation` requires a backend that cannot create sandboxes. Never fails if the
    /// setting is `auto`.
    pub(super) fn check(&self, config: &Settings) -> Result<(), Failure> {
        let is_named = *config.sandbox.isolation != RequestedIsolation::Auto;
        if let Some(failure) = self.failure.as_ref().filter(|_| is_named) {
            return Err(failure.clone());
        }
        let used = self.backends.iter().find(|report| Some(report.isolation) == self.used);
        match used.and_then(|report| report.error.clone()).filter(|_| is_named) {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }
}

impl BackendReport {
    async fn new(isolation: Isolation, sandboxes: &SandboxFactory) -> BackendReport {
        let (mut method, mut enforcement) = (None, None);
        let tried = match sandboxes.backend(isolation) {
            Ok(backend) => {
                method = backend.test_host().await.unwrap_or_default();
                let attempt =
                    || sandboxes.test_backend(Arc::clone(&backend), SandboxSpec::default());
                let mut tried = attempt().await;
                if method.is_some() && tried.is_ok() {
                    // Measure the time of the second attempt, because the first may include one-time preparation.
                    tried = attempt().await;
                }
                // Read this last: some backends find out how they enforce limits when they create a sandbox.
                enforcement = Some(backend.enforcement());
                tried
            }
            Err(error) => Err(error),
        };
        let (took, error) = (tried.as_ref().ok(), tried.as_ref().err());
        BackendReport {
            isolation,
            available: took.is_some(),
            start_ms: took.map(|took| took.as_secs_f64() * 1e3),
            unavailable_reason: error.map(ToString::to_string),
            hint: error.and_then(SandboxError::hint).map(str::to_owned),
            method,
            enforcement,
            error: error.cloned(),
        }
    }

    /// Returns the name of each limit, and how the backend enforces the limit.
    pub fn limits(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.enforcement.iter().flat_map(|by| {
            [
                ("memory", by.memory.as_str()),
                ("processor", &by.cpu),
                ("processes", &by.processes),
                ("disk", &by.disk),
                ("output", &by.output),
                ("time", &by.time),
                ("network", &by.network),
                ("system calls", &by.system_calls),
                ("files", &by.files),
            ]
        })
    }
}
