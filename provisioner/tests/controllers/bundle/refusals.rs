//! Content that is rejected, and sources without content: the condition names the problem.

use tests::Site;

use super::*;

/// A document that only the cluster can reach.
const DOCUMENT: &[u8] = b"a document that only the cluster reaches";

/// Checks the message and the whole status.
type Check = fn(&str, &str);

/// A source without valid content.
struct Refused {
    name: &'static str,
    source: BundleSource,
    /// A part of the message.
    problem: String,
    check: Check,
}

fn packed(files: &[(&str, &str)]) -> Vec<u8> {
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (*path, json!(text)))
        .collect();
    archive(&content(&files))
}

/// An archive of a few kilobytes with 100 MiB of comments.
fn bomb() -> Vec<u8> {
    let mut builder = manifests::content::Builder::new(unpacker::Limits {
        total: 256 << 20,
        file: 256 << 20,
        ..unpacker::Limits::default()
    });
    let comments = vec![b'#'; 100 << 20];
    builder
        .add("manifests/a.yaml", 0o644, &mut comments.as_slice())
        .unwrap();
    archive(&builder.finish())
}

/// URLs of a server.
fn archives(server: &FileServer) -> Vec<Refused> {
    let added = |name: &'static str, bytes: Vec<u8>| http(&server.add(name, bytes));
    let object = config_map("default", "a", "").to_string();
    let nested = [
        ("manifests/a.yaml", object.as_str()),
        ("manifests/emptydir/b.yaml", &object),
    ];
    let many: Vec<_> = (0..3000)
        .map(|number| (format!("manifests/{number:04}.yaml"), "no object"))
        .collect();
    let many: Vec<_> = many
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    let pinned = unpacker::Digest::of(b"pinned");
    let document = server.add("document", DOCUMENT);
    let rows: [(&'static str, BundleSource, String, Check); 8] = tests::rows![
        "b7", added("b7", packed(&[("README.md", "hello")])), "readdir manifests: file does not exist".to_owned()
            => |_, _| ();
        "b8", added("b8", packed(&[("manifests/a.yaml", "# nothing")])),
        "found zero objects: plain+v0 bundles are required to contain at least one object".to_owned()
            => |_, _| ();
        "b9", added("b9", packed(&nested)),
        "subdirectories are not allowed within the \"manifests\" directory of the bundle image".to_owned()
            => |message, _| {
                assert!(message.starts_with("get objects from bundle manifests: "), "{message}");
                assert!(message.contains("manifests/emptydir"), "{message}");
            };
        // Not every reader of Bundles can reach the server, so the text of its page is not quoted.
        "h4", http(&server.add("page", "").replace("/page", "/missing")), "unexpected status \"404 Not Found\"".to_owned()
            => |message, _| assert!(!message.contains("department"), "{message}");
        "h5", added("h5", b"<html>log in</html>".to_vec()), "source bundle content: ".to_owned() => |_, _| ();
        "pinned", http(&format!("{document}#{pinned}")),
        format!("{document} gives something else, but is pinned to {pinned}")
            => |_, status| {
                let actual = unpacker::Digest::of(DOCUMENT).hex();
                assert!(!status.contains(&actual), "{status}");
                assert!(!status.contains("neither a tar"), "{status}");
            };
        "many", added("many", packed(&many)), "3000 problems:".to_owned()
            => |message, _| {
                let length = message.len();
                assert!(length <= 32 << 10 && message.ends_with(" more"), "{length}: {message}");
            };
        "bomb", added("bomb", bomb()), "larger than the limit".to_owned() => |_, _| ();
    ];
    let refused = |(name, source, problem, check)| Refused {
        name,
        source,
        problem,
        check,
    };
    rows.map(refused).into()
}

/// Repositories of these servers, which have texts that must not appear in a status.
fn repositories(site: &Site, server: &GitServer) -> Vec<Refused> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "a").unwrap();
    server
        .repository("r.git")
        .commit("embargoed-fix", folder.path());
    tests::rows![
        "said", site.url("/r.git") => "the server refuses; check what";
        "names", server.url("r.git") => "there is no branch \"main\"; check the name";
    ]
    .map(|(name, url, problem)| Refused {
        name,
        source: git(&url, branch("main"), None),
        problem: problem.to_owned(),
        check: |_, status| assert!(!status.contains("embargoed"), "{status}"),
    })
    .into()
}

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
async fn b07_b08_b09_h04_h05_refused_content_is_explained() {
    let world = world().await;
    world.provisioner().await;
    let (files, site, server) = (
        FileServer::start(None, None),
        erroneous(),
        GitServer::start(None, None),
    );
    let mut refused = archives(&files);
    refused.extend(repositories(&site, &server));
    let names: Vec<String> = refused.iter().map(|row| unique(row.name)).collect();
    for (name, row) in names.iter().zip(&refused) {
        world.bundle(name, "plain", row.source.clone()).await;
    }
    for (name, row) in names.iter().zip(&refused) {
        let status = says(name, "UnpackFailed", &row.problem).await.status;
        let text = serde_json::to_string(&status).unwrap();
        let conditions = status.unwrap().conditions;
        let unpacked = condition(&conditions, "Unpacked").unwrap();
        (row.check)(&unpacked.message, &text);
    }
}
