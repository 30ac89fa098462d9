//! `assize mcp install`: adds the MCP server to the configuration file of a client, in the format that the client
//! documents.

use std::path::{Path, PathBuf};

use assize_config::Environment;
use assize_types::{Failure, FailureKind};
use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use serde_json::Value;
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table};

use crate::args::{McpClient, McpInstallArgs};
use crate::drafts::workspace;
use crate::file_edit::{EditedFile, FileEdit};
use crate::hints;
use crate::installation::InstallationKind;
use crate::terminal::{note, out_line, replace_control_chars};

/// Configuration file of a client.
struct ClientConfig {
    path: PathBuf,
    /// Folder of the project that contains the file. `None` for a file of the user, which applies to all projects.
    project: Option<PathBuf>,
    /// Name of the object or table that contains the servers.
    servers: &'static str,
    /// Variable that the client replaces with the project folder. `None` if the entry contains the path of the folder.
    project_variable: Option<&'static str>,
}

/// Configuration entry with which a client starts the server.
struct ServerEntry {
    command: String,
    args: Vec<String>,
    /// Whether the client requires the field `type`, which names the transport.
    has_type: bool,
}

pub(crate) fn run(args: &McpInstallArgs, environment: &Environment) -> Result<(), Failure> {
    let is_code = args.tools.is_code();
    if is_code {
        args.tools.reject_draft_options()?;
    }
    let folder = match is_code {
        true => None,
        false => Some(workspace_folder(args, environment)?),
    };
    let config = ClientConfig::find(args.client, folder.as_deref(), environment);
    let entry = ServerEntry::new(args, folder.as_deref(), &config)?;
    let change = |old: &str| match args.client {
        McpClient::Codex => insert_into_toml(old, args, &config, &entry),
        _ => insert_into_json(old, args, &config, &entry),
    };
    let shown = replace_control_chars(&config.path.display().to_string());
    if args.print {
        note(&format!("entry for `{shown}`:"));
        return out_line(change("")?.unwrap_or_default().trim_end());
    }
    config.refuse_symlinks()?;
    let new_mode = if config.project.is_some() { 0o644 } else { 0o600 };
    let file = EditedFile { path: &config.path, new_mode, backup: true };
    let edited = file.replace(change).map_err(|failure| {
        let hint = "`--print` prints the entry, so that you can add it yourself";
        hints::with_fallback(failure, hint)
    })?;
    let backup = match edited {
        FileEdit::Unchanged => {
            note(&format!("`{shown}` already has this entry"));
            return Ok(());
        }
        FileEdit::Replaced { backup } => backup,
    };
    note(&format!("added `{}` to `{shown}`", args.name));
    if let Some(backup) = backup {
        let backup = replace_control_chars(&backup.display().to_string());
        note(&format!("the previous text of the file is in `{backup}`"));
    }
    note(&format!("restart {} to load the new entry", name(args.client)));
    if let Some(warning) = bypass(args.client).filter(|_| !is_code) {
        note(warning);
    }
    Ok(())
}

/// Name of a client, as its vendor writes it.
pub(crate) fn name(client: McpClient) -> &'static str {
    match client {
        McpClient::ClaudeCode => "Claude Code",
        McpClient::ClaudeDesktop => "Claude Desktop",
        McpClient::Cursor => "Cursor",
        McpClient::Vscode => "VS Code",
        McpClient::Zed => "Zed",
        McpClient::Codex => "Codex",
    }
}

/// Whether the user seems to use a client: the client's user-wide configuration file, or its folder, exists.
pub(crate) fn is_used(client: McpClient, environment: &Environment) -> bool {
    let file = ClientConfig::find(client, None, environment).path;
    let folder = file.parent().filter(|folder| **folder != environment.home);
    file.exists() || folder.is_some_and(Path::exists)
}

/// Warning for a client whose own tools can edit files without the gate, with advice on how to disable these tools.
/// `None` for a client without such tools.
fn bypass(client: McpClient) -> Option<&'static str> {
    match client {
        McpClient::ClaudeDesktop => None,
        McpClient::ClaudeCode => Some(
            "Claude Code can still edit files with its own tools; deny `Edit`, `Write`, `NotebookEdit` and `Bash` in \
             `.claude/settings.json`",
        ),
        McpClient::Cursor | McpClient::Vscode | McpClient::Zed => Some(
            "the editor's own tools can still edit files; disable these tools in the editor's settings for agents",
        ),
        McpClient::Codex => Some(
            "Codex can still edit files with its own tools; start it with `--sandbox read-only`",
        ),
    }
}

fn usage(message: String) -> Failure {
    Failure::new(FailureKind::Usage, message)
}

/// Returns the absolute path of the workspace.
fn workspace_folder(args: &McpInstallArgs, environment: &Environment) -> Result<PathBuf, Failure> {
    let folder = workspace(&args.tools.workspace, environment);
    match folder.canonicalize() {
        Ok(folder) if folder.is_dir() => Ok(folder),
        Ok(_) => Err(usage(format!("the workspace `{}` is not a folder", folder.display()))),
        Err(error) => {
            Err(usage(format!("cannot open the workspace `{}`: {error}", folder.display())))
        }
    }
}

/// Converts a path to text, because configuration files contain only text.
fn utf8(path: &Path) -> Result<String, Failure> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| usage(format!("the path `{}` is not valid UTF-8", path.display())))
}

impl ClientConfig {
    /// Returns the configuration file that gets the entry: the file of the project if there is a workspace and the
    /// client reads such a file, otherwise the file of the user.
    fn find(
        client: McpClient,
        workspace: Option<&Path>,
        environment: &Environment,
    ) -> ClientConfig {
        let home = &environment.home;
        let config_folder = environment.user_file.parent().and_then(Path::parent);
        let config_folder = config_folder.map_or_else(|| home.join(".config"), Path::to_owned);
        let from_variable = |name: &str| {
            environment.variables.get(name).filter(|folder| !folder.is_empty()).map(PathBuf::from)
        };
        // File of a project with the variable for its folder, file of the user, name of the object of servers.
        let (project_file, user_file, servers) = match client {
            McpClient::ClaudeCode => (
                Some((".mcp.json", "${CLAUDE_PROJECT_DIR:-.}")),
                from_variable("CLAUDE_CONFIG_DIR")
                    .unwrap_or_else(|| home.clone())
                    .join(".claude.json"),
                "mcpServers",
            ),
            McpClient::ClaudeDesktop => {
                (None, config_folder.join("Claude/claude_desktop_config.json"), "mcpServers")
            }
            McpClient::Cursor => (
                Some((".cursor/mcp.json", "${workspaceFolder}")),
                home.join(".cursor/mcp.json"),
                "mcpServers",
            ),
            McpClient::Vscode => (
                Some((".vscode/mcp.json", "${workspaceFolder}")),
                config_folder.join("Code/User/mcp.json"),
                "servers",
            ),
            McpClient::Zed => (None, config_folder.join("zed/settings.json"), "context_servers"),
            McpClient::Codex => (
                None,
                from_variable("CODEX_HOME")
                    .unwrap_or_else(|| home.join(".codex"))
                    .join("config.toml"),
                "mcp_servers",
            ),
        };
        match (project_file, workspace) {
            (Some((file, variable)), Some(folder)) => ClientConfig {
                path: folder.join(file),
                project: Some(folder.to_owned()),
                servers,
                project_variable: Some(variable),
            },
            _ => ClientConfig { path: user_file, project: None, servers, project_variable: None },
        }
    }

    /// Fails if the file of a project, or its folder in the project, is a symlink: with a symlink, a hostile repository
    /// could make assize change a file outside of the project.
    fn refuse_symlinks(&self) -> Result<(), Failure> {
        let Some(project) = &self.project else { return Ok(()) };
        let inside = self.path.ancestors().take_while(|path| path != project);
        for path in inside {
            if path.is_symlink() {
                let message = format!("`{}` is a symlink, which is not followed", path.display());
                return Err(usage(message)
                    .hint("`--print` prints the entry, so that you can add it yourself"));
            }
        }
        Ok(())
    }
}

impl ServerEntry {
    fn new(
        args: &McpInstallArgs,
        workspace: Option<&Path>,
        config: &ClientConfig,
    ) -> Result<ServerEntry, Failure> {
        let (command, mut arguments) =
            InstallationKind::detect().command(config.project.is_some())?;
        arguments.push("mcp".to_owned());
        match workspace {
            Some(folder) => {
                let folder = match config.project_variable {
                    Some(variable) => variable.to_owned(),
                    None => utf8(folder)?,
                };
                arguments.extend(["--workspace".to_owned(), folder]);
            }
            None => arguments.extend(["--tools".to_owned(), "code".to_owned()]),
        }
        let gate = &args.tools.gate;
        for (flag, value) in [
            ("--review", &gate.review),
            ("--verify", &gate.verify),
            ("--isolation", &gate.isolation),
        ] {
            if let Some(value) = value {
                arguments.extend([flag.to_owned(), value.clone()]);
            }
        }
        let has_type = matches!(args.client, McpClient::ClaudeCode | McpClient::Vscode);
        Ok(ServerEntry { command, args: arguments, has_type })
    }

    fn to_json(&self) -> Value {
        let mut entry = serde_json::Map::new();
        if self.has_type {
            entry.insert("type".to_owned(), "stdio".into());
        }
        entry.insert("command".to_owned(), self.command.clone().into());
        entry.insert("args".to_owned(), self.args.clone().into());
        Value::Object(entry)
    }

    fn to_cst(&self) -> CstInputValue {
        let text = |text: &String| CstInputValue::String(text.clone());
        let mut fields = Vec::new();
        if self.has_type {
            fields.push(("type".to_owned(), CstInputValue::String("stdio".to_owned())));
        }
        fields.push(("command".to_owned(), text(&self.command)));
        fields
            .push(("args".to_owned(), CstInputValue::Array(self.args.iter().map(text).collect())));
        CstInputValue::Object(fields)
    }
}

/// Error for a configuration file that already has an entry of the requested name with other content.
fn conflict(args: &McpInstallArgs, config: &ClientConfig) -> Failure {
    let message =
        format!("`{}` already has another entry named `{}`", config.path.display(), args.name);
    usage(message).hint("`--force` replaces the existing entry; `--name NAME` adds a second entry")
}

/// Error for a configuration file with invalid content.
fn unreadable(config: &ClientConfig, why: impl std::fmt::Display) -> Failure {
    let message = format!("cannot edit `{}`: {why}", config.path.display());
    Failure::new(FailureKind::Settings, message)
        .hint("correct the file, or add the entry yourself: `--print` prints the entry")
}

/// Inserts the entry into JSON with comments. Returns `None` if the text already has the entry.
fn insert_into_json(
    old: &str,
    args: &McpInstallArgs,
    config: &ClientConfig,
    entry: &ServerEntry,
) -> Result<Option<String>, Failure> {
    let root = CstRootNode::parse(old, &ParseOptions::default())
        .map_err(|error| unreadable(config, format!("not valid JSON: {error}")))?;
    let not_an_object = || {
        unreadable(
            config,
            format!(
                "the file must contain a JSON object, and `{}` in it must be an object, too",
                config.servers
            ),
        )
    };
    let top = root.object_value_or_create().ok_or_else(not_an_object)?;
    let servers: CstObject =
        top.object_value_or_create(config.servers).ok_or_else(not_an_object)?;
    match servers.get(&args.name) {
        None => drop(servers.append(&args.name, entry.to_cst())),
        Some(existing) => {
            if existing.value().and_then(|value| value.to_serde_value()) == Some(entry.to_json()) {
                return Ok(None);
            }
            if !args.force {
                return Err(conflict(args, config));
            }
            existing.set_value(entry.to_cst());
        }
    }
    let mut new = root.to_string();
    if !new.ends_with('\n') {
        new.push('\n');
    }
    Ok(Some(new))
}

/// Inserts the entry into TOML. Returns `None` if the text already has the entry.
fn insert_into_toml(
    old: &str,
    args: &McpInstallArgs,
    config: &ClientConfig,
    entry: &ServerEntry,
) -> Result<Option<String>, Failure> {
    let mut document: DocumentMut = old.parse().map_err(|error: toml_edit::TomlError| {
        unreadable(config, format!("not valid TOML: {}", error.message().trim()))
    })?;
    let servers = document.as_table_mut().entry(config.servers).or_insert_with(|| {
        let mut table = Table::new();
        // An implicit table gets no `[heading]` if it contains only other tables.
        table.set_implicit(true);
        Item::Table(table)
    });
    let is_inline = servers.is_inline_table();
    let servers = servers
        .as_table_like_mut()
        .ok_or_else(|| unreadable(config, format!("`{}` is not a table", config.servers)))?;
    if let Some(existing) = servers.get(&args.name) {
        if existing.as_table_like().is_some_and(|existing| {
            let command = existing.get("command").and_then(Item::as_str);
            let arguments = existing.get("args").and_then(Item::as_array);
            let arguments =
                arguments.map(|all| all.iter().map(toml_edit::Value::as_str).collect::<Vec<_>>());
            existing.len() == 2
                && command == Some(&entry.command)
                && arguments == Some(entry.args.iter().map(|text| Some(text.as_str())).collect())
        }) {
            return Ok(None);
        }
        if !args.force {
            return Err(conflict(args, config));
        }
    }
    let arguments: Array = entry.args.iter().map(String::as_str).collect();
    let item = if is_inline {
        let mut table = InlineTable::new();
        table.insert("command", entry.command.as_str().into());
        table.insert("args", arguments.into());
        toml_edit::value(table)
    } else {
        let mut table = Table::new();
        table.insert("command", toml_edit::value(entry.command.as_str()));
        table.insert("args", toml_edit::value(arguments));
        Item::Table(table)
    };
    servers.insert(&args.name, item);
    Ok(Some(document.to_string()))
}
