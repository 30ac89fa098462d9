//! Unpacks Python wheels into a layer, a folder that sandboxes mount read-only. Wheels are untrusted: none of their
//! code is run, and files are written only inside the layer.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime};

use assize_sandbox::SandboxLayer;
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use zip::ZipArchive;

use super::{PackageError, PythonVersion, Requirement};

/// Name of the folder with all layers, in the package cache.
const LAYERS: &str = "layers";

/// Name prefix of temporary folders in the package cache, in which layers are prepared.
const UNFINISHED: &str = ".tmp";

/// Age at which a temporary folder is removed, on the assumption that the process that created the folder has died.
const UNFINISHED_LIFETIME: Duration = Duration::from_secs(2 * 60 * 60);

/// Maximum total size in bytes of the files of a layer.
const MAX_BYTES: u64 = 2 << 30;

/// Maximum number of files of a layer.
pub(super) const MOST_FILES: usize = 100_000;

/// Folder name suffix of a layer that was first published without bytecode and compiled later.
pub(super) const COMPILED_LATER: &str = "-compiled";

/// Record of a published layer, stored in the package cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct LayerRecord {
    #[serde(flatten)]
    pub(super) layer: SandboxLayer,
    /// Number of failed bytecode compilations of the layer; 0 if the layer contains bytecode.
    #[serde(default)]
    pub(super) failed_compilations: u32,
}

/// Reads the record of a layer, if the layer exists, and marks the layer as recently used.
pub(super) fn read(folder: &Path, key: Fingerprint) -> Option<LayerRecord> {
    let path = record_of(folder, key);
    let text = fs::read_to_string(&path).ok()?;
    let record: LayerRecord = serde_json::from_str(&text).ok()?;
    // Ignore the error of a layer that cannot be marked as used, for example on a read-only disk.
    let _ = File::options().write(true).open(&path).and_then(|file| file.set_modified(now()));
    record.layer.from.is_dir().then_some(record)
}

fn record_of(folder: &Path, key: Fingerprint) -> PathBuf {
    folder.join(LAYERS).join(format!("{key}.json"))
}

pub(super) fn write(
    folder: &Path,
    key: Fingerprint,
    record: &LayerRecord,
) -> Result<(), PackageError> {
    let text = serde_json::to_string(record)
        .map_err(|error| PackageError::Infrastructure(error.to_string()))?;
    let written = write_whole(&record_of(folder, key), &text);
    written.map_err(|error| PackageError::of_disk(folder, &error))
}

fn now() -> SystemTime {
    SystemTime::now()
}

/// Removes layers that were not used for `lifetime`, and temporary folders of killed processes.
pub(super) fn remove_unused(folder: &Path, lifetime: Duration) -> io::Result<()> {
    let is_old = |path: &Path, lifetime: Duration| {
        let changed = fs::symlink_metadata(path).and_then(|metadata| metadata.modified());
        changed.is_ok_and(|changed| now().duration_since(changed).unwrap_or_default() > lifetime)
    };
    for entry in fs::read_dir(folder)?.flatten() {
        let unfinished = entry.file_name().to_string_lossy().starts_with(UNFINISHED);
        if unfinished && is_old(&entry.path(), UNFINISHED_LIFETIME) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    for entry in fs::read_dir(folder.join(LAYERS))?.flatten() {
        let record = entry.path();
        let Some(key) = record.file_name().and_then(|name| name.to_str()?.strip_suffix(".json"))
        else {
            continue;
        };
        if is_old(&record, lifetime) {
            fs::remove_file(&record)?;
            // Move the layer to a temporary folder before deleting it, so that no process uses a partly deleted layer.
            let trash = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(folder)?;
            for name in [key.to_owned(), format!("{key}{COMPILED_LATER}")] {
                let _ = fs::rename(folder.join(LAYERS).join(&name), trash.path().join(&name));
            }
        }
    }
    Ok(())
}

/// Returns the dependencies declared by the wheels in a folder, including the dependencies of the extras in `wanted`.
pub(super) fn declared_dependencies(
    fetched: &Path,
    wanted: &BTreeSet<Requirement>,
    python: &PythonVersion,
) -> Result<Vec<Requirement>, PackageError> {
    let mut needed = Vec::new();
    for path in wheels_in(fetched)? {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let file = file.escape_debug();
        let metadata = metadata(&path).map_err(|error| {
            PackageError::Refused(format!("cannot read the package `{file}`: {error}"))
        })?;
        let head = metadata.split("\n\n").next().unwrap_or_default();
        let lines = |field: &'static str| {
            head.lines().filter_map(move |line| line.strip_prefix(field)).map(str::trim)
        };
        let name = super::normalize_name(lines("Name:").next().unwrap_or_default());
        let of_it = wanted.iter().filter(|one| one.name() == name);
        let extras: Vec<_> = of_it.flat_map(|one| one.extras().iter().cloned()).collect();
        for line in lines("Requires-Dist:") {
            let read = Requirement::read(line, python, &extras).map_err(|_| {
                PackageError::Refused(format!(
                    "the package `{file}` needs `{}`, which is not a package name with optional versions and extras",
                    line.escape_debug()
                ))
            })?;
            needed.extend(read);
        }
    }
    Ok(needed)
}

/// Creates a temporary folder that contains only links to the wheels of a folder.
pub(super) fn only(folder: &Path) -> io::Result<tempfile::TempDir> {
    let only = tempfile::tempdir()?;
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "whl") {
            let name = path.file_name().unwrap_or_default();
            std::os::unix::fs::symlink(path.canonicalize()?, only.path().join(name))?;
        }
    }
    Ok(only)
}

/// Returns the paths of the wheels in a folder, sorted by name.
fn wheels_in(folder: &Path) -> Result<Vec<PathBuf>, PackageError> {
    let entries = fs::read_dir(folder).and_then(|entries| entries.collect::<io::Result<Vec<_>>>());
    let entries = entries.map_err(|error| PackageError::of_disk(folder, &error))?;
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "whl"));
    paths.sort();
    Ok(paths)
}

/// Reads the `METADATA` file of a wheel.
fn metadata(wheel: &Path) -> Result<String, String> {
    const MAX_METADATA: u64 = 4 << 20;
    let file = File::open(wheel).map_err(|error| error.to_string())?;
    let mut archive =
        ZipArchive::new(io::BufReader::new(file)).map_err(|error| error.to_string())?;
    let is_metadata = |name: &&str| {
        name.strip_suffix(".dist-info/METADATA").is_some_and(|folder| !folder.contains('/'))
    };
    let name = archive.file_names().find(is_metadata).map(str::to_owned);
    let name = name.ok_or("the METADATA file is missing")?;
    let mut text = String::new();
    let entry = archive.by_name(&name).map_err(|error| error.to_string())?;
    entry.take(MAX_METADATA + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > MAX_METADATA {
        return Err("the METADATA file is too large".to_owned());
    }
    Ok(text.replace("\r\n", "\n"))
}

/// Returns the key of the layer that consists of all wheels in a folder, for a version of Python. If the layer does not
/// exist yet, unpacks the wheels into a temporary folder and also returns this folder.
pub(super) fn unpack_all(
    fetched: &Path,
    folder: &Path,
    python: &str,
) -> Result<(Fingerprint, Option<TempDir>), PackageError> {
    let failed = |error: io::Error| PackageError::of_disk(folder, &error);
    let wheels = wheels_in(fetched)?;
    let key = key_of(&wheels, python).map_err(failed)?;
    if read(folder, key).is_some() {
        return Ok((key, None));
    }
    let unfinished =
        tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(folder).map_err(failed)?;
    let mut room = (MAX_BYTES, MOST_FILES);
    for wheel in &wheels {
        unpack(wheel, unfinished.path(), &mut room).map_err(|error| {
            let name = wheel.file_name().unwrap_or_default().to_string_lossy();
            // Errors of these kinds are caused by conflicting or invalid file names in the wheel, not by the disk.
            let own = matches!(
                error.kind(),
                ErrorKind::AlreadyExists
                    | ErrorKind::NotADirectory
                    | ErrorKind::IsADirectory
                    | ErrorKind::InvalidFilename
            );
            match error.raw_os_error() {
                Some(_) if !own => failed(error),
                _ => PackageError::Refused(format!("cannot unpack the package `{name}`: {error}")),
            }
        })?;
    }
    make_readable(unfinished.path()).map_err(failed)?;
    Ok((key, Some(unfinished)))
}

/// Copies a published layer to a temporary folder, so that bytecode can be added while sandboxes use the layer.
pub(super) fn copy(layer: &SandboxLayer, folder: &Path) -> io::Result<TempDir> {
    fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
        for entry in fs::read_dir(from)? {
            let entry = entry?;
            let place = to.join(entry.file_name());
            if entry.file_type()?.is_dir() {
                fs::create_dir(&place)?;
                copy_all(&entry.path(), &place)?;
            } else if fs::hard_link(entry.path(), &place).is_err() {
                fs::copy(entry.path(), &place)?;
            }
        }
        Ok(())
    }
    let copy = tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(folder)?;
    copy_all(&layer.from, copy.path())?;
    make_readable(copy.path())?;
    Ok(copy)
}

/// Publishes a temporary folder as the layer with the given key. The name of the published folder is the key followed
/// by `suffix`.
pub(super) fn publish(
    suffix: &str,
    unfinished: TempDir,
    folder: &Path,
    key: Fingerprint,
    failed_compilations: u32,
) -> Result<(), PackageError> {
    let failed = |error: io::Error| PackageError::of_disk(folder, &error);
    // Set the permissions again, because bytecode may have been added.
    make_readable(unfinished.path()).map_err(failed)?;
    let place = folder.join(LAYERS).join(format!("{key}{suffix}"));
    let unfinished = unfinished.keep();
    if let Err(error) = fs::rename(&unfinished, &place) {
        let _ = fs::remove_dir_all(&unfinished);
        // Another process may have published the same layer.
        if !place.is_dir() {
            return Err(failed(error));
        }
    }
    let layer = SandboxLayer::of(&place).map_err(failed)?;
    write(folder, key, &LayerRecord { layer, failed_compilations })
}

/// Writes a file atomically.
pub(super) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(path))?;
    fs::write(file.path(), text)?;
    file.persist(path)?;
    Ok(())
}

/// Makes a folder tree readable for all users, because programs in sandboxes run as another user.
fn make_readable(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            make_readable(&entry.path())?;
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}

/// Computes the key of a layer from the names and contents of its wheels and the Python version of its bytecode.
fn key_of(wheels: &[PathBuf], python: &str) -> io::Result<Fingerprint> {
    let mut hasher = Sha256::new();
    hasher.update(format!("bytecode {python}\0"));
    for wheel in wheels {
        let mut content = Sha256::new();
        let mut file = File::open(wheel)?;
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                count => content.update(&buffer[..count]),
            }
        }
        hasher.update(wheel.file_name().unwrap_or_default().as_encoded_bytes());
        hasher.update([0]);
        hasher.update(content.finalize());
    }
    Ok(Fingerprint::from_bytes(hasher.finalize().into()))
}

/// Unpacks one wheel. `room` is the number of bytes and the number of files that may still be written. An error without
/// an OS error code is caused by an invalid wheel.
fn unpack(wheel: &Path, into: &Path, room: &mut (u64, usize)) -> io::Result<()> {
    let invalid = |why: &str| io::Error::other(why.to_owned());
    let mut archive = ZipArchive::new(io::BufReader::new(File::open(wheel)?))?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        if entry.is_dir() {
            continue;
        }
        if entry.is_symlink() {
            let name = entry.name().escape_debug();
            return Err(invalid(&format!("`{name}` is a symbolic link")));
        }
        let Some(place) = path_in_layer(entry.name()).map_err(|error| invalid(&error))? else {
            continue;
        };
        room.1 = room
            .1
            .checked_sub(1)
            .ok_or_else(|| invalid("the packages have too many files in total"))?;
        let path = into.join(place);
        fs::create_dir_all(path.parent().unwrap_or(into))?;
        let mut out = File::create(&path)?;
        // Count the bytes that are actually written, because the declared size is untrusted.
        let written = io::copy(&mut (&mut entry).take(room.0 + 1), &mut out)?;
        room.0 = room.0.checked_sub(written).ok_or_else(|| invalid("the layer is too large"))?;
    }
    Ok(())
}

/// Returns the path in the layer for a file of a wheel; `None` for a file that is needed only during installation, such
/// as a script.
pub(super) fn path_in_layer(name: &str) -> Result<Option<PathBuf>, String> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || name.contains(['\\', '\0']) || name.is_empty() {
        return Err(format!("invalid file name `{}`", name.escape_debug()));
    }
    let mut parts = path.components();
    let first = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    if !first.is_some_and(|first| first.ends_with(".data")) {
        return Ok(Some(path.to_owned()));
    }
    let kind = parts.next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let rest = parts.as_path();
    let is_library = matches!(kind.as_deref(), Some("purelib" | "platlib"));
    Ok((is_library && !rest.as_os_str().is_empty()).then(|| rest.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    fn wheel(folder: &Path, name: &str, files: &[(&str, &str)]) {
        let mut writer = ZipWriter::new(File::create(folder.join(name)).unwrap());
        for (name, text) in files {
            writer.start_file(*name, SimpleFileOptions::default()).unwrap();
            writer.write_all(text.as_bytes()).unwrap();
        }
        writer.finish().unwrap();
    }

    /// Creates a folder for wheels, and a package cache folder.
    fn folders() -> (TempDir, TempDir) {
        let (fetched, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(folder.path().join(LAYERS)).unwrap();
        (fetched, folder)
    }

    /// Unpacks and publishes a layer without bytecode.
    fn unpack_all(fetched: &Path, folder: &Path) -> Result<Fingerprint, PackageError> {
        let (key, unfinished) = super::unpack_all(fetched, folder, "3.11")?;
        unfinished.map_or(Ok(()), |unfinished| publish("", unfinished, folder, key, 0))?;
        Ok(key)
    }

    #[test]
    fn layer_key_is_equal_for_equal_wheels_and_differs_for_other_wheels() {
        let (fetched, folder) = folders();
        let files = [
            ("six.py", "x = 6"),
            ("six-1.dist-info/METADATA", "Name: six"),
            ("six-1.data/purelib/more.py", "y = 7"),
            ("six-1.data/scripts/six", "#!/bin/sh"),
        ];
        wheel(fetched.path(), "six-1-py3-none-any.whl", &files);
        let key = unpack_all(fetched.path(), folder.path()).unwrap();
        let layer = read(folder.path(), key).unwrap().layer;
        assert_eq!(fs::read_to_string(layer.from.join("six.py")).unwrap(), "x = 6");
        assert_eq!(fs::read_to_string(layer.from.join("more.py")).unwrap(), "y = 7");
        assert!(!layer.from.join("six-1.data").exists());
        assert_eq!(unpack_all(fetched.path(), folder.path()).unwrap(), key);
        wheel(fetched.path(), "seven-1-py3-none-any.whl", &[("seven.py", "")]);
        assert_ne!(unpack_all(fetched.path(), folder.path()).unwrap(), key);
        // No temporary folder remains.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn remove_unused_deletes_unused_layers_and_old_temporary_folders() {
        let (fetched, folder) = folders();
        wheel(fetched.path(), "six-1-py3-none-any.whl", &[("six.py", "x = 6")]);
        let old = unpack_all(fetched.path(), folder.path()).unwrap();
        wheel(fetched.path(), "seven-1-py3-none-any.whl", &[("seven.py", "")]);
        let new = unpack_all(fetched.path(), folder.path()).unwrap();
        let unfinished = [".tmp-old", ".tmp-new"].map(|name| folder.path().join(name));
        unfinished.iter().for_each(|path| fs::create_dir(path).unwrap());
        let days = |count: u64| Duration::from_secs(count * 24 * 60 * 60);
        let ages = |path: &Path| {
            File::open(path).unwrap().set_modified(now() - days(10)).unwrap();
        };
        ages(&unfinished[0]);
        ages(&folder.path().join("layers").join(format!("{old}.json")));
        remove_unused(folder.path(), days(11)).unwrap();
        assert!(!unfinished[0].exists() && unfinished[1].exists());
        // Reading a layer marks it as used.
        ages(&folder.path().join("layers").join(format!("{new}.json")));
        assert!(read(folder.path(), new).is_some());
        remove_unused(folder.path(), days(9)).unwrap();
        assert!(read(folder.path(), old).is_none() && read(folder.path(), new).is_some());
        assert_eq!(fs::read_dir(folder.path().join("layers")).unwrap().count(), 2);
    }

    #[test]
    fn unpacking_a_wheel_with_a_path_traversal_fails() {
        for name in ["../evil.py", "/etc/evil", "a/../../evil", "a\\..\\evil", "a/./../b"] {
            let (fetched, folder) = folders();
            wheel(fetched.path(), "evil-1-py3-none-any.whl", &[(name, "x")]);
            let error = unpack_all(fetched.path(), folder.path()).unwrap_err().to_string();
            assert!(error.contains("invalid file name"), "{name}: {error}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn error_for_an_invalid_wheel_contains_its_file_name() {
        let (fetched, folder) = folders();
        fs::write(fetched.path().join("six-1-py3-none-any.whl"), "<html>not found</html>").unwrap();
        let error = unpack_all(fetched.path(), folder.path()).unwrap_err().to_string();
        assert!(error.contains("cannot unpack the package `six-1-py3-none-any.whl`"), "{error}");
    }
}
