use std::fs;

use serde_json::json;

use crate::bundle::{Place, Run, binary, csv};

const IMAGE: &str = "registry.example.com/acme/tide:v1";

fn dry(place: &Place, bundle: &str) -> Run {
    place.run(&["push", "--dry-run", bundle, IMAGE])
}

// parity: check-23
#[test]
fn the_same_bundle_is_the_same_image_wherever_it_comes_from() {
    let place = Place::new();
    place.good("tide");
    let first = dry(&place, "tide").exits(0);
    let digest = first
        .out
        .trim_end()
        .strip_prefix("registry.example.com/acme/tide@sha256:")
        .unwrap();
    assert_eq!(digest.len(), 64);

    place.tar("nested.tgz", "-czf", ".", "tide");
    // What else lies in the folder does not belong to the bundle.
    place.write("tide/Makefile", "all:");
    place.write("tide/.git/config", "x");
    for bundle in ["tide", "./tide/", "nested.tgz"] {
        assert_eq!(dry(&place, bundle).exits(0).out, first.out, "{bundle}");
    }
    place.tar("flat.tar", "-cf", "tide", ".");
    let archive = fs::read(place.path("flat.tar")).unwrap();
    let run = place.run_with(&["push", "--dry-run", "-", IMAGE], &archive);
    assert_eq!(run.exits(0).out, first.out);

    place.write("tide/tests/scorecard/config.yaml", "kind: Configuration");
    assert_ne!(dry(&place, "tide").exits(0).out, first.out);
}

#[test]
fn programs_are_told_image_and_digest() {
    let place = Place::new();
    place.good("tide");
    let run = place.run(&["push", "--dry-run", "-q", "tide", IMAGE, "-o", "json"]);
    let json = run.exits(0).json();
    let digest = json["digest"].as_str().unwrap();
    assert_eq!(json["image"], IMAGE);
    assert_eq!(
        json["reference"],
        format!("registry.example.com/acme/tide@{digest}")
    );
}

#[test]
fn the_image_must_name_its_registry() {
    let place = Place::new();
    place.good("tide");
    let digest = dry(&place, "tide").exits(0).out;
    let named = format!("docker://{IMAGE}");
    let run = place.run(&format!("push --dry-run tide {named}"));
    assert_eq!(run.exits(0).out, digest);
    for (image, problem) in [
        ("tide:v1", "names no registry"),
        ("acme/tide:v1", "names no registry"),
        ("https://quay.io/acme/tide", "is no image"),
        ("user:sekret@quay.io/acme/tide:v1", "take them out"),
    ] {
        let run = place.run(&format!("push --dry-run tide {image}")).exits(2);
        run.err_has(problem);
        run.err_lacks("sekret");
    }
}

#[test]
fn username_without_password_is_a_usage_error() {
    let place = Place::new();
    place.good("tide");
    for password in [None, Some("")] {
        let mut command = place.command(&binary());
        command.args(["push", "tide", IMAGE, "--username", "ann"]);
        command.env_remove("RUKPAK_PASSWORD");
        command.envs(password.map(|password| ("RUKPAK_PASSWORD", password)));
        let run = Run::from(command.output().unwrap()).exits(2);
        let problem =
            "error: --username has no password; set --password-file or $RUKPAK_PASSWORD\n";
        run.err_starts_with(problem);
        run.err_has("Usage: rukpak push ");
    }
}

#[test]
fn what_is_no_bundle_is_not_published() {
    let place = Place::new();
    place.write("empty/readme", "x");
    place.write("plain/manifests/map.yaml", "kind: ConfigMap");
    place.good("lost");
    fs::remove_dir_all(place.path("lost/manifests")).unwrap();
    place.good("broken");
    place.write("broken/metadata/annotations.yaml", "annotations: [");
    for (bundle, problem) in [
        ("empty", "metadata/annotations.yaml"),
        ("plain", "metadata/annotations.yaml"),
        ("lost", "no files in manifests/"),
        ("broken", "metadata/annotations.yaml cannot be read"),
        ("./missing", "failed to open"),
    ] {
        let run = dry(&place, bundle).exits(1);
        assert_eq!(run.out, "");
        run.err_has(problem);
    }
}

#[test]
fn the_annotations_say_where_the_manifests_are() {
    let place = Place::new();
    place.bundle("tide", &csv("tide"));
    let annotations = json!({"annotations": {
        "operators.operatorframework.io.bundle.manifests.v1": "deploy/",
        "operators.operatorframework.io.bundle.metadata.v1": "metadata/",
        "operators.operatorframework.io.bundle.package.v1": "tide",
    }});
    place.write("tide/metadata/annotations.yaml", annotations.to_string());
    let run = dry(&place, "tide").exits(1);
    run.err_has("no files in deploy/");
    fs::rename(place.path("tide/manifests"), place.path("tide/deploy")).unwrap();
    dry(&place, "tide").exits(0);
}

#[test]
fn what_cannot_be_converted_here_is_published_with_a_warning() {
    let place = Place::new();
    place.bad("tide");
    let run = dry(&place, "tide").exits(0);
    run.err_has("validation of the bundle fails");
    run.err_has("rukpak validate tide");
    let run = place.ok(&["push", "--dry-run", "-q", "tide", IMAGE]);
    assert_eq!(run.err, "");
}
