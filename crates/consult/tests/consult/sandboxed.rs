//! Tests of debates in real sandboxes. The test process answers their model calls.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use assize_config::{Isolation, SandboxLimits};
use assize_consult::{ConsultCompany, ConsultContext, ConsultState, FlagKind, graph};
use assize_consult::{DebateRunner, ModelProxy, ModelSource, SandboxedDebates, install};
use assize_debate::{DebateSpec, MoveDocument};
use assize_graph::{NodeError, RunError, RunOptions};
use assize_llm::{ErrorKind, ModelError, ModelRequest, ModelResponse};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Backend, Enforcement, Language, ProgramCommand, ProgramEvent, Sandbox, SandboxError,
    SandboxIdentity, SandboxKey, SandboxManager, SandboxSpec, StartedSandbox,
};
use assize_types::Cancel;
use async_trait::async_trait;

use crate::script::{Part, Script, consult_context};

/// Jail backend that can be set to fail.
#[derive(Debug)]
struct FailingJail {
    jail: Jail,
    fails: AtomicBool,
    made: AtomicUsize,
}

#[async_trait]
impl Backend for FailingJail {
    fn isolation(&self) -> Isolation {
        self.jail.isolation()
    }

    async fn start(
        &self,
        identity: &SandboxIdentity,
        spec: &SandboxSpec,
    ) -> Result<StartedSandbox, SandboxError> {
        if self.fails.load(Ordering::SeqCst) {
            return Err(SandboxError::SandboxFailed("the test backend is set to fail".to_owned()));
        }
        self.made.fetch_add(1, Ordering::SeqCst);
        self.jail.start(identity, spec).await
    }

    fn interpreter(&self, language: Language) -> Result<String, SandboxError> {
        self.jail.interpreter(language)
    }

    fn enforcement(&self) -> Enforcement {
        self.jail.enforcement()
    }

    async fn clean_up(&self, maker: &str) -> Result<(), SandboxError> {
        self.jail.clean_up(maker).await
    }
}

struct Fixture {
    folder: tempfile::TempDir,
    backend: Arc<FailingJail>,
    manager: Arc<SandboxManager>,
}

impl Fixture {
    async fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let jail = Jail::new(Vec::new());
        let backend = Arc::new(FailingJail {
            jail,
            fails: AtomicBool::new(false),
            made: AtomicUsize::new(0),
        });
        let dynamic: Arc<dyn Backend> = backend.clone();
        let manager =
            SandboxManager::open(folder.path().join("makers"), dynamic, &[]).await.unwrap();
        let manager = Arc::new(manager);
        Fixture { folder, backend, manager }
    }

    fn debates(&self, may_do_without: bool) -> Arc<SandboxedDebates> {
        let limits = SandboxLimits { cpu_millis: 1000, ..SandboxLimits::default() };
        let layer = install(&self.folder.path().join("programs")).unwrap();
        let spec = SandboxSpec { limits, ..SandboxSpec::default() };
        let (manager, run) = (self.manager.clone(), "consult-test".to_owned());
        Arc::new(SandboxedDebates {
            manager,
            spec,
            layer,
            run,
            allow_in_process: may_do_without,
            weaker: None,
            isolation: String::new(),
        })
    }

    /// Debate runner that adds a warning about weaker isolation to its results.
    fn weaker(&self, message: &str) -> Arc<SandboxedDebates> {
        let debates = Arc::into_inner(self.debates(false)).unwrap();
        Arc::new(SandboxedDebates { weaker: Some(message.to_owned()), ..debates })
    }

    fn consult_context(&self, model: &Arc<Script>, may_do_without: bool) -> ConsultContext {
        let debates = self.debates(may_do_without);
        ConsultContext { debates, ..small(model) }
    }
}

/// Context of a small consultation: two analysts with one move each, and three rounds.
fn small(model: &Arc<Script>) -> ConsultContext {
    let mut context = consult_context(model, 3, 2);
    context.personas.analysts.truncate(2);
    context.moves = 1;
    context
}

fn one_move(asked: &crate::script::Asked) -> Option<Result<String, assize_llm::ModelError>> {
    match &asked.part {
        Part::Proposal(analyst, _) => Some(Ok(crate::script::proposal(*analyst, 1))),
        _ => None,
    }
}

async fn consult(context: ConsultContext) -> Result<ConsultState, RunError> {
    let company = ConsultCompany { ticker: Some("BRK.B".parse().unwrap()), name: None };
    graph(Arc::new(context)).unwrap().run(ConsultState::new(company), RunOptions::default()).await
}

/// Runs `action` in the sandbox of the first move, while the debate of this move waits for an answer.
fn in_first_sandbox(manager: &SandboxManager, action: impl AsyncFnOnce(Sandbox)) {
    let key =
        SandboxKey { run: Some("consult-test".to_owned()), name: "negotiate-brk-b-m1".to_owned() };
    tokio::task::block_in_place(|| {
        tokio::runtime::Handle::current().block_on(async {
            action(manager.get(&key).await.unwrap().unwrap()).await;
        });
    });
}

fn asked(model: &Script) -> Vec<String> {
    let asked = model.asked.lock().unwrap();
    let mut all: Vec<String> =
        asked.iter().map(|one| format!("{} {}", one.key, one.request.fingerprint())).collect();
    all.sort();
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxed_debate_has_the_same_verdict_as_an_in_process_debate() {
    let fixture = Fixture::new().await;
    let here = Script::saying(one_move);
    let expected = consult(small(&here)).await.unwrap();
    // During the debate, the sandbox is listed with its name and labels.
    let manager = fixture.manager.clone();
    let there = Script::saying(move |asked| {
        if asked.key == "m2/i3/score" {
            let labels = BTreeMap::from([("move".to_owned(), "m2".to_owned())]);
            let found = manager.list(&labels).unwrap();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].key.name, "negotiate-brk-b-m2");
        }
        one_move(asked)
    });
    let state = consult(fixture.consult_context(&there, false)).await.unwrap();
    assert_eq!(state.policy_scores, expected.policy_scores);
    assert_eq!(state.ranked, expected.ranked);
    assert_eq!(asked(&there), asked(&here));
    assert_eq!(state.spent, expected.spent);
    assert!(!state.flags.iter().any(|flag| flag.kind == FlagKind::NoIsolation));
    // Each debate had its own sandbox, and all sandboxes are removed.
    assert_eq!(fixture.backend.made.load(Ordering::SeqCst), 2);
    assert!(fixture.manager.list(&BTreeMap::new()).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_sandbox_is_replaced_without_repeating_calls() {
    let fixture = Fixture::new().await;
    let manager = fixture.manager.clone();
    let killed = AtomicBool::new(false);
    let model = Script::saying(move |asked| {
        if asked.key == "m1/i2/round-6/D2" && !killed.swap(true, Ordering::SeqCst) {
            in_first_sandbox(&manager, async |sandbox| sandbox.end().await);
        }
        one_move(asked)
    });
    let longer = |context: ConsultContext| ConsultContext { rounds: 7, ..context };
    let state = consult(longer(fixture.consult_context(&model, false))).await.unwrap();
    assert_eq!(fixture.backend.made.load(Ordering::SeqCst), 3);
    assert_eq!(state.policy_scores.len(), 2);
    let keys = asked(&model);
    let once: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(once.len(), keys.len(), "{keys:?}");
    let expected = consult(longer(small(&Script::saying(one_move)))).await.unwrap();
    assert_eq!(state.policy_scores, expected.policy_scores);
}

#[tokio::test(flavor = "multi_thread")]
async fn debate_runs_without_a_sandbox_only_if_allowed() {
    let fixture = Fixture::new().await;
    fixture.backend.fails.store(true, Ordering::SeqCst);
    let model = Script::saying(one_move);
    let state = consult(fixture.consult_context(&model, true)).await.unwrap();
    let flags: Vec<&str> = state
        .flags
        .iter()
        .filter(|flag| flag.kind == FlagKind::NoIsolation)
        .map(|flag| flag.message.as_str())
        .collect();
    assert_eq!(flags.len(), 2);
    assert!(
        flags[0].contains("no sandbox could be created") && flags[0].contains("is set to fail")
    );
    let error =
        consult(fixture.consult_context(&Script::saying(one_move), false)).await.unwrap_err();
    assert!(error.to_string().contains("the test backend is set to fail"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn weaker_isolation_is_flagged_once_for_all_moves() {
    let fixture = Fixture::new().await;
    let model = Script::saying(one_move);
    let context =
        ConsultContext { debates: fixture.weaker("debates ran in a jail"), ..small(&model) };
    let state = consult(context).await.unwrap();
    let flags: Vec<&assize_consult::Flag> =
        state.flags.iter().filter(|flag| flag.kind == FlagKind::WeakerIsolation).collect();
    assert_eq!(flags.len(), 1, "{flags:?}");
    assert_eq!((flags[0].message.as_str(), &flags[0].move_id), ("debates ran in a jail", &None));
    let report = assize_consult::ConsultReport::from(&state);
    assert!(report.to_markdown().contains("> **Note: debates ran in a jail.**"));
    assert!(report.to_html().contains("<b>weaker isolation</b>: debates ran in a jail"));
}

#[tokio::test(flavor = "multi_thread")]
async fn authentication_error_ends_the_whole_run() {
    let fixture = Fixture::new().await;
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m1/i1/round-2/D1" => Some(Err(assize_llm::ModelError::new(
            assize_llm::ErrorKind::Unauthorized,
            "API key revoked",
        ))),
        _ => one_move(asked),
    });
    let error = consult(fixture.consult_context(&model, false)).await.unwrap_err();
    assert!(error.to_string().contains("API key revoked"), "{error}");
    assert!(fixture.manager.list(&BTreeMap::new()).unwrap().is_empty());
}

#[test]
fn repeated_install_reuses_the_installed_negotiator() {
    let folder = tempfile::tempdir().unwrap();
    let first = install(folder.path()).unwrap();
    let again = install(folder.path()).unwrap();
    assert_eq!(first, again);
    let count = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    assert_eq!((count(folder.path()), count(&first.from)), (1, 1));
}

/// The host rejects a verdict from a sandbox that does not follow from the recorded model answers.
#[tokio::test(flavor = "multi_thread")]
async fn forged_verdict_from_a_sandbox_is_rejected() {
    let fixture = Fixture::new().await;
    let honest = consult(small(&Script::saying(one_move))).await.unwrap();
    let mut verdict = (*honest.policy_scores[0]).clone();
    verdict.total_score = 120;
    let folder = fixture.folder.path().join("liar");
    std::fs::create_dir(&folder).unwrap();
    let forged = folder.join("verdict.json");
    std::fs::write(&forged, serde_json::to_vec(&verdict).unwrap()).unwrap();
    let program = folder.join("negotiator");
    std::fs::write(&program, "#!/bin/sh\ncat \"$(dirname \"$0\")/verdict.json\"\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let layer = assize_sandbox::SandboxLayer::of(&folder).unwrap();
    let debates = Arc::into_inner(fixture.debates(false)).unwrap();
    let debates = Arc::new(SandboxedDebates { layer, ..debates });
    let model = Script::saying(one_move);
    let error = consult(ConsultContext { debates, ..small(&model) }).await.unwrap_err().to_string();
    assert!(error.contains("invalid verdict from the sandbox"), "{error}");
    assert!(error.contains("no recorded answer for"), "{error}");
}

/// The host can read and write files in a sandbox during its debate, and removes the sandbox at the end.
#[tokio::test(flavor = "multi_thread")]
async fn host_accesses_files_in_a_debate_sandbox_and_removes_the_sandbox() {
    let fixture = Fixture::new().await;
    let manager = fixture.manager.clone();
    let model = Script::saying(move |asked| {
        // Before the first answer, every conversation file contains the opening critique.
        if asked.key == "m1/i1/round-1/D1" {
            in_first_sandbox(&manager, async |sandbox| {
                sandbox.write("/workspace/note.txt", b"hello").await.unwrap();
                assert_eq!(sandbox.read("/workspace/note.txt", 100).await.unwrap(), b"hello");
                for log in ["i1", "i2", "i3"] {
                    let path = format!("/workspace/logs/{log}.json");
                    let log = sandbox.read(&path, 1 << 20).await.unwrap();
                    let log: serde_json::Value = serde_json::from_slice(&log).unwrap();
                    assert_eq!(log[0]["role"], "critic");
                }
            });
        }
        one_move(asked)
    });
    consult(fixture.consult_context(&model, false)).await.unwrap();
    assert!(fixture.manager.list(&BTreeMap::new()).unwrap().is_empty());
}

/// An answer many times longer than requested is truncated, and the debate continues.
#[tokio::test(flavor = "multi_thread")]
async fn oversized_model_answer_is_truncated() {
    let fixture = Fixture::new().await;
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m1/i1/round-1/D1" => Some(Ok("word ".repeat(300_000))),
        _ => one_move(asked),
    });
    let state = consult(fixture.consult_context(&model, false)).await.unwrap();
    let log = &state.policy_scores[0].conversation_logs.values().next().unwrap();
    assert!(log[1].cut_off && log[1].content.len() < 40_000);
    assert!(!log[2].cut_off && log.len() == 6);
}

/// If the negotiator is killed, for example by the kernel when memory is short, the debate continues in a new sandbox.
#[tokio::test(flavor = "multi_thread")]
async fn killed_negotiator_is_restarted_in_a_new_sandbox() {
    let fixture = Fixture::new().await;
    let manager = fixture.manager.clone();
    let killed = AtomicBool::new(false);
    let model = Script::saying(move |asked| {
        if asked.key == "m1/i2/round-2/D2" && !killed.swap(true, Ordering::SeqCst) {
            in_first_sandbox(&manager, async |sandbox| {
                let kill = ProgramCommand::new("/bin/sh").args(["-c", "kill -9 -1"]);
                let mut running = sandbox.exec(kill).await.unwrap();
                while !matches!(running.next().await, Ok(ProgramEvent::Ended(_)) | Err(_)) {}
            });
        }
        one_move(asked)
    });
    let state = consult(fixture.consult_context(&model, false)).await.unwrap();
    assert_eq!(fixture.backend.made.load(Ordering::SeqCst), 3);
    let keys = asked(&model);
    let once: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!((once.len(), state.policy_scores.len()), (keys.len(), 2));
}

/// Model source that cancels the debate and ends its sandbox instead of answering.
struct Breaking {
    manager: Arc<SandboxManager>,
    cancel: Cancel,
}

#[async_trait]
impl ModelSource for Breaking {
    async fn answer_call(&self, _: &str, _: &ModelRequest) -> Result<ModelResponse, ModelError> {
        self.cancel.cancel("enough");
        in_first_sandbox(&self.manager, async |sandbox| sandbox.end().await);
        Err(ModelError::new(ErrorKind::Connection, "simulated error"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_debate_is_not_retried_in_another_sandbox() {
    let fixture = Fixture::new().await;
    let (move_id, content) = ("m1".to_owned(), "Open it.".to_owned());
    let job = DebateSpec {
        move_document: MoveDocument { move_id, content },
        company: assize_debate::DebateCompany {
            ticker: Some("BRK.B".to_owned()),
            ..assize_debate::DebateCompany::default()
        },
        personas: assize_debate::DebatePersonas::default(),
        max_rounds: 3,
        options: assize_debate::DebateOptions::default(),
        changes: Vec::new(),
    };
    let cancel = Cancel::new();
    let source = Breaking { manager: fixture.manager.clone(), cancel: cancel.clone() };
    let proxy = Arc::new(ModelProxy::new(Arc::new(source), &job));
    let error = fixture.debates(false).run_debate(&job, proxy, &cancel).await.unwrap_err();
    assert!(
        matches!(&error, NodeError::Stop(RunError::Cancelled { reason }) if reason.to_string() == "enough"),
        "{error:?}"
    );
    assert_eq!(fixture.backend.made.load(Ordering::SeqCst), 1);
}

fn broken(kind: assize_llm::ErrorKind) -> Option<Result<String, assize_llm::ModelError>> {
    Some(Err(assize_llm::ModelError::new(kind, "simulated error")))
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_first_answer_of_a_decision_maker_ends_only_its_conversation() {
    let fixture = Fixture::new().await;
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m1/i1/round-1/D1" => broken(assize_llm::ErrorKind::Server),
        _ => one_move(asked),
    });
    let state = consult(fixture.consult_context(&model, false)).await.unwrap();
    assert_eq!(state.policy_scores.len(), 2);
    let partial: Vec<&str> = (state.flags.iter())
        .filter(|flag| flag.kind == FlagKind::Partial)
        .map(|flag| flag.message.as_str())
        .collect();
    assert_eq!(partial, ["conversation i1 ended after 0 of 3 rounds: simulated error"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn move_with_a_failed_opening_critique_is_flagged_instead_of_ranked() {
    let fixture = Fixture::new().await;
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m2/round-1/critic" => broken(assize_llm::ErrorKind::Declined),
        _ => one_move(asked),
    });
    let state = consult(fixture.consult_context(&model, false)).await.unwrap();
    assert_eq!(state.ranked.unwrap().recommended_moves, ["m1"]);
    let flag = state.flags.iter().find(|flag| flag.kind == FlagKind::NotDebated).unwrap();
    assert!(flag.message.starts_with("m2 was not debated"), "{}", flag.message);
    // If the opening critiques of all debates fail, the run fails.
    let silent = Script::saying(|asked| match asked.key.ends_with("/round-1/critic") {
        true => broken(assize_llm::ErrorKind::Declined),
        false => one_move(asked),
    });
    let error = consult(fixture.consult_context(&silent, false)).await.unwrap_err();
    assert!(error.to_string().contains("failed calls affect 2 of 2 moves"), "{error}");
}

/// For each of the two moves, the call of one judge fails permanently: the run fails, and a resumed run repeats these
/// calls.
#[tokio::test(flavor = "multi_thread")]
async fn failed_scores_are_requested_again_on_resume() {
    let fixture = Fixture::new().await;
    let journal = Arc::new(assize_graph::MemoryJournal::new());
    let run = async |model: &Arc<Script>| {
        let company = ConsultCompany { ticker: Some("BRK.B".parse().unwrap()), name: None };
        let options = RunOptions::with_journal(journal.clone());
        let context = fixture.consult_context(model, false);
        graph(Arc::new(context)).unwrap().run(ConsultState::new(company), options).await
    };
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m1/i2/score" | "m2/i2/score" => broken(assize_llm::ErrorKind::RateLimited),
        _ => one_move(asked),
    });
    let error = run(&model).await.unwrap_err();
    assert!(error.to_string().contains("affect 2 of 2 moves"), "{error}");
    assert!(fixture.manager.list(&BTreeMap::new()).unwrap().is_empty());
    let healthy = Script::saying(one_move);
    let state = run(&healthy).await.unwrap();
    assert_eq!(state.policy_scores.len(), 2);
    assert!(state.policy_scores.iter().all(|verdict| verdict.first_error().is_none()));
    // Only calls of the failed judges are checked. Calls of other judges may have been in progress when the run failed.
    let again: Vec<String> = (healthy.asked.lock().unwrap().iter())
        .map(|asked| asked.key.clone())
        .filter(|key| key.contains("/i2/"))
        .collect();
    assert_eq!(again.len(), 2, "{again:?}");
}
