//! Supported languages, and their interpreters on this machine.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// Language of code that a sandbox runs.
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

    /// Returns the language of a file according to its extension; `None` for an unknown extension.
    pub fn of_file(path: &Path) -> Option<Language> {
        match path.extension()?.to_str()? {
            "py" => Some(Language::Python),
            "sh" | "bash" => Some(Language::Bash),
            "js" | "mjs" | "cjs" => Some(Language::JavaScript),
            _ => None,
        }
    }

    /// Path, inside the sandbox, of the file with the code to run. The running code cannot change, replace or delete
    /// this file.
    pub fn code_path(self) -> &'static str {
        let [python, bash, javascript] = assize_protocol::CODE;
        match self {
            Language::Python => python,
            Language::Bash => bash,
            Language::JavaScript => javascript,
        }
    }

    /// Possible program names of the interpreter, the most common name first.
    pub fn programs(self) -> &'static [&'static str] {
        match self {
            Language::Python => &["python3", "python"],
            Language::Bash => &["bash"],
            Language::JavaScript => &["node", "nodejs"],
        }
    }

    /// Flags of the interpreter, placed before the script path. For Python, the flag disables the writing of `.pyc`
    /// files.
    pub(crate) fn flags(self) -> &'static [&'static str] {
        match self {
            Language::Python => &["-B"],
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

/// Interpreter on this machine, with the files that a jail must mount for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interpreter {
    pub language: Language,
    pub program: PathBuf,
    /// Folders and files that the interpreter needs in addition to the system folders.
    pub mounts: Vec<PathBuf>,
    /// Symbolic links that lead from the program's path to the real file: path and target of each link.
    pub links: Vec<(PathBuf, PathBuf)>,
}

/// System folders that every jail mounts.
pub(crate) const SYSTEM: [&str; 7] =
    ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

impl Interpreter {
    /// Returns the interpreter at the path `named`, or if `named` is `None`, the first interpreter in the folders of
    /// `search` (a list in the format of `PATH`).
    ///
    /// # Errors
    /// When no interpreter is found. The error is a message for users.
    pub fn find(
        language: Language,
        named: Option<&Path>,
        search: Option<&OsStr>,
    ) -> Result<Interpreter, String> {
        Interpreter::at(language, Interpreter::locate(language, named, search)?)
    }

    /// Returns the path of the program that [`find`](Interpreter::find) uses. The program may be a wrapper script.
    pub(crate) fn locate(
        language: Language,
        named: Option<&Path>,
        search: Option<&OsStr>,
    ) -> Result<PathBuf, String> {
        match named {
            Some(program) => {
                let program = std::path::absolute(program).map_err(|error| error.to_string())?;
                if !is_program(&program) {
                    return Err(format!("`{}` is not an executable file", program.display()));
                }
                Ok(program)
            }
            None => {
                let folders: Vec<PathBuf> = search.iter().flat_map(std::env::split_paths).collect();
                let candidates = language.programs().iter().flat_map(|name| {
                    folders.iter().filter(|folder| folder.is_absolute()).map(move |f| f.join(name))
                });
                candidates
                    .into_iter()
                    .find(|path| is_program(path))
                    .ok_or_else(|| format!("no `{}` in PATH", language.programs()[0]))
            }
        }
    }

    /// Describes the interpreter at this path. If the path is a wrapper script, runs the script to find the interpreter
    /// that the script starts.
    pub(crate) fn at(language: Language, program: PathBuf) -> Result<Interpreter, String> {
        let program =
            if is_script(&program) { interpreter_of_script(language, &program)? } else { program };
        let real = program
            .canonicalize()
            .map_err(|error| format!("cannot resolve the path `{}`: {error}", program.display()))?;
        let mut pieces = Vec::new();
        // In a virtual environment, the program is a symbolic link. The file `pyvenv.cfg` is near the link, and the
        // libraries of the interpreter are near the target of the link.
        let environment = program.parent().and_then(Path::parent);
        if environment.is_some_and(|folder| folder.join("pyvenv.cfg").is_file()) {
            pieces.extend(pieces_of(&program));
            let link = std::fs::read_link(&program).ok().filter(|link| link.is_absolute());
            pieces.extend(link.iter().flat_map(|link| pieces_of(link)));
        }
        pieces.extend(pieces_of(&real));
        Ok(Interpreter::of(language, program, pieces))
    }

    /// Creates the description of the interpreter `program`. Of the files that the interpreter needs (`mounts`), those
    /// in the [`SYSTEM`] folders are omitted, because every jail mounts these folders.
    pub(crate) fn of(
        language: Language,
        program: PathBuf,
        mut mounts: Vec<PathBuf>,
    ) -> Interpreter {
        mounts.retain(|piece| !is_system(piece));
        mounts.sort();
        mounts.dedup();
        let links = links_to(&program);
        Interpreter { language, program, mounts, links }
    }
}

/// Returns the files that a program needs: the program and the libraries of its installation, but never the whole
/// folder of the installation, which may be a home folder.
pub(crate) fn pieces_of(program: &Path) -> Vec<PathBuf> {
    // Packages in these stores refer to each other, so the whole store is needed.
    for store in ["/nix/store", "/gnu/store", "/home/linuxbrew/.linuxbrew"] {
        if program.starts_with(store) {
            return vec![store.into()];
        }
    }
    let home = program.parent().filter(|folder| folder.ends_with("bin")).and_then(Path::parent);
    let Some(home) = home else { return vec![program.to_owned()] };
    // If there are no libraries next to the folder `bin`, the program needs no other files.
    let parts = ["lib", "lib64", "libexec", "pyvenv.cfg"].map(|name| home.join(name));
    let mut pieces: Vec<PathBuf> = parts.into_iter().filter(|part| part.exists()).collect();
    pieces.push(if pieces.is_empty() { program.to_owned() } else { home.join("bin") });
    pieces
}

/// Returns all symbolic links that are followed when an absolute path is resolved, including folders of the path that
/// are links.
pub(crate) fn links_to(path: &Path) -> Vec<(PathBuf, PathBuf)> {
    const MAX_LINKS: usize = 40;
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
        // If the target of a link is absolute, its first component `/` sets the path back to the root.
        let next = at.join(part);
        match std::fs::read_link(&next) {
            Ok(to) if links.len() < MAX_LINKS => {
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

/// Runs a wrapper script, such as the shim of a version manager, to find the interpreter that the script starts.
fn interpreter_of_script(language: Language, script: &Path) -> Result<PathBuf, String> {
    let print_path: &[&str] = match language {
        Language::Python => &["-I", "-c", "import sys; print(sys.executable)"],
        Language::JavaScript => &["-p", "process.execPath"],
        Language::Bash => return Ok(script.to_owned()),
    };
    let unknown = || format!("cannot determine which interpreter `{}` starts", script.display());
    let output = Command::new(script)
        .args(print_path)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start `{}`: {error}", script.display()))?;
    let path = PathBuf::from(String::from_utf8(output.stdout).map_err(|_| unknown())?.trim_end());
    if output.status.success() && is_program(&path) { Ok(path) } else { Err(unknown()) }
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
    fn interpreter_is_found_in_installations_and_venvs_and_through_shims() {
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
        assert_eq!(plain.mounts, installed);

        // A virtual environment includes the installation that it was created from.
        let link = root.join("project/.venv/bin/python3");
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        std::fs::write(root.join("project/.venv/pyvenv.cfg"), "home = x").unwrap();
        let environment = find(link.parent().unwrap()).unwrap();
        assert_eq!(environment.program, link);
        let made = parts("project/.venv", &["bin", "pyvenv.cfg"]);
        assert_eq!(environment.mounts, [made, installed].concat());

        // For a program in a home folder, no other file of the home folder is included.
        let alone = root.join("alice/bin/python3");
        program(&alone, "\x7fELF");
        std::fs::create_dir_all(root.join("alice/.ssh")).unwrap();
        assert_eq!(find(alone.parent().unwrap()).unwrap().mounts, [alone]);

        // A version manager's shim is run to find the interpreter.
        let shim = root.join("shims/python3");
        program(&shim, &format!("#!/bin/sh\necho {}\n", own.display()));
        assert_eq!(find(shim.parent().unwrap()).unwrap().program, own);
        program(&shim, "#!/bin/sh\nexit 1\n");
        assert!(find(shim.parent().unwrap()).unwrap_err().contains("cannot determine which"));
        assert!(find(Path::new("/nonexistent")).unwrap_err().contains("no `python3` in PATH"));
        let bash = Interpreter::find(Language::Bash, Some(Path::new("/bin/bash")), None).unwrap();
        assert_eq!(bash.mounts, [] as [PathBuf; 0]);
    }
}
