//! Links in bundles of every source: one outcome for all ways into the store.

use std::{os::unix::fs::symlink, path::Path, process::Command};

use manifests::api::bundle::SkippedEntries;
use reqwest::StatusCode;
use tempfile::TempDir;
use tests::Buildah;

use super::{served::Reader, *};

const REFUSED: &str = "source bundle content: entry \"manifests/link.yaml\" is a symbolic link";

/// A bundle with a link at that path.
pub(super) fn linked(text: &str, link: &str) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for directory in ["manifests", "tests"] {
        std::fs::create_dir(folder.path().join(directory)).unwrap();
    }
    let map = config_map("default", "linked", text).to_string();
    std::fs::write(folder.path().join("manifests/a.yaml"), map).unwrap();
    std::fs::write(folder.path().join("tests/a"), "").unwrap();
    symlink("a.yaml", folder.path().join(link)).unwrap();
    folder
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

fn packed(folder: &Path) -> Vec<u8> {
    let mut tar = Command::new("tar");
    tar.args(["-cz", "manifests", "tests"]).current_dir(folder);
    let output = tar.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

/// Sources of the same bundle, and the servers that have it.
async fn sources(folder: &Path) -> (Vec<BundleSource>, (GitServer, FileServer)) {
    let image_name = world()
        .await
        .registry
        .image(&format!("{}:v1", unique("linked")));
    let file = "FROM scratch\nCOPY manifests /manifests/\nCOPY tests /tests/\n";
    Buildah::new().publish(file, folder, &image_name, &[]);
    let repositories = GitServer::start(None, None);
    repositories.repository("linked.git").commit("main", folder);
    let files = FileServer::start(None, None);
    let url = files.add("linked.tgz", packed(folder));
    let sources = vec![
        image(&image_name),
        git(&repositories.url("linked.git"), branch("main"), None),
        http(&url),
    ];
    (sources, (repositories, files))
}

// parity: rukpak-19
#[tokio::test]
async fn a_link_among_the_manifests_fails_bundles_of_every_source() {
    let world = world().await;
    world.provisioner().await;
    let folder = linked("refused", "manifests/link.yaml");
    let (sources, _servers) = sources(folder.path()).await;
    for source in sources {
        let name = unique("refused");
        world.bundle(&name, "plain", source).await;
        let bundle = says(&name, "EntryRefused", REFUSED).await;
        let status = bundle.status.unwrap();
        assert_eq!(status.phase, Some(Phase::Failing));
        assert_eq!(status.content_digest, None);
        let message = &condition(&status.conditions, "Unpacked").unwrap().message;
        assert!(
            message.ends_with(", not a regular file; replace the link with a copy of the file"),
            "{message}"
        );
    }
    // An upload is refused when it arrives.
    let uploader = Reader::new(&["bundle-uploader"]).await;
    let (name, status, body) = uploader.put(packed(folder.path())).await;
    assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
    let answer: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(answer["reason"], "EntryRefused");
    let message = answer["message"].as_str().unwrap();
    assert!(message.starts_with("entry \"manifests/link.yaml\" is a symbolic link"));
    says(&name, "UnpackPending", "waiting for bundle to be uploaded").await;
}

// parity: rukpak-19
#[tokio::test]
async fn skipped_entries_are_counted_for_every_source() {
    let world = world().await;
    world.provisioner().await;
    let folder = linked("skipped", "tests/link");
    let (mut sources, _servers) = sources(folder.path()).await;
    // The store knows the second one of the same commit.
    sources.push(sources[1].clone());
    let mut names = Vec::new();
    for source in sources {
        let name = unique("skipped");
        world.bundle(&name, "plain", source).await;
        world.wait_bundle(&name, "Unpacked", "True").await;
        names.push(name);
    }
    let uploader = Reader::new(&["bundle-uploader"]).await;
    let (name, status, _) = uploader.put(packed(folder.path())).await;
    assert_eq!(status, StatusCode::CREATED);
    names.push(name);
    for name in names {
        let bundle = world.wait_bundle(&name, "Unpacked", "True").await;
        let status = bundle.status.unwrap();
        assert_eq!(status.skipped, skipped("tests/link"), "{name}");
        let message = &condition(&status.conditions, "Unpacked").unwrap().message;
        let counted =
            "Bundle; skipped entries that are not regular files: 1 symbolic link (tests/link)";
        assert!(message.ends_with(counted), "{message}");
    }
}
