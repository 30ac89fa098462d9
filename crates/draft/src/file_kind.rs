//! What a file is, by its path. Some findings are mistakes in a program and normal in a test or a document.

/// What a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileKind {
    Code,
    /// Settings: values stand without quotes.
    Config,
    Test,
    /// Documents for people, who take an example for one.
    Prose,
    /// A container's description, whose folders and services are its own.
    Container,
}

impl FileKind {
    pub fn of(path: &str) -> FileKind {
        let name = path.rsplit('/').next().unwrap_or(path).to_lowercase();
        let ends = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        let starts = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
        match () {
            () if starts(&["dockerfile", "containerfile", "docker-compose", "compose."])
                || ends(&[".dockerfile"]) =>
            {
                FileKind::Container
            }
            () if ends(&[".md", ".mdx", ".rst", ".adoc", ".txt"]) => FileKind::Prose,
            () if is_test_path(path) => FileKind::Test,
            () if ends(&[".yml", ".yaml", ".ini", ".cfg", ".conf", ".env", ".properties"])
                || starts(&[".env"]) =>
            {
                FileKind::Config
            }
            () => FileKind::Code,
        }
    }
}

/// Whether a file is a test, by where it lies and what it is called.
fn is_test_path(path: &str) -> bool {
    const FOLDERS: [&str; 13] = [
        "test",
        "tests",
        "__tests__",
        "spec",
        "specs",
        "testdata",
        "test_data",
        "test-data",
        "fixtures",
        "__fixtures__",
        "__mocks__",
        "e2e",
        "testing",
    ];
    let mut parts = path.split(['/', '\\']).rev();
    let file = parts.next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    let middle = file.split('.').skip(1).any(|part| matches!(part, "test" | "spec" | "tests"));
    parts.any(|folder| FOLDERS.contains(&folder.to_lowercase().as_str()))
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
        for path in [
            "tests/a.rs",
            "crates/x/tests/draft/main.rs",
            "src/__tests__/a.ts",
            "spec/models/user_spec.rb",
            "testdata/x.json",
            "a/fixtures/b.yml",
            "test_main.py",
            "app/test_main.py",
            "pkg/main_test.go",
            "src/a.test.ts",
            "src/a.spec.js",
            "src/a.test.tsx",
            "conftest.py",
            "src/FooTest.java",
            "Acme.Tests\\FooTests.cs",
            "src/secrets/tests.rs",
            "e2e/login.ts",
        ] {
            assert!(is_test_path(path), "{path}");
        }
        for path in [
            "src/main.rs",
            "src/latest.py",
            "src/contest/a.py",
            "attest.go",
            "src/testimony.ts",
            "spec.md",
            "docs/testing.md",
            "src/inspect.js",
            "Latest.java",
            "a.b.ts",
            "",
        ] {
            assert!(!is_test_path(path), "{path}");
        }
    }

    #[test]
    fn kind_follows_from_the_path() {
        for (path, kind) in [
            ("README.md", FileKind::Prose),
            ("docs/guide.rst", FileKind::Prose),
            ("deploy/Dockerfile.prod", FileKind::Container),
            ("docker-compose.yml", FileKind::Container),
            ("tests/test_a.py", FileKind::Test),
            ("src/a.py", FileKind::Code),
            ("config/app.yaml", FileKind::Config),
            (".env.local", FileKind::Config),
            ("tests/data/app.yaml", FileKind::Test),
        ] {
            assert_eq!(FileKind::of(path), kind, "{path}");
        }
    }
}
