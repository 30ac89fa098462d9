//! Table of all settings: key, type, kind of value, default, and description for users.

use std::sync::LazyLock;
use std::time::Duration;

use assize_types::{Failure, Money};

use crate::choices::{LogFormat, LogLevel, Review, StoreDurability};
use crate::define::define_settings;
use crate::kind::SettingKind::{self, Decimal, Size, Whole};
use crate::load::SettingsOrigin;
use crate::provider::{Provider, ProviderName};
use crate::servers::ClusterServers;
use crate::setting::{Setting, SettingGuard};
use crate::value::SettingValue;
use crate::{ALLOWED_PACKAGES, RequestedIsolation};

define_settings! {
    /// Provider, model and parameters of model requests.
    general: GeneralSettings, "" {
        /// model provider; if not set, chosen by the API keys that are available
        Choice Provider provider: Option<ProviderName> = SettingKind::Choice(ProviderName::NAMES);
        /// model, overriding the provider's own `model` setting
        Choice Model model: Option<String> = SettingKind::Text;
        /// sampling temperature
        Open Temperature temperature: f64 = Decimal(0.0, 2.0), default "0.7";
        /// maximum length of an answer, in tokens
        Tighten MaxOutputTokens max_output_tokens: u32 = Whole(1, 1_000_000), default "4096";
    }

    /// Budget of a run.
    budget: BudgetSettings, "budget." {
        /// maximum cost of a run, in dollars
        Trusted BudgetMaxCost max_cost: Option<Money> = Decimal(0.0, 1e9);
        /// maximum number of tokens that a run may use, input and output together
        Trusted BudgetMaxTokens max_tokens: Option<u64> = Whole(1, u64::MAX);
    }

    /// Retries and timeouts of requests to providers.
    gateway: GatewaySettings, "gateway." {
        /// maximum number of retries of a failed call
        Tighten GatewayRetries retries: u32 = Whole(0, 20), default "3";
        /// timeout of one attempt of a call, in seconds; for a streamed answer, the maximum time without data
        Trusted GatewayTimeout timeout_seconds: Duration = Whole(1, 86_400), default "120";
        /// time limit of a call including its retries, in seconds; an answer that is still streaming is not cut off
        Tighten GatewayDeadline deadline_seconds: Duration = Whole(1, 864_000), default "600";
    }

    /// Where runs are stored.
    store: StoreSettings, "store." {
        /// database file of runs; if not set, `store.db` in your state folder
        Trusted StorePath path: Option<String> = SettingKind::Text;
        /// `process-crash`: stored results survive a crash of the process; `power-loss`: they also survive a power
        /// loss, but every step waits for the disk
        Trusted StoreDurability durability: StoreDurability = SettingKind::Choice(StoreDurability::NAMES), default "process-crash";
    }

    /// Sandboxes and their limits.
    sandbox: SandboxSettings, "sandbox." {
        /// isolation backend: jail, docker, microvm, at-least=NAME or auto
        Trusted SandboxIsolation isolation: RequestedIsolation = SettingKind::Isolation, default "auto";
        /// memory limit of a sandbox
        Tighten SandboxMemory memory: u64 = Size(16 << 20, 1 << 40), default "256M";
        /// CPU limit of a sandbox, in processors
        Tighten SandboxCpus cpus: f64 = Decimal(0.01, 1024.0), default "0.5";
        /// time limit of one execution, in seconds
        Tighten SandboxTimeout timeout_seconds: Duration = Decimal(0.001, 864_000.0), default "30";
        /// maximum number of processes and threads in a sandbox
        Tighten SandboxProcesses processes: u32 = Whole(2, 100_000), default "128";
        /// maximum size of the stored standard output, and of the stored standard error; the rest is discarded
        Tighten SandboxOutput output: u64 = Size(1 << 10, 1 << 40), default "8M";
        /// maximum total size of the files that programs in a sandbox can write
        Tighten SandboxDisk disk: u64 = Size(64 << 10, 1 << 40), default "64M";
        /// number of idle sandboxes in a warm pool
        Tighten SandboxPool pool: usize = Whole(0, 1000), default "5";
        /// seconds without requests after which a warm pool removes its idle sandboxes
        Tighten SandboxPoolIdle pool_idle_seconds: Duration = Whole(1, 864_000), default "300";
    }

    /// Connection to Docker or Podman.
    docker: DockerSettings, "docker." {
        /// socket or `tcp://…` address of Docker or Podman; if not set, their default sockets are tried
        Trusted DockerHost host: Option<String> = SettingKind::Text, variable "DOCKER_HOST";
    }

    /// Interpreters for the `jail` backend.
    interpreters: InterpreterSettings, "sandbox." {
        /// path of the Python interpreter for jails; if not set, the first one in PATH
        Trusted SandboxPython python: Option<String> = SettingKind::Text;
        /// path of Bash for jails; if not set, the first one in PATH
        Trusted SandboxBash bash: Option<String> = SettingKind::Text;
        /// path of Node.js for jails; if not set, the first one in PATH
        Trusted SandboxNode node: Option<String> = SettingKind::Text;
    }

    /// Python packages that generated programs may use.
    packages: PackageSettings, "packages." {
        /// packages that generated programs may use; `+NAME` adds NAME to the default list, `none` allows none
        Trusted PackagesAllow allow: String = SettingKind::Text, default ALLOWED_PACKAGES;
        /// folder of wheels to install packages from; if not set, the index that pip is configured with
        Trusted PackagesWheels wheels: Option<String> = SettingKind::Text;
        /// pip command that downloads packages, such as `/usr/bin/python3 -m pip`; if not set, pip of the jail's Python
        Trusted PackagesPip pip: Option<String> = SettingKind::Text;
    }

    /// Access to SEC filings (EDGAR).
    edgar: EdgarSettings, "edgar." {
        /// your name and email address, sent to the SEC with each request (required to download filings)
        Trusted EdgarContact contact: Option<String> = SettingKind::Text;
        /// base URL to use instead of the SEC's servers
        Trusted EdgarBaseUrl base_url: Option<String> = SettingKind::Url;
        /// folder of downloaded SEC files, to which you can add files; if not set, a folder in the cache folder
        Trusted EdgarFolder folder: Option<String> = SettingKind::Text;
    }

    /// Consultations and debates.
    consult: ConsultSettings, "consult." {
        /// memory limit of a debate's sandbox
        Tighten ConsultMemory memory: u64 = Size(16 << 20, 1 << 40), default "2048M";
        /// region of the workers that run debates (requires a cluster)
        Open ConsultRegion region: Option<String> = SettingKind::Text;
        /// estimated cost in dollars above which a consultation must be confirmed
        Trusted ConsultConfirmAbove confirm_above: Money = Decimal(0.0, 1e9), default "1";
    }

    /// Limits and review of drafts.
    draft: DraftSettings, "draft." {
        /// when a draft needs a reviewer's approval; `never` rejects drafts that the gate escalates
        Trusted DraftReview review: Review = SettingKind::Choice(Review::NAMES), default "escalated";
        /// maximum total of added and removed lines that a draft can have without a review
        Tighten DraftMaxLines max_lines: usize = Whole(1, 1_000_000), default "500";
        /// maximum number of files that a task can change without a review
        Tighten DraftMaxFiles max_files: usize = Whole(1, 10_000), default "20";
        /// maximum share of a file's lines that a draft can remove or replace without a review, from 0 to 1
        Tighten DraftMaxDeletion max_deletion: f64 = Decimal(0.0, 1.0), default "0.5";
        /// maximum size of a file that agents can read, and of the content of a draft
        Tighten DraftMaxBytes max_bytes: u64 = Size(1 << 10, 1 << 26), default "1M";
        /// files that agents may read although they look like secrets, such as `.env.example, certs/*.pem`
        Trusted DraftReadable readable: Vec<String> = SettingKind::Text;
        /// files whose changes always need a review, in addition to Git hooks, CI configuration, lock files and similar
        Trusted DraftProtected protected: Vec<String> = SettingKind::Text;
    }

    /// The server and the limits of API requests.
    serve: ServeSettings, "serve." {
        /// maximum number of runs, programs, sandboxes and estimates that all clients together can start per minute
        Trusted ServeStartsPerMinute starts_per_minute: u32 = Whole(1, 1_000_000), default "60";
        /// maximum number of runs and programs that the server executes at once
        Trusted ServeMaxRunning max_running: usize = Whole(1, 10_000), default "16";
        /// maximum memory limit that an API request can set if `sandbox.memory` is not set
        Trusted ServeMaxMemory max_memory: u64 = Size(16 << 20, 1 << 40), default "4G";
        /// maximum disk limit that an API request can set if `sandbox.disk` is not set
        Trusted ServeMaxDisk max_disk: u64 = Size(64 << 10, 1 << 40), default "4G";
        /// maximum time limit that an API request can set if `sandbox.timeout_seconds` is not set, in seconds
        Trusted ServeMaxTimeout max_timeout_seconds: Duration = Decimal(0.001, 864_000.0), default "3600";
        /// maximum size of the body of an HTTP request
        Trusted ServeMaxRequestSize max_request_size: usize = Size(1 << 10, 1 << 30), default "32M";
    }

    /// The cluster, and how a node authenticates to its NATS servers.
    cluster: ClusterSettings, "cluster." {
        /// NATS servers of the cluster, such as `nats://a,b,c`; if not set, everything runs on this machine
        Trusted ClusterServers servers: Option<ClusterServers> = SettingKind::Servers;
        /// name of the cluster on its NATS servers
        Trusted ClusterName name: String = SettingKind::Text, default "assize";
        /// number of NATS servers that store a copy of each message; if not set, 3 with three or more servers, else 1
        Trusted ClusterReplicas replicas: Option<usize> = Whole(1, 5);
        /// seconds without lease renewal after which a worker loses its jobs; must be the same on all nodes
        Trusted ClusterLease lease_seconds: Duration = Whole(2, 600), default "6";
        /// labels that a worker must have to run jobs that this machine queues, such as `disk=fast, site=north`
        Trusted ClusterRequireLabels require_labels: Option<String> = SettingKind::Text;
        /// file with NATS credentials
        Trusted ClusterCredentialsFile credentials_file: Option<String> = SettingKind::Text;
        /// NATS user name
        Trusted ClusterUser user: Option<String> = SettingKind::Text;
        /// name of the environment variable that contains the NATS password
        Trusted ClusterPasswordEnv password_env: String = SettingKind::Variable, default "NATS_PASSWORD";
        /// name of the environment variable that contains a NATS token, used instead of user and password
        Trusted ClusterTokenEnv token_env: String = SettingKind::Variable, default "NATS_TOKEN";
        /// PEM file of the CA certificates that verify the NATS servers
        Trusted ClusterCaFile ca_file: Option<String> = SettingKind::Text;
        /// PEM file of the client certificate for NATS
        Trusted ClusterCertFile cert_file: Option<String> = SettingKind::Text;
        /// PEM file of the private key of the client certificate for NATS
        Trusted ClusterCertKeyFile cert_key_file: Option<String> = SettingKind::Text;
    }

    /// How long applied drafts can be undone.
    undo: UndoSettings, "draft." {
        /// number of days for which applied drafts can be undone
        Trusted DraftKeepDays keep_days: u64 = Whole(1, 36_500), default "30";
    }

    /// Verification of drafts with a command of the project.
    verification: VerificationSettings, "draft." {
        /// command that must succeed in a sandbox before a draft is accepted
        Trusted DraftVerify verify: Option<String> = SettingKind::Text;
        /// memory limit of the verification command
        Tighten DraftVerifyMemory verify_memory: u64 = Size(16 << 20, 1 << 40), default "2G";
        /// time limit of the verification command, in seconds
        Tighten DraftVerifySeconds verify_seconds: u64 = Whole(1, 86_400), default "600";
        /// Python virtual environment of the verification command, such as `.venv`; if not set, the active one
        Trusted DraftVerifyPython verify_python: Option<String> = SettingKind::Text;
        /// folders of this machine that the verification command can read, such as a toolchain
        Trusted DraftVerifyLayers verify_layers: Vec<String> = SettingKind::Text;
    }

    /// Behaviour of the rehearsal model.
    rehearsal: RehearsalSettings, "rehearsal." {
        /// random seed of the rehearsal model's answers
        Open RehearsalSeed seed: u64 = Whole(0, u64::MAX), default "0";
        /// simulated latency of the rehearsal model's answers, in milliseconds
        Open RehearsalLatency latency_ms: u64 = Whole(0, 600_000), default "0";
        /// share of requests to the rehearsal model that fail, from 0 to 1
        Open RehearsalFaultRate fault_rate: f64 = Decimal(0.0, 1.0), default "0";
    }

    /// Level and format of the log.
    log: LogSettings, "log." {
        /// log level; `trace` also logs prompts
        Trusted LogLevel level: LogLevel = SettingKind::Choice(LogLevel::NAMES), default "warn";
        /// output format of the log
        Open LogFormat format: LogFormat = SettingKind::Choice(LogFormat::NAMES), default "text";
    }

    each provider {
        /// model to use with this provider
        Choice ProviderModel model: String = SettingKind::Text, default provider.default_model();
        /// base URL of the provider's API
        Trusted ProviderBaseUrl base_url: String = SettingKind::Url, default provider.default_base_url(),
            variable provider.base_url_variable();
        /// name of the environment variable that contains the API key
        Trusted ProviderKeyEnv key_env: String = SettingKind::Variable, default provider.key_variable();
        /// context window of the model in tokens; by default from the model catalog or the local server
        Open ProviderContextWindow context_window: Option<u64> = Whole(1024, 100_000_000);
        /// maximum number of concurrent calls; default for a local server: the number that it supports (Ollama: 1)
        Tighten ProviderConcurrency concurrency: usize = Whole(1, 10_000), default "16";
        /// maximum number of calls per minute
        Tighten ProviderRequestsPerMinute requests_per_minute: Option<u64> = Whole(1, u64::MAX);
        /// maximum number of tokens per minute
        Tighten ProviderTokensPerMinute tokens_per_minute: Option<u64> = Whole(1, u64::MAX);
    }
}
