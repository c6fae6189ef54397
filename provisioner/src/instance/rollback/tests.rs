use serde_json::json;

use manifests::api::instance::RevisionState;

use super::{super::revisions::tests::status, *};

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

fn failure(touched: bool, retry: Retry) -> Install {
    Install::Failed(Failure {
        bundle: "new".to_owned(),
        message: "broken".to_owned(),
        touched,
        retry,
    })
}

fn objects(names: &[&str]) -> BTreeSet<Identity> {
    let identity = |name: &&str| Identity {
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        namespace: "default".to_owned(),
        name: (*name).to_owned(),
    };
    names.iter().map(identity).collect()
}

#[test]
fn rollout_is_given_up_for_its_own_failures_only() {
    use RevisionState::{Active, Archived, RollingOut};
    let failed = || Health::Failed(vec!["stuck".to_owned()]);
    let slow = || Health::Progressing(vec!["0 of 1 ready".to_owned()]);
    let unchanged = || Install::Unchanged;
    let during: &[RevisionState] = &[Active, RollingOut];
    let refused = |touched, retry| failure(touched, retry);
    for ((name, policy, states, install, health, excused), expected) in ::tests::rows![
        ("not asked for", "Never", during, unchanged(), failed(), &[][..]) => None;
        ("an object is stuck", "OnFailure", during, unchanged(), failed(), &[]) => Some("stuck");
        ("stuck before", "OnFailure", during, unchanged(), failed(), &["a"]) => None;
        ("slow", "OnFailure", during, unchanged(), slow(), &[]) => None;
        ("over", "OnFailure", &[Archived, Active], unchanged(), failed(), &[]) => None;
        ("first", "OnFailure", &[RollingOut], unchanged(), failed(), &[]) => None;
        ("no revision", "OnFailure", &[], unchanged(), failed(), &[]) => None;
        ("refused", "OnFailure", during, refused(true, Retry::Slowly), slow(), &[]) => Some("broken");
        ("denied", "OnFailure", during, refused(true, Retry::Granted), slow(), &[]) => Some("broken");
        ("not begun", "OnFailure", during, refused(false, Retry::Slowly), slow(), &[]) => None;
        ("API server away", "OnFailure", during, refused(true, Retry::Soon), slow(), &[]) => None;
        ("a repair failed", "OnFailure", &[Active], refused(true, Retry::Slowly), slow(), &[]) => None;
    ] {
        let (failing, excused) = (objects(&["a"]), objects(excused));
        let status = status(states);
        let found = reason(
            &instance(policy),
            &status,
            &install,
            &health,
            &failing,
            &excused,
        );
        assert_eq!(found.as_deref(), expected, "{name}");
    }
}
