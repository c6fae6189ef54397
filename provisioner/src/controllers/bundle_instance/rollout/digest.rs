//! Key of the applied state: the content, all inputs of the rendering, and the service account. Hash of those inputs that
//! come from the user and the bundle. Key of an attempt to reach that state. Pure; no I/O.

use kube::ResourceExt as _;
use manifests::{
    api::{
        Class,
        bundle::Bundle,
        bundle_instance::{BundleInstance, BundleInstanceSpec, RevisionStatus},
        labels,
    },
    object::Identity,
    version::KubeVersion,
};
use serde_json::json;
use unpacker::Digest;

use super::Target;
use crate::controllers::bundle;

/// Returns the key of an attempt. If one of the inputs changes, the next attempt starts at once. `key` is the key of the
/// desired state. `apis` counts the changes of the served APIs, and `releases` the releases by other instances. `freed` has
/// the objects whose deletion was awaited.
pub(super) fn attempt_key(
    instance: &BundleInstance,
    target: &Target<'_>,
    key: &str,
    apis: u64,
    releases: u64,
    freed: &[Identity],
) -> String {
    let has_lost_content = target.bundle().is_some_and(bundle::is_lost);
    format!(
        "{key} {} {:?} {:?} {apis} {releases} {freed:?} {has_lost_content}",
        target.bundle_name(),
        instance.metadata.generation,
        instance.annotations().get(labels::RETRY),
    )
}

/// Returns the key of a revision that is rolled out from its record.
pub(crate) fn revision_key(revision: &RevisionStatus) -> String {
    format!("revision {}", revision.digest)
}

/// Returns the key, which changes whenever the rendered objects may change. `version` is the version of the cluster.
/// `has_conditions` reports whether operators get an OperatorCondition.
pub(crate) fn digest_of(
    spec: &BundleInstanceSpec,
    bundle: &Bundle,
    version: KubeVersion,
    has_conditions: bool,
) -> String {
    let mut shape = json!({
        "content": content_digest(bundle),
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

/// Returns the hash of the inputs that come from the user and the bundle. Other releases of the provisioner and of Kubernetes
/// do not change it. The service account is compared separately.
pub(crate) fn configuration_hash(spec: &BundleInstanceSpec, bundle: &Bundle) -> String {
    let inputs = json!({
        "content": content_digest(bundle),
        "class": bundle.spec.provisioner_class_name,
        "namespace": spec.install_namespace,
        "config": spec.config,
    });
    let mut hash = Digest::sha256(inputs.to_string().as_bytes()).hex();
    hash.truncate(40);
    hash
}

fn content_digest(bundle: &Bundle) -> Option<&String> {
    bundle.status.as_ref()?.content_digest.as_ref()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::Value;

    use super::*;
    use crate::{
        controllers::bundle_instance::{
            attempt_backoff::RolloutBackoff, outcome::RetryClass, rollout::Source,
        },
        fixtures::spec,
    };

    #[test]
    fn configuration_hash_depends_on_spec_and_content() {
        let hash = |fields: &Value, class: &str, content: &str| {
            let bundle = object!({
                "metadata": {"name": "b"}, "spec": {"provisionerClassName": class},
                "status": {"contentDigest": content},
            });
            configuration_hash(&spec(fields), &bundle)
        };
        let [plain, registry] = ["core-rukpak-io-plain", "core-rukpak-io-registry"];
        let expected = hash(&json!({}), plain, "sha256:1");
        // Spec, class, content, and whether the hash is the same.
        assert_each!(|fields, class, content, is_same| hash(&fields, class, content) == expected => is_same;
            json!({}), plain, "sha256:1" => true;
            json!({"revisionHistoryLimit": 5}), plain, "sha256:1" => true;
            json!({"serviceAccount": {"name": "a", "namespace": "b"}}), plain, "sha256:1" => true;
            json!({"config": {"deploymentConfig": {"env": []}}}), plain, "sha256:1" => false;
            json!({"installNamespace": "a"}), plain, "sha256:1" => false;
            json!({}), registry, "sha256:1" => false;
            json!({}), plain, "sha256:2" => false;
        );
    }

    #[test]
    fn restored_content_ends_the_delay_of_the_next_attempt() {
        let instance: BundleInstance = object!({"metadata": {"name": "a"}});
        let key = |conditions: Value| {
            let bundle: Bundle =
                object!({"metadata": {"name": "b"}, "status": {"conditions": conditions}});
            let (source, rollback) = (Source::Bundle(&bundle), None);
            let target = Target { source, rollback };
            attempt_key(&instance, &target, "key", 1, 1, &[])
        };
        let found = key(json!([]));
        let lost = crate::fixtures::condition("ContentAvailable", "False", "UnpackFailed", "lost");
        let lost = key(json!([lost]));
        let now = Timestamp::UNIX_EPOCH;
        let mut attempts = RolloutBackoff::default();
        let wait = attempts.record_failure(lost.clone(), RetryClass::Backoff, now);
        assert_rows! {
            attempts.remaining_delay(&lost, now) => Some(wait);
            attempts.remaining_delay(&found, now) => None;
        }
    }
}
