//! Kinds of files, recognised by path. The kind matters because a key or path that is a mistake in a program can be
//! normal in a test or a document.

use crate::pattern::among;

/// Kind of a file. The kind determines which rules the gate applies to the lines of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Code,
    /// Configuration file or shell script, in which values need no quotes.
    Config,
    Test,
    /// File with the translated texts of a program, such as `locales/fr.json` or `messages_de.properties`.
    Translation,
    /// Document for people, in which keys and paths are usually examples.
    Prose,
    /// Dockerfile. Its paths are inside the image.
    Container,
    /// Compose file. Its paths are inside the containers, except for the host paths of volumes.
    Compose,
}

impl FileKind {
    pub fn of(path: &str) -> FileKind {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        match () {
            () if is_dockerfile(&name) => FileKind::Container,
            () if is_compose(&name) => FileKind::Compose,
            () if ends(&[".md", ".mdx", ".rst", ".adoc", ".txt"]) => FileKind::Prose,
            () if is_test_path(path) => FileKind::Test,
            () if is_translation(path, &name) => FileKind::Translation,
            // Shell scripts count as configuration files, because they also assign values without quotes.
            () if ends(&[".yml", ".yaml", ".ini", ".cfg", ".conf", ".env", ".properties"])
                || ends(&[".sh", ".bash", ".zsh", ".ksh"])
                || starts(&[".env"]) =>
            {
                FileKind::Config
            }
            () => FileKind::Code,
        }
    }
}

/// Whether a file with this name describes a container image: `Dockerfile`, `Dockerfile.prod` and `api.Dockerfile` do,
/// but `dockerfile.py` does not.
fn is_dockerfile(name: &str) -> bool {
    const OTHER: &str = "py pyi rs go js mjs cjs ts tsx jsx rb java kt php c h cc cpp cs sh md \
        txt";
    ["dockerfile", "containerfile"].iter().any(|kind| {
        let suffix = name.strip_prefix(kind).and_then(|rest| rest.strip_prefix('.'));
        let named = suffix
            .is_some_and(|suffix| !among(suffix.rsplit('.').next().unwrap_or_default(), OTHER));
        name == *kind || named || name.strip_suffix(kind).is_some_and(|stem| stem.ends_with('.'))
    })
}

/// Whether a file with this name is a Compose file, such as `compose.override.yml` or `docker-compose.prod.yml`.
fn is_compose(name: &str) -> bool {
    let stem = name.strip_suffix(".yml").or_else(|| name.strip_suffix(".yaml"));
    stem.is_some_and(|stem| {
        ["compose", "docker-compose", "podman-compose"].iter().any(|kind| {
            let rest = stem.strip_prefix(kind);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '-', '_']))
        })
    })
}

/// Whether a file contains translations, according to its folder, name or extension.
fn is_translation(path: &str, name: &str) -> bool {
    const FOLDERS: &str = "locale locales i18n l10n lang langs languages translations translation";
    let folders = path.rsplit(['/', '\\']).skip(1).map(str::to_lowercase);
    let is_data = [".json", ".yml", ".yaml", ".properties", ".xml", ".js", ".ts", ".php", ".toml"]
        .iter()
        .any(|end| name.ends_with(end));
    let ends = [".po", ".pot", ".xliff", ".xlf", ".strings", ".resx", ".arb", ".ftl"];
    ends.iter().any(|end| name.ends_with(end))
        || name.starts_with("messages_") && name.ends_with(".properties")
        || name == "strings.xml"
        || is_data && folders.into_iter().any(|folder| among(&folder, FOLDERS))
}

/// Whether a file is a test, according to its folder or its name.
fn is_test_path(path: &str) -> bool {
    const FOLDERS: &str = "test tests __tests__ spec specs testdata test_data test-data fixtures \
        __fixtures__ __mocks__ e2e testing";
    let mut parts = path.split(['/', '\\']).rev();
    let file = parts.next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let middle = file.split('.').skip(1).any(|part| matches!(part, "test" | "spec" | "tests"));
    parts.any(|folder| among(&folder.to_lowercase(), FOLDERS))
        || (middle && file.matches('.').count() > 1)
        || matches!(stem, "conftest" | "test" | "tests")
        || stem.starts_with("test_")
        || ["_test", "_tests", "_spec", "Test", "Tests", "Spec"]
            .iter()
            .any(|end| stem.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_files_are_recognised_by_path() {
        let tests = "tests/a.rs crates/x/tests/draft/main.rs src/__tests__/a.ts \
            spec/models/user_spec.rb testdata/x.json a/fixtures/b.yml test_main.py \
            app/test_main.py pkg/main_test.go src/a.test.ts src/a.spec.js src/a.test.tsx \
            conftest.py src/FooTest.java Acme.Tests\\FooTests.cs src/secrets/tests.rs \
            e2e/login.ts";
        for path in tests.split(' ') {
            assert!(is_test_path(path), "{path}");
        }
        let others = "src/main.rs src/latest.py src/contest/a.py attest.go src/testimony.ts \
            spec.md docs/testing.md src/inspect.js Latest.java a.b.ts";
        for path in others.split(' ').chain([""]) {
            assert!(!is_test_path(path), "{path}");
        }
    }

    #[test]
    fn file_kinds_are_recognised_by_path() {
        for (kind, paths) in [
            (FileKind::Prose, "README.md docs/guide.rst Dockerfile.md"),
            (
                FileKind::Container,
                "deploy/Dockerfile.prod Dockerfile deploy/api.Dockerfile Containerfile",
            ),
            (
                FileKind::Compose,
                "docker-compose.yml deploy/docker-compose.prod.yaml docker-compose-dev.yml \
                compose.yaml compose.override.yml",
            ),
            (
                FileKind::Code,
                "src/compose.py src/compose.ts src/dockerfile_parser.py src/dockerfile.rs \
                src/docker-compose.go src/a.py src/lang/parser.rs",
            ),
            (
                FileKind::Config,
                "composer.yml config/app.yaml .env.local scripts/deploy.sh \
                src/messages.properties",
            ),
            (FileKind::Test, "tests/test_a.py tests/data/app.yaml"),
            (
                FileKind::Translation,
                "config/locales/fr.yml src/i18n/de.json po/sv.po res/messages_nl.properties \
                app/res/values-fi/strings.xml",
            ),
        ] {
            for path in paths.split(' ') {
                assert_eq!(FileKind::of(path), kind, "{path}");
            }
        }
    }
}
