//! Debates inside real sandboxes, which ask this process for every answer.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use assize_config::{Isolation, Limits};
use assize_consult::{Chamber, Company, ConsultState, FlagKind, graph};
use assize_consult::{Debates, InSandboxes, ModelProxy, ModelSource, install};
use assize_debate::{Job, MoveDocument};
use assize_graph::{NodeError, RunError, RunOptions};
use assize_llm::{ErrorKind, ModelError, Request, Response};
use assize_sandbox::jail::Jail;
use assize_sandbox::{
    Backend, Command, Enforcement, Event, Identity, Key, Language, Manager, Sandbox, SandboxError,
    Spec, Started,
};
use assize_types::Cancel;
use async_trait::async_trait;

use crate::script::{Part, Script, chamber};

/// A jail that can be told to refuse.
#[derive(Debug)]
struct Moody {
    jail: Jail,
    refuses: AtomicBool,
    made: AtomicUsize,
}

#[async_trait]
impl Backend for Moody {
    fn isolation(&self) -> Isolation {
        self.jail.isolation()
    }

    async fn start(&self, identity: &Identity, spec: &Spec) -> Result<Started, SandboxError> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(SandboxError::Broke("it was told to".to_owned()));
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

struct House {
    folder: tempfile::TempDir,
    backend: Arc<Moody>,
    manager: Arc<Manager>,
}

impl House {
    async fn new() -> House {
        let folder = tempfile::tempdir().unwrap();
        let jail = Jail::new(Vec::new());
        let backend =
            Arc::new(Moody { jail, refuses: AtomicBool::new(false), made: AtomicUsize::new(0) });
        let dynamic: Arc<dyn Backend> = backend.clone();
        let manager = Manager::open(folder.path().join("makers"), dynamic, &[]).await.unwrap();
        let manager = Arc::new(manager);
        House { folder, backend, manager }
    }

    fn debates(&self, may_do_without: bool) -> Arc<InSandboxes> {
        let limits = Limits { cpu_millis: 1000, ..Limits::default() };
        let layer = install(&self.folder.path().join("programs")).unwrap();
        let spec = Spec { limits, ..Spec::default() };
        let (manager, run) = (self.manager.clone(), "consult-test".to_owned());
        Arc::new(InSandboxes {
            manager,
            spec,
            layer,
            run,
            may_do_without,
            weaker: None,
            isolation: String::new(),
        })
    }

    /// Sandboxes that are a weaker boundary than was meant.
    fn weaker(&self, message: &str) -> Arc<InSandboxes> {
        let debates = Arc::into_inner(self.debates(false)).unwrap();
        Arc::new(InSandboxes { weaker: Some(message.to_owned()), ..debates })
    }

    fn chamber(&self, model: &Arc<Script>, may_do_without: bool) -> Chamber {
        let debates = self.debates(may_do_without);
        Chamber { debates, ..small(model) }
    }
}

/// Two analysts with one move each, and three rounds.
fn small(model: &Arc<Script>) -> Chamber {
    let mut chamber = chamber(model, 3, 2);
    chamber.personas.analysts.truncate(2);
    chamber.moves = 1;
    chamber
}

fn one_move(asked: &crate::script::Asked) -> Option<Result<String, assize_llm::ModelError>> {
    match &asked.part {
        Part::Proposal(analyst, _) => Some(Ok(crate::script::proposal(*analyst, 1))),
        _ => None,
    }
}

async fn consult(chamber: Chamber) -> Result<ConsultState, RunError> {
    let company = Company { ticker: Some("BRK.B".parse().unwrap()), name: None };
    graph(Arc::new(chamber)).unwrap().run(ConsultState::new(company), RunOptions::default()).await
}

/// Does something in the sandbox of the first move, while its debate waits for an answer.
fn in_the_first(manager: &Manager, what: impl AsyncFnOnce(Sandbox)) {
    let key = Key { run: Some("consult-test".to_owned()), name: "negotiate-brk-b-m1".to_owned() };
    tokio::task::block_in_place(|| {
        tokio::runtime::Handle::current().block_on(async {
            what(manager.get(&key).await.unwrap().unwrap()).await;
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
async fn a_debate_in_a_sandbox_comes_to_the_same_as_one_in_this_process() {
    let house = House::new().await;
    let here = Script::saying(one_move);
    let expected = consult(small(&here)).await.unwrap();
    // While it debates, it is there under its name and labels, and what was said is in its files.
    let manager = house.manager.clone();
    let there = Script::saying(move |asked| {
        if asked.key == "m2/i3/score" {
            let labels = BTreeMap::from([("move".to_owned(), "m2".to_owned())]);
            let found = manager.list(&labels).unwrap();
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!(found[0].key.name, "negotiate-brk-b-m2");
        }
        one_move(asked)
    });
    let state = consult(house.chamber(&there, false)).await.unwrap();
    assert_eq!(state.policy_scores, expected.policy_scores);
    assert_eq!(state.ranked, expected.ranked);
    assert_eq!(asked(&there), asked(&here));
    assert_eq!(state.spent, expected.spent);
    assert!(!state.flags.iter().any(|flag| flag.kind == FlagKind::NoIsolation));
    // Each had one of its own, and nothing is left of them.
    assert_eq!(house.backend.made.load(Ordering::SeqCst), 2);
    assert!(house.manager.list(&BTreeMap::new()).unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_dies_in_round_6_is_made_anew_and_nothing_is_asked_twice() {
    let house = House::new().await;
    let manager = house.manager.clone();
    let killed = AtomicBool::new(false);
    let model = Script::saying(move |asked| {
        if asked.key == "m1/i2/round-6/D2" && !killed.swap(true, Ordering::SeqCst) {
            in_the_first(&manager, async |sandbox| sandbox.end().await);
        }
        one_move(asked)
    });
    let longer = |chamber: Chamber| Chamber { rounds: 7, ..chamber };
    let state = consult(longer(house.chamber(&model, false))).await.unwrap();
    assert_eq!(house.backend.made.load(Ordering::SeqCst), 3);
    assert_eq!(state.policy_scores.len(), 2);
    let keys = asked(&model);
    let once: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!(once.len(), keys.len(), "{keys:?}");
    let expected = consult(longer(small(&Script::saying(one_move)))).await.unwrap();
    assert_eq!(state.policy_scores, expected.policy_scores);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_sandbox_it_is_held_here_only_where_that_is_allowed() {
    let house = House::new().await;
    house.backend.refuses.store(true, Ordering::SeqCst);
    let model = Script::saying(one_move);
    let state = consult(house.chamber(&model, true)).await.unwrap();
    let flags: Vec<&str> = state
        .flags
        .iter()
        .filter(|flag| flag.kind == FlagKind::NoIsolation)
        .map(|flag| flag.message.as_str())
        .collect();
    assert_eq!(flags.len(), 2);
    assert!(flags[0].contains("no sandbox could be made") && flags[0].contains("it was told to"));
    let error = consult(house.chamber(&Script::saying(one_move), false)).await.unwrap_err();
    assert!(error.to_string().contains("it was told to"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn weaker_boundary_is_flagged_once_for_all_moves() {
    let house = House::new().await;
    let model = Script::saying(one_move);
    let chamber = Chamber { debates: house.weaker("debates ran in a jail"), ..small(&model) };
    let state = consult(chamber).await.unwrap();
    let flags: Vec<&assize_consult::Flag> =
        state.flags.iter().filter(|flag| flag.kind == FlagKind::WeakerIsolation).collect();
    assert_eq!(flags.len(), 1, "{flags:?}");
    assert_eq!((flags[0].message.as_str(), &flags[0].move_id), ("debates ran in a jail", &None));
    let report = assize_consult::Report::from(&state);
    assert!(report.to_markdown().contains("> **Note: debates ran in a jail.**"));
    assert!(report.to_html().contains("<b>weaker isolation</b>: debates ran in a jail"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_that_cannot_be_asked_ends_the_run_and_not_only_the_debate() {
    let house = House::new().await;
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m1/i1/round-2/D1" => Some(Err(assize_llm::ModelError::new(
            assize_llm::ErrorKind::Unauthorized,
            "the key is gone",
        ))),
        _ => one_move(asked),
    });
    let error = consult(house.chamber(&model, false)).await.unwrap_err();
    assert!(error.to_string().contains("the key is gone"), "{error}");
    assert!(house.manager.list(&BTreeMap::new()).unwrap().is_empty());
}

#[test]
fn the_program_is_put_where_sandboxes_see_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let first = install(folder.path()).unwrap();
    let again = install(folder.path()).unwrap();
    assert_eq!(first, again);
    let count = |folder: &Path| std::fs::read_dir(folder).unwrap().count();
    assert_eq!((count(folder.path()), count(&first.from)), (1, 1));
}

/// Whatever comes out of a sandbox: only what the answers come to counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_lies_is_not_believed() {
    let house = House::new().await;
    let honest = consult(small(&Script::saying(one_move))).await.unwrap();
    let mut verdict = (*honest.policy_scores[0]).clone();
    verdict.total_score = 120;
    let folder = house.folder.path().join("liar");
    std::fs::create_dir(&folder).unwrap();
    let said = folder.join("verdict.json");
    std::fs::write(&said, serde_json::to_vec(&verdict).unwrap()).unwrap();
    let program = folder.join("negotiator");
    std::fs::write(&program, "#!/bin/sh\ncat \"$(dirname \"$0\")/verdict.json\"\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let layer = assize_sandbox::Layer::of(&folder).unwrap();
    let debates = Arc::into_inner(house.debates(false)).unwrap();
    let debates = Arc::new(InSandboxes { layer, ..debates });
    let model = Script::saying(one_move);
    let error = consult(Chamber { debates, ..small(&model) }).await.unwrap_err().to_string();
    assert!(error.contains("what the debate came to cannot be read"), "{error}");
    assert!(error.contains("nobody was asked"), "{error}");
}

/// Seen from the host: it is there, has its files, and is gone.
#[tokio::test(flavor = "multi_thread")]
async fn sandbox_lifecycle_create_write_read_delete() {
    let house = House::new().await;
    let manager = house.manager.clone();
    let model = Script::saying(move |asked| {
        // Before anybody has answered, the opening is in every log.
        if asked.key == "m1/i1/round-1/D1" {
            in_the_first(&manager, async |sandbox| {
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
    consult(house.chamber(&model, false)).await.unwrap();
    assert!(house.manager.list(&BTreeMap::new()).unwrap().is_empty());
}

/// Many times what was asked for is cut off, and the debate goes on.
#[tokio::test(flavor = "multi_thread")]
async fn a_book_instead_of_an_answer_is_cut_off() {
    let house = House::new().await;
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m1/i1/round-1/D1" => Some(Ok("word ".repeat(300_000))),
        _ => one_move(asked),
    });
    let state = consult(house.chamber(&model, false)).await.unwrap();
    let log = &state.policy_scores[0].conversation_logs.values().next().unwrap();
    assert!(log[1].cut_off && log[1].content.len() < 40_000);
    assert!(!log[2].cut_off && log.len() == 6);
}

/// Ended from outside, as the kernel does when memory is short: the debate goes on in another.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_killed_in_its_sandbox_is_started_again() {
    let house = House::new().await;
    let manager = house.manager.clone();
    let killed = AtomicBool::new(false);
    let model = Script::saying(move |asked| {
        if asked.key == "m1/i2/round-2/D2" && !killed.swap(true, Ordering::SeqCst) {
            in_the_first(&manager, async |sandbox| {
                let kill = Command::new("/bin/sh").args(["-c", "kill -9 -1"]);
                let mut running = sandbox.exec(kill).await.unwrap();
                while !matches!(running.next().await, Ok(Event::Ended(_)) | Err(_)) {}
            });
        }
        one_move(asked)
    });
    let state = consult(house.chamber(&model, false)).await.unwrap();
    assert_eq!(house.backend.made.load(Ordering::SeqCst), 3);
    let keys = asked(&model);
    let once: std::collections::BTreeSet<&String> = keys.iter().collect();
    assert_eq!((once.len(), state.policy_scores.len()), (keys.len(), 2));
}

/// Cancels the debate and ends its sandbox, instead of an answer.
struct Breaking {
    manager: Arc<Manager>,
    cancel: Cancel,
}

#[async_trait]
impl ModelSource for Breaking {
    async fn ask(&self, _: &str, _: &Request) -> Result<Response, ModelError> {
        self.cancel.cancel("enough");
        in_the_first(&self.manager, async |sandbox| sandbox.end().await);
        Err(ModelError::new(ErrorKind::Connection, "it broke"))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_debate_is_not_retried_in_another_sandbox() {
    let house = House::new().await;
    let (move_id, content) = ("m1".to_owned(), "Open it.".to_owned());
    let job = Job {
        move_document: MoveDocument { move_id, content },
        company: assize_debate::Company {
            ticker: Some("BRK.B".to_owned()),
            ..assize_debate::Company::default()
        },
        personas: assize_debate::Personas::default(),
        max_rounds: 3,
        options: assize_debate::Options::default(),
        changes: Vec::new(),
    };
    let cancel = Cancel::new();
    let source = Breaking { manager: house.manager.clone(), cancel: cancel.clone() };
    let proxy = Arc::new(ModelProxy::new(Arc::new(source), &job));
    let error = house.debates(false).hold(&job, proxy, &cancel).await.unwrap_err();
    assert!(
        matches!(&error, NodeError::Stop(RunError::Cancelled { reason }) if reason.to_string() == "enough"),
        "{error:?}"
    );
    assert_eq!(house.backend.made.load(Ordering::SeqCst), 1);
}

fn broken(kind: assize_llm::ErrorKind) -> Option<Result<String, assize_llm::ModelError>> {
    Some(Err(assize_llm::ModelError::new(kind, "it broke")))
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_fails_in_the_first_round_leaves_the_rest_of_the_debate() {
    let house = House::new().await;
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m1/i1/round-1/D1" => broken(assize_llm::ErrorKind::Server),
        _ => one_move(asked),
    });
    let state = consult(house.chamber(&model, false)).await.unwrap();
    assert_eq!(state.policy_scores.len(), 2);
    let partial: Vec<&str> = (state.flags.iter())
        .filter(|flag| flag.kind == FlagKind::Partial)
        .map(|flag| flag.message.as_str())
        .collect();
    assert_eq!(partial, ["i1 ended after 0 of 3 rounds: it broke"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_move_that_nobody_can_open_is_left_out_and_named() {
    let house = House::new().await;
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m2/round-1/critic" => broken(assize_llm::ErrorKind::Declined),
        _ => one_move(asked),
    });
    let state = consult(house.chamber(&model, false)).await.unwrap();
    assert_eq!(state.ranked.unwrap().recommended_moves, ["m1"]);
    let flag = state.flags.iter().find(|flag| flag.kind == FlagKind::NotDebated).unwrap();
    assert!(flag.message.starts_with("m2 was not debated"), "{}", flag.message);
    // Where none can be opened there is nothing to recommend.
    let silent = Script::saying(|asked| match asked.key.ends_with("/round-1/critic") {
        true => broken(assize_llm::ErrorKind::Declined),
        false => one_move(asked),
    });
    let error = consult(house.chamber(&silent, false)).await.unwrap_err();
    assert!(error.to_string().contains("failed calls affect 2 of 2 moves"), "{error}");
}

/// Judges of both moves fail for good: the run fails, and makes those calls again when it is resumed.
#[tokio::test(flavor = "multi_thread")]
async fn scores_that_failed_are_asked_for_again_when_the_run_is_resumed() {
    let house = House::new().await;
    let journal = Arc::new(assize_graph::MemoryJournal::new());
    let run = async |model: &Arc<Script>| {
        let company = Company { ticker: Some("BRK.B".parse().unwrap()), name: None };
        let options = RunOptions::with_journal(journal.clone());
        let chamber = house.chamber(model, false);
        graph(Arc::new(chamber)).unwrap().run(ConsultState::new(company), options).await
    };
    let model = Script::saying(|asked| match asked.key.as_str() {
        "m1/i2/score" | "m2/i2/score" => broken(assize_llm::ErrorKind::RateLimited),
        _ => one_move(asked),
    });
    let error = run(&model).await.unwrap_err();
    assert!(error.to_string().contains("affect 2 of 2 moves"), "{error}");
    assert!(house.manager.list(&BTreeMap::new()).unwrap().is_empty());
    let healthy = Script::saying(one_move);
    let state = run(&healthy).await.unwrap();
    assert_eq!(state.policy_scores.len(), 2);
    assert!(state.policy_scores.iter().all(|verdict| verdict.affected_by().is_none()));
    // How far the judges beside them came meanwhile is another matter.
    let again: Vec<String> = (healthy.asked.lock().unwrap().iter())
        .map(|asked| asked.key.clone())
        .filter(|key| key.contains("/i2/"))
        .collect();
    assert_eq!(again.len(), 2, "{again:?}");
}
