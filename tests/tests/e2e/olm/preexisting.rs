//! Histories that the command did not write.

use serde_json::{Value, json};

use super::{
    command::{Space, fails},
    index::Version,
};

/// Malformed and wrong annotations are reported with a remedy, and nothing is changed. The remedy lets the upgrade continue.
// parity: run-16, sdk-13
#[tokio::test]
async fn wrong_history_is_rejected_before_any_change() {
    let space = Space::new("run-wrong").await;
    let versions = ["0.0.1", "0.0.2", "0.0.3"].map(|number| Version::publish("winkle", number));
    let other = Version::publish("dogwinkle", "1.0.0");
    space.install(&versions[0]);
    space.upgrade(&versions[1]);
    space.replaced(&versions[0]);
    let history = space.annotation("winkle-catalog", "injected-bundles");

    let list = |images: &[&str]| {
        let list = images.iter();
        let list = list.map(|image| json!({"imageTag": image, "mode": "semver"}));
        list.collect::<Value>().to_string()
    };
    let missing = other.image.replace("dogwinkle", "missing");
    let damaged = "annotation operators.operatorframework.io/injected-bundles is malformed: ";
    for (wrong, message) in tests::rows![
        "[{".to_owned() => damaged;
        history.replace("semver", "sideways") => damaged;
        list(&["a.io/winkle:v1"; 501]) => damaged;
        list(&[&missing]) => "failed to fetch ";
        list(&[&other.image]) => "belongs to package \"dogwinkle\"";
        list(&[&versions[0].image]) => "has no upgrade path to \"winkle.v0.0.3\"";
        list(&[]) => "cannot upgrade: no catalog image reference exists";
    ] {
        write(&space, &wrong);
        let before = changeable_state(&space);
        let run = space.rukpak(&["run", "bundle-upgrade", &versions[2].image]);
        let run = fails(run, message);
        run.err_has("injected-bundles");
        assert_eq!(changeable_state(&space), before, "{run:#?}");
    }
    // By tags, as a user would write the annotation.
    let both = list(&[&versions[0].image, &versions[1].image]);
    write(&space, &both);
    space.upgrade(&versions[2]);
}

fn write(space: &Space, history: &str) {
    let key = "operators.operatorframework.io/injected-bundles";
    let patch = json!({"metadata": {"annotations": {key: history}}}).to_string();
    let object = ["patch", "catalogsource", "winkle-catalog"];
    space.kubectl(&[&object[..], &["--type=merge", "-p", &patch]].concat());
}

/// The state that a command could have changed. The operator's pods are left out: the command creates none, and the pod of
/// the replaced version may still be terminating.
fn changeable_state(space: &Space) -> Vec<String> {
    let mut all = space.names("configmap,pod,installplan,csv");
    all.retain(|name| !name.starts_with("pod/winkle-operator-"));
    let path = "jsonpath={.items[*].metadata.annotations}{.items[*].spec}";
    all.push(space.kubectl(&["get", "catalogsource", "-o", path]));
    all
}
