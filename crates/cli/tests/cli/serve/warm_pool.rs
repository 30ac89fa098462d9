//! Tests of the warm pool that all requests and runs of a server share.

use std::collections::BTreeSet;

use reqwest::Method;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{TestServer, home};
use crate::Home;
use crate::backends::with_docker;
use crate::exec::wait_for;

/// Creates a `Home` whose servers have a warm pool of `size` sandboxes.
fn with_pool(size: usize) -> Home {
    home().set("ASSIZE_SANDBOX_POOL", size.to_string())
}

/// State of a backend's warm pool; null if the backend has no warm pool.
fn pool(serving: &TestServer<'_>, isolation: &str) -> Value {
    let about = serving.get("/api/about").success_json();
    let pools = about["warm_pools"].as_array().unwrap();
    pools.iter().find(|pool| pool["isolation"] == isolation).cloned().unwrap_or_default()
}

/// Waits until the warm pool of a backend is full.
fn wait_until_full(serving: &TestServer<'_>, isolation: &str) {
    wait_for("the warm pool to be full", || {
        let pool = pool(serving, isolation);
        pool["size"].as_u64() > Some(0) && pool["idle"] == pool["size"]
    });
}

/// Number of hits and misses of a backend's warm pool.
fn hits_and_misses(serving: &TestServer<'_>, isolation: &str) -> (u64, u64) {
    let pool = pool(serving, isolation);
    (pool["hits"].as_u64().unwrap(), pool["misses"].as_u64().unwrap())
}

/// Calls the MCP tool `run_code` and returns its structured result.
fn run_code(serving: &TestServer<'_>, code: &str) -> Value {
    let token = format!("Bearer {}", serving.token);
    let headers = [
        ("authorization", token.as_str()),
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    let send = |headers: &[(&str, &str)], body: Value| {
        serving.request_without_token(Method::POST, "/mcp/code", headers, body.to_string())
    };
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}});
    let opened = send(&headers, hello);
    let session = ("mcp-session-id", opened.header("mcp-session-id"));
    let headers = [headers.as_slice(), &[session]].concat();
    send(&headers, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "run_code", "arguments": {"code": code}}});
    let answer = send(&headers, call);
    let data = answer.text.lines().filter_map(|line| line.strip_prefix("data: "));
    let messages = data.filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let reply = messages.chain(serde_json::from_str(&answer.text)).find(|one| one["id"] == 2);
    reply.unwrap_or_else(|| panic!("{answer:?}"))["result"]["structuredContent"].clone()
}

#[test]
fn one_warm_pool_serves_runs_mcp_calls_named_sandboxes_and_exec_requests() {
    let home = with_pool(2);
    let serving = TestServer::start(&home, &[]);
    // The warm pool is filled before the first request.
    wait_until_full(&serving, "jail");
    assert_eq!(hits_and_misses(&serving, "jail"), (0, 0));
    let ran = serving.post("/api/exec", json!({"code": "print(1)"})).success_json();
    assert_eq!((&ran["stdout"], &ran["exit_code"]), (&json!("1\n"), &json!(0)), "{ran}");
    assert_eq!(hits_and_misses(&serving, "jail"), (1, 0));
    wait_until_full(&serving, "jail");
    let named = serving.post("/api/sandboxes", json!({"name": "mine", "labels": {"a": "b"}}));
    let named = named.success_json();
    assert_eq!((&named["isolation"], &named["labels"]["a"]), (&json!("jail"), &json!("b")));
    assert_eq!(hits_and_misses(&serving, "jail"), (2, 0));
    wait_until_full(&serving, "jail");
    let ran = run_code(&serving, "print(6 * 7)");
    assert_eq!(ran["stdout"], "42\n", "{ran}");
    assert_eq!(hits_and_misses(&serving, "jail"), (3, 0));
    wait_until_full(&serving, "jail");
    // A run uses one sandbox to examine the environment and one for its program.
    let run = serving.start_run(json!({"kind": "run", "task": "Calculate fibonacci(10)"}));
    assert_eq!(serving.wait_for_end(&run)["status"], "done");
    let (hits, misses) = hits_and_misses(&serving, "jail");
    assert_eq!((hits > 3, hits + misses), (true, 5), "{hits} {misses}");
    let metrics = serving.get("/metrics").text;
    for line in [
        "assize_warm_pool_size{isolation=\"jail\"} 2",
        "assize_warm_pool_low_memory{isolation=\"jail\"} 0",
        &format!("assize_warm_pool_hits_total{{isolation=\"jail\"}} {hits}"),
        &format!("assize_warm_pool_misses_total{{isolation=\"jail\"}} {misses}"),
    ] {
        assert!(metrics.lines().any(|known| known == line), "{line}: {metrics}");
    }
    let refills = metrics.lines().find_map(|line| {
        line.strip_prefix("assize_warm_pool_refill_seconds_count{isolation=\"jail\"} ")
    });
    assert!(refills.unwrap().parse::<u64>().unwrap() >= 5, "{metrics}");
    // The server has only one warm pool.
    assert_eq!(serving.get("/api/about").success_json()["warm_pools"].as_array().unwrap().len(), 1);
}

#[test]
fn limits_of_a_request_are_enforced_with_a_warm_pool() {
    let home = with_pool(1);
    let serving = TestServer::start(&home, &[]);
    wait_until_full(&serving, "jail");
    // The memory limit of an idle sandbox cannot be changed, so a new sandbox is created.
    let code = "data = bytearray(b'x' * (100 << 20)); print('had it')";
    let small = json!({"code": code, "settings": {"memory": "48M", "disk": "8M"}});
    let ran = serving.post("/api/exec", small).success_json();
    assert_eq!((&ran["stdout"], &ran["out_of_memory"]), (&json!(""), &json!(true)), "{ran}");
    assert_eq!(hits_and_misses(&serving, "jail"), (0, 1));
    // The output limit applies to one execution, not to the sandbox, so an idle sandbox can be used.
    let cut = json!({"code": "print('x' * 5000)", "settings": {"output": "1k"}});
    let ran = serving.post("/api/exec", cut).success_json();
    assert_eq!(ran["output_cut"], true, "{ran}");
    assert_eq!(ran["stdout"].as_str().unwrap().len(), 1024);
    assert_eq!(hits_and_misses(&serving, "jail"), (1, 1));
    let late = json!({"code": "while True: pass", "settings": {"timeout_seconds": 0.5}});
    let ran = serving.post("/api/exec", late).success_json();
    assert_eq!(ran["timed_out"], true, "{ran}");
}

#[test]
fn second_backend_gets_a_warm_pool_after_its_first_use() {
    let Some(home) = with_docker() else { return };
    let home = home.set("ASSIZE_SANDBOX_POOL", "1");
    let serving = TestServer::start(&home, &[]);
    wait_until_full(&serving, "jail");
    assert_eq!(pool(&serving, "docker"), Value::Null);
    let ask = || {
        let settings = json!({"isolation": "docker"});
        serving.post("/api/exec", json!({"code": "print(1)", "settings": settings}))
    };
    assert_eq!(ask().success_json()["stdout"], "1\n");
    wait_until_full(&serving, "docker");
    assert_eq!(ask().success_json()["stdout"], "1\n");
    assert!(hits_and_misses(&serving, "docker").0 >= 1);
}

/// Ids of all descendant processes of a process.
pub(crate) fn descendant_processes(of: i32) -> BTreeSet<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parents: Vec<(i32, i32)> = ids
        .filter_map(|id| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let after_name = stat.rsplit_once(')')?.1;
            Some((id, after_name.split_whitespace().nth(1)?.parse().ok()?))
        })
        .collect();
    let mut below = BTreeSet::from([of]);
    loop {
        let more =
            parents.iter().filter(|(id, parent)| below.contains(parent) && !below.contains(id));
        let more: Vec<i32> = more.map(|(id, _)| *id).collect();
        if more.is_empty() {
            below.remove(&of);
            return below;
        }
        below.extend(more);
    }
}

/// Whether a process with this id exists.
pub(crate) fn process_exists(id: i32) -> bool {
    std::path::Path::new(&format!("/proc/{id}")).exists()
}

#[test]
fn stopped_or_killed_server_leaves_no_idle_sandbox() {
    let home = with_pool(2);
    for signal in [Signal::TERM, Signal::KILL] {
        let mut serving = TestServer::start(&home, &[]);
        wait_until_full(&serving, "jail");
        let server = serving.child.id().cast_signed();
        let sandboxes = descendant_processes(server);
        assert!(sandboxes.len() >= 2, "{sandboxes:?}");
        kill_process(Pid::from_raw(server).unwrap(), signal).unwrap();
        serving.child.wait().unwrap();
        wait_for("the idle sandboxes of the server to end", || {
            !sandboxes.iter().any(|id| process_exists(*id))
        });
    }
}

#[test]
fn each_server_has_its_own_warm_pool() {
    let home = with_pool(1);
    let one = TestServer::start(&home, &[]);
    let two = TestServer::start(&home, &[]);
    for serving in [&one, &two] {
        wait_until_full(serving, "jail");
        assert_eq!(
            serving.post("/api/exec", json!({"code": "print(1)"})).success_json()["stdout"],
            "1\n"
        );
    }
    assert_eq!(one.stop(), 0);
    wait_until_full(&two, "jail");
    assert_eq!(two.post("/api/exec", json!({"code": "print(2)"})).success_json()["stdout"], "2\n");
    assert_eq!(hits_and_misses(&two, "jail"), (2, 0));
}
