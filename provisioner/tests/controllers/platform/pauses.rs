//! What fails again and again is tried ever more slowly, and what was found out is not asked for a second time.

use std::time::Duration;

use manifests::api::platform::PlatformOperator;
use serde_json::{Value, json};

use super::stage::{Platform, package};
use crate::{
    catalogs::served::Server,
    support::{Provisioner, eventually, wait_for},
};

const REFUSED: &str = "could not be finished; it is tried again";

/// When a look at the operator failed, each time.
fn failures(provisioner: &Provisioner) -> Vec<jiff::Timestamp> {
    let lines = provisioner.lines();
    let failed = lines.iter().filter(|it| it["message"] == REFUSED);
    failed
        .map(|it| it["timestamp"].as_str().unwrap().parse().unwrap())
        .collect()
}

async fn has_failed(provisioner: &Provisioner, times: usize) -> Vec<Duration> {
    let all = eventually(&format!("{times} failures"), async || {
        let all = failures(provisioner);
        if all.len() < times {
            return Err(format!("{all:?}"));
        }
        Ok(all)
    })
    .await;
    let gaps = all.windows(2).map(|it| it[1].duration_since(it[0]));
    gaps.map(|it| it.try_into().unwrap()).collect()
}

/// Nobody may write what an operator is like.
fn refusal() -> [Value; 2] {
    let group = "admissionregistration.k8s.io/v1";
    [
        json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": "silence"},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["platform.openshift.io"], "apiVersions": ["*"], "operations": ["UPDATE"],
                    "resources": ["platformoperators/status"],
                }]},
                "validations": [{"expression": "false", "message": "say nothing"}],
            },
        }),
        json!({
            "apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": "silence"},
            "spec": {"policyName": "silence", "validationActions": ["Deny"]},
        }),
    ]
}

#[tokio::test]
async fn a_status_that_is_always_refused_is_written_ever_more_slowly() {
    let platform = Platform::new().await;
    for object in refusal() {
        platform.world.apply(&object).await;
    }
    // The apiserver heeds a policy a moment after it has taken it.
    eventually("it is refused", async || {
        platform.want(json!({"package": {"name": "tide"}})).await;
        let patch = json!({"status": {"clusterMinor": "1.1"}});
        let params = kube::api::PatchParams::default();
        let written = platform
            .operators()
            .patch_status("tide", &params, &kube::api::Patch::Merge(patch))
            .await;
        written.err().map(|_| ()).ok_or("it is taken".to_owned())
    })
    .await;
    let provisioner = platform.start().await;
    let gaps = has_failed(&provisioner, 6).await;
    // Watches wake it besides, at the beginning; but it was two seconds each time.
    let longest = gaps.iter().max().unwrap();
    assert!(*longest >= Duration::from_secs(5), "{gaps:?}");

    // Somebody changes it: it is looked at at once, and soon again.
    let count = failures(&provisioner).len();
    let patch = json!({"spec": {"version": ">=1.0.0"}});
    platform.patch::<PlatformOperator>("tide", patch).await;
    let gaps = has_failed(&provisioner, count + 2).await;
    assert!(gaps[count] < Duration::from_secs(4), "{gaps:?}");

    let policy = kube::core::GroupVersionKind::gvk(
        "admissionregistration.k8s.io",
        "v1",
        "ValidatingAdmissionPolicyBinding",
    );
    let policy = kube::core::ApiResource::from_gvk(&policy);
    let bindings: kube::Api<kube::core::DynamicObject> =
        kube::Api::all_with(platform.world.client(), &policy);
    bindings
        .delete("silence", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    let tide = platform.bundles("tide", &["1.0.0"]).await;
    let server = Server::of(None, &package("tide", &tide)).await;
    platform.serve("mine", &server).await;
    wait_for(platform.operators(), "tide", "told", |it| {
        let status = it.status.as_ref()?;
        (status.active_bundle_instance.is_some()).then_some(())
    })
    .await;
    server.stop().await;
}
