//! Keys, tokens and passwords in what somebody adds.
//!
//! Each kind of key has a rule of its own where its provider gave it a form; what has none is found by where it
//! stands, such as behind `password =`, and by how much chance is in it. What is plainly a placeholder is none.

use std::sync::LazyLock;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use regex::{Regex, RegexSet};

/// What a line must say to keep a finding in it; that it does is itself told.
pub const ALLOWED: &str = "assize: allow-secret";

/// Something in a line that should not be there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret {
    /// The rule, such as `github-token`.
    pub rule: &'static str,
    /// What it is, in words.
    pub what: &'static str,
    /// Its beginning, with the rest covered.
    pub masked: String,
    /// It was found in something that was encoded.
    pub encoded: bool,
    /// The line says that it may stay.
    pub allowed: bool,
}

struct Rule {
    id: &'static str,
    what: &'static str,
    pattern: &'static str,
    /// How much chance there must be in it, in bits for each character; 0 where the form is enough.
    chance: f64,
}

const fn rule(id: &'static str, what: &'static str, pattern: &'static str) -> Rule {
    Rule { id, what, pattern, chance: 0.0 }
}

/// For forms that words could have, too.
const fn chancy(id: &'static str, what: &'static str, pattern: &'static str, chance: f64) -> Rule {
    Rule { id, what, pattern, chance }
}

/// The forms, as providers document them. What is in the first group is the secret; without a group, all of it.
#[rustfmt::skip]
const RULES: &[Rule] = &[
    rule("private-key", "a private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    rule("putty-key", "a private key of PuTTY", r"PuTTY-User-Key-File-[23]:"),
    rule("age-key", "a secret key of age", r"\bAGE-SECRET-KEY-1[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}\b"),
    rule("aws-access-key", "an access key of AWS", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b"),
    chancy("aws-secret-key", "a secret key of AWS", r#"(?i)aws_?(?:secret_?)?(?:access_?)?key[^=:\n]{0,10}[=:]\s*["']?([A-Za-z0-9/+]{40})\b"#, 4.0),
    rule("aws-session-token", "a session token of AWS", r#"(?i)aws_?session_?token\s*[=:]\s*["']?([A-Za-z0-9/+=]{100,})"#),
    rule("aws-bedrock-key", "a key of AWS Bedrock", r"\bABSK[A-Za-z0-9+/]{109,}={0,2}"),
    rule("github-token", "a token of GitHub", r"\bgh[pousr]_[A-Za-z0-9]{36,}\b"),
    rule("github-fine-token", "a fine-grained token of GitHub", r"\bgithub_pat_[A-Za-z0-9_]{82}\b"),
    rule("gitlab-token", "a token of GitLab", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|imt|agent|oas|soat)-[A-Za-z0-9_=-]{20,}"),
    rule("gitlab-runner-token", "a registration token of GitLab", r"\bGR1348941[A-Za-z0-9_-]{20}\b"),
    rule("slack-token", "a token of Slack", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    rule("slack-app-token", "an app token of Slack", r"\bxapp-\d-[A-Z0-9]+-\d+-[a-z0-9]{20,}"),
    rule("slack-webhook", "a webhook of Slack", r"https://hooks\.slack\.com/(?:services|workflows|triggers)/[A-Za-z0-9/_-]{30,}"),
    rule("stripe-key", "a live key of Stripe", r"\b(?:sk|rk)_live_[A-Za-z0-9]{20,}\b"),
    rule("stripe-webhook", "a webhook secret of Stripe", r"\bwhsec_[A-Za-z0-9]{32,}\b"),
    rule("google-api-key", "a key of Google", r"\bAIza[A-Za-z0-9_-]{35}\b"),
    rule("google-oauth-secret", "a client secret of Google", r"\bGOCSPX-[A-Za-z0-9_-]{28}\b"),
    rule("google-oauth-token", "an access token of Google", r"\bya29\.[A-Za-z0-9_-]{30,}"),
    rule("google-service-account", "a service account of Google", r#""type"\s*:\s*"service_account""#),
    rule("firebase-key", "a server key of Firebase", r"\bAAAA[A-Za-z0-9_-]{7}:[A-Za-z0-9_-]{140}\b"),
    rule("azure-storage-key", "a key of Azure storage", r"AccountKey=([A-Za-z0-9+/]{86}==)"),
    rule("azure-sas", "a shared access signature of Azure", r"[?&]sig=[A-Za-z0-9%]{43,}"),
    rule("azure-ad-secret", "a client secret of Azure", r"\b[A-Za-z0-9_~.-]{3}[78]Q~[A-Za-z0-9_~.-]{31,34}\b"),
    rule("azure-devops-token", "a token of Azure DevOps", r"\b[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}\b"),
    rule("digitalocean-token", "a token of DigitalOcean", r"\bdo[opr]_v1_[a-f0-9]{64}\b"),
    rule("heroku-key", "a key of Heroku", r"\bHRKU-[A-Za-z0-9_-]{36,}\b"),
    rule("cloudflare-token", "an origin key of Cloudflare", r"\bv1\.0-[a-f0-9]{24}-[a-f0-9]{146}\b"),
    rule("openai-key", "a key of OpenAI", r"\bsk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{40,}"),
    rule("openai-old-key", "a key of OpenAI", r"\bsk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}\b"),
    rule("anthropic-key", "a key of Anthropic", r"\bsk-ant-(?:api|admin|oat)\d{2}-[A-Za-z0-9_-]{80,}"),
    rule("openrouter-key", "a key of OpenRouter", r"\bsk-or-v1-[a-f0-9]{64}\b"),
    rule("groq-key", "a key of Groq", r"\bgsk_[A-Za-z0-9]{52}\b"),
    rule("xai-key", "a key of xAI", r"\bxai-[A-Za-z0-9]{80}\b"),
    rule("perplexity-key", "a key of Perplexity", r"\bpplx-[A-Za-z0-9]{48}\b"),
    rule("replicate-token", "a token of Replicate", r"\br8_[A-Za-z0-9]{37}\b"),
    rule("huggingface-token", "a token of Hugging Face", r"\b(?:hf|api_org)_[A-Za-z]{34}\b"),
    rule("npm-token", "a token of npm", r"\bnpm_[A-Za-z0-9]{36}\b"),
    rule("npmrc-token", "a token in an .npmrc", r"_authToken\s*=\s*([A-Za-z0-9_-]{20,})"),
    rule("pypi-token", "a token of PyPI", r"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,}"),
    rule("rubygems-key", "a key of RubyGems", r"\brubygems_[a-f0-9]{48}\b"),
    rule("rust-registry-token", "a token of the Rust registry", r"\bcio[A-Za-z0-9]{32}\b"),
    rule("nuget-key", "a key of NuGet", r"\boy2[a-z0-9]{43}\b"),
    rule("docker-token", "a token of Docker Hub", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{27,}"),
    rule("sendgrid-key", "a key of SendGrid", r"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}\b"),
    rule("mailgun-key", "a key of Mailgun", r"\bkey-[a-f0-9]{32}\b"),
    rule("mailchimp-key", "a key of Mailchimp", r"\b[a-f0-9]{32}-us\d{1,2}\b"),
    rule("brevo-key", "a key of Brevo", r"\bxkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}\b"),
    rule("postman-key", "a key of Postman", r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}\b"),
    rule("twilio-key", "a key of Twilio", r"\bSK[a-f0-9]{32}\b"),
    rule("telegram-token", "a token of a Telegram bot", r"\b\d{8,10}:AA[A-Za-z0-9_-]{33}\b"),
    rule("discord-token", "a token of a Discord bot", r"\b[MNO][A-Za-z0-9_-]{23,25}\.[A-Za-z0-9_-]{6}\.[A-Za-z0-9_-]{27,38}\b"),
    rule("discord-webhook", "a webhook of Discord", r"https://(?:\w+\.)?discord(?:app)?\.com/api/webhooks/\d{17,20}/[A-Za-z0-9_-]{60,}"),
    rule("teams-webhook", "a webhook of Microsoft Teams", r"https://[\w-]+\.webhook\.office\.com/webhookb2/[\w@-]+/IncomingWebhook/[a-f0-9]{32}/[\w-]+"),
    rule("shopify-token", "a token of Shopify", r"\bshp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}\b"),
    rule("square-token", "a token of Square", r"\b(?:EAAA|sq0(?:atp|csp|idp)-)[A-Za-z0-9_-]{22,60}\b"),
    rule("paypal-token", "a token of Braintree", r"\baccess_token\$production\$[a-z0-9]{16}\$[a-f0-9]{32}\b"),
    rule("facebook-token", "a token of Facebook", r"\bEAA[A-Z][A-Za-z0-9]{90,}\b"),
    rule("linear-key", "a key of Linear", r"\blin_(?:api|oauth)_[A-Za-z0-9]{40,}\b"),
    rule("notion-key", "a key of Notion", r"\b(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43})\b"),
    rule("airtable-token", "a token of Airtable", r"\bpat[A-Za-z0-9]{14}\.[a-f0-9]{64}\b"),
    rule("figma-token", "a token of Figma", r"\bfig[doru]_[A-Za-z0-9_-]{40,}\b"),
    rule("grafana-token", "a token of Grafana", r"\bgl(?:c|sa)_[A-Za-z0-9+/=_]{32,}"),
    rule("newrelic-key", "a key of New Relic", r"\bNR(?:AK|JS|II|RA|AA)-[A-Za-z0-9]{19,}\b"),
    rule("sentry-token", "a token of Sentry", r"\bsntry(?:s|u)_[A-Za-z0-9+/=_]{50,}"),
    rule("datadog-key", "a key of Datadog", r#"(?i)\bdd_?(?:api|app|application)_?key\s*[=:]\s*["']?([a-f0-9]{32,40})\b"#),
    rule("vault-token", "a token of Vault", r"\bhv[sbr]\.[A-Za-z0-9_-]{24,}"),
    rule("terraform-token", "a token of Terraform Cloud", r"\b[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,}"),
    rule("pulumi-token", "a token of Pulumi", r"\bpul-[a-f0-9]{40}\b"),
    rule("databricks-token", "a token of Databricks", r"\bdapi[a-f0-9]{32}(?:-\d)?\b"),
    rule("doppler-token", "a token of Doppler", r"\bdp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9]{40,}\b"),
    rule("planetscale-token", "a password of PlanetScale", r"\bpscale_(?:pw|tkn|oauth)_[A-Za-z0-9_.=-]{32,}"),
    rule("supabase-key", "a key of Supabase", r"\bsb(?:p|_secret)_[A-Za-z0-9_]{30,}\b"),
    rule("atlassian-token", "a token of Atlassian", r"\bATATT3[A-Za-z0-9_=-]{100,}"),
    rule("dropbox-token", "a token of Dropbox", r"\bsl\.[A-Za-z0-9_-]{130,}"),
    rule("artifactory-key", "a key of Artifactory", r"\bAKC[A-Za-z0-9]{60,}\b"),
    rule("fly-token", "a token of Fly.io", r"\b(?:fo1_[A-Za-z0-9_-]{43}|fm[12][ar]?_[A-Za-z0-9+/]{100,}={0,3})"),
    rule("flutterwave-key", "a key of Flutterwave", r"\bFLWSECK-[a-f0-9]{32}-X\b"),
    rule("jwt", "a signed token (JWT)", r"\beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}"),
    chancy("connection-string", "a connection with its password", r#"\b[a-z][a-z0-9+.-]{2,20}://[^\s:/@"']{1,80}:([^\s:/@"']{6,120})@[\w.-]+"#, 2.0),
    chancy("authorization-header", "an authorization header", r#"(?i)\bauthorization["']?\s*[:=]\s*["']?(?:bearer|basic|token)\s+([A-Za-z0-9._~+/=-]{16,})"#, 3.0),
    chancy("assigned-secret", "a secret that is assigned", r#"(?i)(?:^|[^a-z])(?:[a-z0-9]+[_.-])*(?:password|passwd|passphrase|secret|token|api_?key|apikey|access_?key|auth_?key|private_?key|client_?secret|encryption_?key|credentials?)[a-z0-9_]*["']?\s*(?::=|=>|[=:])\s*["']([^"'\s]{8,200})["']"#, 3.0),
    chancy("assigned-secret-bare", "a secret that is assigned", r#"(?im)^\s*(?:export\s+)?[A-Z0-9_]*(?:PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)[A-Z0-9_]*\s*=\s*([^\s"'#$]{12,200})\s*$"#, 3.3),
];

struct Compiled {
    set: RegexSet,
    each: Vec<Regex>,
    placeholder: Regex,
    encoded: Regex,
}

static COMPILED: LazyLock<Option<Compiled>> = LazyLock::new(|| {
    let patterns = RULES.iter().map(|rule| rule.pattern);
    Some(Compiled {
        set: RegexSet::new(patterns.clone()).ok()?,
        each: patterns.map(Regex::new).collect::<Result<_, _>>().ok()?,
        placeholder: Regex::new(
            r"(?ix) ^(?: x+ | \*+ | \.+ | 0+ | -+ | <.*> | \$\{.*\} | \{\{.*\}\} | %\(?\w+\)?s? | \$\w+
              | password | passwd | secret | token | mypassword | postgres | root | admin )$
              | (?:your|my|some|the|insert|replace|change|put|add|enter)[_-]?(?:own|api|secret|token|key|pass|me|it|this|here)
              | example | dummy | placeholder | changeme | redacted | sample | fake | todo | xxxx | \*\*\*\* | \.\.\.
              | not[_-]?a[_-]?real | os\.environ | process\.env | getenv | secrets\. | vault: | abcdef123 | 1234567890",
        )
        .ok()?,
        encoded: Regex::new(r"[A-Za-z0-9+/]{40,}={0,2}").ok()?,
    })
});

/// The secrets in one line.
pub fn in_line(line: &str) -> Vec<Secret> {
    let Some(compiled) = COMPILED.as_ref() else { return Vec::new() };
    let allowed = line.contains(ALLOWED);
    let mut found = look(compiled, line, false);
    // Encoded once: whoever encodes twice means it.
    for token in compiled.encoded.find_iter(line) {
        let bytes = BASE64_STANDARD.decode(token.as_str().trim_end_matches('='));
        let bytes = bytes.or_else(|_| BASE64_STANDARD.decode(token.as_str()));
        if let Ok(text) =
            bytes.map_err(drop).and_then(|bytes| String::from_utf8(bytes).map_err(drop))
        {
            found.extend(text.lines().flat_map(|line| look(compiled, line, true)));
        }
    }
    for secret in &mut found {
        secret.allowed = allowed;
    }
    found
}

fn look(compiled: &Compiled, line: &str, encoded: bool) -> Vec<Secret> {
    let mut found: Vec<Secret> = Vec::new();
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for index in compiled.set.matches(line) {
        let Rule { id, what, chance, .. } = &RULES[index];
        for captures in compiled.each[index].captures_iter(line) {
            let Some(value) = captures.get(1).or_else(|| captures.get(0)) else { continue };
            let (text, span) = (value.as_str(), (value.start(), value.end()));
            let placeholder = compiled.placeholder.is_match(text);
            // What one rule has found in so many words, a vaguer one need not find again.
            let known = spans.iter().any(|(from, to)| span.0 < *to && *from < span.1);
            if placeholder || known || (*chance > 0.0 && entropy(text) < *chance) {
                continue;
            }
            spans.push(span);
            let masked = masked(text);
            found.push(Secret { rule: id, what, masked, encoded, allowed: false });
        }
    }
    found
}

/// How much chance is in a text, in bits for each character.
fn entropy(text: &str) -> f64 {
    let mut counts = [0u32; 256];
    text.bytes().for_each(|byte| counts[usize::from(byte)] += 1);
    let all = text.len() as f64;
    let share = |count: &u32| f64::from(*count) / all;
    counts.iter().filter(|count| **count > 0).map(|count| -share(count) * share(count).log2()).sum()
}

/// The first characters, and how many there are besides.
fn masked(text: &str) -> String {
    let shown: String = text.chars().take(4).collect();
    format!("{shown}… ({} characters)", text.chars().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(line: &str) -> Vec<&'static str> {
        in_line(line).into_iter().map(|secret| secret.rule).collect()
    }

    /// Made up here, in the forms that the providers document; put together so that nobody takes this file
    /// for one that leaks.
    fn made(parts: &[&str]) -> String {
        parts.concat()
    }

    #[test]
    fn every_rule_can_be_compiled_and_there_are_enough() {
        assert!(COMPILED.is_some());
        assert!(RULES.len() >= 60, "{}", RULES.len());
        let mut ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), RULES.len());
    }

    #[test]
    fn keys_are_found_by_their_forms() {
        for (line, rule) in [
            (made(&["key = \"AKIA", "Q3EGRZ7XKDPLM2NB\""]), "aws-access-key"),
            (made(&["ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"]), "github-token"),
            (made(&["-----BEGIN RSA PRIVATE", " KEY-----"]), "private-key"),
            (made(&["sk", "_live_4eC39HqLyjWDarjtT1zdp7dc"]), "stripe-key"),
            (made(&["postgres://app:", "kJ8s2Lq0vR@db.internal/prod"]), "connection-string"),
            (made(&["password = \"", "tR7#kq2LmZ9w\""]), "assigned-secret"),
            (made(&["export DB_PASSWORD=", "tR7kq2LmZ9wX4"]), "assigned-secret-bare"),
        ] {
            assert_eq!(rules(&line), [rule], "{line}");
        }
    }

    #[test]
    fn placeholders_names_and_ordinary_text_are_none() {
        for line in [
            "password = \"your_password_here\"",
            "api_key = \"${API_KEY}\"",
            "token = os.environ['TOKEN']",
            "SECRET_KEY=changeme_please_now",
            "let token = parser.next_token();",
            "postgres://user:password@localhost/db",
            "The password is never stored.",
            "const sha = \"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\"",
        ] {
            assert_eq!(rules(line), [] as [&str; 0], "{line}");
        }
    }

    #[test]
    fn what_is_encoded_once_is_found_and_what_may_stay_says_so() {
        let hidden =
            BASE64_STANDARD.encode(made(&["token: ghp", "_R2d9Kf83mQpL0xVbT6yWzA1sJ4uHcNe7Gi5o"]));
        let found = in_line(&format!("data = {hidden}"));
        assert_eq!((found.len(), found[0].encoded, found[0].allowed), (1, true, false));
        let line = made(&["key = 'AKIA", "Q3EGRZ7XKDPLM2NB'  # assize: allow-secret"]);
        assert!(in_line(&line)[0].allowed);
        assert!(!in_line(&line)[0].masked.contains("Q3EG"), "{:?}", in_line(&line));
    }
}
