//! A catalog with content for every rpc, and servers of catalogs.

use catalog::registry::Service;
use tokio::{sync::oneshot, task::JoinHandle};

use crate::hostile_servers::connect;
pub(crate) use crate::testing::chained;
use crate::testing::{self, channel, list, object};
use crate::*;

/// Two channels, skips, a deprecation of each kind, metadata instead of manifests, a custom schema.
pub(crate) fn anchor() -> Vec<Value> {
    let described = json!({
        "schema": "olm.package", "name": "anchor", "defaultChannel": "stable", "description": "Holds <ships> & boats.",
        "icon": {"base64data": "PHN2Zy8+", "mediatype": "image/svg+xml"},
    });
    let stable = json!([
        {"name": "anchor.v1.0.0"},
        {"name": "anchor.v1.1.0", "replaces": "anchor.v1.0.0", "skips": ["anchor.v1.0.0", "anchor.v1.0.1"]},
        {"name": "anchor.v2.0.0", "replaces": "anchor.v1.1.0", "skips": ["anchor.v1.0.0", "anchor.v0.9.0"], "skipRange": ">=1.0.0 <2.0.0"},
    ]);
    let alpha = json!([{"name": "anchor.v2.0.0", "replaces": "anchor.v1.1.0"}]);
    let properties = [
        provided(),
        json!({"type": "olm.gvk.required", "value": {"group": "sea.example.com", "kind": "Chain", "version": "v1"}}),
        json!({"type": "olm.package.required", "value": {"packageName": "chain", "versionRange": ">1.0.0 <2.0.0"}}),
        json!({"type": "olm.maxOpenShiftVersion", "value": "4.20"}),
        json!({"type": "someone.else", "value": {"b": 1, "a": "<&>", "n": 1e3}}),
        json!({"type": "olm.csv.metadata", "value": {
            "annotations": {"capabilities": "Basic Install"},
            "crdDescriptions": {"owned": [{"kind": "Anchor", "name": "anchors.sea.example.com", "version": "v1"}]},
            "displayName": "Anchor", "installModes": [{"supported": true, "type": "AllNamespaces"}],
            "minKubeVersion": "1.25.0", "provider": {"name": "Example"}, "keywords": ["sea"],
        }}),
    ];
    vec![
        described,
        channel("anchor", "stable", &stable),
        channel("anchor", "alpha", &alpha),
        bundle("anchor", "1.0.0", &[]),
        bundle("anchor", "1.1.0", &[provided()]),
        bundle("anchor", "2.0.0", &properties),
        json!({"schema": "olm.deprecations", "package": "anchor", "entries": [
            {"reference": {"schema": "olm.package"}, "message": "use buoy"},
            {"reference": {"schema": "olm.channel", "name": "alpha"}, "message": "use stable"},
            {"reference": {"schema": "olm.bundle", "name": "anchor.v1.0.0"}, "message": "it rusts"},
        ]}),
        json!({"schema": "example.charts", "package": "anchor", "name": "a", "deep": {"list": [1, "two", null, true]}}),
        json!({"schema": "example.charts", "package": "anchor", "name": "b"}),
        json!({"schema": "example.charts", "name": "everyone's"}),
    ]
}

/// Manifests instead of an image; provides the same APIs as `anchor`.
pub(crate) fn buoy() -> Vec<Value> {
    let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "buoy.v1.0.0"}});
    let map = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: paint}\ndata: {color: red}\n";
    let properties = [provided(), object(map), object(&csv.to_string())];
    let mut bundle = bundle("buoy", "1.0.0", &properties);
    bundle["image"] = json!("");
    chained("buoy", "stable", &[bundle])
}

fn provided() -> Value {
    json!({"type": "olm.gvk", "value": {"group": "sea.example.com", "version": "v1", "kind": "Anchor"}})
}

pub(crate) fn bundle(package: &str, version: &str, properties: &[Value]) -> Value {
    let mut bundle = testing::bundle(package, &format!("{package}.v{version}"), version);
    let all = bundle["properties"].as_array_mut().unwrap();
    all.extend_from_slice(properties);
    let image = format!("registry.example.com/{package}@sha256:{:064}", 1);
    bundle["relatedImages"] = json!([{"name": "", "image": image}]);
    bundle
}

pub(crate) fn both() -> TempDir {
    let (anchor, buoy) = (anchor(), buoy());
    dir(&[
        ("anchor/catalog.json", &anchor),
        ("buoy/catalog.json", &buoy),
    ])
}

pub(crate) fn dir(files: &[(&str, &[Value])]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, metas) in files {
        write(dir.path(), name, metas);
    }
    dir
}

/// Returns a directory with a package of bundles that have a property of this size.
pub(crate) fn big(bundles: usize, size: usize) -> TempDir {
    let big = [json!({"type": "big", "value": "x".repeat(size)})];
    let version = |at| bundle("big", &format!("1.{at}.0"), &big);
    let bundles: Vec<_> = (0..bundles).map(version).collect();
    dir(&[("big.json", &chained("big", "c", &bundles))])
}

pub(crate) fn write(dir: &Path, name: &str, metas: &[Value]) {
    tests::write(dir, name, list(metas, |meta| format!("{meta:#}\n")));
}

pub(crate) fn build(catalog: &Path) -> (Store, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path()).unwrap();
    let built = cache.load_or_build(Source::Directory(catalog), &Limits::default());
    let (store, is_new) = built.unwrap();
    assert!(is_new);
    (store, dir)
}

pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    end: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
    _cache: TempDir,
}

impl Served {
    pub(crate) async fn both() -> Self {
        Self::start(both().path()).await
    }

    pub(crate) async fn start(catalog: &Path) -> Self {
        let (store, cache) = build(catalog);
        Self::with(Service::new(Arc::new(store)).unwrap(), cache).await
    }

    pub(crate) async fn with_calls(catalog: &Path, calls: Arc<dyn ObserveCalls>) -> Self {
        let (store, cache) = build(catalog);
        let service = Service::with_observer(Arc::new(store), calls);
        Self::with(service.unwrap(), cache).await
    }

    async fn with(service: Service, cache: TempDir) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(async move {
            let ended = async { drop(ended.await) };
            service.serve(listener, ended).await.unwrap();
        });
        Self {
            address,
            end: Some(end),
            task,
            _cache: cache,
        }
    }

    pub(crate) async fn client(&self) -> Client {
        connect(self.address, ClientLimits::default()).await
    }

    pub(crate) async fn stop(mut self) {
        drop(self.end.take());
        self.task.await.unwrap();
    }
}
