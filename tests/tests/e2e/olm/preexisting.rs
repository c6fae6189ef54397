//! Histories that the command did not write.

use serde_json::{Value, json};

use super::{
    command::{annotation, fails, install, names, rukpak, upgrade},
    environment::{World, world},
    index::Version,
};

/// Malformed and wrong annotations are reported with a remedy, and nothing is changed. The remedy lets the upgrade continue.
// parity: run-16, sdk-13
#[tokio::test]
async fn wrong_history_is_rejected_before_any_change() {
    let world = world().await;
    let space = "run-wrong";
    world.bare_namespace(space).await;
    let versions = ["0.0.1", "0.0.2", "0.0.3"].map(|number| Version::publish("winkle", number));
    let other = Version::publish("dogwinkle", "1.0.0");
    install(world, space, &versions[0], &[]);
    upgrade(world, space, &versions[1], &[]);
    world.replaced(space, &versions[0].csv());
    let history = annotation(world, space, "winkle-catalog", "injected-bundles");

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
        write(world, space, &wrong);
        let before = changeable_state(world, space);
        let args = ["run", "bundle-upgrade", &versions[2].image];
        let run = fails(rukpak(world, space, &args), message);
        run.err_has("injected-bundles");
        assert_eq!(changeable_state(world, space), before, "{run:#?}");
    }
    // By tags, as a user would write the annotation.
    let both = list(&[&versions[0].image, &versions[1].image]);
    write(world, space, &both);
    upgrade(world, space, &versions[2], &[]);
}

fn write(world: &World, namespace: &str, history: &str) {
    let key = "operators.operatorframework.io/injected-bundles";
    let patch = json!({"metadata": {"annotations": {key: history}}}).to_string();
    let object = ["-n", namespace, "patch", "catalogsource", "winkle-catalog"];
    let patch = ["--type=merge", "-p", &patch];
    world.kubectl(&[&object[..], &patch].concat());
}

/// The state that a command could have changed. The operator's pods are left out: the command creates none, and the pod of
/// the replaced version may still be terminating.
fn changeable_state(world: &World, namespace: &str) -> Vec<String> {
    let mut all = names(world, namespace, "configmap,pod,installplan,csv");
    all.retain(|name| !name.starts_with("pod/winkle-operator-"));
    let path = "jsonpath={.items[*].metadata.annotations}{.items[*].spec}";
    all.push(world.kubectl(&["-n", namespace, "get", "catalogsource", "-o", path]));
    all
}
