//! What the user has about a company: a folder of documents and tables.

use assize_types::{Failure, FailureKind};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{Document, Gathered};

/// The most that is read, in bytes: of one file, and of all.
const LARGEST: u64 = 256 << 10;
const MOST: usize = 512 << 10;

const MOST_FILES: usize = 200;
const DEEPEST: usize = 4;

/// The most files that are looked at, and the most of which it is said that they were left out.
const MOST_SEEN: usize = 10_000;
const MOST_NAMED: usize = 20;

/// Words in the name of a file that is about money.
const ABOUT_MONEY: [&str; 12] = [
    "financ", "income", "balance", "cash", "revenue", "margin", "kpi", "budget", "forecast",
    "earning", "10-k", "10-q",
];

/// A folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("`{0}` is no folder")]
    NoFolder(PathBuf),
    #[error("`{folder}` cannot be read")]
    Unreadable { folder: PathBuf, source: io::Error },
    #[error("there is nothing to read in `{0}`: Markdown, text, CSV and JSON are read")]
    Nothing(PathBuf),
}

/// Reads what can be read, in the order of names, and says what was left out.
pub fn gather(folder: &Path) -> Result<Gathered, FilesError> {
    if !folder.is_dir() {
        return Err(FilesError::NoFolder(folder.to_owned()));
    }
    let mut gathered = Gathered::default();
    let mut paths = Vec::new();
    let unreadable =
        |source: io::Error| FilesError::Unreadable { folder: folder.to_owned(), source };
    find(folder, 0, &mut paths, &mut gathered.notes).map_err(unreadable)?;
    if paths.len() >= MOST_SEEN {
        gathered.notes.insert(0, format!("only the first {MOST_SEEN} files were looked at"));
    }
    paths.sort();
    let mut room = MOST;
    for (count, path) in paths.iter().enumerate() {
        let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        let name = assize_types::text::one_line(&name.replace(char::is_control, " "));
        let taken = gathered.financial.len() + gathered.news.len();
        if taken >= MOST_FILES || room == 0 {
            let left = paths.len() - count;
            let note =
                format!("{left} files were left out: there are too many, or they are too large");
            gathered.notes.insert(0, note);
            break;
        }
        match read(path, room) {
            Ok((text, cut)) => {
                if cut {
                    gathered.notes.push(format!("`{name}` was read in part: it is too large"));
                }
                if name.to_lowercase().ends_with(".json")
                    && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err()
                {
                    gathered.notes.push(format!("`{name}` is no whole JSON, and was read as text"));
                }
                room -= text.len().min(room);
                let document = Document { title: name.clone(), text };
                if is_about_money(&name) {
                    gathered.financial.push(document);
                } else {
                    gathered.news.push(document);
                }
            }
            Err(why) => gathered.notes.push(format!("`{name}` was left out: {why}")),
        }
    }
    if gathered.financial.is_empty() && gathered.news.is_empty() {
        return Err(FilesError::Nothing(folder.to_owned()));
    }
    let unnamed = gathered.notes.len().saturating_sub(MOST_NAMED);
    if unnamed > 0 {
        gathered.notes.truncate(MOST_NAMED);
        gathered.notes.push(format!("and {unnamed} more like that"));
    }
    Ok(gathered)
}

/// Files below a folder, through no link.
fn find(
    folder: &Path,
    depth: usize,
    paths: &mut Vec<PathBuf>,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        if paths.len() >= MOST_SEEN {
            break;
        }
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() && depth < DEEPEST {
            // One folder that cannot be read does not cost the others.
            if let Err(error) = find(&entry.path(), depth + 1, paths, notes) {
                notes.push(format!("`{}` was left out: {error}", name.to_string_lossy()));
            }
        } else if kind.is_file() {
            paths.push(entry.path());
        } else {
            let what =
                if kind.is_dir() { "it is in too many folders" } else { "it is no plain file" };
            notes.push(format!("`{}` was left out: {what}", name.to_string_lossy()));
        }
    }
    Ok(())
}

/// The text of a file, and whether it was cut off.
fn read(path: &Path, room: usize) -> Result<(String, bool), String> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("md" | "markdown" | "txt" | "csv" | "tsv" | "json") => {}
        Some("pdf") => return Err("a PDF is not read; save its text beside it".to_owned()),
        Some(other) => return Err(format!("files that end in .{other} are not read")),
        None => return Err("it has no ending that says what it is".to_owned()),
    }
    let most = LARGEST.min(room as u64);
    let mut bytes = read_plain(path, most + 1).map_err(|error| error.to_string())?;
    let cut = bytes.len() as u64 > most;
    bytes.truncate(most as usize);
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // Cut in the middle of a character.
        Err(error) if cut && error.utf8_error().error_len().is_none() => {
            let end = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..end]).into_owned()
        }
        Err(_) => return Err("it is not UTF-8 text".to_owned()),
    };
    if text.contains('\0') {
        return Err("it is not text".to_owned());
    }
    let text = crate::documents::clean(&text);
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    Ok((text, cut))
}

/// The beginning of a plain file. What is none, or leads elsewhere, is not waited for.
pub(crate) fn read_plain(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_about_money(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_table = [".csv", ".tsv", ".json"].iter().any(|ending| name.ends_with(ending));
    is_table || ABOUT_MONEY.iter().any(|word| name.contains(word))
}

impl From<FilesError> for Failure {
    fn from(error: FilesError) -> Failure {
        let kind = match &error {
            FilesError::Unreadable { .. } => FailureKind::Environment,
            _ => FailureKind::Usage,
        };
        Failure::from_error(kind, &error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_read_is_read_and_the_rest_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("notes.md", b"# Notes\nA rival opened.");
        write("sub/income.txt", b"Revenue was 5.");
        write("kpis.csv", b"a,b\n1,2\n");
        write("report.pdf", b"%PDF-1.4");
        write("image.png", b"\x89PNG");
        write("latin.txt", b"caf\xe9");
        write("empty.md", b" \n");
        write(".hidden.md", b"secret");
        write("long.md", "é".repeat(200_000).as_bytes());
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link.txt")).unwrap();
        let gathered = gather(folder.path()).unwrap();
        let titles = |documents: &[Document]| -> Vec<String> {
            documents.iter().map(|document| document.title.clone()).collect()
        };
        assert_eq!(titles(&gathered.financial), ["kpis.csv", "sub/income.txt"]);
        assert_eq!(titles(&gathered.news), ["long.md", "notes.md"]);
        insta::assert_snapshot!(gathered.notes.join("\n"), @r"
        `link.txt` was left out: it is no plain file
        `empty.md` was left out: it is empty
        `image.png` was left out: files that end in .png are not read
        `latin.txt` was left out: it is not UTF-8 text
        `long.md` was read in part: it is too large
        `report.pdf` was left out: a PDF is not read; save its text beside it
        ");
    }

    #[test]
    fn a_huge_folder_is_read_in_part_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..MOST_FILES + 50 {
            fs::write(folder.path().join(format!("n{number:04}.md")), "A note.").unwrap();
            fs::write(folder.path().join(format!("a{number:04}.png")), "x").unwrap();
        }
        // A gigabyte on paper.
        let large = fs::File::create(folder.path().join("n0000.csv")).unwrap();
        large.set_len(1 << 30).unwrap();
        let gathered = gather(folder.path()).unwrap();
        assert_eq!(gathered.news.len(), MOST_FILES);
        assert_eq!(gathered.notes.len(), MOST_NAMED + 1);
        assert!(gathered.notes[0].starts_with("50 files were left out"), "{:?}", gathered.notes);
        assert_eq!(gathered.notes[MOST_NAMED], "and 232 more like that");
    }

    #[test]
    fn a_folder_without_anything_to_read_is_said_so() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(gather(folder.path()), Err(FilesError::Nothing(_))));
        assert!(matches!(gather(&folder.path().join("none")), Err(FilesError::NoFolder(_))));
    }
}
