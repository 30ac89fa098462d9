//! Tests of settings and their sources, `assize doctor`, log output, and shell completions.

use std::fs;
use std::process::Command;

use assize_testkit::{FakeKind, FakeProvider, FakeReply};
use serde_json::Value;

use crate::{CommandOutput, Home};

#[test]
fn estimate_for_an_unknown_model_needs_a_price_in_the_settings() {
    let fake = FakeProvider::scripted(FakeKind::OpenRouter, []);
    let home = Home::with_fake_provider(FakeKind::OpenRouter, &fake);
    let ask = |home: &Home| home.run(&["ask", "Why?", "--estimate", "--model", "some/model.v1"]);
    let estimate = |home: &Home| ask(home).out;
    let unknown = ask(&home);
    assert!(
        unknown.out.contains("tokens in and") && unknown.out.contains(": cost unknown\n"),
        "{}",
        unknown.out
    );
    assert_eq!(unknown.code, 3, "{}", unknown.err);
    assert!(
        unknown.err.contains(
            "error: cannot estimate the cost: the price of `some/model.v1` (openrouter) is unknown"
        ) && unknown.err.contains("`[prices.\"some/model.v1\"]` with `input` and `output`"),
        "{}",
        unknown.err
    );
    let json = home.run(&["ask", "Why?", "--estimate", "--json", "--model", "some/model.v1"]);
    assert_eq!(json.code, 3);
    let shown: Value = serde_json::from_str(&json.out).unwrap();
    assert!(shown["cost_usd"].is_null() && shown["input_tokens"].is_u64(), "{shown}");
    home.write("move.md", "# Open a second bakery\n\nRent the shop next door.\n");
    let debate = home.run(&["debate", "move.md", "--estimate", "--model", "some/model.v1"]);
    assert_eq!(debate.code, 3, "{}", debate.err);
    assert!(debate.out.contains(": cost unknown; about"), "{}", debate.out);
    assert!(
        debate.err.contains("the price of `some/model.v1` (openrouter) is unknown"),
        "{}",
        debate.err
    );
    let settings = home.folder.path().join(".config/assize/config.toml");
    fs::create_dir_all(settings.parent().unwrap()).unwrap();
    fs::write(&settings, "[prices.\"some/model.v1\"]\ninput = 1.0\noutput = 2.0\n").unwrap();
    assert!(estimate(&home).contains("$0.0020, at most $0.0092"), "{}", estimate(&home));
}

#[test]
fn setting_sources_override_each_other_in_order_of_precedence_and_are_shown() {
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
    let trusted = |home: &Home| assert_eq!(home.run(&["config", "trust"]).code, 0);
    home.write("assize.toml", "\n[groq]\nmodel = \"from-project\"\n");
    trusted(&home);
    assert_eq!(show(&home, "groq.model"), "from-project (assize.toml:3)");
    home.write(".env", "ASSIZE_GROQ_MODEL=from-dotenv\nGROQ_API_KEY=gsk_0123456789abcdef\n");
    trusted(&home);
    assert_eq!(show(&home, "groq.model"), "from-dotenv (.env, ASSIZE_GROQ_MODEL)");
    assert_eq!(show(&home, "groq.key"), "…cdef (.env, GROQ_API_KEY)");
    let home = home.set("ASSIZE_GROQ_MODEL", "from-env");
    assert_eq!(show(&home, "groq.model"), "from-env (environment, ASSIZE_GROQ_MODEL)");
    let flagged =
        home.run(&["ask", "x", "--estimate", "--provider", "groq", "--model", "from-flag"]);
    assert!(flagged.out.contains("cost unknown"), "{}{}", flagged.out, flagged.err);
    let text = home.run(&["config", "show"]).out;
    assert!(!text.contains("0123456789"), "the output contains an unmasked API key: {text}");
}

#[test]
fn concurrency_setting_of_a_local_model_server_has_no_fixed_default() {
    let home = Home::new().set("OPENAI_BASE_URL", "http://127.0.0.1:9/v1");
    let line = |home: &Home, key: &str| {
        let shown = home.run(&["config", "show"]).out;
        shown.lines().find(|line| line.starts_with(key)).unwrap().to_owned()
    };
    for local in ["ollama.concurrency", "openai.concurrency"] {
        let line = line(&home, local);
        assert!(
            line.contains(
                "not set: maximum number of concurrent calls; default for a local server"
            ),
            "{line}"
        );
    }
    let hosted = line(&home, "groq.concurrency");
    assert!(hosted.contains("  16  (default)"), "{hosted}");
    let home = home.set("ASSIZE_OLLAMA_CONCURRENCY", "3");
    let set = line(&home, "ollama.concurrency");
    assert!(set.contains("  3  (environment, ASSIZE_OLLAMA_CONCURRENCY)"), "{set}");
}

#[test]
fn invalid_settings_are_reported_with_line_and_nearest_key() {
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
    assert!(
        literal.err.contains("assize.toml:2: `openai.api_key` contains a secret key"),
        "{}",
        literal.err
    );
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
            "error: environment, ASSIZE_GATEWAY_RETRIES: must be a whole number from 0 to 20, not `many`\n"
        )
    );
}

#[test]
fn unreadable_settings_file_exits_3() {
    let home = Home::new();
    fs::create_dir(home.work_folder().join("assize.toml")).unwrap();
    let folder = home.run(&["ask", "Why?"]);
    assert_eq!(folder.code, 3);
    assert!(folder.err.contains("assize.toml`: "), "{}", folder.err);
    fs::remove_dir(home.work_folder().join("assize.toml")).unwrap();
    home.write("assize.toml", &"#".repeat(2_000_000));
    assert!(home.run(&["ask", "Why?"]).err.contains("larger than 1 MiB"));
    fs::write(home.work_folder().join("assize.toml"), b"provider = \"\xff\"").unwrap();
    assert!(home.run(&["ask", "Why?"]).err.contains("not UTF-8"));
}

#[test]
fn dot_env_that_is_a_folder_or_cannot_be_parsed_is_ignored() {
    let home = Home::new();
    home.write(".env/bin/activate", "a virtual environment");
    assert_eq!(home.run(&["ask", "Why?"]).code, 0);
    fs::remove_dir_all(home.work_folder().join(".env")).unwrap();
    home.write(".env", "CERT=\"-----BEGIN\nMII\n-----END\"\nnot a variable\nOPEN=\"never closed\n");
    assert_eq!(home.run(&["ask", "Why?"]).code, 0);
}

#[test]
fn rehearsal_works_without_system_certificates() {
    let home = Home::new().set("SSL_CERT_FILE", "/nowhere").set("SSL_CERT_DIR", "/nowhere");
    assert_eq!(home.run(&["ask", "Why?"]).code, 0);
    assert_eq!(home.run(&["ask", "Why?", "--provider", "rehearsal"]).code, 0);
}

#[test]
fn doctor_reports_the_state_of_each_provider_and_which_is_used() {
    let fake = FakeProvider::scripted(FakeKind::Google, []);
    let home = Home::with_fake_provider(FakeKind::Google, &fake);
    let CommandOutput { code, out, err } = home.run(&["doctor"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("✓ google") && out.contains("← used"), "{out}");
    assert!(out.contains("key …cdef from environment, GEMINI_API_KEY"), "{out}");
    assert!(out.contains("– anthropic") && out.contains("no key; set ANTHROPIC_API_KEY"), "{out}");
    assert!(out.contains("✗ ollama") && out.contains("cannot be reached"), "{out}");
    assert!(out.contains("selected in this order: --provider"), "{out}");

    let several = Home::with_fake_provider(FakeKind::Google, &fake)
        .set("OPENAI_API_KEY", "wrong")
        .set("OPENAI_BASE_URL", fake.base_url());
    let both = several.run(&["doctor", "--json"]);
    assert_eq!(both.code, 4, "the check of the provider in use must fail");
    let json: Value = serde_json::from_str(&both.out).unwrap();
    assert_eq!(
        (&json["used"], &json["providers"][1]["state"]),
        (&"openai".into(), &"fails".into())
    );

    let none = Home::new().run(&["doctor", "--offline"]);
    assert_eq!(none.code, 0);
    assert!(none.out.contains("In use: rehearsal, which calls no model"), "{}", none.out);
}

#[test]
fn reachable_ollama_is_preferred_to_the_rehearsal_model() {
    let fake = FakeProvider::scripted(FakeKind::Ollama, [FakeReply::text("local")]);
    let home = Home::new().set("OLLAMA_HOST", fake.base_url());
    assert_eq!(home.run(&["ask", "Why?"]).out, "local\n");
}

#[test]
fn log_is_structured_and_contains_prompts_only_at_trace_level() {
    let fake = FakeProvider::always(FakeKind::Anthropic, FakeReply::text("classified answer"));
    let home = Home::with_fake_provider(FakeKind::Anthropic, &fake);
    let question = format!("secret question {}", "x".repeat(200));
    let json =
        home.run(&["ask", &question, "--quiet", "--log-level", "info", "--log-format", "json"]);
    let lines: Vec<Value> =
        json.err.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<&str> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["Agent workflow started", "Agent workflow completed"]);
    assert_eq!(lines[0]["task"].as_str().unwrap().chars().count(), 100);
    assert_eq!((&lines[1]["success"], &lines[1]["attempts"]), (&true.into(), &1.into()));

    home.run(&["ask", "another", "--quiet", "--record", "cassette"]);
    let missed = home.run(&[
        "ask",
        &question,
        "--replay",
        "cassette",
        "--log-level",
        "debug",
        "--log-format",
        "json",
    ]);
    let logged: String = missed.err.lines().filter(|line| line.starts_with('{')).collect();
    assert!(
        logged.contains("the request is not in the cassette") && !logged.contains(&"x".repeat(150)),
        "{logged}"
    );
    let debug = home.run(&["ask", &question, "--quiet", "--log-level", "debug"]).err;
    assert!(debug.contains("gen_ai.usage.input_tokens=1000"), "{debug}");
    assert!(!debug.contains(&"x".repeat(150)) && !debug.contains("classified answer"), "{debug}");
    let trace = home.run(&["ask", &question, "--quiet", "--log-level", "trace"]).err;
    assert!(trace.contains(&"x".repeat(150)) && trace.contains("classified answer"), "{trace}");
    assert!(!trace.contains(fake.key()), "the log contains the API key");
    assert_eq!(home.run(&["ask", &question, "--quiet"]).err, "");
}

#[test]
fn invalid_base_url_exits_3() {
    for address in ["http://host:99999/v1", "http://[x/v1", "ftp://host", "https://"] {
        let home = Home::new().set("OPENAI_API_KEY", "k").set("OPENAI_BASE_URL", address);
        assert_eq!(home.run(&["ask", "Why?"]).code, 3, "{address}");
    }
}

#[test]
fn environment_variable_overrides_its_alias_in_the_env_file() {
    let home = Home::new().set("OPENAI_BASE_URL", "https://right.example/v1");
    home.write(".env", "ASSIZE_OPENAI_BASE_URL=https://wrong.example/v1\n");
    home.run(&["config", "trust"]);
    let shown = home.run(&["config", "show", "--only", "set"]).out;
    assert!(shown.contains("right.example") && !shown.contains("wrong.example"), "{shown}");
}

#[test]
fn version_and_shell_completions_are_printed() {
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
fn api_key_is_read_from_the_variable_named_by_the_settings() {
    let fake = FakeProvider::always(FakeKind::Groq, FakeReply::text("yours"));
    let home =
        Home::new().set("GROQ_BASE_URL", fake.base_url()).set("ASSIZE_GROQ_KEY_ENV", "MY_TOKEN");
    home.write(".env", &format!("MY_TOKEN={}\n", fake.key()));
    assert_eq!(home.run(&["ask", "Why?", "--provider", "groq"]).out, "yours\n");
}

#[test]
fn doctor_shows_limits_of_a_local_model_server_unless_settings_override_them() {
    let props =
        serde_json::json!({"default_generation_settings": {"n_ctx": 2048}, "total_slots": 2});
    let fake = FakeProvider::scripted(FakeKind::OpenAi, []).with_description("/props", props);
    let home =
        Home::with_fake_provider(FakeKind::OpenAi, &fake).set("ASSIZE_OPENAI_MODEL", "smollm2");
    let doctor = home.run(&["doctor"]).out;
    assert!(
        doctor.contains("context window 2,048 tokens; free (local); 2 calls at once"),
        "{doctor}"
    );
    let home =
        home.set("ASSIZE_OPENAI_CONCURRENCY", "5").set("ASSIZE_OPENAI_CONTEXT_WINDOW", "4096");
    let doctor = home.run(&["doctor"]).out;
    assert!(
        doctor.contains("context window 4,096 tokens; free (local); 5 calls at once"),
        "{doctor}"
    );
    // A hosted model behind a local proxy keeps its price and its limits.
    let home = Home::with_fake_provider(FakeKind::OpenAi, &fake);
    let doctor = home.run(&["doctor"]).out;
    assert!(doctor.contains("per million output tokens; 16 calls at once"), "{doctor}");

    let shown = serde_json::json!({"model_info": {"qwen3.context_length": 40960}});
    let fake = FakeProvider::scripted(FakeKind::Ollama, []).with_description("/api/show", shown);
    let doctor = Home::with_fake_provider(FakeKind::Ollama, &fake).run(&["doctor"]).out;
    assert!(
        doctor.contains("context window 40,960 tokens; free (local); 1 call at once"),
        "{doctor}"
    );
}
