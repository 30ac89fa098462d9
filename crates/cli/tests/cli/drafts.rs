//! Tests of drafts with the built binary: the draft tools over MCP, and the commands of the reviewer.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::exec::wait_for;
use crate::{CommandOutput, Home};

/// Python program that the tests change with drafts.
pub(crate) const WATCHDOG: &str = "#!/usr/bin/env python3\nimport sys\n\n\ndef main():\n    print(\"watching\")\n    return 0\n\n\nif __name__ == \"__main__\":\n    sys.exit(main())\n";

/// Creates a `Home` whose working folder contains a small Python project.
pub(crate) fn home_with_project() -> Home {
    let home = Home::new();
    home.write("src/watchdog.py", WATCHDOG);
    home
}

impl Home {
    /// Content of a file in the working folder.
    pub(crate) fn file_text(&self, path: &str) -> String {
        fs::read_to_string(self.work_folder().join(path)).unwrap()
    }
}

/// MCP client that sends raw JSON-RPC messages to the standard input of `assize mcp`.
pub(crate) struct StdioMcpClient {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    sent: u64,
}

impl StdioMcpClient {
    /// Starts `assize mcp` with the draft tools for the working folder.
    pub(crate) fn start(home: &Home, more: &[&str]) -> StdioMcpClient {
        StdioMcpClient::start_with_args(home, &[&["--workspace", "."][..], more].concat())
    }

    /// Starts `assize mcp` with the given arguments and no others.
    pub(crate) fn start_with_args(home: &Home, more: &[&str]) -> StdioMcpClient {
        let args = [&["mcp"][..], more].concat();
        let mut child = home.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = StdioMcpClient { child, input, output, sent: 0 };
        let hello = client.request_result(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "tester", "version": "1"}}),
        );
        assert_eq!(hello["serverInfo"]["name"], "assize", "{hello}");
        assert!(hello["capabilities"]["tools"].is_object(), "{hello}");
        client.send_line(
            &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string(),
        );
        client
    }

    /// Sends a message without waiting for a response.
    pub(crate) fn send_line(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    /// Sends a request and returns its result; panics on an error response.
    fn request_result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.send_request(method, params);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Sends a request and returns the whole response, which may be an error.
    pub(crate) fn send_request(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let id = self.sent;
        self.send_line(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        loop {
            let message = self.next_message();
            if message["id"] == id {
                return message;
            }
        }
    }

    /// Waits for the next message from `assize mcp`.
    pub(crate) fn next_message(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "`assize mcp` exited");
        serde_json::from_str(&line).unwrap()
    }

    /// Calls a tool; `Err` is the text of a tool error.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, String> {
        let result =
            self.request_result("tools/call", json!({"name": tool, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        if result["isError"] == true {
            return Err(text);
        }
        // The text repeats the structured content, for clients that do not support it.
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), result["structuredContent"]);
        Ok(result["structuredContent"].clone())
    }

    /// Requests, writes and submits a draft; returns the gate's decision.
    pub(crate) fn propose(&mut self, path: &str, task: &str, content: &str) -> Value {
        let request = json!({"source_path": path, "task_id": task});
        let draft = self.call("ollama_request_draft", request).unwrap()["draft_path"].clone();
        let written = json!({"draft_path": draft, "content": content});
        self.call("ollama_write_draft", written).unwrap();
        let submit = json!({"draft_path": draft, "original_path": path, "task_id": task,
                            "change_summary": "a change"});
        self.call("ollama_submit_draft", submit).unwrap()
    }

    /// Closes the connection and waits for the server to exit.
    pub(crate) fn close(mut self) -> CommandOutput {
        drop(self.input.take());
        let output = self.child.wait_with_output().unwrap();
        CommandOutput {
            code: output.status.code().unwrap_or(-1),
            out: String::new(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

#[test]
fn draft_is_submitted_over_mcp_and_a_reviewer_accepts_and_undoes_it() {
    let home = home_with_project();
    let mut client = StdioMcpClient::start(&home, &[]);
    let tools = client.request_result("tools/list", json!({}));
    let tools = tools["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    let four =
        ["ollama_request_draft", "ollama_write_draft", "ollama_read_draft", "ollama_submit_draft"];
    assert_eq!(names, four);
    for tool in tools {
        assert!(tool["description"].as_str().unwrap().len() > 80, "{tool}");
        assert_eq!(tool["inputSchema"]["type"], "object");
        assert_eq!(tool["outputSchema"]["type"], "object");
    }
    let accepted = client.propose("src/watchdog.py", "t1", &format!("{WATCHDOG}# end\n"));
    assert_eq!(accepted["verdict"], "accepted", "{accepted}");
    assert_eq!(home.file_text("src/watchdog.py"), format!("{WATCHDOG}# end\n"));
    let waiting = client.propose(".github/workflows/ci.yml", "t2", "on: push\n");
    assert_eq!(waiting["verdict"], "escalated", "{waiting}");
    assert_eq!(waiting["reasons"][0]["rule"], "protected");
    let number = waiting["submission"].to_string();

    // The commands of the reviewer run as separate processes while the MCP server is still running.
    let listed = home.run(&["gate", "ls"]);
    assert!(listed.out.contains(&format!("{number}   escalated  t2")), "{}", listed.out);
    assert!(home.run(&["gate", "ls", "--all"]).out.contains("accepted"));
    let shown = home.run(&["gate", "show", &number]);
    assert!(shown.out.contains("+on: push") && shown.out.contains("[protected]"), "{}", shown.out);
    assert!(shown.out.contains("--- /dev/null\n+++ b/.github/workflows/ci.yml"), "{}", shown.out);
    assert!(home.run(&["drafts", "ls"]).out.contains("ci.yml.t2.draft"));
    assert_eq!(home.run(&["drafts", "show", "ci.yml.t2.draft"]).out, "on: push\n");
    assert!(home.run(&["drafts", "diff", "ci.yml.t2.draft"]).out.contains("+on: push"));
    let done = home.run(&["gate", "accept", &number]);
    assert_eq!(done.out, format!("accepted {number}: .github/workflows/ci.yml\n"), "{}", done.err);
    assert_eq!(home.file_text(".github/workflows/ci.yml"), "on: push\n");
    // The agent receives the decision of the reviewer with its next tool call.
    let next = client.call("ollama_request_draft", json!({"source_path": "x.py", "task_id": "t2"}));
    assert_eq!(next.unwrap()["messages"][0]["kind"], "DRAFT_ACCEPTED");
    let message = waiting["message_id"].as_str().unwrap();
    let undone = home.run(&["gate", "undo", message]);
    assert_eq!(undone.code, 0, "{}", undone.err);
    assert!(!home.work_folder().join(".github/workflows/ci.yml").exists());
    let twice = home.run(&["gate", "undo", &number]);
    assert_eq!(twice.code, 2, "{}", twice.err);
    assert!(twice.err.contains("is undone, not accepted"), "{}", twice.err);

    // The MCP server answers invalid tool calls with an error.
    let error =
        client.call("ollama_read_draft", json!({"draft_path": "../../etc/passwd"})).unwrap_err();
    assert!(error.contains("is not a draft in `_handoff/drafts`"), "{error}");
    let error = client.call("ollama_write_draft", json!({"draft_path": 3})).unwrap_err();
    assert!(error.contains("call `ollama_write_draft` with an object"), "{error}");
    let ended = client.close();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let verified = home.run(&["audit", "verify"]);
    assert!(
        verified.out.starts_with("the audit log is intact: "),
        "{} {}",
        verified.out,
        verified.err
    );
    let shown = home.run(&["audit", "show"]).out;
    for word in [
        "requested",
        "submitted",
        "decided",
        "applied",
        "messages_delivered",
        "undone",
        "refused",
        "worker tester 1",
    ] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let task = home.run(&["audit", "show", "--task", "t2", "--json"]).out;
    let entries: Value = serde_json::from_str(&task).unwrap();
    assert!(entries.as_array().unwrap().iter().all(|entry| entry["detail"]["task"] != "t1"));
}

#[test]
fn conflicting_draft_escalates_and_the_reviewer_sees_the_changes_of_the_agent_and_of_the_user() {
    let home = home_with_project();
    let mut client = StdioMcpClient::start(&home, &[]);
    let request = json!({"source_path": "src/watchdog.py", "task_id": "t"});
    let draft = client.call("ollama_request_draft", request).unwrap()["draft_path"].clone();
    let written = json!({"draft_path": draft, "content": format!("{WATCHDOG}# theirs\n")});
    client.call("ollama_write_draft", written).unwrap();
    home.write("src/watchdog.py", &format!("# mine\n{WATCHDOG}"));
    let submit = json!({"draft_path": draft, "original_path": "src/watchdog.py", "task_id": "t",
                        "change_summary": "theirs"});
    let answer = client.call("ollama_submit_draft", submit).unwrap();
    assert_eq!(
        (&answer["verdict"], &answer["reasons"][0]["rule"]),
        (&json!("escalated"), &json!("conflict"))
    );
    let number = answer["message_id"].as_str().unwrap().to_owned();
    let shown = home.run(&["gate", "show", &number]).out;
    assert!(shown.contains("+# theirs") && shown.contains("+# mine"), "{shown}");
    assert!(shown.contains("changes to the file since the draft was created"), "{shown}");
    let refused = home.run(&["gate", "accept", &number]);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(
        refused.err.contains("has changed since") && refused.err.contains("--force"),
        "{}",
        refused.err
    );
    assert!(home.run(&["gate", "show", &number]).err.contains("--force"));
    let rejected = home.run(&["gate", "reject", &number, "--reason", "start from mine"]);
    assert_eq!(rejected.code, 0, "{}", rejected.err);
    let request = json!({"source_path": "src/watchdog.py", "task_id": "t"});
    let reply = client.call("ollama_request_draft", request).unwrap();
    assert!(
        reply["messages"][0]["reasons"][0]["message"].as_str().unwrap().contains("start from mine")
    );
    client.close();
}

#[test]
fn audit_verify_detects_changes_to_the_audit_log() {
    let home = home_with_project();
    let mut client = StdioMcpClient::start(&home, &[]);
    for number in 0..3 {
        client.propose("src/watchdog.py", "t", &format!("{WATCHDOG}# {number}\n"));
    }
    client.close();
    let head = home.run(&["audit", "verify", "--json"]).out;
    let head: Value = serde_json::from_str(&head).unwrap();
    assert_eq!(head["intact"], true, "{head}");
    let since = head["head"].as_str().unwrap().to_owned();
    assert_eq!(home.run(&["audit", "verify", "--since", &since]).code, 0);
    let other = since.replacen(|c: char| c.is_ascii_hexdigit() && c != '1', "1", 3);
    assert_eq!(home.run(&["audit", "verify", "--since", &other]).code, 1);
    let log = home.work_folder().join("_handoff/transition.ndjson");
    let whole = fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let without = |index: usize| {
        let kept = lines.iter().enumerate().filter(|(at, _)| *at != index);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    for text in
        [whole.replacen("\"t\"", "\"u\"", 1), without(3), without(lines.len() - 1), String::new()]
    {
        fs::write(&log, text).unwrap();
        let found = home.run(&["audit", "verify"]);
        assert_eq!(found.code, 1, "{}", found.err);
        assert!(found.err.contains("transition.ndjson"), "{}", found.err);
    }
    fs::write(&log, &whole).unwrap();
    assert_eq!(home.run(&["audit", "verify"]).code, 0);
    // `audit verify` also detects changes to the audit log in the store.
    for change in [
        "DELETE FROM audit WHERE id = (SELECT max(id) FROM audit)",
        "UPDATE audit SET actor = 'stranger' WHERE id = 2",
    ] {
        let db = rusqlite::Connection::open(home.store_path()).unwrap();
        db.execute(change, []).unwrap();
        drop(db);
        let found = home.run(&["audit", "verify"]);
        assert_eq!(found.code, 1, "{}", found.err);
        assert!(found.err.contains("in the store was changed, removed or moved"), "{}", found.err);
    }
}

#[test]
fn draft_tools_can_be_switched_off_while_the_server_runs() {
    let home = home_with_project();
    let mut client = StdioMcpClient::start(&home, &["--review", "always"]);
    let escalated = client.propose("src/watchdog.py", "t", &format!("{WATCHDOG}# end\n"));
    assert_eq!(escalated["verdict"], "escalated");
    let off = home.run(&["drafts", "off"]);
    assert!(off.out.starts_with("the draft tools are off in"), "{}", off.out);
    assert!(home.run(&["drafts", "off"]).out.contains("were already off"));
    assert_eq!(client.request_result("tools/list", json!({}))["tools"], json!([]));
    let request = json!({"source_path": "src/watchdog.py", "task_id": "t2"});
    let error = client.call("ollama_request_draft", request.clone()).unwrap_err();
    assert!(error.contains("switched off"), "{error}");
    assert!(home.run(&["drafts", "ls"]).err.contains("draft tools of this workspace are off"));
    home.run(&["drafts", "on"]);
    assert!(client.call("ollama_request_draft", request).is_ok());
    // `drafts clean` removes old drafts, but no draft that is under review.
    let cleaned = home.run(&["drafts", "clean", "--older-than", "0s"]);
    assert!(cleaned.out.contains("deleted 1 unsubmitted draft"), "{}", cleaned.out);
    assert!(home.run(&["gate", "ls"]).out.contains("escalated"));
    client.close();
}

#[test]
fn invalid_draft_arguments_settings_and_task_contract_are_reported() {
    let home = home_with_project();
    let ran = home.run_with_input(&["mcp", "--workspace", "."], b"");
    assert_eq!(ran.code, 0, "{}", ran.err);
    let ran = home.run_with_input(
        &["mcp", "--workspace", "."],
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}\n",
    );
    assert!(ran.code == 0 || ran.code == 2, "{} {}", ran.code, ran.err);
    let ran = home.run(&["mcp", "--workspace", "nowhere"]);
    assert_eq!(ran.code, 2, "{}", ran.err);
    assert!(ran.err.contains("there is no folder"), "{}", ran.err);
    for (args, code, why) in [
        (&["gate", "accept", "x"][..], 2, "no submission `x` in this workspace"),
        (&["gate", "accept", "99"], 2, "no submission `99` in this workspace"),
        (&["gate", "show", "99"], 2, "no submission `99` in this workspace"),
        (&["drafts", "show", "x"], 2, "there is no open draft"),
        (&["audit", "verify", "--since", "x"], 2, "`since` must be `ID:HASH`"),
        (&["mcp", "--review", "sometimes"], 2, "invalid value"),
    ] {
        let ran = home.run(args);
        assert_eq!(ran.code, code, "{args:?}: {}", ran.err);
        assert!(ran.err.contains(why), "{args:?}: {}", ran.err);
    }
    // The settings file of an untrusted folder cannot change the review policy.
    home.write("assize.toml", "[draft]\nreview = \"never\"\n");
    let ran = home.run(&["mcp", "--workspace", "."]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("draft.review"), "{}", ran.err);
    fs::remove_file(home.work_folder().join("assize.toml")).unwrap();
    home.write("_handoff/TASK_CONTRACT.json", "{}");
    let mut client = StdioMcpClient::start(&home, &[]);
    let request = json!({"source_path": "src/watchdog.py", "task_id": "t2"});
    let error = client.call("ollama_request_draft", request).unwrap_err();
    assert!(
        error.contains("missing field `version`")
            && error.contains("docs/reference/task-contract.md"),
        "{error}"
    );
    // The MCP server ignores lines that are not valid JSON-RPC messages.
    client.send_line("garbage");
    client.send_line("{\"jsonrpc\": \"2.0\"}");
    assert!(client.request_result("tools/list", json!({}))["tools"].is_array());
    assert_eq!(client.close().code, 0);
}

#[test]
fn drafts_init_excludes_the_handoff_folder_from_git() {
    let home = home_with_project();
    let ran = home.run(&["drafts", "init"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("adds `/_handoff/*` to `.gitignore`"), "{}", ran.err);
    home.write(".gitignore", "target");
    let ran = home.run(&["drafts", "init", "--yes"]);
    assert!(ran.out.contains("added `/_handoff/*`"), "{}", ran.out);
    assert_eq!(
        home.file_text(".gitignore"),
        "target\n/_handoff/*\n!/_handoff/TASK_CONTRACT.json\n"
    );
    assert!(home.run(&["drafts", "init"]).out.contains("already excludes the drafts folder"));
    assert!(home.work_folder().join("_handoff/drafts").is_dir());
}

#[test]
fn draft_of_a_file_that_the_users_global_gitignore_excludes_escalates() {
    let home = home_with_project();
    fs::create_dir_all(home.work_folder().join(".git")).unwrap();
    let list = home.work_folder().join("../.config/git/ignore");
    fs::create_dir_all(list.parent().unwrap()).unwrap();
    fs::write(list, "*.local\n").unwrap();
    let mut client = StdioMcpClient::start(&home, &[]);
    let waiting = client.propose("src/a.local", "t1", "x = 1\n");
    assert_eq!(waiting["verdict"], "escalated", "{waiting}");
    assert_eq!(waiting["reasons"][0]["rule"], "git-ignored", "{waiting}");
    assert_eq!(client.propose("src/a.py", "t1", "x = 1\n")["verdict"], "accepted");
    assert_eq!(client.close().code, 0);
}

/// The verification command runs in a sandbox, on a copy of the workspace.
#[test]
fn draft_that_fails_verification_is_rejected() {
    let home = home_with_project().set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let verify = "test ! -e _handoff && test ! -e .env && ! grep -q broken src/watchdog.py";
    home.write(".env", "KEY=1");
    let mut client = StdioMcpClient::start(&home, &["--verify", verify, "--isolation", "jail"]);
    let bad = client.propose("src/watchdog.py", "t", &format!("{WATCHDOG}# broken\n"));
    assert_eq!(bad["verdict"], "rejected", "{bad}");
    assert_eq!(bad["reasons"][0]["rule"], "verify");
    assert_eq!(bad["verified"]["passed"], false);
    let good = client.propose("src/watchdog.py", "t", &format!("{WATCHDOG}# fine\n"));
    assert_eq!(
        (&good["verdict"], &good["verified"]["outcome"]),
        (&json!("accepted"), &json!("passed")),
        "{good}"
    );
    assert_eq!(home.file_text("src/watchdog.py"), format!("{WATCHDOG}# fine\n"));
    client.close();
    // The gate escalates a draft if the task contract requests more for the verification than the settings allow.
    for (verify, why) in [
        (r#"{"command": "true", "layers": ["/opt/toolchain"]}"#, "draft.verify_layers"),
        (r#"{"command": "true", "memory_mb": 999999}"#, "draft.verify_memory"),
        (r#"{"command": "true", "seconds": 99999}"#, "draft.verify_seconds"),
    ] {
        home.write(
            "_handoff/TASK_CONTRACT.json",
            &format!(r#"{{"version": 1, "verify": {verify}}}"#),
        );
        let mut client = StdioMcpClient::start(&home, &[]);
        let escalated = client.propose("new.py", "t", "x = 1\n");
        assert_eq!(escalated["verdict"], "escalated", "{escalated}");
        let message = escalated["reasons"][0]["message"].as_str().unwrap().to_owned();
        assert!(message.contains(why), "{message}");
        let id = escalated["message_id"].as_str().unwrap().to_owned();
        client.close();
        assert_eq!(home.run(&["gate", "reject", &id]).code, 0);
    }
    // The gate rejects a draft whose verification exceeds its time limit.
    let slow = r#"{"version": 1, "verify": {"command": "sleep 60", "seconds": 1}}"#;
    home.write("_handoff/TASK_CONTRACT.json", slow);
    let mut client = StdioMcpClient::start(&home, &[]);
    let late = client.propose("new.py", "t", "x = 1\n");
    assert_eq!(late["verdict"], "rejected", "{late}");
    assert_eq!(late["verified"]["outcome"], "timed out after 1 s");
    client.close();
}

/// A client that cancels its submission receives the decision with a later tool call.
#[test]
fn decision_on_a_cancelled_submission_is_delivered_with_a_later_tool_call() {
    let home = home_with_project().set("PATH", "/usr/bin:/bin");
    let mut client = StdioMcpClient::start(&home, &["--verify", "sleep 1; false"]);
    let request = json!({"source_path": "src/watchdog.py", "task_id": "t"});
    let draft = client.call("ollama_request_draft", request).unwrap()["draft_path"].clone();
    let written = json!({"draft_path": draft, "content": format!("{WATCHDOG}# end\n")});
    client.call("ollama_write_draft", written).unwrap();
    let submit = json!({"name": "ollama_submit_draft", "arguments": {"draft_path": draft,
        "original_path": "src/watchdog.py", "task_id": "t", "change_summary": "x"}});
    let call = json!({"jsonrpc": "2.0", "id": 777, "method": "tools/call", "params": submit});
    client.send_line(&call.to_string());
    let log = home.work_folder().join("_handoff/transition.ndjson");
    let wait_for_entry = |word: &str| {
        wait_for(&format!("the entry {word} in the audit log"), || {
            fs::read_to_string(&log).is_ok_and(|log| log.contains(word))
        });
    };
    wait_for_entry("\"submitted\"");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                        "params": {"requestId": 777, "reason": "too long"}});
    client.send_line(&cancel.to_string());
    wait_for_entry("\"decided\"");
    let request = json!({"source_path": "other.py", "task_id": "t"});
    let next = client.call("ollama_request_draft", request).unwrap();
    assert_eq!(next["messages"][0]["kind"], "DRAFT_REJECTED", "{next}");
    client.close();
}

/// While the verification command runs, the user restricts the allowed paths or switches the draft tools off.
#[test]
fn draft_forbidden_during_its_verification_is_not_accepted() {
    let home = home_with_project().set("PATH", "/usr/bin:/bin");
    let contract = r#"{"version": 1, "allowed_paths": ["docs/"]}"#;
    for forbid in [true, false] {
        let mut client = StdioMcpClient::start(&home, &["--verify", "sleep 3"]);
        let task = if forbid { "t1" } else { "t2" };
        let request = json!({"source_path": "src/watchdog.py", "task_id": task});
        let draft = client.call("ollama_request_draft", request).unwrap()["draft_path"].clone();
        let written = json!({"draft_path": draft, "content": format!("{WATCHDOG}# end\n")});
        client.call("ollama_write_draft", written).unwrap();
        let submit = json!({"draft_path": draft, "original_path": "src/watchdog.py", "task_id": task,
                            "change_summary": "x"});
        let verdict = std::thread::scope(|scope| {
            let answer = scope.spawn(|| client.call("ollama_submit_draft", submit).unwrap());
            let log = home.work_folder().join("_handoff/transition.ndjson");
            wait_for("the submission of the draft", || {
                let log = fs::read_to_string(&log).unwrap_or_default();
                let of_task = |line: &&str| {
                    line.contains("\"submitted\"") && line.contains(&format!("\"{task}\""))
                };
                log.lines().filter(of_task).count() == 1
            });
            match forbid {
                true => drop(home.write("_handoff/TASK_CONTRACT.json", contract)),
                false => drop(home.run(&["drafts", "off"])),
            }
            answer.join().unwrap()
        });
        let expected = if forbid { "rejected" } else { "escalated" };
        assert_eq!(verdict["verdict"], expected, "{verdict}");
        fs::remove_file(home.work_folder().join("_handoff/TASK_CONTRACT.json")).unwrap_or_default();
        client.close();
    }
    assert_eq!(home.file_text("src/watchdog.py"), WATCHDOG);
}
