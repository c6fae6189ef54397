//! The real `opm serve` beside ours: the same catalog, the same questions, the same answers.
//!
//! Where opm leaves an order to chance, both are sorted. Texts of manifests are compared as what they say.

use std::{
    collections::BTreeMap,
    process::{Child, Stdio},
    sync::Arc,
    time::Duration,
};

use catalog::{
    Limits, Source, load,
    registry::{Bounds, Client, packages},
};
use futures::TryStreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Status;

use crate::{
    dynamic::Dynamic,
    fixture::{Served, anchor, bundle, buoy, folder},
};

/// `opm serve`, killed with the test.
pub(crate) struct Opm {
    child: Child,
    pub(crate) address: std::net::SocketAddr,
    _place: TempDir,
}

impl Opm {
    pub(crate) async fn start(catalog: &std::path::Path) -> Self {
        let place = tempfile::tempdir().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let port = address.port().to_string();
        let child = tests::opm_command(place.path())
            .arg("serve")
            .arg(catalog)
            .args([
                "--port",
                &port,
                "--pprof-addr",
                "",
                "--termination-log",
                "log",
            ])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let opm = Self {
            child,
            address,
            _place: place,
        };
        for _ in 0..600 {
            let client = Client::connect(&address.to_string(), Bounds::default()).await;
            if let Ok(client) = client
                && client.list_packages().await.is_ok()
            {
                return opm;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        let found = tests::opm(catalog, &["validate", "."]);
        panic!(
            "opm does not serve: {}",
            String::from_utf8_lossy(&found.stderr)
        );
    }
}

impl Drop for Opm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An answer without what is left to chance or says nothing.
fn plain(result: Result<Vec<Value>, Status>) -> Result<Vec<Value>, (tonic::Code, String)> {
    let mut answers = result.map_err(|it| (it.code(), it.message().to_owned()))?;
    for answer in &mut answers {
        let Some(answer) = answer.as_object_mut() else {
            continue;
        };
        if let Some(Value::String(text)) = answer.get("csvJson") {
            let parsed = manifest(text);
            answer.insert("csvJson".into(), parsed);
        }
        if let Some(Value::Array(objects)) = answer.get_mut("object") {
            for object in objects {
                *object = manifest(object.as_str().unwrap());
            }
        }
    }
    Ok(answers)
}

fn manifest(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn sorted(mut answers: Vec<Value>) -> Vec<Value> {
    answers.sort_by_key(ToString::to_string);
    answers
}

// parity: grpc-1, grpc-2, grpc-3, grpc-4
#[tokio::test(flavor = "multi_thread")]
async fn opm_answers_the_same() {
    let catalog = folder(&[
        ("anchor/catalog.json", &anchor()),
        ("buoy/catalog.json", &buoy()),
    ]);
    let opm = Opm::start(catalog.path()).await;
    let served = Served::of(catalog.path()).await;
    let theirs = Dynamic::connect(opm.address).await;
    let ours = Dynamic::connect(served.address).await;
    let api = json!({"group": "sea.example.com", "version": "v1", "kind": "Anchor"});
    let chain = json!({"group": "sea.example.com", "version": "v1", "kind": "Chain"});
    let of = |package: &str, channel: &str, name: &str| json!({"pkgName": package, "channelName": channel, "csvName": name});
    let head = |package: &str, channel: &str| json!({"pkgName": package, "channelName": channel});
    let questions = tests::rows![
        "ListPackages" => json!({});
        "ListBundles" => json!({});
        "GetPackage" => json!({"name": "anchor"});
        "GetPackage" => json!({"name": "buoy"});
        "GetPackage" => json!({"name": "no"});
        "GetPackage" => json!({"name": "no \"such\""});
        "GetBundle" => of("anchor", "stable", "anchor.v2.0.0");
        "GetBundle" => of("anchor", "stable", "anchor.v1.0.0");
        "GetBundle" => of("anchor", "alpha", "anchor.v2.0.0");
        "GetBundle" => of("anchor", "alpha", "anchor.v1.0.0");
        "GetBundle" => of("buoy", "stable", "buoy.v1.0.0");
        "GetBundle" => of("no", "x", "y");
        "GetBundle" => of("buoy", "no", "y");
        "GetBundleForChannel" => head("anchor", "stable");
        "GetBundleForChannel" => head("anchor", "no");
        "GetBundleForChannel" => head("buoy", "no");
        "GetBundleForChannel" => head("no", "no");
        "GetChannelEntriesThatReplace" => json!({"csvName": "anchor.v1.0.0"});
        "GetChannelEntriesThatReplace" => json!({"csvName": "anchor.v1.1.0"});
        "GetChannelEntriesThatReplace" => json!({"csvName": "no"});
        "GetBundleThatReplaces" => of("anchor", "stable", "anchor.v0.9.0");
        "GetBundleThatReplaces" => of("anchor", "alpha", "anchor.v1.0.0");
        "GetBundleThatReplaces" => of("anchor", "no", "y");
        "GetBundleThatReplaces" => of("no", "x", "y");
        "GetChannelEntriesThatProvide" => api.clone();
        "GetChannelEntriesThatProvide" => chain.clone();
        "GetLatestChannelEntriesThatProvide" => api.clone();
        "GetLatestChannelEntriesThatProvide" => chain.clone();
        "GetDefaultBundleThatProvides" => api;
        "GetDefaultBundleThatProvides" => chain;
    ];
    for (rpc, asked) in questions {
        assert_same(&theirs, &ours, rpc, asked).await;
    }
}

/// Asks both the same; says how many answers there were.
pub(crate) async fn assert_same(
    theirs: &Dynamic,
    ours: &Dynamic,
    rpc: &str,
    asked: Value,
) -> usize {
    let path = format!("api.Registry/{rpc}");
    let mut answers = [
        plain(theirs.call(&path, asked.clone()).await),
        plain(ours.call(&path, asked.clone()).await),
    ];
    if rpc != "ListBundles" {
        answers = answers.map(|it| it.map(sorted));
    }
    let [theirs, ours] = answers;
    assert_eq!(ours, theirs, "{rpc} {asked}");
    ours.map_or(0, |it| it.len())
}

// parity: grpc-12
#[tokio::test(flavor = "multi_thread")]
async fn our_client_reads_what_opm_serves() {
    let catalog = folder(&[
        ("anchor/catalog.json", &anchor()),
        ("buoy/catalog.json", &buoy()),
    ]);
    let opm = Opm::start(catalog.path()).await;
    let served = Served::of(catalog.path()).await;
    let theirs = Client::connect(&opm.address.to_string(), Bounds::default())
        .await
        .unwrap();
    let ours = served.client().await;
    let mut names = theirs.list_packages().await.unwrap();
    names.sort();
    assert_eq!(names, ours.list_packages().await.unwrap());
    for name in names {
        assert_eq!(
            theirs.get_package(&name).await.unwrap(),
            ours.get_package(&name).await.unwrap()
        );
    }
    let error = ours.get_package("no").await.unwrap_err().to_string();
    assert!(
        error.ends_with("answered GetPackage with Unknown: package \"no\" not found"),
        "{error}"
    );
    let bundles: Vec<_> = theirs.list_bundles().try_collect().await.unwrap();
    assert_eq!(bundles.len(), 5);
    for bundle in bundles {
        let get = |client: Client| {
            let bundle = bundle.clone();
            async move {
                client
                    .get_bundle(&bundle.package_name, &bundle.channel_name, &bundle.csv_name)
                    .await
                    .unwrap()
            }
        };
        let [mut theirs, mut ours] = [get(theirs.clone()).await, get(ours.clone()).await];
        for bundle in [&mut theirs, &mut ours] {
            bundle.csv_json.clear();
            bundle.object.clear();
        }
        assert_eq!(ours, theirs);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_opm_serves_is_as_if_its_catalog_had_been_read() {
    let metadata =
        |min: &str| json!({"type": "olm.csv.metadata", "value": {"minKubeVersion": min}});
    let plain = json!({"type": "olm.bundle.mediatype", "value": "plain+v0"});
    let needs = [
        metadata("1.26.0"),
        json!({"type": "olm.gvk.required", "value": {"group": "sea.example.com", "kind": "Chain", "version": "v1"}}),
        json!({"type": "olm.package.required", "value": {"packageName": "chain", "versionRange": ">1.0.0"}}),
    ];
    let raft = [
        json!({"schema": "olm.package", "name": "raft", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "raft", "name": "stable", "entries": [
            {"name": "raft.v1.0.0"},
            {"name": "raft.v1.1.0", "replaces": "raft.v1.0.0"},
            {"name": "raft.v1.2.0", "replaces": "raft.v1.1.0"},
        ]}),
        bundle("raft", "1.0.0", &[metadata("1.25.0")]),
        // Of manifests alone: opm has no ClusterServiceVersion to give.
        bundle("raft", "1.1.0", &[plain]),
        bundle("raft", "1.2.0", &needs),
    ];
    let catalog = folder(&[("raft/catalog.json", &raft)]);
    let opm = Opm::start(catalog.path()).await;
    let address = opm.address.to_string();
    let client = Client::connect(&address, Bounds::default()).await.unwrap();
    let wanted = ["raft".to_owned()].into();
    let served = packages(&client, &wanted).await.unwrap();
    let read = load(Source::Folder(catalog.path()), &Limits::default()).unwrap();
    assert!(served.broken.is_empty());
    let packages = served.packages.into_iter();
    let packages: BTreeMap<_, _> = packages
        .map(|(name, package)| (name, Arc::unwrap_or_clone(package)))
        .collect();
    assert_eq!(packages, read.packages);
}
