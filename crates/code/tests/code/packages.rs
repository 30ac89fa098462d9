//! Tests of Python packages: from the package index, and from a folder of wheels without a network.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use assize_code::packages::PackageSource;
use assize_code::{CodeFailure, CodeTask, CodeVerdict};
use serde_json::json;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

use crate::fixture::{Fixture, Reply, Script, critique};

fn needing(code: &str, dependencies: &[&str]) -> Reply {
    let answer =
        json!({"code": code, "dependencies": dependencies, "reasoning": "", "confidence": 1.0});
    Reply::Text(answer.to_string())
}

fn packages(folder: &Path, allowed: &[&str], wheels: Option<PathBuf>) -> PackageSource {
    let mut ask = std::process::Command::new("python3");
    let mut python = ask.args(["-c", "import sys; print(sys.executable)"]).output().unwrap().stdout;
    python.pop();
    let pip = [String::from_utf8(python).unwrap(), "-m".to_owned(), "pip".to_owned()];
    PackageSource {
        folder: folder.to_owned(),
        allowed: allowed.iter().map(|name| (*name).to_owned()).collect(),
        pip: pip.into(),
        wheels,
        env: std::env::vars().collect(),
    }
}

async fn run_with(fixture: &Fixture, packages: PackageSource, model: &Arc<Script>) -> CodeVerdict {
    let runner = fixture.code_runner(model.clone()).with_packages(packages);
    let task = CodeTask { max_attempts: 2, ..CodeTask::new("x") };
    fixture.run_with(Arc::new(runner), task, Default::default()).await.verdict.unwrap()
}

/// Writes a wheel with one module; `needs` is text that is appended to the wheel's metadata, such as dependencies.
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
async fn packages_are_installed_from_a_folder_of_wheels_and_cached() {
    let fixture = Fixture::new().await;
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
    let set_pip = |text: &str| {
        std::fs::write(&pip, format!("#!/bin/sh\n{text}")).unwrap();
        std::fs::set_permissions(&pip, std::fs::Permissions::from_mode(0o755)).unwrap();
    };
    set_pip(&format!("exec {} \"$@\"", from.pip.join(" ")));
    from.pip = vec![pip.display().to_string()];
    let model = Script::new([
        needing("import assizeseven", &["assizeseven"]),
        critique("it is not there", "use another"),
        needing("import assizesix; print(assizesix.six())", &["assizesix"]),
    ]);
    let verdict = run_with(&fixture, from.clone(), &model).await;
    assert_eq!(verdict.answer.as_deref(), Some("6\n"), "{verdict:?}");
    // A missing package is a failure of the program, which the critic reviews.
    let error = verdict.history[0].error.as_ref().unwrap().to_string();
    assert!(
        error.contains("the packages assizeseven cannot be installed: No matching distribution"),
        "{error}"
    );
    assert!(
        model.prompt(1).contains("It was not run: the packages assizeseven"),
        "{}",
        model.prompt(1)
    );
    assert!(
        model.prompt(0).contains("but only these: assizeseven, assizesix."),
        "{}",
        model.prompt(0)
    );
    // The layer is cached, so pip is not called again. Programs cannot change the layer.
    set_pip("exit 7");
    let code = "
import assizesix
try: open(assizesix.__file__, 'a')
except OSError: print('read-only')";
    let answer = async || {
        let model = Script::new([needing(code, &["AssizeSix"])]);
        let runner = fixture.code_runner(model.clone()).with_packages(from.clone());
        let result =
            fixture.run_with(Arc::new(runner), CodeTask::new("x"), Default::default()).await;
        result.verdict.map(|verdict| verdict.answer).map_err(|error| error.to_string())
    };
    let read_only = || Ok(Some("read-only\n".to_owned()));
    assert_eq!(answer().await, read_only());
    // A cached resolution that is too old is used if pip cannot update it.
    for entry in std::fs::read_dir(folder.path().join("resolved")).unwrap() {
        let file = File::options().write(true).open(entry.unwrap().path()).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(30 * 24 * 60 * 60)).unwrap();
    }
    assert_eq!(answer().await, read_only());
    // New wheels in the folder invalidate the cache.
    wheel(wheels.path(), "assizeten", "", "");
    let error = answer().await.unwrap_err();
    assert!(error.contains("cannot fetch packages: pip printed no error"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytecode_of_package_layers_is_deterministic() {
    let fixture = Fixture::new().await;
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
        // A module with a syntax error does not prevent the compilation of the others.
        let model = Script::new([needing(program, &allowed)]);
        let verdict = run_with(&fixture, from, &model).await;
        // `01000000` are the flags of Python bytecode with an unchecked hash.
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
    assert_eq!(digests[0], digests[1], "equal packages must have equal layers");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_bytecode_compilation_is_retried_up_to_a_maximum() {
    let fixture = Fixture::new().await;
    let wheels = tempfile::tempdir().unwrap();
    wheel(wheels.path(), "assizesix", "SIX = 6", "");
    let code = "import os, assizesix\nprint(assizesix.SIX, os.path.exists(assizesix.__cached__))";
    let has_bytecode = async |folder: &Path| {
        let from = packages(folder, &["assizesix"], Some(wheels.path().to_owned()));
        let model = Script::new([needing(code, &["assizesix"])]);
        let verdict = run_with(&fixture, from, &model).await;
        match verdict.answer.as_deref() {
            Some("6 True\n") => true,
            Some("6 False\n") => false,
            _ => panic!("{verdict:?}"),
        }
    };
    let folder = tempfile::tempdir().unwrap();
    fixture.fail_compilations(true);
    assert!(!has_bytecode(folder.path()).await);
    assert!(!has_bytecode(folder.path()).await);
    fixture.fail_compilations(false);
    assert!(has_bytecode(folder.path()).await);
    assert!(has_bytecode(folder.path()).await);
    assert_eq!(fixture.compilations(), 3);
    let folder = tempfile::tempdir().unwrap();
    fixture.fail_compilations(true);
    for _ in 0..5 {
        assert!(!has_bytecode(folder.path()).await);
    }
    assert_eq!(fixture.compilations(), 6);
}

/// An answer that is only a fenced code block cannot declare dependencies.
#[tokio::test(flavor = "multi_thread")]
async fn allowed_imports_of_a_program_without_declared_dependencies_are_installed() {
    let fixture = Fixture::new().await;
    let (folder, wheels) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    wheel(wheels.path(), "assizesix", "def six(): return 6", "");
    wheel(wheels.path(), "assizeevil", "", "");
    let from = packages(folder.path(), &["assizesix"], Some(wheels.path().to_owned()));
    let fenced = |code: &str| Reply::Text(format!("Sure, here it is:\n```python\n{code}\n```\n"));
    let good = "import json\nfrom assizesix import six\nprint(six())";
    let bad = "import assizeevil";
    let model = Script::new([
        fenced(bad),
        fenced(bad),
        critique("it is not there", "use another"),
        fenced(good),
        fenced(good),
    ]);
    let verdict = run_with(&fixture, from, &model).await;
    assert_eq!(verdict.answer.as_deref(), Some("6\n"), "{verdict:?}");
    let declared: Vec<_> =
        verdict.history.iter().map(|attempt| attempt.dependencies.clone()).collect();
    assert_eq!(declared, [vec![], vec!["assizesix".to_owned()]]);
    let error = &verdict.history[0].execution.as_ref().unwrap().stderr;
    assert!(error.contains("No module named 'assizeevil'"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requested_package_extras_and_versions_are_installed_in_concurrent_runs() {
    let fixture = Fixture::new().await;
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
        run_with(&fixture, from.clone(), &model).await.answer.unwrap()
    };
    let four = [(); 4].map(|()| run("assizesix[more] >= 1"));
    assert_eq!(futures_util::future::join_all(four).await, ["True\n"; 4]);
    assert_eq!(run("assizesix==1.0").await, "False\n");
    assert_eq!(run("assizesix>=2").await, "without\n");
    let left = std::fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name());
    let left: BTreeSet<_> = left.collect();
    assert_eq!(left, ["layers", "resolved"].map(Into::into).into());
}

/// A disk error is an infrastructure error: the run stops and can be resumed.
#[tokio::test(flavor = "multi_thread")]
async fn disk_error_of_the_package_cache_ends_the_run() {
    let fixture = Fixture::new().await;
    let wheels = tempfile::tempdir().unwrap();
    wheel(wheels.path(), "assizesix", "", "");
    let from = packages("/proc/self".as_ref(), &["assizesix"], Some(wheels.path().to_owned()));
    let runner = fixture.code_runner(Script::new([needing("import assizesix", &["assizesix"])]));
    let runner = Arc::new(runner.with_packages(from));
    let error = fixture.run_with(runner, CodeTask::new("x"), Default::default()).await.verdict;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("cannot fetch packages: cannot access `/proc/self`"), "{error}");
}

/// If pip resolved a URL dependency, pip would download source code from the URL and run the build backend in that
/// code.
#[tokio::test(flavor = "multi_thread")]
async fn package_with_a_url_dependency_is_refused_and_its_code_does_not_run() {
    let fixture = Fixture::new().await;
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
    let verdict = run_with(&fixture, from, &model).await;
    let error = verdict.history[0].error.as_ref().unwrap().to_string();
    assert!(error.contains("needs `evil @ file:"), "{error}");
    assert!(!marker.exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn package_that_is_not_allowed_is_refused_before_pip_runs() {
    let fixture = Fixture::new().await;
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
        let verdict = run_with(&fixture, none.clone(), &model).await;
        let error = verdict.history[0].error.as_ref().unwrap().to_string();
        assert_eq!(error, format!("the package `{name}` is not allowed"));
        assert_eq!(verdict.answer.as_deref(), Some("without\n"));
    }
}

/// A missing pip is an infrastructure error, not a failure of the program.
#[tokio::test(flavor = "multi_thread")]
async fn missing_pip_ends_the_run_with_an_error() {
    let fixture = Fixture::new().await;
    let folder = tempfile::tempdir().unwrap();
    for pip in [&["/nonexistent/pip"][..], &["python3", "-m", "no_such_pip"]] {
        let mut from = packages(folder.path(), &["assizesix"], None);
        from.pip = pip.iter().map(|word| (*word).to_owned()).collect();
        let model = Script::new([needing("import assizesix", &["assizesix"])]);
        let runner = fixture.code_runner(model.clone()).with_packages(from);
        let result =
            fixture.run_with(Arc::new(runner), CodeTask::new("x"), Default::default()).await;
        let error = result.verdict.unwrap_err().to_string();
        assert!(error.contains("cannot fetch packages"), "{error}");
    }
}

/// Installs a pure Python package and a package with a compiled extension.
#[tokio::test(flavor = "multi_thread")]
async fn packages_are_installed_from_the_package_index() {
    let fixture = Fixture::new().await;
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
    let verdict = run_with(&fixture, from, &model).await;
    if let Some(error) = verdict.history[0].error.as_ref().filter(|error| !error.was_run()) {
        return skipped(error);
    }
    assert_eq!(verdict.answer.as_deref(), Some("1.15.0 &lt; True\nTrue\n"), "{verdict:?}");
}

/// The user's tests use three features of pytest: fixtures, parameters and expected errors.
#[tokio::test(flavor = "multi_thread")]
async fn harness_runs_pytest_tests() {
    let fixture = Fixture::new().await;
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
    // pytest is installed although it is not on the list of allowed packages, because the user's tests need it.
    let from = packages(folder.path(), &["numpy"], None);
    let tested = async |program: &str, tests: &str| {
        let model = Script::new([needing(program, &[]), critique("no", "none")]);
        let runner = fixture.code_runner(model.clone()).with_packages(from.clone());
        let tests = Some(tests.to_owned());
        let task = CodeTask { max_attempts: 1, tests, ..CodeTask::new("x") };
        fixture.run_with(Arc::new(runner), task, Default::default()).await.verdict.unwrap()
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
    for end in ["raise KeyboardInterrupt", "import pytest; pytest.exit('x', returncode=0)"] {
        let program = format!("def double(n):\n    if n == 2: {end}\n    return n * 2");
        let verdict = tested(&program, tests).await;
        assert_eq!(verdict.error.as_deref(), Some("1 of 2 tests failed"), "{verdict:?}");
    }
    let none = "import pytest\n@pytest.mark.skip\ndef test_one(): pass";
    assert_eq!(tested(right, none).await.history[0].error, Some(CodeFailure::NoTests));
}

/// Reports that a test is skipped because the package index cannot be reached; fails if `ASSIZE_TEST_REQUIRE` requires
/// the index.
#[expect(clippy::print_stderr, reason = "reports the skipped test")]
fn skipped(error: &CodeFailure) {
    let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
    assert!(!required.contains("pypi"), "{error}");
    eprintln!("skipped: {error}");
}
