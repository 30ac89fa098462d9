//! What packages are called, as models and other packages write it.

use std::fmt;

use pep508_rs::pep440_rs::{Version, VersionSpecifiers};
use pep508_rs::{ExtraName, MarkerEnvironment, MarkerEnvironmentBuilder, VersionOrUrl};

/// The longest text that is read.
const LONGEST: usize = 500;

/// A package that is asked for: a name, and perhaps versions and extras. Nothing else that `pip` would
/// understand is: no address, no option, no file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Requirement {
    name: String,
    extras: Vec<ExtraName>,
    /// As `pip` reads it; empty for any.
    versions: String,
}

/// Text that names no package.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a package")]
pub(crate) struct NoName(String);

/// The names under which some packages are imported, which models take for their names.
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

/// The form of a name in which equal ones are equal.
pub fn normal(name: &str) -> String {
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
    /// Reads what somebody writes who wants these extras of it. `None` for what is not needed there.
    pub(crate) fn read(
        text: &str,
        python: &Python,
        extras: &[ExtraName],
    ) -> Result<Option<Requirement>, NoName> {
        let none = || NoName(text.to_owned());
        if text.len() > LONGEST || text.chars().any(char::is_control) {
            return Err(none());
        }
        let read = text.parse::<pep508_rs::Requirement>().map_err(|_| none())?;
        let versions = match &read.version_or_url {
            None => String::new(),
            Some(VersionOrUrl::VersionSpecifier(versions)) => {
                versions.iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
            }
            Some(VersionOrUrl::Url(_)) => return Err(none()),
        };
        if !read.evaluate_markers(&python.markers, extras) {
            return Ok(None);
        }
        let name = read.name.to_string();
        let known = IMPORTED_AS.iter().find(|(imported, _)| *imported == name);
        let name = known.map_or(name, |(_, package)| (*package).to_owned());
        Ok(Some(Requirement { name, extras: read.extras, versions }))
    }

    /// In its normal form.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn extras(&self) -> &[ExtraName] {
        &self.extras
    }

    /// What `pip` is asked for.
    pub(crate) fn line(&self) -> String {
        format!("{}{}", self.name, self.versions)
    }

    /// Whether a package that is there, such as `numpy==1.26.4`, is what is asked for.
    pub(crate) fn is_met_by(&self, installed: &str) -> bool {
        let (name, version) = installed.split_once("==").unwrap_or((installed, ""));
        if normal(name) != self.name || !self.extras.is_empty() {
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

/// The Python that packages are for.
#[derive(Debug, Clone)]
pub(crate) struct Python {
    /// `3.11.2`
    pub(crate) version: String,
    /// `3.11`
    pub(crate) minor: String,
    markers: MarkerEnvironment,
}

impl Python {
    /// `None` if that is no version.
    pub(crate) fn of(version: &str) -> Option<Python> {
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
        Some(Python { version: version.to_owned(), minor, markers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_versions_are_taken() {
        let python = Python::of("3.11.2").unwrap();
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
    fn what_is_needed_depends_on_the_python_and_the_extras() {
        let python = Python::of("3.11.2").unwrap();
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
        assert!(Python::of("an unknown version").is_none());
    }

    #[test]
    fn what_is_there_is_enough_if_it_fits() {
        let python = Python::of("3.11.2").unwrap();
        let met = |text: &str| {
            Requirement::read(text, &python, &[]).unwrap().unwrap().is_met_by("NumPy==1.24.2")
        };
        assert!(met("numpy") && met("numpy>=1.20") && met("numpy==1.24.2"));
        assert!(!met("numpy==2.0") && !met("numpy<1") && !met("pandas"));
    }
}
