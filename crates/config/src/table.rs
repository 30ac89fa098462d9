//! Table of all settings.

use std::sync::LazyLock;
use std::time::Duration;

use assize_types::{Failure, Money};

use crate::define::define_settings;
use crate::kind::SettingKind::{self, Decimal, Size, Whole};
use crate::load::SettingsOrigin;
use crate::provider::{Provider, ProviderName};
use crate::servers::ClusterServers;
use crate::setting::{Setting, SettingGuard};
use crate::value::SettingValue;
use crate::values::{LogFormat, LogLevel, Review, StoreDurability};
use crate::{ALLOWED_PACKAGES, RequestedIsolation};

define_settings! {
    /// Provider, model and parameters of requests.
    general: GeneralSettings, "" {
        /// model provider; chosen by the available API keys if not set
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
        /// maximum number of tokens of a run
        Trusted BudgetMaxTokens max_tokens: Option<u64> = Whole(1, u64::MAX);
    }

    /// Requests to providers.
    gateway: GatewaySettings, "gateway." {
        /// maximum number of retries of a failed call
        Tighten GatewayRetries retries: u32 = Whole(0, 20), default "3";
        /// timeout of one attempt; for a streamed answer, maximum time without data
        Trusted GatewayTimeout timeout_seconds: Duration = Whole(1, 86_400), default "120";
        /// time limit of a call, retries included; an answer that is still streaming is not cut off
        Tighten GatewayDeadline deadline_seconds: Duration = Whole(1, 864_000), default "600";
    }

    /// Where runs are stored.
    store: StoreSettings, "store." {
        /// database file of runs; `store.db` in your state folder if not set
        Trusted StorePath path: Option<String> = SettingKind::Text;
        /// what a finished call survives: a crash or kill of assize; or a power loss as well, which
        /// waits for the disk at every step
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
        /// bytes kept of standard output, and of standard error
        Tighten SandboxOutput output: u64 = Size(1 << 10, 1 << 40), default "8M";
        /// bytes that code can write to files
        Tighten SandboxDisk disk: u64 = Size(64 << 10, 1 << 40), default "64M";
        /// idle sandboxes that a warm pool keeps
        Tighten SandboxPool pool: usize = Whole(0, 1000), default "5";
        /// seconds without requests after which a warm pool ends its idle sandboxes
        Tighten SandboxPoolIdle pool_idle_seconds: Duration = Whole(1, 864_000), default "300";
    }

    /// Docker or Podman.
    docker: DockerSettings, "docker." {
        /// socket of Docker or Podman, or `tcp://…`; the usual sockets if not set
        Trusted DockerHost host: Option<String> = SettingKind::Text, variable "DOCKER_HOST";
    }

    /// Interpreters for the `jail` backend.
    interpreters: InterpreterSettings, "sandbox." {
        /// Python interpreter for jails; the first in PATH if not set
        Trusted SandboxPython python: Option<String> = SettingKind::Text;
        /// Bash for jails; the first in PATH if not set
        Trusted SandboxBash bash: Option<String> = SettingKind::Text;
        /// Node.js for jails; the first in PATH if not set
        Trusted SandboxNode node: Option<String> = SettingKind::Text;
    }

    /// Python packages of generated programs.
    packages: PackageSettings, "packages." {
        /// packages that generated programs may use; `+NAME` adds to the default list, `none` allows none
        Trusted PackagesAllow allow: String = SettingKind::Text, default ALLOWED_PACKAGES;
        /// folder of wheels to install packages from; pip's configured index if not set
        Trusted PackagesWheels wheels: Option<String> = SettingKind::Text;
        /// pip command that downloads packages, such as `/usr/bin/python3 -m pip`; pip of the jail's Python if not set
        Trusted PackagesPip pip: Option<String> = SettingKind::Text;
    }

    /// SEC filings (EDGAR).
    edgar: EdgarSettings, "edgar." {
        /// name and email sent to the SEC (required for --source edgar over the network)
        Trusted EdgarContact contact: Option<String> = SettingKind::Text;
        /// base URL to use instead of the SEC's servers
        Trusted EdgarBaseUrl base_url: Option<String> = SettingKind::Url;
        /// folder of downloaded or hand-placed SEC files; the cache folder if not set
        Trusted EdgarFolder folder: Option<String> = SettingKind::Text;
    }

    /// Consultations and debates.
    consult: ConsultSettings, "consult." {
        /// memory limit of a debate's sandbox
        Tighten ConsultMemory memory: u64 = Size(16 << 20, 1 << 40), default "2048M";
        /// region of the workers that run debates (needs a cluster)
        Open ConsultRegion region: Option<String> = SettingKind::Text;
        /// cost in dollars above which a consultation asks for confirmation
        Trusted ConsultConfirmAbove confirm_above: Money = Decimal(0.0, 1e9), default "1";
    }

    /// Limits and review of drafts.
    draft: DraftSettings, "draft." {
        /// when a draft needs a reviewer's approval; `never` rejects drafts that the gate escalates
        Trusted DraftReview review: Review = SettingKind::Choice(Review::NAMES), default "escalated";
        /// lines that a draft can add and remove in all before it needs a review
        Tighten DraftMaxLines max_lines: usize = Whole(1, 1_000_000), default "500";
        /// files that a task can change before it needs a review
        Tighten DraftMaxFiles max_files: usize = Whole(1, 10_000), default "20";
        /// share of a file's lines that a draft can remove or replace before it needs a review, from 0 to 1
        Tighten DraftMaxDeletion max_deletion: f64 = Decimal(0.0, 1.0), default "0.5";
        /// maximum size of a file and of a draft
        Tighten DraftMaxBytes max_bytes: u64 = Size(1 << 10, 1 << 26), default "1M";
        /// files that agents may read although they look like secrets, such as `.env.example, certs/*.pem`
        Trusted DraftReadable readable: Vec<String> = SettingKind::Text;
        /// files whose changes always need a reviewer, besides hooks, CI, lock files and the like
        Trusted DraftProtected protected: Vec<String> = SettingKind::Text;
    }

    /// The server and the limits of API requests.
    serve: ServeSettings, "serve." {
        /// runs, programs and sandboxes that clients can start per minute
        Trusted ServeStartsPerMinute starts_per_minute: u32 = Whole(1, 1_000_000), default "60";
        /// maximum number of runs and programs that the server executes at once
        Trusted ServeMaxRunning max_running: usize = Whole(1, 10_000), default "16";
        /// maximum memory that a request can ask for if `sandbox.memory` is not set
        Trusted ServeMaxMemory max_memory: u64 = Size(16 << 20, 1 << 40), default "4G";
        /// maximum disk space that a request can ask for if `sandbox.disk` is not set
        Trusted ServeMaxDisk max_disk: u64 = Size(64 << 10, 1 << 40), default "4G";
        /// maximum time limit that a request can ask for if `sandbox.timeout_seconds` is not set
        Trusted ServeMaxTimeout max_timeout_seconds: Duration = Decimal(0.001, 864_000.0), default "3600";
        /// maximum size of a request
        Trusted ServeMaxRequestSize max_request_size: usize = Size(1 << 10, 1 << 30), default "32M";
    }

    /// The cluster, and how a node authenticates to its NATS servers.
    cluster: ClusterSettings, "cluster." {
        /// NATS servers of the cluster, such as `nats://a,b,c`; without them everything runs on this
        /// machine
        Trusted ClusterServers servers: Option<ClusterServers> = SettingKind::Servers;
        /// name of the cluster on its NATS servers
        Trusted ClusterName name: String = SettingKind::Text, default "assize";
        /// number of servers that store each item; 3 if three or more servers are named, else 1
        Trusted ClusterReplicas replicas: Option<usize> = Whole(1, 5);
        /// seconds without lease renewal after which a worker loses its jobs; the same on all nodes
        Trusted ClusterLease lease_seconds: Duration = Whole(2, 600), default "6";
        /// labels required of a worker to run jobs from here, such as `disk=fast, site=north`
        Trusted ClusterRequireLabels require_labels: Option<String> = SettingKind::Text;
        /// file of NATS credentials
        Trusted ClusterCredentialsFile credentials_file: Option<String> = SettingKind::Text;
        /// NATS user name
        Trusted ClusterUser user: Option<String> = SettingKind::Text;
        /// environment variable with the NATS password
        Trusted ClusterPasswordEnv password_env: String = SettingKind::Variable, default "NATS_PASSWORD";
        /// environment variable with a NATS token, instead of user and password
        Trusted ClusterTokenEnv token_env: String = SettingKind::Variable, default "NATS_TOKEN";
        /// CA certificates that the NATS servers are verified with, in PEM
        Trusted ClusterCaFile ca_file: Option<String> = SettingKind::Text;
        /// client certificate for NATS, in PEM
        Trusted ClusterCertFile cert_file: Option<String> = SettingKind::Text;
        /// private key of the client certificate, in PEM
        Trusted ClusterCertKeyFile cert_key_file: Option<String> = SettingKind::Text;
    }

    /// Undo of applied drafts.
    undo: UndoSettings, "draft." {
        /// days for which applied drafts can be undone
        Trusted DraftKeepDays keep_days: u64 = Whole(1, 36_500), default "30";
    }

    /// Verification of drafts.
    verification: VerificationSettings, "draft." {
        /// command that must succeed in a sandbox before a draft is accepted
        Trusted DraftVerify verify: Option<String> = SettingKind::Text;
        /// maximum memory for the verification
        Tighten DraftVerifyMemory verify_memory: u64 = Size(16 << 20, 1 << 40), default "2G";
        /// maximum time for the verification, in seconds
        Tighten DraftVerifySeconds verify_seconds: u64 = Whole(1, 86_400), default "600";
        /// virtual environment for the verification, such as .venv (default: the active one)
        Trusted DraftVerifyPython verify_python: Option<String> = SettingKind::Text;
        /// folders of this machine that the verification can read, such as a toolchain
        Trusted DraftVerifyLayers verify_layers: Vec<String> = SettingKind::Text;
    }

    /// The rehearsal model.
    rehearsal: RehearsalSettings, "rehearsal." {
        /// seed of the generated answers
        Open RehearsalSeed seed: u64 = Whole(0, u64::MAX), default "0";
        /// latency of an answer, in milliseconds
        Open RehearsalLatency latency_ms: u64 = Whole(0, 600_000), default "0";
        /// share of attempts that fail, from 0 to 1
        Open RehearsalFaultRate fault_rate: f64 = Decimal(0.0, 1.0), default "0";
    }

    /// The log.
    log: LogSettings, "log." {
        /// log level; `trace` includes prompts
        Trusted LogLevel level: LogLevel = SettingKind::Choice(LogLevel::NAMES), default "warn";
        /// log format
        Open LogFormat format: LogFormat = SettingKind::Choice(LogFormat::NAMES), default "text";
    }

    each provider {
        /// model of this provider
        Choice ProviderModel model: String = SettingKind::Text, default provider.default_model();
        /// base URL of the API
        Trusted ProviderBaseUrl base_url: String = SettingKind::Url, default provider.default_base_url(),
            variable provider.base_url_variable();
        /// environment variable with the API key
        Trusted ProviderKeyEnv key_env: String = SettingKind::Variable, default provider.key_variable();
        /// context window in tokens; by default from the model catalog or the local server
        Open ProviderContextWindow context_window: Option<u64> = Whole(1024, 100_000_000);
        /// maximum concurrent calls; by default, what a local server offers (Ollama: 1)
        Tighten ProviderConcurrency concurrency: usize = Whole(1, 10_000), default "16";
        /// maximum calls per minute
        Tighten ProviderRequestsPerMinute requests_per_minute: Option<u64> = Whole(1, u64::MAX);
        /// maximum tokens per minute
        Tighten ProviderTokensPerMinute tokens_per_minute: Option<u64> = Whole(1, u64::MAX);
    }
}
