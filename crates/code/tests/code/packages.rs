//! Packages that programs ask for: from the registry, and from a folder without a network.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use assize_code::packages::Packages;
use assize_code::{CodeFailure, Task, Verdict};
use serde_json::json;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::bench::{Bench, Line, Script, critique};

fn needing(code: &str, dependencies: &[&str]) -> Line {
    let answer =
        json!({"code": code, "dependencies": dependencies, "reasoning": "", "confidence": 1.0});
    Line::Text(answer.to_string())
}

fn packages(folder: &Path, allowed: &[&str], wheels: Option<PathBuf>) -> Packages {
    let mut ask = std::process::Command::new("python3");
    let mut python = ask.args(["-c", "import sys; print(sys.executable)"]).output().unwrap().stdout;
    python.pop();
    let pip = [String::from_utf8(python).unwrap(), "-m".to_owned(), "pip".to_owned()];
    Packages {
        folder: folder.to_owned(),
        allowed: allowed.iter().map(|name| (*name).to_owned()).collect(),
        pip: pip.into(),
        wheels,
        env: std::env::vars().collect(),
    }
}

async fn try_with(bench: &Bench, packages: Packages, model: &Arc<Script>) -> Verdict {
    let court = bench.court(model.clone()).with_packages(packages);
    let task = Task { max_attempts: 2, ..Task::new("x") };
    bench.try_with(Arc::new(court), task, Default::default()).await.verdict.unwrap()
}

/// A small wheel, as anybody could make it.
fn wheel(folder: &Path, name: &str, code: &str, needs: &str) {
    let path = folder.join(format!("{name}-1.0-py3-none-any.whl"));
    let mut writer = ZipWriter::new(File::create(path).unwrap());
    let info = format!("{name}-1.0.dist-info");
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}\n");
    for (file, text) in [
        (format!("{name}.py"), code),
        (format!("{info}/METADATA"), &metadata),
        (format!("{info}/WHEEL"), "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"),
        (format!("{info}/RECORD"), ""),
    ] {
        writer.start_file(file, SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn packages_come_from_a_folder_of_wheels_without_a_network() {
    let bench = Bench::new().await;
    let (folder, wheels) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    wheel(wheels.path(), "assizeone", "ONE = 1", "");
    let needs = "Requires-Dist: assizeone (>=1.0) ; python_version >= '3'\nRequires-Dist: nothing ; extra == 'x'";
    wheel(
        wheels.path(),
        "assizesix",
        "import assizeone\ndef six(): return 5 + assizeone.ONE",
        needs,
    );
    let mut from =
        packages(folder.path(), &["assizesix", "assizeseven"], Some(wheels.path().to_owned()));
    let pip = folder.path().join("pip");
    let becomes = |text: &str| {
        std::fs::write(&pip, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(&pip, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    becomes(&format!("exec {} \"$@\"", from.pip.join(" ")));
    from.pip = vec![pip.display().to_string()];
    let model = Script::new([
        needing("import assizeseven", &["assizeseven"]),
        critique("it is not there", "use another"),
        needing("import assizesix; print(assizesix.six())", &["assizesix"]),
    ]);
    let verdict = try_with(&bench, from.clone(), &model).await;
    assert_eq!(verdict.answer.as_deref(), Some("6\n"), "{verdict:?}");
    // What cannot be had is the critic's matter.
    let error = verdict.history[0].error.as_ref().unwrap().to_string();
    assert!(
        error.contains("the packages assizeseven cannot be had: No matching distribution"),
        "{error}"
    );
    assert!(
        model.told(1).contains("It was not run: the packages assizeseven"),
        "{}",
        model.told(1)
    );
    assert!(model.told(0).contains("but only these: assizeseven, assizesix."), "{}", model.told(0));
    // Known from then on without asking anybody; and it cannot be changed from inside.
    becomes("exit 7");
    let code = "
import assizesix
try: open(assizesix.__file__, 'a')
except OSError: print('read-only')";
    let answer = async || {
        let model = Script::new([needing(code, &["AssizeSix"])]);
        let court = bench.court(model.clone()).with_packages(from.clone());
        let tried = bench.try_with(Arc::new(court), Task::new("x"), Default::default()).await;
        tried.verdict.map(|verdict| verdict.answer).map_err(|error| error.to_string())
    };
    let read_only = || Ok(Some("read-only\n".to_owned()));
    assert_eq!(answer().await, read_only());
    // After a while it would be looked for anew, and is used all the same if that is in vain.
    for entry in std::fs::read_dir(folder.path().join("resolved")).unwrap() {
        let file = File::options().write(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(30 * 24 * 60 * 60)).unwrap();
    }
    assert_eq!(answer().await, read_only());
    // Where there are other wheels there may be another answer.
    wheel(wheels.path(), "assizeten", "", "");
    let error = answer().await.unwrap_err();
    assert!(error.contains("packages cannot be fetched: pip does not say why"), "{error}");
}

/// Layers carry bytecode that a sandbox compiled, the same each time.
#[tokio::test(flavor = "multi_thread")]
async fn layers_carry_the_same_bytecode_each_time() {
    let bench = Bench::new().await;
    let wheels = tempfile::tempdir().unwrap();
    let code = "KINDS = {'a', 'b', 'c', 'd'}\ndef six(kind): return 6 if kind in {'x', 'y', 'z'} else len(KINDS)\n";
    wheel(wheels.path(), "assizesix", code, "");
    wheel(wheels.path(), "assizebroken", "def (:", "");
    let program = "import os, assizesix\nbytes = open(assizesix.__cached__, 'rb').read()\n\
                   print(assizesix.six('x'), bytes[4:8].hex())";
    let mut digests = Vec::new();
    for _ in 0..2 {
        let folder = tempfile::tempdir().unwrap();
        let allowed = ["assizesix", "assizebroken"];
        let from = packages(folder.path(), &allowed, Some(wheels.path().to_owned()));
        // A module that cannot be compiled does not keep the others from it.
        let model = Script::new([needing(program, &allowed)]);
        let verdict = try_with(&bench, from, &model).await;
        // The flags of a file with an unchecked hash.
        assert_eq!(verdict.answer.as_deref(), Some("6 01000000\n"), "{verdict:?}");
        let layers = std::fs::read_dir(folder.path().join("layers")).unwrap();
        let records = layers.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
        for record in records {
            let layer: serde_json::Value =
                serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
            digests.push(layer["digest"].clone());
        }
    }
    assert_eq!(digests.len(), 2);
    assert_eq!(digests[0], digests[1], "the same packages are the same layer");
}

#[tokio::test(flavor = "multi_thread")]
async fn missing_bytecode_is_compiled_on_a_later_use_and_not_for_ever() {
    let bench = Bench::new().await;
    let wheels = tempfile::tempdir().unwrap();
    wheel(wheels.path(), "assizesix", "SIX = 6", "");
    let code = "import os, assizesix\nprint(assizesix.SIX, os.path.exists(assizesix.__cached__))";
    let has_bytecode = async |folder: &Path| {
        let from = packages(folder, &["assizesix"], Some(wheels.path().to_owned()));
        let model = Script::new([needing(code, &["assizesix"])]);
        let verdict = try_with(&bench, from, &model).await;
        match verdict.answer.as_deref() {
            Some("6 True\n") => true,
            Some("6 False\n") => false,
            _ => panic!("{verdict:?}"),
        }
    };
    let folder = tempfile::tempdir().unwrap();
    bench.break_compiling(true);
    assert!(!has_bytecode(folder.path()).await);
    assert!(!has_bytecode(folder.path()).await);
    bench.break_compiling(false);
    assert!(has_bytecode(folder.path()).await);
    assert!(has_bytecode(folder.path()).await);
    assert_eq!(bench.compilations(), 3);
    let folder = tempfile::tempdir().unwrap();
    bench.break_compiling(true);
    for _ in 0..5 {
        assert!(!has_bytecode(folder.path()).await);
    }
    assert_eq!(bench.compilations(), 6);
}

/// An answer that is only a fenced program declares nothing: what it imports counts, if it is allowed.
#[tokio::test(flavor = "multi_thread")]
async fn imports_of_a_fenced_program_count_as_dependencies_if_they_are_allowed() {
    let bench = Bench::new().await;
    let (folder, wheels) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    wheel(wheels.path(), "assizesix", "def six(): return 6", "");
    wheel(wheels.path(), "assizeevil", "", "");
    let from = packages(folder.path(), &["assizesix"], Some(wheels.path().to_owned()));
    let fenced = |code: &str| Line::Text(format!("Sure, here it is:\n```python\n{code}\n```\n"));
    let good = "import json\nfrom assizesix import six\nprint(six())";
    let bad = "import assizeevil";
    let model = Script::new([
        fenced(bad),
        fenced(bad),
        critique("it is not there", "use another"),
        fenced(good),
        fenced(good),
    ]);
    let verdict = try_with(&bench, from, &model).await;
    assert_eq!(verdict.answer.as_deref(), Some("6\n"), "{verdict:?}");
    let declared: Vec<_> =
        verdict.history.iter().map(|attempt| attempt.dependencies.clone()).collect();
    assert_eq!(declared, [vec![], vec!["assizesix".to_owned()]]);
    let error = &verdict.history[0].execution.as_ref().unwrap().stderr;
    assert!(error.contains("No module named 'assizeevil'"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn extras_and_versions_are_heeded_and_several_may_fill_the_cache_at_once() {
    let bench = Bench::new().await;
    let (folder, wheels) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    wheel(wheels.path(), "assizeone", "ONE = 1", "");
    let needs = "Requires-Dist: assizeone ; extra == 'more'\nRequires-Dist: assizenone; python_version < '3'";
    wheel(wheels.path(), "assizesix", "", needs);
    let from = packages(folder.path(), &["assizesix"], Some(wheels.path().to_owned()));
    let code = "import importlib.util, assizesix\nprint(importlib.util.find_spec('assizeone') is not None)";
    let run = async |wanted: &str| {
        let model = Script::new([
            needing(code, &[wanted]),
            critique("no", "none"),
            needing("print('without')", &[]),
        ]);
        try_with(&bench, from.clone(), &model).await.answer.unwrap()
    };
    let four = [(); 4].map(|()| run("assizesix[more] >= 1"));
    assert_eq!(futures_util::future::join_all(four).await, ["True\n"; 4]);
    assert_eq!(run("assizesix==1.0").await, "False\n");
    assert_eq!(run("assizesix>=2").await, "without\n");
    let left = std::fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name());
    let left: BTreeSet<_> = left.collect();
    assert_eq!(left, ["layers", "resolved"].map(Into::into).into());
}

/// A disk that is full is no fault of the program's, which may have its packages another time.
#[tokio::test(flavor = "multi_thread")]
async fn packages_that_find_no_room_end_the_run() {
    let bench = Bench::new().await;
    let wheels = tempfile::tempdir().unwrap();
    wheel(wheels.path(), "assizesix", "", "");
    let from = packages("/proc/self".as_ref(), &["assizesix"], Some(wheels.path().to_owned()));
    let court = bench.court(Script::new([needing("import assizesix", &["assizesix"])]));
    let court = Arc::new(court.with_packages(from));
    let error = bench.try_with(court, Task::new("x"), Default::default()).await.verdict;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("packages cannot be fetched: cannot use `/proc/self`"), "{error}");
}

/// An address in what a package needs would be fetched and run by `pip` itself.
#[tokio::test(flavor = "multi_thread")]
async fn a_package_that_needs_an_address_is_refused_and_nothing_of_it_runs() {
    let bench = Bench::new().await;
    let (folder, wheels) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let evil = tempfile::tempdir().unwrap();
    let marker = evil.path().join("ran");
    let backend = format!("open({marker:?}, 'w').close()\ndef build_wheel(*_): raise SystemExit\n");
    std::fs::write(evil.path().join("backend.py"), backend).unwrap();
    let project =
        "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n";
    std::fs::write(evil.path().join("pyproject.toml"), project).unwrap();
    let needs = format!("Requires-Dist: evil @ file://{}", evil.path().display());
    wheel(wheels.path(), "assizesix", "", &needs);
    let from = packages(folder.path(), &["assizesix"], Some(wheels.path().to_owned()));
    let model = Script::new([
        needing("import assizesix", &["assizesix"]),
        critique("no", "none"),
        needing("print('without')", &[]),
    ]);
    let verdict = try_with(&bench, from, &model).await;
    let error = verdict.history[0].error.as_ref().unwrap().to_string();
    assert!(error.contains("needs `evil @ file:"), "{error}");
    assert!(!marker.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_on_the_list_is_refused_before_anybody_is_asked() {
    let bench = Bench::new().await;
    let folder = tempfile::tempdir().unwrap();
    let mut none = packages(folder.path(), &["assizesix"], None);
    none.pip = vec!["/nonexistent/pip".to_owned()];
    for name in
        ["assizenone", "assizesix @ https://example.org/six.whl", "--index-url=x", "-r/etc/passwd"]
    {
        let model = Script::new([
            needing("import assizesix", &[name]),
            critique("no", "none"),
            needing("print('without')", &[]),
        ]);
        let verdict = try_with(&bench, none.clone(), &model).await;
        let error = verdict.history[0].error.as_ref().unwrap().to_string();
        assert_eq!(error, format!("the package `{name}` is not one of those that may be used"));
        assert_eq!(verdict.answer.as_deref(), Some("without\n"));
    }
}

/// That there is no pip is no fault of the program.
#[tokio::test(flavor = "multi_thread")]
async fn without_pip_the_run_ends_and_can_go_on() {
    let bench = Bench::new().await;
    let folder = tempfile::tempdir().unwrap();
    for pip in [&["/nonexistent/pip"][..], &["python3", "-m", "no_such_pip"]] {
        let mut from = packages(folder.path(), &["assizesix"], None);
        from.pip = pip.iter().map(|word| (*word).to_owned()).collect();
        let model = Script::new([needing("import assizesix", &["assizesix"])]);
        let court = bench.court(model.clone()).with_packages(from);
        let tried = bench.try_with(Arc::new(court), Task::new("x"), Default::default()).await;
        let error = tried.verdict.unwrap_err().to_string();
        assert!(error.contains("packages cannot be fetched"), "{error}");
    }
}

/// One in Python alone, and one that is compiled.
#[tokio::test(flavor = "multi_thread")]
async fn packages_come_from_the_registry() {
    let bench = Bench::new().await;
    let folder = tempfile::tempdir().unwrap();
    let from = packages(folder.path(), &["six", "markupsafe"], None);
    let code = "
import six, markupsafe, markupsafe._speedups
print(six.__version__, markupsafe.escape('<'), markupsafe._speedups.__file__.endswith('.so'))
print(all(one.__file__.startswith('/opt/layers/') for one in (six, markupsafe)))";
    let model = Script::new([
        needing(code, &["six==1.15.0", "MarkupSafe==3.0.1"]),
        critique("", ""),
        needing("pass", &[]),
    ]);
    let verdict = try_with(&bench, from, &model).await;
    if let Some(error) = verdict.history[0].error.as_ref().filter(|error| !error.was_run()) {
        return skipped(error);
    }
    assert_eq!(verdict.answer.as_deref(), Some("1.15.0 &lt; True\nTrue\n"), "{verdict:?}");
}

/// With what people use of it: fixtures, parameters, expected errors.
#[tokio::test(flavor = "multi_thread")]
async fn tests_may_be_written_for_pytest() {
    let bench = Bench::new().await;
    let tests = "
import pytest
from solution import double

@pytest.fixture
def two(): return 2

@pytest.mark.parametrize('n', [1, 2, 3])
def test_all(n): assert double(n) == n + n

def test_fixture(two, tmp_path): assert double(two) == 4

def test_raises():
    with pytest.raises(TypeError): double(None)
";
    let folder = tempfile::tempdir().unwrap();
    // It need not be on the list: these are the user's own tests.
    let from = packages(folder.path(), &["numpy"], None);
    let tested = async |program: &str, tests: &str| {
        let model = Script::new([needing(program, &[]), critique("no", "none")]);
        let court = bench.court(model.clone()).with_packages(from.clone());
        let tests = Some(tests.to_owned());
        let task = Task { max_attempts: 1, tests, ..Task::new("x") };
        bench.try_with(Arc::new(court), task, Default::default()).await.verdict.unwrap()
    };
    let right = "def double(n): return n * 2";
    let verdict = tested(right, tests).await;
    if let Some(error) = verdict.history[0].error.as_ref().filter(|error| !error.was_run()) {
        return skipped(error);
    }
    let report = verdict.history[0].execution.as_ref().unwrap().tests.clone().unwrap();
    assert_eq!((verdict.success, report.passed), (true, 5), "{verdict:?}");
    let wrong = "def double(n): return n * n";
    let verdict = tested(wrong, tests).await;
    assert_eq!(verdict.error.as_deref(), Some("2 of 5 tests failed"), "{verdict:?}");
    let report = verdict.history[0].execution.as_ref().unwrap().tests.clone().unwrap();
    assert!(report.failed[0].name.contains("test_all[1]"), "{report:?}");
    let early = "def double(n): __import__('os')._exit(0)";
    let verdict = tested(early, tests).await;
    assert_eq!(verdict.history[0].error, Some(CodeFailure::LeftEarly));
    let none = "import pytest\n@pytest.mark.skip\ndef test_one(): pass";
    assert_eq!(tested(right, none).await.history[0].error, Some(CodeFailure::NoTests));
}

/// There is no registry here, which must have been so from the start.
#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn skipped(error: &CodeFailure) {
    let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
    assert!(!required.contains("pypi"), "{error}");
    eprintln!("skipped: {error}");
}
