//! Certificates, and their rotation while the service runs.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, ResourceExt, api::PostParams};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, KeyUsagePurpose};
use serde_json::{Value, json};

use super::support::{Site, namespace};
use crate::support::{create, delete, merge, until};

const NAME: &str = "rukpak-ca";

/// Reports whether a client that trusts this CA bundle can connect to the service.
async fn is_trusted(site: &Site, ca: &str) -> bool {
    let request = site.browser(ca).get(site.url("/bundles/a.tgz"));
    match request.send().await {
        Ok(response) => response.status() == 401,
        Err(error) => {
            assert!(error.is_connect(), "{error:?}");
            false
        }
    }
}

async fn until_trusted(site: &Site, ca: &str) {
    let trusted = async || is_trusted(site, ca).await;
    until("the service is trusted", trusted, |trusted| *trusted).await;
}

async fn another(site: &Site, first: &str) -> String {
    let published = async || site.ca().await;
    until("another CA", published, |found| found != first).await
}

async fn annotate(site: &Site, annotations: Value) {
    let patch = json!({"metadata": {"annotations": annotations}});
    merge(&site.secrets(), NAME, &patch).await;
}

// parity: rukpak-23, rukpak-44
#[tokio::test]
async fn replicas_share_one_ca_that_is_replaced_and_rotated() {
    // Each replica has its own certificate.
    let namespace = namespace().await;
    let mut sites = Vec::new();
    for _ in 0..3 {
        sites.push(Site::start(namespace.clone(), None).await);
    }
    for site in &mut sites {
        site.until_ready().await;
    }
    let secret = sites[0].secrets().get(NAME).await.unwrap();
    let ByteString(published) = secret.data.as_ref().unwrap()["ca.crt"].clone();
    let published = String::from_utf8(published).unwrap();
    assert_eq!(published.matches("BEGIN CERTIFICATE").count(), 1);
    for site in &sites {
        until_trusted(site, &published).await;
    }
    let site = sites.pop().unwrap();
    for other in sites {
        other.stop().await;
    }

    let first = site.ca().await;
    assert!(is_trusted(&site, &first).await);
    // The ConfigMap is published again after any event that wakes the service: here a change of the Secret.
    delete(&site.config_maps(), NAME).await;
    annotate(&site, json!({"example.com/note": "x"})).await;
    assert_eq!(site.ca().await, first);
    tests::assert_rows!(site.secrets().get(NAME).await.unwrap().type_.as_deref() => Some("kubernetes.io/tls"));
    delete(&site.secrets(), NAME).await;
    let second = another(&site, &first).await;
    assert!(is_trusted(&site, &second).await);
    assert!(!is_trusted(&site, &first).await);
    // A damaged Secret is replaced, too.
    let damage = json!({"data": {"tls.key": "bm9uc2Vuc2U="}});
    merge(&site.secrets(), NAME, &damage).await;
    assert!(is_trusted(&site, &another(&site, &second).await).await);

    // The successor is published before it signs.
    let first = site.ca().await;
    let secret = site.secrets().get(NAME).await.unwrap();
    let soon = Timestamp::now() + SignedDuration::from_hours(50 * 24);
    assert!(secret.annotations().contains_key("core.rukpak.io/ends"));
    annotate(&site, json!({"core.rukpak.io/ends": soon.to_string()})).await;
    let both = another(&site, &first).await;
    assert_eq!(both.matches("BEGIN CERTIFICATE").count(), 2);
    assert!(both.starts_with(first.trim_end()));
    assert!(is_trusted(&site, &first).await && is_trusted(&site, &both).await);

    // A month before its expiry, and a month after its successor was published.
    let past = Timestamp::now() + SignedDuration::from_hours(330 * 24);
    let soon = Timestamp::now() + SignedDuration::from_hours(20 * 24);
    let (soon, past) = (soon.to_string(), past.to_string());
    let ends = json!({"core.rukpak.io/ends": soon, "core.rukpak.io/successor-ends": past});
    annotate(&site, ends).await;
    let signs = async || is_trusted(&site, &first).await;
    until("succession", signs, |signs| !signs).await;
    // A client that has read the ConfigMap in that month still trusts the service.
    assert!(is_trusted(&site, &both).await && is_trusted(&site, &site.ca().await).await);
    site.stop().await;
}

// parity: rukpak-44
#[tokio::test]
async fn foreign_secrets_are_followed_and_never_overwritten() {
    let taken = namespace().await;
    let client = super::support::cluster().await.client().unwrap();
    let before = create(&Api::namespaced(client, &taken), &secret(NAME, &ca(&taken))).await;
    let mut site = Site::start(taken.clone(), None).await;
    // Another replica serves with it, because its options name the Secret; in between the first replica has read it.
    let mut other = Site::start(taken, Some(NAME)).await;
    other.until_ready().await;
    assert!(!*site.ready.borrow());
    assert_eq!(site.secrets().get(NAME).await.unwrap(), before);
    // The remedy that its log names.
    delete(&site.secrets(), NAME).await;
    site.until_ready().await;

    // The Secret of cert-manager is configured, and does not exist yet.
    let namespace = namespace().await;
    let mut site = Site::start(namespace.clone(), Some("given")).await;
    assert!(!*site.ready.borrow());
    let first = ca(&namespace);
    let secrets = site.secrets();
    create(&secrets, &secret("given", &first)).await;
    site.until_ready().await;
    assert_eq!(site.ca().await, first.ca);
    assert!(is_trusted(&site, &first.ca).await);

    let replace = async |served: &Served| {
        let (params, secret) = (PostParams::default(), secret("given", served));
        secrets.replace("given", &params, &secret).await.unwrap();
    };
    let second = ca(&namespace);
    replace(&second).await;
    until_trusted(&site, &second.ca).await;

    // The key of another certificate is unusable, and changes nothing.
    let mixed = tests::with!(ca(&namespace) => key: first.key);
    replace(&mixed).await;
    assert!(is_trusted(&site, &second.ca).await);
    let third = ca(&namespace);
    replace(&third).await;
    until_trusted(&site, &third.ca).await;
    assert_eq!(secrets.get_opt(NAME).await.unwrap(), None);
}

/// A CA that is also the serving certificate, for all names of the service.
struct Served {
    certificate: String,
    ca: String,
    key: String,
}

fn ca(namespace: &str) -> Served {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new([format!("core.{namespace}.svc")]).unwrap();
    let certificate = params.signed_by(&key, &issuer).unwrap();
    Served {
        certificate: certificate.pem(),
        ca: issuer.pem(),
        key: key.serialize_pem(),
    }
}

fn secret(name: &str, served: &Served) -> Secret {
    let data = json!({"tls.crt": served.certificate, "tls.key": served.key, "ca.crt": served.ca});
    let secret =
        json!({"metadata": {"name": name}, "type": "kubernetes.io/tls", "stringData": data});
    serde_json::from_value(secret).unwrap()
}
