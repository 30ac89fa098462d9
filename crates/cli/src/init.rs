//! `assize init`: sets up a provider with its API key, shell completions, sandbox images and MCP clients.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use assize_config::{ApiKey, Environment, Provider, REHEARSAL, SettingSource, Settings};
use assize_service::Services;
use assize_service::doctor::check_provider;
use assize_service::images::MissingImage;
use assize_types::{Cancel, Failure, FailureKind};
use clap::{CommandFactory, ValueEnum};

use crate::args::{
    Cli, CompletionShell, ImageCommand, ImageKind, InitArgs, McpClient, McpInstallArgs,
};
use crate::drafts::mcp_install;
use crate::file_edit::EditedFile;
use crate::questions::{EmptyLine, ask, ask_secret, can_ask, confirmed};
use crate::terminal::{BOLD, DIM, GOOD, WARN, note, paint, replace_control_chars, warn};
use crate::{config_edit, hints, image, input, start_screen};

/// Maximum size of a key file, in MiB.
const MAX_KEY_MIB: u64 = 1;

pub(crate) async fn run(
    args: InitArgs,
    services: &Services,
    cancel: &Cancel,
) -> Result<(), Failure> {
    services.settings.reject_untrusted_values()?;
    if args.provider.is_none() && !can_ask() {
        let message = "`assize init` asks questions, which needs a terminal";
        return Err(Failure::new(FailureKind::Usage, message)
            .hint("without a terminal, answer with flags, such as `assize init --provider groq`"));
    }
    set_up_provider(&args, services, cancel).await?;
    set_up_completions(&args, &services.environment)?;
    build_images(&args, services).await?;
    set_up_mcp_clients(&args, &services.environment)?;
    note("");
    note(&start_screen::commands());
    Ok(())
}

/// Sets the provider and its model in the user's settings file, and stores its API key.
async fn set_up_provider(
    args: &InitArgs,
    services: &Services,
    cancel: &Cancel,
) -> Result<(), Failure> {
    let environment = &services.environment;
    let name = match &args.provider {
        Some(name) => name.clone(),
        None => ask_provider(services).await?,
    };
    if name == REHEARSAL && (args.model.is_some() || args.key_file.is_some()) {
        let message = "`--model` and `--key-file` cannot be used with `--provider rehearsal`";
        return Err(Failure::new(FailureKind::Usage, message));
    }
    if let Ok(provider) = name.parse::<Provider>() {
        let key = key_of(args, services, provider, cancel).await?;
        if let Some(key) = key {
            let variable = services.settings.provider_settings(provider).key_env.to_string();
            store_key(&variable, &key, environment)?;
            let (_, source) = Settings::load(environment, &[])?.key(provider);
            if !matches!(source, SettingSource::UserKeys { .. }) {
                warn(&format!(
                    "the stored key has no effect: another source ({source}) overrides it"
                ));
            }
        }
    }
    config_edit::set("provider", &name, environment)?;
    if let Some(model) = &args.model {
        config_edit::set(&format!("{name}.model"), model, environment)?;
        let general = &services.settings.general.model;
        if let Some(other) = general.as_ref() {
            let (other, source) = (replace_control_chars(other), general.source());
            warn(&format!(
                "the stored setting `{name}.model` has no effect: the setting `model` ({source}) overrides it with `{other}`"
            ));
        }
    }
    Ok(())
}

/// Asks which provider to use.
async fn ask_provider(services: &Services) -> Result<String, Failure> {
    let settings = &services.settings;
    note(&paint(BOLD, "Which model provider?"));
    let mut suggested = None;
    let mut names = Vec::new();
    for provider in Provider::ALL {
        let found = match provider.needs_key() {
            true => match settings.key(provider) {
                (Some(_), source) => Some(format!("key found ({source})")),
                (None, _) => None,
            },
            false => {
                let is_running = check_provider(settings, provider, None).await.is_ok();
                is_running.then(|| "running on this machine".to_owned())
            }
        };
        names.push(provider.name());
        if found.is_some() && suggested.is_none() {
            suggested = Some(names.len());
        }
        let found = found.map(|found| paint(DIM, replace_control_chars(&found)));
        let line =
            format!("  {} {:<11} {}", names.len(), provider.name(), found.unwrap_or_default());
        note(line.trim_end());
    }
    names.push(REHEARSAL);
    note(&format!(
        "  {} {REHEARSAL:<11} {}",
        names.len(),
        paint(DIM, "calls no model (to try out assize)")
    ));
    let suggested = suggested.unwrap_or(names.len());
    loop {
        let answer = ask(&format!("Number or name [{suggested}]:"))?;
        let number = if answer.is_empty() { Some(suggested) } else { answer.parse().ok() };
        let by_number = number.and_then(|number: usize| names.get(number.checked_sub(1)?));
        match by_number.or_else(|| names.iter().find(|name| **name == answer)) {
            Some(name) => return Ok((*name).to_owned()),
            None => note(&format!("expected a number from 1 to {} or a name", names.len())),
        }
    }
}

/// Returns the API key to store, and checks it with a request to the provider (unless `--no-check` is given). `None` if
/// no key has to be stored: the provider needs no key, or its key is already set.
async fn key_of(
    args: &InitArgs,
    services: &Services,
    provider: Provider,
    cancel: &Cancel,
) -> Result<Option<ApiKey>, Failure> {
    let settings = &services.settings;
    let (known, _) = settings.key(provider);
    let variable = settings.provider_settings(provider).key_env.to_string();
    let mut new_key = match &args.key_file {
        Some(path) => Some(read_key(path, cancel).await?),
        None => None,
    };
    let mut needs_new = known.is_none() && new_key.is_none() && provider.needs_key();
    if needs_new && !can_ask() {
        let message = format!("{provider} needs an API key");
        return Err(Failure::new(FailureKind::Settings, message)
            .hint(format!("set `{variable}`, or pass a file with `--key-file`")));
    }
    loop {
        if needs_new {
            let typed = ask_secret(&format!("API key of {provider} (not shown):"))?;
            match checked_key(&typed) {
                Ok(key) => new_key = Some(key),
                Err(failure) => {
                    note(failure.message());
                    continue;
                }
            }
        }
        if args.no_check {
            return Ok(new_key);
        }
        let failure = match check_provider(settings, provider, new_key.clone()).await {
            Ok(time) => {
                let mark = paint(GOOD, "✓");
                note(&format!("{mark} {provider} answers ({} ms)", time.as_millis()));
                return Ok(new_key);
            }
            Err(failure) => failure,
        };
        if !can_ask() || args.key_file.is_some() {
            return Err(hints::with_fallback(failure, "`--no-check` skips this check"));
        }
        note(&format!("{} {}", paint(WARN, "!"), replace_control_chars(failure.message())));
        // The key may be right if the provider failed for another reason.
        if failure.kind != FailureKind::Settings || !provider.needs_key() {
            if confirmed("Continue without a successful check?", EmptyLine::No) {
                return Ok(new_key);
            }
            return Err(failure);
        }
        if !confirmed("Type another key?", EmptyLine::Yes) {
            return Err(failure);
        }
        needs_new = true;
    }
}

/// Reads an API key from a file, or from standard input for `-`.
async fn read_key(path: &Path, cancel: &Cancel) -> Result<ApiKey, Failure> {
    let text = match path == Path::new("-") {
        true => input::from_standard_input("the API key", MAX_KEY_MIB, cancel).await?,
        false => input::from_file("the API key", MAX_KEY_MIB, path)?,
    };
    checked_key(text.trim())
}

/// Checks that a key can be stored on one line and sent in a header.
fn checked_key(text: &str) -> Result<ApiKey, Failure> {
    let is_valid = |char: char| char.is_ascii_graphic() && !"\"'#\\".contains(char);
    match !text.is_empty() && text.chars().all(is_valid) {
        true => Ok(ApiKey::new(text)),
        false => {
            let message = "this is not an API key: it is empty, or has a space, control character, quote, `#`, `\\` or non-ASCII character";
            Err(Failure::new(FailureKind::Usage, message))
        }
    }
}

/// Stores an API key in the user's file of API keys. Other lines of the file are preserved.
fn store_key(variable: &str, key: &ApiKey, environment: &Environment) -> Result<(), Failure> {
    let path = environment.keys_file();
    let line = format!("{variable}={}", key.expose());
    // The permissions are restricted before the key is written.
    if path.exists() {
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).map_err(|error| {
            let message = format!("cannot protect `{}`: {error}", path.display());
            Failure::new(FailureKind::Environment, message)
        })?;
    }
    let file = EditedFile { path: &path, new_mode: 0o600, backup: false };
    file.replace(|old| {
        let is_other = |other: &&str| {
            let name = other.trim_start().trim_start_matches("export ").split('=').next();
            name.map(str::trim) != Some(variable)
        };
        let lines: Vec<&str> = old.lines().filter(is_other).chain([line.as_str()]).collect();
        Ok(Some(lines.join("\n") + "\n"))
    })?;
    let shown = replace_control_chars(&path.display().to_string());
    note(&format!("stored the key in `{shown}`, which only you can read"));
    Ok(())
}

/// Installs the completions of the user's shell.
fn set_up_completions(args: &InitArgs, environment: &Environment) -> Result<(), Failure> {
    let variable = |name: &str| environment.variables.get(name).map(String::as_str);
    let shell = match args.completions {
        Some(shell) => shell,
        None => {
            let program = variable("SHELL").and_then(|path| path.rsplit('/').next());
            let shell = program.and_then(|name| CompletionShell::from_str(name, false).ok());
            match shell {
                Some(shell) if args.provider.is_none() && shell != CompletionShell::None => shell,
                _ => return Ok(()),
            }
        }
    };
    // A relative path is invalid, as the specification of these variables says.
    let data = variable("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    let data = data.unwrap_or_else(|| environment.home.join(".local/share"));
    let config = environment.user_file.parent().and_then(Path::parent).unwrap_or(&environment.home);
    let (generator, path) = match shell {
        CompletionShell::None => return Ok(()),
        CompletionShell::Bash => {
            (clap_complete::Shell::Bash, data.join("bash-completion/completions/assize"))
        }
        CompletionShell::Fish => {
            (clap_complete::Shell::Fish, config.join("fish/completions/assize.fish"))
        }
        CompletionShell::Zsh => {
            (clap_complete::Shell::Zsh, data.join("zsh/site-functions/_assize"))
        }
    };
    let shown = replace_control_chars(&path.display().to_string());
    let mut script = Vec::new();
    clap_complete::generate(generator, &mut Cli::command(), "assize", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if fs::read_to_string(&path).is_ok_and(|old| old == script) {
        return Ok(());
    }
    if args.completions.is_none()
        && !confirmed(&format!("Install completions for {generator} in `{shown}`?"), EmptyLine::Yes)
    {
        return Ok(());
    }
    EditedFile { path: &path, new_mode: 0o644, backup: false }.replace(|_| Ok(Some(script)))?;
    note(&format!("installed completions in `{shown}`"));
    if shell == CompletionShell::Zsh {
        let folder = path.parent().unwrap_or(&path).display().to_string();
        note(&format!(
            "add this line to `~/.zshrc`, before `compinit`: fpath=({} $fpath)",
            replace_control_chars(&folder)
        ));
    }
    Ok(())
}

/// Builds the missing sandbox images, but only those whose engine (Docker, Podman or QEMU) works.
async fn build_images(args: &InitArgs, services: &Services) -> Result<(), Failure> {
    if !args.images && args.provider.is_some() {
        return Ok(());
    }
    for missing in services.images()?.missing().await {
        let (kind, question) = match missing {
            MissingImage::Container => {
                (ImageKind::Docker, "Build the container image (for `--isolation docker`)?")
            }
            MissingImage::Microvm => {
                (ImageKind::Microvm, "Build the microVM image (debates then run in microVMs)?")
            }
        };
        if args.images || confirmed(question, EmptyLine::No) {
            image::run(ImageCommand::build(kind), services).await?;
        }
    }
    Ok(())
}

/// Adds the draft tools for the current folder to the MCP clients that the user selects.
fn set_up_mcp_clients(args: &InitArgs, environment: &Environment) -> Result<(), Failure> {
    for client in &args.mcp_clients {
        mcp_install::run(&McpInstallArgs::for_client(*client), environment)?;
    }
    if args.provider.is_some() || !args.mcp_clients.is_empty() {
        return Ok(());
    }
    let folder = replace_control_chars(&environment.working_folder.display().to_string());
    let installed = McpClient::value_variants().iter().copied();
    for client in installed.filter(|client| mcp_install::is_used(*client, environment)) {
        let name = mcp_install::name(client);
        let question = format!("Add the draft tools for `{folder}` to {name}?");
        if confirmed(&question, EmptyLine::No)
            && let Err(failure) = mcp_install::run(&McpInstallArgs::for_client(client), environment)
        {
            warn(&failure.render());
        }
    }
    Ok(())
}
