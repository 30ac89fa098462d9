//! The settings that are stored with a run.

use assize_config::{SandboxLimits, Settings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::SandboxSpec;

/// Settings that a run was started with. They are part of the run's input and also apply when it is resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSettings {
    pub limits: SandboxLimits,
    pub image: Option<String>,
    /// The requested isolation; a resumed run uses it unless the resume request overrides it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    pub temperature: f64,
    pub max_output_tokens: u32,
    pub provider: String,
    pub model: String,
}

impl RunSettings {
    /// Settings of a new run that uses this provider and model.
    pub fn new(
        settings: &Settings,
        (limits, image): (SandboxLimits, Option<String>),
        (provider, model): (&str, &str),
    ) -> RunSettings {
        RunSettings {
            limits,
            image,
            isolation: settings.sandbox.isolation.requested().map(ToString::to_string),
            temperature: *settings.general.temperature,
            max_output_tokens: *settings.general.max_output_tokens,
            provider: provider.to_owned(),
            model: model.to_owned(),
        }
    }

    /// Returns the sandbox spec with the image and the limits of the run.
    pub fn spec(&self) -> SandboxSpec {
        SandboxSpec {
            image: self.image.clone(),
            limits: self.limits.clone(),
            ..SandboxSpec::default()
        }
    }

    /// Provider and model of the run.
    pub fn model(&self) -> (&str, &str) {
        (&self.provider, &self.model)
    }
}
