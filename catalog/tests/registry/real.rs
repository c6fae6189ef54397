//! Bundles that people have published, rendered by opm into a catalog that both `opm serve` and ours serve.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    dynamic::Dynamic,
    fixture::{Served, folder},
    opm::{Opm, assert_same},
};

/// How many bundles of the corpus are taken.
const OF_CORPUS: usize = 30;

/// The bundles that come with opm's own module, and some of the corpus where there is one.
fn bundles() -> Vec<PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/cluster/opm");
    let module = "github.com/operator-framework/operator-registry";
    let script = format!("go mod download {module} >&2 && go list -m -f '{{{{.Dir}}}}' {module}");
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(folder)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    let module = String::from_utf8(output.stdout).unwrap();
    let folders = Path::new(module.trim_end()).join("bundles");
    let mut all: Vec<PathBuf> = std::fs::read_dir(folders)
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.join("metadata").is_dir())
        .collect();
    all.sort();
    assert!(all.len() >= 10, "{all:?}");
    if let Some(corpus) = tests::corpus() {
        let converted = corpus.cases().filter(|it| it.outcome == "converted");
        let folders = converted.map(|it| corpus.bundle(it));
        let folders = folders.filter(|it| it.join("metadata").is_dir());
        all.extend(folders.take(OF_CORPUS));
    }
    all
}

/// A bundle as opm renders it; nothing if opm refuses it.
fn render(bundle: &Path, level: &str) -> Option<Value> {
    let place = bundle.parent().unwrap();
    let folder = bundle.file_name().unwrap().to_str().unwrap();
    let image = format!("registry.example.com/bundles/{folder}:v1");
    let flags = ["-o", "json", "--migrate-level", level];
    let images = ["--alpha-image-ref-template", &image];
    let args = [&["render", folder], &flags[..], &images].concat();
    let output = tests::opm(place, &args);
    output
        .status
        .success()
        .then(|| serde_json::from_slice(&output.stdout).unwrap())
}

fn version(bundle: &Value) -> &Value {
    let mut properties = bundle["properties"].as_array().unwrap().iter();
    let package = properties.find(|it| it["type"] == "olm.package").unwrap();
    &package["value"]["version"]
}

/// Each package has a channel with all its bundles, one after the other, and one with the last of them.
fn catalog(bundles: &[PathBuf], level: &str) -> Vec<Value> {
    let mut packages: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for bundle in bundles.iter().filter_map(|it| render(it, level)) {
        let text = |key: &str| bundle[key].as_str().unwrap().to_owned();
        let package = packages.entry(text("package")).or_default();
        // A version twice is no catalog.
        if package.values().all(|it| version(it) != version(&bundle)) {
            package.insert(text("name"), bundle);
        }
    }
    let mut documents = Vec::new();
    for (package, bundles) in packages {
        let mut before: Option<&str> = None;
        let mut entries = Vec::new();
        for name in bundles.keys() {
            entries.push(json!({"name": name, "replaces": before}));
            before = Some(name);
        }
        documents.extend([
            json!({"schema": "olm.package", "name": package, "defaultChannel": "all"}),
            json!({"schema": "olm.channel", "package": package, "name": "all", "entries": entries}),
            json!({"schema": "olm.channel", "package": package, "name": "last", "entries": [{"name": before}]}),
        ]);
        documents.extend(bundles.into_values());
    }
    documents
}

/// Every question about every package, channel, bundle and API.
fn questions(documents: &[Value]) -> Vec<(&'static str, Value)> {
    let mut all = vec![("ListPackages", json!({})), ("ListBundles", json!({}))];
    let mut apis = BTreeSet::new();
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
            _ => {
                all.push(("GetChannelEntriesThatReplace", json!({"csvName": name})));
                for property in it["properties"].as_array().unwrap() {
                    if property["type"] == "olm.gvk" || property["type"] == "olm.gvk.required" {
                        apis.insert(property["value"].to_string());
                    }
                }
            }
        }
    }
    for api in apis {
        let api: Value = serde_json::from_str(&api).unwrap();
        for rpc in [
            "GetChannelEntriesThatProvide",
            "GetLatestChannelEntriesThatProvide",
            "GetDefaultBundleThatProvides",
        ] {
            all.push((rpc, api.clone()));
        }
    }
    all
}

// parity: grpc-1
#[tokio::test(flavor = "multi_thread")]
async fn of_published_bundles_opm_says_the_same() {
    let bundles = bundles();
    for level in ["none", "bundle-object-to-csv-metadata"] {
        let documents = catalog(&bundles, level);
        let count = documents.iter().filter(|it| it["schema"] == "olm.bundle");
        let count = count.count();
        // Several folders hold one and the same version.
        assert!(
            count >= 8 && count * 2 > bundles.len(),
            "{count} of {}",
            bundles.len()
        );
        let catalog = folder(&[("catalog.json", &documents)]);
        let opm = Opm::start(catalog.path()).await;
        let served = Served::of(catalog.path()).await;
        let theirs = Dynamic::connect(opm.address).await;
        let ours = Dynamic::connect(served.address).await;
        let (mut asked, mut answers) = (0, 0);
        for (rpc, question) in questions(&documents) {
            asked += 1;
            answers += assert_same([&theirs, &ours], rpc, question).await;
        }
        eprintln!("{level}: {count} bundles, {asked} questions, {answers} answers");
        assert!(answers > 3 * count);
        served.stop().await;
    }
}
