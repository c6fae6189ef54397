//! How the provisioner is to pull a bundle, as the flags say.

use anyhow::{Context, anyhow};
use k8s_openapi::api::core::v1::Secret;
use kube::Api;

use crate::{args::RegistryArgs, cluster::Cluster};

/// Where operator-sdk looks for a certificate.
const KEY: &str = "cert.pem";

/// How an image is pulled; what the flags do not say is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Access {
    pub(super) pull_secret: Option<String>,
    /// Of authorities to believe, in PEM.
    pub(super) certificates: Option<String>,
    pub(super) is_insecure: bool,
}

// === impl Access ===

impl Access {
    /// What the flags say, with the certificate that is in the Secret by now.
    pub(super) async fn read(cluster: &Cluster, args: &RegistryArgs) -> anyhow::Result<Self> {
        let certificates = match &args.ca_secret_name {
            Some(name) => Some(certificates(cluster, name).await?),
            None => None,
        };
        Ok(Self {
            pull_secret: args.pull_secret_name.clone(),
            certificates,
            is_insecure: !args.verifies(),
        })
    }
}

async fn certificates(cluster: &Cluster, name: &str) -> anyhow::Result<String> {
    let namespace = cluster.system_namespace.as_str();
    let api = Api::<Secret>::namespaced(cluster.client.clone(), namespace);
    let found = api.get_opt(name).await.map_err(|error| {
        cluster.trouble(format!("failed to read Secret {namespace}/{name}"), error)
    })?;
    let remedy = || {
        format!(
            "make it with \"kubectl create secret generic {name} --namespace {namespace} --from-file={KEY}=FILE\", FILE being \
             the certificate"
        )
    };
    let found = found.with_context(|| {
        format!(
            "there is no Secret {namespace}/{name}, which --ca-secret-name names: {}",
            remedy()
        )
    })?;
    of(&found).ok_or_else(|| {
        anyhow!(
            "Secret {namespace}/{name} has no certificate in PEM under the key {KEY}: {}",
            remedy()
        )
    })
}

/// The certificate in a Secret.
fn of(secret: &Secret) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(KEY)?;
    let text = String::from_utf8(bytes.0.clone()).ok()?;
    Some(text).filter(|it| it.contains("-----BEGIN CERTIFICATE-----"))
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
            let secret = Secret {
                data: Some(BTreeMap::from([(
                    key.to_owned(),
                    ByteString(value.to_vec()),
                )])),
                ..Secret::default()
            };
            assert_eq!(of(&secret).as_deref(), expected, "{key} {value:?}");
        }
        assert_eq!(of(&Secret::default()), None);
    }
}
