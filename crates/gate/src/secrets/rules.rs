//! Forms of keys, as their providers document them.
//!
//! One rule a line: its id, what it finds, the words of which a text must contain one (in any case) before the pattern
//! is tried, and the pattern. The secret is the first group, or the whole match without a group. Vaguer rules come
//! later: a secret is reported once, by the first rule that finds it.

/// What shows that a match is a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// The match itself: it occurs nowhere else.
    Words,
    /// The form, unless it is filled with a placeholder.
    Form,
    /// The place; people may have chosen the value, so little chance is in it.
    Picked,
}

/// A form of secrets.
pub(super) struct Rule {
    pub id: &'static str,
    pub what: &'static str,
    /// Words separated by spaces; the pattern matches only texts with one of them.
    pub keywords: &'static str,
    pub pattern: &'static str,
    pub proof: Proof,
    /// No letter or digit may stand before or after the match: the form alone is too common.
    pub apart: bool,
}

/// A form that is a secret wherever it stands.
const fn words(
    id: &'static str,
    what: &'static str,
    keywords: &'static str,
    pattern: &'static str,
) -> Rule {
    Rule { id, what, keywords, pattern, proof: Proof::Words, apart: false }
}

/// A form with a beginning of its own, also where other characters are glued to it.
const fn form(
    id: &'static str,
    what: &'static str,
    keywords: &'static str,
    pattern: &'static str,
) -> Rule {
    Rule { id, what, keywords, pattern, proof: Proof::Form, apart: false }
}

/// A form that could be a part of something else.
const fn apart(
    id: &'static str,
    what: &'static str,
    keywords: &'static str,
    pattern: &'static str,
) -> Rule {
    Rule { id, what, keywords, pattern, proof: Proof::Form, apart: true }
}

/// A place where a password stands.
const fn picked(
    id: &'static str,
    what: &'static str,
    keywords: &'static str,
    pattern: &'static str,
) -> Rule {
    Rule { id, what, keywords, pattern, proof: Proof::Picked, apart: false }
}

/// All forms.
#[rustfmt::skip]
pub(super) const RULES: &[Rule] = &[
    // Private keys
    words("private-key", "a private key", "private", r#"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:\\[nr]|\s*\\?\s*$|["'`]\s*[,+]\s*$|\s*[A-Za-z0-9+/]{16})"#),
    words("putty-key", "a private key of PuTTY", "putty", r"PuTTY-User-Key-File-[23]:"),
    form("age-key", "a secret key of age", "age-secret", r"AGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    words("password-file", "a password hash with its account", "$", r"^[a-z_][\w.-]*:\$(?:1|2[abxy]|5|6|7|y|gy|apr1|md5|sha1)\$[./A-Za-z0-9$=,]{16,}(?::|\s*$)"),
    picked("pgpass", "a password in a .pgpass", ":", r"^(?:[\w.-]+|\*):(?:\d{2,5}|\*):(?:[\w-]+|\*):(?:[\w-]+|\*):([^\s:]{4,})$"),

    // Clouds
    apart("aws-access-key", "an access key of AWS", "akia asia abia acca", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}"),
    form("aws-secret-key", "a secret key of AWS", "aws", r#"(?i)aws_?(?:secret_?)?(?:access_?)?key[^=:\n]{0,10}[=:]\s*["']?([A-Za-z0-9/+]{40})(?:[^A-Za-z0-9/+=]|$)"#),
    form("aws-session-token", "a session token of AWS", "aws", r#"(?i)aws_?session_?token\s*[=:]\s*["']?([A-Za-z0-9/+=]{100,})"#),
    form("aws-bedrock-key", "a key of AWS Bedrock", "absk bedrock", r"ABSK[A-Za-z0-9+/]{109,}={0,2}|bedrock-api-key-YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9+/=_-]*"),
    apart("alibaba-key", "an access key of Alibaba Cloud", "ltai", r"LTAI[A-Za-z0-9]{12,26}"),
    apart("tencent-key", "a key of Tencent Cloud", "akid", r"AKID[A-Za-z0-9]{32}"),
    apart("google-api-key", "a key of Google", "aiza", r"AIza[A-Za-z0-9_-]{35}"),
    form("google-oauth-secret", "a client secret of Google", "gocspx", r"GOCSPX-[A-Za-z0-9_-]{28}"),
    form("google-oauth-token", "an access token of Google", "ya29", r"ya29\.[A-Za-z0-9_-]{30,}"),
    words("google-service-account", "a service account of Google", "service_account", r#""type"\s*:\s*"service_account""#),
    apart("firebase-key", "a server key of Firebase", "aaaa", r"AAAA[A-Za-z0-9_-]{7}:[A-Za-z0-9_-]{140}"),
    form("azure-storage-key", "a key of Azure storage", "accountkey", r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    form("azure-sas", "a shared access signature of Azure", "sig=", r"[?&]sig=[A-Za-z0-9%]{43,}"),
    apart("azure-ad-secret", "a client secret of Azure", "q~", r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,34}"),
    apart("azure-devops-token", "a token of Azure DevOps", "azdo", r"[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}"),
    form("digitalocean-token", "a token of DigitalOcean", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    form("heroku-key", "a key of Heroku", "hrku", r"HRKU-[A-Za-z0-9_-]{36,}"),
    form("cloudflare-token", "an origin key of Cloudflare", "v1.0-", r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}"),
    form("scalingo-token", "a token of Scalingo", "tk-us", r"tk-us-[A-Za-z0-9_-]{48}"),
    form("yandex-token", "a token of Yandex Cloud", "t1. aqvn", r"t1\.[A-Za-z0-9_-]+={0,2}\.[A-Za-z0-9_-]{86}={0,2}|AQVN[A-Za-z0-9_-]{35,38}"),
    form("fly-token", "a token of Fly.io", "fo1_ fm1 fm2", r"(?:^|[^A-Za-z0-9])(fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{100,}={0,3})"),
    form("netlify-token", "a token of Netlify", "nfp_", r"nfp_[A-Za-z0-9]{36,}"),
    form("render-key", "a key of Render", "rnd_", r"rnd_[A-Za-z0-9]{28,}"),
    form("tailscale-key", "a key of Tailscale", "tskey", r"tskey-(?:auth|api|client|scim|webhook)-[A-Za-z0-9]{8,}-[A-Za-z0-9]{20,}"),
    form("defined-networking-token", "a token of Defined Networking", "dnkey", r"dnkey-[A-Za-z0-9_=-]{26}-[A-Za-z0-9_=-]{52}"),
    apart("openshift-token", "a token of OpenShift", "sha256~", r"sha256~[A-Za-z0-9_-]{43}"),

    // Code, packages and builds
    form("github-token", "a token of GitHub", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    form("github-fine-token", "a fine-grained token of GitHub", "github_pat", r"github_pat_[A-Za-z0-9_]{82}"),
    form("gitlab-token", "a token of GitLab", "gl", r"gl(?:pat|dt|rt|rtr|cbt|ptt|ft|ffct|imt|agent|oas|soat)-[A-Za-z0-9_=.-]{20,}"),
    form("gitlab-runner-token", "a registration token of GitLab", "gr1348941", r"GR1348941[A-Za-z0-9_-]{20}"),
    form("gitlab-session", "a session of GitLab", "_gitlab_session", r"_gitlab_session=([a-f0-9]{32}|[a-z0-9]{32})"),
    form("atlassian-token", "a token of Atlassian", "atatt3 atctt3 atbb", r"AT[AC]TT3[A-Za-z0-9_=-]{100,}|ATBB[A-Za-z0-9_=.-]{24,}"),
    form("sourcegraph-token", "a token of Sourcegraph", "sgp_ slk_", r"sgp_(?:(?:[a-fA-F0-9]{16}|local)_)?[a-fA-F0-9]{40}|slk_[a-f0-9]{64}"),
    form("npm-token", "a token of npm", "npm_", r"npm_[A-Za-z0-9]{36}"),
    form("npmrc-token", "a token in an .npmrc", "_auth", r#"_auth(?:Token)?\s*=\s*["']?([A-Za-z0-9_+/=-]{20,})"#),
    form("pypi-token", "a token of PyPI", "pypi-", r"pypi-Ag(?:EIcHlwaS5vcmc|ENdGVzdC5weXBpLm9yZw)[A-Za-z0-9_-]{50,}"),
    form("rubygems-key", "a key of RubyGems", "rubygems_", r"rubygems_[a-f0-9]{48}"),
    apart("rust-registry-token", "a token of the Rust registry", "cio", r"cio[A-Za-z0-9]{32}"),
    apart("nuget-key", "a key of NuGet", "oy2", r"oy2[a-z0-9]{43}"),
    form("clojars-token", "a token of Clojars", "clojars_", r"(?i)CLOJARS_[a-z0-9]{60}"),
    form("docker-token", "a token of Docker Hub", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    apart("artifactory-key", "a key of Artifactory", "akc cmvmd", r"AKC[a-z0-9][A-Za-z0-9]{59,}|cmVmd[A-Za-z0-9]{59}"),
    form("artifactory-header", "a key of Artifactory", "x-jfrog-art-api", r#"(?i)x-jfrog-art-api["']?\s*[:=]\s*["']?([A-Za-z0-9]{13,})"#),
    apart("octopus-key", "a key of Octopus Deploy", "api-", r"API-[A-Z0-9]{26}"),
    words("sidekiq-license", "a licence of Sidekiq", "contribsys", r#"(?i)BUNDLE_(?:ENTERPRISE|GEMS)__CONTRIBSYS__COM\w*["']?\s*[=:]\s*["']?([a-f0-9]{8}:[a-f0-9]{8})|https?://([a-f0-9]{8}:[a-f0-9]{8})@(?:gems|enterprise)\.contribsys\.com"#),
    form("circleci-token", "a token of CircleCI", "ccipat_ cciprj_", r"CCIP(?:AT|RJ)_[A-Za-z0-9]{20,}_[A-Za-z0-9]{40,}"),
    form("buildkite-token", "a token of Buildkite", "bkua_", r"bkua_[a-z0-9]{40}"),
    apart("dependency-track-key", "a key of Dependency-Track", "odt_", r"odt_[A-Za-z0-9]{32,40}"),
    apart("sonar-token", "a token of SonarQube", "squ_ sqp_ sqa_", r"sq[upa]_[A-Za-z0-9]{40}"),
    form("postman-key", "a key of Postman", "pmak", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    form("prefect-token", "a token of Prefect", "pnu_ pnb_", r"pn[ub]_[A-Za-z0-9]{36}"),
    form("readme-key", "a key of ReadMe", "rdme_", r"rdme_[a-z0-9]{70}"),
    form("vault-token", "a token of Vault", "hvs. hvb. hvr.", r"hv[sbr]\.[A-Za-z0-9_-]{24,}"),
    form("terraform-token", "a token of Terraform Cloud", "atlasv1", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    apart("pulumi-token", "a token of Pulumi", "pul-", r"pul-[a-f0-9]{40}"),
    form("doppler-token", "a token of Doppler", "dp.", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]+\.)?[A-Za-z0-9]{40,}"),
    apart("infracost-key", "a key of Infracost", "ico-", r"(?:^|[^.])(ico-[A-Za-z0-9]{32})"),
    form("harness-token", "a token of Harness", "pat. sat.", r"\b(?:pat|sat)\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}"),
    form("authress-key", "a key of Authress", "acc_ acc-", r"\b(?:sc|ext|scauth|authress)_[A-Za-z0-9]{5,30}\.[A-Za-z0-9]{4,6}\.acc[_-][A-Za-z0-9-]{10,32}\.[A-Za-z0-9+/_=-]{30,120}"),
    form("settlemint-token", "a token of SettleMint", "sm_", r"sm_(?:aat|pat|sat)_[A-Za-z0-9]{16}"),
    form("onepassword-token", "a token of 1Password", "ops_eyj", r"ops_eyJ[A-Za-z0-9+/_-]{100,}={0,3}"),
    apart("onepassword-key", "a secret key of 1Password", "a3-", r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),

    // Models
    form("openai-key", "a key of OpenAI", "sk-proj sk-svcacct sk-admin", r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}"),
    apart("openai-plain-key", "a key of OpenAI or a compatible service", "sk-", r"sk-[A-Za-z0-9]{48}"),
    form("openai-old-key", "a key of OpenAI", "t3blbkfj", r"sk-[A-Za-z0-9_-]{20,}T3BlbkFJ[A-Za-z0-9_-]{20,}"),
    form("anthropic-key", "a key of Anthropic", "sk-ant", r"sk-ant-(?:api|admin|oat)\d{2}-[A-Za-z0-9_-]{80,}"),
    form("openrouter-key", "a key of OpenRouter", "sk-or", r"sk-or-v1-[a-f0-9]{64}"),
    form("groq-key", "a key of Groq", "gsk_", r"gsk_[A-Za-z0-9]{52}"),
    form("xai-key", "a key of xAI", "xai-", r"xai-[A-Za-z0-9]{80}"),
    form("perplexity-key", "a key of Perplexity", "pplx-", r"pplx-[A-Za-z0-9]{48}"),
    apart("replicate-token", "a token of Replicate", "r8_", r"r8_[A-Za-z0-9]{37}"),
    apart("huggingface-token", "a token of Hugging Face", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z]{34}"),
    form("langsmith-key", "a key of LangSmith", "lsv2_ ls__", r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}|ls__[a-f0-9]{32}"),
    form("langfuse-key", "a secret key of Langfuse", "sk-lf-", r"sk-lf-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"),
    form("nvidia-key", "a key of NVIDIA", "nvapi-", r"nvapi-[A-Za-z0-9_-]{60,}"),
    form("pinecone-key", "a key of Pinecone", "pcsk_", r"pcsk_[A-Za-z0-9]{4,8}_[A-Za-z0-9]{50,}"),
    form("tavily-key", "a key of Tavily", "tvly-", r"tvly-(?:dev-)?[A-Za-z0-9]{32}"),

    // Messages and mail
    form("slack-token", "a token of Slack", "xox", r"xox[abeprs](?:\.xox[abp])?-[A-Za-z0-9-]*(?:[0-9][A-Za-z]|[A-Za-z][0-9])[A-Za-z0-9-]*|xox[do]-\d+-[A-Za-z0-9-]{10,}"),
    form("slack-app-token", "an app token of Slack", "xapp-", r"xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{20,}"),
    form("slack-webhook", "a webhook of Slack", "hooks.slack.com", r"hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/+_-]{30,})"),
    form("sendgrid-key", "a key of SendGrid", "sg.", r"SG\.[A-Za-z0-9_=-]{16,32}\.[A-Za-z0-9_=-]{16,64}|SG\.[A-Za-z0-9_=.-]{66}"),
    form("mailgun-key", "a key of Mailgun", "key- -", r"(?:^|[^\w-])(key-[a-z0-9]{32}|[a-f0-9]{32}-[a-f0-9]{8}-[a-f0-9]{8})(?:[^\w-]|$)"),
    apart("mailchimp-key", "a key of Mailchimp", "-us", r"[a-f0-9]{32}-us\d{1,2}"),
    form("brevo-key", "a key of Brevo", "xkeysib", r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    form("resend-key", "a key of Resend", "re_", r"\bre_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}\b"),
    apart("twilio-key", "a key of Twilio", "sk", r"SK[a-f0-9]{32}"),
    form("telegram-token", "a token of a Telegram bot", ":a", r"(?:\b|\bbot)\d{8,10}:AA[A-Za-z0-9_-]{33}"),
    form("telegram-named-token", "a token of a Telegram bot", "telegr", r"(?i)telegr\S{0,40}?[^\n]{0,40}?\b\d{5,16}:(?-i:A)[A-Za-z0-9_-]{34}"),
    form("discord-token", "a token of a Discord bot", ".", r"\b[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}"),
    form("discord-webhook", "a webhook of Discord", "webhooks", r"discord(?:app)?\.com/api/webhooks/(\d{17,20}/[A-Za-z0-9_-]{60,})"),
    form("teams-webhook", "a webhook of Microsoft Teams", "office.com/webhook office365.com/webhook", r"(?:webhook\.office\.com/webhookb2|outlook\.office(?:365)?\.com/webhook)/([\w@-]+/IncomingWebhook/[A-Za-z0-9]{32}/[\w-]+)"),
    form("zapier-webhook", "a webhook of Zapier", "hooks.zapier.com", r"hooks\.zapier\.com/hooks/catch/(\d+/[a-z0-9]{6,})"),

    // Shops and money
    form("stripe-key", "a live key of Stripe", "_live_", r"[sr]k_live_[A-Za-z0-9]{20,}"),
    apart("stripe-webhook", "a webhook secret of Stripe", "whsec_", r"whsec_[A-Za-z0-9+/]{32,}"),
    form("shopify-token", "a token of Shopify", "shp", r"shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}"),
    form("square-token", "a token of Square", "eaaa sq0", r"(?:^|[^\w/+-])(EAAA[A-Za-z0-9_-]{60}|sq0(?:atp|csp|idp)-[A-Za-z0-9_-]{22,43})(?:[^\w/+=-]|$)"),
    form("paypal-token", "a token of Braintree", "access_token$", r"access_token\$production\$[a-z0-9]{16}\$[a-f0-9]{32}"),
    form("flutterwave-key", "a key of Flutterwave", "flwseck", r"FLWSECK(?:_TEST)?-(?:[A-Za-z0-9]{32}-X|[A-Za-z0-9]{12})"),
    form("plaid-token", "a token of Plaid", "access-", r"access-(?:sandbox|development|production)-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"),
    form("duffel-token", "a token of Duffel", "duffel_", r"duffel_(?:live|test)_[A-Za-z0-9_=-]{43}"),
    apart("easypost-key", "a key of EasyPost", "ezak eztk", r"EZ[AT]K[A-Za-z0-9]{54}"),
    form("shippo-token", "a token of Shippo", "shippo_", r"shippo_(?:live|test)_[a-f0-9]{40}"),
    apart("lob-key", "a key of Lob", "live_ test_", r"(?:live|test)_[a-f0-9]{35}"),
    form("gocardless-token", "a token of GoCardless", "gocardless", r"(?i)gocardless[^\n]{0,40}?live_[A-Za-z0-9_=-]{40}"),

    // Data and observation
    form("databricks-token", "a token of Databricks", "dapi", r"dapi[a-f0-9]{32}(?:-\d)?"),
    form("planetscale-token", "a password of PlanetScale", "pscale_", r"pscale_(?:pw|tkn|oauth)_[A-Za-z0-9_.=-]{32,}"),
    form("supabase-key", "a key of Supabase", "sbp_ sb_secret", r"sb(?:p|_secret)_[A-Za-z0-9_]{30,}"),
    form("neon-key", "a key of Neon", "napi_ npg_", r"napi_[a-z0-9]{60,}|npg_[A-Za-z0-9]{12,}"),
    form("mongodb-secret", "a client secret of MongoDB Atlas", "mdb_sa_sk_", r"mdb_sa_sk_[A-Za-z0-9_-]{40}"),
    apart("clickhouse-key", "a key of ClickHouse Cloud", "4b1d", r"4b1d[A-Za-z0-9]{38}"),
    form("grafana-token", "a token of Grafana", "glc_ glsa_ eyjrijoi", r"gl(?:c|sa)_[A-Za-z0-9+/=_]{32,}|eyJrIjoi[A-Za-z0-9_-]{60,400}={0,3}"),
    form("newrelic-key", "a key of New Relic", "nrak nrjs nrii nrra nraa", r"NR(?:AK|JS|II|RA|AA)-[A-Za-z0-9-]{19,}"),
    apart("sentry-token", "a token of Sentry", "sntry", r"sntryu_[a-f0-9]{64}|sntrys_eyJ[A-Za-z0-9+/=]{50,}_[A-Za-z0-9+/]{43}"),
    form("datadog-key", "a key of Datadog", "dd", r#"(?i)\bdd_?(?:api|app|application)_?key\s*[=:]\s*["']?([a-f0-9]{32,40})\b"#),
    form("dynatrace-token", "a token of Dynatrace", "dt0", r"(?i)dt0[a-z]\d{2}\.[a-z0-9]{24}\.[a-z0-9]{64}"),
    form("segment-token", "a token of Segment", "sgp_", r"sgp_[A-Za-z0-9]{64}"),
    form("posthog-key", "a personal key of PostHog", "phx_", r"phx_[A-Za-z0-9_-]{43}"),
    form("maxmind-key", "a licence key of MaxMind", "_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9_]{29}_mmk"),

    // Work and people
    form("linear-key", "a key of Linear", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}"),
    form("notion-key", "a key of Notion", "ntn_ secret_", r"ntn_[A-Za-z0-9]{40,}|\bsecret_[A-Za-z0-9]{43}\b"),
    apart("airtable-token", "a token of Airtable", "pat", r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    form("figma-token", "a token of Figma", "figd figo figr figu", r"fig[doru]_[A-Za-z0-9_-]{40,}"),
    form("typeform-token", "a token of Typeform", "tfp_", r"tfp_[A-Za-z0-9_.=-]{44,}"),
    form("frameio-token", "a token of Frame.io", "fio-u-", r"fio-u-[A-Za-z0-9_=-]{64}"),
    form("hubspot-token", "a token of HubSpot", "pat-", r"pat-(?:na|eu|ap)\d-[a-f0-9]{8}(?:-[a-f0-9]{4}){3}-[a-f0-9]{12}"),
    form("contentful-token", "a token of Contentful", "cfpat-", r"CFPAT-[A-Za-z0-9_-]{43}"),
    apart("facebook-token", "a token of Facebook", "eaa |", r"EAA[A-Z][A-Za-z0-9]{90,}|\b\d{15,16}\|[A-Za-z0-9_-]{27}\b"),
    form("twitter-bearer", "a bearer token of X", "aaaaaaaaaaaaaaaaaaaa", r"A{20,22}[A-Za-z0-9%]{60,}"),
    apart("adobe-secret", "a client secret of Adobe", "p8e-", r"p8e-[a-z0-9]{32}"),
    form("dropbox-token", "a token of Dropbox", "sl.", r"\bsl\.[A-Za-z0-9_-]{130,}"),
    form("intra42-secret", "a secret of 42", "s-s4t2", r"s-s4t2(?:ud|af)-[a-f0-9]{64}"),

    // Places where any secret may stand
    form("jwt", "a signed token (JWT)", ".ey", r"ey[A-Za-z0-9_-]{12,}\.ey[A-Za-z0-9_-]{12,}\.(?:[A-Za-z0-9_-]{20,})?"),
    picked("connection-string", "a connection with its password", "://", r#"\b[a-z][a-z0-9+.-]{2,20}://[^\s:/@"']*:([^\s:/@"']{6,})@[\w.(-]+"#),
    form("authorization-header", "an authorization header", "authorization", r#"(?i)\bauthorization["'\]]*\s*[:=,]?\s*[bf]?["'`]?(?:bearer|basic|token|api-?key|api-?token)\s+([A-Za-z0-9._~+/=-]{16,})"#),
    picked("login-call", "a password in a call", "auth login getconnection credential", r#"(?i)(?:auth\w*|login|getconnection|credentials?)\s*=?\s*\((?:[^"'()]*,)?\s*["'][^"']*["']\s*,\s*["']([^"'\s]{8,})["']\s*\)|\blogin\(\s*["'][^"']*["']\s*,\s*["']([^"'\s]{8,})["']\s*,"#),
    form("key-in-call", "a key in a call", "fernet( hmac.new( createhmac( jwt.", r#"(?i)\b(?:fernet\(|hmac\.new\(|createhmac\([^,"']*["'][^"']*["'],|jwt\.(?:sign|verify|encode|decode)\([^,"']+,)\s*b?["']([^"'\s]{16,})["']"#),
    picked("sql-password", "a password in a statement of SQL", "identified", r#"(?i)\bidentified\s+(?:with\s+\w+\s+)?by\s+(?:password\s+)?["']([^"'\s]{6,})["']"#),
    picked("command-line-password", "a password on a command line", "sshpass mysql mariadb login twine redis-cli", r#"\b(?:sshpass|mysql\w*|mariadb\w*|docker\s+login|podman\s+login|helm\s+registry\s+login|az\s+login|twine|redis-cli)\b[^|;]*?\s-[pa]\s*["']?([^\s"']{6,})"#),
    picked("command-line-user", "a user with the password on a command line", "curl wget http", r#"\b(?:curl|wget|http)\b.*?\s(?:-u|--user|--proxy-user|-U)[\s=]*["']?[^\s:"'/]*["']?:["']?([^\s"']{6,})"#),
];
