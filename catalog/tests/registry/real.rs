//! Published bundles, rendered by opm into a catalog that both `opm serve` and this crate serve.

use std::process::Command;

use crate::fixture::{chained, dir};
use crate::opm::{assert_same, questions};
use crate::*;

/// Number of bundles from the corpus.
const OF_CORPUS: usize = 30;

/// Returns the bundles of opm's own module, and some of the corpus if one is configured.
fn bundles() -> Vec<PathBuf> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/cluster/olm");
    let module = "github.com/operator-framework/operator-registry";
    let script = format!("go mod download {module} >&2 && go list -m -f '{{{{.Dir}}}}' {module}");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(directory);
    let output = shell.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{message}");
    let dirs = Path::new(String::from_utf8(output.stdout).unwrap().trim_end()).join("bundles");
    let dirs = std::fs::read_dir(dirs).unwrap();
    let mut all: Vec<PathBuf> = dirs.map(|entry| entry.unwrap().path()).collect();
    all.retain(|path| path.join("metadata").is_dir());
    all.sort();
    assert!(all.len() >= 10, "{all:?}");
    if let Some(corpus) = tests::corpus() {
        let converted = corpus.cases().filter(|case| case.outcome == "converted");
        let dirs = converted.map(|case| corpus.bundle(case));
        let dirs = dirs.filter(|path| path.join("metadata").is_dir());
        all.extend(dirs.take(OF_CORPUS));
    }
    all
}

/// Returns a bundle as opm renders it; `None` if opm rejects it.
fn render(bundle: &Path, level: &str) -> Option<Value> {
    let directory = bundle.file_name().unwrap().to_str().unwrap();
    let image = format!("registry.example.com/bundles/{directory}:v1");
    let flags = ["-o", "json", "--migrate-level", level];
    let images = ["--alpha-image-ref-template", &image];
    let args = [&["render", directory], &flags[..], &images].concat();
    let output = tests::opm(bundle.parent().unwrap(), &args);
    let rendered = || serde_json::from_slice(&output.stdout).unwrap();
    output.status.success().then(rendered)
}

fn version(bundle: &Value) -> &Value {
    let mut properties = bundle["properties"].as_array().unwrap().iter();
    let package = properties.find(|property| property["type"] == "olm.package");
    &package.unwrap()["value"]["version"]
}

/// Each package has a channel with a chain of all its bundles, and one with only the last bundle.
fn catalog(bundles: &[PathBuf], level: &str) -> Vec<Value> {
    let mut packages: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    for bundle in bundles.iter().filter_map(|path| render(path, level)) {
        let text = |key: &str| bundle[key].as_str().unwrap().to_owned();
        let package = packages.entry(text("package")).or_default();
        // A catalog must not contain a version twice.
        let is_same = |other: &Value| version(other) == version(&bundle);
        if !package.values().any(is_same) {
            package.insert(text("name"), bundle);
        }
    }
    let documents = packages.into_iter().flat_map(|(package, bundles)| {
        let (last, _) = bundles.last_key_value().unwrap();
        let last = json!({"schema": "olm.channel", "package": package, "name": "last", "entries": [{"name": last}]});
        let bundles: Vec<_> = bundles.into_values().collect();
        [chained(&package, "all", &bundles), vec![last]].concat()
    });
    documents.collect()
}

// parity: grpc-1
#[tokio::test(flavor = "multi_thread")]
async fn published_bundles_have_the_answers_of_opm() {
    let bundles = bundles();
    for level in ["none", "bundle-object-to-csv-metadata"] {
        let documents = catalog(&bundles, level);
        let is_bundle = |document: &&Value| document["schema"] == "olm.bundle";
        let count = documents.iter().filter(is_bundle).count();
        // Several directories contain the same version.
        let all = bundles.len();
        assert!(count >= 8 && count * 2 > all, "{count} of {all}");
        let catalog = dir(&[("catalog.json", &documents)]);
        let answers = assert_same(catalog.path(), questions(&documents)).await;
        assert!(answers > 3 * count, "{answers} for {count} bundles");
    }
}
