//! The interpreters that code can be written for, and where they are on this machine.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// What code can be written in.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
#[derive(EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Language {
    Python,
    Bash,
    #[serde(rename = "javascript")]
    JavaScript,
}

impl Language {
    pub const ALL: [Language; 3] = [Language::Python, Language::Bash, Language::JavaScript];

    pub fn name(self) -> &'static str {
        self.into()
    }

    /// By the ending of a file's name.
    pub fn of_file(path: &Path) -> Option<Language> {
        match path.extension()?.to_str()? {
            "py" => Some(Language::Python),
            "sh" | "bash" => Some(Language::Bash),
            "js" | "mjs" | "cjs" => Some(Language::JavaScript),
            _ => None,
        }
    }

    /// Where code under trial is put in a sandbox. A program can neither change, replace nor delete it.
    pub fn code_path(self) -> &'static str {
        let [python, bash, javascript] = assize_protocol::CODE;
        match self {
            Language::Python => python,
            Language::Bash => bash,
            Language::JavaScript => javascript,
        }
    }

    /// The names under which its interpreter is found, the usual one first.
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Language::Python => &["python3", "python"],
            Language::Bash => &["bash"],
            Language::JavaScript => &["node", "nodejs"],
        }
    }

    /// What the interpreter is told before the file. For Python: no folder of the user's own
    /// packages, and no compiled files left beside the code.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Language::Python => &["-s", "-B"],
            Language::Bash | Language::JavaScript => &[],
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Language::Python => "Python",
            Language::Bash => "Bash",
            Language::JavaScript => "JavaScript",
        })
    }
}

/// An interpreter on this machine, and all that it needs to run elsewhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    pub language: Language,
    pub program: PathBuf,
    /// Folders and files it needs besides the system's own.
    pub pieces: Vec<PathBuf>,
    /// Links on the way from the program to the file that is run, each with its target.
    pub links: Vec<(PathBuf, PathBuf)>,
}

/// The folders of the system that every jail sees anyway.
pub(crate) const SYSTEM: [&str; 7] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

impl Interpreter {
    /// Looks for one along a search path, or takes the program that is named.
    ///
    /// # Errors
    /// When there is none, and where it was looked for.
    pub fn find(
        language: Language,
        named: Option<&Path>,
        search: Option<&OsStr>,
    ) -> Result<Interpreter, String> {
        let found = match named {
            Some(program) => {
                let program = std::path::absolute(program).map_err(|error| error.to_string())?;
                if !is_program(&program) {
                    return Err(format!("`{}` is not a program", program.display()));
                }
                program
            }
            None => {
                let folders: Vec<PathBuf> = search.iter().flat_map(std::env::split_paths).collect();
                let candidates = language.programs().iter().flat_map(|name| {
                    folders.iter().filter(|folder| folder.is_absolute()).map(move |f| f.join(name))
                });
                candidates
                    .into_iter()
                    .find(|path| is_program(path))
                    .ok_or_else(|| format!("no `{}` in PATH", language.programs()[0]))?
            }
        };
        Interpreter::at(language, found)
    }

    fn at(language: Language, program: PathBuf) -> Result<Interpreter, String> {
        let program =
            if is_script(&program) { behind_script(language, &program)? } else { program };
        let real =
            program.canonicalize().map_err(|error| format!("`{}`: {error}", program.display()))?;
        let mut pieces = Vec::new();
        // A virtual environment is seen by where the link is, its interpreter by where it leads.
        let environment = program.parent().and_then(Path::parent);
        if environment.is_some_and(|folder| folder.join("pyvenv.cfg").is_file()) {
            pieces.extend(pieces_of(&program));
            let link = std::fs::read_link(&program).ok().filter(|link| link.is_absolute());
            pieces.extend(link.iter().flat_map(|link| pieces_of(link)));
        }
        pieces.extend(pieces_of(&real));
        Ok(Interpreter::of(language, program, pieces))
    }

    /// A program with these pieces, but for those that belong to the system.
    pub(crate) fn of(
        language: Language,
        program: PathBuf,
        mut pieces: Vec<PathBuf>,
    ) -> Interpreter {
        pieces.retain(|piece| !is_system(piece));
        pieces.sort();
        pieces.dedup();
        let links = links_to(&program);
        Interpreter { language, program, pieces, links }
    }
}

/// What an installed program is made of: itself, and the libraries beside it. Never all that is
/// around it, which may be somebody's home.
pub(crate) fn pieces_of(program: &Path) -> Vec<PathBuf> {
    // Everything in such a store refers to everything else in it.
    for store in ["/nix/store", "/gnu/store", "/home/linuxbrew/.linuxbrew"] {
        if program.starts_with(store) {
            return vec![store.into()];
        }
    }
    let home = program.parent().filter(|folder| folder.ends_with("bin")).and_then(Path::parent);
    let Some(home) = home else { return vec![program.to_owned()] };
    // A folder of programs that has no libraries beside it is just a folder.
    let parts = ["lib", "lib64", "libexec", "pyvenv.cfg"].map(|name| home.join(name));
    let mut pieces: Vec<PathBuf> = parts.into_iter().filter(|part| part.exists()).collect();
    pieces.push(if pieces.is_empty() { program.to_owned() } else { home.join("bin") });
    pieces
}

/// The links that are followed from a full path to the file behind it, also those to folders on the way.
pub(crate) fn links_to(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    const MOST_LINKS: usize = 40;
    let reversed = |path: &Path| -> Vec<OsString> {
        path.components().rev().map(|part| part.as_os_str().to_owned()).collect()
    };
    let mut links = Vec::new();
    let mut at = PathBuf::from("/");
    let mut rest = reversed(path);
    while let Some(part) = rest.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        // A full path, as the target of a link may be, starts again from the root.
        let next = at.join(part);
        match std::fs::read_link(&next) {
            Ok(to) if links.len() < MOST_LINKS => {
                rest.extend(reversed(&to));
                links.push((next, to));
            }
            _ => at = next,
        }
    }
    links
}

pub(crate) fn is_system(folder: &Path) -> bool {
    SYSTEM.iter().any(|system| folder.starts_with(system))
}

pub(crate) fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

pub(crate) fn is_script(path: &Path) -> bool {
    let mut start = [0; 2];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && &start == b"#!"
}

/// The program that a script starts in its place, as version managers do: it is asked itself.
fn behind_script(language: Language, script: &Path) -> Result<PathBuf, String> {
    let ask: &[&str] = match language {
        Language::Python => &["-I", "-c", "import sys; print(sys.executable)"],
        Language::JavaScript => &["-p", "process.execPath"],
        Language::Bash => return Ok(script.to_owned()),
    };
    let silent = || format!("`{}` does not say which interpreter it starts", script.display());
    let output = Command::new(script)
        .args(ask)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| format!("`{}` cannot be started: {error}", script.display()))?;
    let path = PathBuf::from(String::from_utf8(output.stdout).map_err(|_| silent())?.trim_end());
    if output.status.success() && is_program(&path) { Ok(path) } else { Err(silent()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(path: &Path, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    #[test]
    fn interpreters_are_found_wherever_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let own = root.join("versions/3.11.7/bin/python3");
        program(&own, "\x7fELF");
        let find = |path: &Path| Interpreter::find(Language::Python, None, Some(path.as_os_str()));
        std::fs::create_dir_all(root.join("versions/3.11.7/lib/python3.11")).unwrap();
        std::fs::write(root.join("versions/secret"), "not a part of it").unwrap();
        let parts = |folder: &str, names: &[&str]| -> Vec<PathBuf> {
            names.iter().map(|name| root.join(folder).join(name)).collect()
        };
        let installed = parts("versions/3.11.7", &["bin", "lib"]);
        let plain = find(own.parent().unwrap()).unwrap();
        assert_eq!(plain.pieces, installed);

        // A virtual environment brings the one it was made from.
        let link = root.join("project/.venv/bin/python3");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        std::fs::write(root.join("project/.venv/pyvenv.cfg"), "home = x").unwrap();
        let environment = find(link.parent().unwrap()).unwrap();
        assert_eq!(environment.program, link);
        let made = parts("project/.venv", &["bin", "pyvenv.cfg"]);
        assert_eq!(environment.pieces, [made, installed].concat());

        // A program in somebody's home brings nothing else of it.
        let alone = root.join("alice/bin/python3");
        program(&alone, "\x7fELF");
        std::fs::create_dir_all(root.join("alice/.ssh")).unwrap();
        assert_eq!(find(alone.parent().unwrap()).unwrap().pieces, [alone]);

        // A version manager's script is asked.
        let shim = root.join("shims/python3");
        program(&shim, &format!("#!/bin/sh\necho {}\n", own.display()));
        assert_eq!(find(shim.parent().unwrap()).unwrap().program, own);
        program(&shim, "#!/bin/sh\nexit 1\n");
        assert!(find(shim.parent().unwrap()).unwrap_err().contains("does not say"));

        assert!(find(Path::new("/nonexistent")).unwrap_err().contains("no `python3` in PATH"));
        let bash = Interpreter::find(Language::Bash, Some(Path::new("/bin/bash")), None).unwrap();
        assert_eq!(bash.pieces, [] as [PathBuf; 0]);
    }
}
