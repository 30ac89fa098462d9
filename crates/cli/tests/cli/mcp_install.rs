//! Tests of `assize mcp install`: which configuration file of each client is edited, and that the edit preserves all
//! other content of the file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};
use toml_edit::DocumentMut;

use crate::Home;
use crate::drafts::{StdioMcpClient, home_with_project};

/// Clients with a JSON file: name of the client, path of the file in the home folder, name of the object that contains
/// the servers, and variable for the project folder (empty if an entry contains the folder's path).
const JSON_CLIENTS: [(&str, &str, &str, &str); 5] = [
    ("claude-code", "work/.mcp.json", "mcpServers", "${CLAUDE_PROJECT_DIR:-.}"),
    ("claude-desktop", ".config/Claude/claude_desktop_config.json", "mcpServers", ""),
    ("cursor", "work/.cursor/mcp.json", "mcpServers", "${workspaceFolder}"),
    ("vscode", "work/.vscode/mcp.json", "servers", "${workspaceFolder}"),
    ("zed", ".config/zed/settings.json", "context_servers", ""),
];

fn write(home: &Home, path: &str, text: &str) {
    let path = home.folder.path().join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Starts the MCP server with the command of an entry, as a client does, and asserts that the server offers `tool`.
/// `variable` is the client's variable for the project folder.
fn assert_entry_starts(home: &Home, entry: &Value, variable: &str, tool: &str) {
    assert_eq!(entry["command"], env!("CARGO_BIN_EXE_assize"), "{entry}");
    let folder = home.work_folder().display().to_string();
    let words = entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let args: Vec<String> =
        words.map(|word| if word == variable { folder.clone() } else { word.to_owned() }).collect();
    assert_eq!(args[0], "mcp", "{entry}");
    let args: Vec<&str> = args[1..].iter().map(String::as_str).collect();
    let mut client = StdioMcpClient::start_with_args(home, &args);
    let listed = client.send_request("tools/list", json!({}));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert!(tools.iter().any(|listed| listed["name"] == tool), "{listed}");
    assert_eq!(client.close().code, 0);
}

#[test]
fn installed_entry_starts_the_draft_tools_in_each_json_client() {
    let home = home_with_project();
    for (client, file, servers, variable) in JSON_CLIENTS {
        let done = home.run(&["mcp", "install", client]);
        assert_eq!(done.code, 0, "{client}: {}", done.err);
        let config: Value = serde_json::from_str(&home.text(file)).unwrap();
        let entry = &config[servers]["assize"];
        assert_entry_starts(&home, entry, variable, "ollama_submit_draft");
        let has_type = ["claude-code", "vscode"].contains(&client);
        assert_eq!(entry["type"], if has_type { json!("stdio") } else { Value::Null }, "{client}");
    }
}

#[test]
fn installed_entry_starts_the_draft_tools_in_codex() {
    let home = home_with_project();
    let done = home.run(&["mcp", "install", "codex", "--review", "always"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let config: DocumentMut = home.text(".codex/config.toml").parse().unwrap();
    let entry = &config["mcp_servers"]["assize"];
    let args: Vec<&str> =
        entry["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let entry = json!({"command": entry["command"].as_str().unwrap(), "args": args});
    assert_eq!(&args[3..], ["--review", "always"]);
    assert_entry_starts(&home, &entry, "", "ollama_submit_draft");
}

#[test]
fn mcp_install_adds_the_code_tool_to_the_users_configuration_file() {
    let home = home_with_project();
    let done = home.run(&["mcp", "install", "claude-code", "--tools", "code", "--name", "sandbox"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let config: Value = serde_json::from_str(&home.text(".claude.json")).unwrap();
    assert_entry_starts(&home, &config["mcpServers"]["sandbox"], "", "run_code");
    assert!(!home.work_folder().join(".mcp.json").exists());
    let mode = fs::metadata(home.folder.path().join(".claude.json")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    for command in [&["mcp", "install", "zed"][..], &["mcp"]] {
        let done = home.run(&[command, &["--tools", "code", "--verify", "make"]].concat());
        assert_eq!(done.code, 2, "{}", done.err);
        assert!(done.err.contains("`--verify` cannot be used with `--tools code`"), "{}", done.err);
    }
}

#[test]
fn mcp_install_preserves_other_entries_and_comments_and_backs_up_the_file() {
    let home = home_with_project();
    let json = "// servers of the team\n{\n  \"inputs\": [], // none\n  \"servers\": {\n    \"other\": {\"command\": \"other\"},\n  },\n}\n";
    write(&home, "work/.vscode/mcp.json", json);
    let done = home.run(&["mcp", "install", "vscode", "--verify", "python3 -m pytest -q"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let shown = home.text("work/.vscode/mcp.json").replace(env!("CARGO_BIN_EXE_assize"), "ASSIZE");
    insta::assert_snapshot!(shown, @r#"
    // servers of the team
    {
      "inputs": [], // none
      "servers": {
        "other": {"command": "other"},
        "assize": {
          "type": "stdio",
          "command": "ASSIZE",
          "args": ["mcp", "--workspace", "${workspaceFolder}", "--verify", "python3 -m pytest -q"],
        },
      },
    }
    "#);
    assert_eq!(home.text("work/.vscode/mcp.json.assize-backup"), json);
    insta::assert_snapshot!(done.err, @r#"
    added `assize` to `~/work/.vscode/mcp.json`
    the previous text of the file is in `~/work/.vscode/mcp.json.assize-backup`
    restart VS Code to load the new entry
    the editor's own tools can still edit files; disable these tools in the editor's settings for agents
    "#);

    let toml = "model = \"some\" # mine\n\n[mcp_servers.other]\ncommand = \"other\"\n\n[tui]\ntheme = \"dark\"\n";
    write(&home, ".codex/config.toml", toml);
    let done = home.run(&["mcp", "install", "codex"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let shown = home
        .text(".codex/config.toml")
        .replace(env!("CARGO_BIN_EXE_assize"), "ASSIZE")
        .replace(&home.folder.path().display().to_string(), "~");
    insta::assert_snapshot!(shown, @r#"
    model = "some" # mine

    [mcp_servers.other]
    command = "other"

    [mcp_servers.assize]
    command = "ASSIZE"
    args = ["mcp", "--workspace", "~/work"]

    [tui]
    theme = "dark"
    "#);
    assert_eq!(home.text(".codex/config.toml.assize-backup"), toml);
}

#[test]
fn mcp_install_replaces_an_entry_of_the_same_name_only_with_the_force_flag() {
    let home = home_with_project();
    for (client, file, conflicting) in [
        ("cursor", "work/.cursor/mcp.json", r#"{"mcpServers": {"assize": {"command": "mine"}}}"#),
        ("codex", ".codex/config.toml", "mcp_servers = { assize = { command = \"mine\" } }\n"),
    ] {
        write(&home, file, conflicting);
        let refused = home.run(&["mcp", "install", client]);
        assert_eq!(refused.code, 2, "{client}: {}", refused.err);
        assert!(
            refused.err.contains("already has another entry named `assize`"),
            "{}",
            refused.err
        );
        assert!(
            refused.err.contains("--force") && refused.err.contains("--name"),
            "{}",
            refused.err
        );
        assert_eq!(home.text(file), conflicting);
        let second = home.run(&["mcp", "install", client, "--name", "second"]);
        assert_eq!(second.code, 0, "{client}: {}", second.err);
        let forced = home.run(&["mcp", "install", client, "--force"]);
        assert_eq!(forced.code, 0, "{client}: {}", forced.err);
        let now = home.text(file);
        assert!(now.contains("second") && !now.contains("mine"), "{now}");
        // The same entry again changes nothing, and keeps the copy of the previous text.
        let copy = home.text(&format!("{file}.assize-backup"));
        let again = home.run(&["mcp", "install", client]);
        assert_eq!(again.code, 0, "{client}: {}", again.err);
        assert!(again.err.contains("already has this entry"), "{}", again.err);
        assert_eq!(home.text(file), now);
        assert_eq!(home.text(&format!("{file}.assize-backup")), copy);
    }
}

#[test]
fn mcp_install_refuses_an_invalid_configuration_file_and_leaves_it_unchanged() {
    let home = home_with_project();
    for (client, file, broken) in [
        ("claude-code", "work/.mcp.json", "{\"mcpServers\": {"),
        ("claude-code", "work/.mcp.json", "[]"),
        ("zed", ".config/zed/settings.json", "{\"context_servers\": 3}"),
        ("codex", ".codex/config.toml", "mcp_servers = 3"),
        ("codex", ".codex/config.toml", "[mcp_servers"),
    ] {
        write(&home, file, broken);
        let done = home.run(&["mcp", "install", client]);
        assert_eq!(done.code, 3, "{client} {broken}: {}", done.err);
        assert!(done.err.contains("cannot edit `~/"), "{}", done.err);
        assert!(done.err.contains("--print"), "{}", done.err);
        assert_eq!(home.text(file), broken);
    }
}

#[test]
fn mcp_install_refuses_symlinks_in_a_project_and_follows_symlinks_of_the_user() {
    let home = home_with_project();
    write(&home, "secret.json", "{}");
    symlink(home.folder.path().join("secret.json"), home.work_folder().join(".mcp.json")).unwrap();
    fs::create_dir(home.folder.path().join("elsewhere")).unwrap();
    symlink(home.folder.path().join("elsewhere"), home.work_folder().join(".vscode")).unwrap();
    for client in ["claude-code", "vscode"] {
        let refused = home.run(&["mcp", "install", client]);
        assert_eq!(refused.code, 2, "{client}: {}", refused.err);
        assert!(refused.err.contains("is a symlink"), "{}", refused.err);
    }
    assert_eq!(home.text("secret.json"), "{}");
    assert_eq!(fs::read_dir(home.folder.path().join("elsewhere")).unwrap().count(), 0);

    write(&home, "dotfiles/zed.json", "{}");
    fs::create_dir_all(home.folder.path().join(".config/zed")).unwrap();
    let link = home.folder.path().join(".config/zed/settings.json");
    symlink(home.folder.path().join("dotfiles/zed.json"), &link).unwrap();
    let done = home.run(&["mcp", "install", "zed"]);
    assert_eq!(done.code, 0, "{}", done.err);
    assert!(link.is_symlink());
    assert!(home.text("dotfiles/zed.json").contains("context_servers"));
}

#[test]
fn mcp_install_with_the_print_flag_prints_the_entry_and_changes_no_file() {
    let home = home_with_project();
    let printed = home.run(&["mcp", "install", "claude-code", "--print"]);
    assert_eq!(printed.code, 0, "{}", printed.err);
    let config: Value = serde_json::from_str(&printed.out).unwrap();
    assert_entry_starts(
        &home,
        &config["mcpServers"]["assize"],
        "${CLAUDE_PROJECT_DIR:-.}",
        "ollama_submit_draft",
    );
    assert!(printed.err.contains("entry for `~/work/.mcp.json`:"), "{}", printed.err);
    assert!(!home.work_folder().join(".mcp.json").exists());
    let unknown = home.run(&["mcp", "install", "emacs"]);
    assert_eq!(unknown.code, 2, "{}", unknown.err);
    let missing = home.run(&["mcp", "install", "zed", "--workspace", "nowhere"]);
    assert_eq!(missing.code, 2, "{}", missing.err);
    assert!(missing.err.contains("cannot open the workspace"), "{}", missing.err);
}
