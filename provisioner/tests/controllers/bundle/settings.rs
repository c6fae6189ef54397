//! What the process is told about servers, authorities and proxies, reaches every source.

use std::net::TcpListener;

use tests::{Auth, Authority, Registry};
use unpacker::{Access, access::Trust, registry::BundleImage};

use super::*;
use crate::support::{Options, Provisioner, with_controllers};

/// In a cluster of its own: this provisioner reaches other servers than that of everybody.
#[tokio::test]
async fn authorities_and_proxies_count_for_images_git_and_http() {
    let cluster = with_controllers().await;
    let authority = Authority::new("settings");
    let folder = tempfile::tempdir().unwrap();
    let pem = folder.path().join("ca.pem");
    std::fs::write(&pem, authority.pem()).unwrap();
    // Nothing listens there any more.
    let proxy = TcpListener::bind("127.0.0.1:0").unwrap();
    let proxy = format!("http://{}", proxy.local_addr().unwrap());
    let options = Options {
        flags: vec![
            "--controllers=bundle".to_owned(),
            format!("--ca-file={}", pem.display()),
        ],
        environment: vec![
            ("HTTPS_PROXY", proxy.clone()),
            ("HTTP_PROXY", proxy),
            ("NO_PROXY", "127.0.0.1,localhost".to_owned()),
        ],
        ..Options::default()
    };
    let _provisioner = Provisioner::start(&cluster, options).await;

    let files = FileServer::start(None, Some(&authority));
    let registry = Registry::start(Auth::Anonymous, Some(&authority));
    let tag = registry.image("settings:v1");
    let access = Access {
        trust: Trust {
            roots: authority.pem(),
            ..Trust::default()
        },
        ..Access::default()
    };
    let bundle = BundleImage::new(&small("settings")).unwrap();
    unpacker::registry::push(&tag.parse().unwrap(), &bundle, &access)
        .await
        .unwrap();
    let server = GitServer::start(None, Some(&authority));
    let content = folder.path().join("manifests");
    std::fs::create_dir(&content).unwrap();
    let object = config_map("default", "settings", "git").to_string();
    std::fs::write(content.join("a.yaml"), object).unwrap();
    std::fs::remove_file(&pem).unwrap(); // read once, when the process began
    server
        .repository("bundle.git")
        .commit("main", folder.path());

    let trusting = |tag: &str| {
        let mut source = image(tag);
        let image = source.image.as_mut().unwrap();
        image.insecure_skip_tls_verify = false;
        source
    };
    let api: Api<Bundle> = Api::all(cluster.client().unwrap());
    let bundles = [
        (
            "http",
            http(&files.add("a.tgz", archive(&small("settings")))),
            "Successfully unpacked",
        ),
        ("image", trusting(&tag), "Successfully unpacked"),
        (
            "git",
            git(&server.url("bundle.git"), branch("main"), None),
            "Successfully unpacked",
        ),
        (
            "far-http",
            http("https://files.example.com/a.tgz"),
            "the proxy settings",
        ),
        (
            "far-image",
            trusting("registry.example.com/a/b:v1"),
            "the proxy settings",
        ),
        (
            "far-git",
            git("https://git.example.com/r.git", branch("main"), None),
            "the proxy settings",
        ),
    ];
    // All before the first is waited for: a proxy that does not answer is tried again for a while.
    let expected = bundles
        .each_ref()
        .map(|(name, _, expected)| (*name, *expected));
    for (name, source, _) in bundles {
        let spec = BundleSpec {
            provisioner_class_name: "core.rukpak.io/plain".to_owned(),
            source,
        };
        api.create(&PostParams::default(), &Bundle::new(name, spec))
            .await
            .unwrap();
    }
    for (name, expected) in expected {
        wait_for(api.clone(), name, expected, |bundle: &Bundle| {
            let unpacked = condition(&bundle.status.as_ref()?.conditions, "Unpacked")?;
            unpacked.message.contains(expected).then_some(())
        })
        .await;
    }
}
