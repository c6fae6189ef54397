//! Images in memory, and the registry that serves them.

use crate::*;

pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// The content of one repository.
#[derive(Debug, Clone, Default)]
pub(crate) struct Store {
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    /// Manifests by tag and by digest.
    pub(crate) manifests: BTreeMap<String, (String, Vec<u8>)>,
}

pub(crate) fn digest(bytes: &[u8]) -> String {
    Digest::sha256(bytes).to_string()
}

pub(crate) fn descriptor(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": digest(bytes), "size": bytes.len()})
}

pub(crate) fn layer(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, path, *bytes).unwrap();
    }
    gzip(&tar.into_inner().unwrap())
}

impl Store {
    /// Returns a store with an image of these layers, from bottom to top, and the tag `v1`.
    pub(crate) fn image(layers: &[Vec<u8>]) -> Self {
        let mut store = Self::default();
        let config = json!({"os": "linux", "architecture": "amd64", "config": {"Labels": {}}});
        let config = store.blob(config.to_string().into_bytes(), CONFIG);
        let layers = layers.iter().map(|bytes| store.blob(bytes.clone(), LAYER));
        let layers: Vec<_> = layers.collect();
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        store.manifest("v1", &manifest);
        store
    }

    pub(crate) fn small() -> Self {
        Self::image(&[layer(&[("manifests/a.yaml", b"kind: A")])])
    }

    pub(crate) fn blob(&mut self, bytes: Vec<u8>, kind: &str) -> Value {
        let descriptor = descriptor(kind, &bytes);
        self.blobs.insert(digest(&bytes), bytes);
        descriptor
    }

    pub(crate) fn manifest(&mut self, tag: &str, manifest: &Value) -> Value {
        let bytes = manifest.to_string().into_bytes();
        let kind = manifest["mediaType"].as_str().unwrap().to_owned();
        let descriptor = descriptor(&kind, &bytes);
        self.manifests
            .insert(digest(&bytes), (kind.clone(), bytes.clone()));
        self.manifests.insert(tag.to_owned(), (kind, bytes));
        descriptor
    }

    pub(crate) fn tagged(&self, tag: &str) -> Value {
        serde_json::from_slice(&self.manifests[tag].1).unwrap()
    }

    /// Returns the digest of the topmost layer of `v1`.
    pub(crate) fn top(&self) -> Option<String> {
        let (_, bytes) = self.manifests.get("v1")?;
        let manifest: Value = serde_json::from_slice(bytes).unwrap();
        let layer = manifest["layers"].as_array()?.last()?;
        Some(layer["digest"].as_str().unwrap().to_owned())
    }

    pub(crate) fn answer(&self, request: &Received) -> Answer {
        let target = &request.target;
        let name = target.rsplit('/').next().unwrap();
        let (script, bytes) = match (self.manifests.get(name), self.blobs.get(name)) {
            (Some((kind, bytes)), _) if target.contains("/manifests/") => {
                let head = format!("200; Content-Type: {kind}; Content-Length: {}", bytes.len());
                let head = format!("{head}; Docker-Content-Digest: {}", digest(bytes));
                let is_head = request.method == "HEAD";
                (head + if is_head { "" } else { " << {bytes}" }, bytes)
            }
            (_, Some(bytes)) if target.contains("/blobs/") => ("200 << {bytes}".to_owned(), bytes),
            _ => return Answer::new("404 << {}", &Values::default()),
        };
        Answer::new(&script, &Values::default().with("bytes", &**bytes))
    }
}

/// The CA of all registries of these tests: key generation is slow.
static CA: LazyLock<TestCa> = LazyLock::new(TestCa::default);

/// An HTTPS registry that follows a script.
pub(crate) struct Registry(pub(crate) ScriptedServer);

impl Registry {
    /// Starts a registry that serves a store, except for requests with a rule.
    pub(crate) fn with_rules(store: Store, rules: &str, values: &Values) -> Self {
        let values = values.clone().with("top", store.top().unwrap_or_default());
        let script = Script::before(rules, &values, move |request| store.answer(request));
        Self::on(Port::take(), script)
    }

    pub(crate) fn honest(store: Store) -> Self {
        Self::with_rules(store, "", &Values::default())
    }

    pub(crate) fn on(port: Port, script: Script) -> Self {
        Self(port.serve(Some(CA.server(&["127.0.0.1"], |_| {})), script))
    }

    pub(crate) fn start(rules: &str) -> Self {
        Self::on(Port::take(), Script::new(rules, &Values::default()))
    }

    pub(crate) fn image(&self, rest: &str) -> String {
        format!("{}/{rest}", self.0.address)
    }

    pub(crate) fn access() -> Access {
        trusting(CA.pem())
    }

    /// Pulls `app:v1`, and describes the outcome.
    pub(crate) async fn pulled(&self, access: &Access) -> String {
        outcome(pull(&self.image("app:v1"), access).await).replace(&self.0.host(), "HOST")
    }

    pub(crate) fn request_count(&self, method: &str, part: &str) -> usize {
        let requests = self.0.seen();
        let matches =
            |request: &&Received| request.method == method && request.target.contains(part);
        requests.iter().filter(matches).count()
    }
}
