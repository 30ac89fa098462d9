//! Tests of the authentication to the NATS servers: password, token, credentials file, TLS.

use std::path::Path;
use std::time::Duration;

use assize_cluster::{Cluster, ClusterCredentials, ClusterOptions};
use assize_run::StoreError;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::servers::{Servers, Used};

/// Connection options with these credentials and a short timeout.
fn impatient(servers: &Servers, identification: ClusterCredentials) -> ClusterOptions {
    let patience = Some(Duration::from_secs(2));
    ClusterOptions { credentials: identification, timeout: patience, ..servers.options() }
}

async fn opened(options: ClusterOptions) -> Result<(), StoreError> {
    Cluster::connect(options).await?.store().await.map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn correct_password_or_token_authenticates_and_a_wrong_or_missing_password_is_rejected() {
    let owned = |arguments: &[&str]| arguments.iter().map(ToString::to_string).collect();
    let arguments = owned(&["--user", "assize", "--pass", "open sesame"]);
    let servers = Servers::start_with(TempDir::new().unwrap(), arguments);
    let user = |password: &str| {
        let user = Some(("assize".to_owned(), password.to_owned()));
        impatient(&servers, ClusterCredentials { user, ..ClusterCredentials::default() })
    };
    opened(user("open sesame")).await.unwrap();
    for refused in [user("open, barley"), impatient(&servers, ClusterCredentials::default())] {
        let error = opened(refused).await.unwrap_err().to_string();
        assert!(error.to_lowercase().contains("authorization"), "{error}");
    }
    let servers = Servers::start_with(TempDir::new().unwrap(), owned(&["--auth", "a token"]));
    let token = Some("a token".to_owned());
    opened(impatient(&servers, ClusterCredentials { token, ..ClusterCredentials::default() }))
        .await
        .unwrap();
}

/// Creates a NATS JWT for the key `of`, signed with the key `by`.
fn signed_jwt(by: &nkeys::KeyPair, of: &nkeys::KeyPair, nats: Value) -> String {
    let claims = json!({"jti": of.public_key(), "iat": 1, "iss": by.public_key(),
        "sub": of.public_key(), "name": "assize", "nats": nats});
    let head = json!({"typ": "JWT", "alg": "ed25519-nkey"});
    let unsigned = [head, claims].map(|part| URL_SAFE_NO_PAD.encode(part.to_string())).join(".");
    let signature = URL_SAFE_NO_PAD.encode(by.sign(unsigned.as_bytes()).unwrap());
    format!("{unsigned}.{signature}")
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_file_is_accepted_for_a_known_account_and_rejected_for_an_unknown_account() {
    let folder = TempDir::new().unwrap();
    let (operator, account, user) =
        (nkeys::KeyPair::new_operator(), nkeys::KeyPair::new_account(), nkeys::KeyPair::new_user());
    let operator_jwt = signed_jwt(&operator, &operator, json!({"type": "operator", "version": 2}));
    let limits = json!({"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1,
        "wildcards": true, "conn": -1, "leaf": -1, "mem_storage": -1, "disk_storage": -1,
        "streams": -1, "consumer": -1});
    let preload = |account: &nkeys::KeyPair, limits: &Value| {
        let claims = json!({"type": "account", "version": 2, "limits": limits});
        format!("{}: {}", account.public_key(), signed_jwt(&operator, account, claims))
    };
    // The servers also need a system account, in addition to the account of the test.
    let system = nkeys::KeyPair::new_account();
    let accounts =
        [preload(&account, &limits), preload(&system, &json!({"conn": -1, "subs": -1}))].join("\n");
    let config = folder.path().join("accounts.conf");
    let text = format!(
        "operator: {operator_jwt}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n{accounts}\n}}\n",
        system.public_key()
    );
    std::fs::write(&config, text).unwrap();
    let arguments = vec!["--config".to_owned(), config.display().to_string()];
    let servers = Servers::start_with(TempDir::new().unwrap(), arguments);
    let user_claims = json!({"type": "user", "version": 2, "subs": -1, "data": -1, "payload": -1});
    let with_credentials = |by: &nkeys::KeyPair, name: &str| {
        let file = folder.path().join(name);
        let (jwt, seed) = (signed_jwt(by, &user, user_claims.clone()), user.seed().unwrap());
        let text = format!(
            "-----BEGIN NATS USER JWT-----\n{jwt}\n------END NATS USER JWT------\n\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        std::fs::write(&file, text).unwrap();
        impatient(
            &servers,
            ClusterCredentials { credentials: Some(file), ..ClusterCredentials::default() },
        )
    };
    opened(with_credentials(&account, "ours.creds")).await.unwrap();
    // These credentials are signed by an account that the servers do not know.
    let stranger = with_credentials(&nkeys::KeyPair::new_account(), "theirs.creds");
    let error = opened(stranger).await.unwrap_err().to_string();
    assert!(error.to_lowercase().contains("authorization"), "{error}");
}

/// Writes a certificate and its private key to files; returns their paths.
fn write(folder: &Path, name: &str, certificate: &str, key: &KeyPair) -> [std::path::PathBuf; 2] {
    let files = [format!("{name}.pem"), format!("{name}.key")].map(|file| folder.join(file));
    std::fs::write(&files[0], certificate).unwrap();
    std::fs::write(&files[1], key.serialize_pem()).unwrap();
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn mutual_tls_requires_a_client_certificate_and_the_ca_of_the_servers() {
    let folder = TempDir::new().unwrap();
    let mut params = CertificateParams::new([]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let signed = |name: &str| {
        let key = KeyPair::generate().unwrap();
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let certificate =
            CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
        write(folder.path(), name, &certificate.pem(), &key)
    };
    let [ours, our_key] = signed("ours");
    let [theirs, their_key] = signed("theirs");
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
    let no_certificate =
        ClusterCredentials { authority: Some(trusted), ..ClusterCredentials::default() };
    let complete =
        ClusterCredentials { certificate: Some((ours, our_key)), ..no_certificate.clone() };
    opened(impatient(&servers, complete)).await.unwrap();
    // Without a client certificate, the servers refuse the client. Without the CA certificate, the client refuses the
    // servers.
    opened(impatient(&servers, no_certificate)).await.unwrap_err();
    opened(impatient(&servers, ClusterCredentials::default())).await.unwrap_err();
}
