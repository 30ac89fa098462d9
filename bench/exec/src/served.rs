//! Benchmark of `POST /api/exec` with `print(1)`: on each backend, a server with a warm pool is compared with a server
//! without a pool, and with `docker exec`.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use assize_config::Isolation;
use serde_json::{Value, json};
use tokio::io::AsyncBufReadExt;
use tokio::process::{Child, Command};

use crate::Args;
use crate::contestants::{Contestant, Peers};
use crate::figures::{Figures, row};

/// `assize serve` process with its own state folder.
struct Server {
    _child: Child,
    address: String,
    client: reqwest::Client,
}

impl Server {
    async fn start(program: &Path, folder: &Path, pool: usize) -> anyhow::Result<Server> {
        let mut command = Command::new(program);
        command.args(["serve", "--json", "--no-auth", "--listen", "127.0.0.1:0"]);
        command.env("XDG_STATE_HOME", folder).env("ASSIZE_SANDBOX_POOL", pool.to_string());
        command.env("ASSIZE_SERVE_STARTS_PER_MINUTE", "1000000");
        // Each sandbox gets one whole CPU, as much as the container of `docker exec` can use.
        command.env("ASSIZE_SANDBOX_CPUS", "1").env("ASSIZE_PROVIDER", "rehearsal");
        command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start the server")?;
        let output =
            child.stdout.take().context("the standard output of the server is not captured")?;
        let mut lines = tokio::io::BufReader::new(output).lines();
        let mut printed = String::new();
        let address = loop {
            let line = lines.next_line().await?.context("the server exited before it was ready")?;
            printed.push_str(&line);
            if let Ok(printed) = serde_json::from_str::<Value>(&printed) {
                break printed["listen"]
                    .as_str()
                    .context("the server printed no address")?
                    .to_owned();
            }
        };
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().no_proxy().build()?;
        Ok(Server { _child: child, address: format!("http://{address}"), client })
    }

    /// Requests one run of `print(1)`. Returns the duration of the request, and the error if the run failed.
    async fn exec(&self, isolation: Isolation) -> (Duration, Result<(), String>) {
        let body = json!({"code": "print(1)", "settings": {"isolation": isolation.name()}});
        let started = Instant::now();
        let done = self.post(&body).await;
        let took = started.elapsed();
        let done = done.map_err(|error| error.to_string()).and_then(|answer| {
            let good = answer["stdout"] == "1\n" && answer["exit_code"] == 0;
            if good {
                Ok(())
            } else {
                Err(answer["detail"].as_str().unwrap_or("no output").to_owned())
            }
        });
        (took, done)
    }

    async fn post(&self, body: &Value) -> anyhow::Result<Value> {
        let request = self.client.post(format!("{}/api/exec", self.address));
        let request = request.header("content-type", "application/json").body(body.to_string());
        Ok(serde_json::from_str(&request.send().await?.text().await?)?)
    }

    /// Waits until the warm pool of a backend is full.
    async fn wait_until_pool_is_full(&self, isolation: Isolation) -> anyhow::Result<Value> {
        for _ in 0..6000 {
            let about = self.client.get(format!("{}/api/about", self.address)).send().await?;
            let about: Value = serde_json::from_str(&about.text().await?)?;
            let pools = about["warm_pools"].as_array().cloned().unwrap_or_default();
            let pool = pools.into_iter().find(|pool| pool["isolation"] == isolation.name());
            match pool {
                Some(pool) if pool["low_memory"] == true => {
                    bail!("the machine has too little memory for the warm pool")
                }
                Some(pool) if pool["idle"] == pool["size"] => return Ok(pool),
                _ => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
        bail!("the warm pool was not full after 60 s")
    }
}

pub(crate) async fn run(args: &Args, folder: &Path, peers: &Peers) -> anyhow::Result<()> {
    let program = args.assize.as_ref().context("`--served` requires `--assize PATH`")?;
    let warm = Server::start(program, &folder.join("warm"), args.pool).await?;
    let cold = Server::start(program, &folder.join("cold"), 0).await?;
    let docker_exec = peers.contestants().into_iter().find(|(name, _)| name == "docker exec");
    let docker_exec = match docker_exec {
        Some((_, Ok(peer))) => Some(peer),
        Some((_, Err(why))) => {
            println!("docker exec skipped: {why}");
            None
        }
        None => None,
    };
    println!(
        "POST /api/exec with print(1): {} sequential requests per row, the rows take turns",
        args.iterations
    );
    println!("{}", row(["", "p50 ms", "p95 ms", "p99 ms", "done"].map(str::to_owned)));
    let mut ratios = Vec::new();
    for isolation in Isolation::ALL {
        if let Err(why) = warm.exec(isolation).await.1 {
            println!("{isolation:<24} skipped: {why}");
            continue;
        }
        let measured = measure(args, &warm, &cold, docker_exec.as_ref(), isolation).await?;
        let [from_pool, without_pool, peer] = &measured;
        println!("{}", from_pool.row(&format!("{isolation}, warm")));
        println!("{}", without_pool.row(&format!("{isolation}, cold")));
        if docker_exec.is_some() {
            println!("{}", peer.row("docker exec"));
        }
        let pool = warm.wait_until_pool_is_full(isolation).await?;
        ratios.push((isolation, measured, pool));
    }
    println!("\nRatios");
    for (isolation, [warm, cold, peer], pool) in &ratios {
        for (name, other) in [("cold", cold), ("docker exec", peer)] {
            for percent in [50.0, 99.0] {
                if let (Some(ours), Some(theirs)) =
                    (warm.percentile(percent), other.percentile(percent))
                {
                    println!(
                        "  {isolation}: warm is {:.2}× as fast as {name} (ratio of the p{percent} times)",
                        theirs / ours
                    );
                }
            }
        }
        println!(
            "  warm pool of {isolation}: {} hits, {} misses, {} sandboxes; a refill takes {:.0} ms on average",
            pool["hits"],
            pool["misses"],
            pool["size"],
            pool["refill_ms"].as_f64().unwrap_or_default()
        );
    }
    Ok(())
}

/// Measures requests to the server with a warm pool, requests to the server without a pool, and `docker exec`.
async fn measure(
    args: &Args,
    warm: &Server,
    cold: &Server,
    docker_exec: Option<&Contestant>,
    isolation: Isolation,
) -> anyhow::Result<[Figures; 3]> {
    let [mut from_pool, mut without_pool, mut peer] = [(); 3].map(|()| Figures::default());
    // The first request also probes the backend, so it is not measured.
    cold.exec(isolation).await.1.map_err(anyhow::Error::msg)?;
    for _ in 0..args.iterations {
        warm.wait_until_pool_is_full(isolation).await?;
        from_pool.add(warm.exec(isolation).await);
        warm.wait_until_pool_is_full(isolation).await?;
        without_pool.add(cold.exec(isolation).await);
        if let Some(docker_exec) = docker_exec {
            peer.add(docker_exec.run().await);
        }
    }
    Ok([from_pool, without_pool, peer])
}
