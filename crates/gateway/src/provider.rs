//! Endpoint of a provider: address, model and key of the requests.

use assize_config::{Provider, Secret};

use crate::local::is_local_address;

/// Where and as what a provider is asked.
#[derive(Debug, Clone)]
pub struct Endpoint {
    pub provider: Provider,
    pub model: String,
    /// Without a slash at its end.
    pub base_url: String,
    pub key: Option<Secret>,
    /// Where the key comes from, or should: named in the hint when the provider refuses it.
    pub key_source: String,
    /// The window that was set or that the server reported; overrides the catalog's.
    pub context_window: Option<u64>,
}

impl Endpoint {
    /// The provider's own address and default model, without a key.
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

    /// Whether this may be a model server of the user's own: Ollama or an OpenAI-compatible server at a local
    /// address.
    pub fn is_local_server(&self) -> bool {
        matches!(self.provider, Provider::OpenAi | Provider::Ollama)
            && is_local_address(&self.base_url)
    }

    /// Whether this is the provider itself, and not a proxy or a compatible server.
    pub fn is_official(&self) -> bool {
        self.base_url == self.provider.default_base_url()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_of_an_endpoint_hides_its_key() {
        let key = Some(Secret::new("sk-ant-0123456789abcdef"));
        let endpoint = Endpoint { key, ..Endpoint::new(Provider::Anthropic) };
        assert!(!format!("{endpoint:?}").contains("0123456789"));
    }
}
