use manifests::api::bundle_instance::RevisionState;

use super::*;

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
    let instance = object!({"metadata": {"name": "a"}});
    let bundle =
        object!({"metadata": {"name": "new", "labels": {(labels::TEMPLATE_HASH): "hash-new"}}});
    let hashes = |states: &[RevisionState], hashes: &[&str]| {
        let mut status = revisions::tests::status(states);
        for (revision, hash) in status.revisions.iter_mut().zip(hashes) {
            revision.template_hash = Some((*hash).to_owned());
        }
        let revisions = renamed(&instance, &status, &bundle).revisions.into_iter();
        let hashes = revisions.filter_map(|revision| revision.template_hash);
        hashes.collect::<Vec<_>>()
    };
    assert_each!(|states, former, expected| hashes(states, former) => expected;
        &[Active][..], &["a"][..] => &["hash-new"][..];
        &[Active, RollingOut], &["a", "b"] => &["a", "hash-new"];
        // Only the configuration was changed.
        &[Archived, Active, RollingOut], &["a", "a", "a"] => &["a", "hash-new", "hash-new"];
    );
}
