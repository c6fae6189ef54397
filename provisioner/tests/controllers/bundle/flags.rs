//! Settings of servers, CAs and proxies apply to every source.

use std::net::TcpListener;

use tests::{Auth, Registry, TestCa};

use super::*;
use crate::support::{Options, Provisioner, publish, trusting, wait_message, with_controllers};

/// A separate cluster: this provisioner reaches other servers than the shared one.
#[tokio::test]
async fn cas_and_proxies_apply_to_images_git_and_http() {
    let cluster = with_controllers().await;
    let ca = TestCa::new("settings");
    let dir = tempfile::tempdir().unwrap();
    let pem = dir.path().join("ca.pem");
    std::fs::write(&pem, ca.pem()).unwrap();
    // The port is closed again.
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", proxy.local_addr().unwrap());
    let ca_file = format!("--ca-file={}", pem.display());
    let mut options = Options::with_flags(&["--controllers=bundle", &ca_file]);
    options.environment = vec![
        ("HTTPS_PROXY", proxy.clone()),
        ("HTTP_PROXY", proxy),
        ("NO_PROXY", "127.0.0.1,localhost".to_owned()),
    ];
    let _provisioner = Provisioner::start(&cluster, options).await;

    let files = FileServer::start(None, Some(&ca));
    let registry = Registry::start(Auth::Anonymous, Some(&ca));
    let tag = registry.image("settings:v1");
    publish(&tag, &small("settings"), &trusting(&ca, None)).await;
    let server = GitServer::start(None, Some(&ca));
    write_small(dir.path(), "git");
    std::fs::remove_file(&pem).unwrap(); // read once, when the process began
    server.repository("bundle.git").commit("main", dir.path());

    let verified = |tag: &str| {
        let mut source = image(tag);
        source.image.as_mut().unwrap().insecure_skip_tls_verify = false;
        source
    };
    let api: Api<Bundle> = Api::all(cluster.client().unwrap());
    let url = files.add("a.tgz", archive(&small("settings")));
    let cloned = |url: &str| git(url, branch("main"), None);
    let (done, proxied) = ("Successfully unpacked", "the proxy settings");
    let rows = tests::rows![
        "http", http(&url) => done;
        "image", verified(&tag) => done;
        "git", cloned(&server.url("bundle.git")) => done;
        "far-http", http("https://files.example.com/a.tgz") => proxied;
        "far-image", verified("registry.example.com/a/b:v1") => proxied;
        "far-git", cloned("https://git.example.com/r.git") => proxied;
    ];
    // All Bundles are created before the first wait: an unreachable proxy is retried for a while.
    for (name, source, _) in &rows {
        create(&api, &bundle(name, "plain", source.clone())).await;
    }
    for (name, _, expected) in rows {
        wait_message(&api, name, "", expected).await;
    }
}
