//! Compiles the Python modules of a layer to bytecode, so that Python does not compile them at each import.
//!
//! Packages are untrusted, so they are compiled in a sandbox. The bytecode is deterministic: it contains a hash of the
//! source instead of a modification time. Python does not compare the bytecode with the source, because layers are
//! read-only.

use std::fs;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use assize_config::SandboxLimits;
use assize_sandbox::{
    Language, ProgramCommand, SandboxError, SandboxLayer, SandboxPool, SandboxSpec, WORKSPACE,
};
use zip::ZipArchive;

use super::wheel;

/// Name of the archive with the bytecode, which [`PROGRAM`] writes.
const ARCHIVE: &str = "bytecode.zip";

/// Maximum size of the bytecode archive in bytes.
const MAX_ARCHIVE: u64 = 256 << 20;

/// Maximum number of files in the bytecode archive.
const MAX_FILES: usize = wheel::MOST_FILES;

/// Maximum number of attempts to compile a layer.
pub(super) const MAX_COMPILATIONS: u32 = 3;

/// Timeout of the compilation of a layer.
const TIMEOUT: Duration = Duration::from_secs(180);

/// Python program that compiles all modules of a layer. It skips folders of tests, and modules with errors.
const PROGRAM: &str = include_str!("compile.py");

/// Compiles the modules of a layer that is not in use yet, and adds the bytecode to the layer.
///
/// # Errors
/// When no sandbox can be created, or the compilation fails. The layer then works without bytecode.
pub(super) async fn add(
    folder: &Path,
    pool: &SandboxPool,
    spec: &SandboxSpec,
) -> Result<(), String> {
    let layer = SandboxLayer::of(folder).map_err(|error| error.to_string())?;
    let archive = compile(&layer, pool, spec).await.map_err(|error| error.to_string())?;
    let folder = folder.to_owned();
    let unpacked = tokio::task::spawn_blocking(move || unpack(&archive, &folder, MAX_FILES)).await;
    unpacked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

async fn compile(
    layer: &SandboxLayer,
    pool: &SandboxPool,
    spec: &SandboxSpec,
) -> Result<Vec<u8>, SandboxError> {
    let limits = SandboxLimits {
        memory: spec.limits.memory.max(1 << 30),
        disk: spec.limits.disk.max(512 << 20),
        wall: TIMEOUT,
        cpu_millis: spec.limits.cpu_millis.max(1000),
        ..spec.limits.clone()
    };
    let spec = SandboxSpec { limits, layers: vec![layer.clone()], ..spec.clone() };
    let sandbox = pool.make(&spec).await?;
    let compiled = async {
        let target = format!("{WORKSPACE}/{ARCHIVE}");
        let mut command = ProgramCommand::default().args([layer.at.clone(), target.clone()]);
        // A fixed hash seed makes the order of elements in constant sets deterministic.
        command.env.insert("PYTHONHASHSEED".to_owned(), "0".to_owned());
        let running = sandbox.run(Language::Python, PROGRAM.as_bytes(), command).await?;
        let finished = running.finish().await?;
        if !finished.outcome.success() {
            let status = finished.outcome.status();
            return Err(SandboxError::SandboxFailed(format!(
                "the compilation of packages ended with {status}"
            )));
        }
        sandbox.read(&target, MAX_ARCHIVE).await
    };
    let compiled = compiled.await;
    pool.discard(sandbox);
    compiled
}

/// Unpacks a bytecode archive into a layer; `max` is the maximum number of files. The archive is untrusted: only new
/// files in `__pycache__` folders are accepted, and only for existing modules.
fn unpack(archive: &[u8], folder: &Path, max: usize) -> io::Result<()> {
    // Count the signatures of the archive's directory entries before the crate `zip` parses the directory.
    if archive.windows(4).filter(|bytes| *bytes == b"PK\x01\x02").nth(max).is_some() {
        return Err(io::Error::other("the bytecode has too many files"));
    }
    let mut archive = ZipArchive::new(Cursor::new(archive))?;
    let mut room = MAX_ARCHIVE;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let Ok(Some(place)) = wheel::path_in_layer(entry.name()) else { continue };
        let module = module_of(&place).map(|module| folder.join(module));
        if !module.is_some_and(|module| module.is_file()) || entry.is_dir() || entry.is_symlink() {
            continue;
        }
        let path = folder.join(place);
        // Skip bytecode that the wheel itself contains.
        if path.exists() {
            continue;
        }
        let mut bytes = Vec::new();
        (&mut entry).take(room + 1).read_to_end(&mut bytes)?;
        room = room
            .checked_sub(bytes.len() as u64)
            .ok_or_else(|| io::Error::other("the bytecode is too large"))?;
        fs::create_dir_all(path.parent().unwrap_or(folder))?;
        fs::write(&path, bytes)?;
    }
    Ok(())
}

/// Returns the module of a bytecode file, such as `sub/module.py` for `sub/__pycache__/module.cpython-311.pyc`.
fn module_of(bytecode: &Path) -> Option<PathBuf> {
    let folder = bytecode.parent().filter(|folder| folder.ends_with("__pycache__"))?.parent()?;
    let name = bytecode.file_name()?.to_str()?.strip_suffix(".pyc")?;
    let (module, _) = name.rsplit_once('.')?;
    Some(folder.join(format!("{module}.py")))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;

    #[test]
    fn unpack_accepts_only_new_bytecode_of_existing_modules() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("__pycache__")).unwrap();
        fs::write(folder.path().join("__pycache__/own.cpython-311.pyc"), "own").unwrap();
        fs::write(folder.path().join("module.py"), "x = 1").unwrap();
        fs::write(folder.path().join("own.py"), "").unwrap();
        fs::create_dir(folder.path().join("sub")).unwrap();
        fs::write(folder.path().join("sub/deep.py"), "").unwrap();
        let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
        for name in [
            "__pycache__/module.cpython-311.pyc",
            "__pycache__/own.cpython-311.pyc",
            "module.py",
            "module.pyc",
            "../__pycache__/up.pyc",
            "/__pycache__/root.pyc",
            "sub/__pycache__/deep.cpython-311.pyc",
            "__pycache__/no-module.cpython-311.pyc",
            "__pycache__/module.pyc",
            "new/__pycache__/module.cpython-311.pyc",
        ] {
            writer.start_file(name, SimpleFileOptions::default()).unwrap();
            writer.write_all(b"new").unwrap();
        }
        let archive = writer.finish().unwrap().into_inner();
        let error = unpack(&archive, folder.path(), 9).unwrap_err().to_string();
        assert_eq!(error, "the bytecode has too many files");
        assert!(!folder.path().join("sub/__pycache__").exists());
        unpack(&archive, folder.path(), 10).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).ok();
        assert_eq!(read("__pycache__/module.cpython-311.pyc").as_deref(), Some("new"));
        assert_eq!(read("sub/__pycache__/deep.cpython-311.pyc").as_deref(), Some("new"));
        assert_eq!(read("__pycache__/own.cpython-311.pyc").as_deref(), Some("own"));
        assert_eq!(read("module.py").as_deref(), Some("x = 1"));
        assert_eq!(read("module.pyc"), None);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 4);
        assert_eq!(fs::read_dir(folder.path().join("__pycache__")).unwrap().count(), 2);
    }
}
