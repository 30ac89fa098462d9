//! Backends that a worker has chosen for debates, by all that the choice depends on.

use std::collections::HashMap;
use std::sync::Arc;

use assize_config::SettingKey;
use assize_consult::Prepared;
use assize_sandbox::{Manager, Sandboxes, Spec};
use assize_types::Failure;
use tokio::sync::Mutex;

/// Choices that are remembered. Requests are foreign, so their number is bounded.
const MAX_CHOICES: usize = 64;

/// The isolation that a job asks for, and its sandboxes: a backend may not support an image or a limit.
type Request = (Option<String>, Spec);

/// Cache of backend choices. Choices of the same backend share one manager.
#[derive(Default)]
pub(super) struct Grounds {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    choices: HashMap<Request, Arc<Prepared>>,
    /// One for each backend, with what is installed for it.
    prepared: Vec<Arc<Prepared>>,
}

impl Grounds {
    /// The backend for a job, chosen now if no job with the same requirements came before.
    pub(super) async fn get(
        &self,
        sandboxes: &Sandboxes,
        isolation: Option<&str>,
        spec: &Spec,
    ) -> Result<Arc<Prepared>, Failure> {
        let mut state = self.state.lock().await;
        let request = (isolation.map(str::to_owned), spec.clone());
        if let Some(ground) = state.choices.get(&request) {
            return Ok(ground.clone());
        }
        let wanted =
            isolation.map(|isolation| (SettingKey::SandboxIsolation, isolation.to_owned()));
        let settings = Arc::new(sandboxes.settings.with_request(wanted.as_slice())?);
        let sandboxes = Sandboxes { settings, ..sandboxes.clone() };
        let chosen = sandboxes.choose_for_debates(spec).await?;
        let same = |one: &&Arc<Prepared>| one.manager.isolation() == chosen.backend.isolation();
        let ground = match state.prepared.iter().find(same) {
            Some(prepared) => Arc::new(Prepared {
                manager: prepared.manager.clone(),
                layer: prepared.layer.clone(),
                why: format!("{} ({})", chosen.backend.isolation(), chosen.why),
                weaker: chosen.weaker,
            }),
            None => {
                let made = Arc::new(Prepared::make(&sandboxes, chosen).await?);
                state.prepared.push(made.clone());
                made
            }
        };
        if state.choices.len() >= MAX_CHOICES {
            state.choices.clear();
        }
        state.choices.insert(request, ground.clone());
        Ok(ground)
    }

    /// Ends all sandboxes.
    pub(super) async fn close(&self) {
        let managers: Vec<Arc<Manager>> =
            self.state.lock().await.prepared.iter().map(|one| one.manager.clone()).collect();
        for manager in managers {
            manager.close().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use assize_config::{Environment, Isolation, Settings};

    use super::*;

    /// Only containers have images, and the jail is the first choice of all others here: without an image of
    /// its own there is no microVM.
    #[tokio::test(flavor = "multi_thread")]
    async fn jobs_with_another_image_or_limit_get_their_own_choice() {
        let folder = tempfile::tempdir().unwrap();
        let around = Environment::in_folder(
            folder.path(),
            [("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())].into(),
        );
        let config = Settings::load(&around, &[]).unwrap();
        let sandboxes = Sandboxes::new(&config, &around);
        let grounds = Grounds::default();
        let get = async |spec: &Spec| grounds.get(&sandboxes, None, spec).await;
        let plain = get(&Spec::default()).await.unwrap();
        assert_eq!(plain.manager.isolation(), Isolation::Jail, "{}", plain.why);
        let image = Spec { image: Some("python:3.12-slim".to_owned()), ..Spec::default() };
        // Where there is no Docker, the request fails; it never gets the jail.
        if let Ok(with_image) = get(&image).await {
            assert_eq!(with_image.manager.isolation(), Isolation::Docker, "{}", with_image.why);
        }
        let mut large = Spec::default();
        large.limits.memory *= 2;
        let with_limit = get(&large).await.unwrap();
        assert!(!Arc::ptr_eq(&plain, &with_limit), "a choice was shared");
        assert!(Arc::ptr_eq(&plain.manager, &with_limit.manager), "a backend was opened twice");
        assert!(
            Arc::ptr_eq(&plain, &get(&Spec::default()).await.unwrap()),
            "a choice was repeated"
        );
        grounds.close().await;
    }
}
