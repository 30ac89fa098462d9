//! Package requirements (PEP 508): package names with versions and extras. Requirements come from models and from the
//! metadata of packages.

use std::fmt;

use pep508_rs::pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{ExtraName, MarkerEnvironment, MarkerEnvironmentBuilder, VersionOrUrl};

/// Maximum length of a requirement in bytes.
const MAX_LENGTH: usize = 500;

/// A required package: its name, with optional version specifiers and extras. Unlike in pip, URLs, options and files
/// are not accepted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Requirement {
    name: String,
    extras: Vec<ExtraName>,
    /// Version specifiers in pip's syntax; empty for any version.
    versions: String,
}

/// Error for a text that is not a valid requirement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid package name `{0}`")]
pub(crate) struct InvalidRequirement(String);

/// Module names that differ from the name of their package: pairs of module name and package name. Models often write
/// the module name where the package name is needed.
const IMPORTED_AS: [(&str, &str); 9] = [
    ("sklearn", "scikit-learn"),
    ("pil", "pillow"),
    ("bs4", "beautifulsoup4"),
    ("yaml", "pyyaml"),
    ("dateutil", "python-dateutil"),
    ("cv2", "opencv-python-headless"),
    ("attr", "attrs"),
    ("mpl-toolkits", "matplotlib"),
    ("pylab", "matplotlib"),
];

/// Normalizes a package name (PEP 503), so that different spellings of the same name compare equal.
pub fn normalize_name(name: &str) -> String {
    let mut normal = String::new();
    for c in name.chars() {
        match c {
            '-' | '_' | '.' if normal.ends_with('-') => {}
            '-' | '_' | '.' => normal.push('-'),
            c => normal.push(c.to_ascii_lowercase()),
        }
    }
    normal
}

impl Requirement {
    /// Parses a requirement. Returns `None` if its environment markers do not apply to this Python version and these
    /// `extras`.
    pub(crate) fn read(
        text: &str,
        python: &PythonVersion,
        extras: &[ExtraName],
    ) -> Result<Option<Requirement>, InvalidRequirement> {
        let invalid = || InvalidRequirement(text.to_owned());
        if text.len() > MAX_LENGTH || text.chars().any(char::is_control) {
            return Err(invalid());
        }
        let read = text.parse::<pep508_rs::Requirement>().map_err(|_| invalid())?;
        let versions = match &read.version_or_url {
            None => String::new(),
            Some(VersionOrUrl::VersionSpecifier(versions)) => {
                versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            Some(VersionOrUrl::Url(_)) => return Err(invalid()),
        };
        if !read.evaluate_markers(&python.markers, extras) {
            return Ok(None);
        }
        let name = read.name.to_string();
        let known = IMPORTED_AS.iter().find(|(imported, _)| *imported == name);
        let name = known.map_or(name, |(_, package)| (*package).to_owned());
        Ok(Some(Requirement { name, extras: read.extras, versions }))
    }

    /// Returns the normalized name of the package.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn extras(&self) -> &[ExtraName] {
        &self.extras
    }

    /// Returns the requirement as a command-line argument for pip, without extras.
    pub(crate) fn pip_argument(&self) -> String {
        format!("{}{}", self.name, self.versions)
    }

    /// Whether an installed package, such as `numpy==1.26.4`, satisfies the requirement.
    pub(crate) fn is_met_by(&self, installed: &str) -> bool {
        let (name, version) = installed.split_once("==").unwrap_or((installed, ""));
        if normalize_name(name) != self.name || !self.extras.is_empty() {
            return false;
        }
        if self.versions.is_empty() {
            return true;
        }
        match (self.versions.parse::<VersionSpecifiers>(), version.parse::<Version>()) {
            (Ok(wanted), Ok(version)) => wanted.contains(&version),
            _ => false,
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.extras.is_empty() {
            let extras: Vec<&str> = self.extras.iter().map(AsRef::as_ref).collect();
            write!(f, "[{}]", extras.join(","))?;
        }
        f.write_str(&self.versions)
    }
}

/// Version of Python that packages must support.
#[derive(Debug, Clone)]
pub(crate) struct PythonVersion {
    /// Full version, such as `3.11.2`.
    pub(crate) version: String,
    /// Minor version, such as `3.11`.
    pub(crate) minor: String,
    markers: MarkerEnvironment,
}

impl PythonVersion {
    /// Parses a Python version such as `3.11.2`; returns `None` if the text is not a version.
    pub(crate) fn of(version: &str) -> Option<PythonVersion> {
        let mut parts = version.split('.');
        let (major, minor) = (parts.next()?, parts.next()?);
        let plain = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
        if !plain(major) || !plain(minor) {
            return None;
        }
        let minor = format!("{major}.{minor}");
        let markers = MarkerEnvironmentBuilder {
            implementation_name: "cpython",
            implementation_version: version,
            os_name: "posix",
            platform_machine: std::env::consts::ARCH,
            platform_python_implementation: "CPython",
            platform_release: "",
            platform_system: "Linux",
            platform_version: "",
            python_full_version: version,
            python_version: &minor,
            sys_platform: "linux",
        };
        let markers = MarkerEnvironment::try_from(markers).ok()?;
        Some(PythonVersion { version: version.to_owned(), minor, markers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirement_accepts_only_names_versions_and_extras() {
        let python = PythonVersion::of("3.11.2").unwrap();
        let read = |text: &str| {
            Requirement::read(text, &python, &[]).map(|one| one.unwrap().to_string()).ok()
        };
        assert_eq!(read("NumPy").as_deref(), Some("numpy"));
        assert_eq!(read(" more_itertools == 10.1.0 ").as_deref(), Some("more-itertools==10.1.0"));
        assert_eq!(read("sklearn").as_deref(), Some("scikit-learn"));
        assert_eq!(read("numpy>=1.26, <2").as_deref(), Some("numpy>=1.26,<2"));
        assert_eq!(read("pandas[Excel]").as_deref(), Some("pandas[excel]"));
        for wrong in [
            "",
            "-r requirements.txt",
            "--index-url=https://x",
            "six @ https://x/y.whl",
            "six @ file:///x",
            "six @ ../x",
            "https://x/y.whl",
            "../six",
            "./six.whl",
            "six; import os",
            "six==--pre",
            "six\n--pre",
            "six==1 --pre",
            "six --hash=x",
            "é",
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }

    #[test]
    fn requirement_markers_are_evaluated_for_python_version_and_extras() {
        let python = PythonVersion::of("3.11.2").unwrap();
        let needed = |text: &str, extras: &[&str]| {
            let extras: Vec<ExtraName> =
                extras.iter().map(|extra| ExtraName::new((*extra).to_owned()).unwrap()).collect();
            Requirement::read(text, &python, &extras).unwrap().is_some()
        };
        assert!(!needed("tomli; python_version < '3.11'", &[]));
        assert!(needed("six (>=1.0) ; python_version >= '3'", &[]));
        assert!(!needed("colorama; sys_platform == 'win32' or os_name == 'nt'", &[]));
        assert!(!needed("openpyxl >=3; extra == 'excel'", &[]));
        assert!(needed("openpyxl >=3; extra == 'excel'", &["excel"]));
        assert!(PythonVersion::of("an unknown version").is_none());
    }

    #[test]
    fn requirement_is_met_by_an_installed_package_with_a_matching_version() {
        let python = PythonVersion::of("3.11.2").unwrap();
        let met = |text: &str| {
            Requirement::read(text, &python, &[]).unwrap().unwrap().is_met_by("NumPy==1.24.2")
        };
        assert!(met("numpy") && met("numpy>=1.20") && met("numpy==1.24.2"));
        assert!(!met("numpy==2.0") && !met("numpy<1") && !met("pandas"));
    }
}
