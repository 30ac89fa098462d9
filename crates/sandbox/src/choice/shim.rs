//! Shims of the version managers pyenv and nodenv.

use std::path::{Path, PathBuf};

use assize_config::Environment;

use crate::Language;
use crate::interpreter::{is_program, is_script};

/// Returns the interpreter that a shim of pyenv or nodenv starts. A shim is a shell script that takes 0.2 s, so this
/// function does not run the shim, but reads the settings that the shim reads: a variable, a version file in the
/// working folder or in one of its ancestors, or the global version file. Returns `None` if `program` is not a shim, or
/// if the settings do not name exactly one installed version.
pub(super) fn interpreter_of_shim(
    language: Language,
    program: &Path,
    environment: &Environment,
) -> Option<PathBuf> {
    let (variable, file) = match language {
        Language::Python => ("PYENV_VERSION", ".python-version"),
        Language::JavaScript => ("NODENV_VERSION", ".node-version"),
        Language::Bash => return None,
    };
    let shims = program.parent().filter(|folder| folder.ends_with("shims"))?;
    let root = shims.parent()?;
    let text = match environment.variables.get(variable) {
        Some(version) if !version.is_empty() => version.clone(),
        _ => {
            let mut folders = environment.working_folder.ancestors();
            let local = folders.find_map(|folder| Some(folder.join(file)).filter(|it| it.exists()));
            std::fs::read_to_string(local.unwrap_or_else(|| root.join("version"))).ok()?
        }
    };
    let version = text.trim();
    let is_version = |char: char| char.is_ascii_alphanumeric() || "._+-".contains(char);
    // The version becomes part of a path.
    if version.starts_with('.') || !version.chars().all(is_version) {
        return None;
    }
    let found = root.join("versions").join(version).join("bin").join(program.file_name()?);
    (is_program(&found) && !is_script(&found)).then_some(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn shim_is_resolved_if_its_settings_name_exactly_one_installed_version() {
        let folder = tempfile::tempdir().unwrap();
        let (root, project) = (folder.path(), folder.path().join("project"));
        let program = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let shim = program(root.join("shims/python3"), "#!/bin/sh\n");
        let [old, new] = ["3.11.7", "3.12.1"].map(|version| {
            program(root.join(format!("versions/{version}/bin/python3")), "\x7fELF")
        });
        let mut environment = Environment::in_folder(root, [].into());
        environment.working_folder = project.join("sources");
        let find =
            |environment: &Environment| interpreter_of_shim(Language::Python, &shim, environment);
        for unusable in ["system\n", "3.11.7\n3.12.1\n", "../versions/3.11.7", "..", ""] {
            fs::write(root.join("version"), unusable).unwrap();
            assert_eq!(find(&environment), None, "{unusable}");
        }
        fs::write(root.join("version"), "3.11.7\n").unwrap();
        assert_eq!(find(&environment), Some(old.clone()));
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join(".python-version"), "3.12.1\n").unwrap();
        assert_eq!(find(&environment), Some(new));
        environment.variables.insert("PYENV_VERSION".to_owned(), "3.11.7".to_owned());
        assert_eq!(find(&environment), Some(old.clone()));
        assert_eq!(interpreter_of_shim(Language::Python, &old, &environment), None);
    }
}
