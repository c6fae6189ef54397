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
