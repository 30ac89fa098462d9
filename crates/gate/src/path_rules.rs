//! Path rules: classify the files of a workspace as hidden from agents, protected, or not allowed by the contract.

use assize_workspace::WorkspacePath;

use crate::file_rules::{BuildRule, FileRules};
use crate::globs::{Globs, InvalidGlob};
use crate::policy::Policy;

/// Path rules of a policy: the built-in rules, combined with the patterns of the settings and the contract.
#[derive(Debug)]
pub struct PathRules {
    rules: &'static FileRules,
    readable: Globs,
    also_protected: Globs,
    allowed: Option<Globs>,
}

impl Policy {
    /// Compiles the path patterns of the policy. Returns an error if a pattern is invalid.
    pub fn path_rules(&self) -> Result<PathRules, InvalidGlob> {
        Ok(PathRules {
            rules: FileRules::get()?,
            readable: Globs::new(&self.readable)?,
            also_protected: Globs::case_insensitive(&self.protected)?,
            allowed: self.allowed.as_deref().map(Globs::new).transpose()?,
        })
    }
}

impl PathRules {
    /// Whether a file is hidden from agents, because its name suggests secrets or because it belongs to the version
    /// control repository (`.git`).
    pub fn is_hidden(&self, path: &WorkspacePath) -> bool {
        let (exact, path) = (path.to_string(), path.normalized_for_rules());
        if self.rules.repository.tool(&path).is_some() {
            return !self.readable.matches(&exact);
        }
        // Files with these extensions show the format of another file without its secrets.
        let example = [".example", ".sample", ".template", ".dist"];
        if example.iter().any(|end| path.to_lowercase().ends_with(end)) {
            return false;
        }
        self.rules.secret.tool(&path).is_some() && !self.readable.matches(&exact)
    }

    /// Whether the setting `draft.readable` allows agents to read a file although its name suggests secrets.
    pub fn is_readable(&self, path: &WorkspacePath) -> bool {
        self.readable.matches(&path.to_string())
    }

    /// Whether a file is hidden from agents because its content includes a private key.
    pub fn is_key(&self, path: &WorkspacePath, bytes: &[u8]) -> bool {
        contains_private_key(bytes) && !self.is_readable(path)
    }

    /// Returns why a file is protected: a tool runs or reads the file automatically, or a pattern of the setting
    /// `draft.protected` matches its path. `None` if the file is not protected.
    pub fn protected_by(&self, path: &WorkspacePath) -> Option<String> {
        let path = path.normalized_for_rules();
        if let Some(tool) = self.rules.protected.tool(&path) {
            return Some(format!("it is run or read automatically ({tool})"));
        }
        let by_setting = "its path matches a pattern of the setting `draft.protected`";
        self.also_protected.matches(&path).then(|| by_setting.to_owned())
    }

    /// Returns the rule for a file whose content can run code on build or test; `None` if no rule matches the file.
    pub(crate) fn runs_on_build(&self, path: &WorkspacePath) -> Option<&'static BuildRule> {
        let path = path.normalized_for_rules();
        self.rules.runs.iter().find(|runs| runs.files.matches(&path))
    }

    /// Whether a file is in a source folder, such as `src`, where executable files are normal.
    pub fn is_source(&self, path: &WorkspacePath) -> bool {
        let folders = path.parts().split_last().map_or(&[][..], |(_, folders)| folders);
        folders.iter().any(|folder| self.rules.source_folders.contains(&folder.to_lowercase()))
    }

    /// Whether the contract allows agents to change a file.
    pub fn is_allowed(&self, path: &WorkspacePath) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.matches(&path.to_string()))
    }
}

/// Whether a text contains a private key in PEM format, on separate lines or in a JSON string.
fn contains_private_key(bytes: &[u8]) -> bool {
    const END: &[u8] = b"PRIVATE KEY-----";
    // Return early, because most files contain no private key.
    if memchr::memmem::find(bytes, END).is_none() {
        return false;
    }
    let text = String::from_utf8_lossy(bytes);
    let mut rest = &*text;
    while let Some(start) = rest.find("-----BEGIN ") {
        rest = &rest[start + "-----BEGIN ".len()..];
        let Some(end) = rest.find("-----") else { return false };
        let (label, after) = (&rest[..end], &rest[end + "-----".len()..]);
        let is_label = label.ends_with("PRIVATE KEY") && label.len() <= 40;
        // The body of the key follows on the next line, or after an escaped line end in a string.
        let body = after.trim_start_matches("\\r").trim_start_matches("\\n").trim_start();
        let base64 = |c: &char| c.is_ascii_alphanumeric() || "+/=".contains(*c);
        let header = body.starts_with("Proc-Type:") || body.starts_with("Version:");
        if is_label && (header || body.is_empty() || body.chars().take_while(base64).count() >= 16)
        {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn inside(path: &str) -> WorkspacePath {
        WorkspacePath::parse(path, Path::new("/srv/repo")).unwrap()
    }

    fn places() -> PathRules {
        Policy::default().path_rules().unwrap()
    }

    #[test]
    fn path_rules_apply_the_draft_readable_and_draft_protected_settings() {
        let policy = Policy {
            readable: vec![".env.ci".to_owned()],
            protected: vec!["infra/".to_owned()],
            ..Policy::default()
        };
        let places = policy.path_rules().unwrap();
        assert!(!places.is_hidden(&inside(".env.ci")) && places.is_hidden(&inside(".env")));
        assert_eq!(
            places.protected_by(&inside("Infra/main.tf")).as_deref(),
            Some("its path matches a pattern of the setting `draft.protected`")
        );
    }

    #[test]
    fn repository_files_are_hidden_in_every_spelling_of_their_path() {
        for path in [
            ".git/x.example",
            ".git/hooks/pre-commit.sample",
            "sub/.GIT/config.dist",
            ".git./config",
            ".git /config",
            ".git . /config",
            "GIT~1/config",
            "git~12/config",
            ".git::$INDEX_ALLOCATION/config",
        ] {
            assert!(places().is_hidden(&inside(path)), "{path}");
        }
        for path in ["git~a/config", "src/git~1.rs", ".gitignore", "docs/git/x.example"] {
            assert!(!places().is_hidden(&inside(path)), "{path}");
        }
    }

    #[test]
    fn private_key_is_found_at_any_position_in_a_file() {
        let key = |label: &str| format!("-----BEGIN {label}PRIVATE{} KEY-----", "");
        let body = "b3BlbnNzaC1rZXktdjEAAAAA";
        let is_key = |text: &str| places().is_key(&inside("notes.txt"), text.as_bytes());
        let pem = format!("{}\n{body}\n", key("OPENSSH "));
        assert!(is_key(&pem) && is_key(&format!("my key:\n{pem}")));
        assert!(is_key(&format!("{}{pem}", "x = 1\n".repeat(2000))));
        assert!(is_key(&format!("{{\"private_key\": \"{}\\n{body}\\n\"}}", key(""))));
        assert!(is_key(&key("RSA ")), "a key header without a body counts as a key");
        for harmless in [
            format!("look for `{}` in the output", key("RSA ")),
            format!("if line.startswith(\"{}\"):\n", key("")),
            "-----BEGIN PUBLIC KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n".to_owned(),
            "a PRIVATE KEY----- alone".to_owned(),
        ] {
            assert!(!is_key(&harmless), "{harmless}");
        }
    }
}
