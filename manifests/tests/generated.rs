//! The files that are generated from the types are up to date; `RUKPAK_GENERATE=write` (`make generate`) writes them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{env, fs, path::Path};

use manifests::{
    api::{
        crds,
        install::{self, release},
    },
    yaml,
};

const HEADER: &str =
    "# Made from the types in manifests/src/api by `make generate`: changes here are lost.\n";

/// The directory `optional` contains the CRDs of other projects, because `kubectl apply -f crds` must not replace them.
#[test]
fn crds_are_up_to_date() {
    let own = crds::all().into_iter().map(|crd| ("crds", crd));
    let foreign = crds::optional_crds().into_iter();
    for (directory, crd) in own.chain(foreign.map(|crd| ("optional", crd))) {
        let name = crd.metadata.name.as_deref().unwrap();
        let text = yaml::to_string(&crd).unwrap();
        check(&format!("{directory}/{name}.yaml"), &text);
    }
}

#[test]
fn install_files_are_up_to_date() {
    let options = install::Options::default();
    for (path, text) in tests::rows![
        "install/rukpak.yaml" => install::file(&options);
        "install/openshift.yaml" => install::openshift(&options);
        "install/monitoring.yaml" => install::monitoring(&options);
        "optional/catalogsource-deprecations.yaml" => install::deprecations();
        "optional/catalogsource-v1/webhook.yaml" => install::conversion(&options);
        "optional/catalogsource-v1/definition.yaml" => install::catalog_sources_with_v1(&options);
        "day-0/feature-gate.yaml" => release::feature_gate();
    ] {
        check(path, &text);
    }
}

#[test]
fn release_payload_directory_is_up_to_date() {
    let options = release::options(install::Options::default().image);
    let mut expected: Vec<String> = Vec::new();
    for release::File { name, text } in release::files(&options) {
        check(&format!("release/{name}"), &text);
        expected.push(name);
    }
    expected.sort();
    let entries = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("release")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string());
    let mut found: Vec<String> = names.map(Result::unwrap).collect();
    found.sort();
    tests::assert_rows!(found => expected, "run `make generate`, and remove the other files");
}

/// Compares a file with its generated text, or writes it.
fn check(path: &str, text: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = format!("{HEADER}{text}");
    if env::var_os("RUKPAK_GENERATE").is_some_and(|value| value == "write") {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        return fs::write(&file, text).unwrap();
    }
    let found = fs::read_to_string(&file).unwrap_or_default();
    assert!(found == text, "{path} is outdated: run `make generate`");
}
