//! Content that is rejected, and sources without content: the condition names the problem, and nothing that a server chose.
//! The problems of manifests are those of `provisioner::bundle::check`, and those of servers the ones of `unpacker`.

use tests::Site;

use super::*;

/// A document that only the cluster can reach.
const DOCUMENT: &[u8] = b"a document that only the cluster reaches";

/// A git server that answers with an error.
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
async fn b07_h04_refused_content_is_explained_without_what_a_server_chose() {
    let world = world().await;
    world.provisioner().await;
    let (files, site) = (FileServer::start(None, None), erroneous());
    let none = archive(&content(&[("README.md", json!("hello"))]));
    let none = files.add("none", none);
    let pinned = unpacker::Digest::of(b"pinned");
    let document = format!("{}#{pinned}", files.add("document", DOCUMENT));
    let gives = format!("provides other content, but is pinned to {pinned}");
    let actual = unpacker::Digest::of(DOCUMENT).hex();
    let said = git(&site.url("/r.git"), branch("main"), None);
    // Not every reader of Bundles can reach a server, so no status has what the last column says.
    let rows = tests::rows![
        "b7", http(&none), "readdir manifests: file does not exist" => "hello";
        "h4", http(&none.replace("/none", "/missing")), "unexpected status \"404 Not Found\"" => "department";
        "pinned", http(&document), gives.as_str() => actual.as_str();
        "said", said, "the server rejected the request; check its" => "embargoed";
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
