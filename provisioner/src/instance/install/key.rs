//! What is applied, in one text: content, everything that shapes the objects made of it, and whose rights they need.

use manifests::{
    api::{Class, bundle::Bundle, instance::BundleInstanceSpec},
    version::KubeVersion,
};
use serde_json::json;
use sha2::{Digest, Sha256};

/// What of the cluster shapes objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::instance) struct Shape {
    pub(in crate::instance) version: KubeVersion,
    /// Whether operators get an OperatorCondition.
    pub(in crate::instance) has_conditions: bool,
}

/// Changes whenever the objects may.
pub(in crate::instance) fn of(
    spec: &BundleInstanceSpec,
    bundle: &Bundle,
    cluster: Shape,
) -> String {
    let version = cluster.version;
    let mut shape = json!({
        "content": bundle.status.as_ref().and_then(|status| status.content_digest.as_ref()),
        "class": bundle.spec.provisioner_class_name,
        "namespace": spec.install_namespace,
        "config": spec.config,
        // Another account has other rights, which are looked at once.
        "account": spec.service_account,
        "kubernetes": [version.major, version.minor],
        // Another release of ours may convert better.
        "converter": env!("CARGO_PKG_VERSION"),
    });
    // Not said where there are none, so that what was applied before they were known stays as it is.
    let class = Class::parse(&bundle.spec.provisioner_class_name);
    if cluster.has_conditions
        && class == Some(Class::Registry)
        && let Some(shape) = shape.as_object_mut()
    {
        shape.insert("operatorCondition".to_owned(), true.into());
    }
    let digest = Sha256::digest(shape.to_string().as_bytes());
    let mut text = String::with_capacity(71);
    text.push_str("sha256:");
    for byte in digest {
        use std::fmt::Write as _;
        let _ = write!(text, "{byte:02x}"); // a String takes everything
    }
    text
}
