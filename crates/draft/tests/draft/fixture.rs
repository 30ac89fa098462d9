//! Test fixture: a workspace with a draft service.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use assize_draft::{
    DraftCreated, DraftError, DraftOptions, DraftService, SubmitRequest, SubmitResponse,
};
use assize_gate::Policy;
use assize_run::Store;
use assize_store::{Access, Durability, SqliteStore};

pub(crate) const AGENT: &str = "worker";
pub(crate) const TASK: &str = "phase10_version_flag";

/// The example file that most tests edit.
pub(crate) const WATCHDOG: &str = "#!/usr/bin/env python3\nimport sys\n\n\ndef main():\n    print(\"watching\")\n    return 0\n\n\nif __name__ == \"__main__\":\n    sys.exit(main())\n";

pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) service: Arc<DraftService>,
}

impl Fixture {
    /// Creates a workspace with a service whose policy allows all lines of a file to be replaced.
    pub(crate) fn new() -> Fixture {
        Fixture::under(small_files())
    }

    pub(crate) fn under(policy: Policy) -> Fixture {
        Fixture::with(DraftOptions { policy, ..DraftOptions::default() })
    }

    pub(crate) fn with(options: DraftOptions) -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let src = folder.path().join("repo/src");
        fs::create_dir_all(&src).unwrap();
        fs::write(src.join("watchdog.py"), WATCHDOG).unwrap();
        fs::set_permissions(src.join("watchdog.py"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.path().join("secret"), "SECRET").unwrap();
        let path = folder.path().join("state/store.db");
        let store = SqliteStore::open(&path, Access::Write(Durability::ProcessCrash)).unwrap();
        let store: Arc<dyn Store> = Arc::new(store);
        let service = Fixture::open_service(&folder, store.clone(), options);
        Fixture { folder, store, service }
    }

    fn open_service(
        folder: &tempfile::TempDir,
        store: Arc<dyn Store>,
        options: DraftOptions,
    ) -> Arc<DraftService> {
        let state = folder.path().join("state/drafts");
        DraftService::open(&folder.path().join("repo"), &state, store, options).unwrap()
    }

    /// Opens another service for the same workspace, as another process would.
    pub(crate) fn another(&self) -> Arc<DraftService> {
        self.another_with(DraftOptions { policy: small_files(), ..DraftOptions::default() })
    }

    pub(crate) fn another_with(&self, options: DraftOptions) -> Arc<DraftService> {
        Fixture::open_service(&self.folder, self.store.clone(), options)
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

    pub(crate) async fn request(&self, path: &str) -> Result<DraftCreated, DraftError> {
        self.service.request(AGENT, path, TASK).await
    }

    /// Requests a draft, writes it and submits it.
    pub(crate) async fn propose(&self, path: &str, content: &str) -> SubmitResponse {
        let draft = self.request(path).await.unwrap().draft_path;
        self.service.write(AGENT, &draft, content).await.unwrap();
        self.submit(&draft, path).await.unwrap()
    }

    pub(crate) async fn submit(
        &self,
        draft: &str,
        path: &str,
    ) -> Result<SubmitResponse, DraftError> {
        self.service.submit(AGENT, submit(draft, path)).await
    }
}

/// Returns the default policy, changed so that a draft may delete or replace all lines of a file.
pub(crate) fn small_files() -> Policy {
    Policy { max_deletion: 1.0, ..Policy::default() }
}

pub(crate) fn submit<'a>(draft_path: &'a str, original_path: &'a str) -> SubmitRequest<'a> {
    SubmitRequest {
        draft_path,
        original_path,
        task_id: TASK,
        change_summary: "a change",
        all_drafts: false,
    }
}

/// Returns the rule names of all reasons in the response to a submit call.
pub(crate) fn rules(submitted: &SubmitResponse) -> Vec<&str> {
    submitted.reasons.iter().map(|reason| reason.rule.as_str()).collect()
}

/// Returns the number of the submission in the response to a submit call.
pub(crate) fn number(submitted: &SubmitResponse) -> u64 {
    submitted.submission
}

/// Returns the proptest configuration. The number of cases is `PROPTEST_CASES` divided by `share`, but at least `few`.
pub(crate) fn cases(few: u32, share: u32) -> proptest::test_runner::Config {
    let requested =
        std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse::<u32>().ok());
    proptest::test_runner::Config::with_cases(
        requested.map_or(few, |count| (count / share).max(few)),
    )
}
