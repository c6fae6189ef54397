//! Reports about missing admission policies of the install file, with only the permissions of the install file.

use k8s_openapi::api::events::v1::Event;
use manifests::api::install;
use serde_json::Value;

use super::*;
use crate::support::{list, until};

const MISSING: &str = "admission policies are missing";

/// Lists the notes of the Events about missing policies.
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
    let is_policy = |object: &Value| {
        let kind = object["kind"].as_str().unwrap();
        kind.starts_with("ValidatingAdmissionPolicy")
    };
    let objects = install::objects(&install::Options::default());
    let (missing, existing): (Vec<_>, Vec<_>) =
        objects.into_iter().filter(is_policy).partition(|object| {
            object["kind"] == "ValidatingAdmissionPolicyBinding"
                && object["metadata"]["name"] == "bundle-deletion"
        });
    assert_eq!((missing.len(), existing.len()), (1, 7));
    for object in &existing {
        apply(&cluster, object).await;
    }
    let kubeconfig = support::own_kubeconfig(&cluster).await;
    let start = || {
        let options = Options {
            kubeconfig: Some(kubeconfig.clone()),
            flags: vec!["--resync=10s".to_owned()],
            ..Options::default()
        };
        Provisioner::start(&cluster, options)
    };

    // The provisioner becomes ready nevertheless.
    let provisioner = start().await;
    let line = provisioner.says(MISSING).await;
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
    provisioner.says("all admission policies exist").await;
    provisioner.counts(&format!("{missing_are} 0")).await;
    drop(provisioner);

    let provisioner = start().await;
    provisioner.says("checked the admission policies").await;
    provisioner.counts(&format!("{missing_are} 0")).await;
    let lines = provisioner.lines();
    let reported = lines.iter().find(|line| line["message"] == MISSING);
    assert_eq!(reported, None);
    let failed = "failed to check the admission policies; retrying";
    assert!(lines.iter().all(|line| line["message"] != failed));
    assert_eq!(notes(&cluster).await, [note]);
}
