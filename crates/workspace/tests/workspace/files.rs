//! Tests that writes stay inside the drafts folder and reads stay inside the workspace, even with symbolic links, hard
//! links and special files in the workspace.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use assize_workspace::{DRAFTS, FileError, FolderHandle, HANDOFF, Workspace};
use proptest::prelude::*;

fn drafts_of(workspace: &Workspace) -> Result<FolderHandle, FileError> {
    workspace.root().open_or_create(HANDOFF)?.open_or_create(DRAFTS)
}

/// A workspace in a temporary folder, with a secret file outside the workspace.
struct Fixture {
    folder: tempfile::TempDir,
    workspace: Workspace,
}

impl Fixture {
    fn new() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("repo/src")).unwrap();
        fs::write(folder.path().join("repo/src/main.py"), "print(1)\n").unwrap();
        fs::write(folder.path().join("secret"), "SECRET").unwrap();
        let workspace = Workspace::open(&folder.path().join("repo")).unwrap();
        Fixture { folder, workspace }
    }

    fn repo(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join("repo").join(path)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let inside = self.workspace.parse_path(path).map_err(|error| error.to_string())?;
        let original = self.workspace.read(&inside, 1 << 20);
        original.map(|original| original.bytes).map_err(|error| error.to_string())
    }
}

#[test]
fn workspace_reads_only_regular_files_inside_the_workspace() {
    let fixture = Fixture::new();
    assert_eq!(fixture.read("src/main.py").unwrap(), b"print(1)\n");
    symlink("../secret", fixture.repo("leaf")).unwrap();
    symlink("..", fixture.repo("up")).unwrap();
    symlink("main.py", fixture.repo("src/own")).unwrap();
    fs::hard_link(fixture.folder.path().join("secret"), fixture.repo("hard")).unwrap();
    let fifo = fixture.repo("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from(0o600),
        0,
    )
    .unwrap();
    for (path, why) in [
        ("leaf", "links are not followed"),
        ("up/secret", "links are not followed"),
        ("src/own", "links are not followed"),
        ("hard", "the file has 2 hard links"),
        ("fifo", "not a regular file"),
        ("src", "the path is a folder"),
        ("none", "no such file"),
        ("src/main.py/x", "no such file"),
        ("../secret", "contains `..`"),
        ("/proc/self/root/etc/passwd", "outside the workspace"),
    ] {
        let message = fixture.read(path).unwrap_err();
        assert!(message.contains(why), "{path}: {message}");
    }
    fs::write(fixture.repo("large"), vec![0; 2 << 20]).unwrap();
    assert!(fixture.read("large").unwrap_err().contains("larger than 1048576 bytes"));
}

#[test]
fn drafts_are_written_atomically_and_never_through_links() {
    let fixture = Fixture::new();
    let drafts = drafts_of(&fixture.workspace).unwrap();
    drafts.write("main.py.t1.draft", b"print(2)\n").unwrap();
    drafts.write("main.py.t1.draft", b"print(3)\n").unwrap();
    assert_eq!(drafts.read("main.py.t1.draft", 100).unwrap(), b"print(3)\n");
    assert_eq!(drafts.names().unwrap(), ["main.py.t1.draft"]);
    for name in ["", ".", "..", "../x", "a/b", "/etc/x", "a\0b", "a\nb", ".new-1"] {
        let message = drafts.write(name, b"x").unwrap_err().to_string();
        assert!(message.contains("invalid file name"), "{name:?}: {message}");
        assert!(drafts.read(name, 1).is_err() && drafts.remove(name).is_err(), "{name:?}");
    }
    // A symbolic link with the name of a draft is not followed: reading it fails, and writing replaces the link.
    symlink("../../../secret", fixture.repo("_handoff/drafts/evil")).unwrap();
    assert!(matches!(drafts.read("evil", 100), Err(FileError::Link)));
    drafts.write("evil", b"fine").unwrap();
    assert_eq!(fs::read(fixture.folder.path().join("secret")).unwrap(), b"SECRET");
    drafts.remove("evil").unwrap();
    drafts.remove("evil").unwrap();
    // A symbolic link with the name of the `_handoff` folder is not followed either.
    let other = Fixture::new();
    symlink("..", other.repo("_handoff")).unwrap();
    assert!(matches!(drafts_of(&other.workspace), Err(FileError::Link)));
}

/// One thread writes 1000 drafts and reads a file. Meanwhile, a second thread repeatedly replaces the folders of the
/// drafts and of the file by symbolic links. No draft may be written, and no file may be read, through these links.
#[test]
fn symbolic_links_that_concurrently_replace_folders_are_never_followed() {
    let fixture = Fixture::new();
    fs::create_dir(fixture.repo("deep")).unwrap();
    fs::write(fixture.repo("deep/secret"), "public").unwrap();
    let drafts = drafts_of(&fixture.workspace).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (deep, away) = (fixture.repo("deep"), fixture.repo("away"));
            let (own, other) = (fixture.repo("_handoff/drafts"), fixture.repo("_handoff/other"));
            while !done.load(Ordering::Relaxed) {
                fs::rename(&deep, &away).unwrap();
                symlink("..", &deep).unwrap();
                fs::rename(&own, &other).unwrap();
                symlink("../..", &own).unwrap();
                fs::remove_file(&own).unwrap();
                fs::rename(&other, &own).unwrap();
                fs::remove_file(&deep).unwrap();
                fs::rename(&away, &deep).unwrap();
            }
        });
        let inside = fixture.workspace.parse_path("deep/secret").unwrap();
        for number in 0..1000 {
            drafts.write("x.draft", format!("{number}").as_bytes()).unwrap();
            if let Ok(original) = fixture.workspace.read(&inside, 100) {
                assert_eq!(original.bytes, b"public");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(drafts.read("x.draft", 100).unwrap(), b"999");
    let beside: Vec<_> = fs::read_dir(fixture.folder.path()).unwrap().collect();
    assert_eq!(beside.len(), 2, "{beside:?}");
}

/// Number of random file trees to test.
fn cases() -> u32 {
    let requested =
        std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse::<u32>().ok());
    requested.map_or(64, |count| (count / 2).max(64))
}

/// Names of the files, folders and symbolic links in a random file tree.
const NAMES: [&str; 5] = ["a", "b", "out", "secret", ".."];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn random_path_through_random_symbolic_links_never_reads_outside_the_workspace(
        links in prop::collection::vec((0..4usize, 0..4usize, prop::collection::vec(0..5usize, 1..4)), 0..6),
        path in prop::collection::vec(0..5usize, 1..6),
        absolute in any::<bool>(),
    ) {
        let fixture = Fixture::new();
        fs::create_dir(fixture.repo("a")).unwrap();
        for (folder, name, target) in links {
            let folder = if folder == 0 { fixture.repo("a") } else { fixture.repo("") };
            let target: Vec<&str> = target.iter().map(|index| NAMES[*index]).collect();
            // The error is ignored: an entry that already exists is not replaced by the link.
            let _ = symlink(Path::new(&target.join("/")), folder.join(NAMES[name]));
        }
        let parts: Vec<&str> = path.iter().map(|index| NAMES[*index]).collect();
        let path = match absolute {
            true => fixture.repo(&parts.join("/")).display().to_string(),
            false => parts.join("/"),
        };
        if let Ok(bytes) = fixture.read(&path) {
            prop_assert_ne!(bytes, b"SECRET".to_vec(), "{}", path);
        }
    }
}
