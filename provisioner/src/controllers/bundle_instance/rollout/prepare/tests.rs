//! Tests of the preparation of a rollout: constraints of a catalog, and objects whose ownership is checked.

use apply::{
    informers::{InstanceView, ObservedObject},
    inventory::{Entry, Inventory},
    managed_fields::Fingerprint,
};
use catalog::model::{Bundle, PLAIN_V0, Package};
use manifests::{
    api::bundle::{BundleSource, ImageSource},
    openshift::{MaxOpenShiftVersion, Spelling},
    version::Version,
};
use serde_json::json;

use super::*;

const DIGEST: &str = "sha256:aa";

/// A catalog with one bundle, and an instance that was declared for it.
fn chosen(media_type: &str) -> (Catalogs, BundleInstance) {
    let image = format!("quay.io/example/tide@{DIGEST}");
    let max = MaxOpenShiftVersion::new("4.20", Spelling::CatalogProperties);
    let bundle = with!(Bundle, image: image.clone(), media_type: Some(media_type.to_owned()), max_openshift: Some(max),
        min_kube: Some("1.30.0".to_owned()); ..Bundle::new("tide.v1.0.0", Version::new(1, 0, 0)));
    let package = with!(Package::default() => name: "tide".to_owned(), bundles: [(bundle.name.clone(), bundle)].into());
    let memo = json!({"package": "tide", "name": "tide.v1.0.0", "image": image}).to_string();
    let instance = object!({
        "metadata": {"name": "tide", "annotations": {labels::CHOSEN_BUNDLE: memo}},
        "spec": {"template": {"spec": {"source": {"type": "image", "image": {"ref": image}}}}},
    });
    (Catalogs::with(package), instance)
}

fn constraints(
    facts: BundleInfo,
    digest: &str,
    (catalogs, instance): &(Catalogs, BundleInstance),
) -> (Option<String>, Option<String>) {
    let image = with!(ImageSource, reference: format!("quay.io/example/tide@{digest}"));
    let source = with!(BundleSource, image: Some(image));
    let digests = ContentDigests::new(None, Some(&source));
    let facts = apply_catalog_constraints(facts, instance, digests, catalogs);
    let max = facts.max_open_shift_version.map(|declared| declared.text());
    (max, facts.min_kube_version)
}

// parity: platform-25
#[test]
fn catalog_constraints_count_for_plain_manifests() {
    let chosen = chosen(PLAIN_V0);
    let both = (Some("4.20".to_owned()), Some("1.30.0".to_owned()));
    assert_rows! {
        constraints(BundleInfo::default(), DIGEST, &chosen) => both;
        // Another image is another bundle.
        constraints(BundleInfo::default(), "sha256:bb", &chosen) => (None, None);
    }
    let unannotated = with!(chosen => |chosen| chosen.1.metadata.annotations = None);
    assert_rows!(constraints(BundleInfo::default(), DIGEST, &unannotated) => (None, None));
}

#[test]
fn bundle_min_kube_version_counts_before_the_catalog() {
    let facts = |min: Option<&str>| {
        let max = MaxOpenShiftVersion::new("4.19", Spelling::BundleProperties);
        with!(BundleInfo, package: "tide".to_owned(), name: "tide.v1.0.0".to_owned(), min_kube_version: min.map(str::to_owned),
            max_open_shift_version: Some(max))
    };
    let chosen = chosen("registry+v1");
    let max = || Some("4.20".to_owned());
    assert_rows!(constraints(facts(Some("1.29.0")), DIGEST, &chosen) => (max(), Some("1.29.0".to_owned())));
    assert_rows!(constraints(facts(None), DIGEST, &chosen) => (max(), Some("1.30.0".to_owned())));
}

#[test]
fn ownership_of_unobserved_objects_is_checked() {
    let identity = |name: &str| crate::fixtures::identity("", "ConfigMap", "tide", name);
    let entry = || with!(Entry::default() => fields: Some(Fingerprint::UNKNOWN));
    let names = ["observed", "absent", "unknown", "unwatched"];
    let inventory: Inventory = names.map(|name| (identity(name), entry())).into();
    let mut view = InstanceView::default();
    let object = ObservedObject::default();
    view.objects.insert(identity("observed"), object);
    view.absent.insert(identity("absent"));
    view.unknown.insert(identity("unknown"));
    let found = observed(&inventory, &view);
    let applied = found.iter().filter(|(_, entry)| entry.fields.is_some());
    assert_rows!(applied.map(|(identity, _)| identity.name.as_str()).collect::<Vec<_>>() => ["observed"]);
}
