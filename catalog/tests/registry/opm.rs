//! Comparison with the real `opm serve`: the same catalog, the same requests, the same answers.
//!
//! If opm's order is random, both sides are sorted. Manifests are compared as values.

use std::process::{Child, Stdio};

use crate::dynamic::Dynamic;
use crate::fixture::{Served, anchor, both, bundle, buoy, chained, dir};
use crate::hostile_servers::connect;
use crate::*;

/// `opm serve`, killed on drop.
struct Opm {
    child: Child,
    address: SocketAddr,
    _place: TempDir,
}

impl Opm {
    async fn start(catalog: &Path) -> Self {
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
            let client = Client::connect(&address.to_string(), ClientLimits::default()).await;
            if let Ok(client) = client
                && client.list_packages().await.is_ok()
            {
                return opm;
            }
            sleep(Duration::from_millis(100)).await;
        }
        let stderr = tests::opm(catalog, &["validate", "."]).stderr;
        panic!("opm does not serve: {}", String::from_utf8_lossy(&stderr));
    }
}

impl Drop for Opm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Removes the random and the meaningless parts of an answer.
fn plain(result: Result<Vec<Value>, Status>) -> Result<Vec<Value>, (tonic::Code, String)> {
    let mut answers = result.map_err(|status| (status.code(), status.message().to_owned()))?;
    for answer in answers.iter_mut().filter_map(Value::as_object_mut) {
        if let Some(Value::String(text)) = answer.get("csvJson") {
            let parsed = serde_json::from_str(text).unwrap();
            answer.insert("csvJson".into(), parsed);
        }
        if let Some(Value::Array(objects)) = answer.get_mut("object") {
            for object in objects {
                *object = serde_json::from_str(object.as_str().unwrap()).unwrap();
            }
        }
    }
    Ok(answers)
}

/// Returns every request about every package, channel, bundle and API of a catalog.
pub(crate) fn questions(documents: &[Value]) -> Vec<(&'static str, Value)> {
    let mut all = vec![("ListPackages", json!({})), ("ListBundles", json!({}))];
    let mut apis = BTreeMap::new();
    for it in documents {
        let (package, name) = (&it["package"], &it["name"]);
        match it["schema"].as_str().unwrap() {
            "olm.package" => all.push(("GetPackage", json!({"name": name}))),
            "olm.channel" => {
                let head = json!({"pkgName": package, "channelName": name});
                all.push(("GetBundleForChannel", head));
                for entry in it["entries"].as_array().unwrap() {
                    let of =
                        json!({"pkgName": package, "channelName": name, "csvName": entry["name"]});
                    all.push(("GetBundle", of.clone()));
                    all.push(("GetBundleThatReplaces", of));
                }
            }
            "olm.bundle" => {
                all.push(("GetChannelEntriesThatReplace", json!({"csvName": name})));
                for property in it["properties"].as_array().unwrap() {
                    if property["type"] == "olm.gvk" || property["type"] == "olm.gvk.required" {
                        apis.insert(property["value"].to_string(), &property["value"]);
                    }
                }
            }
            _ => {}
        }
    }
    for api in apis.into_values() {
        all.extend([
            ("GetChannelEntriesThatProvide", api.clone()),
            ("GetLatestChannelEntriesThatProvide", api.clone()),
            ("GetDefaultBundleThatProvides", api.clone()),
        ]);
    }
    all
}

/// Serves a catalog with both servers and compares their answers. Returns the number of answers.
pub(crate) async fn assert_same(catalog: &Path, questions: Vec<(&str, Value)>) -> usize {
    let (opm, served) = (Opm::start(catalog).await, Served::start(catalog).await);
    let theirs = Dynamic::connect(opm.address).await;
    let rukpak = Dynamic::connect(served.address).await;
    let mut count = 0;
    for (rpc, asked) in questions {
        let of = async |client: &Dynamic| {
            let mut answers = plain(client.call(rpc, asked.clone()).await)?;
            if rpc != "ListBundles" {
                answers.sort_by_key(ToString::to_string);
            }
            Ok::<_, (tonic::Code, String)>(answers)
        };
        let (mut answer, rukpak) = (of(&theirs).await, of(&rukpak).await);
        // If several bundles replace one, opm returns any of them: the first of a Go map.
        let mut attempts = 1;
        while rpc == "GetBundleThatReplaces" && answer != rukpak && attempts < 100 {
            answer = of(&theirs).await;
            attempts += 1;
        }
        assert_eq!(rukpak, answer, "{rpc} {asked}");
        count += rukpak.map_or(0, |answers| answers.len());
    }
    served.stop().await;
    count
}

// parity: grpc-1, grpc-2, grpc-3, grpc-4
#[tokio::test(flavor = "multi_thread")]
async fn answers_equal_those_of_opm() {
    let of = |package: &str, channel: &str, name: &str| json!({"pkgName": package, "channelName": channel, "csvName": name});
    let head = |package: &str, channel: &str| json!({"pkgName": package, "channelName": channel});
    let mut questions = questions(&[anchor(), buoy()].concat());
    questions.extend(tests::rows![
        "GetPackage" => json!({"name": "no"});
        "GetPackage" => json!({"name": "no \"such\""});
        "GetBundle" => of("anchor", "alpha", "anchor.v1.0.0");
        "GetBundle" => of("no", "x", "y");
        "GetBundle" => of("buoy", "no", "y");
        "GetBundleForChannel" => head("anchor", "no");
        "GetBundleForChannel" => head("buoy", "no");
        "GetBundleForChannel" => head("no", "no");
        "GetChannelEntriesThatReplace" => json!({"csvName": "no"});
        "GetBundleThatReplaces" => of("anchor", "stable", "anchor.v0.9.0");
        "GetBundleThatReplaces" => of("anchor", "alpha", "anchor.v1.0.0");
        "GetBundleThatReplaces" => of("anchor", "no", "y");
        "GetBundleThatReplaces" => of("no", "x", "y");
    ]);
    assert!(assert_same(both().path(), questions).await > 20);
}

// parity: grpc-12
#[tokio::test(flavor = "multi_thread")]
async fn packages_of_opm_equal_those_of_its_catalog() {
    let metadata = |min| json!({"type": "olm.csv.metadata", "value": {"minKubeVersion": min}});
    let plain = json!({"type": "olm.bundle.mediatype", "value": "plain+v0"});
    let needs = [
        metadata("1.26.0"),
        json!({"type": "olm.gvk.required", "value": {"group": "sea.example.com", "kind": "Chain", "version": "v1"}}),
        json!({"type": "olm.package.required", "value": {"packageName": "chain", "versionRange": ">1.0.0"}}),
    ];
    let bundles = [
        bundle("raft", "1.0.0", &[metadata("1.25.0")]),
        // Only manifests: opm has no ClusterServiceVersion to return.
        bundle("raft", "1.1.0", &[plain]),
        // Neither manifests nor metadata: opm returns no ClusterServiceVersion for the default media type either.
        bundle("raft", "1.1.1", &[]),
        bundle("raft", "1.2.0", &needs),
    ];
    let mut raft = chained("raft", "stable", &bundles);
    raft[1]["entries"][3]["skips"] = json!(["raft.v1.0.0", "raft.v0.9.0"]);
    raft[1]["entries"][3]["skipRange"] = json!(">=1.0.0 <1.2.0");
    let deprecated = json!([
        {"reference": {"schema": "olm.package"}, "message": "use buoy"},
        {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "it is obsolete"},
        {"reference": {"schema": "olm.bundle", "name": "raft.v1.0.0"}, "message": "it leaks"},
    ]);
    raft.push(json!({"schema": "olm.deprecations", "package": "raft", "entries": deprecated}));
    let catalog = dir(&[("raft", &raft)]);
    let opm = Opm::start(catalog.path()).await;
    let client = connect(opm.address, ClientLimits::default()).await;
    assert_eq!(client.list_packages().await.unwrap(), ["raft"]);
    let requested = ["raft".to_owned()].into();
    let served = packages(&client, &requested).await.unwrap();
    let read = load(Source::Directory(catalog.path()), &Limits::default()).unwrap();
    assert!(served.broken.is_empty());
    let packages = read.packages.into_iter();
    let packages = packages.map(|(name, package)| (name, Arc::new(package)));
    assert_eq!(served.packages, packages.collect::<BTreeMap<_, _>>());
}
