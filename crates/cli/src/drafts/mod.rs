//! Drafts behind a gate, as the commands use them: which workspace, by which policy, on whose behalf.

pub(crate) mod audit;
pub(crate) mod commands;
pub(crate) mod gate;
pub(crate) mod mcp;
pub(crate) mod show;
mod verifier;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use assize_draft::{Book, Desk, DeskError, HANDOFF, Options, Policy, Verifier, Verify, VerifyMost};
use assize_store::Store;

use crate::args::WorkspaceArgs;
use crate::config::{Config, Surroundings};
use crate::failure::{Failure, FailureKind};
use crate::{kept, terminal, walls};

/// The workspace that is meant.
pub(crate) fn workspace(args: &WorkspaceArgs, around: &Surroundings) -> PathBuf {
    if let Some(path) = &args.workspace {
        return walls::typed(around, path);
    }
    for folder in around.working_folder.ancestors() {
        if is_ours(&folder.join(HANDOFF)) {
            return folder.to_owned();
        }
        // What is above belongs to others.
        if folder.join(".git").exists() || folder == around.home {
            break;
        }
    }
    around.working_folder.clone()
}

/// Whether a folder is one, and of whoever runs this.
fn is_ours(folder: &Path) -> bool {
    let there = std::fs::symlink_metadata(folder);
    there.is_ok_and(|there| there.is_dir() && own_id() == Some(there.uid()))
}

/// The number of whoever runs this.
fn own_id() -> Option<u32> {
    std::fs::metadata("/proc/self").map(|process| process.uid()).ok()
}

/// The person who types.
pub(crate) fn person(around: &Surroundings) -> String {
    let name = ["USER", "LOGNAME"].iter().find_map(|name| around.environment.get(*name));
    match name.filter(|name| !name.is_empty()) {
        Some(name) => format!("person {}", assize_types::text::shorten(name, 60)),
        None => own_id().map_or("person unknown".to_owned(), |id| format!("person uid {id}")),
    }
}

/// What was said in one setting, as a list.
fn listed(config: &Config, key: &str) -> Vec<String> {
    let text = config.text(key).unwrap_or_default();
    // A comma in braces belongs to a pattern.
    let mut depth = 0;
    let splits = |c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    };
    text.split(splits).map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// What the gate goes by, as the settings have it.
pub(crate) fn policy(config: &Config) -> Result<Policy, Failure> {
    let usual = Policy::default();
    let number = |key: &str, usual: usize| {
        config.whole(key).and_then(|number| usize::try_from(number).ok()).unwrap_or(usual)
    };
    let most = VerifyMost::default();
    let policy = Policy {
        max_lines: number("draft.max_lines", usual.max_lines),
        max_files: number("draft.max_files", usual.max_files),
        max_deletion: config.decimal("draft.max_deletion").unwrap_or(usual.max_deletion),
        max_bytes: config.size("draft.max_bytes").unwrap_or(usual.max_bytes),
        review: config.text("draft.review").and_then(|r| r.parse().ok()).unwrap_or_default(),
        readable: listed(config, "draft.readable"),
        protected: listed(config, "draft.protected"),
        verify: config.text("draft.verify").map(Verify::command).into_iter().collect(),
        verify_most: VerifyMost {
            memory_mb: config
                .size("draft.verify_memory")
                .map_or(most.memory_mb, |bytes| bytes >> 20),
            seconds: config.whole("draft.verify_seconds").unwrap_or(most.seconds),
            layers: listed(config, "draft.verify_layers"),
        },
        ..usual
    };
    policy.places().map_err(|error| Failure::from_error(FailureKind::Settings, &error))?;
    Ok(policy)
}

/// What a desk is set up with, as the settings have it.
pub(crate) fn options(config: &Config) -> Result<Options, Failure> {
    Ok(Options { policy: policy(config)?, ..Options::default() })
}

/// How long what is settled is kept.
pub(crate) fn keep(config: &Config) -> Duration {
    Duration::from_secs(config.whole("draft.keep_days").unwrap_or(30) * 24 * 60 * 60)
}

/// The desk of a workspace.
pub(crate) fn desk(
    args: &WorkspaceArgs,
    around: &Surroundings,
    store: Arc<dyn Store>,
    how: Options,
) -> Result<Arc<Desk>, Failure> {
    let folder = workspace(args, around);
    if !folder.is_dir() {
        let message = format!("there is no folder `{}`", folder.display());
        return Err(Failure::new(FailureKind::Usage, message));
    }
    Ok(Desk::open(&folder, &around.state_folder.join("drafts"), store, how)?)
}

/// Whoever runs the project's own tests.
///
/// # Errors
/// When no such sandbox is known.
pub(crate) fn verifier(
    config: &Config,
    around: &Surroundings,
) -> Result<Arc<dyn Verifier>, Failure> {
    walls::wanted(config)?;
    Ok(verifier::InSandbox::new(config, around))
}

/// Says so where a contract stops all work.
pub(crate) fn warn_of_contract(desk: &Desk) {
    if let Err(error) = desk.contract() {
        terminal::warn(&error.to_string());
    }
}

/// The desk of a workspace, to change something at it.
pub(crate) fn desk_to_use(
    args: &WorkspaceArgs,
    config: &Config,
    around: &Surroundings,
) -> Result<Arc<Desk>, Failure> {
    desk(args, around, kept::open_safe(config, around)?, options(config)?)
}

/// The desk of a workspace, to look at it; `None` where nothing was ever kept.
pub(crate) fn desk_to_see(
    args: &WorkspaceArgs,
    config: &Config,
    around: &Surroundings,
) -> Result<Option<Arc<Desk>>, Failure> {
    match kept::open_to_read(config, around)? {
        Some(store) => desk(args, around, store, options(config)?).map(Some),
        None => Ok(None),
    }
}

/// How things stand at a desk, as people look at it; what keeps workers from working is said.
pub(crate) async fn book_to_see(
    args: &WorkspaceArgs,
    config: &Config,
    around: &Surroundings,
) -> Result<Book, Failure> {
    let Some(desk) = desk_to_see(args, config, around)? else { return Ok(Book::default()) };
    warn_of_contract(&desk);
    Ok(desk.book().await?)
}

impl From<DeskError> for Failure {
    fn from(error: DeskError) -> Failure {
        let error = match error {
            DeskError::Store(error) => return error.into(),
            error => error,
        };
        let kind = match &error {
            DeskError::Store(_) => FailureKind::Environment,
            DeskError::Refused(_) | DeskError::Wrong(_) | DeskError::Task(_) => FailureKind::Usage,
            DeskError::Contract(_) | DeskError::Pattern(_) => FailureKind::Settings,
            DeskError::File { .. } | DeskError::Unfinished(_) => FailureKind::Environment,
            DeskError::Conflict(_) => FailureKind::Verdict,
        };
        Failure::from_error(kind, &error)
    }
}
