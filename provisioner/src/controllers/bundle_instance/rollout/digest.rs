//! Key of the applied state: the content, all inputs of the rendering, and the service account. Pure; no I/O.

use manifests::{
    api::{Class, bundle::Bundle, bundle_instance::BundleInstanceSpec},
    version::KubeVersion,
};
use serde_json::json;
use unpacker::Digest;

/// Returns the key, which changes whenever the rendered objects may change. `version` is the version of the cluster.
/// `has_conditions` reports whether operators get an OperatorCondition.
pub(crate) fn digest_of(
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
        // Another service account has other permissions, which are checked at once.
        "account": spec.service_account,
        "kubernetes": [version.major, version.minor],
        // Another release of the provisioner may render other objects.
        "converter": env!("CARGO_PKG_VERSION"),
    });
    // Omitted if false, so that keys of an earlier release, which did not have this input, do not change.
    let class = Class::parse(&bundle.spec.provisioner_class_name);
    if has_conditions
        && class == Some(Class::Registry)
        && let Some(shape) = shape.as_object_mut()
    {
        shape.insert("operatorCondition".to_owned(), true.into());
    }
    Digest::sha256(shape.to_string().as_bytes()).to_string()
}
