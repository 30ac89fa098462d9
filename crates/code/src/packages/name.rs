//! Names of packages, as a model writes them.

use std::fmt;
use std::str::FromStr;

/// A package that is asked for: a name, and a version if one was named. Nothing else that `pip` would
/// understand is: no address, no option, no file.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    name: String,
    version: Option<String>,
}

/// Text that names no package.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no name of a package")]
pub struct NoName(String);

/// The names under which some packages are imported, which models take for their names.
const IMPORTED_AS: [(&str, &str); 6] = [
    ("sklearn", "scikit-learn"),
    ("pil", "pillow"),
    ("bs4", "beautifulsoup4"),
    ("yaml", "pyyaml"),
    ("dateutil", "python-dateutil"),
    ("cv2", "opencv-python-headless"),
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
    /// In its normal form.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        self.version.as_ref().map_or(Ok(()), |version| write!(f, "=={version}"))
    }
}

impl FromStr for Requirement {
    type Err = NoName;

    fn from_str(text: &str) -> Result<Requirement, NoName> {
        let none = || NoName(text.to_owned());
        let (name, version) = match text.trim().split_once("==") {
            Some((name, version)) => (name.trim(), Some(version.trim())),
            None => (text.trim(), None),
        };
        let letter = |c: char| c.is_ascii_alphanumeric();
        let plain = (1..=60).contains(&name.len())
            && name.starts_with(letter)
            && name.ends_with(letter)
            && name.chars().all(|c| letter(c) || matches!(c, '-' | '_' | '.'));
        let sound = version.is_none_or(|version| {
            (1..=40).contains(&version.len())
                && version.starts_with(|c: char| c.is_ascii_digit())
                && version.chars().all(|c| letter(c) || matches!(c, '.' | '+' | '!' | '-'))
        });
        if !plain || !sound {
            return Err(none());
        }
        let name = normal(name);
        let known = IMPORTED_AS.iter().find(|(imported, _)| *imported == name);
        let name = known.map_or(name.clone(), |(_, package)| (*package).to_owned());
        Ok(Requirement { name, version: version.map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_and_versions_are_taken() {
        let read = |text: &str| text.parse::<Requirement>().map(|one| one.to_string()).ok();
        assert_eq!(read("NumPy").as_deref(), Some("numpy"));
        assert_eq!(read(" more_itertools == 10.1.0 ").as_deref(), Some("more-itertools==10.1.0"));
        assert_eq!(read("sklearn").as_deref(), Some("scikit-learn"));
        for wrong in [
            "",
            "-r requirements.txt",
            "--index-url=https://x",
            "six @ https://x/y.whl",
            "https://x/y.whl",
            "../six",
            "six; import os",
            "six>=1",
            "six==--pre",
            "six\n--pre",
            "six==1 --pre",
            "é",
        ] {
            assert_eq!(read(wrong), None, "{wrong:?}");
        }
    }
}
