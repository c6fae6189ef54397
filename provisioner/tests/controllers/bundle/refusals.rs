//! Content that is no good, and sources that are not there: the condition says why.

use super::*;

/// A Bundle whose archive holds these files.
async fn refused(row: &str, files: &[(&str, &str)], text: &str) -> Bundle {
    let server = FileServer::start(None, None);
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (*path, json!(text)))
        .collect();
    let url = server.add("bundle.tgz", archive(&content(&files)));
    failing(&unique(row), http(&url), text).await
}

// parity: b6, complaint-2
#[tokio::test]
async fn b06_a_tag_that_does_not_exist_is_named_and_taken_once_it_does() {
    let world = world().await;
    let name = unique("b6");
    let tag = world.registry.image(&format!("{name}:v1"));
    let bundle = failing(&name, image(&tag), "source bundle content: ").await;
    let status = bundle.status.unwrap();
    assert_eq!(status.phase, Some(Phase::Failing));
    let message = &condition(&status.conditions, "Unpacked").unwrap().message;
    assert!(message.contains(&tag), "{message}");
    assert!(status.content_url.is_none() && status.resolved_source.is_none());
    // Nobody tells that a tag is there; it is asked for again after a while.
    world.push(&format!("{name}:v1"), &small(&name)).await;
    world.wait_bundle(&name, "Unpacked", "True").await;
}

// parity: b7
#[tokio::test]
async fn b07_content_without_manifests_is_refused() {
    refused(
        "b7",
        &[("README.md", "hello")],
        "readdir manifests: file does not exist",
    )
    .await;
}

// parity: b7
#[tokio::test]
async fn b08_content_without_objects_is_refused() {
    let text = "found zero objects: plain+v0 bundles are required to contain at least one object";
    refused("b8", &[("manifests/a.yaml", "# nothing")], text).await;
}

// parity: b7
#[tokio::test]
async fn b09_folders_in_manifests_are_refused() {
    let text =
        "subdirectories are not allowed within the \"manifests\" directory of the bundle image";
    let object = config_map("default", "a", "").to_string();
    let files = [
        ("manifests/a.yaml", object.as_str()),
        ("manifests/emptydir/b.yaml", &object),
    ];
    let bundle = refused("b9", &files, text).await;
    let status = bundle.status.unwrap();
    let message = &condition(&status.conditions, "Unpacked").unwrap().message;
    assert!(
        message.starts_with("get objects from bundle manifests: "),
        "{message}"
    );
    assert!(message.contains("manifests/emptydir"), "{message}");
}

// parity: b18
#[tokio::test]
async fn b18_a_config_map_without_objects_is_refused() {
    let world = world().await;
    let map = unique("b18");
    put_config_map(world, &map, "a.yaml", "just text").await;
    let name = unique("b18");
    failing(
        &name,
        config_maps(&[&map]),
        "the document is a text, not an object",
    )
    .await;
    // Corrected, it is taken at once: the ConfigMap is read afresh.
    put_config_map(
        world,
        &map,
        "a.yaml",
        &config_map("default", "a", &map).to_string(),
    )
    .await;
    world.wait_bundle(&name, "Unpacked", "True").await;
}

// parity: r2
#[tokio::test]
async fn r02_a_registry_bundle_is_refused_with_every_reason_at_once() {
    let world = world().await;
    world.provisioner().await;
    let name = unique("r2");
    let csv = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("{name}.v1.0.0")},
        "spec": {
            "version": "1.0.0",
            "installModes": [{"type": "OwnNamespace", "supported": true}],
            "customresourcedefinitions": {"owned": [
                {"name": format!("gadgets.{name}.example.com"), "version": "v1", "kind": "Gadget"},
            ]},
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
        },
    });
    let bundle = operator(&name, "1.0.0", &[("manifests/csv.yaml", csv)]);
    let tag = world.push(&format!("{name}:v1"), &bundle).await;
    world.bundle(&name, "registry", image(&tag)).await;
    let prefix = "convert registry+v1 bundle to plain+v0 bundle: ";
    let bundle = says(&name, "UnpackFailed", prefix).await;
    let status = bundle.status.unwrap();
    let message = &condition(&status.conditions, "Unpacked").unwrap().message;
    assert!(message.contains("AllNamespaces install mode"), "{message}");
    assert!(
        message.contains(&format!("gadgets.{name}.example.com")),
        "{message}"
    );
    assert!(status.content_digest.is_none());
}

// parity: h4
#[tokio::test]
async fn h04_h05_a_url_without_an_archive_is_refused() {
    let server = FileServer::start(None, None);
    let page = server.add("page.tgz", "<html>log in</html>");
    let missing = http(&format!("{page}.not"));
    let bundle = failing(
        &unique("h4"),
        missing,
        "unexpected status \"404 Not Found\"",
    )
    .await;
    let status = bundle.status.unwrap();
    let message = &condition(&status.conditions, "Unpacked").unwrap().message;
    // Words of a server that not everybody who reads Bundles can reach.
    assert!(!message.contains("department"), "{message}");
    failing(&unique("h5"), http(&page), "source bundle content: ").await;
}

// parity: rukpak-12
#[tokio::test]
async fn a_condition_has_no_digest_that_only_the_server_knows() {
    let server = FileServer::start(None, None);
    let pinned = unpacker::Digest::of(b"pinned");
    let document = b"a document that only the cluster reaches";
    let url = server.add("document", &document[..]);
    let problem = format!("{url} gives something else, but is pinned to {pinned}");
    let bundle = failing(
        &unique("pinned"),
        http(&format!("{url}#{pinned}")),
        &problem,
    )
    .await;
    let status = serde_json::to_string(&bundle.status).unwrap();
    let actual = unpacker::Digest::of(document);
    assert!(!status.contains(&actual.hex()), "{status}");
    assert!(!status.contains("neither a tar"), "{status}");
}

// parity: rukpak-12
#[tokio::test]
async fn a_condition_has_no_text_that_a_git_server_chose() {
    let answer = |request: http::Request<bytes::Bytes>| async move {
        let (kind, body) = match request.method() {
            &http::Method::GET => ("advertisement", "000eversion 2\n0000"),
            _ => ("result", "0017ERR embargoed text\n0000"),
        };
        let kind = format!("application/x-git-upload-pack-{kind}");
        let response = http::Response::builder().header("content-type", kind);
        response.body(bytes::Bytes::from(body)).unwrap()
    };
    let server = tests::Site::start(None, answer);
    let source = git(&server.url("/r.git"), branch("main"), None);
    let bundle = failing(&unique("said"), source, "the server refuses; check what").await;
    let status = serde_json::to_string(&bundle.status).unwrap();
    assert!(!status.contains("embargoed"), "{status}");

    let server = GitServer::start(None, None);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a"), "a").unwrap();
    server
        .repository("r.git")
        .commit("embargoed-fix", folder.path());
    let source = git(&server.url("r.git"), branch("main"), None);
    let problem = "there is no branch \"main\"; check the name";
    let bundle = failing(&unique("names"), source, problem).await;
    let status = serde_json::to_string(&bundle.status).unwrap();
    assert!(!status.contains("embargoed"), "{status}");
}

#[tokio::test]
async fn thousands_of_problems_fit_into_a_condition() {
    let files: Vec<_> = (0..3000)
        .map(|number| (format!("manifests/{number:04}.yaml"), "no object"))
        .collect();
    let files: Vec<_> = files
        .iter()
        .map(|(path, text)| (path.as_str(), *text))
        .collect();
    let bundle = refused("many", &files, "3000 problems:").await;
    let status = bundle.status.unwrap();
    let message = &condition(&status.conditions, "Unpacked").unwrap().message;
    assert!(
        message.len() <= 32 << 10 && message.ends_with(" more"),
        "{}",
        message.len()
    );
}

#[tokio::test]
async fn an_archive_that_inflates_without_end_is_refused() {
    let name = unique("bomb");
    let server = FileServer::start(None, None);
    let mut builder = manifests::content::Builder::new(unpacker::Limits {
        total: 256 << 20,
        file: 256 << 20,
        ..unpacker::Limits::default()
    });
    builder
        .add(
            "manifests/a.yaml",
            0o644,
            &mut vec![b'#'; 100 << 20].as_slice(),
        )
        .unwrap();
    let url = server.add("bomb.tgz", archive(&builder.finish()));
    failing(&name, http(&url), "larger than the limit").await;
}
