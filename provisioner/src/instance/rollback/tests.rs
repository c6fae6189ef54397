use serde_json::json;

use super::*;

fn instance(rollback: &str) -> BundleInstance {
    serde_json::from_value(json!({
        "apiVersion": "core.rukpak.io/v1alpha1",
        "kind": "BundleInstance",
        "metadata": {"name": "a"},
        "spec": {
            "provisionerClassName": "core-rukpak-io-plain",
            "rollback": rollback,
            "template": {"spec": {"source": {"type": "upload"}}},
        },
    }))
    .unwrap()
}

fn status(installed: &str, previous: Option<&str>) -> BundleInstanceStatus {
    BundleInstanceStatus {
        installed_bundle_name: Some(installed.to_owned()),
        previous_bundle_name: previous.map(str::to_owned),
        ..BundleInstanceStatus::default()
    }
}

fn failure(bundle: &str, touched: bool, retry: Retry) -> Install {
    Install::Failed(Failure {
        bundle: bundle.to_owned(),
        message: "broken".to_owned(),
        touched,
        retry,
    })
}

#[test]
fn the_way_back_is_taken_for_good_reasons_only() {
    let unwell = Health::Failed(vec!["stuck".to_owned()]);
    let slow = Health::Progressing(vec!["0 of 1 ready".to_owned()]);
    let pivoted = status("new", Some("old"));
    let before = status("old", None);
    for (name, policy, status, install, health, expected) in [
        (
            "not asked for",
            "Never",
            &pivoted,
            Install::Unchanged,
            unwell.clone(),
            None,
        ),
        (
            "the new one is stuck",
            "OnFailure",
            &pivoted,
            Install::Unchanged,
            unwell.clone(),
            Some("stuck"),
        ),
        (
            "the new one takes its time",
            "OnFailure",
            &pivoted,
            Install::Unchanged,
            slow,
            None,
        ),
        (
            "there is no way back",
            "OnFailure",
            &before,
            Install::Unchanged,
            unwell,
            None,
        ),
        (
            "begun, and refused",
            "OnFailure",
            &before,
            failure("new", true, Retry::Slowly),
            Health::NotLooked,
            Some("broken"),
        ),
        (
            "refused before anything was touched",
            "OnFailure",
            &before,
            failure("new", false, Retry::Slowly),
            Health::NotLooked,
            None,
        ),
        (
            "the apiserver is away",
            "OnFailure",
            &before,
            failure("new", true, Retry::Soon),
            Health::NotLooked,
            None,
        ),
        (
            "a repair of the old one failed",
            "OnFailure",
            &before,
            failure("old", true, Retry::Slowly),
            Health::NotLooked,
            None,
        ),
    ] {
        let found = reason(&instance(policy), status, &install, &health);
        assert_eq!(found.as_deref(), expected, "{name}");
    }
}

#[test]
fn it_leads_to_what_was_installed_before() {
    let [old, new] = ["old", "new"].map(|name| {
        Bundle::new(
            name,
            manifests::api::bundle::BundleSpec {
                provisioner_class_name: "core-rukpak-io-plain".to_owned(),
                source: manifests::api::bundle::BundleSource::default(),
            },
        )
    });
    let target = |way_back_from| Target {
        bundle: &new,
        way_back_from,
    };
    let name = |bundle: Option<&Bundle>| bundle.and_then(|b| b.metadata.name.clone());
    let found = to(
        &status("new", Some("old")),
        &target(None),
        Some(&new),
        Some(&old),
    );
    assert_eq!(name(found).as_deref(), Some("old"), "after a pivot");
    let found = to(&status("old", None), &target(None), Some(&old), None);
    assert_eq!(name(found).as_deref(), Some("old"), "amid a pivot");
    let again = Some(("hash".to_owned(), "broken".to_owned()));
    let found = to(&status("old", None), &target(again), Some(&old), None);
    assert_eq!(name(found), None, "already on the way back");
}
