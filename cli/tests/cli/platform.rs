//! `rukpak platform render`.

use std::fs;

use manifests::yaml;
use serde_json::Value;

use crate::{
    bundle::{Args, Place, Run},
    catalog::CATALOG,
};

fn place() -> Place {
    let place = Place::new();
    place.write("catalog/tidewatch/catalog.yaml", CATALOG);
    place
}

fn render(place: &Place, args: &(impl Args + ?Sized)) -> Run {
    let (mut all, args) = (vec!["platform", "render"], args.words());
    all.extend(&args);
    if !args.contains(&"--catalog") {
        all.extend(["--catalog", "catalog"]);
    }
    place.run(&all)
}

fn objects(run: &Run) -> Vec<Value> {
    yaml::documents(run.out.as_bytes())
        .map(Result::unwrap)
        .collect()
}

fn names(objects: &[Value]) -> Vec<String> {
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    objects
        .iter()
        .map(|it| format!("{} {}", text(&it["kind"]), text(&it["metadata"]["name"])))
        .collect()
}

#[test]
fn a_cluster_gets_the_provisioner_and_the_operators() {
    let place = place();
    let run = render(&place, &["tidewatch:stable@>=1.3.0 <2.0.0"]).exits(0);
    let found = objects(&run);
    let names = names(&found);
    for name in [
        "Namespace rukpak-system",
        "CustomResourceDefinition bundleinstances.core.rukpak.io",
        "CustomResourceDefinition platformoperators.platform.openshift.io",
        "CustomResourceDefinition catalogsources.operators.coreos.com",
        "ClusterRole provisioner",
        "Deployment core",
    ] {
        assert!(names.iter().any(|it| it == name), "{name}: {names:?}");
    }
    assert_eq!(names[0], "Namespace rukpak-system");
    let last = found.last().unwrap();
    assert_eq!(last["kind"], "PlatformOperator");
    assert_eq!(
        last["spec"],
        serde_json::json!({"package": {"name": "tidewatch"}, "channel": "stable", "version": ">=1.3.0 <2.0.0"})
    );
    assert_eq!(last.get("status"), None);
    let list = render(&place, "tidewatch -o json").exits(0).json();
    assert_eq!(list["items"].as_array().unwrap().len(), found.len());
}

#[test]
fn what_an_openshift_has_is_left_out() {
    let place = place();
    let args = ["tidewatch", "--openshift-version", "4.20.3"];
    let names_of = |run: &Run| names(&objects(run));
    let all = names_of(&render(&place, &args).exits(0));
    assert!(
        !all.iter()
            .any(|it| it.ends_with("catalogsources.operators.coreos.com"))
    );
    assert!(
        all.contains(&"ClusterRole provisioner-openshift".to_owned()),
        "{all:?}"
    );
    let mut distinct = all.clone();
    distinct.sort();
    distinct.dedup();
    assert!(distinct.len() + 8 > all.len(), "{all:?}"); // names in several namespaces
    let run = render(
        &place,
        "tidewatch --openshift-version 4.20 --release-payload",
    )
    .exits(0);
    assert_eq!(
        names_of(&run),
        ["FeatureGate cluster", "PlatformOperator tidewatch"]
    );
    run.err_has("cannot be taken back");
    render(&place, "tidewatch --release-payload").exits(2);
}

/// A package with a bundle that wants a newer Kubernetes than any other here.
fn surge() -> String {
    CATALOG
        .replace("minKubeVersion: 1.27.0", "minKubeVersion: 1.31.0")
        .replace("tidewatch", "surge")
}

#[test]
fn what_nobody_compares_is_a_warning() {
    let place = place();
    let words = "requires Kubernetes >= 1.27.0, which was compared with nothing";
    for (args, is_told) in [
        ("", true),
        ("--kubernetes-version 1.36", false),
        ("--openshift-version 4.20", false),
    ] {
        let render = render(&place, &format!("tidewatch@1.4.x {args}")).exits(0);
        let choose = place.ok(&format!(
            "catalog choose tidewatch --catalog catalog --version 1.4.x {args}"
        ));
        for run in [render, choose] {
            assert_eq!(run.err.contains(words), is_told, "{args:?}: {run:?}");
        }
    }
    // The Kubernetes of an OpenShift counts for either.
    place.write("surge/catalog.yaml", surge());
    let run = place.ok("catalog choose surge --catalog surge --openshift-version 4.17");
    run.out_has("requires Kubernetes >= 1.31.0 but the cluster is 1.30\n");
}

#[test]
fn what_makes_no_sense_is_told_before_anything_is_read() {
    let place = place();
    for (args, words) in tests::rows![
        &["--openshift-version", "4.24"][..] => "there is no OpenShift 4.24";
        &["--openshift-version", "1.30"] => "there is no OpenShift 1.30";
        &["--openshift-version", "4"] => "there is no OpenShift 4.0";
        &["--namespace", "kube-system"] => "belongs to the cluster";
        &["--image", "a b:c: d"] => "image reference";
        &["--image", ""] => "image reference";
        &["--catalog-secret", "pull"] => "--catalog-source";
        &["--catalog", "catalog", "--catalog", "catalog"] => "two of those that are named cannot be told apart";
    ] {
        let run = render(&place, &[&["tidewatch"], args].concat()).exits(2);
        run.err_has(words);
        if words.contains("apart") {
            run.err_has("Usage: rukpak platform render");
        }
    }
    let run = place.run("catalog choose tidewatch --catalog catalog --openshift-version 4.99");
    assert!(run.exits(2).err.contains("there is no OpenShift 4.99"));
}

// parity: openshift-26
#[test]
fn what_cannot_be_installed_is_told_before_anything_is_written() {
    let place = place();
    place.write("catalog/surge.yaml", surge());
    for (args, words) in tests::rows![
        &["tidewacth"][..] => "no catalog has a package tidewacth; is it tidewatch?";
        &["prometheus"] => "\"rukpak catalog list packages\"";
        &["tidewatch:stabel"] => "has no channel \"stabel\"; it has candidate, stable";
        &["tidewatch@>=9.0.0"] => "is not in the range of versions asked for";
        &["tidewatch:candidate@1.4.x", "--openshift-version", "4.21"] => "requires OpenShift <= 4.20 but the cluster is 4.21";
        &["surge@1.4.x", "--kube-version", "1.30.3"] => "requires Kubernetes >= 1.31.0 but the cluster is 1.30.3";
        &["surge@1.4.x", "--openshift-version", "4.17"] => "requires Kubernetes >= 1.31.0 but the cluster is 1.30";
        // What the cluster could not take at all.
        &["tidewatch", "--kube-version", "1.29.9"]
            => "need Kubernetes 1.30, which OpenShift 4.17 has, or a later one, and the new cluster would have Kubernetes 1.29";
        &["tidewatch", "--openshift-version", "4.16", "--kube-version", "1.30"] => "would have Kubernetes 1.29";
        &["tidewatch", "--openshift-version", "4.20", "--release-payload", "--catalog-namespace", "mine"]
            => "takes no catalog from namespace mine; choose openshift-marketplace or openshift-platform-operators";
        &["tidewatch", "tidewatch"] => "named twice";
        &["tidewatch", "--catalog-source", "mine"] => "is no image in a registry";
    ] {
        let mut all = args.to_vec();
        all.extend(["--output-dir", "out"]);
        let run = render(&place, &all).exits(1);
        run.err_has(words);
        assert_eq!(run.out, "");
        assert!(!place.path("out").exists());
    }
    // All problems at once.
    let run = render(&place, "tidewacth etcd tidewatch").exits(1);
    run.err_ends_with("error: nothing is written: 2 packages cannot be installed\n");
    for (name, words) in [
        ("Foo_Bar!", "package \"Foo_Bar!\""),
        ("a@x", "range"),
        ("tidewatch:", "behind the colon"),
    ] {
        let run = render(&place, name).exits(2);
        run.err_has(words);
    }
    let run = render(&place, "tidewatch --catalog nowhere").exits(1);
    run.err_has("cannot be read");
    place.write(
        "catalog/broken.json",
        "{\"schema\": \"olm.package\", \"name\": \"broken\"}",
    );
    let run = render(&place, "broken").exits(1);
    run.err_has("package broken of catalog catalog cannot be used: ");
}

#[test]
fn what_is_deprecated_is_a_warning() {
    let place = place();
    let run = render(&place, "tidewatch@1.2.0").exits(0);
    run.err_has(
        "warning: tidewatch: bundle tidewatch.v1.2.0 is deprecated: 1.2.0 measures in fathoms",
    );
}

#[test]
fn an_installers_folder_keeps_what_is_in_it() {
    let place = place();
    place.write("manifests/cvo-overrides.yaml", "theirs");
    let args = ["tidewatch", "--output-dir", "manifests"];
    render(&place, &args).exits(0);
    let files = place.list("manifests");
    let ours: Vec<&String> = files
        .iter()
        .filter(|it| it.starts_with("0000_50_rukpak_"))
        .collect();
    assert_eq!(ours.len() + 1, files.len());
    assert!(files.contains(&"cvo-overrides.yaml".to_owned()));
    assert!(
        ours[0].ends_with("-namespace-rukpak-system.yaml"),
        "{ours:?}"
    );
    assert!(
        ours.last()
            .unwrap()
            .ends_with("-platformoperator-tidewatch.yaml"),
        "{ours:?}"
    );
    for name in &ours {
        let text = fs::read(place.path(&format!("manifests/{name}"))).unwrap();
        assert_eq!(yaml::documents(&text).count(), 1, "{name}");
    }
    // Nothing is replaced unasked, and nothing of an earlier run stays.
    let run = render(&place, "tidewatch -o json --output-dir manifests").exits(1);
    run.err_has("exists already");
    run.err_has("--force");
    assert_eq!(place.list("manifests"), files);
    render(&place, "tidewatch -o json --output-dir manifests --force").exits(0);
    let after = place.list("manifests");
    assert!(
        after.iter().all(
            |it| it.rsplit_once('.').is_some_and(|(_, end)| end == "json")
                || it == "cvo-overrides.yaml"
        ),
        "{after:?}"
    );
    assert_eq!(place.read("manifests/cvo-overrides.yaml"), "theirs");
    assert_eq!(after.len(), files.len());
}
