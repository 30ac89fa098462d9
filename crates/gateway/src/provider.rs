//! Endpoint of a provider: base URL, model and API key for requests.

use assize_config::{ApiKey, Provider};

use crate::local_server::is_local_address;

/// Base URL, model and API key for requests to a provider.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub provider: Provider,
    pub model: String,
    /// Base URL without a trailing slash.
    pub base_url: String,
    pub key: Option<ApiKey>,
    /// Where the API key was set, for example the name of an environment variable. If the provider rejects the key, the
    /// hint names this source.
    pub key_source: String,
    /// Context window in tokens, from the settings or reported by the server. It overrides the value in the catalog.
    pub context_window: Option<u64>,
}

impl Endpoint {
    /// Creates an endpoint with the provider's default base URL and model, without a key.
    pub fn new(provider: Provider) -> Endpoint {
        Endpoint {
            provider,
            model: provider.default_model().to_owned(),
            base_url: provider.default_base_url().to_owned(),
            key: None,
            key_source: provider.key_variable().to_owned(),
            context_window: None,
        }
    }

    /// Whether the endpoint may be a model server of the user: Ollama or an OpenAI-compatible server at a local
    /// address.
    pub fn is_local_server(&self) -> bool {
        matches!(self.provider, Provider::OpenAi | Provider::Ollama)
            && is_local_address(&self.base_url)
    }

    /// Whether the endpoint is the provider's official API, and not a proxy or a compatible server.
    pub fn is_official(&self) -> bool {
        self.base_url == self.provider.default_base_url()
    }
}

/// Joins the names of a provider and a model to one text, for output. Either name can be empty. If both names are the
/// same, as for the rehearsal model, the text contains the name only once.
pub(crate) fn display_name(provider: &str, model: &str) -> String {
    if provider == model {
        return provider.to_owned();
    }
    format!("{provider} {model}").trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_of_an_endpoint_hides_its_key() {
        let key = Some(ApiKey::new("sk-ant-0123456789abcdef"));
        let endpoint = Endpoint { key, ..Endpoint::new(Provider::Anthropic) };
        assert!(!format!("{endpoint:?}").contains("0123456789"));
    }
}
