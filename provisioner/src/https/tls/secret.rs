//! How authorities are written into a Secret, and read back.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{ResourceExt, api::ObjectMeta};

use super::authority::{Authorities, Authority, Previous};

/// When they end; the first one also says that the Secret is ours.
const ENDS: &str = "core.rukpak.io/ends";
const NEXT_ENDS: &str = "core.rukpak.io/successor-ends";
const PREVIOUS_ENDS: &str = "core.rukpak.io/predecessor-ends";

/// Reports whether a Secret was made by us, whatever has become of it.
pub(super) fn is_ours(secret: &Secret) -> bool {
    secret.annotations().contains_key(ENDS)
}

/// What a Secret holds; nothing if it is damaged.
pub(super) fn read(secret: &Secret) -> Option<Authorities> {
    let ends = |key| secret.annotations().get(key)?.parse::<Timestamp>().ok();
    let authority = |certificate, key, at| {
        Some(Authority {
            certificate: text(secret, certificate)?,
            key: text(secret, key)?,
            ends: ends(at)?,
        })
    };
    Some(Authorities {
        current: authority("tls.crt", "tls.key", ENDS)?,
        next: authority("next.crt", "next.key", NEXT_ENDS),
        previous: text(secret, "previous.crt")
            .zip(ends(PREVIOUS_ENDS))
            .map(|(certificate, ends)| Previous { certificate, ends }),
    })
}

/// The Secret, to be created, or to replace the one with that resourceVersion and no later one.
pub(super) fn write(
    authorities: &Authorities,
    name: &str,
    namespace: &str,
    version: Option<String>,
) -> Secret {
    let Authorities {
        current,
        next,
        previous,
    } = authorities;
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
    put("ca.crt", &authorities.bundle());
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

/// One key of a Secret.
pub(super) fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok()
}
