//! `assize serve`: the door for programs and for the page.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use assize_config::Environment;
use assize_server::{Certificate, Exposure, Options, Server, Token, Tokens};
use assize_service::Services;
use assize_types::{Cancel, Failure, FailureKind};
use serde_json::json;

use crate::args::ServeArgs;
use crate::terminal::{self, note, out_json, out_line};
use crate::until_cancelled;

pub(crate) async fn run(
    args: ServeArgs,
    mut services: Services,
    cancel: Cancel,
) -> Result<(), Failure> {
    services.settings.refuse_withheld()?;
    allow_many_files();
    let exposure = exposure(&args)?;
    let roots = roots(&args, &services.environment)?;
    let token_file =
        (!args.no_auth).then(|| token_file(args.token_file.as_deref(), &services.environment));
    let tokens = token_file.as_deref().map(tokens).transpose()?;
    if tokens.is_none() {
        terminal::warn(
            "everybody who has an account on this machine can spend your money and accept drafts",
        );
    }
    let store = until_cancelled(&cancel, services.open_server_store()).await?;
    let serve = &services.settings.serve;
    let options = Options {
        listen: args.listen,
        tokens,
        exposure,
        names: args.hosts.clone(),
        roots,
        longest_request: *serve.longest_request,
        starts_per_minute: *serve.starts_per_minute,
        most_running: *serve.most_running,
    };
    let server = Server::bind(options, services, store).await?;
    tell(&args, &server, token_file.as_deref())?;
    server.run(cancel).await
}

/// Everybody who follows events has a line open: as many as the system allows.
fn allow_many_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// How the server is reached, if it may be reached like that.
fn exposure(args: &ServeArgs) -> Result<Exposure, Failure> {
    let usage = |message: &str| Failure::new(FailureKind::Usage, message);
    let local = args.listen.ip().is_loopback();
    if args.no_auth && !local {
        return Err(usage(
            "`--no-auth` lets everybody in, which is possible on this machine alone",
        )
        .hint("listen on 127.0.0.1, or leave `--no-auth` out"));
    }
    let encrypted = args.tls_cert.is_some() || args.behind_proxy;
    if encrypted && args.hosts.is_empty() && args.listen.ip().is_unspecified() {
        return Err(usage("nobody knows by which name it is called")
            .hint("say it with `--host NAME`, or listen on one address"));
    }
    match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            return Certificate::read(certificate, key).map(Exposure::Tls);
        }
        _ if args.behind_proxy => return Ok(Exposure::Proxy),
        _ => {}
    }
    match local {
        true => Ok(Exposure::Local),
        false => Err(usage("other machines can listen in on what is not encrypted").hint(
            "name a certificate with `--tls-cert` and `--tls-key`, or say `--behind-proxy` if somebody before the \
             server speaks HTTPS",
        )),
    }
}

fn roots(args: &ServeArgs, around: &Environment) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut roots = BTreeMap::new();
    for (name, folder) in &args.roots {
        let folder = around.typed(folder);
        let whole = folder.canonicalize().ok().filter(|folder| folder.is_dir());
        let Some(whole) = whole else {
            let message = format!("there is no folder `{}`", folder.display());
            return Err(Failure::new(FailureKind::Usage, message));
        };
        if whole == around.home || whole.parent().is_none() {
            let what = "is all of your home folder, or of this machine; a root names less";
            terminal::warn(&format!("`{name}` {what}"));
        }
        if roots.insert(name.clone(), whole).is_some() {
            let message = format!("two folders are called `{name}`");
            return Err(Failure::new(FailureKind::Usage, message));
        }
    }
    Ok(roots)
}

/// The file of the owner's token.
pub(crate) fn token_file(named: Option<&Path>, around: &Environment) -> PathBuf {
    named.map_or_else(|| around.state_folder.join("serve.token"), |path| around.typed(path))
}

/// The tokens of a server: the owner's, and the scoped ones beside it.
pub(crate) fn tokens(path: &Path) -> Result<Tokens, Failure> {
    Ok(Tokens::new(token(path)?, path))
}

/// The token in a file, which is made for its owner's eyes alone if it is not there.
fn token(path: &Path) -> Result<Token, Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot read or write the token file `{}`: {error}", path.display());
        Failure::new(FailureKind::Environment, message).hint(
            "make the file and its folder writable for you, or name another: `--token-file FILE`",
        )
    };
    let refused = |why: &str| {
        let message = format!("the token in `{}` {why}", path.display());
        Failure::new(FailureKind::Settings, message).hint("remove the file, and a new one is made")
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(mut file) => {
            let token = Token::random().map_err(failed)?;
            let written = writeln!(file, "{}", token.reveal()).and_then(|()| file.sync_all());
            // Half a token would be taken for a whole one.
            written.inspect_err(|_| drop(std::fs::remove_file(path))).map_err(failed)?;
            Ok(token)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if std::fs::metadata(path).map_err(failed)?.mode() & 0o077 != 0 {
                return Err(refused("can be read by others"));
            }
            let text = std::fs::read_to_string(path).map_err(failed)?;
            let short = || refused("is none: it has 32 to 256 letters, digits and `-_.~`");
            Token::chosen(text.trim()).ok_or_else(short)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Says where it is, and how to come in.
fn tell(args: &ServeArgs, server: &Server, token_file: Option<&Path>) -> Result<(), Failure> {
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let scheme = if args.behind_proxy { "https" } else { scheme };
    // What it listens on need not be what it is called.
    let name = match (args.hosts.first(), args.behind_proxy) {
        (Some(name), true) => name.clone(),
        (Some(name), false) if server.address().ip().is_unspecified() => {
            format!("{name}:{}", server.address().port())
        }
        _ => server.address().to_string(),
    };
    let address = format!("{scheme}://{name}");
    let link = match token_file {
        Some(_) => Some(format!("{address}{}", server.link()?)),
        None => None,
    };
    if args.json {
        return out_json(&json!({
            "address": address, "listen": server.address(), "link": link, "token_file": token_file,
        }));
    }
    if args.behind_proxy {
        note(&format!("it waits for the proxy at {}", server.address()));
    }
    match (&link, token_file) {
        (Some(link), Some(file)) => {
            note(&format!("assize serves at {address}; open this once, in a browser:"));
            out_line(link)?;
            note(&format!("programs send the token in `{}` as a bearer token", file.display()));
        }
        _ => out_line(&address)?,
    }
    note(&format!("what can be asked for: {address}/api/docs; Ctrl-C stops it"));
    Ok(())
}
