//! What a call through the gateway costs us, beside the bare HTTP client, in one run.
//!
//! Both ask the same server on loopback, a process of its own that answers at once with the same
//! 600 characters. The bare client posts bytes that were made beforehand and throws the answer away;
//! the gateway words the request, reserves, paces, sends, reads and accounts for it. Rounds of the
//! two alternate, so that what else the machine does falls on both. Absolute times say more about
//! the machine than about us: look at the ratios and at the CPU time.

mod machine;
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use assize_config::{Provider, Secret};
use assize_gateway::{Endpoint, Gateway, HttpClient, Limits, Options, Pacer};
use assize_llm::{Call, Model, Prompt, Request, Turn};
use clap::Parser;
use tokio::task::JoinSet;

#[derive(Parser)]
struct Args {
    /// Calls of each kind for each number at once
    #[arg(long, default_value_t = 8000)]
    calls: usize,
    /// Rounds that the calls are spread over
    #[arg(long, default_value_t = 8)]
    rounds: usize,
    /// Be the server
    #[arg(long, hide = true)]
    serve: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    if args.serve {
        return server::serve();
    }
    let server = server::Server::start()?;
    let ours = Arc::new(Ours::new(&server.address)?);
    let bare = Arc::new(Bare::new(&server.address)?);
    println!(
        "{} calls of each kind, a request of {:.1} KB, an answer of 600 characters; \
         {} cores, {} build",
        args.calls,
        bare.body.len() as f64 / 1000.0,
        std::thread::available_parallelism()?,
        if cfg!(debug_assertions) { "debug" } else { "release" }
    );
    println!("at once  client    p50 ms   p99 ms   CPU µs/call");
    for at_once in [1, 16, 256] {
        let (mut bare_took, mut our_took) = (Took::default(), Took::default());
        // Connections and code are warm before anything counts.
        round(&bare, at_once, at_once * 2, &mut Took::default()).await?;
        round(&ours, at_once, at_once * 2, &mut Took::default()).await?;
        for _ in 0..args.rounds {
            let calls = (args.calls / args.rounds).max(at_once);
            round(&bare, at_once, calls, &mut bare_took).await?;
            round(&ours, at_once, calls, &mut our_took).await?;
        }
        let (bare_row, our_row) = (bare_took.row(), our_took.row());
        for (name, row) in [("bare", &bare_row), ("gateway", &our_row)] {
            println!(
                "{at_once:>7}  {name:<8} {:>7.3}  {:>7.3}  {:>10.1}",
                row.p50, row.p99, row.cpu
            );
        }
        println!(
            "         ratio    {:>6.2}x  {:>6.2}x  {:>9.2}x",
            our_row.p50 / bare_row.p50,
            our_row.p99 / bare_row.p99,
            our_row.cpu / bare_row.cpu
        );
    }
    memory(&bare, &ours).await
}

/// What 256 calls under way take in memory, above what the process had before.
async fn memory(bare: &Arc<Bare>, ours: &Arc<Ours>) -> anyhow::Result<()> {
    for (name, before, peak) in [
        ("bare", machine::resident_kb()?, peak_of(bare).await?),
        ("gateway", machine::resident_kb()?, peak_of(ours).await?),
    ] {
        println!(
            "memory at 256, {name}: {:.1} MB at its peak ({:.1} MB before)",
            peak as f64 / 1000.0,
            before as f64 / 1000.0
        );
    }
    Ok(())
}

async fn peak_of<C: Client>(client: &Arc<C>) -> anyhow::Result<u64> {
    machine::reset_peak()?;
    round(client, 256, 2560, &mut Took::default()).await?;
    machine::peak_kb()
}

/// Something that makes one call.
trait Client: Send + Sync + 'static {
    fn call(&self) -> impl Future<Output = anyhow::Result<()>> + Send;
}

#[derive(Default)]
struct Took {
    each: Vec<Duration>,
    cpu: Duration,
}

struct Row {
    p50: f64,
    p99: f64,
    cpu: f64,
}

impl Took {
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
    took: &mut Took,
) -> anyhow::Result<()> {
    let cpu = machine::cpu_time()?;
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
    took.cpu += machine::cpu_time()?.saturating_sub(cpu);
    Ok(())
}

/// A turn of a debate as it stands after a few rounds.
fn request() -> Request {
    let paragraph = "The unit economics of the move depend on volumes that nobody has shown yet. ";
    let mut prompt = Prompt::question("You are the critic. Answer the last point, and no other.")
        .block("house", paragraph.repeat(10))
        .block("company", paragraph.repeat(40))
        .block("move", paragraph.repeat(20));
    prompt.transcript = (0..8).map(|_| Turn::User { text: paragraph.repeat(8).into() }).collect();
    Request::new(prompt)
}

struct Ours {
    gateway: Gateway,
    request: Request,
}

impl Ours {
    fn new(address: &str) -> anyhow::Result<Ours> {
        let endpoint = Endpoint {
            base_url: format!("http://{address}"),
            key: Some(Secret::new("sk-bench")),
            ..Endpoint::new(Provider::Anthropic)
        };
        let pacer = Pacer::new(Limits { concurrency: 256, ..Limits::default() });
        let options = Options { pacer, ..Options::default() };
        let gateway = Gateway::to_provider(&HttpClient::new(), endpoint, options);
        Ok(Ours { gateway, request: request() })
    }
}

impl Client for Ours {
    async fn call(&self) -> anyhow::Result<()> {
        let response = self.gateway.generate(&self.request, Call::default()).await?;
        anyhow::ensure!(response.text.len() == 600, "another answer");
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
            client: reqwest::Client::builder().build().context("the bare client")?,
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
        anyhow::ensure!(bytes.len() > 600, "another answer");
        Ok(())
    }
}
