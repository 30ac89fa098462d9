//! Arguments of `assize sandbox`, `attack` and `image`, and the sandbox flags that other commands share.

use std::path::PathBuf;

use assize_config::SettingKey;
use clap::{Args, Subcommand};

use super::{FlagSetting, pair, settings_from_flags, time_to_live};

/// Flags shared by all commands that create a sandbox.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Sandbox")]
pub(crate) struct SandboxArgs {
    /// Select the isolation: jail, docker, microvm, at-least=NAME or auto
    ///
    /// `auto` selects the best isolation that is available for the command. `at-least=NAME` selects NAME or a stronger
    /// isolation.
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,

    /// Use the files of this image (not for a jail, which uses this machine's files)
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: Option<String>,

    /// Limit the time of one execution, in seconds [default: 30]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) timeout: Option<String>,

    /// Limit the memory of the sandbox [default: 256M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,

    /// Limit the CPU use of the sandbox, in processors [default: 0.5]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) cpus: Option<String>,

    /// Limit the number of processes and threads [default: 128]
    #[arg(long, value_name = "NUMBER")]
    pub(crate) processes: Option<String>,

    /// Limit the size of standard output, and of standard error [default: 8M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) output: Option<String>,

    /// Limit the size of written files, which are stored in memory [default: 64M]
    #[arg(long, value_name = "SIZE")]
    pub(crate) disk: Option<String>,
}

impl SandboxArgs {
    /// Returns the settings that were given as flags.
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        settings_from_flags([
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
    /// Create a sandbox, unless a sandbox of that name exists
    Create(Box<CreateArgs>),
    /// List all your sandboxes, also those that other processes created
    #[command(visible_alias = "list")]
    Ls {
        /// List only sandboxes with this label; can be repeated
        #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
        labels: Vec<(String, String)>,
        /// Print the list as JSON
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
        /// Run the program in this folder of the sandbox [default: /workspace]
        #[arg(long, value_name = "FOLDER")]
        cwd: Option<String>,
        /// Set an environment variable of the program; can be repeated
        #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
        env: Vec<(String, String)>,
        /// Limit the time of the program, in seconds; at most the limit of the sandbox
        #[arg(long, value_name = "SECONDS")]
        timeout: Option<f64>,
        /// Do not replace terminal control codes in the program's output
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
    /// Remove sandboxes, and stop the programs in them
    Rm {
        #[command(flatten)]
        run: RunFlag,
        /// Names of the sandboxes
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Create a sandbox and keep it running (background process of `create`)
    #[command(hide = true)]
    Hold(Box<CreateArgs>),
}

#[derive(Debug, Args)]
pub(crate) struct RunFlag {
    /// Use a sandbox of this run instead of one created with `assize sandbox create`
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
    /// Name of the sandbox: lower-case letters, digits and `-`
    pub(crate) name: String,

    /// Attach a label to the sandbox; can be repeated
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) labels: Vec<(String, String)>,

    /// Remove the sandbox after this time, such as 30m or 2h
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = time_to_live)]
    pub(crate) ttl: std::time::Duration,

    /// Prefer this region for the sandbox, in a deployment with several regions
    #[arg(long, value_name = "NAME")]
    pub(crate) region: Option<String>,

    #[command(flatten)]
    pub(crate) sandbox: SandboxArgs,
}

#[derive(Debug, Args)]
pub(crate) struct AttackArgs {
    /// Attack the gate with labelled test cases, instead of attacking the sandboxes
    #[arg(long)]
    pub(crate) gate: bool,

    /// Attack this isolation: jail, docker, microvm or at-least=NAME [default: all]
    ///
    /// With `--gate`, this is the isolation of the sandbox in which the project's tests run.
    #[arg(long, value_name = "NAME")]
    pub(crate) isolation: Option<String>,

    /// Run only probes or test cases whose names contain this text, such as `network/`
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,

    /// Show the result of every probe or test case, not only of failures
    #[arg(long, short)]
    pub(crate) verbose: bool,

    /// Print all probes or test cases with their outcomes as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl AttackArgs {
    /// Returns the settings that were given as flags. `--isolation` sets `sandbox.isolation` only with `--gate`.
    /// Without `--gate`, `--isolation` selects the backends that the probes attack.
    pub(crate) fn settings(&self) -> Vec<FlagSetting> {
        let isolation = self.isolation.clone().filter(|_| self.gate);
        settings_from_flags([(SettingKey::SandboxIsolation, "--isolation", &isolation)])
    }
}

/// Kind of sandbox that an image is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ImageKind {
    /// Image for containers (Docker or Podman)
    Docker,
    /// Image for microVMs
    Microvm,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Build an image for containers or microVMs: a small Debian system with Python
    Build {
        /// Kind of the image
        #[arg(value_enum, default_value_t = ImageKind::Docker, value_name = "KIND")]
        kind: ImageKind,
        /// For containers: build on this image, which Docker or Podman must already have
        #[arg(long, value_name = "IMAGE", conflicts_with_all = ["kernel", "modules", "rootfs"])]
        from: Option<String>,
        /// For microVMs: use this kernel instead of Debian's
        #[arg(long, value_name = "FILE")]
        kernel: Option<PathBuf>,
        /// For microVMs: use the kernel modules in this folder with the given kernel
        ///
        /// The folder is not needed if all required drivers are built into the kernel.
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
        /// Print the list as JSON
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

impl ImageCommand {
    /// Command that builds an image from Debian packages.
    pub(crate) fn build(kind: ImageKind) -> ImageCommand {
        ImageCommand::Build {
            kind,
            from: None,
            kernel: None,
            modules: None,
            rootfs: None,
            quiet: false,
        }
    }
}
