//! Writes of the status of an object that other clients write, delete or create again.

use manifests::api::bundle::{Bundle, BundleStatus, Phase};

use super::*;
use crate::support::{self, bundle, image, merge, prepare, without_controllers};

async fn create(api: &Api<Bundle>, name: &str) -> Bundle {
    support::create(api, &bundle(name, "plain", image("example.com/a:v1"))).await
}

#[tokio::test]
async fn status_is_written_only_on_the_object_that_was_read() {
    // Without a provisioner, which would write these Bundles.
    let cluster = without_controllers().await;
    prepare(&cluster).await;
    let api: Api<Bundle> = Api::all(cluster.client().unwrap());
    for (change, is_written, conflicts) in [
        ("none", true, 0),
        ("annotated", true, 1),
        ("deleted", false, 0),
        ("recreated", false, 0),
    ] {
        let name = unique("status");
        let read = create(&api, &name).await;
        if change == "annotated" {
            let annotation = json!({"metadata": {"annotations": {"written": "1"}}});
            merge(&api, &name, &annotation).await;
        }
        if ["deleted", "recreated"].contains(&change) {
            delete(&api, &name).await;
        }
        if change == "recreated" {
            create(&api, &name).await;
        }
        let mut status = tests::with!(BundleStatus, phase: Some(Phase::Pending));
        let mut revised = 0;
        let version = read.resource_version();
        let written = apply::status::apply(&api, &read, version, &mut status, |found, _| {
            assert_eq!(found.uid, read.uid());
            revised += 1;
        });
        let written = written.await.unwrap();
        let phase = |bundle: &Bundle| bundle.status.as_ref().and_then(|status| status.phase);
        let expected = is_written.then_some(Phase::Pending);
        assert_eq!(written.as_ref().and_then(phase), expected, "{change}");
        assert_eq!(revised, conflicts, "{change}");
        let found = api.get_opt(&name).await.unwrap();
        assert_eq!(found.as_ref().and_then(phase), expected, "{change}");
        assert_eq!(found.is_some(), change != "deleted");
    }

    let read = create(&api, &unique("status")).await;
    let mut status = json!({"phase": "Unknown"});
    let version = read.resource_version();
    let written = apply::status::apply(&api, &read, version, &mut status, |_, _| {}).await;
    tests::assert_rows!(matches!(&written, Err(kube::Error::Api(status)) if status.code == 422) => true, "{written:?}");
}
