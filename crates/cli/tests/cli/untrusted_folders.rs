//! Tests of attacks on the user by an untrusted project folder or by a provider: stolen keys, looser limits, terminal
//! control codes, leaked secrets.

use std::fs;
use std::process::Command;

use assize_testkit::{FakeKind, FakeProvider, FakeReply};

use crate::{CommandOutput, Home};

#[test]
fn untrusted_folder_cannot_redirect_an_api_key_or_change_the_budget() {
    let fake = FakeProvider::always(FakeKind::OpenAi, FakeReply::text("yours"));
    let thief = FakeProvider::scripted(FakeKind::OpenAi, []);
    let home = Home::with_fake_provider(FakeKind::OpenAi, &fake);
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
    assert!(thief.captured_requests().is_empty() && fake.captured_requests().is_empty());
}

#[test]
fn untrusted_folder_can_lower_limits_but_not_raise_them() {
    let fake = FakeProvider::always(FakeKind::Groq, FakeReply::text("yours"));
    let home = Home::with_fake_provider(FakeKind::Groq, &fake);
    let user = home.folder.path().join(".config/assize/config.toml");
    fs::create_dir_all(user.parent().unwrap()).unwrap();
    fs::write(
        &user,
        "provider = \"groq\"\nmax_output_tokens = 300\n[groq]\nmodel = \"openai/gpt-oss-20b\"\n",
    )
    .unwrap();
    for text in [
        "max_output_tokens = 301\n",
        "[gateway]\nretries = 20\n",
        "[groq]\nconcurrency = 999\n",
        "[log]\nlevel = \"trace\"\n",
        "[gateway]\ntimeout_seconds = 1\n",
    ] {
        home.write("assize.toml", text);
        let refused = home.run(&["ask", "Why?"]);
        assert_eq!(refused.code, 3, "{text}{}", refused.err);
        assert!(!refused.err.contains("TRACE"), "{}", refused.err);
    }
    assert!(fake.captured_requests().is_empty());
    // A folder needs no trust to lower a limit, or to set a value that the user's own settings contain, too.
    home.write(
        "assize.toml",
        "provider = \"groq\"\nmax_output_tokens = 200\n[gateway]\nretries = 0\n",
    );
    let CommandOutput { code, err, .. } = home.run(&["ask", "Why?"]);
    assert!(code == 0 && !err.contains("trust"), "{err}");
    assert_eq!(fake.only_request().body["max_completion_tokens"], 200);
}

#[test]
fn provider_and_model_of_an_untrusted_folder_are_ignored_with_a_warning() {
    let yours = FakeProvider::always(FakeKind::Groq, FakeReply::text("yours"));
    let theirs = FakeProvider::always(FakeKind::OpenRouter, FakeReply::text("theirs"));
    // The user has API keys for both providers, so the first provider is used with its default model.
    let home = Home::with_fake_provider(FakeKind::Groq, &yours)
        .set("OPENROUTER_API_KEY", theirs.key())
        .set("OPENROUTER_BASE_URL", theirs.base_url());
    let model = "openai/gpt-oss-120b";
    for (file, text, key, source) in [
        ("assize.toml", "provider = \"openrouter\"\n", "provider", "assize.toml:1"),
        ("assize.toml", "provider = \"rehearsal\"\n", "provider", "assize.toml:1"),
        ("assize.toml", "model = \"stranger/logs-all\"\n", "model", "assize.toml:1"),
        ("assize.toml", "[groq]\nmodel = \"stranger\"\n", "groq.model", "assize.toml:2"),
        (".env", "ASSIZE_PROVIDER=openrouter\n", "provider", ".env, ASSIZE_PROVIDER"),
        (".env", "ASSIZE_MODEL=stranger\n", "model", ".env, ASSIZE_MODEL"),
        (".env", "ASSIZE_GROQ_MODEL=stranger\n", "groq.model", ".env, ASSIZE_GROQ_MODEL"),
    ] {
        let path = home.write(file, text);
        let CommandOutput { code, out, err } = home.run(&["ask", "Why?", "--quiet"]);
        assert_eq!((code, out.as_str()), (0, "yours\n"), "{text}{err}");
        assert_eq!(yours.captured_requests().last().unwrap().body["model"], model, "{text}");
        let warned = format!("`{key}` ({source}) is ignored: the folder is not trusted;");
        assert!(err.contains(&warned) && err.contains("`assize config trust`"), "{text}{err}");
        let shown = home.run(&["config", "show"]).out;
        let line = shown.lines().find(|line| line.contains("ignored: the folder is not trusted"));
        let line = line.unwrap();
        assert!(line.starts_with(&format!("{key} ")) && line.contains(source), "{line}");
        let shown = home.run(&["config", "show", "--json"]).out;
        let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(shown["withheld"][0]["ignored"], true, "{shown}");
        assert_eq!(shown["withheld"][0]["why"], "the folder is not trusted", "{shown}");
        assert!(shown["settings"][key]["source"] != source, "{shown}");
        let examined = home.run(&["doctor", "--offline"]).out;
        assert!(examined.contains(&warned) && examined.contains("In use: groq"), "{examined}");
        // The user's own flags need no trust and give no warning.
        let own = home.run(&["ask", "Why?", "--provider", "groq", "--model", model]);
        assert!(own.out == "yours\n" && !own.err.contains("ignored"), "{}", own.err);
        fs::remove_file(path).unwrap();
    }
    assert!(theirs.captured_requests().is_empty());
    home.write("assize.toml", "provider = \"openrouter\"\nmodel = \"a/b\"\n");
    let warning = home.run(&["ask", "Why?"]).err;
    let both = "`provider` (assize.toml:1), `model` (assize.toml:2) are ignored: ";
    assert!(warning.contains(both), "{warning}");
    // The settings of a trusted folder select the provider, until the files of the folder change.
    let given = home.run(&["config", "trust"]).err;
    assert!(given.contains("provider = openrouter") && given.contains("model = a/b"), "{given}");
    let CommandOutput { out, err, .. } = home.run(&["ask", "Why?"]);
    assert!(out == "theirs\n" && !err.contains("trust"), "{err}");
    assert_eq!(theirs.only_request().body["model"], "a/b");
    home.write("assize.toml", "provider = \"openrouter\"\nmodel = \"a/c\"\n");
    let CommandOutput { out, err, .. } = home.run(&["ask", "Why?"]);
    assert!(
        out == "yours\n"
            && err.contains("are ignored: the folder's `assize.toml` or `.env` has changed"),
        "{err}"
    );
}

#[test]
fn api_key_in_an_untrusted_env_file_does_not_override_the_users_key() {
    let yours = FakeProvider::always(FakeKind::Groq, FakeReply::text("yours"));
    let home = Home::with_fake_provider(FakeKind::Groq, &yours);
    home.write(".env", "ANTHROPIC_API_KEY=stranger\n");
    let CommandOutput { code, out, err } = home.run(&["ask", "Why?"]);
    assert_eq!((code, out.as_str()), (0, "yours\n"), "{err}");
    home.run(&["config", "trust"]);
    let examined = home.run(&["doctor", "--offline"]).out;
    assert!(examined.contains("In use: anthropic"), "{examined}");
}

#[test]
fn config_trust_shows_settings_that_the_environment_overrides() {
    let home = Home::new().set("OPENAI_BASE_URL", "https://api.openai.com/v1");
    home.write("assize.toml", "[openai]\nbase_url = \"http://127.0.0.1:9/steal\"\n");
    let shown = home.run(&["config", "trust"]).err;
    assert!(shown.contains("openai.base_url = http://127.0.0.1:9/steal"), "{shown}");
}

/// While the command runs, a thread repeatedly replaces the settings file of a trusted folder by a hostile file and
/// restores the trusted file.
#[test]
fn settings_file_swapped_after_the_trust_check_is_not_used() {
    let thief = FakeProvider::scripted(FakeKind::OpenAi, []);
    let home = Home::new().set("OPENAI_API_KEY", thief.key()).set("ASSIZE_GATEWAY_RETRIES", "0");
    let good = "temperature = 0.5\n".to_owned();
    let evil = format!("{good}[openai]\nbase_url = \"{}\"\n", thief.base_url());
    let file = home.write("assize.toml", &good);
    assert_eq!(home.run(&["config", "trust"]).code, 0);
    let (stop, folder) =
        (std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)), home.work_folder());
    let swapper = std::thread::spawn({
        let stop = std::sync::Arc::clone(&stop);
        move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                for text in [&good, &evil] {
                    fs::write(folder.join("next"), text).unwrap();
                    fs::rename(folder.join("next"), &file).unwrap();
                }
            }
        }
    });
    for _ in 0..40 {
        let shown = home.run(&["config", "show", "--only", "set"]);
        assert!(
            !shown.out.contains(&format!("openai.base_url  {}", thief.base_url())),
            "{}",
            shown.out
        );
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapper.join().unwrap();
}

#[test]
fn control_codes_in_settings_and_json_answers_are_escaped() {
    let home = Home::new();
    for (file, text) in [
        ("assize.toml", "[anthropic]\nmodel = \"\\u001b]0;PWNED\\u0007\"\n".to_owned()),
        (
            "assize.toml",
            "[prices.\"\\u001b[1A\\u001b[2Khidden\"]\ninput = 1\noutput = 1\n".to_owned(),
        ),
        (".env", "GROQ_API_KEY=aaaaaaaaaaaaaaaaaaaa\u{1b}[2J\nASSIZE_MODEL=\u{1b}[2J\n".to_owned()),
    ] {
        let path = home.write(file, &text);
        for args in [["doctor", "--offline"], ["config", "show"], ["config", "trust"]] {
            let CommandOutput { out, err, .. } = home.run(&args);
            assert!(!out.contains('\u{1b}') && !err.contains('\u{1b}'), "{args:?}: {out}{err}");
        }
        fs::remove_file(path).unwrap();
    }
    // JSON output also escapes control characters that JSON itself allows but a terminal may interpret.
    let fake = FakeProvider::always(FakeKind::Groq, FakeReply::text("a\u{9b}5m\u{202e}b\u{7f}"));
    let shown = Home::with_fake_provider(FakeKind::Groq, &fake).run(&["ask", "Why?", "--json"]).out;
    assert!(shown.contains("a\\u009b5m\\u202eb\\u007f"), "{shown}");
}

#[test]
fn requests_to_loopback_addresses_bypass_proxies() {
    let fake = FakeProvider::always(FakeKind::OpenAi, FakeReply::text("direct"));
    let proxy = FakeProvider::scripted(FakeKind::OpenAi, []);
    let address = proxy.base_url().replace("/v1", "");
    let home = Home::with_fake_provider(FakeKind::OpenAi, &fake);
    let home =
        home.set("http_proxy", &address).set("HTTP_PROXY", &address).set("ALL_PROXY", &address);
    assert_eq!(home.run(&["ask", "Why?"]).out, "direct\n");
    assert!(proxy.captured_requests().is_empty());
}

#[test]
fn secrets_in_invalid_settings_are_not_printed() {
    let secret = "sk-0123456789abcdef0123";
    let home = || Home::new().set("ASSIZE_PROVIDER", "openai");
    for (variable, value) in [
        ("ASSIZE_OPENAI_KEY_ENV", secret.to_owned()),
        ("OPENAI_BASE_URL", secret.to_owned()),
        ("OPENAI_BASE_URL", format!("http://user:{secret}@127.0.0.1:9/v1")),
        ("OPENAI_BASE_URL", format!("http://127.0.0.1:9/v1?key={secret}")),
        ("ASSIZE_OPENAI_KEY", secret.to_owned()),
    ] {
        for args in [["ask", "Why?"], ["config", "show"], ["doctor", "--offline"]] {
            let CommandOutput { out, err, .. } = home().set(variable, value.clone()).run(&args);
            assert!(
                !out.contains("0123456789") && !err.contains("0123456789"),
                "{variable}: {out}{err}"
            );
        }
    }
    let err = home().set("ASSIZE_OPENAI_KEY", secret).run(&["ask", "Why?"]).err;
    assert!(err.contains("put the API key into `OPENAI_API_KEY`"), "{err}");
    let file = home();
    file.write("assize.toml", &format!("{secret} = 1\n"));
    assert!(!file.run(&["ask", "Why?"]).err.contains("0123456789"));
    for nonsense in ["inf", "1e30", "NaN", "-1"] {
        assert_eq!(Home::new().run(&["ask", "Why?", &format!("--max-cost={nonsense}")]).code, 2);
    }
}

#[test]
fn api_key_echoed_by_a_provider_is_masked_in_output_cassette_and_log() {
    let echo = "you sent sk-test-0123456789abcdef";
    let fake = FakeProvider::always(FakeKind::Groq, FakeReply::text(echo));
    let home = Home::with_fake_provider(FakeKind::Groq, &fake);
    let ran = home.run(&["ask", "Why?", "--record", "cassette", "--log-level", "trace"]);
    assert_eq!(ran.out, "you sent ***\n");
    let cassette = fs::read_to_string(home.work_folder().join("cassette")).unwrap();
    assert!(!cassette.contains("0123456789") && !ran.err.contains("0123456789"), "{}", ran.err);
}

#[test]
fn named_pipes_and_huge_files_do_not_block_commands() {
    let home = Home::new();
    let pipe = |name: &str| {
        let made = Command::new("mkfifo").arg(home.work_folder().join(name)).status().unwrap();
        assert!(made.success());
    };
    pipe("cassette");
    assert_eq!(home.run(&["ask", "Why?", "--replay", "cassette"]).code, 2);
    pipe("assize.toml");
    assert_eq!(home.run(&["config", "show"]).code, 3);
    fs::remove_file(home.work_folder().join("assize.toml")).unwrap();
    pipe(".env");
    assert_eq!(
        home.run(&["ask", "Why?"]).code,
        0,
        "a `.env` that is not a regular file must be ignored"
    );
    let sparse = fs::File::create(home.work_folder().join("big")).unwrap();
    sparse.set_len(3 << 30).unwrap();
    assert_eq!(home.run(&["ask", "Why?", "--replay", "big"]).code, 2);
}

#[test]
fn trust_in_a_folder_ends_when_its_files_change() {
    let fake = FakeProvider::always(FakeKind::Groq, FakeReply::text("yours"));
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
    assert!(changed.err.contains("has changed since you trusted the folder"), "{}", changed.err);
    home.run(&["config", "trust", "."]);
    assert_eq!(home.run(&["ask", "Why?"]).code, 0);
    assert!(home.run(&["config", "distrust"]).err.contains("no longer trusted"));
    assert_eq!(home.run(&["ask", "Why?"]).code, 3);
    assert_eq!(home.run(&["config", "trust", "nowhere"]).code, 2);
}

#[test]
fn harmless_project_settings_need_no_trust_and_apply_to_subfolders() {
    let fake = FakeProvider::always(FakeKind::Groq, FakeReply::text("yours"));
    let home = Home::with_fake_provider(FakeKind::Groq, &fake);
    home.write("assize.toml", "max_output_tokens = 77\n");
    home.write("deep/er/.keep", "");
    let mut command = home.command(&["ask", "Why?"]);
    let output = command.current_dir(home.work_folder().join("deep/er")).output().unwrap();
    assert!(output.status.success());
    assert_eq!(fake.only_request().body["max_completion_tokens"], 77);
    // Settings files above the root folder of a Git repository are ignored.
    fs::create_dir_all(home.work_folder().join("deep/.git")).unwrap();
    home.command(&["ask", "Why?"])
        .current_dir(home.work_folder().join("deep/er"))
        .output()
        .unwrap();
    assert_eq!(fake.captured_requests()[1].body["max_completion_tokens"], 4096);
}

#[test]
fn api_key_from_an_untrusted_env_file_is_used_with_a_warning() {
    let fake = FakeProvider::always(FakeKind::Groq, FakeReply::text("yours"));
    let home = Home::new().set("GROQ_BASE_URL", fake.base_url());
    home.write(".env", &format!("GROQ_API_KEY={}\n", fake.key()));
    let ran = home.run(&["ask", "Why?"]);
    assert_eq!(ran.out, "yours\n");
    assert!(ran.err.contains("calling groq with the key from .env, GROQ_API_KEY"), "{}", ran.err);
    home.run(&["config", "trust"]);
    assert!(!home.run(&["ask", "Why?"]).err.contains("not trusted"));
}
