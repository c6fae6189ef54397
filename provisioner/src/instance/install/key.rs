//! What is applied, in one text: content, everything that shapes the objects made of it, and whose rights they need.

use manifests::{
    api::{Class, bundle::Bundle, instance::BundleInstanceSpec},
    version::KubeVersion,
};
use serde_json::json;
use unpacker::Digest;

/// Returns a text that changes whenever the objects may: `version` is that of the cluster, and `has_conditions` says whether
/// operators get an OperatorCondition.
pub(in crate::instance) fn of(
    spec: &BundleInstanceSpec,
    bundle: &Bundle,
    version: KubeVersion,
    has_conditions: bool,
) -> String {
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
    if has_conditions
        && class == Some(Class::Registry)
        && let Some(shape) = shape.as_object_mut()
    {
        shape.insert("operatorCondition".to_owned(), true.into());
    }
    Digest::of(shape.to_string().as_bytes()).to_string()
}
