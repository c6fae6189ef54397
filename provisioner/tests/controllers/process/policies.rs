//! Reports about missing admission policies of the install file, with only the permissions of the install file.

use k8s_openapi::api::events::v1::Event;
use manifests::api::install;
use serde_json::Value;

use super::*;
use crate::support::{list, until};

async fn notes(cluster: &Cluster) -> Vec<String> {
    let events: Api<Event> = Api::namespaced(cluster.client().unwrap(), "default");
    let mut all = list(&events).await;
    all.retain(|event| event.reason.as_deref() == Some("AdmissionPolicyMissing"));
    all.into_iter().filter_map(|event| event.note).collect()
}

#[tokio::test]
async fn only_missing_policy_bindings_are_reported() {
    let cluster = support::without_controllers().await;
    support::prepare(&cluster).await;
    let file = install::file(&install::Options::default());
    support::install_rights(&cluster, &file).await;
    let objects = install::objects(&install::Options::default());
    let is = |object: &Value, kind: &str| object["kind"].as_str().unwrap().starts_with(kind);
    let policies = objects.into_iter();
    let policies = policies.filter(|object| is(object, "ValidatingAdmissionPolicy"));
    let (missing, existing): (Vec<_>, Vec<_>) = policies.partition(|object| {
        is(object, "ValidatingAdmissionPolicyBinding")
            && object["metadata"]["name"] == "bundle-deletion"
    });
    assert_eq!((missing.len(), existing.len()), (1, 7));
    for object in &existing {
        apply(&cluster, object).await;
    }
    let kubeconfig = support::own_kubeconfig(&cluster).await;
    let options = Options::with_flags(&["--resync=10s"]);
    let options = tests::with!(options => kubeconfig: Some(kubeconfig));

    // The provisioner becomes ready nevertheless.
    let provisioner = Provisioner::start(&cluster, options).await;
    let line = provisioner.wait_log("admission policies are missing").await;
    assert_eq!(line["level"], "WARN");
    let object = "ValidatingAdmissionPolicyBinding bundle-deletion";
    assert_eq!(line["objects"], object);
    let missing_are = "rukpak_admission_policies_missing";
    provisioner.counts(&format!("{missing_are} 1")).await;
    let note = format!(
        "{object} not found: the API server does not enforce the policy; apply the install file of this version of the \
         provisioner again"
    );
    let read_notes = async || notes(&cluster).await;
    until("an Event", read_notes, |notes| *notes == [&*note]).await;

    apply(&cluster, &missing[0]).await;
    provisioner.wait_log("all admission policies exist").await;
    provisioner.counts(&format!("{missing_are} 0")).await;
    assert_eq!(notes(&cluster).await, [note]);
}
