//! Python virtual environments, and which of their files a sandbox needs.

use std::path::{Path, PathBuf};

use crate::interpreter::{Interpreter, Language, is_program, is_script, is_system, pieces_of};

/// Python virtual environment. Its files are only read and never executed on the host, because the environment may be
/// part of an untrusted repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VirtualEnvironment {
    /// Folder of the virtual environment, with all symbolic links resolved.
    pub folder: PathBuf,
    /// Interpreter that the virtual environment was created from, with all symbolic links resolved.
    pub base: PathBuf,
    /// Python version of the installed packages, such as `python3.11`.
    pub version: String,
}

impl VirtualEnvironment {
    /// Reads a virtual environment, given as its folder or as the interpreter in it.
    ///
    /// # Errors
    /// When the path is not a valid virtual environment, with the reason.
    pub fn read(path: &Path) -> Result<VirtualEnvironment, String> {
        let shown = path.display();
        let named = match path.is_file() {
            true => path.parent().and_then(Path::parent).unwrap_or(path),
            false => path,
        };
        let folder = named
            .canonicalize()
            .map_err(|error| format!("cannot open the virtual environment `{shown}`: {error}"))?;
        if !folder.join("pyvenv.cfg").is_file() {
            return Err(format!("`{shown}` is not a virtual environment: it has no `pyvenv.cfg`"));
        }
        let program = ["python3", "python"].map(|name| folder.join("bin").join(name));
        let program = program.into_iter().find(|program| is_program(program));
        let base = program
            .and_then(|program| program.canonicalize().ok())
            .filter(|base| !is_script(base))
            .ok_or_else(|| {
                format!("the virtual environment `{shown}` has no interpreter in `bin`")
            })?;
        let entries = std::fs::read_dir(folder.join("lib")).into_iter().flatten().flatten();
        let version = entries
            .filter(|entry| entry.path().join("site-packages").is_dir())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .find(|name| name.starts_with("python3."))
            .ok_or_else(|| {
                format!(
                    "the virtual environment `{shown}` has no packages in `lib/python3.*/site-packages`"
                )
            })?;
        let environment = VirtualEnvironment { folder, base, version };
        for part in environment.parts() {
            let inside = part.canonicalize().is_ok_and(|to| to.starts_with(&environment.folder));
            if !inside {
                return Err(format!(
                    "`{}` is a symbolic link to a path outside the virtual environment",
                    part.display()
                ));
            }
        }
        Ok(environment)
    }

    /// Returns the interpreter, with the files that a jail must mount for it.
    pub fn interpreter(&self) -> Interpreter {
        let mut pieces = self.parts();
        pieces.extend(pieces_of(&self.base));
        Interpreter::of(Language::Python, self.folder.join("bin/python3"), pieces)
    }

    /// Folder of the installed packages.
    pub fn site_packages(&self) -> PathBuf {
        self.folder.join("lib").join(&self.version).join("site-packages")
    }

    /// Whether the interpreter is named `python…` and has its standard library in the folder `lib` of its installation.
    /// If not, it is possible that the interpreter is not Python.
    pub fn has_python_installation(&self) -> bool {
        let named = self
            .base
            .file_name()
            .is_some_and(|name| name.as_encoded_bytes().starts_with(b"python"));
        let home = self.base.parent().and_then(Path::parent);
        let library = |home: &Path| home.join("lib").join(&self.version).join("os.py");
        named && home.is_some_and(|home| library(home).is_file())
    }

    /// Whether the interpreter is in a system folder, such as `/usr`.
    pub fn has_system_interpreter(&self) -> bool {
        is_system(&self.base)
    }

    fn parts(&self) -> Vec<PathBuf> {
        let parts = ["bin", "lib", "lib64", "pyvenv.cfg"].map(|name| self.folder.join(name));
        parts.into_iter().filter(|part| part.symlink_metadata().is_ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::interpreter::links_to;

    /// Creates a folder with a virtual environment `.venv` whose interpreter is a program of the system.
    fn environment() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let venv = folder.path().join(".venv");
        std::fs::create_dir_all(venv.join("bin")).unwrap();
        std::fs::create_dir_all(venv.join("lib/python3.11/site-packages")).unwrap();
        std::fs::write(venv.join("pyvenv.cfg"), "home = /usr/bin").unwrap();
        symlink("/bin/sh", venv.join("bin/python3")).unwrap();
        symlink("lib", venv.join("lib64")).unwrap();
        folder
    }

    #[test]
    fn path_of_a_virtual_environment_can_be_its_folder_or_its_interpreter() {
        let folder = environment();
        let venv = folder.path().join(".venv");
        let read = VirtualEnvironment::read(&venv).unwrap();
        assert_eq!(read.version, "python3.11");
        assert!(read.has_system_interpreter());
        let by_program = VirtualEnvironment::read(&venv.join("bin/python3")).unwrap();
        assert_eq!(by_program, read);
        let pieces: Vec<String> = read
            .interpreter()
            .mounts
            .iter()
            .map(|piece| piece.file_name().unwrap().to_string_lossy().into_owned())
            .collect();
        assert_eq!(pieces, ["bin", "lib", "lib64", "pyvenv.cfg"]);
        assert!(!read.has_python_installation());
    }

    #[test]
    fn all_links_to_the_interpreter_of_a_virtual_environment_are_found() {
        let folder = environment();
        let root = folder.path().canonicalize().unwrap();
        let installed = root.join("pythons/3.11.7");
        std::fs::create_dir_all(installed.join("bin")).unwrap();
        std::fs::create_dir_all(installed.join("lib/python3.11")).unwrap();
        std::fs::write(installed.join("lib/python3.11/os.py"), "").unwrap();
        std::fs::copy("/bin/sh", installed.join("bin/python3.11")).unwrap();
        symlink("python3.11", installed.join("bin/python3")).unwrap();
        symlink("../pythons/3.11.7", root.join("pythons/3.11")).unwrap();
        let program = root.join(".venv/bin/python3");
        std::fs::remove_file(&program).unwrap();
        symlink(root.join("pythons/3.11/bin/python3"), &program).unwrap();
        let read = VirtualEnvironment::read(&root.join(".venv")).unwrap();
        assert!(read.has_python_installation() && !read.has_system_interpreter());
        let interpreter = read.interpreter();
        let links: Vec<&Path> = interpreter.links.iter().map(|(at, _)| at.as_path()).collect();
        let expected = [program, root.join("pythons/3.11"), installed.join("bin/python3")];
        assert_eq!(links, expected);
        assert!(interpreter.mounts.contains(&installed.join("lib")));
        // A loop of symbolic links does not cause an endless search.
        symlink("loop", root.join("loop")).unwrap();
        assert!(links_to(&root.join("loop")).len() <= 40);
    }

    #[test]
    fn hostile_virtual_environment_is_rejected_and_never_run() {
        let refused = |spoil: &dyn Fn(&Path)| {
            let folder = environment();
            let venv = folder.path().join(".venv");
            spoil(&venv);
            VirtualEnvironment::read(&venv).unwrap_err()
        };
        let why = refused(&|venv| std::fs::remove_file(venv.join("pyvenv.cfg")).unwrap());
        assert!(why.contains("no `pyvenv.cfg`"), "{why}");
        // If the interpreter is a script, the script would have to be run to find the real interpreter.
        let why = refused(&|venv| {
            use std::os::unix::fs::PermissionsExt;
            let program = venv.join("bin/python3");
            std::fs::remove_file(&program).unwrap();
            std::fs::write(&program, "#!/bin/sh\ntouch ran\n").unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        });
        assert!(why.contains("no interpreter"), "{why}");
        let why = refused(&|venv| {
            std::fs::remove_file(venv.join("lib64")).unwrap();
            symlink("/etc", venv.join("lib64")).unwrap();
        });
        assert!(why.contains("a path outside"), "{why}");
        let why = refused(&|venv| std::fs::remove_dir_all(venv.join("lib")).unwrap());
        assert!(why.contains("no packages"), "{why}");
    }
}
