//! What the gate goes by: the settings, and the contract of the task where there is one.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use assize_types::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::contract::{Contract, Verify};
use crate::globs::{BadGlob, Globs};
use crate::inside::Inside;

/// When a person looks at a draft before it is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// Always: nothing is accepted by the gate alone.
    Always,
    /// When the gate is in doubt.
    #[default]
    Escalated,
    /// Never: what the gate is in doubt about is rejected.
    Never,
}

impl Review {
    pub const NAMES: [&'static str; 3] = ["always", "escalated", "never"];
}

impl FromStr for Review {
    type Err = String;

    fn from_str(text: &str) -> Result<Review, String> {
        match text {
            "always" => Ok(Review::Always),
            "escalated" => Ok(Review::Escalated),
            "never" => Ok(Review::Never),
            other => Err(format!("`{other}` is none of `{}`", Review::NAMES.join("`, `"))),
        }
    }
}

impl fmt::Display for Review {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Review::Always => "always",
            Review::Escalated => "escalated",
            Review::Never => "never",
        })
    }
}

/// All that the gate goes by. Its fingerprint stands beside every decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// The most lines that a draft may add and remove.
    pub max_lines: usize,
    /// The most files of one task.
    pub max_files: usize,
    /// The largest share of a file's lines that may be removed or replaced.
    pub max_deletion: f64,
    /// The largest file and draft, in bytes.
    pub max_bytes: u64,
    pub review: Review,
    /// Files that workers may read although they look as if they held secrets.
    pub readable: Vec<String>,
    /// Files that a person looks after, besides those that everybody has.
    pub protected: Vec<String>,
    /// What may be drafted; everything, where nothing is said.
    pub allowed: Option<Vec<String>>,
    /// The only task there is.
    pub task: Option<String>,
    /// What must pass: what the settings ask for, and what the contract does.
    pub verify: Vec<Verify>,
    /// What a verification may have.
    pub verify_most: VerifyMost,
}

/// The most that a verification may ask for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VerifyMost {
    pub memory_mb: u64,
    pub seconds: u64,
    /// Folders of this machine that it may see.
    pub layers: Vec<String>,
    /// The virtual environment that it uses where it names none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<String>,
}

impl Default for VerifyMost {
    fn default() -> VerifyMost {
        VerifyMost { memory_mb: 2048, seconds: 600, layers: Vec::new(), python: None }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            max_lines: 500,
            max_files: 20,
            max_deletion: 0.5,
            max_bytes: 1 << 20,
            review: Review::default(),
            readable: Vec::new(),
            protected: Vec::new(),
            allowed: None,
            task: None,
            verify: Vec::new(),
            verify_most: VerifyMost::default(),
        }
    }
}

impl Policy {
    /// With the contract's limits, where these are tighter, and with what only a contract says.
    #[must_use]
    pub fn under(&self, contract: Option<Contract>) -> Policy {
        let mut policy = self.clone();
        let Some(contract) = contract else { return policy };
        let limits = contract.limits;
        policy.max_lines = limits.max_lines.map_or(policy.max_lines, |m| m.min(policy.max_lines));
        policy.max_files = limits.max_files.map_or(policy.max_files, |m| m.min(policy.max_files));
        policy.max_bytes = limits.max_bytes.map_or(policy.max_bytes, |m| m.min(policy.max_bytes));
        policy.max_deletion =
            limits.max_deletion.map_or(policy.max_deletion, |m| m.min(policy.max_deletion));
        policy.allowed = contract.allowed_paths;
        policy.task = contract.task_id;
        policy.verify.extend(contract.verify);
        policy
    }

    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(self.to_bytes())
    }

    /// All of it as JSON, with what is built in.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut whole = serde_json::json!(self);
        whole["built_in"] = serde_json::json!(*BUILT_IN);
        serde_json::to_vec(&whole).unwrap_or_default()
    }

    /// # Errors
    /// When a pattern of it is none.
    pub fn places(&self) -> Result<Places, BadGlob> {
        let known = |globs: &'static LazyLock<Result<Globs, BadGlob>>| {
            (**globs).as_ref().map_err(Clone::clone)
        };
        Ok(Places {
            secret: known(&SECRETS)?,
            readable: Globs::new(&self.readable)?,
            protected: known(&LOOKED_AFTER)?,
            also_protected: Globs::in_any_case(&self.protected)?,
            allowed: self.allowed.as_deref().map(Globs::new).transpose()?,
        })
    }
}

/// What stands for all rules that no setting changes.
static BUILT_IN: LazyLock<Fingerprint> = LazyLock::new(|| {
    let rules = crate::secrets::patterns().collect::<Vec<_>>();
    Fingerprint::of(
        serde_json::json!([SECRET, PROTECTED, rules, env!("CARGO_PKG_VERSION")]).to_string(),
    )
});

/// Read once: they are many.
static SECRETS: LazyLock<Result<Globs, BadGlob>> = LazyLock::new(|| Globs::in_any_case(SECRET));
static LOOKED_AFTER: LazyLock<Result<Globs, BadGlob>> =
    LazyLock::new(|| Globs::in_any_case(PROTECTED));

/// Which path is what.
#[derive(Debug)]
pub struct Places {
    secret: &'static Globs,
    readable: Globs,
    protected: &'static Globs,
    also_protected: Globs,
    allowed: Option<Globs>,
}

impl Places {
    /// Whether workers may not see it: it holds secrets, or the repository's own memory.
    pub fn is_hidden(&self, path: &Inside) -> bool {
        // By their names, these show what others hold.
        let shows = [".example", ".sample", ".template", ".dist"];
        if shows.iter().any(|end| path.name().to_lowercase().ends_with(end)) {
            return false;
        }
        let path = path.to_string();
        self.secret.matches(&path) && !self.readable.matches(&path)
    }

    /// Whether workers may not see it although its name is harmless: it is a private key.
    pub fn is_key(&self, path: &Inside, bytes: &[u8]) -> bool {
        let start = String::from_utf8_lossy(&bytes[..bytes.len().min(4096)]);
        let mut lines = start.lines().map(str::trim).peekable();
        let drawn = |line: &str| {
            let plain = |c: char| c.is_ascii_alphanumeric() || "+/=:-, ".contains(c);
            line.len() >= 16 && line.chars().all(plain)
        };
        let mut found = false;
        while let Some(line) = lines.next() {
            let heading = line.starts_with("-----BEGIN ") && line.ends_with("PRIVATE KEY-----");
            found |= heading && lines.peek().is_none_or(|next| drawn(next));
        }
        found && !self.readable.matches(&path.to_string())
    }

    /// Whether a person looks after it.
    pub fn is_protected(&self, path: &Inside) -> bool {
        let path = path.to_string();
        self.protected.matches(&path) || self.also_protected.matches(&path)
    }

    /// Whether the contract lets it be drafted.
    pub fn is_allowed(&self, path: &Inside) -> bool {
        self.allowed.as_ref().is_none_or(|allowed| allowed.matches(&path.to_string()))
    }
}

/// What holds secrets by its name.
#[rustfmt::skip]
const SECRET: &[&str] = &[
    "**/.git", "**/.git/**", "**/.hg/**", "**/.svn/**", "**/.env*", "**/*.env", "**/*.env.*", "**/env.{production,prod,staging,local}",
    "**/*.pem", "**/*.key", "**/*.key.*", "**/*.key~", "**/*.p12", "**/*.pfx", "**/*.jks", "**/*.keystore", "**/*.kdbx",
    "**/*.ppk", "**/*.age", "**/*.gpg", "**/*.asc", "**/id_rsa*", "**/id_dsa*", "**/id_ecdsa*",
    "**/id_ed25519*", "**/.ssh/**", "**/.gnupg/**", "**/.aws/**", "**/.azure/**", "**/.kube/**",
    "**/.docker/**", "**/.netrc*", "**/_netrc", "**/.npmrc", "**/.pypirc", "**/.pgpass*",
    "**/.my.cnf", "**/.git-credentials", "**/.htpasswd", "**/.vault-token", "**/credentials.json",
    "**/credentials.toml", "**/service-account*.json", "**/secrets.{json,yml,yaml,toml,env,ini,properties,txt}",
    "**/.terraformrc", "**/*.tfstate", "**/*.tfstate.*", "**/*.tfvars", "**/.dockercfg",
    "**/*.git/**", "**/*.tfvars.json", "**/kubeconfig*", "**/secret.{json,yml,yaml,toml}", "**/local.settings.json",
    "**/application_default_credentials.json", "**/client_secret*.json", "**/gha-creds-*.json", "**/.s3cfg",
    "**/.boto", "**/.databrickscfg", "**/.vault_pass*", "**/.config/gh/**", "**/rclone.conf", "**/.*_history",
    "**/.yarnrc.yml", "**/*.mobileprovision", "**/wp-config.php", "**/.cargo/credentials*",
];

/// What runs by itself, pins what others run, or tells tools and agents what to do.
#[rustfmt::skip]
const PROTECTED: &[&str] = &[
    // The repository's own, and what it runs.
    "**/.git", "**/.git/**", "**/.gitmodules", "**/.gitattributes", "**/.githooks/**", "hooks/**",
    "**/.husky/**", "**/.pre-commit-config.yaml", "**/lefthook.yml", "**/.lefthook.yml",
    "**/CODEOWNERS",
    // What builds and deploys.
    "**/.github/**", "**/.gitlab/**", "**/.gitlab-ci.yml", "**/.circleci/**", "**/.buildkite/**",
    "**/.travis.yml", "**/.drone.yml", "**/.woodpecker*", "**/.woodpecker/**", "**/.forgejo/**",
    "**/.gitea/**", "**/appveyor.yml", "**/.appveyor.yml", "**/azure-pipelines*.yml",
    "**/bitbucket-pipelines.yml", "**/Jenkinsfile*", "**/.ci/**", "**/cloudbuild.yaml",
    "**/buildspec.yml", "**/.cirrus.yml", "**/.teamcity/**", "**/.tekton/**",
    // What pins.
    "**/*.lock", "**/*.lockb", "**/*-lock.json", "**/*-lock.yaml", "**/npm-shrinkwrap.json",
    "**/go.sum", "**/gradle.lockfile", "**/packages.lock.json", "**/Package.resolved",
    // What shells, editors and tools read by themselves.
    "**/.*rc", "**/.*rc.*", "**/.profile", "**/.bash_*", "**/.zsh*", "**/.zprofile", "**/.login",
    "**/.logout", "**/.envrc", "**/.vscode/**", "**/.idea/**", "**/.devcontainer/**",
    "**/.devcontainer.json", "**/.editorconfig", "**/.cargo/config*", "**/.config/**",
    "**/rust-toolchain*", "**/.tool-versions", "**/mise.toml", "**/.mise.toml", "**/sitecustomize.py",
    "**/usercustomize.py", "**/*.pth", "**/assize.toml",
    // What tells agents what to do.
    "**/AGENTS.md", "**/CLAUDE.md", "**/GEMINI.md", "**/.claude/**", "**/.cursor/**",
    "**/.cursorrules", "**/.windsurfrules", "**/.clinerules*", "**/.mcp.json", "**/mcp.json",
    "**/.aider*", "**/.continue/**",
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn inside(path: &str) -> Inside {
        Inside::read(path, Path::new("/srv/repo")).unwrap()
    }

    #[test]
    fn secrets_are_hidden_unless_they_may_be_read() {
        let places = Policy::default().places().unwrap();
        for path in [
            ".env",
            "a/.env.local",
            "deploy/server.KEY",
            ".git/config",
            "x/.GIT/hooks/post-commit",
            "id_rsa",
        ] {
            assert!(places.is_hidden(&inside(path)), "{path}");
        }
        for path in [
            "src/environment.py",
            "keyboard.py",
            "env/x.py",
            "docs/secrets/readme.md",
            "src/secrets.rs",
        ] {
            assert!(!places.is_hidden(&inside(path)), "{path}");
        }
        let policy = Policy { readable: vec![".env.ci".to_owned()], ..Policy::default() };
        let places = policy.places().unwrap();
        assert!(!places.is_hidden(&inside(".env.ci")));
        assert!(places.is_hidden(&inside(".env")));
        let key = format!("-----BEGIN OPENSSH {} KEY-----\nb3BlbnNzaC1rZXktdjEAAAAA\n", "PRIVATE");
        assert!(places.is_key(&inside("notes.txt"), key.as_bytes()));
        assert!(places.is_key(&inside("notes.txt"), format!("my key:\n{key}").as_bytes()));
        assert!(!places.is_key(&inside("notes.txt"), format!("look for {key}").as_bytes()));
        assert!(!places.is_hidden(&inside(".env.example")));
    }

    #[test]
    fn people_look_after_what_runs_by_itself() {
        let policy = Policy { protected: vec!["infra/".to_owned()], ..Policy::default() };
        let places = policy.places().unwrap();
        for path in [
            ".github/workflows/ci.yml",
            "Cargo.lock",
            "ui/package-lock.json",
            "go.sum",
            ".bashrc",
            ".eslintrc.json",
            "Jenkinsfile",
            ".husky/pre-commit",
            "AGENTS.md",
            "infra/main.tf",
        ] {
            assert!(places.is_protected(&inside(path)), "{path}");
        }
        for path in ["src/lock.rs", "README.md", "src/rc.py", "Makefile", "src/hooks/useAuth.ts"] {
            assert!(!places.is_protected(&inside(path)), "{path}");
        }
    }

    #[test]
    fn a_contract_only_tightens() {
        let contract = |text: &str| Some(Contract::parse(text.as_bytes()).unwrap());
        let policy = Policy::default();
        let tighter = policy.under(contract(r#"{"version": 1, "limits": {"max_lines": 5}}"#));
        assert_eq!((tighter.max_lines, tighter.max_files), (5, 20));
        assert_ne!(tighter.fingerprint(), policy.fingerprint());
        let own = Policy { verify: vec![Verify::command("mine")], ..Policy::default() };
        let both = own.under(contract(r#"{"version": 1, "verify": {"command": "true"}}"#));
        let commands: Vec<&str> = both.verify.iter().map(|v| v.command.as_str()).collect();
        assert_eq!(commands, ["mine", "true"]);
        let looser = policy.under(contract(r#"{"version": 1, "limits": {"max_lines": 5000}}"#));
        assert_eq!(looser.max_lines, 500);
        let narrow = policy.under(contract(r#"{"version": 1, "allowed_paths": ["src/"]}"#));
        let places = narrow.places().unwrap();
        assert!(places.is_allowed(&inside("src/a")) && !places.is_allowed(&inside("SRC/a")));
        assert_eq!(policy.under(None), policy);
    }
}
