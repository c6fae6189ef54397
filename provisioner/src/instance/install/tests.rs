use manifests::api::bundle::{BundleSource, BundleSpec};

use super::*;

#[test]
fn recreated_bundles_change_no_more_than_the_record() {
    let spec = BundleSpec {
        provisioner_class_name: "core-rukpak-io-plain".to_owned(),
        source: BundleSource::default(),
    };
    let bundle = Bundle::new("a-3", spec);
    let instance = object!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"source": {"type": "upload"}}}}});
    let status = BundleInstanceStatus {
        installed_bundle_name: Some("a-2".to_owned()),
        previous_bundle_name: Some("a-1".to_owned()),
        applied_digest: Some("sha256:aa".to_owned()),
        ..BundleInstanceStatus::default()
    };
    let done = renamed(&instance, &status, &bundle);
    assert_eq!(done.bundle, "a-3");
    assert_eq!(done.previous.as_deref(), Some("a-1"));
    assert_eq!(done.digest, "sha256:aa");
}
