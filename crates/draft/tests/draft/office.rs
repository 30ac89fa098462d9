//! A workspace with a desk, for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use assize_draft::{DraftError, DraftService, Options, Requested, Submit, Submitted};
use assize_gate::Policy;
use assize_run::Store;
use assize_store::{Access, Durability, SqliteStore};

pub(crate) const WORKER: &str = "worker";
pub(crate) const TASK: &str = "phase10_version_flag";

/// What the seed's example edits.
pub(crate) const WATCHDOG: &str = "#!/usr/bin/env python3\nimport sys\n\n\ndef main():\n    print(\"watching\")\n    return 0\n\n\nif __name__ == \"__main__\":\n    sys.exit(main())\n";

pub(crate) struct Office {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) desk: Arc<DraftService>,
}

impl Office {
    /// With files of a line or two, whose edits replace most of them.
    pub(crate) fn new() -> Office {
        Office::under(small_files())
    }

    pub(crate) fn under(policy: Policy) -> Office {
        Office::with(Options { policy, ..Options::default() })
    }

    pub(crate) fn with(options: Options) -> Office {
        let folder = tempfile::tempdir().unwrap();
        let src = folder.path().join("repo/src");
        fs::create_dir_all(&src).unwrap();
        fs::write(src.join("watchdog.py"), WATCHDOG).unwrap();
        fs::set_permissions(src.join("watchdog.py"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("secret"), "SECRET").unwrap();
        let path = folder.path().join("state/store.db");
        let store = SqliteStore::open(&path, Access::Write(Durability::ProcessCrash)).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let desk = Office::sit(&folder, store.clone(), options);
        Office { folder, store, desk }
    }

    fn sit(
        folder: &tempfile::TempDir,
        store: Arc<dyn Store>,
        options: Options,
    ) -> Arc<DraftService> {
        let state = folder.path().join("state/drafts");
        DraftService::open(&folder.path().join("repo"), &state, store, options).unwrap()
    }

    /// Another process at the same desk.
    pub(crate) fn another(&self) -> Arc<DraftService> {
        self.another_with(Options { policy: small_files(), ..Options::default() })
    }

    pub(crate) fn another_with(&self, options: Options) -> Arc<DraftService> {
        Office::sit(&self.folder, self.store.clone(), options)
    }

    pub(crate) fn repo(&self, path: &str) -> PathBuf {
        self.folder.path().join("repo").join(path)
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        fs::create_dir_all(self.repo(path).parent().unwrap()).unwrap();
        fs::write(self.repo(path), content).unwrap();
    }

    pub(crate) fn text(&self, path: &str) -> String {
        fs::read_to_string(self.repo(path)).unwrap()
    }

    pub(crate) fn drafts(&self) -> Vec<String> {
        let names = fs::read_dir(self.repo("_handoff/drafts")).unwrap();
        let mut names: Vec<String> =
            names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    pub(crate) async fn request(&self, path: &str) -> Result<Requested, DraftError> {
        self.desk.request(WORKER, path, TASK).await
    }

    /// Asks for a draft, writes it and hands it in.
    pub(crate) async fn propose(&self, path: &str, content: &str) -> Submitted {
        let draft = self.request(path).await.unwrap().draft_path;
        self.desk.write(WORKER, &draft, content).await.unwrap();
        self.submit(&draft, path).await.unwrap()
    }

    pub(crate) async fn submit(&self, draft: &str, path: &str) -> Result<Submitted, DraftError> {
        self.desk.submit(WORKER, submit(draft, path)).await
    }
}

/// The usual policy, but for the share of a file's lines that may be replaced.
pub(crate) fn small_files() -> Policy {
    Policy { max_deletion: 1.0, ..Policy::default() }
}

pub(crate) fn submit<'a>(draft_path: &'a str, original_path: &'a str) -> Submit<'a> {
    Submit {
        draft_path,
        original_path,
        task_id: TASK,
        change_summary: "a change",
        all_drafts: false,
    }
}

/// The rules that spoke against a submission.
pub(crate) fn rules(submitted: &Submitted) -> Vec<&str> {
    submitted.reasons.iter().map(|reason| reason.rule.as_str()).collect()
}

/// The number of a submission.
pub(crate) fn number(submitted: &Submitted) -> u64 {
    submitted.submission
}

/// How many random cases are tried: few, or by how many are asked for, a share of these.
pub(crate) fn cases(few: u32, share: u32) -> proptest::test_runner::Config {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse::<u32>().ok());
    proptest::test_runner::Config::with_cases(asked.map_or(few, |count| (count / share).max(few)))
}
