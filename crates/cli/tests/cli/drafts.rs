//! Drafts behind a gate, from the built binary: the tools over MCP, and what people do.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use serde_json::{Value, json};

use crate::exec::until;
use crate::{Home, Ran};

pub(crate) const WATCHDOG: &str = "#!/usr/bin/env python3\nimport sys\n\n\ndef main():\n    print(\"watching\")\n    return 0\n\n\nif __name__ == \"__main__\":\n    sys.exit(main())\n";

/// A home whose working folder is a small project.
pub(crate) fn project() -> Home {
    let home = Home::new();
    home.write("src/watchdog.py", WATCHDOG);
    home
}

impl Home {
    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.work().join(path)).unwrap()
    }
}

/// A client that speaks the protocol word for word.
pub(crate) struct Client {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    sent: u64,
}

impl Client {
    pub(crate) fn start(home: &Home, more: &[&str]) -> Client {
        Client::with(home, &[&["--workspace", "."][..], more].concat())
    }

    /// Starts `assize mcp` with these arguments alone.
    pub(crate) fn with(home: &Home, more: &[&str]) -> Client {
        let args = [&["mcp"][..], more].concat();
        let mut child = home.command(&args).stdin(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut client = Client { child, input, output, sent: 0 };
        let hello = client.ask(
            "initialize",
            json!({"protocolVersion": "2025-06-18", "capabilities": {},
                   "clientInfo": {"name": "tester", "version": "1"}}),
        );
        assert_eq!(hello["serverInfo"]["name"], "assize", "{hello}");
        assert!(hello["capabilities"]["tools"].is_object(), "{hello}");
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
        client
    }

    /// Sends a message without waiting for a response.
    pub(crate) fn say(&mut self, line: &str) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer["error"].is_null(), "{answer}");
        answer["result"].clone()
    }

    /// Sends a request; the whole response, which may be an error.
    pub(crate) fn answer(&mut self, method: &str, params: Value) -> Value {
        self.sent += 1;
        let id = self.sent;
        self.say(
            &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string(),
        );
        loop {
            let told = self.next();
            if told["id"] == id {
                return told;
            }
        }
    }

    /// Waits for the next message of the server.
    pub(crate) fn next(&mut self) -> Value {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "it went away");
        serde_json::from_str(&line).unwrap()
    }

    /// What a tool answers.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Result<Value, String> {
        let result = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        let text = result["content"][0]["text"].as_str().unwrap().to_owned();
        if result["isError"] == true {
            return Err(text);
        }
        // For clients that know no structure the same stands there as text.
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), result["structuredContent"]);
        Ok(result["structuredContent"].clone())
    }

    pub(crate) fn propose(&mut self, path: &str, task: &str, content: &str) -> Value {
        let asked = json!({"source_path": path, "task_id": task});
        let draft = self.call("ollama_request_draft", asked).unwrap()["draft_path"].clone();
        let written = json!({"draft_path": draft, "content": content});
        self.call("ollama_write_draft", written).unwrap();
        let submit = json!({"draft_path": draft, "original_path": path, "task_id": task,
                            "change_summary": "a change"});
        self.call("ollama_submit_draft", submit).unwrap()
    }

    pub(crate) fn end(mut self) -> Ran {
        drop(self.input.take());
        let output = self.child.wait_with_output().unwrap();
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::new(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

#[test]
fn the_tools_are_served_and_people_decide_on_what_is_escalated() {
    let home = project();
    let mut client = Client::start(&home, &[]);
    let tools = client.ask("tools/list", json!({}));
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
    assert_eq!(home.text("src/watchdog.py"), format!("{WATCHDOG}# end\n"));
    let waiting = client.propose(".github/workflows/ci.yml", "t2", "on: push\n");
    assert_eq!(waiting["verdict"], "escalated", "{waiting}");
    assert_eq!(waiting["reasons"][0]["rule"], "protected");
    let number = waiting["submission"].to_string();

    // From other processes, while the first goes on.
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
    assert_eq!(home.text(".github/workflows/ci.yml"), "on: push\n");
    // The worker hears of it with its next call.
    let next = client.call("ollama_request_draft", json!({"source_path": "x.py", "task_id": "t2"}));
    assert_eq!(next.unwrap()["messages"][0]["kind"], "DRAFT_ACCEPTED");
    let message = waiting["message_id"].as_str().unwrap();
    let undone = home.run(&["gate", "undo", message]);
    assert_eq!(undone.code, 0, "{}", undone.err);
    assert!(!home.work().join(".github/workflows/ci.yml").exists());
    let twice = home.run(&["gate", "undo", &number]);
    assert_eq!(twice.code, 2, "{}", twice.err);
    assert!(twice.err.contains("is undone, not accepted"), "{}", twice.err);

    // What goes wrong is told to whoever called.
    let told =
        client.call("ollama_read_draft", json!({"draft_path": "../../etc/passwd"})).unwrap_err();
    assert!(told.contains("use the `draft_path` that you were given"), "{told}");
    let told = client.call("ollama_write_draft", json!({"draft_path": 3})).unwrap_err();
    assert!(told.contains("call `ollama_write_draft` with an object"), "{told}");
    let ended = client.end();
    assert_eq!(ended.code, 0, "{}", ended.err);
    let verified = home.run(&["audit", "verify"]);
    assert!(verified.out.starts_with("intact: "), "{} {}", verified.out, verified.err);
    let shown = home.run(&["audit", "show"]).out;
    for word in
        ["requested", "submitted", "decided", "applied", "undone", "refused", "worker tester 1"]
    {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let task = home.run(&["audit", "show", "--task", "t2", "--json"]).out;
    let entries: Value = serde_json::from_str(&task).unwrap();
    assert!(entries.as_array().unwrap().iter().all(|entry| entry["detail"]["task"] != "t1"));
}

#[test]
fn a_conflict_shows_both_sides() {
    let home = project();
    let mut client = Client::start(&home, &[]);
    let asked = json!({"source_path": "src/watchdog.py", "task_id": "t"});
    let draft = client.call("ollama_request_draft", asked).unwrap()["draft_path"].clone();
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
    assert!(shown.contains("and this has changed in the file since"), "{shown}");
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
    let asked = json!({"source_path": "src/watchdog.py", "task_id": "t"});
    let told = client.call("ollama_request_draft", asked).unwrap();
    assert!(
        told["messages"][0]["reasons"][0]["message"].as_str().unwrap().contains("start from mine")
    );
    client.end();
}

#[test]
fn whatever_is_done_to_the_log_shows() {
    let home = project();
    let mut client = Client::start(&home, &[]);
    for number in 0..3 {
        client.propose("src/watchdog.py", "t", &format!("{WATCHDOG}# {number}\n"));
    }
    client.end();
    let head = home.run(&["audit", "verify", "--json"]).out;
    let head: Value = serde_json::from_str(&head).unwrap();
    assert_eq!(head["intact"], true, "{head}");
    let since = head["head"].as_str().unwrap().to_owned();
    assert_eq!(home.run(&["audit", "verify", "--since", &since]).code, 0);
    let other = since.replacen(|c: char| c.is_ascii_hexdigit() && c != '1', "1", 3);
    assert_eq!(home.run(&["audit", "verify", "--since", &other]).code, 1);
    let log = home.work().join("_handoff/transition.ndjson");
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
    // And in the store itself.
    for change in [
        "DELETE FROM audit WHERE id = (SELECT max(id) FROM audit)",
        "UPDATE audit SET actor = 'nobody' WHERE id = 2",
    ] {
        let db = rusqlite::Connection::open(home.store()).unwrap();
        db.execute(change, []).unwrap();
        drop(db);
        let found = home.run(&["audit", "verify"]);
        assert_eq!(found.code, 1, "{}", found.err);
        assert!(found.err.contains("in the store was changed, removed or moved"), "{}", found.err);
    }
}

#[test]
fn the_tools_can_be_switched_off_while_they_are_served() {
    let home = project();
    let mut client = Client::start(&home, &["--review", "always"]);
    let escalated = client.propose("src/watchdog.py", "t", &format!("{WATCHDOG}# end\n"));
    assert_eq!(escalated["verdict"], "escalated");
    let off = home.run(&["drafts", "off"]);
    assert!(off.out.starts_with("the draft tools are off in"), "{}", off.out);
    assert!(home.run(&["drafts", "off"]).out.contains("were off already"));
    assert_eq!(client.ask("tools/list", json!({}))["tools"], json!([]));
    let asked = json!({"source_path": "src/watchdog.py", "task_id": "t2"});
    let told = client.call("ollama_request_draft", asked.clone()).unwrap_err();
    assert!(told.contains("switched off"), "{told}");
    assert!(home.run(&["drafts", "ls"]).err.contains("switched off here"));
    home.run(&["drafts", "on"]);
    assert!(client.call("ollama_request_draft", asked).is_ok());
    // Old ones can be put away; what waits stays.
    let cleaned = home.run(&["drafts", "clean", "--older-than", "0s"]);
    assert!(cleaned.out.contains("drafts that nobody handed in: 1"), "{}", cleaned.out);
    assert!(home.run(&["gate", "ls"]).out.contains("escalated"));
    client.end();
}

#[test]
fn what_cannot_be_used_is_told() {
    let home = project();
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
    // A folder that somebody else wrote chooses no command and no review.
    home.write("assize.toml", "[draft]\nreview = \"never\"\n");
    let ran = home.run(&["mcp", "--workspace", "."]);
    assert_eq!(ran.code, 3, "{}", ran.err);
    assert!(ran.err.contains("draft.review"), "{}", ran.err);
    fs::remove_file(home.work().join("assize.toml")).unwrap();
    home.write("_handoff/TASK_CONTRACT.json", "{}");
    let mut client = Client::start(&home, &[]);
    let asked = json!({"source_path": "src/watchdog.py", "task_id": "t2"});
    let told = client.call("ollama_request_draft", asked).unwrap_err();
    assert!(told.contains("missing field `version`") && told.contains("docs/drafts.md"), "{told}");
    // What is no message at all is passed over.
    client.say("garbage");
    client.say("{\"jsonrpc\": \"2.0\"}");
    assert!(client.ask("tools/list", json!({}))["tools"].is_array());
    assert_eq!(client.end().code, 0);
}

#[test]
fn a_workspace_is_made_ready() {
    let home = project();
    let ran = home.run(&["drafts", "init"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.err.contains("adds `/_handoff/*` to `.gitignore`"), "{}", ran.err);
    home.write(".gitignore", "target");
    let ran = home.run(&["drafts", "init", "--yes"]);
    assert!(ran.out.contains("added `/_handoff/*`"), "{}", ran.out);
    assert_eq!(home.text(".gitignore"), "target\n/_handoff/*\n!/_handoff/TASK_CONTRACT.json\n");
    assert!(home.run(&["drafts", "init"]).out.contains("leaves them out already"));
    assert!(home.work().join("_handoff/drafts").is_dir());
}

#[test]
fn ignore_list_of_the_user_escalates() {
    let home = project();
    fs::create_dir_all(home.work().join(".git")).unwrap();
    let list = home.work().join("../.config/git/ignore");
    fs::create_dir_all(list.parent().unwrap()).unwrap();
    fs::write(list, "*.local\n").unwrap();
    let mut client = Client::start(&home, &[]);
    let waiting = client.propose("src/a.local", "t1", "x = 1\n");
    assert_eq!(waiting["verdict"], "escalated", "{waiting}");
    assert_eq!(waiting["reasons"][0]["rule"], "git-ignored", "{waiting}");
    assert_eq!(client.propose("src/a.py", "t1", "x = 1\n")["verdict"], "accepted");
    assert_eq!(client.end().code, 0);
}

/// The project's own tests decide, in a sandbox, on a copy.
#[test]
fn what_fails_its_tests_is_not_accepted() {
    let home = project().set("PATH", "/usr/local/bin:/usr/bin:/bin");
    let verify = "test ! -e _handoff && test ! -e .env && ! grep -q broken src/watchdog.py";
    home.write(".env", "KEY=1");
    let mut client = Client::start(&home, &["--verify", verify, "--isolation", "jail"]);
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
    assert_eq!(home.text("src/watchdog.py"), format!("{WATCHDOG}# fine\n"));
    client.end();
    // What it needs and cannot have is for a person.
    for (verify, why) in [
        (r#"{"command": "true", "layers": ["/opt/toolchain"]}"#, "draft.verify_layers"),
        (r#"{"command": "true", "memory_mb": 999999}"#, "draft.verify_memory"),
        (r#"{"command": "true", "seconds": 99999}"#, "draft.verify_seconds"),
    ] {
        home.write(
            "_handoff/TASK_CONTRACT.json",
            &format!(r#"{{"version": 1, "verify": {verify}}}"#),
        );
        let mut client = Client::start(&home, &[]);
        let escalated = client.propose("new.py", "t", "x = 1\n");
        assert_eq!(escalated["verdict"], "escalated", "{escalated}");
        let told = escalated["reasons"][0]["message"].as_str().unwrap().to_owned();
        assert!(told.contains(why), "{told}");
        let id = escalated["message_id"].as_str().unwrap().to_owned();
        client.end();
        assert_eq!(home.run(&["gate", "reject", &id]).code, 0);
    }
    // It has no network, and cannot wait for ever.
    let slow = r#"{"version": 1, "verify": {"command": "sleep 60", "seconds": 1}}"#;
    home.write("_handoff/TASK_CONTRACT.json", slow);
    let mut client = Client::start(&home, &[]);
    let late = client.propose("new.py", "t", "x = 1\n");
    assert_eq!(late["verdict"], "rejected", "{late}");
    assert_eq!(late["verified"]["outcome"], "took longer than 1 s");
    client.end();
}

/// A client that gives up waiting hears of the verdict later.
#[test]
fn what_is_decided_after_a_client_gave_up_is_told_later() {
    let home = project().set("PATH", "/usr/bin:/bin");
    let mut client = Client::start(&home, &["--verify", "sleep 1; false"]);
    let asked = json!({"source_path": "src/watchdog.py", "task_id": "t"});
    let draft = client.call("ollama_request_draft", asked).unwrap()["draft_path"].clone();
    let written = json!({"draft_path": draft, "content": format!("{WATCHDOG}# end\n")});
    client.call("ollama_write_draft", written).unwrap();
    let submit = json!({"name": "ollama_submit_draft", "arguments": {"draft_path": draft,
        "original_path": "src/watchdog.py", "task_id": "t", "change_summary": "x"}});
    let call = json!({"jsonrpc": "2.0", "id": 777, "method": "tools/call", "params": submit});
    client.say(&call.to_string());
    let log = home.work().join("_handoff/transition.ndjson");
    let told = |word: &str| {
        until(word, || fs::read_to_string(&log).is_ok_and(|log| log.contains(word)));
    };
    told("\"submitted\"");
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled",
                        "params": {"requestId": 777, "reason": "too long"}});
    client.say(&cancel.to_string());
    told("\"decided\"");
    let asked = json!({"source_path": "other.py", "task_id": "t"});
    let next = client.call("ollama_request_draft", asked).unwrap();
    assert_eq!(next["messages"][0]["kind"], "DRAFT_REJECTED", "{next}");
    client.end();
}

/// What is switched off, or forbidden, while the tests run is not accepted for all that.
#[test]
fn what_changes_while_the_tests_run_counts() {
    let home = project().set("PATH", "/usr/bin:/bin");
    let contract = r#"{"version": 1, "allowed_paths": ["docs/"]}"#;
    for forbid in [true, false] {
        let mut client = Client::start(&home, &["--verify", "sleep 3"]);
        let task = if forbid { "t1" } else { "t2" };
        let asked = json!({"source_path": "src/watchdog.py", "task_id": task});
        let draft = client.call("ollama_request_draft", asked).unwrap()["draft_path"].clone();
        let written = json!({"draft_path": draft, "content": format!("{WATCHDOG}# end\n")});
        client.call("ollama_write_draft", written).unwrap();
        let submit = json!({"draft_path": draft, "original_path": "src/watchdog.py", "task_id": task,
                            "change_summary": "x"});
        let verdict = std::thread::scope(|scope| {
            let answer = scope.spawn(|| client.call("ollama_submit_draft", submit).unwrap());
            let log = home.work().join("_handoff/transition.ndjson");
            until("it is handed in", || {
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
        fs::remove_file(home.work().join("_handoff/TASK_CONTRACT.json")).unwrap_or_default();
        client.end();
    }
    assert_eq!(home.text("src/watchdog.py"), WATCHDOG);
}
