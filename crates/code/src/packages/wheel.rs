//! Wheels, unpacked into a layer. They come from strangers: nothing in them is run, and none of their
//! names leads anywhere else.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use assize_sandbox::Layer;
use assize_types::Fingerprint;
use sha2::{Digest, Sha256};
use zip::ZipArchive;

/// The most that all wheels of a layer may hold.
const MOST_BYTES: u64 = 2 << 30;
const MOST_FILES: usize = 100_000;

/// The layer of this key, if it is there.
pub(super) fn read(folder: &Path, key: Fingerprint) -> Option<Layer> {
    let layers = folder.join("layers");
    let text = fs::read_to_string(layers.join(format!("{key}.json"))).ok()?;
    let layer: Layer = serde_json::from_str(&text).ok()?;
    layer.from.is_dir().then_some(layer)
}

/// What the wheels of a folder say that they need, line by line as `pip` reads it.
pub(super) fn needed_by(fetched: &Path) -> Result<Vec<String>, String> {
    let mut needed = Vec::new();
    for entry in fs::read_dir(fetched).map_err(|error| error.to_string())?.flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != "whl") {
            continue;
        }
        let name = entry.file_name().to_string_lossy().into_owned();
        let metadata = metadata(&path).map_err(|error| {
            format!("the package `{}` cannot be read: {error}", name.escape_debug())
        })?;
        let head = metadata.split("\n\n").next().unwrap_or_default();
        for line in head.lines().filter_map(|line| line.strip_prefix("Requires-Dist:")) {
            let line = line.trim();
            // What belongs to an extra that nobody asked for.
            if line.contains("extra ==") || line.contains("extra==") {
                continue;
            }
            needed.push(sound(line).ok_or_else(|| {
                format!("the package `{}` needs `{}`", name.escape_debug(), line.escape_debug())
            })?);
        }
    }
    Ok(needed)
}

/// A line that names a package, versions and when it is needed; never an address, an option or a file.
fn sound(line: &str) -> Option<String> {
    let (what, _) = line.split_once(';').unwrap_or((line, ""));
    let name = what.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).next()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || " -_.,<>=!~()[]*+".contains(c);
    let whole = |c: char| plain(c) || ";'\"".contains(c);
    let fits = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && what.chars().all(plain)
        && line.chars().all(whole)
        && line.len() <= 500;
    fits.then(|| line.to_owned())
}

fn metadata(wheel: &Path) -> Result<String, String> {
    const LARGEST: u64 = 4 << 20;
    let file = File::open(wheel).map_err(|error| error.to_string())?;
    let mut archive =
        ZipArchive::new(io::BufReader::new(file)).map_err(|error| error.to_string())?;
    let is_metadata = |name: &&str| {
        name.strip_suffix(".dist-info/METADATA").is_some_and(|folder| !folder.contains('/'))
    };
    let name = archive.file_names().find(is_metadata).map(str::to_owned);
    let name = name.ok_or("it says nothing about itself")?;
    let mut text = String::new();
    let entry = archive.by_name(&name).map_err(|error| error.to_string())?;
    entry.take(LARGEST).read_to_string(&mut text).map_err(|error| error.to_string())?;
    Ok(text.replace("\r\n", "\n"))
}

/// Unpacks all wheels of a folder into a layer, and gives its key. One that is there already stays.
pub(super) fn unpack_all(fetched: &Path, folder: &Path) -> Result<Fingerprint, String> {
    let failed = |error: io::Error| format!("the packages cannot be unpacked: {error}");
    let mut wheels: Vec<PathBuf> = fs::read_dir(fetched)
        .and_then(|entries| entries.map(|entry| entry.map(|entry| entry.path())).collect())
        .map_err(failed)?;
    wheels.retain(|path| path.extension().is_some_and(|ending| ending == "whl"));
    wheels.sort();
    let key = key_of(&wheels).map_err(failed)?;
    if read(folder, key).is_some() {
        return Ok(key);
    }
    let layers = folder.join("layers");
    let unfinished = tempfile::tempdir_in(folder).map_err(failed)?;
    let mut room = (MOST_BYTES, MOST_FILES);
    for wheel in &wheels {
        unpack(wheel, unfinished.path(), &mut room).map_err(|error| {
            let name = wheel.file_name().unwrap_or_default().to_string_lossy();
            format!("the package `{name}` cannot be unpacked: {error}")
        })?;
    }
    open_to_all(unfinished.path()).map_err(failed)?;
    let place = layers.join(key.to_string());
    let unfinished = unfinished.keep();
    if let Err(error) = fs::rename(&unfinished, &place) {
        let _ = fs::remove_dir_all(&unfinished);
        // Another process was faster with the same.
        if !place.is_dir() {
            return Err(failed(error));
        }
    }
    let layer = Layer::of(&place).map_err(failed)?;
    let text = serde_json::to_string(&layer).map_err(|error| error.to_string())?;
    let record = tempfile::NamedTempFile::new_in(&layers).map_err(failed)?;
    fs::write(record.path(), text).map_err(failed)?;
    record.persist(layers.join(format!("{key}.json"))).map_err(|error| failed(error.error))?;
    Ok(key)
}

/// Lets everybody read what is below a folder: programs have another user.
fn open_to_all(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o755))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            open_to_all(&entry.path())?;
        } else {
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}

/// What identifies these wheels, byte for byte.
fn key_of(wheels: &[PathBuf]) -> io::Result<Fingerprint> {
    let mut hasher = Sha256::new();
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

fn unpack(wheel: &Path, into: &Path, room: &mut (u64, usize)) -> Result<(), String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let file = File::open(wheel).map_err(|error| told(&error))?;
    let mut archive = ZipArchive::new(io::BufReader::new(file)).map_err(|error| told(&error))?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| told(&error))?;
        if entry.is_dir() {
            continue;
        }
        if entry.is_symlink() {
            return Err(format!("`{}` is a link", entry.name().escape_debug()));
        }
        let Some(place) = place(entry.name())? else { continue };
        room.1 = room.1.checked_sub(1).ok_or("it has too many files")?;
        let path = into.join(place);
        fs::create_dir_all(path.parent().unwrap_or(into)).map_err(|error| told(&error))?;
        let mut out = File::create(&path).map_err(|error| told(&error))?;
        // What is written about its size may be anything.
        let written = io::copy(&mut (&mut entry).take(room.0 + 1), &mut out);
        let written = written.map_err(|error| told(&error))?;
        room.0 = room.0.checked_sub(written).ok_or("it is too large")?;
    }
    Ok(())
}

/// Where a file of a wheel goes; `None` for what only an installation needs.
fn place(name: &str) -> Result<Option<PathBuf>, String> {
    let path = Path::new(name);
    let plain = path.components().all(|part| matches!(part, Component::Normal(_)));
    if !plain || name.contains(['\\', '\0']) || name.is_empty() {
        return Err(format!("`{}` is no sound name", name.escape_debug()));
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

    #[test]
    fn wheels_become_a_layer_that_is_known_by_them() {
        let (fetched, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(folder.path().join("layers")).unwrap();
        let files = [
            ("six.py", "x = 6"),
            ("six-1.dist-info/METADATA", "Name: six"),
            ("six-1.data/purelib/more.py", "y = 7"),
            ("six-1.data/scripts/six", "#!/bin/sh"),
        ];
        wheel(fetched.path(), "six-1-py3-none-any.whl", &files);
        let key = unpack_all(fetched.path(), folder.path()).unwrap();
        let layer = read(folder.path(), key).unwrap();
        assert_eq!(fs::read_to_string(layer.from.join("six.py")).unwrap(), "x = 6");
        assert_eq!(fs::read_to_string(layer.from.join("more.py")).unwrap(), "y = 7");
        assert!(!layer.from.join("six-1.data").exists());
        assert_eq!(unpack_all(fetched.path(), folder.path()).unwrap(), key);
        wheel(fetched.path(), "seven-1-py3-none-any.whl", &[("seven.py", "")]);
        assert_ne!(unpack_all(fetched.path(), folder.path()).unwrap(), key);
        // Nothing that was begun is left.
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for name in ["../evil.py", "/etc/evil", "a/../../evil", "a\\..\\evil", "a/./../b"] {
            let (fetched, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            fs::create_dir(folder.path().join("layers")).unwrap();
            wheel(fetched.path(), "evil-1-py3-none-any.whl", &[(name, "x")]);
            let error = unpack_all(fetched.path(), folder.path()).unwrap_err();
            assert!(error.contains("is no sound name"), "{name}: {error}");
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn what_is_no_wheel_is_said_so() {
        let (fetched, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(folder.path().join("layers")).unwrap();
        fs::write(fetched.path().join("six-1-py3-none-any.whl"), "<html>not found</html>").unwrap();
        let error = unpack_all(fetched.path(), folder.path()).unwrap_err();
        assert!(error.contains("`six-1-py3-none-any.whl` cannot be unpacked"), "{error}");
    }
}
