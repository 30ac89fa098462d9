//! Packages that programs ask for: from the registry, and from a folder without a network.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use assize_code::packages::Packages;
use assize_code::{Task, Verdict};
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
    let from =
        packages(folder.path(), &["assizesix", "assizeseven"], Some(wheels.path().to_owned()));
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
    // Known from then on, whatever becomes of where it came from; and it cannot be changed from inside.
    drop(wheels);
    let code = "
import assizesix
try: open(assizesix.__file__, 'a')
except OSError: print('read-only')";
    let model = Script::new([needing(code, &["AssizeSix"])]);
    let verdict = try_with(&bench, from, &model).await;
    assert_eq!(verdict.answer.as_deref(), Some("read-only\n"), "{verdict:?}");
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
    let mut none = packages(folder.path(), &["six"], None);
    none.pip = vec!["/nonexistent/pip".to_owned()];
    for name in ["requests", "six @ https://example.org/six.whl", "--index-url=x", "-r/etc/passwd"]
    {
        let model = Script::new([
            needing("import six", &[name]),
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
        let mut from = packages(folder.path(), &["six"], None);
        from.pip = pip.iter().map(|word| (*word).to_owned()).collect();
        let model = Script::new([needing("import six", &["six"])]);
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
print(six.__version__, markupsafe.escape('<'), markupsafe._speedups.__file__.endswith('.so'))";
    let model = Script::new([
        needing(code, &["six==1.17.0", "MarkupSafe"]),
        critique("", ""),
        needing("pass", &[]),
    ]);
    let verdict = try_with(&bench, from, &model).await;
    if let Some(error) = &verdict.history[0].error {
        let required = std::env::var("ASSIZE_TEST_REQUIRE").unwrap_or_default();
        assert!(!required.contains("pypi") && !error.was_run(), "{error}");
        return skipped(&error.to_string());
    }
    assert_eq!(verdict.answer.as_deref(), Some("1.17.0 &lt; True\n"), "{verdict:?}");
}

#[expect(clippy::print_stderr, reason = "a test that does not run says so")]
fn skipped(reason: &str) {
    eprintln!("skipped: {reason}");
}
