//! The files that are made from the types are fresh; `RUKPAK_GENERATE=write` (`make generate`) writes them anew.

#![allow(
    clippy::expect_used,
    reason = "what goes wrong fails the test by panicking"
)]

use std::{env, fs, path::Path};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use manifests::{
    api::{
        definitions,
        install::{self, release},
    },
    yaml,
};

const HEADER: &str =
    "# Made from the types in manifests/src/api by `make generate`: changes here are lost.\n";

#[test]
fn definitions_are_fresh() {
    all_fresh("crds", definitions::all());
}

/// Apart from ours, for whoever applies that folder must not take away what others have defined.
#[test]
fn definitions_of_others_are_fresh() {
    all_fresh("optional", definitions::foreign());
}

fn all_fresh(folder: &str, all: impl IntoIterator<Item = CustomResourceDefinition>) {
    for definition in all {
        let name = definition
            .metadata
            .name
            .clone()
            .expect("every one has a name");
        let text = yaml::to_string(&definition).expect("a definition is JSON");
        fresh(&format!("{folder}/{name}.yaml"), &format!("{HEADER}{text}"));
    }
}

#[test]
fn the_install_file_is_fresh() {
    let text = install::file(&install::Options::default());
    fresh("install/rukpak.yaml", &format!("{HEADER}{text}"));
}

#[test]
fn the_file_for_openshift_is_fresh() {
    let text = install::openshift(&install::Options::default());
    fresh("install/openshift.yaml", &format!("{HEADER}{text}"));
}

#[test]
fn the_file_for_prometheus_is_fresh() {
    let text = install::monitoring(&install::Options::default());
    fresh("install/monitoring.yaml", &format!("{HEADER}{text}"));
}

#[test]
fn the_file_that_warns_of_deprecated_fields_is_fresh() {
    let text = install::deprecations();
    fresh(
        "optional/catalogsource-deprecations.yaml",
        &format!("{HEADER}{text}"),
    );
}

#[test]
fn the_file_for_the_conversion_webhook_is_fresh() {
    let text = install::conversion(&install::Options::default());
    fresh(
        "optional/catalogsource-v1/webhook.yaml",
        &format!("{HEADER}{text}"),
    );
}

#[test]
fn the_definition_with_both_versions_is_fresh() {
    let text = install::catalog_sources_with_v1(&install::Options::default());
    fresh(
        "optional/catalogsource-v1/definition.yaml",
        &format!("{HEADER}{text}"),
    );
}

#[test]
fn the_folder_for_a_release_payload_is_fresh_and_has_nothing_else() {
    let options = release::options(install::Options::default().image);
    let files = release::files(&options);
    let mut expected: Vec<String> = Vec::new();
    for release::File { name, text } in files {
        fresh(&format!("release/{name}"), &format!("{HEADER}{text}"));
        expected.push(name);
    }
    expected.sort();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("release");
    let mut found: Vec<String> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be read").file_name())
        .map(|name| name.into_string().expect("a name"))
        .collect();
    found.sort();
    assert_eq!(
        found, expected,
        "run `make generate`, and remove what is too much"
    );
}

#[test]
fn what_a_day_0_needs_for_previews_is_fresh() {
    let text = release::feature_gate();
    fresh("day-0/feature-gate.yaml", &format!("{HEADER}{text}"));
}

fn fresh(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if env::var_os("RUKPAK_GENERATE").is_some_and(|value| value == "write") {
        fs::create_dir_all(file.parent().expect("a file is in a folder"))
            .expect("a folder can be made");
        fs::write(&file, text).expect("the file can be written");
        return;
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "{path} is stale: run `make generate`");
}
