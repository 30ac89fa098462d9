//! The built binary, as a user meets it: its words, its exit codes, what it sends.

#![expect(clippy::unwrap_used, reason = "tests stop where they fail")]

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use assize_testkit::{Answer, AnswerStop, FakeProvider, Kind, Reply};
use serde_json::Value;

/// A home and a working folder of its own, and nothing of the real environment.
struct Home {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// What a run of the binary came to.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Home {
    fn new() -> Home {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("work")).unwrap();
        // Nobody answers where Ollama would be.
        Home { folder, variables: vec![] }.set("OLLAMA_HOST", "127.0.0.1:9")
    }

    fn set(mut self, name: &str, value: impl Into<String>) -> Home {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.into()));
        self
    }

    /// A home in which this fake is the provider.
    fn with(kind: Kind, fake: &FakeProvider) -> Home {
        let (key, url) = match kind {
            Kind::Anthropic => ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"),
            Kind::OpenAi => ("OPENAI_API_KEY", "OPENAI_BASE_URL"),
            Kind::Google => ("GEMINI_API_KEY", "GEMINI_BASE_URL"),
            Kind::Groq => ("GROQ_API_KEY", "GROQ_BASE_URL"),
            Kind::OpenRouter => ("OPENROUTER_API_KEY", "OPENROUTER_BASE_URL"),
            Kind::Ollama => ("OLLAMA_API_KEY", "OLLAMA_HOST"),
        };
        Home::new().set(key, fake.key()).set(url, fake.base_url())
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.work().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_assize"));
        command.args(args).env_clear().env("HOME", self.folder.path()).current_dir(self.work());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap(), self.folder.path())
    }

    fn run_with_input(&self, args: &[&str], input: &[u8]) -> Ran {
        let mut child = self.command(args).stdin(Stdio::piped()).spawn().unwrap();
        // A command that does not want all of it closes the pipe.
        let _ = child.stdin.take().unwrap().write_all(input);
        ran(child.wait_with_output().unwrap(), self.folder.path())
    }
}

fn ran(output: Output, home: &Path) -> Ran {
    let text = |bytes: Vec<u8>| {
        String::from_utf8(bytes).unwrap().replace(&home.display().to_string(), "~")
    };
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: text(output.stdout),
        err: text(output.stderr),
    }
}

#[test]
fn without_a_key_it_rehearses_and_says_so() {
    let home = Home::new();
    let Ran { code, out, err } = home.run(&["ask", "Should we open a factory?"]);
    assert_eq!(code, 0);
    assert!(
        out.starts_with("[rehearsal, no model was asked]\n") && out.contains("factory"),
        "{out}"
    );
    assert!(
        err.contains("rehearsal, no model was asked.") && err.contains("assize doctor"),
        "{err}"
    );
    let streamed = home.run(&["ask", "--stream", "--quiet", "Should we open a factory?"]);
    assert_eq!((streamed.out, streamed.err), (out, String::new()));
    let json: Value = serde_json::from_str(&home.run(&["ask", "Hi", "--json"]).out).unwrap();
    assert_eq!(
        (&json["rehearsal"], &json["label"]),
        (&Value::Bool(true), &"rehearsal, no model was asked".into())
    );
}

#[test]
fn a_question_reaches_every_provider_and_is_accounted_for() {
    for kind in
        [Kind::Anthropic, Kind::OpenAi, Kind::Google, Kind::Groq, Kind::OpenRouter, Kind::Ollama]
    {
        let fake = FakeProvider::scripted(kind, [Reply::text("Forty-two.")]);
        let Ran { code, out, err } =
            Home::with(kind, &fake).run(&["ask", "Why?", "--system", "Be brief."]);
        assert_eq!((code, out.as_str()), (0, "Forty-two.\n"), "{kind:?}: {err}");
        assert!(err.contains("1,000 tokens in") && err.contains("50 out"), "{err}");
        assert_eq!(err.contains("(60% cached)"), kind != Kind::Ollama, "{err}");
        assert!(fake.only_request().body.to_string().contains("Be brief."));
    }
}

#[test]
fn json_and_streams_and_standard_input() {
    let fake = FakeProvider::scripted(Kind::Anthropic, ["one", "two", "three"].map(Reply::text));
    let home = Home::with(Kind::Anthropic, &fake);
    let json: Value = serde_json::from_str(&home.run(&["ask", "Why?", "--json"]).out).unwrap();
    assert_eq!((&json["answer"], &json["cost_usd"]), (&"one".into(), &0.00071.into()));
    assert_eq!(json["usage"]["cached_input"], 600);
    assert_eq!(home.run(&["ask", "Why?", "--stream"]).out, "two\n");
    assert_eq!(home.run_with_input(&["ask", "-"], "From a pipe ✓".as_bytes()).out, "three\n");
    assert!(fake.captured()[2].body.to_string().contains("From a pipe ✓"));
}

#[test]
fn typed_answers_say_where_they_stood_on_the_ladder() {
    let schema = r#"{"type":"object","properties":{"score":{"type":"integer","minimum":1,"maximum":10}},"required":["score"]}"#;
    let script =
        [r#"{"score": 7}"#, "```json\n{'score': 8,}\n```", "no", r#"{"score": 9}"#, "no", "never"];
    let fake = FakeProvider::scripted(Kind::Anthropic, script.map(Reply::text));
    let home = Home::with(Kind::Anthropic, &fake);
    home.write("s.json", schema);
    let ask = || home.run(&["ask", "Score it", "--schema", "s.json"]);
    let (native, repaired, twice, never) = (ask(), ask(), ask(), ask());
    assert_eq!((native.code, native.out.as_str()), (0, "{\n  \"score\": 7\n}\n"));
    assert!(native.err.contains("answer: native schema"), "{}", native.err);
    assert!(
        repaired.err.contains("answer: repaired (wrong quotes, trailing comma, code fence)"),
        "{}",
        repaired.err
    );
    assert!(twice.err.contains("answer: asked twice"), "{}", twice.err);
    assert!(twice.err.contains("2,000 tokens in"), "both calls are paid for: {}", twice.err);
    assert_eq!((never.code, never.out.as_str()), (1, ""));
    assert!(never.err.contains("does not have the asked shape, twice"), "{}", never.err);
}

#[test]
fn exit_codes_mean_something() {
    let one = |reply: Reply, args: &[&str]| {
        let fake = FakeProvider::scripted(Kind::Anthropic, [reply]);
        Home::with(Kind::Anthropic, &fake).run(&[&["ask", "Why?"], args].concat())
    };
    let refused =
        one(Reply::Answer(Answer::text("I would rather not.").stopped(AnswerStop::Refusal)), &[]);
    assert_eq!((refused.code, refused.out.as_str()), (1, "I would rather not.\n"));
    assert!(refused.err.contains("error: the model declined to answer"), "{}", refused.err);
    let cut = one(
        Reply::Answer(Answer::text("And so").stopped(AnswerStop::Length)),
        &["--max-output-tokens", "5"],
    );
    assert_eq!((cut.code, cut.out.as_str()), (1, "And so\n"));
    assert!(
        cut.err.contains("cut off at 5 output tokens\n\nhint: allow longer answers"),
        "{}",
        cut.err
    );
    assert_eq!(one(Reply::status(401), &[]).code, 3);
    assert_eq!(one(Reply::status(404), &[]).code, 3);
    assert_eq!(one(Reply::status(413), &[]).code, 2);
    assert_eq!(one(Reply::Status(402, vec![], "{}".into()), &[]).code, 4);

    let home = Home::new();
    assert_eq!(home.run(&["ask"]).code, 2);
    assert_eq!(home.run(&["ask", " "]).code, 2);
    assert_eq!(home.run(&["ask", "x", "--temperature", "9"]).code, 2);
    assert_eq!(home.run(&["ask", "x", "--provider", "anthropic"]).code, 3);
    assert_eq!(home.run(&["ask", "x", "--model", "m"]).code, 3);
    assert_eq!(home.run(&["ask", "x", "--replay", "none"]).code, 4);
    assert_eq!(home.run_with_input(&["ask", "-"], b"\xff\xfe").code, 2);
    let gone = Home::new()
        .set("GROQ_API_KEY", "k")
        .set("GROQ_BASE_URL", "http://127.0.0.1:9")
        .set("ASSIZE_GATEWAY_RETRIES", "0");
    let gone = gone.run(&["ask", "x"]);
    assert_eq!(gone.code, 4);
    assert!(gone.err.contains("groq: cannot be reached: Connection refused"), "{}", gone.err);
}

#[test]
fn an_interrupt_ends_it_in_good_order() {
    let fake = FakeProvider::scripted(Kind::Anthropic, [Reply::Hang]);
    let home = Home::with(Kind::Anthropic, &fake);
    let child = home.command(&["ask", "Why?"]).spawn().unwrap();
    fake.wait_for_requests(1);
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
    let Ran { code, err, .. } = ran(child.wait_with_output().unwrap(), home.folder.path());
    assert_eq!((code, err.as_str()), (130, "error: interrupted\n"));
}

#[test]
fn a_budget_stops_before_it_is_broken() {
    let fake = FakeProvider::scripted(Kind::Anthropic, [Reply::text("cheap")]);
    let home = Home::with(Kind::Anthropic, &fake);
    let over = home.run(&["ask", "Why?", "--max-cost", "0.001"]);
    assert_eq!(over.code, 5);
    assert!(over.err.contains("the budget of $0.0010 does not allow another call"), "{}", over.err);
    assert_eq!(home.run(&["ask", "Why?", "--max-tokens", "100"]).code, 5);
    assert!(fake.captured().is_empty(), "nothing was sent");
    assert_eq!(home.run(&["ask", "Why?", "--max-cost", "0.10"]).code, 0);
    let unknown = home.run(&["ask", "Why?", "--max-cost", "1", "--model", "mystery"]);
    assert_eq!(unknown.code, 5);
    assert!(
        unknown.err.contains("price is unknown") && unknown.err.contains("[prices.\"mystery\"]"),
        "{}",
        unknown.err
    );
}

#[test]
fn a_price_in_the_settings_makes_an_unknown_model_known() {
    let fake = FakeProvider::scripted(Kind::OpenRouter, []);
    let home = Home::with(Kind::OpenRouter, &fake);
    let estimate =
        |home: &Home| home.run(&["ask", "Why?", "--estimate", "--model", "some/model.v1"]).out;
    assert!(estimate(&home).contains("cost unknown, at most cost unknown"), "{}", estimate(&home));
    let settings = home.folder.path().join(".config/assize/config.toml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, "[prices.\"some/model.v1\"]\ninput = 1.0\noutput = 2.0\n").unwrap();
    assert!(estimate(&home).contains("$0.0020, at most $0.0092"), "{}", estimate(&home));
}

#[test]
fn a_replay_is_byte_identical_and_asks_nobody() {
    let fake = FakeProvider::scripted(Kind::Anthropic, [Reply::text("recorded ✓")]);
    let home = Home::with(Kind::Anthropic, &fake);
    let recorded = home.run(&["ask", "Why?", "--json", "--record", "tape"]);
    assert_eq!(recorded.code, 0, "{}", recorded.err);
    // Another machine: no key, no network, and a setting that would name another provider.
    let other = Home::new();
    fs::copy(home.work().join("tape"), other.work().join("tape")).unwrap();
    let replayed = other.run(&["ask", "Why?", "--json", "--replay", "tape"]);
    assert_eq!((replayed.code, replayed.out), (0, recorded.out));
    let mismatch = other.run(&["ask", "Why?", "--replay", "tape", "--provider", "groq"]);
    assert_eq!(mismatch.code, 2);
    assert!(mismatch.err.contains("recorded with anthropic, not with groq"), "{}", mismatch.err);
    let missing = other.run(&["ask", "Why not?", "--replay", "tape"]);
    assert_eq!(missing.code, 2);
    assert!(
        missing.err.contains("-    \"tail\": \"Why?\"\n+    \"tail\": \"Why not?\""),
        "{}",
        missing.err
    );
}

#[test]
fn a_full_disk_under_a_cassette_is_told() {
    let fake = FakeProvider::always(Kind::Anthropic, Reply::text("x".repeat(3000)));
    let home = Home::with(Kind::Anthropic, &fake);
    assert_eq!(home.run(&["ask", "one", "--record", "tape"]).code, 0);
    let before = fs::read(home.work().join("tape")).unwrap();
    // No file may grow beyond 4 KiB, and the signal that would kill us for trying is ignored.
    let script = "trap '' XFSZ; ulimit -f 4; exec \"$0\" ask two --record tape";
    let mut command = home.command(&[]);
    let binary = command.get_program().to_owned();
    command = {
        let mut shell = Command::new("bash");
        shell.arg("-c").arg(script).arg(binary).env_clear().env("HOME", home.folder.path());
        shell.envs(home.variables.iter().map(|(n, v)| (n, v))).current_dir(home.work());
        shell
    };
    let full = ran(command.output().unwrap(), home.folder.path());
    assert_eq!(full.code, 4, "{}", full.err);
    assert!(
        full.err.contains("cannot write to the cassette `tape`: File too large"),
        "{}",
        full.err
    );
    assert_eq!(
        fs::read(home.work().join("tape")).unwrap(),
        before,
        "what was there is still there"
    );
    assert_eq!(home.run(&["ask", "two", "--record", "tape"]).code, 0);
}

#[test]
fn settings_win_in_their_order_and_say_where_they_come_from() {
    let home = Home::new();
    let user = home.folder.path().join(".config/assize/config.toml");
    fs::create_dir_all(user.parent().unwrap()).unwrap();
    let show = |home: &Home, key: &str| {
        let out = home.run(&["config", "show", "--json"]).out;
        let json: Value = serde_json::from_str(&out).unwrap();
        let setting = &json["settings"][key];
        format!(
            "{} ({})",
            setting["value"].as_str().unwrap_or("-"),
            setting["source"].as_str().unwrap_or("-")
        )
    };
    assert_eq!(show(&home, "groq.model"), "openai/gpt-oss-120b (default)");
    fs::write(&user, "[groq]\nmodel = \"from-user\"\n").unwrap();
    assert_eq!(show(&home, "groq.model"), "from-user (~/.config/assize/config.toml:2)");
    home.write("assize.toml", "\n[groq]\nmodel = \"from-project\"\n");
    assert_eq!(show(&home, "groq.model"), "from-project (assize.toml:3)");
    home.write(".env", "ASSIZE_GROQ_MODEL=from-dotenv\nGROQ_API_KEY=gsk_0123456789abcdef\n");
    assert_eq!(show(&home, "groq.model"), "from-dotenv (.env, ASSIZE_GROQ_MODEL)");
    assert_eq!(show(&home, "groq.key"), "…cdef (.env, GROQ_API_KEY)");
    let home = home.set("ASSIZE_GROQ_MODEL", "from-env");
    assert_eq!(show(&home, "groq.model"), "from-env (environment, ASSIZE_GROQ_MODEL)");
    let flagged =
        home.run(&["ask", "x", "--estimate", "--provider", "groq", "--model", "from-flag"]);
    assert!(flagged.out.contains("cost unknown"), "{}{}", flagged.out, flagged.err);
    let text = home.run(&["config", "show"]).out;
    assert!(!text.contains("0123456789"), "keys are masked: {text}");
}

#[test]
fn a_foreign_folder_cannot_steal_a_key() {
    let fake = FakeProvider::always(Kind::OpenAi, Reply::text("yours"));
    let thief = FakeProvider::scripted(Kind::OpenAi, []);
    let home = Home::with(Kind::OpenAi, &fake);
    let variables = home.variables.clone();
    let home = Home {
        variables: variables.into_iter().filter(|(name, _)| name != "OPENAI_BASE_URL").collect(),
        ..home
    };
    for (file, text) in [
        ("assize.toml", format!("[openai]\nbase_url = \"{}\"\n", thief.base_url())),
        (".env", format!("OPENAI_BASE_URL={}\n", thief.base_url())),
        (".env", format!("ASSIZE_OPENAI_BASE_URL={}\n", thief.base_url())),
        ("assize.toml", "[openai]\nkey_env = \"AWS_SECRET_ACCESS_KEY\"\n".to_owned()),
        ("assize.toml", "[budget]\nmax_cost = 1000\n".to_owned()),
        ("assize.toml", "[prices.\"gpt-5.4-mini\"]\ninput = 0\noutput = 0\n".to_owned()),
    ] {
        let path = home.write(file, &text);
        home.write("sub/folder/.keep", "");
        let refused = home.run(&["ask", "Why?"]);
        assert_eq!((refused.code, refused.out.as_str()), (3, ""), "{text}");
        assert!(refused.err.contains("the folder is not trusted"), "{}", refused.err);
        assert!(refused.err.contains("`assize config trust`"), "{}", refused.err);
        let shown = home.run(&["config", "show", "--only", "set"]).out;
        assert!(shown.contains("no effect: the folder is not trusted"), "{shown}");
        fs::remove_file(path).unwrap();
    }
    assert!(thief.captured().is_empty() && fake.captured().is_empty());
}

#[test]
fn trust_is_given_to_a_folder_as_it_is_and_ends_when_it_changes() {
    let fake = FakeProvider::always(Kind::Groq, Reply::text("yours"));
    let home = Home::new().set("GROQ_API_KEY", fake.key());
    home.write("assize.toml", &format!("[groq]\nbase_url = \"{}/\"\n", fake.base_url()));
    assert_eq!(home.run(&["ask", "Why?"]).code, 3);
    let given = home.run(&["config", "trust"]);
    assert_eq!(given.code, 0);
    assert!(
        given.err.contains("trusted: ~/work") && given.err.contains("groq.base_url = http://127"),
        "{}",
        given.err
    );
    assert_eq!(home.run(&["ask", "Why?"]).out, "yours\n");
    home.write(
        "assize.toml",
        &format!("[groq]\nbase_url = \"{}\"\nmodel = \"openai/gpt-oss-20b\"\n", fake.base_url()),
    );
    let changed = home.run(&["ask", "Why?"]);
    assert_eq!(changed.code, 3);
    assert!(changed.err.contains("its files have changed since"), "{}", changed.err);
    home.run(&["config", "trust", "."]);
    assert_eq!(home.run(&["ask", "Why?"]).code, 0);
    assert!(home.run(&["config", "distrust"]).err.contains("no longer trusted"));
    assert_eq!(home.run(&["ask", "Why?"]).code, 3);
    assert_eq!(home.run(&["config", "trust", "nowhere"]).code, 2);
}

#[test]
fn a_harmless_project_file_needs_no_trust_and_counts_in_its_subfolders() {
    let fake = FakeProvider::always(Kind::Groq, Reply::text("yours"));
    let home = Home::with(Kind::Groq, &fake);
    home.write("assize.toml", "max_output_tokens = 77\n");
    home.write("deep/er/.keep", "");
    let mut command = home.command(&["ask", "Why?"]);
    let output = command.current_dir(home.work().join("deep/er")).output().unwrap();
    assert!(output.status.success());
    assert_eq!(fake.only_request().body["max_completion_tokens"], 77);
    // Above the root of a repository nothing counts.
    fs::create_dir_all(home.work().join("deep/.git")).unwrap();
    home.command(&["ask", "Why?"]).current_dir(home.work().join("deep/er")).output().unwrap();
    assert_eq!(fake.captured()[1].body["max_completion_tokens"], 4096);
}

#[test]
fn wrong_settings_are_told_with_line_and_nearest_key() {
    let home = Home::new();
    home.write("assize.toml", "provider = \"rehearsal\"\n\n[anthropic]\nmodle = \"x\"\n");
    let wrong = home.run(&["ask", "Why?"]);
    assert_eq!(wrong.code, 3);
    assert_eq!(
        wrong.err,
        "error: assize.toml:4: unknown setting `anthropic.modle`\n\nhint: the nearest setting is `anthropic.model`\n"
    );
    home.write("assize.toml", "[openai]\napi_key = \"sk-0123456789abcdef\"\n");
    let literal = home.run(&["config", "show"]);
    assert_eq!(literal.code, 3);
    assert!(literal.err.contains("assize.toml:2: `openai.api_key` holds a key"), "{}", literal.err);
    assert!(
        literal.err.contains("export OPENAI_API_KEY=…") && !literal.err.contains("0123456789"),
        "{}",
        literal.err
    );
    home.write("assize.toml", "");
    let variable =
        Home { variables: vec![("ASSIZE_GATEWAY_RETRIES".into(), "many".into())], ..home };
    let wrong = variable.run(&["ask", "Why?"]);
    assert_eq!(
        (wrong.code, wrong.err.as_str()),
        (
            3,
            "error: environment, ASSIZE_GATEWAY_RETRIES: wants a whole number from 0 to 20, not `many`\n"
        )
    );
}

#[test]
fn a_settings_file_that_cannot_be_read_is_told() {
    let home = Home::new();
    fs::create_dir(home.work().join("assize.toml")).unwrap();
    let folder = home.run(&["ask", "Why?"]);
    assert_eq!(folder.code, 3);
    assert!(folder.err.contains("assize.toml`: "), "{}", folder.err);
    fs::remove_dir(home.work().join("assize.toml")).unwrap();
    home.write("assize.toml", &"#".repeat(2_000_000));
    assert!(home.run(&["ask", "Why?"]).err.contains("larger than 1 MiB"));
    fs::write(home.work().join("assize.toml"), b"provider = \"\xff\"").unwrap();
    assert!(home.run(&["ask", "Why?"]).err.contains("not UTF-8"));
}

#[test]
fn doctor_tells_who_is_there_and_who_is_used() {
    let fake = FakeProvider::scripted(Kind::Google, []);
    let home = Home::with(Kind::Google, &fake);
    let Ran { code, out, err } = home.run(&["doctor"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("✓ google") && out.contains("← used"), "{out}");
    assert!(out.contains("key …cdef from environment, GEMINI_API_KEY"), "{out}");
    assert!(out.contains("– anthropic") && out.contains("no key; set ANTHROPIC_API_KEY"), "{out}");
    assert!(out.contains("✗ ollama") && out.contains("cannot be reached"), "{out}");
    assert!(out.contains("looked for in this order: --provider"), "{out}");

    let several = Home::with(Kind::Google, &fake)
        .set("OPENAI_API_KEY", "wrong")
        .set("OPENAI_BASE_URL", fake.base_url());
    let both = several.run(&["doctor", "--json"]);
    assert_eq!(both.code, 4, "the one that is used fails");
    let json: Value = serde_json::from_str(&both.out).unwrap();
    assert_eq!(
        (&json["used"], &json["providers"][1]["state"]),
        (&"openai".into(), &"fails".into())
    );

    let none = Home::new().run(&["doctor", "--offline"]);
    assert_eq!(none.code, 0);
    assert!(none.out.contains("In use: rehearsal, no model was asked"), "{}", none.out);
}

#[test]
fn an_ollama_that_answers_is_used_before_the_rehearsal() {
    let fake = FakeProvider::scripted(Kind::Ollama, [Reply::text("local")]);
    let home = Home::new().set("OLLAMA_HOST", fake.base_url());
    assert_eq!(home.run(&["ask", "Why?"]).out, "local\n");
}

#[test]
fn logs_are_structured_and_keep_secrets() {
    let fake = FakeProvider::always(Kind::Anthropic, Reply::text("classified answer"));
    let home = Home::with(Kind::Anthropic, &fake);
    let question = format!("secret question {}", "x".repeat(200));
    let json =
        home.run(&["ask", &question, "--quiet", "--log-level", "info", "--log-format", "json"]);
    let lines: Vec<Value> =
        json.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<&str> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["Agent workflow started", "Agent workflow completed"]);
    assert_eq!(lines[0]["task"].as_str().unwrap().chars().count(), 100);
    assert_eq!((&lines[1]["success"], &lines[1]["attempts"]), (&true.into(), &1.into()));

    let debug = home.run(&["ask", &question, "--quiet", "--log-level", "debug"]).err;
    assert!(debug.contains("gen_ai.usage.input_tokens=1000"), "{debug}");
    assert!(!debug.contains(&"x".repeat(150)) && !debug.contains("classified answer"), "{debug}");
    let trace = home.run(&["ask", &question, "--quiet", "--log-level", "trace"]).err;
    assert!(trace.contains(&"x".repeat(150)) && trace.contains("classified answer"), "{trace}");
    assert!(!trace.contains(fake.key()), "keys never");
    assert_eq!(home.run(&["ask", &question, "--quiet"]).err, "");
}

#[test]
fn retries_are_told_to_the_one_who_waits() {
    let wait = vec![("retry-after", "0".to_owned())];
    let script = [
        Reply::Status(429, wait, r#"{"error":{"message":"slow\u001b[31m down"}}"#.into()),
        Reply::text("fine"),
    ];
    let fake = FakeProvider::scripted(Kind::Anthropic, script);
    let Ran { code, out, err } = Home::with(Kind::Anthropic, &fake).run(&["ask", "Why?"]);
    assert_eq!((code, out.as_str()), (0, "fine\n"));
    assert!(
        err.contains(
            "anthropic answered 429 (rate limited): slow [31m down; trying again in 0.0 s"
        ),
        "{err}"
    );
    assert!(err.contains("2 attempts"), "{err}");
}

#[test]
fn completions_and_version() {
    let home = Home::new();
    assert_eq!(home.run(&["--version"]).out, format!("assize {}\n", env!("CARGO_PKG_VERSION")));
    for shell in ["bash", "zsh", "fish"] {
        let script = home.run(&["completions", shell]).out;
        assert!(script.contains("assize") && script.contains("max-cost"), "{shell}");
    }
    let check = Command::new("bash")
        .arg("-n")
        .arg(home.write("c.bash", &home.run(&["completions", "bash"]).out))
        .status()
        .unwrap();
    assert!(check.success());
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let fake = FakeProvider::always(Kind::Anthropic, Reply::text("line\n".repeat(100_000)));
    let home = Home::with(Kind::Anthropic, &fake);
    let script = "set -o pipefail; \"$0\" ask Why? --quiet | head -n 1";
    let output = Command::new("bash")
        .arg("-c")
        .arg(script)
        .arg(env!("CARGO_BIN_EXE_assize"))
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("HOME", home.folder.path())
        .envs(home.variables.iter().map(|(n, v)| (n, v)))
        .output()
        .unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice(), output.stderr.as_slice()),
        (Some(0), b"line\n".as_slice(), b"".as_slice())
    );
}
