//! Nothing that a worker writes leads out of the drafts folder, and nothing that it reads out of the workspace.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use assize_workspace::{DRAFTS, FileError, Folder, HANDOFF, Workspace};
use proptest::prelude::*;

fn drafts_of(workspace: &Workspace) -> Result<Folder, FileError> {
    workspace.root().folder(HANDOFF)?.folder(DRAFTS)
}

/// A workspace with a secret beside it.
struct House {
    folder: tempfile::TempDir,
    workspace: Workspace,
}

impl House {
    fn new() -> House {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("repo/src")).unwrap();
        fs::write(folder.path().join("repo/src/main.py"), "print(1)\n").unwrap();
        fs::write(folder.path().join("secret"), "SECRET").unwrap();
        let workspace = Workspace::open(&folder.path().join("repo")).unwrap();
        House { folder, workspace }
    }

    fn repo(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join("repo").join(path)
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        let inside = self.workspace.inside(path).map_err(|error| error.to_string())?;
        let original = self.workspace.read(&inside, 1 << 20);
        original.map(|original| original.bytes).map_err(|error| error.to_string())
    }
}

#[test]
fn files_of_the_workspace_are_read_and_nothing_else() {
    let house = House::new();
    assert_eq!(house.read("src/main.py").unwrap(), b"print(1)\n");
    symlink("../secret", house.repo("leaf")).unwrap();
    symlink("..", house.repo("up")).unwrap();
    symlink("main.py", house.repo("src/own")).unwrap();
    fs::hard_link(house.folder.path().join("secret"), house.repo("hard")).unwrap();
    let fifo = house.repo("fifo");
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
        ("hard", "it has 2 names"),
        ("fifo", "no plain file"),
        ("src", "it is a folder"),
        ("none", "no such file"),
        ("src/main.py/x", "no such file"),
        ("../secret", "leads elsewhere"),
        ("/proc/self/root/etc/passwd", "outside the workspace"),
    ] {
        let told = house.read(path).unwrap_err();
        assert!(told.contains(why), "{path}: {told}");
    }
    fs::write(house.repo("large"), vec![0; 2 << 20]).unwrap();
    assert!(house.read("large").unwrap_err().contains("more than 1048576 bytes"));
}

#[test]
fn drafts_are_written_whole_and_only_there() {
    let house = House::new();
    let drafts = drafts_of(&house.workspace).unwrap();
    drafts.write("main.py.t1.draft", b"print(2)\n").unwrap();
    drafts.write("main.py.t1.draft", b"print(3)\n").unwrap();
    assert_eq!(drafts.read("main.py.t1.draft", 100).unwrap(), b"print(3)\n");
    assert_eq!(drafts.names().unwrap(), ["main.py.t1.draft"]);
    for name in ["", ".", "..", "../x", "a/b", "/etc/x", "a\0b", "a\nb", ".new-1"] {
        let told = drafts.write(name, b"x").unwrap_err().to_string();
        assert!(told.contains("is no name of a file here"), "{name:?}: {told}");
        assert!(drafts.read(name, 1).is_err() && drafts.remove(name).is_err(), "{name:?}");
    }
    // A link in its place is written over, not followed; and is not read through.
    symlink("../../../secret", house.repo("_handoff/drafts/evil")).unwrap();
    assert!(matches!(drafts.read("evil", 100), Err(FileError::Link)));
    drafts.write("evil", b"fine").unwrap();
    assert_eq!(fs::read(house.folder.path().join("secret")).unwrap(), b"SECRET");
    drafts.remove("evil").unwrap();
    drafts.remove("evil").unwrap();
    // Nor is one in the place of the folder.
    let other = House::new();
    symlink("..", other.repo("_handoff")).unwrap();
    assert!(matches!(drafts_of(&other.workspace), Err(FileError::Link)));
}

/// Links are swapped as fast as can be while a thousand drafts are written and read.
#[test]
fn whoever_swaps_links_meanwhile_gains_nothing() {
    let house = House::new();
    fs::create_dir(house.repo("deep")).unwrap();
    fs::write(house.repo("deep/secret"), "public").unwrap();
    let drafts = drafts_of(&house.workspace).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (deep, away) = (house.repo("deep"), house.repo("away"));
            let (own, other) = (house.repo("_handoff/drafts"), house.repo("_handoff/other"));
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
        let inside = house.workspace.inside("deep/secret").unwrap();
        for number in 0..1000 {
            drafts.write("x.draft", format!("{number}").as_bytes()).unwrap();
            if let Ok(original) = house.workspace.read(&inside, 100) {
                assert_eq!(original.bytes, b"public");
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(drafts.read("x.draft", 100).unwrap(), b"999");
    let beside: Vec<_> = fs::read_dir(house.folder.path()).unwrap().collect();
    assert_eq!(beside.len(), 2, "{beside:?}");
}

/// How many random trees are tried.
fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok().and_then(|count| count.parse::<u32>().ok());
    asked.map_or(64, |count| (count / 2).max(64))
}

/// Names of files, folders and links that a random tree is made of.
const NAMES: [&str; 5] = ["a", "b", "out", "secret", ".."];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]
    #[test]
    fn no_path_through_any_tree_of_links_leads_out(
        links in prop::collection::vec((0..4usize, 0..4usize, prop::collection::vec(0..5usize, 1..4)), 0..6),
        path in prop::collection::vec(0..5usize, 1..6),
        absolute in any::<bool>(),
    ) {
        let house = House::new();
        fs::create_dir(house.repo("a")).unwrap();
        for (folder, name, target) in links {
            let folder = if folder == 0 { house.repo("a") } else { house.repo("") };
            let target: Vec<&str> = target.iter().map(|index| NAMES[*index]).collect();
            // What is there already stays.
            let _ = symlink(Path::new(&target.join("/")), folder.join(NAMES[name]));
        }
        let parts: Vec<&str> = path.iter().map(|index| NAMES[*index]).collect();
        let path = match absolute {
            true => house.repo(&parts.join("/")).display().to_string(),
            false => parts.join("/"),
        };
        if let Ok(bytes) = house.read(&path) {
            prop_assert_ne!(bytes, b"SECRET".to_vec(), "{}", path);
        }
    }
}
