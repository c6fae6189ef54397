use manifests::api::bundle_instance::{InstalledBundle, RevisionState};
use serde_json::{Value, json};

use super::*;
use crate::{controllers::bundle_instance::rollout::Source, fixtures};

/// Returns an instance of generation 2.
fn instance(spec: &Value) -> BundleInstance {
    object!({"metadata": {"name": "a", "generation": 2}, "spec": spec})
}

fn bundle(uid: &str, digest: &str) -> Bundle {
    object!({"metadata": {"name": "bundle-1", "uid": uid}, "status": {"contentDigest": digest}})
}

/// A status with revision 1 of the bundle with this configuration.
fn recorded(hash: Option<String>) -> BundleInstanceStatus {
    with!(revisions::tests::status(&[RevisionState::Active]) => |status|
        status.installed = Some(InstalledBundle::new(&bundle("1", "sha256:a")));
        status.observed_generation = Some(2);
        status.revisions[0].configuration_hash = hash)
}

#[test]
fn configuration_is_compared_by_hash_or_generation() {
    let config = json!({"config": {"deploymentConfig": {"env": []}}});
    let account = json!({"serviceAccount": {"name": "a", "namespace": "b"}});
    let hash = |spec: &Value| {
        let spec = instance(spec).spec;
        Some(configuration_hash(&spec, &bundle("1", "sha256:a")))
    };
    let former = with!(recorded(None) => observed_generation: Some(1));
    let unobserved = with!(recorded(None) => observed_generation: None);
    let other = with!(recorded(hash(&json!({}))) => |status|
        "b".clone_into(&mut status.revisions[0].bundle));
    // Status, spec, content digest, and whether the configuration is the same.
    assert_each!(|status, spec, digest, expected| is_same_configuration(&instance(&spec), &status, &bundle("1", digest)) => expected;
        recorded(hash(&json!({}))), json!({}), "sha256:a" => true;
        // The generation does not matter.
        with!(recorded(hash(&json!({}))) => observed_generation: Some(1)), json!({}), "sha256:a" => true;
        recorded(hash(&json!({}))), config.clone(), "sha256:a" => false;
        recorded(hash(&json!({}))), account.clone(), "sha256:a" => false;
        recorded(hash(&json!({}))), json!({}), "sha256:b" => false;
        other, json!({}), "sha256:a" => false;
        recorded(None), json!({}), "sha256:a" => true;
        recorded(None), account.clone(), "sha256:a" => false;
        former, json!({}), "sha256:a" => false;
        unobserved, json!({}), "sha256:a" => false;
        BundleInstanceStatus::default(), json!({}), "sha256:a" => false;
    );
}

#[test]
fn observed_spec_without_a_hash_is_applied_only_if_ready() {
    let is_as_declared = |has_hash: bool, ready: &str, generation: i64, uid: &str| {
        let bundle = bundle(uid, "sha256:a");
        let instance = instance(&json!({}));
        let hash = has_hash.then(|| configuration_hash(&instance.spec, &bundle));
        let ready = with!(fixtures::condition("Ready", ready, "UpToDate", "") =>
            |ready| ready["observedGeneration"] = json!(generation));
        let conditions = serde_json::from_value(json!([ready])).unwrap();
        let status = with!(recorded(hash) => conditions: conditions);
        let target = Target {
            source: Source::Bundle(&bundle),
            rollback: None,
        };
        is_as_declared(&instance, &status, &target)
    };
    assert_rows! {
        is_as_declared(true, "True", 2, "1") => true;
        is_as_declared(true, "Unknown", 2, "1") => true;
        is_as_declared(true, "True", 2, "2") => false, "another Bundle is installed";
        is_as_declared(false, "True", 2, "1") => true;
        // The attempt that observed the spec has failed.
        is_as_declared(false, "Unknown", 2, "1") => false;
        is_as_declared(false, "True", 1, "1") => false;
    }
}

#[test]
fn recreated_bundles_change_no_more_than_the_record() {
    let bundle = object!({"metadata": {"name": "a-3"}});
    let instance = object!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {"source": {"type": "upload"}}}}});
    let [installed, previous, digest] =
        ["a-2", "a-1", "sha256:aa"].map(|text| Some(text.to_owned()));
    let status = with!(BundleInstanceStatus, installed_bundle_name: installed, previous_bundle_name: previous,
        applied_digest: digest);
    let done = renamed(&instance, &status, &bundle);
    assert_eq!(done.bundle, "a-3");
    assert_eq!(done.previous.as_deref(), Some("a-1"));
    assert_eq!(done.digest, "sha256:aa");
}

#[test]
fn renamed_revisions_belong_to_the_template_of_their_bundle() {
    use RevisionState::{Active, Archived, RollingOut};
    let instance: BundleInstance = object!({"metadata": {"name": "a"}});
    let bundle =
        object!({"metadata": {"name": "new", "labels": {(labels::TEMPLATE_HASH): "hash-new"}}});
    let configuration = configuration_hash(&instance.spec, &bundle);
    let hashes = |states: &[RevisionState], hashes: &[&str]| {
        let mut status = revisions::tests::status(states);
        for (revision, hash) in status.revisions.iter_mut().zip(hashes) {
            revision.template_hash = Some((*hash).to_owned());
        }
        let revisions = renamed(&instance, &status, &bundle).revisions;
        assert_rows!(revisions.last().unwrap().configuration_hash.as_ref() => Some(&configuration));
        let hashes = revisions.into_iter();
        let hashes = hashes.filter_map(|revision| revision.template_hash);
        hashes.collect::<Vec<_>>()
    };
    assert_each!(|states, former, expected| hashes(states, former) => expected;
        &[Active][..], &["a"][..] => &["hash-new"][..];
        &[Active, RollingOut], &["a", "b"] => &["a", "hash-new"];
        // Only the configuration was changed.
        &[Archived, Active, RollingOut], &["a", "a", "a"] => &["a", "hash-new", "hash-new"];
    );
}
