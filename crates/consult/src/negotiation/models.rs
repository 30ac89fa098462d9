//! Assignment of models to roles.

use std::collections::BTreeMap;
use std::sync::Arc;

use assize_llm::Model;

/// The default model, and other models for some roles. The roles are `synthesizer`, `financial`, `trend`, `analyst_1`
/// and so on, `critic`, and `D1` and so on.
#[derive(Clone)]
pub struct RoleModels {
    default: Arc<dyn Model>,
    by_role: BTreeMap<String, Arc<dyn Model>>,
}

impl std::fmt::Debug for RoleModels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RoleModels").field("roles", &self.by_role.keys()).finish_non_exhaustive()
    }
}

impl RoleModels {
    pub fn new(default: Arc<dyn Model>) -> RoleModels {
        RoleModels { default, by_role: BTreeMap::new() }
    }

    /// Sets the model of one role.
    #[must_use]
    pub fn with(mut self, role: &str, model: Arc<dyn Model>) -> RoleModels {
        self.by_role.insert(role.to_owned(), model);
        self
    }

    /// Returns the model of a role, or the default model.
    pub fn of(&self, role: &str) -> &Arc<dyn Model> {
        self.by_role.get(role).unwrap_or(&self.default)
    }
}
