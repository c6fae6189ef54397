//! Rejected content and sources without content: the condition names the problem, and no text from a server. Links have
//! the same outcome for all ways into the store. The tests of `provisioner::controllers::bundle::validate` cover problems
//! of manifests, those of `unpacker` problems of servers and the forms of links in each kind of source.

use std::{os::unix::fs::symlink, path::Path, process::Command};

use manifests::api::bundle::SkippedEntries;

use super::download::Reader;
use super::*;

// parity: b7, h4, rukpak-12
#[tokio::test]
async fn b07_h04_rejected_content_is_explained_without_server_text() {
    let files = FileServer::start(None, None);
    let none = content(&[("README.md", json!("hello"))]);
    let none = files.add("none", archive(&none));
    // Not every reader of Bundles can reach a server, so no status contains the text in the last column.
    for (row, source, problem, secret) in tests::rows![
        "b7", http(&none), "readdir manifests: file does not exist" => "hello";
        "h4", http(&none.replace("/none", "/missing")), "unexpected status \"404 Not Found\"" => "department";
    ] {
        let status = failing(&unique(row), source, problem).await.status;
        let status = serde_json::to_string(&status).unwrap();
        assert!(!status.contains(secret), "{row}: {status}");
        assert!(!status.contains("not a tar archive"), "{row}: {status}");
    }
}

const REFUSED: &str = "source bundle content: entry \"manifests/link.yaml\" is a symbolic link";

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
    Some(tests::with!(SkippedEntries, symlinks: 1, paths: vec![link.to_owned()]))
}

fn packed(dir: &Path) -> Vec<u8> {
    let mut tar = Command::new("tar");
    tar.args(["-cz", "manifests", "tests"]).current_dir(dir);
    let output = tar.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout
}

// parity: rukpak-19, b19, b20
#[tokio::test]
async fn links_are_skipped_or_fail_bundles_and_uploads() {
    let world = running().await;
    let uploader = Reader::new(&["bundle-uploader"]).await;
    let object = config_map("default", "nested", "b20");
    let nested = content(&[("manifests/more/a.yaml", object)]);
    let (name, status, _) = uploader.put(archive(&nested)).await;
    assert_eq!(status, StatusCode::CREATED);
    wait_message(&name, "UnpackFailed", "manifests/more").await;
    let files = FileServer::start(None, None);
    for (link, reason, start, end) in tests::rows![
        "manifests/link.yaml", "EntryRefused", REFUSED => ", not a regular file; replace the link with a copy of the file";
        "tests/link", "UnpackSuccessful", "Successfully unpacked the "
            => " Bundle; skipped entries that are not regular files: 1 symbolic link (tests/link)";
    ] {
        let is_skipped = reason == "UnpackSuccessful";
        let dir = linked(link, link);
        let server = GitServer::start(None, None);
        server.repository("linked.git").commit("main", dir.path());
        let cloned = git(&server.url("linked.git"), branch("main"), None);
        let downloaded = http(&files.add("linked.tgz", packed(dir.path())));
        let assert_reported = async |name: &str| {
            let bundle = wait_message(name, reason, start).await;
            let message = message(&bundle);
            assert!(message.ends_with(end), "{message}");
            let status = bundle.status.unwrap();
            tests::assert_rows!(status.skipped => if is_skipped { skipped(link) } else { None }, "{link}");
            assert_eq!(status.content_digest.is_some(), is_skipped, "{link}");
        };
        // The second Bundle of the same commit uses the stored content.
        for source in [cloned.clone(), cloned, downloaded] {
            let name = unique("linked");
            world.bundle(&name, "plain", source).await;
            assert_reported(&name).await;
        }
        let (name, status, body) = uploader.put(packed(dir.path())).await;
        if is_skipped {
            assert_eq!(status, StatusCode::CREATED);
            assert_reported(&name).await;
            continue;
        }
        // An upload is rejected when it arrives.
        assert_eq!(status, StatusCode::UNPROCESSABLE_ENTITY);
        let answer: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(answer["reason"], "EntryRefused");
        let refused = REFUSED.trim_start_matches("source bundle content: ");
        assert!(answer["message"].as_str().unwrap().starts_with(refused));
        wait_message(&name, "UnpackPending", "waiting for bundle to be uploaded").await;
    }
}
