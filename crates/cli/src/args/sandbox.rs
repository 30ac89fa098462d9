//! Sandboxes: what can be typed.

use std::path::PathBuf;

use assize_config::SettingKey;
use clap::{Args, Subcommand};

use super::{FlagSetting, given, pair, time_to_live};

/// The flags of every command that makes a sandbox.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Sandbox")]
pub(crate) struct SandboxArgs {
    /// jail, docker, microvm, at-least=NAME, or auto (the best there is for this, said aloud)
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,

    /// The image whose files are seen; not for a jail, which sees this machine's own
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,

    /// How long it may run, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<String>,

    /// Memory, such as 256M [default: 256M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,

    /// Processors, such as 0.5 [default: 0.5]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cpus: Option<String>,

    /// Processes and threads [default: 128]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) processes: Option<String>,

    /// What is kept of each of standard output and standard error [default: 8M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) output: Option<String>,

    /// Files that it can write, which are kept in memory [default: 64M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<String>,
}

impl SandboxArgs {
    /// The flags as settings: key, flag, value.
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
    /// Make a sandbox, if there is none of that name
    Create(Box<CreateArgs>),
    /// List your sandboxes, whichever process made them
    #[command(visible_alias = "list")]
    Ls {
        /// Only those with this label; can be repeated
        #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Run a program in a sandbox
    Exec {
        #[command(flatten)]
        run: OfRun,
        /// The sandbox
        name: String,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        program: Vec<String>,
        /// The folder that it starts in [default: /workspace]
        #[arg(long, value_name = "FOLDER")]
        cwd: Option<String>,
        /// Set a variable of its environment; can be repeated
        #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
        env: Vec<(String, String)>,
        /// How long it may run, in seconds; never longer than the sandbox allows
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<f64>,
        /// Let its output drive the terminal
        #[arg(long)]
        raw: bool,
    },
    /// Copy a file or folder into a sandbox or out of it
    Cp {
        #[command(flatten)]
        run: OfRun,
        /// PATH, or SANDBOX:PATH
        from: String,
        /// PATH, or SANDBOX:PATH
        to: String,
    },
    /// Remove sandboxes, with all that runs in them
    Rm {
        #[command(flatten)]
        run: OfRun,
        /// Their names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Hold a sandbox that `create` asked for
    #[command(hide = true)]
    Hold(Box<CreateArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct OfRun {
    /// Sandboxes of this run, instead of those that were made by hand
    #[arg(long, value_name = "ID")]
    pub(crate) run: Option<String>,
}

impl OfRun {
    pub(crate) fn id(&self) -> Option<&str> {
        self.run.as_deref()
    }
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Its name: lower-case letters, digits and `-`
    pub(crate) name: String,

    /// Say something about it; can be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) labels: Vec<(String, String)>,

    /// How long it lives, such as 30m or 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time_to_live)]
    pub(crate) ttl: std::time::Duration,

    /// Where it should be, for those who have more than one place
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AttackArgs {
    /// Try the gate of drafts with its labelled corpora, in place of sandboxes
    #[arg(long)]
    pub(crate) gate: bool,

    /// jail, docker, microvm or at-least=NAME; all that can be made here if not said. With `--gate`, where the project's
    /// tests run
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,

    /// Only probes or cases with this in their names, such as `network/` or `secrets/`
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// Show every probe or case, not only those that got out
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Print every probe or case with its outcome and its control as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

impl AttackArgs {
    /// The flags as settings: key, flag, value. Probes go through all sandboxes that are named; the gate uses the one
    /// that the settings choose.
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        let isolation = self.isolation.clone().filter(|_| self.gate);
        given([(SettingKey::SandboxIsolation, "--isolation", &isolation)])
    }
}

/// What an image is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ImageFor {
    /// Containers, by Docker or Podman
    Docker,
    /// Machines of their own
    Microvm,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Make the image that containers are made from, or machines: a small Debian with Python, from packages
    /// alone
    Build {
        /// What is to be made from it
        #[arg(value_enum, default_value_t = ImageFor::Docker, value_name = "KIND")]
        kind: ImageFor,
        /// For containers: make one of this image instead, which the engine must have already
        #[arg(long, value_name = "IMAGE", conflicts_with_all = ["kernel", "modules", "rootfs"])]
        from: Option<String>,
        /// For machines: this kernel instead of Debian's
        #[arg(long, value_name = "FILE")]
        kernel: Option<PathBuf>,
        /// The folder of that kernel's modules, unless all that a machine needs is part of it
        #[arg(long, value_name = "FOLDER", requires = "kernel")]
        modules: Option<PathBuf>,
        /// For machines: this root file system instead of Debian's, as `tar` archives it
        #[arg(long, value_name = "TAR")]
        rootfs: Option<PathBuf>,
        /// Say nothing of how it goes
        #[arg(long, short)]
        quiet: bool,
    },
    /// List the images that assize made
    Ls {
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove images that assize made
    Rm {
        /// Their names
        #[arg(required = true, value_name = "IMAGE")]
        names: Vec<String>,
    },
}
