//! Model servers on the user's machine or private network: recognizes local addresses, and queries a server for its
//! context window and its number of parallel slots.
//!
//! Supported servers are Ollama (`/api/show`), llama.cpp (`/props` and `/v1/models`) and vLLM (`/v1/models`). For a
//! server that does not report these values in a known format, the defaults apply.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use assize_config::Provider;
use assize_llm::ModelError;
use serde_json::{Value, json};
use tracing::debug;

use crate::http::{HttpClient, read_json};
use crate::provider::Endpoint;

/// Plausible sizes of a context window in tokens. Reported values outside of this range are ignored.
const PLAUSIBLE_WINDOW: std::ops::RangeInclusive<u64> = 128..=100_000_000;

/// Maximum plausible number of parallel slots of a server. Larger reported values are ignored.
const MAX_SLOTS: u64 = 1024;

/// Properties that a local model server reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerFacts {
    /// Maximum number of tokens of one request, input and output together.
    pub context_window: Option<u64>,
    /// Number of requests that the server answers in parallel.
    pub slots: Option<usize>,
}

/// Queries a local server for its context window and its parallel slots.
///
/// If the server does not answer within `timeout`, both values are `None`. A later model call reports the unreachable
/// server.
pub async fn discover(client: &HttpClient, endpoint: &Endpoint, timeout: Duration) -> ServerFacts {
    let found = async {
        match endpoint.provider {
            Provider::Ollama => discover_ollama(client, endpoint).await,
            Provider::OpenAi => discover_compatible(client, endpoint).await,
            _ => ServerFacts::default(),
        }
    };
    let facts = tokio::time::timeout(timeout, found).await.unwrap_or_default();
    debug!(
        context_window = facts.context_window,
        slots = facts.slots,
        "properties of the local model server"
    );
    facts
}

async fn discover_ollama(client: &HttpClient, endpoint: &Endpoint) -> ServerFacts {
    // Ollama answers one request at a time unless it is started with OLLAMA_NUM_PARALLEL. It does not report that
    // value.
    let slots = Some(1);
    let url = format!("{}/api/show", endpoint.base_url);
    let body = json!({"model": endpoint.model});
    let shown = answer(read_json(client, endpoint, &url, Some(&body)).await);
    ServerFacts { context_window: shown.as_ref().and_then(ollama_window), slots }
}

/// Context window from Ollama's `/api/show` reply: `num_ctx` of the Modelfile, else the context length that the model
/// was trained with.
fn ollama_window(shown: &Value) -> Option<u64> {
    let parameters = shown.get("parameters").and_then(Value::as_str).unwrap_or_default();
    let set = parameters.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some("num_ctx")).then(|| words.next()?.parse().ok()).flatten()
    });
    let trained = || {
        let info = shown.get("model_info")?.as_object()?;
        info.iter().find(|(key, _)| key.ends_with(".context_length"))?.1.as_u64()
    };
    plausible(set.or_else(trained))
}

async fn discover_compatible(client: &HttpClient, endpoint: &Endpoint) -> ServerFacts {
    let base = &endpoint.base_url;
    let root = base.strip_suffix("/v1").unwrap_or(base);
    // llama.cpp serves `/props` in addition to the OpenAI-compatible routes.
    let props = answer(read_json(client, endpoint, &format!("{root}/props"), None).await);
    let facts = props.as_ref().map(llama_facts).unwrap_or_default();
    if facts.context_window.is_some() {
        return facts;
    }
    let models = answer(read_json(client, endpoint, &format!("{base}/models"), None).await);
    let window = models.as_ref().and_then(|models| listed_window(models, &endpoint.model));
    ServerFacts { context_window: window, ..facts }
}

fn llama_facts(props: &Value) -> ServerFacts {
    let window = props.pointer("/default_generation_settings/n_ctx").and_then(Value::as_u64);
    let slots = props.get("total_slots").and_then(Value::as_u64);
    let slots = slots.filter(|slots| (1..=MAX_SLOTS).contains(slots));
    ServerFacts { context_window: plausible(window), slots: slots.map(|slots| slots as usize) }
}

/// Context window of a model from the server's list of models: `max_model_len` of vLLM, or `meta` of llama.cpp.
fn listed_window(models: &Value, model: &str) -> Option<u64> {
    let listed = models.get("data")?.as_array()?;
    let named = listed.iter().find(|entry| entry.get("id").and_then(Value::as_str) == Some(model));
    // A server with only one model answers requests for any model name.
    let entry = named.or_else(|| listed.first().filter(|_| listed.len() == 1))?;
    let at = |path: &str| entry.pointer(path).and_then(Value::as_u64);
    plausible(
        at("/max_model_len").or_else(|| at("/meta/n_ctx")).or_else(|| at("/meta/n_ctx_train")),
    )
}

fn plausible(window: Option<u64>) -> Option<u64> {
    window.filter(|window| PLAUSIBLE_WINDOW.contains(window))
}

/// Returns the reply of a server, or `None` if the query failed. A failure is only logged, because many servers do not
/// support all queries.
fn answer(outcome: Result<Value, ModelError>) -> Option<Value> {
    outcome
        .inspect_err(|error| {
            debug!(error = error.message(), "cannot query the properties of the local model server")
        })
        .ok()
}

/// Whether the host of a URL is on this machine or on a private network.
///
/// Local hosts are loopback, private, link-local, shared (carrier-grade NAT) and unspecified (`0.0.0.0`) addresses,
/// and host names that do not exist in public DNS: names without a dot, such as `localhost`, and names under
/// `.localhost`, `.local`, `.internal`, `.lan` and `.home.arpa`.
pub fn is_local_address(url: &str) -> bool {
    let Some(host) = host_of(url) else { return false };
    if let Ok(address) = host.parse::<IpAddr>() {
        return is_private(address);
    }
    let host = host.trim_end_matches('.').to_ascii_lowercase();
    !host.contains('.')
        || [".localhost", ".local", ".internal", ".lan", ".home.arpa"]
            .iter()
            .any(|suffix| host.ends_with(suffix))
}

/// Whether the host of a URL is `localhost` or a loopback address.
pub(crate) fn is_loopback(url: &str) -> bool {
    host_of(url).is_some_and(|host| {
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    })
}

fn host_of(url: &str) -> Option<String> {
    let url = reqwest::Url::parse(url).ok()?;
    let host = url.host_str()?;
    Some(host.trim_start_matches('[').trim_end_matches(']').to_owned())
}

fn is_private(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            let shared = first == 100 && (64..128).contains(&second);
            v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || shared
                || v4 == Ipv4Addr::UNSPECIFIED
        }
        IpAddr::V6(v6) => {
            v6.is_loopback()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || v6 == Ipv6Addr::UNSPECIFIED
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses_are_recognised() {
        for inside in
            ["http://127.0.0.1:9/v1", "http://localhost:1", "http://[::1]:1/x", "http://127.8.9.1"]
        {
            assert!(is_loopback(inside), "{inside}");
        }
        for outside in
            ["https://api.openai.com/v1", "http://localhost.example", "http://10.0.0.1", "nonsense"]
        {
            assert!(!is_loopback(outside), "{outside}");
        }
    }

    #[test]
    fn local_addresses_are_distinguished_from_public_addresses() {
        let addresses = "http://127.0.0.1:8080/v1 http://localhost:8080/v1 http://[::1]:8080/v1 \
            http://10.1.2.3/v1 http://172.16.0.9:8000 http://192.168.1.20:1234/v1 \
            http://169.254.3.4 http://100.100.1.1:8000 http://[fd12:3456::1]:8000/v1 \
            http://[fe80::1]:8000/v1 http://[::ffff:192.168.0.1]/v1 http://0.0.0.0:8080 \
            http://vllm:8000/v1 http://gpu.local/v1 http://host.docker.internal:11434 \
            http://box.home.arpa";
        for local in addresses.split(' ') {
            assert!(is_local_address(local), "{local}");
        }
        let addresses = "https://api.openai.com/v1 http://8.8.8.8/v1 http://172.32.0.1 \
            http://100.128.0.1 http://192.169.0.1 http://[2001:4860::1]/v1 \
            http://[::ffff:8.8.8.8]/v1 http://10.0.0.1.example.com http://local.example \
            http://notlocal.localdomain.com nonsense";
        for public in addresses.split(' ').chain([""]) {
            assert!(!is_local_address(public), "{public}");
        }
    }

    #[test]
    fn ollama_window_prefers_num_ctx_over_the_trained_window() {
        let trained =
            json!({"model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40960}});
        assert_eq!(ollama_window(&trained), Some(40_960));
        let set = json!({"parameters": "stop  \"<|im_end|>\"\nnum_ctx                        4096",
                         "model_info": {"qwen3.context_length": 40960}});
        assert_eq!(ollama_window(&set), Some(4096));
        for strange in [
            json!(null),
            json!({"model_info": []}),
            json!({"model_info": {"x.context_length": "8"}}),
            json!({"model_info": {"x.context_length": 3}}),
            json!({"parameters": "num_ctx"}),
        ] {
            assert_eq!(ollama_window(&strange), None, "{strange}");
        }
    }

    #[test]
    fn context_window_is_read_from_a_list_of_models() {
        let vllm = json!({"data": [{"id": "a", "max_model_len": 2048}, {"id": "b", "max_model_len": 4096}]});
        assert_eq!(listed_window(&vllm, "b"), Some(4096));
        assert_eq!(
            listed_window(&vllm, "c"),
            None,
            "neither of the two listed models has this name"
        );
        let llama = json!({"data": [{"id": "x.gguf", "meta": {"n_ctx_train": 8192}}]});
        assert_eq!(listed_window(&llama, "anything"), Some(8192));
        for strange in [
            json!(null),
            json!({"data": {}}),
            json!({"data": []}),
            json!({"data": [7]}),
            json!({"data": [{"id": "x", "max_model_len": -1}]}),
        ] {
            assert_eq!(listed_window(&strange, "x"), None, "{strange}");
        }
    }

    #[test]
    fn implausible_context_windows_and_slots_are_ignored() {
        let props = |n_ctx: Value, slots: Value| {
            llama_facts(
                &json!({"default_generation_settings": {"n_ctx": n_ctx}, "total_slots": slots}),
            )
        };
        assert_eq!(
            props(json!(2048), json!(2)),
            ServerFacts { context_window: Some(2048), slots: Some(2) }
        );
        assert_eq!(props(json!(0), json!(0)), ServerFacts::default());
        assert_eq!(props(json!("2048"), json!(1e9)), ServerFacts::default());
    }
}
