//! What a sandbox is to be: its limits, its layers, its labels.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use assize_config::Limits;
use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A folder of the host that is seen read-only in the sandbox, known by what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layer {
    pub digest: Fingerprint,
    pub from: PathBuf,
    /// Where it is seen in the sandbox.
    pub at: String,
}

/// The folder in which all layers are seen.
pub const LAYERS: &str = "/opt/layers";

impl Layer {
    /// Takes a folder as it is now; nobody may change it from then on.
    pub fn of(folder: &Path) -> std::io::Result<Layer> {
        let from = folder.canonicalize()?;
        let mut hash = Sha256::new();
        digest(&from, Path::new(""), &mut hash)?;
        let digest = Fingerprint::from_bytes(hash.finalize().into());
        let at = format!("{LAYERS}/{}", &digest.to_string()[..16]);
        Ok(Layer { digest, from, at })
    }
}

/// Names, kinds and contents, in order of names.
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

/// A sandbox to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Spec {
    /// The image whose files are seen; the backend's own if `None`.
    pub image: Option<String>,
    pub layers: Vec<Layer>,
    pub limits: Limits,
    pub labels: BTreeMap<String, String>,
    /// Where it should be, for those who have more than one place.
    pub region: Option<String>,
    /// After this it is removed, used or not; the manager's own if `None`.
    pub time_to_live: Option<Duration>,
}

impl Spec {
    /// The part that cannot be changed once the sandbox is there, and that an idle one must share with a request to serve
    /// it. Time and output are limits of each execution, which the host sends along with it.
    pub(crate) fn shape(&self) -> Spec {
        let limits = Limits { wall: Duration::ZERO, output: 0, ..self.limits.clone() };
        Spec { limits, ..self.unlabelled() }
    }

    /// The same without labels and the like, which are of a request and not of a sandbox.
    pub(crate) fn unlabelled(&self) -> Spec {
        let Spec { image, layers, limits, .. } = self.clone();
        Spec { image, layers, limits, ..Spec::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_is_known_by_what_is_in_it() {
        let make = |text: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("a")).unwrap();
            std::fs::write(folder.path().join("a/b"), text).unwrap();
            std::os::unix::fs::symlink("a/b", folder.path().join("c")).unwrap();
            (Layer::of(folder.path()).unwrap(), folder)
        };
        let (one, two, other) = (make("x"), make("x"), make("y"));
        assert_eq!(one.0.digest, two.0.digest);
        assert_ne!(one.0.digest, other.0.digest);
        assert!(one.0.at.starts_with("/opt/layers/"));
    }
}
