//! Links and special files in bundles: followed, refused, or skipped and counted.

use std::{fs, os::unix::fs::symlink, process::Command};

use serde_json::json;

use crate::bundle::{Place, Run};

/// A bundle whose second manifest is a link to a file outside of it.
fn place() -> Place {
    let place = Place::new();
    place.good("tide");
    let at = |name: &str| place.path(name);
    fs::rename(at("tide/manifests/map.yaml"), at("map.yaml")).unwrap();
    symlink("../../map.yaml", at("tide/manifests/map.yaml")).unwrap();
    place.tar("tide.tgz", "-czf", ".", "tide");
    place
}

const REFUSED: &str = "manifests/map.yaml: is a symbolic link to \"../../map.yaml\", not a regular file; replace the link \
                       with a copy of the file";

#[test]
fn convert_refuses_a_manifest_that_is_a_link() {
    let place = place();
    for bundle in ["tide", "tide.tgz"] {
        let run = place
            .run(&["convert", bundle, "--report", "report.json"])
            .exits(1);
        let refused = format!("error[EntryRefused]: {REFUSED}");
        assert!(run.err.contains(&refused), "{run:?}");
        assert_eq!(run.out, "");
        let report = place.read("report.json");
        assert!(report.contains("\"code\": \"EntryRefused\""), "{report}");
    }
}

#[test]
fn validate_and_inspect_report_a_manifest_that_is_a_link() {
    let place = place();
    for bundle in ["tide", "tide.tgz"] {
        let found = place.run(&["validate", bundle, "-o", "json"]).exits(1);
        let finding = &found.json()[0]["findings"][0];
        assert_eq!(finding["code"], "EntryRefused");
        assert_eq!(finding["file"], "manifests/map.yaml");
        assert_eq!(finding["level"], "error");
        let table = place.run(&["validate", bundle]).exits(1);
        assert!(table.err.starts_with("1 error, "), "{table:?}");
        let inspection = place.run(&["inspect", bundle, "-o", "json"]).exits(0);
        let inspection = inspection.json();
        assert_eq!(inspection["outcome"], "refused");
        assert_eq!(inspection["refusals"][0]["code"], "EntryRefused");
        let text = place.run(&["inspect", bundle]).exits(0).out;
        assert!(text.contains(REFUSED), "{text}");
    }
}

#[test]
fn devices_and_links_are_refused_in_every_report() {
    let place = Place::new();
    place.good("tide");
    let fifo = place.path("tide/metadata/fifo");
    assert!(Command::new("mkfifo").arg(fifo).status().unwrap().success());
    symlink("nowhere", place.path("tide/manifests/dangling")).unwrap();
    let run = place.run(&["validate", "tide", "-o", "sarif"]).exits(1);
    let results = run.json()["runs"][0]["results"].clone();
    let found: Vec<_> = results
        .as_array()
        .unwrap()
        .iter()
        .filter(|result| result["ruleId"] == "EntryRefused")
        .map(|result| result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].clone())
        .collect();
    assert_eq!(
        found,
        ["tide/manifests/dangling", "tide/metadata/fifo"].map(|uri| json!(uri))
    );
}

#[test]
fn a_manifest_that_links_to_the_bundle_itself_is_converted() {
    let place = Place::new();
    place.good("tide");
    let convert = || place.run(&["convert", "tide"]).exits(0).out;
    let expected = convert();
    let at = |name: &str| place.path(name);
    fs::create_dir(at("tide/shared")).unwrap();
    fs::rename(at("tide/manifests/map.yaml"), at("tide/shared/map.yaml")).unwrap();
    symlink("../shared/map.yaml", at("tide/manifests/map.yaml")).unwrap();
    assert_eq!(convert(), expected);
}

#[test]
fn skipped_entries_are_in_every_report() {
    let place = Place::new();
    place.good("tide");
    fs::create_dir(place.path("tide/docs")).unwrap();
    for (link, target) in [("docs/a", "b"), ("latest", "docs")] {
        symlink(target, place.path(&format!("tide/{link}"))).unwrap();
    }
    let skipped = json!({
        "symlinks": 2, "hardLinks": 0, "special": 0, "sparseFiles": 0, "paths": ["docs/a", "latest"],
    });
    let line =
        "tide: skipped entries that are not regular files: 2 symbolic links (docs/a, latest)\n";
    let run = place
        .run(&["convert", "tide", "--report", "report.json"])
        .exits(0);
    assert!(run.err.ends_with(line), "{run:?}");
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!(report["skipped"], skipped);
    let json = |run: Run| run.exits(0).json();
    let validated = json(place.run(&["validate", "tide", "-o", "json"]));
    assert_eq!(validated[0]["skipped"], skipped);
    let run = place.run(&["validate", "tide"]).exits(0);
    assert!(run.err.contains(line), "{run:?}");
    let inspected = json(place.run(&["inspect", "tide", "-o", "json"]));
    assert_eq!(inspected["skipped"], skipped);
    let text = place.run(&["inspect", "tide"]).exits(0).out;
    assert!(text.contains("2 symbolic links (docs/a, latest)"), "{text}");
    // A bundle without such entries has no field for them.
    place.good("plain");
    let validated = json(place.run(&["validate", "plain", "-o", "json"]));
    assert_eq!(validated[0].get("skipped"), None);
}
