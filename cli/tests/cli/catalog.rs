//! `rukpak catalog`: folders, images and archives of catalogs.

use std::fs;

use serde_json::{Value, json};
use tests::Registry;

use crate::bundle::Place;

/// A package of three versions in two channels, as `opm` would write it.
pub(crate) const CATALOG: &str = include_str!("../../../examples/catalog/tidewatch/catalog.yaml");

fn place() -> Place {
    let place = Place::new();
    place.write("catalog/tidewatch/catalog.yaml", CATALOG);
    place
}

#[test]
fn a_sound_catalog_passes() {
    let place = place();
    let run = place.run(&["catalog", "validate", "catalog"]).exits(0);
    assert_eq!(
        (run.out.as_str(), run.err.as_str()),
        ("", "0 errors, 0 warnings, 1 package without errors\n")
    );
    let run = place
        .run(&["catalog", "validate", "catalog", "-o", "json"])
        .exits(0);
    assert_eq!(
        run.json(),
        json!({"catalog": "catalog", "findings": [], "packages": {"broken": [], "sound": 1}, "passed": true})
    );
}

#[test]
fn findings_have_file_and_line_and_opms_words() {
    let place = place();
    place.write(
        "catalog/bad.json",
        "{\"schema\": \"olm.package\",\n \"name\": \"bad\"}\n{\"schema\": 1}\n",
    );
    let run = place.run(&["catalog", "validate", "catalog"]).exits(1);
    let lines: Vec<&str> = run.out.lines().collect();
    assert!(lines[0].starts_with("LEVEL"), "{}", run.out);
    assert!(
        lines[1].contains("bad.json:3")
            && lines[1]
                .ends_with("expected value for key \"schema\" to be a string, got number: 1"),
        "{}",
        run.out
    );
    assert!(
        lines[2].contains("bad.json:1") && lines[2].ends_with("default channel must be set"),
        "{}",
        run.out
    );
    assert!(
        run.err
            .ends_with("3 errors, 0 warnings, 1 package without errors\n"),
        "{}",
        run.err
    );
    fs::remove_file(place.path("catalog/bad.json")).unwrap();
    place.write(
        "catalog/bad.json",
        "{\"schema\": \"olm.package\", \"name\": \"bad\"}",
    );
    let run = place
        .run(&["catalog", "validate", "catalog", "-o", "json"])
        .exits(1);
    assert_eq!(run.json()["passed"], false);
    assert_eq!(
        run.json()["error"]["message"],
        "invalid index:\n└── invalid package \"bad\":\n    ├── default channel must be set\n    └── package must contain at least one channel\n"
    );
    assert_eq!(
        run.json()["packages"],
        json!({"broken": ["bad"], "sound": 1})
    );
}

#[test]
fn several_catalogs_are_a_list() {
    let place = place();
    place.write("other/x", "[");
    let run = place
        .run(&[
            "catalog", "validate", "catalog", "other", "missing", "-o", "json",
        ])
        .exits(1);
    let list = run.json();
    let passed: Vec<&Value> = list
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["passed"])
        .collect();
    assert_eq!(passed, [true, false, false]);
    assert!(
        list[2]["error"]["message"]
            .as_str()
            .unwrap()
            .contains("missing")
    );
}

#[test]
fn what_is_in_a_catalog_is_listed() {
    let place = place();
    let list = |what: &str| {
        place
            .run(&["catalog", "list", what, "catalog"])
            .exits(0)
            .out
    };
    assert_eq!(
        list("packages"),
        "\
NAME       DEFAULT CHANNEL  HEAD              CHANNELS  BUNDLES
tidewatch  stable           tidewatch.v1.4.0  2         4
"
    );
    assert!(
        list("channels").contains("tidewatch  candidate  tidewatch.v2.0.0-rc.1  2"),
        "{}",
        list("channels")
    );
    assert_eq!(list("bundles").lines().count(), 6);
    let run = place
        .run(&["catalog", "list", "bundles", "catalog", "-o", "json"])
        .exits(0);
    assert_eq!(run.json()[4]["skipRange"], ">=1.0.0 <1.4.0");
    let run = place
        .run(&[
            "catalog",
            "list",
            "packages",
            "catalog",
            "--package",
            "tide",
        ])
        .exits(1);
    assert!(
        run.err.contains("the catalog has no package \"tide\""),
        "{}",
        run.err
    );
}

#[test]
fn a_choice_is_explained() {
    let place = place();
    let choose = |args: &[&str]| {
        let all = ["catalog", "choose", "tidewatch", "--catalog", "catalog"];
        place.run(&[&all[..], args].concat())
    };
    let name = |args: &[&str]| {
        let run = choose(&[args, &["-o", "json"]].concat()).exits(0).json();
        (
            run["verdict"].as_str().unwrap().to_owned(),
            run["chosen"]["name"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
        )
    };
    let found = |verdict: &str, bundle: &str| (verdict.to_owned(), bundle.to_owned());
    assert_eq!(name(&[]), found("install", "tidewatch.v1.4.0"));
    assert_eq!(
        name(&["--channel", "candidate"]),
        found("install", "tidewatch.v1.4.0")
    );
    assert_eq!(
        name(&["--version", "<1.4.0"]),
        found("install", "tidewatch.v1.3.0")
    );
    assert_eq!(
        name(&["--openshift-version", "4.20.1"]),
        found("install", "tidewatch.v1.4.0")
    );
    assert_eq!(
        name(&["--openshift-version", "4.21.0"]),
        found("install", "tidewatch.v1.3.0")
    );
    assert_eq!(
        name(&["--installed", "tidewatch.v1.2.0"]),
        found("upgrade", "tidewatch.v1.4.0")
    );
    assert_eq!(
        name(&["--installed", "tidewatch.v1.4.0"]),
        found("stay", "")
    );
    assert_eq!(
        name(&["--installed", "gone", "--installed-version", "1.1.5"]),
        found("upgrade", "tidewatch.v1.4.0")
    );
    let run = choose(&["--openshift-version", "4.21.0"]).exits(0);
    assert!(run.out.starts_with("Package tidewatch: install tidewatch.v1.3.0 1.3.0 from channel stable of catalog catalog\n"), "{}", run.out);
    assert!(
        run.out
            .contains("requires OpenShift <= 4.20 but the cluster is 4.21"),
        "{}",
        run.out
    );
    let run = place
        .run(&["catalog", "choose", "tide", "--catalog", "catalog"])
        .exits(1);
    assert!(
        run.out.contains(
            "nothing to install: failed to find candidate olm.bundles from the tide package"
        ),
        "{}",
        run.out
    );
    // A catalog that is away is said to be, and the next one is asked.
    let run = place
        .run(&[
            "catalog",
            "choose",
            "tidewatch",
            "--catalog",
            "missing",
            "--catalog",
            "catalog",
        ])
        .exits(0);
    assert!(
        run.out.contains("catalog missing cannot be asked"),
        "{}",
        run.out
    );
    for wrong in [
        ["--version", "^1.0.0"],
        ["--openshift-version", "latest"],
        ["--kubernetes-version", "x"],
    ] {
        choose(&wrong).exits(2);
    }
}

#[test]
fn a_graph_is_drawn() {
    let place = place();
    let run = place
        .run(&[
            "catalog",
            "graph",
            "tidewatch",
            "--catalog",
            "catalog",
            "--channel",
            "stable",
        ])
        .exits(0);
    assert!(
        run.out.starts_with("flowchart LR\n") && run.out.contains(":::head"),
        "{}",
        run.out
    );
    let run = place
        .run(&[
            "catalog",
            "graph",
            "tidewatch",
            "--catalog",
            "catalog",
            "-o",
            "dot",
        ])
        .exits(0);
    assert!(
        run.out.starts_with("digraph \"tidewatch\" {\n") && run.out.contains("cluster_1"),
        "{}",
        run.out
    );
    let run = place
        .run(&[
            "catalog",
            "graph",
            "tidewatch",
            "--catalog",
            "catalog",
            "--channel",
            "x",
        ])
        .exits(1);
    assert!(
        run.err
            .contains("has no channel \"x\"; it has candidate, stable"),
        "{}",
        run.err
    );
}

#[test]
fn archives_and_images_are_catalogs_too() {
    let place = place();
    place.tar("catalog.tgz", "czf", ".", "catalog");
    place.run(&["catalog", "validate", "catalog.tgz"]).exits(0);
    let registry = Registry::plain();
    let image = registry.image("org/catalog:v1");
    let buildah = tests::Buildah::new();
    let built = buildah.build(
        "FROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/configs\nCOPY catalog /configs\nCOPY junk /junk\n",
        &{
            place.write("junk", "[");
            place.path(".")
        },
        &[],
    );
    buildah.push(
        &built,
        &format!("docker://{image}"),
        &["--tls-verify=false"],
    );
    let run = place
        .run(&["catalog", "list", "packages", &image, "--tls-verify=false"])
        .exits(0);
    assert!(run.out.contains("tidewatch  stable"), "{run:?}");

    // What is no catalog is said to be none, instead of what its files are not.
    for (label, part) in [
        (
            "a=b",
            "the image is no catalog: it has no label operators.operatorframework.io.index.configs.v1",
        ),
        (
            "operators.operatorframework.io.bundle.package.v1=tidewatch",
            "the image is a bundle and no catalog",
        ),
        (
            "operators.operatorframework.io.index.database.v1=/index.db",
            "names the file \"index.db\", which is not there",
        ),
        (
            "operators.operatorframework.io.index.configs.v1=/lost",
            "names the folder \"lost\", which is not there",
        ),
    ] {
        let image = registry.image("org/other:v1");
        let file = format!("FROM scratch\nLABEL {label}\nCOPY catalog /manifests\n");
        buildah.publish(&file, &place.path("."), &image, &[]);
        let run = place
            .run(&["catalog", "validate", &image, "--tls-verify=false"])
            .exits(1);
        assert!(run.err.contains(part), "{run:?}");
    }
}

#[test]
fn what_strangers_write_gives_a_terminal_no_orders() {
    let place = Place::new();
    place.write(
        "c/\u{1b}x",
        "{\"schema\": \"olm.package\", \"name\": \"\\u001b[31m\"}",
    );
    let run = place.run(&["catalog", "validate", "c"]).exits(1);
    assert!(
        !run.out.contains('\u{1b}') && !run.err.contains('\u{1b}'),
        "{run:?}"
    );
}

#[test]
fn what_cannot_be_read_is_an_error_that_counts() {
    let place = place();
    let run = place.run(&["catalog", "validate", "/nowhere"]).exits(1);
    assert!(
        run.err
            .ends_with("1 error, 0 warnings, 0 packages without errors\n"),
        "{run:?}"
    );
}

#[test]
fn a_deprecation_is_repeated_as_far_as_anybody_reads_it() {
    let place = place();
    let long = "x".repeat(1 << 20);
    let text = CATALOG.replace("1.2.0 measures in fathoms", &long);
    assert_ne!(text, CATALOG);
    place.write("catalog/tidewatch/catalog.yaml", text);
    let args = [
        "catalog",
        "choose",
        "tidewatch",
        "--catalog",
        "catalog",
        "--version",
        "1.2.0",
    ];
    let run = place.run(&args).exits(0);
    assert!(run.out.contains("is deprecated: xxx"), "{:.2000}", run.out);
    assert!(run.out.len() < 10_000 && run.err.len() < 10_000);
}

#[test]
fn names_of_strangers_give_a_terminal_no_orders() {
    let place = place();
    let text = CATALOG.replace("tidewatch.v1.2.0", "tidewatch\u{202e}.v1.2.0");
    place.write("catalog/tidewatch/catalog.yaml", text);
    for args in [
        &["list", "bundles", "catalog", "-o", "json"][..],
        &["list", "bundles", "catalog", "-o", "yaml"],
        &["choose", "tidewatch", "--catalog", "catalog", "-o", "json"],
        &["choose", "tidewatch", "--catalog", "catalog", "-o", "yaml"],
        &["graph", "tidewatch", "--catalog", "catalog"],
        &["graph", "tidewatch", "--catalog", "catalog", "-o", "dot"],
    ] {
        let run = place.run(&[&["catalog"], args].concat()).exits(0);
        assert!(run.out.contains("1.2.0"), "{args:?}: {run:?}");
        assert!(!run.out.contains('\u{202e}'), "{args:?}: {run:?}");
    }
}
