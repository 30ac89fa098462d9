//! The forms of keys, as their providers document them.

/// What shows that a match is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// Its words do: they stand nowhere else.
    Words,
    /// Its form does, unless it was filled with a placeholder.
    Form,
    /// Where it stands does; people may have picked it, so little chance is in it.
    Picked,
}

pub(super) struct Rule {
    pub id: &'static str,
    pub what: &'static str,
    pub pattern: &'static str,
    pub proof: Proof,
}

const fn words(id: &'static str, what: &'static str, pattern: &'static str) -> Rule {
    Rule { id, what, pattern, proof: Proof::Words }
}

const fn form(id: &'static str, what: &'static str, pattern: &'static str) -> Rule {
    Rule { id, what, pattern, proof: Proof::Form }
}

const fn picked(id: &'static str, what: &'static str, pattern: &'static str) -> Rule {
    Rule { id, what, pattern, proof: Proof::Picked }
}

/// What is in the first group is the secret; without a group, all of it. Vaguer rules come later.
#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    words("private-key", "a private key", r#"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\[nr]|\s*\\?\s*$|["'`]\s*[,+]\s*$|\s*[A-Za-z0-9+/]{16})"#),
    words("putty-key", "a private key of PuTTY", r"PuTTY-User-Key-File-[23]:"),
    form("age-key", "a secret key of age", r"\bAGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}\b"),
    form("aws-access-key", "an access key of AWS", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    form("aws-secret-key", "a secret key of AWS", r#"(?i)aws_?(?:secret_?)?(?:access_?)?key[^=:\n]{0,10}[=:]\s*["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#),
    form("aws-session-token", "a session token of AWS", r#"(?i)aws_?session_?token\s*[=:]\s*["']?([A-Za-z0-9/+=]{100,})"#),
    form("aws-bedrock-key", "a key of AWS Bedrock", r"\bABSK[A-Za-z0-9+/]{109,}={0,2}"),
    form("github-token", "a token of GitHub", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    form("github-fine-token", "a fine-grained token of GitHub", r"\bgithub_pat_[A-Za-z0-9_]{82}\b"),
    form("gitlab-token", "a token of GitLab", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat)-[A-Za-z0-9_=-]{20,}"),
    form("gitlab-runner-token", "a registration token of GitLab", r"\bGR1348941[A-Za-z0-9_-]{20}"),
    form("slack-token", "a token of Slack", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    form("slack-app-token", "an app token of Slack", r"\bxapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{20,}"),
    form("slack-webhook", "a webhook of Slack", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_-]{30,})"),
    form("stripe-key", "a live key of Stripe", r"\b(?:sk|rk)_live_[A-Za-z0-9]{20,}\b"),
    form("stripe-webhook", "a webhook secret of Stripe", r"\bwhsec_[A-Za-z0-9]{32,}\b"),
    form("google-api-key", "a key of Google", r"\bAIza[A-Za-z0-9_-]{35}"),
    form("google-oauth-secret", "a client secret of Google", r"\bGOCSPX-[A-Za-z0-9_-]{28}"),
    form("google-oauth-token", "an access token of Google", r"\bya29\.[A-Za-z0-9_-]{30,}"),
    words("google-service-account", "a service account of Google", r#""type"\s*:\s*"service_account""#),
    form("firebase-key", "a server key of Firebase", r"\bAAAA[A-Za-z0-9_-]{7}:[A-Za-z0-9_-]{140}"),
    form("azure-storage-key", "a key of Azure storage", r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    form("azure-sas", "a shared access signature of Azure", r"[?&]sig=[A-Za-z0-9%]{43,}"),
    form("azure-ad-secret", "a client secret of Azure", r"\b[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}"),
    form("azure-devops-token", "a token of Azure DevOps", r"\b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b"),
    form("digitalocean-token", "a token of DigitalOcean", r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
    form("heroku-key", "a key of Heroku", r"\bHRKU-[A-Za-z0-9_-]{36,}"),
    form("cloudflare-token", "an origin key of Cloudflare", r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b"),
    form("openai-key", "a key of OpenAI", r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}"),
    form("openai-plain-key", "a key of OpenAI or of one that speaks like it", r"\bsk-[A-Za-z0-9]{48}\b"),
    form("openai-old-key", "a key of OpenAI", r"\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b"),
    form("anthropic-key", "a key of Anthropic", r"\bsk-ant-(?:api|admin|oat)\d{2}-[A-Za-z0-9_-]{80,}"),
    form("openrouter-key", "a key of OpenRouter", r"\bsk-or-v1-[a-f0-9]{64}\b"),
    form("groq-key", "a key of Groq", r"\bgsk_[A-Za-z0-9]{52}\b"),
    form("xai-key", "a key of xAI", r"\bxai-[A-Za-z0-9]{80}\b"),
    form("perplexity-key", "a key of Perplexity", r"\bpplx-[A-Za-z0-9]{48}\b"),
    form("replicate-token", "a token of Replicate", r"\br8_[A-Za-z0-9]{37}\b"),
    form("huggingface-token", "a token of Hugging Face", r"\b(?:hf|api_org)_[A-Za-z]{34}\b"),
    form("npm-token", "a token of npm", r"\bnpm_[A-Za-z0-9]{36}\b"),
    form("npmrc-token", "a token in an .npmrc", r"_authToken\s*=\s*([A-Za-z0-9_-]{20,})"),
    form("pypi-token", "a token of PyPI", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}"),
    form("rubygems-key", "a key of RubyGems", r"\brubygems_[a-f0-9]{48}\b"),
    form("rust-registry-token", "a token of the Rust registry", r"\bcio[A-Za-z0-9]{32}\b"),
    form("nuget-key", "a key of NuGet", r"\boy2[a-z0-9]{43}\b"),
    form("docker-token", "a token of Docker Hub", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    form("sendgrid-key", "a key of SendGrid", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}"),
    form("mailgun-key", "a key of Mailgun", r"(?:^|[^\w-])(key-[a-f0-9]{32})\b"),
    form("mailchimp-key", "a key of Mailchimp", r"\b[a-f0-9]{32}-us\d{1,2}\b"),
    form("brevo-key", "a key of Brevo", r"\bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b"),
    form("postman-key", "a key of Postman", r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}\b"),
    form("twilio-key", "a key of Twilio", r"\bSK[a-f0-9]{32}\b"),
    form("telegram-token", "a token of a Telegram bot", r"(?:\b|\bbot)\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    form("discord-token", "a token of a Discord bot", r"\b[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}"),
    form("discord-webhook", "a webhook of Discord", r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/(\d{17,20}/[A-Za-z0-9_-]{60,})"),
    form("teams-webhook", "a webhook of Microsoft Teams", r"https://[\w-]+\.webhook\.office\.com/webhookb2/([\w@-]+/IncomingWebhook/[a-f0-9]{32}/[\w-]+)"),
    form("shopify-token", "a token of Shopify", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b"),
    form("square-token", "a token of Square", r"(?:^|[^\w/+-])(EAAA[A-Za-z0-9_-]{60}|sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,43})(?:[^\w/+=-]|$)"),
    form("paypal-token", "a token of Braintree", r"\baccess_token\$production\$[a-z0-9]{16}\$[a-f0-9]{32}\b"),
    form("facebook-token", "a token of Facebook", r"\bEAA[A-Z][A-Za-z0-9]{90,}\b"),
    form("linear-key", "a key of Linear", r"\blin_(?:api|oauth)_[A-Za-z0-9]{40,}\b"),
    form("notion-key", "a key of Notion", r"\b(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})\b"),
    form("airtable-token", "a token of Airtable", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b"),
    form("figma-token", "a token of Figma", r"\bfig[doru]_[A-Za-z0-9_-]{40,}"),
    form("grafana-token", "a token of Grafana", r"\bgl(?:c|sa)_[A-Za-z0-9+/=_]{32,}"),
    form("newrelic-key", "a key of New Relic", r"\bNR(?:AK|JS|II|RA|AA)-[A-Za-z0-9]{19,}\b"),
    form("sentry-token", "a token of Sentry", r"\bsntry(?:s|u)_[A-Za-z0-9+/=_]{50,}"),
    form("datadog-key", "a key of Datadog", r#"(?i)\bdd_?(?:api|app|application)_?key\s*[=:]\s*["']?([a-f0-9]{32,40})\b"#),
    form("vault-token", "a token of Vault", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    form("terraform-token", "a token of Terraform Cloud", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    form("pulumi-token", "a token of Pulumi", r"\bpul-[a-f0-9]{40}\b"),
    form("databricks-token", "a token of Databricks", r"\bdapi[a-f0-9]{32}(?:-\d)?\b"),
    form("doppler-token", "a token of Doppler", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]+\.)?[A-Za-z0-9]{40,}\b"),
    form("planetscale-token", "a password of PlanetScale", r"\bpscale_(?:pw|tkn|oauth)_[A-Za-z0-9_.=-]{32,}"),
    form("supabase-key", "a key of Supabase", r"\bsb(?:p|_secret)_[A-Za-z0-9_]{30,}\b"),
    form("atlassian-token", "a token of Atlassian", r"\bATATT3[A-Za-z0-9_=-]{100,}"),
    form("dropbox-token", "a token of Dropbox", r"\bsl\.[A-Za-z0-9_-]{130,}"),
    form("artifactory-key", "a key of Artifactory", r"\bAKC[A-Za-z0-9]{60,}\b"),
    form("fly-token", "a token of Fly.io", r"\b(?:fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{100,}={0,3})"),
    form("flutterwave-key", "a key of Flutterwave", r"\bFLWSECK-[a-f0-9]{32}-X\b"),
    form("jwt", "a signed token (JWT)", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}"),
    picked("connection-string", "a connection with its password", r#"\b[a-z][a-z0-9+.-]{2,20}://[^\s:/@"']{0,80}:([^\s:/@"']{6,120})@[\w.(-]+"#),
    form("authorization-header", "an authorization header", r#"(?i)\bauthorization["'\]]*\s*[:=,]?\s*[bf]?["'`]?(?:bearer|basic|token|apikey)\s+([A-Za-z0-9._~+/=-]{16,})"#),
    picked("login-call", "a password in a call", r#"(?i)(?:auth\w*|login|getconnection|credentials?)\s*=?\s*\((?:[^"'()]*,)?\s*["'][^"']*["']\s*,\s*["']([^"'\s]{8,200})["']\s*\)"#),
    form("key-in-call", "a key in a call", r#"(?i)\b(?:fernet\(|hmac\.new\(|createhmac\([^,"']*["'][^"']*["'],|jwt\.(?:sign|verify|encode|decode)\([^,"']+,)\s*b?["']([^"'\s]{16,200})["']"#),
    picked("command-line-password", "a password on a command line", r#"\b(?:sshpass|mysql\w*|mariadb\w*|docker\s+login|podman\s+login|helm\s+registry\s+login|az\s+login|twine|redis-cli)\b[^|;]*?\s-[pa]\s*["']?([^\s"']{6,200})"#),
    picked("command-line-user", "a user with the password on a command line", r#"\b(?:curl|wget|http)\b.*?\s(?:-u|--user)[\s=]*["']?[^\s:"']+:([^\s"']{6,200})"#),
];
