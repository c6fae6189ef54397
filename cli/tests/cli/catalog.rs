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
    let run = place.ok("catalog validate catalog");
    assert_eq!(
        (run.out.as_str(), run.err.as_str()),
        ("", "0 errors, 0 warnings, 1 package without errors\n")
    );
    let run = place.ok("catalog validate catalog -o json");
    assert_eq!(
        run.json(),
        json!({"catalog": "catalog", "findings": [], "packages": {"broken": [], "sound": 1}, "passed": true})
    );
}

// parity: load-1, validate-10
#[test]
fn findings_have_file_and_line_and_opms_words() {
    let place = place();
    place.write(
        "catalog/bad.json",
        "{\"schema\": \"olm.package\",\n \"name\": \"bad\"}\n{\"schema\": 1}\n",
    );
    let run = place.fail("catalog validate catalog");
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
    run.err_ends_with("3 errors, 0 warnings, 1 package without errors\n");
    fs::remove_file(place.path("catalog/bad.json")).unwrap();
    place.write(
        "catalog/bad.json",
        "{\"schema\": \"olm.package\", \"name\": \"bad\"}",
    );
    let run = place.fail("catalog validate catalog -o json");
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
    let run = place.fail("catalog validate catalog other missing -o json");
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

// parity: render-14
#[test]
fn what_is_in_a_catalog_is_listed() {
    let place = place();
    let list = |what: &str| place.ok(&format!("catalog list {what} catalog")).out;
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
    let run = place.ok("catalog list bundles catalog -o json");
    assert_eq!(run.json()[4]["skipRange"], ">=1.0.0 <1.4.0");
    let run = place.fail("catalog list packages catalog --package tide");
    run.err_has("the catalog has no package \"tide\"");
}

// parity: render-14
#[test]
fn a_choice_is_explained() {
    let place = place();
    let choose = |args: &str| {
        place.run(&format!(
            "catalog choose tidewatch --catalog catalog {args}"
        ))
    };
    for (args, verdict, bundle) in tests::rows![
        "", "install" => "tidewatch.v1.4.0";
        "--channel candidate", "install" => "tidewatch.v1.4.0";
        "--version <1.4.0", "install" => "tidewatch.v1.3.0";
        "--openshift-version 4.20.1", "install" => "tidewatch.v1.4.0";
        "--openshift-version 4.21.0", "install" => "tidewatch.v1.3.0";
        "--installed tidewatch.v1.2.0", "upgrade" => "tidewatch.v1.4.0";
        "--installed tidewatch.v1.4.0", "stay" => "";
        "--installed gone --installed-version 1.1.5", "upgrade" => "tidewatch.v1.4.0";
    ] {
        let run = choose(&format!("{args} -o json")).exits(0).json();
        let chosen = run["chosen"]["name"].as_str().unwrap_or_default();
        assert_eq!(
            (run["verdict"].as_str(), chosen),
            (Some(verdict), bundle),
            "{args}"
        );
    }
    let run = choose("--openshift-version 4.21.0").exits(0);
    run.out_starts_with("Package tidewatch: install tidewatch.v1.3.0 1.3.0 from channel stable of catalog catalog\n");
    run.out_has("requires OpenShift <= 4.20 but the cluster is 4.21");
    let run = place.fail("catalog choose tide --catalog catalog");
    run.out_has("nothing to install: failed to find candidate olm.bundles from the tide package");
    // A catalog that is away is said to be, and the next one is asked.
    let run = place.ok("catalog choose tidewatch --catalog missing --catalog catalog");
    run.out_has("catalog missing cannot be asked");
    for wrong in [
        "--version ^1.0.0",
        "--openshift-version latest",
        "--kubernetes-version x",
    ] {
        choose(wrong).exits(2);
    }
}

// parity: render-14
#[test]
fn a_graph_is_drawn() {
    let place = place();
    let run = place.ok("catalog graph tidewatch --catalog catalog --channel stable");
    run.out_starts_with("flowchart LR\n");
    run.out_has(":::head");
    let run = place.ok("catalog graph tidewatch --catalog catalog -o dot");
    run.out_starts_with("digraph \"tidewatch\" {\n");
    run.out_has("cluster_1");
    let run = place.fail("catalog graph tidewatch --catalog catalog --channel x");
    run.err_has("has no channel \"x\"; it has candidate, stable");
}

#[test]
fn archives_and_images_are_catalogs_too() {
    let place = place();
    place.tar("catalog.tgz", "czf", ".", "catalog");
    place.ok("catalog validate catalog.tgz");
    let registry = Registry::plain();
    let image = registry.image("org/catalog:v1");
    place.write("junk", "[");
    let file = "FROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/configs\nCOPY catalog /configs\nCOPY junk /junk\n";
    tests::Buildah::new().publish(file, &place.path("."), &image, &[]);
    let run = place.ok(&format!("catalog list packages {image} --tls-verify=false"));
    run.out_has("tidewatch  stable");
}

#[test]
fn what_cannot_be_read_is_an_error_that_counts() {
    let place = place();
    let run = place.fail("catalog validate /nowhere");
    run.err_ends_with("1 error, 0 warnings, 0 packages without errors\n");
}

#[test]
fn a_deprecation_is_repeated_as_far_as_anybody_reads_it() {
    let place = place();
    let long = "x".repeat(1 << 20);
    let text = CATALOG.replace("1.2.0 measures in fathoms", &long);
    assert_ne!(text, CATALOG);
    place.write("catalog/tidewatch/catalog.yaml", text);
    let run = place.ok("catalog choose tidewatch --catalog catalog --version 1.2.0");
    run.out_has("is deprecated: xxx");
    assert!(run.out.len() < 10_000 && run.err.len() < 10_000);
}

#[test]
fn catalogs_give_a_terminal_no_orders() {
    let place = place();
    let text = CATALOG.replace("tidewatch.v1.2.0", "tidewatch\u{202e}.v1.2.0");
    place.write("catalog/tidewatch/catalog.yaml", text);
    for args in [
        "list bundles catalog -o json",
        "list bundles catalog -o yaml",
        "choose tidewatch --catalog catalog -o json",
        "choose tidewatch --catalog catalog -o yaml",
        "graph tidewatch --catalog catalog",
        "graph tidewatch --catalog catalog -o dot",
    ] {
        let run = place.ok(&format!("catalog {args}"));
        run.out_has("1.2.0");
        assert!(!run.out.contains('\u{202e}'), "{args:?}: {run:?}");
    }
    place.write(
        "c/\u{1b}x",
        "{\"schema\": \"olm.package\", \"name\": \"\\u001b[31m\"}",
    );
    let run = place.fail("catalog validate c");
    run.out_lacks("\u{1b}");
    run.err_lacks("\u{1b}");
}
