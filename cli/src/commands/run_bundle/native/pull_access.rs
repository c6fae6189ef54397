//! Pull settings of a bundle image for the provisioner, from the command line.

use anyhow::{Context, anyhow};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use crate::{args::RegistryArgs, cluster::Cluster};

/// Key of the Secret in which operator-sdk expects the certificate.
const KEY: &str = "cert.pem";

/// Pull settings of an image. Settings that no flag sets are `None` or false.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PullAccess {
    pub(super) pull_secret: Option<String>,
    /// Trusted CA certificates in PEM.
    pub(super) certificates: Option<String>,
    pub(super) is_insecure: bool,
}

// === impl PullAccess ===

impl PullAccess {
    /// Reads the settings from the flags, and the certificate from its Secret.
    pub(super) async fn read(cluster: &Cluster, args: &RegistryArgs) -> anyhow::Result<Self> {
        let certificates = match &args.ca_secret_name {
            Some(name) => Some(certificates(cluster, name).await?),
            None => None,
        };
        Ok(Self {
            pull_secret: args.pull_secret_name.clone(),
            certificates,
            is_insecure: !args.verify_tls(),
        })
    }
}

async fn certificates(cluster: &Cluster, name: &str) -> anyhow::Result<String> {
    let namespace = cluster.system_namespace.as_str();
    let api = Api::<Secret>::namespaced(cluster.client.clone(), namespace);
    let secret = api.get_opt(name).await.map_err(|error| {
        cluster.explain(format!("failed to read Secret {namespace}/{name}"), error)
    })?;
    let remedy = || {
        format!(
            "create it with \"kubectl create secret generic {name} --namespace {namespace} --from-file={KEY}=FILE\", where \
             FILE is the certificate"
        )
    };
    let secret = secret.with_context(|| {
        format!(
            "Secret {namespace}/{name} of --ca-secret-name not found; {}",
            remedy()
        )
    })?;
    certificate(&secret).ok_or_else(|| {
        anyhow!(
            "Secret {namespace}/{name} has no PEM certificate under key {KEY}; {}",
            remedy()
        )
    })
}

/// Returns the certificate in a Secret.
fn certificate(secret: &Secret) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(KEY)?;
    let text = String::from_utf8(bytes.0.clone()).ok()?;
    Some(text).filter(|text| text.contains("-----BEGIN CERTIFICATE-----"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::ByteString;

    use super::*;

    #[test]
    fn certificates_are_under_the_key_of_operator_sdk() {
        let pem = "-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n";
        for (key, value, expected) in [
            ("cert.pem", pem.as_bytes(), Some(pem)),
            ("ca.crt", pem.as_bytes(), None),
            ("cert.pem", b"MII=", None),
            ("cert.pem", b"\xff-----BEGIN CERTIFICATE-----", None),
        ] {
            let data = BTreeMap::from([(key.to_owned(), ByteString(value.to_vec()))]);
            let secret = ::tests::with!(Secret, data: Some(data));
            assert_eq!(certificate(&secret).as_deref(), expected, "{key} {value:?}");
        }
        assert_eq!(certificate(&Secret::default()), None);
    }
}
