use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::json;

use super::*;
use crate::{
    Source, load,
    testing::{has, list},
};

mod hostile;

const CRD: &str = r"
- apiVersion: apiextensions.k8s.io/v1
  kind: CustomResourceDefinition
  metadata: {name: tides.sea.example.com}
  spec:
    group: sea.example.com
    names: {kind: Tide, plural: tides}
    scope: Namespaced
    versions: [{name: v1, served: true, storage: true}, {name: v2, served: true, storage: false}]
";

fn csv(name: &str, version: &str, more: &str) -> String {
    format!(
        r"
- metadata:
    name: {name}
    annotations: {{olm.skipRange: '<{version}'}}
  spec:
    version: {version}
    customresourcedefinitions:
      owned: [{{name: tides.sea.example.com, version: v1, kind: Tide}}]
      required: [{{name: moons.sky.example.com, version: v1, kind: Moon}}]
{more}"
    )
}

fn data(crds: &str, csvs: &str, packages: &str) -> BTreeMap<String, String> {
    let all = [(CRDS, crds), (CSVS, csvs), (PACKAGES, packages)];
    all.map(|(key, text)| (key.to_owned(), text.to_owned()))
        .into()
}

fn read(data: &BTreeMap<String, String>) -> Result<ConfigMap, Error> {
    ConfigMap::read(data, &Limits::default())
}

fn three() -> BTreeMap<String, String> {
    let icon = "    replaces: tide.v1\n    icon: [{base64data: AAAA, mediatype: image/png}]\n";
    let skips = "    replaces: tide.v2\n    skips: [tide.v2-bad]\n";
    let max = "annotations: {operators.coreos.com/maxOpenShiftVersion: '4.10', ";
    let csvs = [
        csv("tide.v1", "1.0.0", "").replace("annotations: {", max),
        csv("tide.v2", "2.0.0", icon),
        csv("tide.v3", "3.0.0", skips),
        csv("other.v1", "1.0.0", ""),
    ];
    let packages = r"
- packageName: tide
  defaultChannel: stable
  channels: [{name: stable, currentCSV: tide.v2}, {name: fast, currentCSV: tide.v3}]
- packageName: lost
  channels: [{name: only, currentCSV: absent}]
";
    data(CRD, &csvs.concat(), packages)
}

fn text_of(map: &ConfigMap, path: &str) -> String {
    let mut text = String::new();
    map.open(path).unwrap().read_to_string(&mut text).unwrap();
    text
}

// parity: serve-6, serve-7, max-4
#[test]
fn config_map_is_a_catalog_of_bundles_with_manifests() {
    let map = read(&three()).unwrap();
    assert_rows!(map.left_out() => [
        "channel \"only\" of package \"lost\" is skipped: its currentCSV \"absent\" is not among the clusterServiceVersions",
        "ClusterServiceVersion \"other.v1\" is skipped: no channel reaches it through currentCSV, replaces or skips",
    ]);
    let text = text_of(&map, "tide.json");
    let blobs = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let blobs: Vec<Value> = blobs.collect();
    let one = json!({"name": "tide.v1", "skipRange": "<1.0.0"});
    let two = json!({"name": "tide.v2", "replaces": "tide.v1", "skipRange": "<2.0.0"});
    let three = json!({"name": "tide.v3", "replaces": "tide.v2", "skips": ["tide.v2-bad"], "skipRange": "<3.0.0"});
    let channel = |name: &str, entries: Value| json!({"schema": "olm.channel", "package": "tide", "name": name, "entries": entries});
    assert_rows! {
        blobs[0] => json!({"schema": "olm.package", "name": "tide", "defaultChannel": "stable",
            "icon": {"base64data": "AAAA", "mediatype": "image/png"}});
        blobs[1..3] => [channel("fast", json!([three, two, one])), channel("stable", json!([two, one]))];
        (blobs.len(), &blobs[3]["name"], &blobs[3]["image"]) => (6, &json!("tide.v1"), &json!(""));
    }
    // One API for each version of the CRD, regardless of the version that the bundle names.
    let properties = blobs[3]["properties"].as_array().unwrap();
    let api = |version| json!({"type": "olm.gvk", "value": {"group": "sea.example.com", "kind": "Tide", "version": version}});
    assert_rows!(properties[..4] => [
        api("v1"),
        api("v2"),
        json!({"type": "olm.gvk.required", "value": {"group": "sky.example.com", "kind": "Moon", "version": "v1"}}),
        json!({"type": "olm.package", "value": {"packageName": "tide", "version": "1.0.0"}}),
    ]);
    let kinds = list(&properties[4..], |object| {
        let data = object["value"]["data"].as_str().unwrap();
        let manifest: Value = serde_json::from_slice(&STANDARD.decode(data).unwrap()).unwrap();
        format!("{} {}, ", object["type"], manifest["kind"])
    });
    assert_rows!(kinds => r#""olm.bundle.object" "CustomResourceDefinition", "olm.bundle.object" "ClusterServiceVersion", "#);
    let read = load(Source::Files(&map), &Limits::default()).unwrap();
    assert_eq!(read.packages.keys().collect::<Vec<_>>(), ["tide"]);
    // Manifests declare the max OpenShift version; `load::tests::max_openshift` has all spellings.
    assert_rows!(read.packages["tide"].bundle("tide.v1").unwrap().max_openshift.as_ref().unwrap().text() => "4.10");
    assert_rows!(map.open("absent.json").err().map(|error| error.kind()) => Some(io::ErrorKind::NotFound));
}

#[test]
fn invalid_config_map_is_rejected_with_a_remedy() {
    let twice = format!("{CRD}{}", CRD.replace("tides.sea", "again.sea"));
    let mut missing = three();
    missing.remove(CSVS);
    assert_each!(|data, problem| read(&data).unwrap_err() => has problem;
        missing => "couldn't find expected key clusterServiceVersions in configmap";
        data("a: [", "", "") => "failed to parse the value of key customResourceDefinitions";
        data("", "kind: List", "") => "the value of key clusterServiceVersions is not a list; set it to a list of ClusterService";
        data("", "", "[tide]") => "the value of key packages is a list with items that are not objects";
        data("", "[]\n---\n[]", "") => "several documents";
        data(&twice, "", "") => "can't add the same CRD twice in one configmap: sea.example.com/v1/Tide/tides";
    );
    let empty = read(&data("", "", "")).unwrap();
    assert!(empty.paths().is_empty() && empty.left_out().is_empty());
}

#[test]
fn odd_values_are_harmless() {
    let circle = [
        csv("a", "1.0.0", "    replaces: b\n"),
        csv("b", "2.0.0", "    replaces: a\n"),
        csv("b", "3.0.0", ""),
        "- spec: {}\n".to_owned(),
        "- {metadata: {name: c}, spec: {version: 1, replaces: [a], skips: x, icon: [{base64data: '!'}]}}\n".to_owned(),
    ];
    let packages = r"
- packageName: p
  channels: [{name: one, currentCSV: b}]
- packageName: p
- {}
- packageName: ../q
  channels: [{name: one, currentCSV: c}, 7, {name: two}]
- packageName: r
  channels: x
";
    let map = read(&data("", &circle.concat(), packages)).unwrap();
    assert_eq!(map.left_out().len(), 6, "{:?}", map.left_out());
    assert_eq!(map.paths(), ["../q.json", "p.json", "r.json"]);
    // The ConfigMap lacks the CRD that the bundle owns: the finding is reported, and other packages are available.
    let mut text = String::new();
    let read = map.open("p.json").unwrap().read_to_string(&mut text);
    has(read.unwrap_err(), "couldn't find sea.example.com/v1/Tide");
    assert!(text.contains("\"defaultChannel\":\"one\""), "{text}");
    let read = load(Source::Files(&map), &Limits::default()).unwrap();
    assert!(read.packages.is_empty() && !read.findings.is_empty());
}

/// OLM parity: a bundle that another bundle of the channel skips is in the channel if the ConfigMap contains it.
// parity: serve-7
#[test]
fn skipped_bundle_is_in_the_channel_if_it_exists() {
    let third = "    replaces: a.v1\n    skips: [a.v2, a.v1, a.v9]\n";
    let csvs = [
        csv("a.v1", "1.0.0", ""),
        csv("a.v2", "2.0.0", "    replaces: a.v1\n    skips: [a.v0]\n"),
        csv("a.v3", "3.0.0", third),
        csv("b.v1", "1.0.0", "    skips: [a.v3]\n"),
    ];
    let packages = "- {packageName: a, channels: [{name: c, currentCSV: a.v3}]}\n";
    let map = read(&data(CRD, &csvs.concat(), packages)).unwrap();
    let text = text_of(&map, "a.json");
    assert_rows!(serde_json::from_str::<Value>(text.lines().nth(1).unwrap()).unwrap()["entries"] => json!([
        {"name": "a.v3", "replaces": "a.v1", "skips": ["a.v2", "a.v1", "a.v9"], "skipRange": "<3.0.0"},
        {"name": "a.v1", "skipRange": "<1.0.0"},
        {"name": "a.v2", "skipRange": "<2.0.0"},
    ]));
    assert_eq!(text.lines().count(), 5);
    assert_eq!(map.left_out().len(), 1, "{:?}", map.left_out());
    has(&map.left_out()[0], "\"b.v1\"");
    let read = load(Source::Files(&map), &Limits::default()).unwrap();
    assert_eq!(read.findings, []);
    assert_eq!(read.packages["a"].channels["c"].entries.len(), 3);
}

#[derive(Debug)]
struct Directory(BTreeMap<String, String>);

impl FileSource for Directory {
    fn paths(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn open<'a>(&'a self, path: &str) -> io::Result<Box<dyn Read + 'a>> {
        Ok(Box::new(self.0[path].as_bytes()))
    }
}

#[test]
fn mounted_config_map_is_read_like_its_object() {
    let mut dir = Directory(three());
    let mounted = |dir: &Directory| ConfigMap::mounted(dir, &Limits::default());
    dir.0.insert("readme".to_owned(), "no matter".to_owned());
    assert_rows!(mounted(&dir).unwrap().unwrap().paths() => ["lost.json", "tide.json"]);
    dir.0.insert(PACKAGES.to_owned(), "7".to_owned());
    has(mounted(&dir).unwrap_err(), "not a list");
    dir.0.remove(PACKAGES);
    assert!(mounted(&dir).unwrap().is_none());
}

/// Truncated content could be read as a smaller catalog.
#[test]
fn truncated_key_is_an_error() {
    let dir = Directory(three());
    let longest = dir.0.values().map(String::len).max().unwrap();
    let limits = |document| with!(Limits, document);
    assert!(ConfigMap::mounted(&dir, &limits(longest)).is_ok());
    let error = ConfigMap::mounted(&dir, &limits(longest - 1)).unwrap_err();
    let part = format!("more than {} bytes in one key", longest - 1);
    has(error, &part);
}
