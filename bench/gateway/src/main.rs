//! Compares a model call through the gateway with the same call by a bare HTTP client.
//!
//! Both clients call the same server on loopback, a separate process that answers at once with the same 600 characters.
//! The bare client posts prepared bytes and discards the answer. The gateway encodes and sends the request, reserves
//! budget, applies rate limits, parses the answer and records the cost of the call. The two clients take turns, so
//! that other load on the machine affects both clients. Absolute times depend on the machine: compare the ratios and the
//! CPU time.

mod process_stats;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use assize_config::{ApiKey, Provider};
use assize_gateway::{Endpoint, Gateway, GatewayOptions, HttpClient, RateLimiter, RateLimits};
use assize_llm::{CallOptions, Model, ModelRequest, Prompt, TranscriptTurn};
use clap::Parser;
use tokio::task::JoinSet;

#[derive(Parser)]
struct Args {
    /// Number of calls that each client makes at each level of concurrency
    #[arg(long, default_value_t = 8000)]
    calls: usize,
    /// Number of rounds that the calls are split into
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// Run the HTTP server that the clients call
    #[arg(long, hide = true)]
    serve: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.serve {
        return server::serve();
    }
    let server = server::PeerServer::start()?;
    let ours = Arc::new(Ours::new(&server.address)?);
    let bare = Arc::new(Bare::new(&server.address)?);
    println!(
        "{} calls by each client at each level of concurrency; each request has {:.1} KB, each answer \
         600 characters; machine with {} cores, {} build",
        args.calls,
        bare.body.len() as f64 / 1000.0,
        std::thread::available_parallelism()?,
        if cfg!(debug_assertions) { "debug" } else { "release" }
    );
    println!("concurrent calls  client    p50 ms   p99 ms   CPU µs/call");
    for at_once in [1, 16, 256] {
        let (mut bare_took, mut our_took) = (Timings::default(), Timings::default());
        // Warm up connections and code before measuring.
        round(&bare, at_once, at_once * 2, &mut Timings::default()).await?;
        round(&ours, at_once, at_once * 2, &mut Timings::default()).await?;
        for _ in 0..args.rounds {
            let calls = (args.calls / args.rounds).max(at_once);
            round(&bare, at_once, calls, &mut bare_took).await?;
            round(&ours, at_once, calls, &mut our_took).await?;
        }
        let (bare_row, our_row) = (bare_took.row(), our_took.row());
        for (name, row) in [("bare", &bare_row), ("gateway", &our_row)] {
            println!(
                "{at_once:>16}  {name:<8} {:>7.3}  {:>7.3}  {:>10.1}",
                row.p50, row.p99, row.cpu
            );
        }
        println!(
            "                  ratio    {:>6.2}x  {:>6.2}x  {:>9.2}x",
            our_row.p50 / bare_row.p50,
            our_row.p99 / bare_row.p99,
            our_row.cpu / bare_row.cpu
        );
    }
    memory(&bare, &ours).await
}

/// Prints the memory of this process before 256 concurrent calls of each client, and the peak during the calls.
async fn memory(bare: &Arc<Bare>, ours: &Arc<Ours>) -> anyhow::Result<()> {
    for (name, before, peak) in [
        ("bare", process_stats::resident_kb()?, peak_of(bare).await?),
        ("gateway", process_stats::resident_kb()?, peak_of(ours).await?),
    ] {
        println!(
            "memory during 256 concurrent calls of the client `{name}`: peak {:.1} MB; before the calls: {:.1} MB",
            peak as f64 / 1000.0,
            before as f64 / 1000.0
        );
    }
    Ok(())
}

async fn peak_of<C: Client>(client: &Arc<C>) -> anyhow::Result<u64> {
    process_stats::reset_peak()?;
    round(client, 256, 2560, &mut Timings::default()).await?;
    process_stats::peak_kb()
}

/// Client whose calls are measured.
trait Client: Send + Sync + 'static {
    fn call(&self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

#[derive(Default)]
struct Timings {
    each: Vec<Duration>,
    cpu: Duration,
}

struct Row {
    p50: f64,
    p99: f64,
    cpu: f64,
}

impl Timings {
    fn row(mut self) -> Row {
        self.each.sort_unstable();
        let at = |share: f64| {
            self.each[((self.each.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3
        };
        Row {
            p50: at(0.50),
            p99: at(0.99),
            cpu: self.cpu.as_secs_f64() * 1e6 / self.each.len() as f64,
        }
    }
}

async fn round<C: Client>(
    client: &Arc<C>,
    at_once: usize,
    calls: usize,
    took: &mut Timings,
) -> anyhow::Result<()> {
    let cpu = process_stats::cpu_time()?;
    let mut workers = JoinSet::new();
    for worker in 0..at_once {
        let client = Arc::clone(client);
        let share = calls / at_once + usize::from(worker < calls % at_once);
        workers.spawn(async move {
            let mut each = Vec::with_capacity(share);
            for _ in 0..share {
                let start = Instant::now();
                client.call().await?;
                each.push(start.elapsed());
            }
            anyhow::Ok(each)
        });
    }
    while let Some(each) = workers.join_next().await {
        took.each.extend(each??);
    }
    took.cpu += process_stats::cpu_time()?.saturating_sub(cpu);
    Ok(())
}

/// Builds a model request of about the same size as a request in a debate after a few rounds.
fn request() -> ModelRequest {
    let paragraph =
        "The unit economics of the move depend on volumes that the plan does not show yet. ";
    let mut prompt = Prompt::question("You are the critic. Answer the last point, and no other.")
        .block("house", paragraph.repeat(10))
        .block("company", paragraph.repeat(40))
        .block("move", paragraph.repeat(20));
    prompt.transcript =
        (0..8).map(|_| TranscriptTurn::User { text: paragraph.repeat(8).into() }).collect();
    ModelRequest::new(prompt)
}

struct Ours {
    gateway: Gateway,
    request: ModelRequest,
}

impl Ours {
    fn new(address: &str) -> anyhow::Result<Ours> {
        let endpoint = Endpoint {
            base_url: format!("http://{address}"),
            key: Some(ApiKey::new("sk-bench")),
            ..Endpoint::new(Provider::Anthropic)
        };
        let rate_limiter =
            RateLimiter::new(RateLimits { concurrency: 256, ..RateLimits::default() });
        let options = GatewayOptions { rate_limiter, ..GatewayOptions::default() };
        let gateway = Gateway::to_provider(&HttpClient::new(), endpoint, options);
        Ok(Ours { gateway, request: request() })
    }
}

impl Client for Ours {
    async fn call(&self) -> anyhow::Result<()> {
        let response = self.gateway.generate(&self.request, CallOptions::default()).await?;
        anyhow::ensure!(response.text.len() == 600, "the answer does not have 600 characters");
        Ok(())
    }
}

struct Bare {
    client: reqwest::Client,
    url: String,
    body: Vec<u8>,
}

impl Bare {
    fn new(address: &str) -> anyhow::Result<Bare> {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let text = serde_json::to_string(&request())?;
        Ok(Bare {
            client: reqwest::Client::builder()
                .build()
                .context("cannot create the HTTP client that bypasses the gateway")?,
            url: format!("http://{address}/v1/messages"),
            body: text.into_bytes(),
        })
    }
}

impl Client for Bare {
    async fn call(&self) -> anyhow::Result<()> {
        let request = self.client.post(&self.url).header("content-type", "application/json");
        let response = request.body(self.body.clone()).send().await?;
        let bytes = response.bytes().await?;
        anyhow::ensure!(bytes.len() > 600, "the response is too short for 600 characters");
        Ok(())
    }
}
