use manifests::api::bundle::BundleSpec;

use super::*;

#[test]
fn recreated_bundles_keep_the_bundle_to_roll_back_to() {
    let spec = BundleSpec {
        provisioner_class_name: "core-rukpak-io-plain".to_owned(),
        source: manifests::api::bundle::BundleSource::default(),
    };
    let bundle = Bundle::new("a-3", spec);
    let status = BundleInstanceStatus {
        installed_bundle_name: Some("a-2".to_owned()),
        previous_bundle_name: Some("a-1".to_owned()),
        ..BundleInstanceStatus::default()
    };
    let failed = Some(("hash".to_owned(), "unhealthy".to_owned()));
    for (way_back_from, previous) in [(None, Some("a-1")), (failed, None)] {
        let target = Target {
            bundle: &bundle,
            way_back_from,
        };
        let done = renamed(&status, &target);
        assert_eq!(done.bundle, "a-3");
        assert_eq!(done.previous.as_deref(), previous);
    }
}
