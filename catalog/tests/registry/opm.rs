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
    fixture::{Served, both, bundle, chained, folder},
    suspicion::connect,
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
            .args(["--port", &port, "--pprof-addr", ""])
            .args(["--termination-log", "log"])
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
        let said = String::from_utf8_lossy(&found.stderr);
        panic!("opm does not serve: {said}");
    }
}

impl Opm {
    async fn client(&self) -> Client {
        connect(self.address, Bounds::default()).await
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
    let mut answers = result.map_err(|status| (status.code(), status.message().to_owned()))?;
    for answer in answers.iter_mut().filter_map(Value::as_object_mut) {
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
    let catalog = both();
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
        assert_same([&theirs, &ours], rpc, asked).await;
    }
}

/// Asks both the same; returns the number of answers.
pub(crate) async fn assert_same(clients: [&Dynamic; 2], rpc: &str, asked: Value) -> usize {
    let path = format!("api.Registry/{rpc}");
    let of = async |client: &Dynamic| {
        let answers = plain(client.call(&path, asked.clone()).await)?;
        Ok::<_, (tonic::Code, String)>(if rpc == "ListBundles" {
            answers
        } else {
            sorted(answers)
        })
    };
    let [theirs, ours] = [of(clients[0]).await, of(clients[1]).await];
    assert_eq!(ours, theirs, "{rpc} {asked}");
    ours.map_or(0, |answers| answers.len())
}

// parity: grpc-12
#[tokio::test(flavor = "multi_thread")]
async fn our_client_reads_what_opm_serves() {
    let catalog = both();
    let opm = Opm::start(catalog.path()).await;
    let served = Served::of(catalog.path()).await;
    let theirs = opm.client().await;
    let ours = served.client().await;
    let mut names = theirs.list_packages().await.unwrap();
    names.sort();
    assert_eq!(names, ours.list_packages().await.unwrap());
    for name in names {
        let actual = theirs.get_package(&name).await.unwrap();
        assert_eq!(actual, ours.get_package(&name).await.unwrap());
    }
    let error = ours.get_package("no").await.unwrap_err().to_string();
    let end = "answered GetPackage with Unknown: package \"no\" not found";
    assert!(error.ends_with(end), "{error}");
    let bundles: Vec<_> = theirs.list_bundles().try_collect().await.unwrap();
    assert_eq!(bundles.len(), 5);
    for bundle in bundles {
        let get = |client: Client| {
            let of = bundle.clone();
            async move {
                client
                    .get_bundle(&of.package_name, &of.channel_name, &of.csv_name)
                    .await
            }
        };
        let [theirs, ours] = [get(theirs.clone()).await, get(ours.clone()).await];
        let [mut theirs, mut ours] = [theirs.unwrap(), ours.unwrap()];
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
    let bundles = [
        bundle("raft", "1.0.0", &[metadata("1.25.0")]),
        // Of manifests alone: opm has no ClusterServiceVersion to give.
        bundle("raft", "1.1.0", &[plain]),
        bundle("raft", "1.2.0", &needs),
    ];
    let catalog = folder(&[("raft/catalog.json", &chained("raft", "stable", &bundles))]);
    let opm = Opm::start(catalog.path()).await;
    let client = opm.client().await;
    let wanted = ["raft".to_owned()].into();
    let served = packages(&client, &wanted).await.unwrap();
    let read = load(Source::Folder(catalog.path()), &Limits::default()).unwrap();
    assert!(served.broken.is_empty());
    let packages = served.packages.into_iter();
    let packages = packages.map(|(name, package)| (name, Arc::unwrap_or_clone(package)));
    let packages: BTreeMap<_, _> = packages.collect();
    assert_eq!(packages, read.packages);
}
