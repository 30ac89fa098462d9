//! Which sandboxes can be made here, and what each limit rests on.

use std::sync::Arc;
use std::time::Duration;

use assize_config::{Isolation, Settings, Wanted};
use assize_sandbox::choice::Chosen;
use assize_sandbox::{Enforcement, Language, SandboxError, Sandboxes, Spec};
use assize_types::Failure;

/// What was found out about all of them.
#[derive(Debug)]
pub struct SandboxFindings {
    pub backends: Vec<Finding>,
    pub interpreters: Vec<(Language, Result<String, String>)>,
    /// What is used for code, and why; or why nothing can be.
    pub used: Result<(Isolation, String), String>,
    /// The same for debates.
    pub used_for_debates: Result<(Isolation, String), String>,
}

/// What was found out about one of them.
#[derive(Debug)]
pub struct Finding {
    pub isolation: Isolation,
    /// How long a sandbox took to be made and to run something, or why there is none.
    pub tried: Result<Duration, SandboxError>,
    /// How it is run, where that makes a difference.
    pub how: Option<String>,
    pub enforcement: Option<Enforcement>,
}

/// Makes one sandbox of each kind: nothing less shows that it can be done.
pub(super) async fn examine(sandboxes: &Sandboxes) -> SandboxFindings {
    let interpreters = Language::ALL.map(|language| {
        let found = sandboxes.interpreter(language);
        (language, found.map(|interpreter| interpreter.program.display().to_string()))
    });
    let mut backends = Vec::new();
    for isolation in Isolation::ALL {
        backends.push(match sandboxes.backend(isolation) {
            Ok(backend) => {
                let how = backend.settle().await.unwrap_or_default();
                let attempt = || sandboxes.attempt(Arc::clone(&backend), Spec::default());
                let mut tried = attempt().await;
                if how.is_some() && tried.is_ok() {
                    // What is made once is not counted.
                    tried = attempt().await;
                }
                // Some of it is known only once one was made.
                Finding { isolation, tried, how, enforcement: Some(backend.enforcement()) }
            }
            Err(error) => Finding { isolation, tried: Err(error), how: None, enforcement: None },
        });
    }
    let told = |chosen: Result<Chosen, Failure>| match chosen {
        Ok(chosen) => Ok((chosen.backend.isolation(), chosen.why)),
        Err(failure) => Err(failure.render()),
    };
    let used = told(sandboxes.choose(&[]).await);
    let spec = Spec { limits: sandboxes.limits_of_debates(), ..Spec::default() };
    let used_for_debates = told(sandboxes.choose_for_debates(&spec).await);
    SandboxFindings { backends, interpreters: interpreters.into(), used, used_for_debates }
}

impl SandboxFindings {
    /// A sandbox that was asked for by name and cannot be made is a failure.
    pub fn complain(&self, config: &Settings) -> Result<(), Failure> {
        let asked = *config.sandbox.isolation != Wanted::Auto;
        let Ok((used, _)) = &self.used else { return Ok(()) };
        let finding = self.backends.iter().find(|finding| finding.isolation == *used);
        match finding.map(|finding| &finding.tried) {
            Some(Err(error)) if asked => Err(error.clone().into()),
            _ => Ok(()),
        }
    }
}

impl Finding {
    /// Each limit, and what it rests on.
    pub fn limits(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.enforcement.iter().flat_map(|by| {
            [
                ("memory", by.memory.as_str()),
                ("processor", &by.cpu),
                ("processes", &by.processes),
                ("disk", &by.disk),
                ("output", &by.output),
                ("time", &by.wall),
                ("network", &by.network),
                ("system calls", &by.system_calls),
                ("files", &by.files),
            ]
        })
    }
}
