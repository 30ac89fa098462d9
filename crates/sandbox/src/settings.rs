//! Settings that a run was started with, as they are stored with it.

use assize_config::{Limits, Settings};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::Spec;

/// Settings that a run was started with, a part of its input: they hold when it is resumed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunSettings {
    pub limits: Limits,
    pub image: Option<String>,
    /// The isolation that was asked for; it holds when the run is resumed, unless another is asked for then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub isolation: Option<String>,
    pub temperature: f64,
    pub max_output_tokens: u32,
    pub provider: String,
    pub model: String,
}

impl RunSettings {
    /// Settings of a new run, which this provider and model answer.
    pub fn new(
        settings: &Settings,
        (limits, image): (Limits, Option<String>),
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

    /// The sandboxes of the run.
    pub fn spec(&self) -> Spec {
        Spec { image: self.image.clone(), limits: self.limits.clone(), ..Spec::default() }
    }

    /// The provider and the model that answer.
    pub fn model(&self) -> (&str, &str) {
        (&self.provider, &self.model)
    }
}
