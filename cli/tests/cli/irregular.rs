//! Links and special files in bundles: followed, refused, or skipped and counted.

use std::{fs, os::unix::fs::symlink};

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
        let run = place.fail(&format!("convert {bundle} --report report.json"));
        let refused = format!("error[EntryRefused]: {REFUSED}");
        run.err_has(&refused);
        assert_eq!(run.out, "");
        let report = place.read("report.json");
        assert!(report.contains("\"code\": \"EntryRefused\""), "{report}");
    }
}

#[test]
fn validate_and_inspect_report_a_manifest_that_is_a_link() {
    let place = place();
    for bundle in ["tide", "tide.tgz"] {
        let found = place.fail(&format!("validate {bundle} -o json"));
        let finding = &found.json()[0]["findings"][0];
        assert_eq!(finding["code"], "EntryRefused");
        assert_eq!(finding["file"], "manifests/map.yaml");
        assert_eq!(finding["level"], "error");
        let table = place.fail(&format!("validate {bundle}"));
        table.err_starts_with("1 error, ");
        let inspection = place.ok(&format!("inspect {bundle} -o json"));
        let inspection = inspection.json();
        assert_eq!(inspection["outcome"], "refused");
        assert_eq!(inspection["refusals"][0]["code"], "EntryRefused");
        let text = place.ok(&format!("inspect {bundle}")).out;
        assert!(text.contains(REFUSED), "{text}");
    }
}

#[test]
fn a_manifest_that_links_to_the_bundle_itself_is_converted() {
    let place = Place::new();
    place.good("tide");
    let convert = || place.ok("convert tide").out;
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
    let run = place.ok("convert tide --report report.json");
    run.err_ends_with(line);
    let report: serde_json::Value = serde_json::from_str(&place.read("report.json")).unwrap();
    assert_eq!(report["skipped"], skipped);
    let json = |run: Run| run.exits(0).json();
    let validated = json(place.run("validate tide -o json"));
    assert_eq!(validated[0]["skipped"], skipped);
    let run = place.ok("validate tide");
    run.err_has(line);
    let inspected = json(place.run("inspect tide -o json"));
    assert_eq!(inspected["skipped"], skipped);
    let text = place.ok("inspect tide").out;
    assert!(text.contains("2 symbolic links (docs/a, latest)"), "{text}");
    // A bundle without such entries has no field for them.
    place.good("plain");
    let validated = json(place.run("validate plain -o json"));
    assert_eq!(validated[0].get("skipped"), None);
}

/// What is missing behind a link is not reported besides.
#[test]
fn a_linked_directory_is_the_only_finding() {
    let place = Place::new();
    for (bundle, metadata, link, needed) in [
        ("tide", "metadata", "manifests", "a directory"),
        ("plain", "docs", "manifests", "a directory"),
        ("named", "metadata", "deploy", "a directory"),
        ("file", "metadata", "manifests/csv.yaml", "a regular file"),
    ] {
        place.good(bundle);
        let at = |name: &str| place.path(&format!("{bundle}/{name}"));
        let annotations = format!("{bundle}/metadata/annotations.yaml");
        let text = place.read(&annotations).replace("stable,beta", "stable");
        let named = text.replace("\"manifests/\"", "\"deploy/\"");
        assert_ne!(text, named);
        let text = if bundle == "named" { named } else { text };
        place.write(&annotations, text);
        fs::rename(at("metadata"), at(metadata)).unwrap();
        if bundle == "file" {
            fs::remove_file(at(link)).unwrap();
        } else {
            fs::remove_dir_all(at("manifests")).unwrap();
        }
        symlink("elsewhere", at(link)).unwrap();
        let archive = format!("{bundle}.tgz");
        place.tar(&archive, "-czf", bundle, ".");
        let noun = needed.rsplit(' ').next().unwrap();
        let expected = format!(
            "error  EntryRefused  {link}  is a symbolic link to \"elsewhere\", not {needed}; replace the link with a copy \
             of the {noun}\n"
        );
        for bundle in [bundle, &archive] {
            let run = place.fail(&format!("validate {bundle}"));
            assert_eq!(run.err, "1 error, 0 warnings, 0 changes\n", "{run:?}");
            let (_, table) = run.out.split_once('\n').unwrap();
            assert_eq!(table, expected, "{bundle}");
            let run = place.fail(&format!("convert {bundle} --quiet"));
            let end = "cannot be converted: 1 problem\n";
            run.err_ends_with(end);
        }
    }
}
