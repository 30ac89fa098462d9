//! Table of all settings.

use std::sync::LazyLock;
use std::time::Duration;

use assize_types::{Failure, Money};

use crate::define::define_settings;
use crate::kind::Kind::{self, Decimal, Size, Whole};
use crate::load::Origin;
use crate::provider::{Provider, ProviderName};
use crate::servers::Address;
use crate::setting::{Guard, Setting};
use crate::value::Value;
use crate::values::{Durability, LogFormat, LogLevel, Review};
use crate::{ALLOWED_PACKAGES, Wanted};

define_settings! {
    /// Provider, model and their requests.
    general: GeneralSettings, "" {
        /// who is asked; chosen by the keys at hand if not set
        Choice Provider provider: Option<ProviderName> = Kind::Choice(ProviderName::NAMES);
        /// the model of the provider that is used
        Choice Model model: Option<String> = Kind::Text;
        /// how freely a model answers
        Open Temperature temperature: f64 = Decimal(0.0, 2.0), default "0.7";
        /// the longest answer
        Tighten MaxOutputTokens max_output_tokens: u32 = Whole(1, 1_000_000), default "4096";
    }

    /// What a run may spend.
    budget: BudgetSettings, "budget." {
        /// the most dollars a run may cost
        Trusted BudgetMaxCost max_cost: Option<Money> = Decimal(0.0, 1e9);
        /// the most tokens a run may take
        Trusted BudgetMaxTokens max_tokens: Option<u64> = Whole(1, u64::MAX);
    }

    /// Requests to providers.
    gateway: GatewaySettings, "gateway." {
        /// how often a failed call is repeated
        Tighten GatewayRetries retries: u32 = Whole(0, 20), default "3";
        /// how long one attempt may take; of a stream, how long it may be silent
        Trusted GatewayTimeout timeout_seconds: Duration = Whole(1, 86_400), default "120";
        /// how long a call may take, repetitions included; an answer still coming in is not ended
        Tighten GatewayDeadline deadline_seconds: Duration = Whole(1, 864_000), default "600";
    }

    /// Where runs are stored.
    store: StoreSettings, "store." {
        /// the file that keeps runs; `store.db` in your state folder if not set
        Trusted StorePath path: Option<String> = Kind::Text;
        /// what a finished call survives: a crash or kill of assize; or a power cut, too, which
        /// waits for the disk at every step
        Trusted StoreDurability durability: Durability = Kind::Choice(Durability::NAMES), default "process-crash";
    }

    /// Sandboxes and their limits.
    sandbox: SandboxSettings, "sandbox." {
        /// the walls around code: jail, docker, microvm, at-least=NAME or auto
        Trusted SandboxIsolation isolation: Wanted = Kind::Isolation, default "auto";
        /// memory of a sandbox
        Tighten SandboxMemory memory: u64 = Size(16 << 20, 1 << 40), default "256M";
        /// processors of a sandbox
        Tighten SandboxCpus cpus: f64 = Decimal(0.01, 1024.0), default "0.5";
        /// how long code may run
        Tighten SandboxTimeout timeout_seconds: Duration = Decimal(0.001, 864_000.0), default "30";
        /// processes and threads of a sandbox
        Tighten SandboxProcesses processes: u32 = Whole(2, 100_000), default "128";
        /// what is kept of each output
        Tighten SandboxOutput output: u64 = Size(1 << 10, 1 << 40), default "8M";
        /// files that code can write
        Tighten SandboxDisk disk: u64 = Size(64 << 10, 1 << 40), default "64M";
        /// idle sandboxes that a warm pool keeps
        Tighten SandboxPool pool: usize = Whole(0, 1000), default "5";
        /// a warm pool without requests for so long ends its idle sandboxes
        Tighten SandboxPoolIdle pool_idle_seconds: Duration = Whole(1, 864_000), default "300";
    }

    /// Docker or Podman.
    docker: DockerSettings, "docker." {
        /// the socket of Docker or Podman, or `tcp://…`; the usual ones if not set
        Trusted DockerHost host: Option<String> = Kind::Text, variable "DOCKER_HOST";
    }

    /// Interpreters that a jail uses.
    interpreters: InterpreterSettings, "sandbox." {
        /// the Python of a jail; the first in PATH if not set
        Trusted SandboxPython python: Option<String> = Kind::Text;
        /// the Bash of a jail; the first in PATH if not set
        Trusted SandboxBash bash: Option<String> = Kind::Text;
        /// the Node.js of a jail; the first in PATH if not set
        Trusted SandboxNode node: Option<String> = Kind::Text;
    }

    /// Python packages of generated programs.
    packages: PackageSettings, "packages." {
        /// packages that generated programs may ask for, by name; `+NAME` adds to these, `none` allows none
        Trusted PackagesAllow allow: String = Kind::Text, default ALLOWED_PACKAGES;
        /// a folder of wheels that they are taken from; the index that pip knows if not set
        Trusted PackagesWheels wheels: Option<String> = Kind::Text;
        /// what fetches them, such as `/usr/bin/python3 -m pip`; the pip of the jail's Python if not set
        Trusted PackagesPip pip: Option<String> = Kind::Text;
    }

    /// Filings of the SEC.
    edgar: EdgarSettings, "edgar." {
        /// who asks the SEC, by name and address, as it wants to know; nobody asks if not set
        Trusted EdgarContact contact: Option<String> = Kind::Text;
        /// a server in place of the SEC's own
        Trusted EdgarBaseUrl base_url: Option<String> = Kind::Url;
        /// where the SEC's answers are kept, or were put; the cache folder if not set
        Trusted EdgarFolder folder: Option<String> = Kind::Text;
    }

    /// Consultations and debates.
    consult: ConsultSettings, "consult." {
        /// memory of the sandbox of a debate
        Tighten ConsultMemory memory: u64 = Size(16 << 20, 1 << 40), default "2048M";
        /// region of the workers that run debates (needs a cluster)
        Open ConsultRegion region: Option<String> = Kind::Text;
        /// dollars that a consultation may take without being asked about
        Trusted ConsultAskAbove ask_above: Money = Decimal(0.0, 1e9), default "1";
    }

    /// The gate of drafts.
    draft: DraftSettings, "draft." {
        /// when a person looks before a draft is applied; `never` rejects what the gate doubts
        Trusted DraftReview review: Review = Kind::Choice(Review::NAMES), default "escalated";
        /// lines that a draft may add and remove
        Tighten DraftMaxLines max_lines: usize = Whole(1, 1_000_000), default "500";
        /// files that a task may change
        Tighten DraftMaxFiles max_files: usize = Whole(1, 10_000), default "20";
        /// the share of a file that may go with nothing in its place
        Tighten DraftMaxDeletion max_deletion: f64 = Decimal(0.0, 1.0), default "0.5";
        /// the largest file and draft
        Tighten DraftMaxBytes max_bytes: u64 = Size(1 << 10, 1 << 26), default "1M";
        /// files that workers may read although they look like secrets, such as `.env.example, certs/*.pem`
        Trusted DraftReadable readable: Vec<String> = Kind::Text;
        /// files that only a person may let be changed, besides hooks, CI, lock files and the like
        Trusted DraftProtected protected: Vec<String> = Kind::Text;
    }

    /// The server and the ceilings of its requests.
    serve: ServeSettings, "serve." {
        /// trials that can be begun in a minute at the server's door
        Trusted ServeStartsPerMinute starts_per_minute: u32 = Whole(1, 1_000_000), default "60";
        /// trials that the server holds at once
        Trusted ServeMostRunning most_running: usize = Whole(1, 10_000), default "16";
        /// the most memory that a request can ask for, where `sandbox.memory` is not set
        Trusted ServeMaxMemory max_memory: u64 = Size(16 << 20, 1 << 40), default "4G";
        /// the most disk space that a request can ask for, where `sandbox.disk` is not set
        Trusted ServeMaxDisk max_disk: u64 = Size(64 << 10, 1 << 40), default "4G";
        /// the longest time limit that a request can ask for, where `sandbox.timeout_seconds` is not set
        Trusted ServeMaxTimeout max_timeout_seconds: Duration = Decimal(0.001, 864_000.0), default "3600";
        /// the most that is read of one request
        Trusted ServeLongestRequest longest_request: usize = Size(1 << 10, 1 << 30), default "32M";
    }

    /// The cluster, and how a node authenticates to its NATS servers.
    cluster: ClusterSettings, "cluster." {
        /// the NATS servers that keep runs and work for all machines, such as `nats://a,b,c`; without them all
        /// is done here
        Trusted ClusterServers servers: Option<Address> = Kind::Servers;
        /// what the cluster is called on its servers
        Trusted ClusterName name: String = Kind::Text, default "assize";
        /// on how many servers everything is kept; 3 where three or more are named, else 1
        Trusted ClusterReplicas replicas: Option<usize> = Whole(1, 5);
        /// seconds of silence after which a worker loses its jobs; the same on all nodes
        Trusted ClusterLease lease_seconds: Duration = Whole(2, 600), default "6";
        /// labels that a worker must have to do what is asked for here, such as `disk=fast, site=north`
        Trusted ClusterNeeds needs: Option<String> = Kind::Text;
        /// a file of NATS credentials
        Trusted ClusterCredentialsFile credentials_file: Option<String> = Kind::Text;
        /// who we are to the servers
        Trusted ClusterUser user: Option<String> = Kind::Text;
        /// the environment variable with the password
        Trusted ClusterPasswordEnv password_env: String = Kind::Variable, default "NATS_PASSWORD";
        /// the environment variable with a token, in place of both
        Trusted ClusterTokenEnv token_env: String = Kind::Variable, default "NATS_TOKEN";
        /// who vouches for the servers, in PEM
        Trusted ClusterCaFile ca_file: Option<String> = Kind::Text;
        /// our own certificate, in PEM
        Trusted ClusterCertFile cert_file: Option<String> = Kind::Text;
        /// and its key
        Trusted ClusterCertKeyFile cert_key_file: Option<String> = Kind::Text;
    }

    /// Undo of applied drafts.
    undo: UndoSettings, "draft." {
        /// how long what is settled can be undone
        Trusted DraftKeepDays keep_days: u64 = Whole(1, 36_500), default "30";
    }

    /// Verification of drafts.
    verification: VerificationSettings, "draft." {
        /// a command that must pass before a draft is accepted, in a sandbox
        Trusted DraftVerify verify: Option<String> = Kind::Text;
        /// memory that it may ask for
        Tighten DraftVerifyMemory verify_memory: u64 = Size(16 << 20, 1 << 40), default "2G";
        /// seconds that it may ask for
        Tighten DraftVerifySeconds verify_seconds: u64 = Whole(1, 86_400), default "600";
        /// virtual environment for the verification, such as .venv (default: the active one)
        Trusted DraftVerifyPython verify_python: Option<String> = Kind::Text;
        /// folders of this machine that it may see, such as a toolchain
        Trusted DraftVerifyLayers verify_layers: Vec<String> = Kind::Text;
    }

    /// The rehearsal model.
    rehearsal: RehearsalSettings, "rehearsal." {
        /// another seed gives other answers
        Open RehearsalSeed seed: u64 = Whole(0, u64::MAX), default "0";
        /// how long an answer takes
        Open RehearsalLatency latency_ms: u64 = Whole(0, 600_000), default "0";
        /// which share of the attempts fails
        Open RehearsalFaultRate fault_rate: f64 = Decimal(0.0, 1.0), default "0";
    }

    /// The log.
    log: LogSettings, "log." {
        /// what is logged; `trace` shows prompts
        Trusted LogLevel level: LogLevel = Kind::Choice(LogLevel::NAMES), default "warn";
        /// how it is logged
        Open LogFormat format: LogFormat = Kind::Choice(LogFormat::NAMES), default "text";
    }

    each provider {
        /// the model
        Choice ProviderModel model: String = Kind::Text, default provider.default_model();
        /// the address
        Trusted ProviderBaseUrl base_url: String = Kind::Url, default provider.default_base_url(),
            variable provider.base_url_variable();
        /// the environment variable that holds the key
        Trusted ProviderKeyEnv key_env: String = Kind::Variable, default provider.key_variable();
        /// context window in tokens; known for most models, and reported by most local servers
        Open ProviderContextWindow context_window: Option<u64> = Whole(1024, 100_000_000);
        /// calls at once; on a local server by default what it offers (Ollama: 1)
        Tighten ProviderConcurrency concurrency: usize = Whole(1, 10_000), default "16";
        /// calls a minute
        Tighten ProviderRequestsPerMinute requests_per_minute: Option<u64> = Whole(1, u64::MAX);
        /// tokens a minute
        Tighten ProviderTokensPerMinute tokens_per_minute: Option<u64> = Whole(1, u64::MAX);
    }
}
