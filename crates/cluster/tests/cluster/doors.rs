//! Servers that do not let everybody in.

use std::path::Path;
use std::time::Duration;

use assize_cluster::{Cluster, Identification, Options};
use assize_run::StoreError;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::servers::{Servers, Used};

fn impatient(servers: &Servers, identification: Identification) -> Options {
    let patience = Some(Duration::from_secs(2));
    Options { identification, patience, ..servers.options() }
}

async fn opened(options: Options) -> Result<(), StoreError> {
    Cluster::connect(options).await?.store().await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_password_or_a_token_opens_the_door() {
    let told = |arguments: &[&str]| arguments.iter().map(ToString::to_string).collect();
    let words = told(&["--user", "assize", "--pass", "open sesame"]);
    let servers = Servers::start_with(TempDir::new().unwrap(), words);
    let user = |word: &str| {
        let user = Some(("assize".to_owned(), word.to_owned()));
        impatient(&servers, Identification { user, ..Identification::default() })
    };
    opened(user("open sesame")).await.unwrap();
    for refused in [user("open, barley"), impatient(&servers, Identification::default())] {
        let error = opened(refused).await.unwrap_err().to_string();
        assert!(error.to_lowercase().contains("authorization"), "{error}");
    }
    let servers = Servers::start_with(TempDir::new().unwrap(), told(&["--auth", "a token"]));
    let token = Some("a token".to_owned());
    opened(impatient(&servers, Identification { token, ..Identification::default() }))
        .await
        .unwrap();
}

/// What one key says of another, as servers that know accounts believe it.
fn vouched(by: &nkeys::KeyPair, of: &nkeys::KeyPair, says: Value) -> String {
    let claims = json!({"jti": of.public_key(), "iat": 1, "iss": by.public_key(),
        "sub": of.public_key(), "name": "assize", "nats": says});
    let head = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let said = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signed = URL_SAFE_NO_PAD.encode(by.sign(said.as_bytes()).unwrap());
    format!("{said}.{signed}")
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_open_the_door() {
    let folder = TempDir::new().unwrap();
    let (operator, account, user) =
        (nkeys::KeyPair::new_operator(), nkeys::KeyPair::new_account(), nkeys::KeyPair::new_user());
    let operated = vouched(&operator, &operator, json!({"type": "operator", "version": 2}));
    let limits = json!({"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
        "wildcards": true, "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1,
        "streams": -1, "consumer": -1});
    let known = |account: &nkeys::KeyPair, limits: &Value| {
        let says = json!({"type": "account", "version": 2, "limits": limits});
        format!("{}: {}", account.public_key(), vouched(&operator, account, says))
    };
    // The servers' own, besides ours.
    let system = nkeys::KeyPair::new_account();
    let accounts =
        [known(&account, &limits), known(&system, &json!({"conn": -1, "subs": -1}))].join("\n");
    let config = folder.path().join("accounts.conf");
    let text = format!(
        "operator: {operated}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n{accounts}\n}}\n",
        system.public_key()
    );
    std::fs::write(&config, text).unwrap();
    let arguments = vec!["--config".to_owned(), config.display().to_string()];
    let servers = Servers::start_with(TempDir::new().unwrap(), arguments);
    let of_user = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
    let shown = |by: &nkeys::KeyPair, name: &str| {
        let file = folder.path().join(name);
        let (jwt, seed) = (vouched(by, &user, of_user.clone()), user.seed().unwrap());
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        std::fs::write(&file, text).unwrap();
        impatient(&servers, Identification { credentials: Some(file), ..Identification::default() })
    };
    opened(shown(&account, "ours.creds")).await.unwrap();
    // Nobody whom the servers know vouches for these.
    let stranger = shown(&nkeys::KeyPair::new_account(), "theirs.creds");
    let error = opened(stranger).await.unwrap_err().to_string();
    assert!(error.to_lowercase().contains("authorization"), "{error}");
}

/// A certificate and its key, in files.
fn write(folder: &Path, name: &str, certificate: &str, key: &KeyPair) -> [std::path::PathBuf; 2] {
    let files = [format!("{name}.pem"), format!("{name}.key")].map(|file| folder.join(file));
    std::fs::write(&files[0], certificate).unwrap();
    std::fs::write(&files[1], key.serialize_pem()).unwrap();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn both_sides_show_who_they_are() {
    let folder = TempDir::new().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let vouched = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate =
            CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        write(folder.path(), name, &certificate.pem(), &key)
    };
    let [ours, our_key] = vouched("ours");
    let [theirs, their_key] = vouched("theirs");
    let trusted = folder.path().join("authority.pem");
    std::fs::write(&trusted, authority.pem()).unwrap();
    let show = |path: &Path| path.display().to_string();
    let mut arguments = vec!["--tls".to_owned(), "--tlsverify".to_owned()];
    arguments.extend([
        "--tlscert".to_owned(),
        show(&theirs),
        "--tlskey".to_owned(),
        show(&their_key),
    ]);
    arguments.extend(["--tlscacert".to_owned(), show(&trusted)]);
    let servers = Servers::start_with(TempDir::new().unwrap(), arguments);
    let known = Identification { authority: Some(trusted), ..Identification::default() };
    let whole = Identification { certificate: Some((ours, our_key)), ..known.clone() };
    opened(impatient(&servers, whole)).await.unwrap();
    // Without a certificate of our own we are nobody, and without the authority they are.
    opened(impatient(&servers, known)).await.unwrap_err();
    opened(impatient(&servers, Identification::default())).await.unwrap_err();
}
