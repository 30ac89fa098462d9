//! `assize serve`: starts the HTTP server.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use assize_config::Environment;
use assize_server::{Exposure, ScopedTokens, Server, ServerOptions, TlsCertificate, Token};
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
    services.settings.reject_untrusted_values()?;
    raise_open_file_limit();
    let exposure = exposure(&args)?;
    let roots = roots(&args, &services.environment)?;
    let token_file =
        (!args.no_auth).then(|| token_file(args.token_file.as_deref(), &services.environment));
    let tokens = token_file.as_deref().map(tokens).transpose()?;
    if tokens.is_none() {
        terminal::warn(
            "without a token, every user of this machine can spend your money and accept drafts",
        );
    }
    let store = until_cancelled(&cancel, services.open_server_store()).await?;
    let serve = &services.settings.serve;
    let options = ServerOptions {
        listen: args.listen,
        tokens,
        exposure,
        names: args.hosts.clone(),
        roots,
        max_request_size: *serve.max_request_size,
        starts_per_minute: *serve.starts_per_minute,
        max_running: *serve.max_running,
    };
    let server = Server::bind(options, services, store).await?;
    print_address(&args, &server, token_file.as_deref())?;
    server.run(cancel).await
}

/// Raises the limit on open files of this process to the maximum, because every event subscriber has an open
/// connection.
fn raise_open_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

/// Returns how clients can reach the server: locally, over TLS or through a proxy. Fails if the flags would make the
/// server unsafe, for example reachable from other machines without encryption.
fn exposure(args: &ServeArgs) -> Result<Exposure, Failure> {
    let usage = |message: &str| Failure::new(FailureKind::Usage, message);
    let local = args.listen.ip().is_loopback();
    if args.no_auth && !local {
        return Err(usage("`--no-auth` is only possible on a loopback address")
            .hint("listen on 127.0.0.1, or remove `--no-auth`"));
    }
    let encrypted = args.tls_cert.is_some() || args.behind_proxy;
    if encrypted && args.hosts.is_empty() && args.listen.ip().is_unspecified() {
        return Err(usage("the host name of the server is unknown").hint(
            "set the host name with `--host NAME`, or listen on one address instead of all",
        ));
    }
    match (&args.tls_cert, &args.tls_key) {
        (Some(certificate), Some(key)) => {
            return TlsCertificate::read(certificate, key).map(Exposure::Tls);
        }
        _ if args.behind_proxy => return Ok(Exposure::Proxy),
        _ => {}
    }
    match local {
        true => Ok(Exposure::Local),
        false => Err(usage("refusing to serve other machines without encryption").hint(
            "pass a certificate with `--tls-cert` and `--tls-key`, or use `--behind-proxy` with an HTTPS reverse proxy",
        )),
    }
}

/// Returns the folders given with `--root`, by name. Warns if a folder is the home folder or the whole file system.
fn roots(
    args: &ServeArgs,
    environment: &Environment,
) -> Result<BTreeMap<String, PathBuf>, Failure> {
    let mut roots = BTreeMap::new();
    for (name, folder) in &args.roots {
        let folder = environment.resolve_path(folder);
        let resolved = folder.canonicalize().ok().filter(|folder| folder.is_dir());
        let Some(resolved) = resolved else {
            let message = format!("there is no folder `{}`", folder.display());
            return Err(Failure::new(FailureKind::Usage, message));
        };
        if resolved == environment.home || resolved.parent().is_none() {
            let what = "this folder is your whole home folder or file system";
            terminal::warn(&format!("`--root {name}=…`: {what}; choose a smaller folder"));
        }
        if roots.insert(name.clone(), resolved).is_some() {
            let message = format!("`--root` is given twice for the name `{name}`");
            return Err(Failure::new(FailureKind::Usage, message));
        }
    }
    Ok(roots)
}

/// Path of the file that contains the owner's token.
pub(crate) fn token_file(named: Option<&Path>, environment: &Environment) -> PathBuf {
    named.map_or_else(
        || environment.state_folder.join("serve.token"),
        |path| environment.resolve_path(path),
    )
}

/// Opens the tokens of a server: the owner's token in the file `path`, and the scoped tokens in a file beside it.
pub(crate) fn tokens(path: &Path) -> Result<ScopedTokens, Failure> {
    Ok(ScopedTokens::new(token(path)?, path))
}

/// Reads the owner's token from a file. If the file does not exist, creates it with a new token; only the user can read
/// the file.
fn token(path: &Path) -> Result<Token, Failure> {
    let failed = |error: std::io::Error| {
        let message = format!("cannot read or write the token file `{}`: {error}", path.display());
        Failure::new(FailureKind::Environment, message).hint(
            "make the token file and its folder writable for you, or name another file: `--token-file FILE`",
        )
    };
    let refused = |why: &str| {
        let message = format!("cannot use the token file `{}`: {why}", path.display());
        Failure::new(FailureKind::Settings, message)
            .hint("remove the token file; `assize serve` then creates a new token")
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let created = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match created {
        Ok(mut file) => {
            let token = Token::random().map_err(failed)?;
            let written = writeln!(file, "{}", token.reveal()).and_then(|()| file.sync_all());
            // After a failed write, the file is removed, because a truncated token would be accepted as a valid one.
            written.inspect_err(|_| drop(std::fs::remove_file(path))).map_err(failed)?;
            Ok(token)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if std::fs::metadata(path).map_err(failed)?.mode() & 0o077 != 0 {
                return Err(refused("other users can read the token file"));
            }
            let text = std::fs::read_to_string(path).map_err(failed)?;
            let invalid =
                || refused("the token is invalid: expected 32 to 256 letters, digits and `-_.~`");
            Token::chosen(text.trim()).ok_or_else(invalid)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Prints the address of the server and how to log in.
fn print_address(
    args: &ServeArgs,
    server: &Server,
    token_file: Option<&Path>,
) -> Result<(), Failure> {
    let scheme = if args.tls_cert.is_some() { "https" } else { "http" };
    let scheme = if args.behind_proxy { "https" } else { scheme };
    // The printed name may differ from the listen address, because clients may reach the server under another name.
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
        note(&format!("listening for the reverse proxy on {}", server.address()));
    }
    match (&link, token_file) {
        (Some(link), Some(file)) => {
            note(&format!(
                "the server runs at {address}; sign in with this link in a browser (valid once):"
            ));
            out_line(link)?;
            note(&format!("programs send the token in `{}` as a bearer token", file.display()));
        }
        _ => out_line(&address)?,
    }
    note(&format!("API documentation: {address}/api/docs; Ctrl-C stops the server"));
    Ok(())
}
