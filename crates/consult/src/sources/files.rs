//! Reads company data from the user's files: a folder of documents and tables.

use assize_types::{Failure, FailureKind};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::{GatheredData, SourceDocument};

/// Maximum number of bytes read from one file.
const MAX_FILE_SIZE: u64 = 256 << 10;

/// Maximum number of bytes read from all files of a folder.
const MAX_TOTAL_SIZE: usize = 512 << 10;

/// Maximum number of files read from a folder.
const MAX_FILES: usize = 200;

/// Maximum depth of nested folders.
const MAX_DEPTH: usize = 4;

/// Maximum number of files of the folder that are listed. Only listed files can be read.
const MAX_SEEN: usize = 10_000;

/// Maximum number of notes returned about files that were left out or truncated.
const MAX_NOTES: usize = 20;

/// Parts of file names that indicate financial data.
const FINANCIAL_WORDS: [&str; 12] = [
    "financ", "income", "balance", "cash", "revenue", "margin", "kpi", "budget", "forecast",
    "earning", "10-k", "10-q",
];

/// Error for a data folder that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("`{0}` is not a folder")]
    NoFolder(PathBuf),
    #[error("cannot read the data folder `{folder}`")]
    Unreadable { folder: PathBuf, source: io::Error },
    #[error("no usable file in `{0}`: supported are Markdown, text, CSV, TSV and JSON")]
    NoUsableFile(PathBuf),
}

/// Reads all supported files of a folder, sorted by path, and adds a note for each file that was left out. Hidden files
/// and folders are ignored without a note.
pub fn gather(folder: &Path) -> Result<GatheredData, FilesError> {
    if !folder.is_dir() {
        return Err(FilesError::NoFolder(folder.to_owned()));
    }
    let mut gathered = GatheredData::default();
    let mut paths = Vec::new();
    let unreadable =
        |source: io::Error| FilesError::Unreadable { folder: folder.to_owned(), source };
    find(folder, 0, &mut paths, &mut gathered.notes).map_err(unreadable)?;
    if paths.len() > MAX_SEEN {
        paths.truncate(MAX_SEEN);
        let note = format!("only the first {MAX_SEEN} files of the data folder were considered");
        gathered.notes.insert(0, note);
    }
    paths.sort();
    let mut room = MAX_TOTAL_SIZE;
    for (count, path) in paths.iter().enumerate() {
        let name = path.strip_prefix(folder).unwrap_or(path).display().to_string();
        let name = assize_types::text::one_line(&name.replace(char::is_control, " "));
        let taken = gathered.financial.len() + gathered.news.len();
        if taken >= MAX_FILES || room == 0 {
            let left = paths.len() - count;
            let note =
                format!("too many data files or too much text; number of files left out: {left}");
            gathered.notes.insert(0, note);
            break;
        }
        match read(path, room) {
            Ok((text, cut)) => {
                if cut {
                    gathered.notes.push(format!(
                        "the data file `{name}` was truncated, because it is too large"
                    ));
                }
                if name.to_lowercase().ends_with(".json")
                    && serde_json::from_str::<serde::de::IgnoredAny>(&text).is_err()
                {
                    gathered.notes.push(format!("`{name}` is not valid JSON and was read as text"));
                }
                room -= text.len().min(room);
                let document = SourceDocument { title: name.clone(), text };
                if is_financial(&name) {
                    gathered.financial.push(document);
                } else {
                    gathered.news.push(document);
                }
            }
            Err(why) => gathered.notes.push(format!("`{name}` was left out: {why}")),
        }
    }
    if gathered.financial.is_empty() && gathered.news.is_empty() {
        return Err(FilesError::NoUsableFile(folder.to_owned()));
    }
    let unnamed = gathered.notes.len().saturating_sub(MAX_NOTES);
    if unnamed > 0 {
        gathered.notes.truncate(MAX_NOTES);
        let note = format!("number of further notes on data files (not shown): {unnamed}");
        gathered.notes.push(note);
    }
    Ok(gathered)
}

/// Collects the files in a folder and its subfolders, without following symbolic links.
fn find(
    folder: &Path,
    depth: usize,
    paths: &mut Vec<PathBuf>,
    notes: &mut Vec<String>,
) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        // One more file than the maximum shows that there are too many.
        if paths.len() > MAX_SEEN {
            break;
        }
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let kind = entry.file_type()?;
        if kind.is_dir() && depth < MAX_DEPTH {
            // An unreadable folder does not affect the other folders.
            if let Err(error) = find(&entry.path(), depth + 1, paths, notes) {
                notes.push(format!("`{}` was left out: {error}", name.to_string_lossy()));
            }
        } else if kind.is_file() {
            paths.push(entry.path());
        } else {
            let what = if kind.is_dir() {
                "the folder is nested too deeply"
            } else {
                "not a regular file"
            };
            notes.push(format!("`{}` was left out: {what}", name.to_string_lossy()));
        }
    }
    Ok(())
}

/// Reads the text of a supported file, up to `room` or [`MAX_FILE_SIZE`] bytes. Also returns whether the text was
/// truncated.
fn read(path: &Path, room: usize) -> Result<(String, bool), String> {
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
    match ending.as_deref() {
        Some("md" | "markdown" | "txt" | "csv" | "tsv" | "json") => {}
        Some("pdf") => {
            return Err(
                "PDF files are not supported; save the text of the PDF in a text file".to_owned()
            );
        }
        Some(other) => return Err(format!("`.{other}` files are not supported")),
        None => return Err("files without an extension are not supported".to_owned()),
    }
    let most = MAX_FILE_SIZE.min(room as u64);
    let mut bytes = read_plain(path, most + 1).map_err(|error| error.to_string())?;
    let cut = bytes.len() as u64 > most;
    bytes.truncate(most as usize);
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        // The text was truncated in the middle of a character.
        Err(error) if cut && error.utf8_error().error_len().is_none() => {
            let end = error.utf8_error().valid_up_to();
            String::from_utf8_lossy(&error.as_bytes()[..end]).into_owned()
        }
        Err(_) => return Err("the file is not UTF-8 text".to_owned()),
    };
    if text.contains('\0') {
        return Err("the file contains NUL characters, so it is not text".to_owned());
    }
    let text = crate::documents::clean(&text);
    if text.trim().is_empty() {
        return Err("the file is empty".to_owned());
    }
    Ok((text, cut))
}

/// Reads at most `most` bytes from the beginning of a regular file. Fails for symbolic links and special files,
/// without blocking.
pub(crate) fn read_plain(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn is_financial(name: &str) -> bool {
    let name = name.to_lowercase();
    let is_table = [".csv", ".tsv", ".json"].iter().any(|ending| name.ends_with(ending));
    is_table || FINANCIAL_WORDS.iter().any(|word| name.contains(word))
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
    fn gather_reads_supported_files_and_adds_a_note_for_each_unsupported_file() {
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
        let titles = |documents: &[SourceDocument]| -> Vec<String> {
            documents.iter().map(|document| document.title.clone()).collect()
        };
        assert_eq!(titles(&gathered.financial), ["kpis.csv", "sub/income.txt"]);
        assert_eq!(titles(&gathered.news), ["long.md", "notes.md"]);
        insta::assert_snapshot!(gathered.notes.join("\n"), @r"
        `link.txt` was left out: not a regular file
        `empty.md` was left out: the file is empty
        `image.png` was left out: `.png` files are not supported
        `latin.txt` was left out: the file is not UTF-8 text
        the data file `long.md` was truncated, because it is too large
        `report.pdf` was left out: PDF files are not supported; save the text of the PDF in a text file
        ");
    }

    #[test]
    fn gather_of_a_huge_folder_reads_part_of_it_and_adds_a_note() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..MAX_FILES + 50 {
            fs::write(folder.path().join(format!("n{number:04}.md")), "A note.").unwrap();
            fs::write(folder.path().join(format!("a{number:04}.png")), "x").unwrap();
        }
        // A sparse file of 1 GiB.
        let large = fs::File::create(folder.path().join("n0000.csv")).unwrap();
        large.set_len(1 << 30).unwrap();
        let gathered = gather(folder.path()).unwrap();
        assert_eq!(gathered.news.len(), MAX_FILES);
        assert_eq!(gathered.notes.len(), MAX_NOTES + 1);
        let left_out = "too many data files or too much text; number of files left out: 50";
        assert_eq!(gathered.notes[0], left_out);
        let not_shown = "number of further notes on data files (not shown): 232";
        assert_eq!(gathered.notes[MAX_NOTES], not_shown);
    }

    #[test]
    fn gather_of_a_folder_without_usable_files_fails() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(gather(folder.path()), Err(FilesError::NoUsableFile(_))));
        assert!(matches!(gather(&folder.path().join("none")), Err(FilesError::NoFolder(_))));
    }
}
