//! Specification of a sandbox: image, layers, limits, labels.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assize_config::SandboxLimits;
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A host folder mounted read-only in the sandbox, identified by a digest of its contents.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SandboxLayer {
    pub digest: Fingerprint,
    pub from: PathBuf,
    /// Path at which the layer is mounted in the sandbox.
    pub at: String,
}

/// Folder in the sandbox under which all layers are mounted.
pub const LAYERS: &str = "/opt/layers";

impl SandboxLayer {
    /// Creates a layer from the current contents of a folder. The folder must not change afterwards.
    pub fn of(folder: &Path) -> std::io::Result<SandboxLayer> {
        let from = folder.canonicalize()?;
        let mut hash = Sha256::new();
        digest(&from, Path::new(""), &mut hash)?;
        let digest = Fingerprint::from_bytes(hash.finalize().into());
        let at = format!("{LAYERS}/{}", &digest.to_string()[..16]);
        Ok(SandboxLayer { digest, from, at })
    }
}

/// Adds all entries below a folder to a hash, in the order of their names: the name, kind and contents of each entry.
fn digest(root: &Path, below: &Path, hash: &mut Sha256) -> std::io::Result<()> {
    let mut entries: Vec<_> =
        std::fs::read_dir(root.join(below))?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = below.join(entry.file_name());
        let kind = entry.file_type()?;
        let mut note = |tag: u8, bytes: &[u8]| {
            hash.update([tag]);
            for part in [path.as_os_str().as_encoded_bytes(), bytes] {
                hash.update((part.len() as u64).to_le_bytes());
                hash.update(part);
            }
        };
        if kind.is_dir() {
            note(b'd', b"");
            digest(root, &path, hash)?;
        } else if kind.is_symlink() {
            note(b'l', std::fs::read_link(entry.path())?.as_os_str().as_encoded_bytes());
        } else {
            let mut file = std::fs::File::open(entry.path())?;
            let (mut content, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
            loop {
                match file.read(&mut buffer)? {
                    0 => break,
                    count => content.update(&buffer[..count]),
                }
            }
            note(b'f', &content.finalize());
        }
    }
    Ok(())
}

/// Specification of a sandbox to create.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SandboxSpec {
    /// The image to use; the backend's default image if `None`.
    pub image: Option<String>,
    pub layers: Vec<SandboxLayer>,
    pub limits: SandboxLimits,
    pub labels: BTreeMap<String, String>,
    /// Preferred region, for a deployment with several regions.
    pub region: Option<String>,
    /// Lifetime after which the sandbox is removed even if it is in use; the manager's default if `None`.
    pub time_to_live: Option<Duration>,
}

impl SandboxSpec {
    /// Returns the shape of the spec: image, layers and all limits except the time and output limits, which the host
    /// sends with each execution. The shape cannot be changed after a sandbox is created. An idle sandbox can serve any
    /// request of the same shape. If its backend has a [fixed time limit](crate::Backend::has_fixed_time_limit), the
    /// request must also have the same time limit.
    pub(crate) fn shape(&self) -> SandboxSpec {
        let limits = SandboxLimits { wall: Duration::ZERO, output: 0, ..self.limits.clone() };
        SandboxSpec { limits, ..self.unlabelled() }
    }

    /// Returns the spec without labels, region and lifetime, which belong to one request and not to a pooled sandbox.
    pub(crate) fn unlabelled(&self) -> SandboxSpec {
        let SandboxSpec { image, layers, limits, .. } = self.clone();
        SandboxSpec { image, layers, limits, ..SandboxSpec::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layer_digest_depends_only_on_contents() {
        let make = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("a")).unwrap();
            std::fs::write(folder.path().join("a/b"), text).unwrap();
            std::os::unix::fs::symlink("a/b", folder.path().join("c")).unwrap();
            (SandboxLayer::of(folder.path()).unwrap(), folder)
        };
        let (one, two, other) = (make("x"), make("x"), make("y"));
        assert_eq!(one.0.digest, two.0.digest);
        assert_ne!(one.0.digest, other.0.digest);
        assert!(one.0.at.starts_with("/opt/layers/"));
    }
}
