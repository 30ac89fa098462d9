//! Cache of the sandbox backends that a worker has chosen for debates.

use std::collections::HashMap;
use std::sync::Arc;

use assize_config::SettingKey;
use assize_consult::DebateSandboxes;
use assize_sandbox::{SandboxFactory, SandboxManager, SandboxSpec};
use assize_types::Failure;
use tokio::sync::Mutex;

/// Maximum number of cached backend choices. The cache needs a limit because other processes determine which isolations
/// and sandbox specs are requested.
const MAX_CHOICES: usize = 64;

/// Cache key: the requested isolation and the sandbox spec. The chosen backend depends on the spec because not every
/// backend supports every image and limit.
type ChoiceKey = (Option<String>, SandboxSpec);

/// Cache of backend choices. All choices of the same backend share one sandbox manager.
#[derive(Default)]
pub(super) struct BackendCache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    choices: HashMap<ChoiceKey, Arc<DebateSandboxes>>,
    /// One entry for each chosen backend, with its sandbox manager and the sandbox layer that contains the negotiator
    /// program.
    prepared: Vec<Arc<DebateSandboxes>>,
}

impl BackendCache {
    /// Returns the backend for a debate. Chooses a backend if the cache has no choice for the same isolation and spec.
    pub(super) async fn get(
        &self,
        sandboxes: &SandboxFactory,
        isolation: Option<&str>,
        spec: &SandboxSpec,
    ) -> Result<Arc<DebateSandboxes>, Failure> {
        let mut state = self.state.lock().await;
        let key = (isolation.map(str::to_owned), spec.clone());
        if let Some(backend) = state.choices.get(&key) {
            return Ok(backend.clone());
        }
        let requested =
            isolation.map(|isolation| (SettingKey::SandboxIsolation, isolation.to_owned()));
        let settings = Arc::new(sandboxes.settings.with_request(requested.as_slice())?);
        let sandboxes = SandboxFactory { settings, ..sandboxes.clone() };
        let chosen = sandboxes.choose_for_debates(spec).await?;
        let same = |prepared: &&Arc<DebateSandboxes>| {
            prepared.manager.isolation() == chosen.backend.isolation()
        };
        let backend = match state.prepared.iter().find(same) {
            Some(prepared) => Arc::new(DebateSandboxes {
                manager: prepared.manager.clone(),
                layer: prepared.layer.clone(),
                isolation: format!("{} ({})", chosen.backend.isolation(), chosen.why),
                weaker: chosen.weaker_isolation_warning,
            }),
            None => {
                let made = Arc::new(DebateSandboxes::make(&sandboxes, chosen).await?);
                state.prepared.push(made.clone());
                made
            }
        };
        if state.choices.len() >= MAX_CHOICES {
            state.choices.clear();
        }
        state.choices.insert(key, backend.clone());
        Ok(backend)
    }

    /// Ends all sandboxes of the cached backends.
    pub(super) async fn close(&self) {
        let managers: Vec<Arc<SandboxManager>> =
            self.state.lock().await.prepared.iter().map(|each| each.manager.clone()).collect();
        for manager in managers {
            manager.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use assize_config::{Environment, Isolation, Settings};

    use super::*;

    /// The cache chooses Docker for a spec with a container image, which no other backend supports. It chooses the jail
    /// for a spec without an image, because this test has no microVM image.
    #[tokio::test(flavor = "multi_thread")]
    async fn backend_cache_has_a_separate_choice_for_each_image_and_limit() {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::in_folder(
            folder.path(),
            [("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())].into(),
        );
        let config = Settings::load(&environment, &[]).unwrap();
        let sandboxes = SandboxFactory::new(&config, &environment);
        let backends = BackendCache::default();
        let get = async |spec: &SandboxSpec| backends.get(&sandboxes, None, spec).await;
        let plain = get(&SandboxSpec::default()).await.unwrap();
        assert_eq!(plain.manager.isolation(), Isolation::Jail, "{}", plain.isolation);
        let image =
            SandboxSpec { image: Some("python:3.12-slim".to_owned()), ..SandboxSpec::default() };
        // On a machine without Docker, the request fails. It never falls back to the jail.
        if let Ok(with_image) = get(&image).await {
            assert_eq!(
                with_image.manager.isolation(),
                Isolation::Docker,
                "{}",
                with_image.isolation
            );
        }
        let mut large = SandboxSpec::default();
        large.limits.memory *= 2;
        let with_limit = get(&large).await.unwrap();
        assert!(!Arc::ptr_eq(&plain, &with_limit), "specs with different limits share a choice");
        assert!(
            Arc::ptr_eq(&plain.manager, &with_limit.manager),
            "two choices of the same backend have different managers"
        );
        assert!(
            Arc::ptr_eq(&plain, &get(&SandboxSpec::default()).await.unwrap()),
            "the choice for an equal spec was not cached"
        );
        backends.close().await;
    }
}
