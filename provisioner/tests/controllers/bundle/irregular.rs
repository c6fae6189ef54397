//! Links in bundles: the same outcome for all ways into the store. The tests of `unpacker` cover the forms of links in
//! each kind of source.

use std::{os::unix::fs::symlink, path::Path, process::Command};

use manifests::api::bundle::SkippedEntries;
use reqwest::StatusCode;
use tempfile::TempDir;

use super::download::Reader;
use super::*;

const REFUSED: &str = "source bundle content: entry \"manifests/link.yaml\" is a symbolic link";

/// Returns a bundle with a link at that path.
pub(super) fn linked(text: &str, link: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_small(dir.path(), text);
    std::fs::create_dir(dir.path().join("tests")).unwrap();
    std::fs::write(dir.path().join("tests/a"), "").unwrap();
    symlink("a.yaml", dir.path().join(link)).unwrap();
    dir
}

/// Returns the entry of that link in a status.
#[expect(clippy::unnecessary_wraps, reason = "the form of the field")]
pub(super) fn skipped(link: &str) -> Option<SkippedEntries> {
    Some(SkippedEntries {
        symlinks: 1,
        paths: vec![link.to_owned()],
        ..SkippedEntries::default()
    })
}

fn packed(dir: &Path) -> Vec<u8> {
    let mut tar = Command::new("tar");
    tar.args(["-cz", "manifests", "tests"]).current_dir(dir);
    let output = tar.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Returns a source of the bundle, and the server that provides it.
fn repository(dir: &Path) -> (BundleSource, GitServer) {
    let server = GitServer::start(None, None);
    server.repository("linked.git").commit("main", dir);
    let source = git(&server.url("linked.git"), branch("main"), None);
    (source, server)
}

// parity: rukpak-19
#[tokio::test]
async fn a_link_among_the_manifests_fails_bundles_and_uploads() {
    let dir = linked("refused", "manifests/link.yaml");
    let (source, _server) = repository(dir.path());
    let files = FileServer::start(None, None);
    let url = files.add("linked.tgz", packed(dir.path()));
    let world = world().await;
    world.provisioner().await;
    for source in [source, http(&url)] {
        let name = unique("refused");
        world.bundle(&name, "plain", source).await;
        let bundle = says(&name, "EntryRefused", REFUSED).await;
        let status = bundle.status.as_ref().unwrap();
        assert_eq!(status.phase, Some(Phase::Failing));
        assert_eq!(status.content_digest, None);
        let message = message(&bundle);
        assert!(
            message.ends_with(", not a regular file; replace the link with a copy of the file"),
            "{message}"
        );
    }
    // An upload is rejected when it arrives.
    let uploader = Reader::new(&["bundle-uploader"]).await;
    let (name, status, body) = uploader.put(packed(dir.path())).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["reason"], "EntryRefused");
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with("entry \"manifests/link.yaml\" is a symbolic link"));
    says(&name, "UnpackPending", "waiting for bundle to be uploaded").await;
}

// parity: rukpak-19
#[tokio::test]
async fn skipped_entries_are_counted_in_bundles_and_uploads() {
    let dir = linked("skipped", "tests/link");
    let (source, _server) = repository(dir.path());
    let files = FileServer::start(None, None);
    let url = files.add("skipped.tgz", packed(dir.path()));
    // The second Bundle of the same commit uses the stored content.
    let mut names = Vec::new();
    for source in [source.clone(), source, http(&url)] {
        let name = unique("skipped");
        unpacked(&name, source).await;
        names.push(name);
    }
    let uploader = Reader::new(&["bundle-uploader"]).await;
    let (name, status, _) = uploader.put(packed(dir.path())).await;
    assert_eq!(status, StatusCode::CREATED);
    names.push(name);
    for name in names {
        let bundle = world().await.wait_bundle(&name, "Unpacked", "True").await;
        let skipped_here = bundle.status.as_ref().unwrap().skipped.clone();
        assert_eq!(skipped_here, skipped("tests/link"), "{name}");
        let counted =
            "Bundle; skipped entries that are not regular files: 1 symbolic link (tests/link)";
        let message = message(&bundle);
        assert!(message.ends_with(counted), "{name}: {message}");
    }
}
