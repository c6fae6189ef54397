//! Writes of the status of an object that other clients write, delete or create again.

use kube::api::{DeleteParams, PostParams};
use manifests::api::bundle::{Bundle, BundleStatus, Phase};

use super::*;
use crate::support::image;

// Nothing serves the class, so no controller writes these Bundles.
async fn create(api: &Api<Bundle>, name: &str) -> Bundle {
    let spec = json!({"provisionerClassName": "nobody", "source": image("example.com/a:v1")});
    let bundle = Bundle::new(name, serde_json::from_value(spec).unwrap());
    api.create(&PostParams::default(), &bundle).await.unwrap()
}

#[tokio::test]
async fn status_is_written_only_on_the_object_that_was_read() {
    let api: Api<Bundle> = world().await.api();
    let delete = async |name: &str| {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    };
    let annotate = async |name: &str| {
        let patch = json!({"metadata": {"annotations": {"written": "1"}}});
        let params = PatchParams::default();
        api.patch(name, &params, &Patch::Merge(patch))
            .await
            .unwrap();
    };
    for (change, is_written, conflicts) in [
        ("none", true, 0),
        ("annotated", true, 1),
        ("deleted", false, 0),
        ("recreated", false, 0),
    ] {
        let name = unique("status");
        let read = create(&api, &name).await;
        match change {
            "annotated" => annotate(&name).await,
            "deleted" => delete(&name).await,
            "recreated" => {
                delete(&name).await;
                create(&api, &name).await;
            }
            _ => {}
        }
        let mut status = BundleStatus {
            phase: Some(Phase::Pending),
            ..BundleStatus::default()
        };
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
}

#[tokio::test]
async fn refused_status_is_reported() {
    let api: Api<Bundle> = world().await.api();
    let read = create(&api, &unique("status")).await;
    let version = read.resource_version();
    let mut status = json!({"phase": "Unknown"});
    let written = apply::status::apply(&api, &read, version, &mut status, |_, _| {}).await;
    assert!(
        matches!(&written, Err(kube::Error::Api(status)) if status.code == 422),
        "{written:?}"
    );
}
