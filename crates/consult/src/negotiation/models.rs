//! Which model answers for which role.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_llm::Model;

/// One model for all roles, and others for some: `synthesizer`, `financial`, `trend`, `analyst_1` and so on,
/// `critic`, `D1` and so on.
#[derive(Clone)]
pub struct Models {
    usual: Arc<dyn Model>,
    by_role: BTreeMap<String, Arc<dyn Model>>,
}

impl std::fmt::Debug for Models {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Models").field("roles", &self.by_role.keys()).finish_non_exhaustive()
    }
}

impl Models {
    pub fn new(usual: Arc<dyn Model>) -> Models {
        Models { usual, by_role: BTreeMap::new() }
    }

    /// Has another model answer for one role.
    #[must_use]
    pub fn with(mut self, role: &str, model: Arc<dyn Model>) -> Models {
        self.by_role.insert(role.to_owned(), model);
        self
    }

    /// The model that answers for a role.
    pub fn of(&self, role: &str) -> &Arc<dyn Model> {
        self.by_role.get(role).unwrap_or(&self.usual)
    }
}
