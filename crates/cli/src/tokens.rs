//! `assize tokens`: lists, creates and revokes the scoped tokens of a server.

use assize_config::Environment;
use assize_server::{TokenError, TokenInfo};
use assize_types::{Failure, FailureKind};
use serde_json::json;

use crate::args::TokensCommand;
use crate::serve::{token_file, tokens};
use crate::terminal::{note, out_json, out_line, replace_control_chars, when};

/// Runs a command on the scoped tokens, which are stored beside the file with the owner's token.
pub(crate) fn run(command: TokensCommand, environment: &Environment) -> Result<(), Failure> {
    let (TokensCommand::List { file, .. }
    | TokensCommand::Create { file, .. }
    | TokensCommand::Revoke { file, .. }) = &command;
    let tokens = tokens(&token_file(file.token_file.as_deref(), environment))?;
    match command {
        TokensCommand::List { json, .. } => {
            let all = tokens.list().map_err(failed)?;
            if json {
                return out_json(&json!(all));
            }
            if all.is_empty() {
                note("there are no valid scoped tokens");
            }
            for TokenInfo { id, scope, created, expires } in all {
                let (created, expires) = (when(created), when(expires));
                out_line(&format!("{id}  created {created}  expires {expires}  {scope}"))?;
            }
            Ok(())
        }
        TokensCommand::Create { scope, expires_in, json, .. } => {
            let (info, text) = tokens.create(&scope, expires_in).map_err(failed)?;
            if json {
                let mut shown = json!(info);
                shown["token"] = json!(text);
                return out_json(&shown);
            }
            note(&format!(
                "token {} gives access to `/mcp/{}` until {} UTC",
                info.id,
                info.scope,
                when(info.expires)
            ));
            out_line(&text)
        }
        TokensCommand::Revoke { ids, .. } => {
            let mut unknown = Vec::new();
            for id in ids {
                match tokens.revoke(&id).map_err(failed)? {
                    true => note(&format!("revoked {id}")),
                    false => unknown.push(replace_control_chars(&id)),
                }
            }
            match unknown.is_empty() {
                true => Ok(()),
                false => {
                    let message = format!("there is no token `{}`", unknown.join("`, `"));
                    Err(Failure::new(FailureKind::Usage, message)
                        .hint("`assize tokens list` shows the ids of all valid tokens"))
                }
            }
        }
    }
}

/// Converts an error about tokens to a failure.
fn failed(error: TokenError) -> Failure {
    let kind = match error {
        TokenError::Scope(_) | TokenError::Lifetime | TokenError::TooMany => FailureKind::Usage,
        TokenError::File { .. } => FailureKind::Environment,
        TokenError::Invalid { .. } => FailureKind::Settings,
    };
    Failure::from_error(kind, &error)
}
