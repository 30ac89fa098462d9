//! Arguments of `assize sandbox`, `attack` and `image`, and the sandbox flags that other commands share.

use std::path::PathBuf;

use assize_config::SettingKey;
use clap::{Args, Subcommand};

use super::{FlagSetting, given, pair, time_to_live};

/// Flags of every command that creates a sandbox.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Sandbox")]
pub(crate) struct SandboxArgs {
    /// Isolation: jail, docker, microvm, at-least=NAME, or auto (best available for the command)
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,

    /// Image with the sandbox's files; not for a jail, which uses the files of this machine
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,

    /// Time limit, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<String>,

    /// Memory limit [default: 256M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,

    /// CPU limit, in processors [default: 0.5]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cpus: Option<String>,

    /// Maximum number of processes and threads [default: 128]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) processes: Option<String>,

    /// Maximum size of standard output and of standard error; the rest is cut [default: 8M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) output: Option<String>,

    /// Maximum size of written files, which are kept in memory [default: 64M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<String>,
}

impl SandboxArgs {
    /// Settings given by these flags.
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        given([
            (SettingKey::SandboxIsolation, "--isolation", &self.isolation),
            (SettingKey::SandboxTimeout, "--timeout", &self.timeout),
            (SettingKey::SandboxMemory, "--memory", &self.memory),
            (SettingKey::SandboxCpus, "--cpus", &self.cpus),
            (SettingKey::SandboxProcesses, "--processes", &self.processes),
            (SettingKey::SandboxOutput, "--output", &self.output),
            (SettingKey::SandboxDisk, "--disk", &self.disk),
        ])
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// Create a sandbox, unless one of that name exists
    Create(Box<CreateArgs>),
    /// List your sandboxes, whichever process created them
    #[command(visible_alias = "list")]
    Ls {
        /// Only sandboxes with this label; can be repeated
        #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a program in a sandbox
    Exec {
        #[command(flatten)]
        run: RunFlag,
        /// Name of the sandbox
        name: String,
        /// Program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<String>,
        /// Working folder of the program [default: /workspace]
        #[arg(long, value_name = "FOLDER")]
        cwd: Option<String>,
        /// Set an environment variable of the program; can be repeated
        #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
        env: Vec<(String, String)>,
        /// Time limit, in seconds; at most that of the sandbox
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<f64>,
        /// Pass terminal control codes of the output through
        #[arg(long)]
        raw: bool,
    },
    /// Copy a file or folder into or out of a sandbox
    Cp {
        #[command(flatten)]
        run: RunFlag,
        /// Source: PATH or SANDBOX:PATH
        from: String,
        /// Destination: PATH or SANDBOX:PATH
        to: String,
    },
    /// Remove sandboxes and stop the programs in them
    Rm {
        #[command(flatten)]
        run: RunFlag,
        /// Names of the sandboxes
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Create a sandbox and keep it alive (started by `create`)
    #[command(hide = true)]
    Hold(Box<CreateArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct RunFlag {
    /// Use the sandboxes of this run instead of those created with `assize sandbox create`
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
}

impl RunFlag {
    pub(crate) fn id(&self) -> Option<&str> {
        self.run.as_deref()
    }
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Name: lower-case letters, digits and `-`
    pub(crate) name: String,

    /// Attach a label; can be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) labels: Vec<(String, String)>,

    /// Time to live, such as 30m or 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time_to_live)]
    pub(crate) ttl: std::time::Duration,

    /// Preferred region, for a deployment with several
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AttackArgs {
    /// Attack the gate with its labelled corpora instead of the sandboxes
    #[arg(long)]
    pub(crate) gate: bool,

    /// Isolation to attack: jail, docker, microvm or at-least=NAME [default: all available]
    ///
    /// With `--gate`: isolation in which the project's tests run.
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,

    /// Only probes or cases whose names contain this, such as `network/` or `secrets/`
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// Show every probe or case, not only failures
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Print every probe or case with its outcome and its control as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl AttackArgs {
    /// Settings given by these flags. Probes attack every matching backend, so only `--gate` sets `sandbox.isolation`.
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        let isolation = self.isolation.clone().filter(|_| self.gate);
        given([(SettingKey::SandboxIsolation, "--isolation", &isolation)])
    }
}

/// Kind of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ImageKind {
    /// For containers (Docker or Podman)
    Docker,
    /// For microVMs
    Microvm,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Build an image for containers or microVMs: a small Debian with Python, from packages
    Build {
        /// Kind of the image
        #[arg(value_enum, default_value_t = ImageKind::Docker, value_name = "KIND")]
        kind: ImageKind,
        /// For containers: derive the image from this one, which the engine must already have
        #[arg(long, value_name = "IMAGE", conflicts_with_all = ["kernel", "modules", "rootfs"])]
        from: Option<String>,
        /// For microVMs: use this kernel instead of Debian's
        #[arg(long, value_name = "FILE")]
        kernel: Option<PathBuf>,
        /// Folder of that kernel's modules, unless all needed drivers are built in
        #[arg(long, value_name = "FOLDER", requires = "kernel")]
        modules: Option<PathBuf>,
        /// For microVMs: use this root file system (a tar archive) instead of Debian's
        #[arg(long, value_name = "TAR")]
        rootfs: Option<PathBuf>,
        /// Suppress progress output
        #[arg(long, short)]
        quiet: bool,
    },
    /// List the images that assize built
    Ls {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove images that assize built
    Rm {
        /// Names of the images
        #[arg(required = true, value_name = "IMAGE")]
        names: Vec<String>,
    },
}
