//! Rejected content and sources without content: the condition names the problem, and no text from a server. The tests
//! of `provisioner::controllers::bundle::validate` cover problems of manifests, those of `unpacker` problems of servers.

use tests::Site;

use super::*;

/// A document that only the cluster can reach.
const DOCUMENT: &[u8] = b"a document that only the cluster reaches";

/// Returns a git server that answers with an error.
fn erroneous() -> Site {
    Site::start(None, |request: http::Request<bytes::Bytes>| async move {
        let (kind, body) = match request.method() {
            &http::Method::GET => ("advertisement", "000eversion 2\n0000"),
            _ => ("result", "0017ERR embargoed text\n0000"),
        };
        let kind = format!("application/x-git-upload-pack-{kind}");
        let response = http::Response::builder().header("content-type", kind);
        response.body(bytes::Bytes::from(body)).unwrap()
    })
}

// parity: b7, h4, rukpak-12
#[tokio::test]
async fn b07_h04_rejected_content_is_explained_without_server_text() {
    let world = world().await;
    world.provisioner().await;
    let (files, site) = (FileServer::start(None, None), erroneous());
    let none = archive(&content(&[("README.md", json!("hello"))]));
    let none = files.add("none", none);
    let pinned = unpacker::Digest::sha256(b"pinned");
    let document = format!("{}#{pinned}", files.add("document", DOCUMENT));
    let gives = format!("provides other content, but is pinned to {pinned}");
    let actual = unpacker::Digest::sha256(DOCUMENT).hex();
    let rejected = git(&site.url("/r.git"), branch("main"), None);
    // Not every reader of Bundles can reach a server, so no status contains the text in the last column.
    let rows = tests::rows![
        "b7", http(&none), "readdir manifests: file does not exist" => "hello";
        "h4", http(&none.replace("/none", "/missing")), "unexpected status \"404 Not Found\"" => "department";
        "pinned", http(&document), gives.as_str() => actual.as_str();
        "said", rejected, "the server rejected the request; check the URL" => "embargoed";
    ];
    let names = rows.each_ref().map(|(name, ..)| unique(name));
    for (name, (_, source, ..)) in names.iter().zip(&rows) {
        world.bundle(name, "plain", source.clone()).await;
    }
    for (name, (_, _, problem, secret)) in names.iter().zip(&rows) {
        let status = says(name, "UnpackFailed", problem).await.status;
        let status = serde_json::to_string(&status).unwrap();
        assert!(!status.contains(secret), "{name}: {status}");
        assert!(!status.contains("not a tar archive"), "{name}: {status}");
    }
}
