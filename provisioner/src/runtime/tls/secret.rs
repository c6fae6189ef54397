//! Encoding of CAs as a Secret.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{ResourceExt, api::ObjectMeta};

use super::ca::{CaRotation, CertificateAuthority, RetiredCa};

/// Annotations with the expiry of each CA. The first one also marks the Secret as managed by the provisioner.
const ENDS: &str = "core.rukpak.io/ends";
const NEXT_ENDS: &str = "core.rukpak.io/successor-ends";
const PREVIOUS_ENDS: &str = "core.rukpak.io/predecessor-ends";

/// Reports whether the provisioner manages a Secret, even if its data is corrupt.
pub(super) fn is_managed(secret: &Secret) -> bool {
    secret.annotations().contains_key(ENDS)
}

/// Returns the CAs of a Secret, or `None` if it is corrupt.
pub(super) fn read(secret: &Secret) -> Option<CaRotation> {
    let ends = |key| secret.annotations().get(key)?.parse::<Timestamp>().ok();
    let ca = |certificate, key, expiry_key| {
        Some(CertificateAuthority {
            certificate: text(secret, certificate)?,
            key: text(secret, key)?,
            ends: ends(expiry_key)?,
        })
    };
    Some(CaRotation {
        current: ca("tls.crt", "tls.key", ENDS)?,
        next: ca("next.crt", "next.key", NEXT_ENDS),
        previous: text(secret, "previous.crt")
            .zip(ends(PREVIOUS_ENDS))
            .map(|(certificate, ends)| RetiredCa { certificate, ends }),
    })
}

/// Returns the Secret for a create, or for a replace of the Secret with that resourceVersion only.
pub(super) fn write(
    cas: &CaRotation,
    name: &str,
    namespace: &str,
    version: Option<String>,
) -> Secret {
    let CaRotation {
        current,
        next,
        previous,
    } = cas;
    let mut data = BTreeMap::new();
    let mut annotations = BTreeMap::new();
    let mut put = |key: &str, text: &str| {
        data.insert(key.to_owned(), ByteString(text.as_bytes().to_vec()));
    };
    let mut ends = |key: &str, at: Timestamp| {
        annotations.insert(key.to_owned(), at.to_string());
    };
    put("tls.crt", &current.certificate);
    put("tls.key", &current.key);
    put("ca.crt", &cas.bundle());
    ends(ENDS, current.ends);
    if let Some(next) = next {
        put("next.crt", &next.certificate);
        put("next.key", &next.key);
        ends(NEXT_ENDS, next.ends);
    }
    if let Some(previous) = previous {
        put("previous.crt", &previous.certificate);
        ends(PREVIOUS_ENDS, previous.ends);
    }
    Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            annotations: Some(annotations),
            resource_version: version,
            ..ObjectMeta::default()
        },
        type_: Some("kubernetes.io/tls".to_owned()),
        data: Some(data),
        ..Secret::default()
    }
}

/// Returns the value of a key of a Secret, if it is UTF-8.
pub(super) fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok()
}
