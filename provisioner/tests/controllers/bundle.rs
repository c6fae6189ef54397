//! Bundles: rows B and G of the acceptance list, and faults of the content store and of bundle sources.

mod access;
mod content_store;
mod download;
mod job;
mod memory;
mod rejections;

use std::path::Path;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};
use manifests::api::bundle::{
    Bundle, BundleSource, ConfigMapName, ConfigMapSource, GitRef, GitSource, HttpSource, Phase,
};
use reqwest::StatusCode;
use serde_json::{Value, json};
use tempfile::TempDir;
use tests::{FileServer, GitServer, assert_has};
use unpacker::{Content, Format, Store, store::Budget};

use crate::support::{
    SYSTEM, World, archive, assert_part, bundle, condition, config_map, content, create, delete,
    found, image, merge, merge_status, plain, running, unique, until, upload, wait_deleted,
    wait_for, wait_part, world,
};

/// Returns a plain bundle with one ConfigMap that contains this text.
fn small(text: &str) -> Content {
    plain(&[config_map("default", "small", text)])
}

/// Writes a plain bundle with one ConfigMap that contains this text into a directory.
fn write_small(dir: &Path, text: &str) {
    std::fs::create_dir_all(dir.join("manifests")).unwrap();
    let object = config_map("default", "small", text).to_string();
    std::fs::write(dir.join("manifests/a.yaml"), object).unwrap();
}

fn git(repository: &str, reference: GitRef, directory: Option<&str>) -> BundleSource {
    let (repository, directory) = (repository.to_owned(), directory.map(str::to_owned));
    let git = tests::with!(GitSource, repository, directory, reference);
    tests::with!(BundleSource, type_: "git".to_owned(), git: Some(git))
}

fn branch(name: &str) -> GitRef {
    tests::with!(GitRef, branch: Some(name.to_owned()))
}

fn http(url: &str) -> BundleSource {
    let http = tests::with!(HttpSource, url: url.to_owned());
    tests::with!(BundleSource, type_: "http".to_owned(), http: Some(http))
}

fn config_maps(names: &[&str]) -> BundleSource {
    let maps = names.iter().map(|&name| ConfigMapSource {
        config_map: ConfigMapName { name: name.into() },
        path: Some("manifests".to_owned()),
    });
    let maps = Some(maps.collect());
    tests::with!(BundleSource, type_: "configMaps".to_owned(), config_maps: maps)
}

fn open_store(dir: &TempDir, disk: u64) -> Store {
    Store::open(dir.path(), Budget { disk, memory: 0 }).unwrap()
}

async fn put_config_map(world: &World, name: &str, file: &str, text: &str) {
    let mut map = config_map(SYSTEM, name, "");
    map["data"] = json!({file: text});
    world.apply(&map).await;
}

async fn unpacked(name: &str, source: BundleSource) -> Bundle {
    let world = running().await;
    world.bundle(name, "plain", source).await;
    world.wait_bundle(name, "Unpacked", "True").await
}

/// Creates a Bundle of class plain and waits until its condition contains this text of the failure.
async fn failing(name: &str, source: BundleSource, text: &str) -> Bundle {
    running().await.bundle(name, "plain", source).await;
    wait_message(name, "UnpackFailed", text).await
}

async fn wait_message(name: &str, reason: &str, text: &str) -> Bundle {
    crate::support::wait_message(&world().await.api(), name, reason, text).await
}

fn message(bundle: &Bundle) -> &str {
    let conditions = &bundle.status.as_ref().unwrap().conditions;
    &condition(conditions, "Unpacked").unwrap().message
}

async fn is_stored(bundle: &Bundle) -> bool {
    let status = bundle.status.as_ref().unwrap();
    is_in_store(status.content_digest.as_deref().unwrap()).await
}

async fn is_in_store(digest: &str) -> bool {
    let provisioner = world().await.provisioner().await;
    let hex = digest.trim_start_matches("sha256:");
    let file = provisioner.storage().join(format!("content/{hex}.tar"));
    file.exists()
}

// parity: rukpak-1, b1
#[tokio::test]
async fn b01_unknown_class_is_reported_once() {
    let world = running().await;
    let name = unique("b1");
    let source = image("quay.io/org/app:v1");
    world.bundle(&name, "helm", source).await;
    let bundle = wait_message(&name, "UnknownProvisionerClass", "core-rukpak-io-registry").await;
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Failing));

    // The provisioner of the class overwrites the status, and the result is kept.
    let theirs = json!({"status": {"phase": "Pending", "conditions": [{
        "type": "Unpacked", "status": "False", "reason": "Theirs", "message": "we care",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    let api: Api<Bundle> = world.api();
    merge_status(&api, &name, &theirs).await;
    // The controller has observed the write once a later Bundle is unpacked.
    let later = unique("b1");
    let object = config_map("default", &later, &later).to_string();
    put_config_map(world, &later, "a.yaml", &object).await;
    unpacked(&later, config_maps(&[&later])).await;
    tests::assert_rows!(api.get(&name).await.unwrap().status.unwrap().conditions[0].reason => "Theirs");
}

// parity: b10, rukpak-21
#[tokio::test]
async fn b10_to_b13_and_b22_every_git_ref_is_pinned_to_a_commit() {
    let name = unique("b10");
    let server = GitServer::start(None, None);
    let repository = server.repository("bundle.git");
    let dir = tempfile::tempdir().unwrap();
    write_small(dir.path(), &name);
    write_small(&dir.path().join("dev/deploy"), "another");
    let commit = repository.commit("main", dir.path());
    repository.git(&["tag", "v0.0.1", &commit]);
    let url = server.url("bundle.git");
    let tag = tests::with!(GitRef, tag: Some("v0.0.1".to_owned()));
    let pinned = tests::with!(GitRef, commit: Some(commit.clone()));
    for (row, reference, directory) in tests::rows![
        "b10", pinned.clone() => None;
        "b11", tag => None;
        "b12", branch("main") => None;
        "b13", branch("main") => Some("./dev/deploy");
    ] {
        let bundle = unpacked(&unique(row), git(&url, reference, directory)).await;
        assert!(is_stored(&bundle).await, "{row}");
        let resolved = bundle.status.unwrap().resolved_source;
        tests::assert_rows!(resolved => Some(git(&url, pinned.clone(), directory)), "{row}");
    }
}

// parity: b16, rukpak-6, b17, b18
#[tokio::test]
async fn b16_b17_b18_config_maps_are_joined_and_followed() {
    let world = world().await;
    let (name, one, two) = (unique("b16"), unique("b16"), unique("b16"));
    let object = |name: &str| config_map("default", name, &one).to_string();
    put_config_map(world, &one, "a.yaml", &object("a")).await;
    let missing = format!(
        "source bundle content: get configmap {SYSTEM}/{two}: ConfigMap \"{two}\" not found"
    );
    failing(&name, config_maps(&[&one, &two]), &missing).await;
    put_config_map(world, &two, "b.yaml", "just text").await;
    let problem = "the document is a string, not an object";
    wait_message(&name, "UnpackFailed", problem).await;
    put_config_map(world, &two, "b.yaml", &object("b")).await;
    let bundle = world.wait_bundle(&name, "Unpacked", "True").await;
    tests::assert_rows!(bundle.status.as_ref().unwrap().facts.conversion.as_ref().unwrap().objects => 2);

    // The ConfigMaps are not owned by the Bundle.
    let api: Api<Bundle> = world.api();
    delete(&api, &name).await;
    wait_deleted(api, &name).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.client(), SYSTEM);
    tests::assert_rows!(maps.get(&one).await.unwrap().metadata.owner_references => None);
}
