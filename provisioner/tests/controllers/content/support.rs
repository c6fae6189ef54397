//! A content service with a separate system namespace.

use std::sync::Arc;

use cluster::{Cluster, Controllers};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client, ResourceExt};
use manifests::{
    api::{
        bundle::{Bundle, BundleSource},
        install::CONTENT_CLIENT,
    },
    content::{Builder, Content, Limits},
    yaml,
};
use provisioner::{
    cluster::versions::Versions,
    content::{Dependencies, Options, Service},
    controllers::bundle::Conversions,
    runtime::{leader_flag::LeaderFlag, settings::Settings},
};
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use tests::table::matches;
use tokio::{sync::OnceCell, task::JoinHandle, time};
use tokio_util::sync::{CancellationToken, DropGuard};
use unpacker::{Digest, Format, Store, Tree, store::Budget};

use crate::support::{
    self, Provisioner, SYSTEM, WAIT_TIMEOUT, apply, archive, create, found, merge_status,
    namespace_object, unique, upload,
};

/// Returns the control plane of these tests, with the project's CRDs and the two roles of the install file.
pub(super) async fn cluster() -> &'static Cluster {
    static CLUSTER: OnceCell<Cluster> = OnceCell::const_new();
    let start = || async {
        let cluster = support::own(&cluster::Options::new(Controllers::Off, None)).await;
        apply_roles(&cluster).await;
        cluster
    };
    CLUSTER.get_or_init(start).await
}

/// Applies the roles `bundle-reader` and `bundle-uploader` of the install file.
pub(crate) async fn apply_roles(cluster: &Cluster) {
    let install = include_bytes!("../../../../manifests/install/rukpak.yaml");
    for object in yaml::documents(install).map(Result::unwrap) {
        let name = object["metadata"]["name"].as_str();
        if object["kind"] == "ClusterRole"
            && matches!(name, Some("bundle-reader" | "bundle-uploader"))
        {
            apply(cluster, &object).await;
        }
    }
}

/// Creates a service account with these roles, and returns it with its token.
pub(crate) async fn account(
    cluster: &Cluster,
    namespace: &str,
    roles: &[&str],
) -> (String, String) {
    let name = unique("account");
    let account = support::service_account(cluster, namespace, &name).await;
    for role in roles {
        support::bind(cluster, None, &unique("binding"), role, &account).await;
    }
    (name, support::token(cluster, &account).await)
}

/// Returns a client of the content service of a provisioner, and the URL of the service.
pub(crate) async fn visit(client: Client, to: &Provisioner) -> (reqwest::Client, String) {
    let content = to.url("content");
    let port = content.rsplit(':').next().unwrap().parse().unwrap();
    let ca = ca(client, SYSTEM).await;
    let base = format!("https://core.{SYSTEM}.svc:{port}");
    (browser(SYSTEM, port, &ca), base)
}

async fn ca(client: Client, namespace: &str) -> String {
    let maps = Api::<ConfigMap>::namespaced(client, namespace);
    found("the published CA", async || {
        let map = maps.get_opt("rukpak-ca").await.unwrap();
        map?.data?.remove("ca.crt")
    })
    .await
}

fn browser(namespace: &str, port: u16, ca: &str) -> reqwest::Client {
    let ca = reqwest::Certificate::from_pem_bundle(ca.as_bytes()).unwrap();
    let address = ([127, 0, 0, 1], port).into();
    reqwest::Client::builder()
        .tls_certs_only(ca)
        .resolve(&format!("core.{namespace}.svc"), address)
        .no_proxy()
        .timeout(WAIT_TIMEOUT)
        .build()
        .unwrap()
}

pub(super) struct Site {
    pub(super) cluster: &'static Cluster,
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) settings: Arc<Settings>,
    pub(super) store: Arc<Store>,
    pub(super) leading: LeaderFlag,
    pub(super) port: u16,
    pub(super) ready: tokio::sync::watch::Receiver<bool>,
    stop: DropGuard,
    serving: JoinHandle<()>,
    dir: tempfile::TempDir,
}

impl Site {
    /// Starts a service in a new namespace, and waits until it is ready.
    pub(super) async fn new() -> Self {
        Self::with_store(false).await
    }

    pub(super) async fn with_store(is_persistent: bool) -> Self {
        let namespace = namespace().await;
        let mut site = Self::start_with(namespace, Options::default(), is_persistent).await;
        site.until_ready().await;
        site
    }

    /// Starts a service in an existing namespace, without waiting.
    pub(super) async fn start(namespace: String, tls_secret: Option<&str>) -> Self {
        let options = tests::with!(Options, tls_secret: tls_secret.map(str::to_owned));
        Self::start_with(namespace, options, false).await
    }

    /// Like [`Site::start`], with other options. The service listens on a free port.
    pub(super) async fn start_with(namespace: String, options: Options, persistent: bool) -> Self {
        let cluster = cluster().await;
        let client = cluster.client().unwrap();
        let address = format!("https://core.{namespace}.svc");
        let settings = tests::with!(Settings, system_namespace: namespace.clone(), persistent_store: persistent,
            external_address: address.clone(), content_address: address);
        let conversions = Arc::new(Conversions::new(settings.manifests));
        let dir = tempfile::tempdir().unwrap();
        let (disk, memory) = (1 << 30, 1 << 20);
        let store = Store::open(dir.path(), Budget { disk, memory }).unwrap();
        let (settings, store) = (Arc::new(settings), Arc::new(store));
        let leading = LeaderFlag::default();
        let parts = Dependencies {
            client: client.clone(),
            settings: Arc::clone(&settings),
            store: Arc::clone(&store),
            versions: Arc::new(Versions::new(client.clone(), None)),
            conversions,
            refetch_context: None,
            leading: leading.clone(),
            now: Timestamp::now,
        };
        let options = tests::with!(options => bind: ([127, 0, 0, 1], 0).into());
        let service = Service::bind(parts, &options).await.unwrap();
        let (port, ready) = (service.address().port(), service.ready());
        let stop = CancellationToken::new();
        let serving = tokio::spawn(service.run(stop.clone()));
        Self {
            cluster,
            client,
            namespace,
            settings,
            store,
            leading,
            port,
            ready,
            stop: stop.drop_guard(),
            serving,
            dir,
        }
    }

    pub(super) async fn until_ready(&mut self) {
        let ready = self.ready.wait_for(|ready| *ready);
        time::timeout(WAIT_TIMEOUT, ready).await.unwrap().unwrap();
        self.ca().await;
    }

    /// Ends the service as the process would.
    pub(super) async fn stop(self) {
        self.stop.disarm().cancel();
        let ended = time::timeout(WAIT_TIMEOUT / 6, self.serving).await;
        ended.expect("it ends by itself").unwrap();
        drop(self.dir);
    }

    pub(super) async fn ca(&self) -> String {
        ca(self.client.clone(), &self.namespace).await
    }

    pub(super) fn config_maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(super) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(super) fn browser(&self, ca: &str) -> reqwest::Client {
        browser(&self.namespace, self.port, ca)
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("https://core.{}.svc:{}{path}", self.namespace, self.port)
    }

    pub(super) async fn request(&self, method: Method, path: &str, token: &str) -> RequestBuilder {
        let browser = self.browser(&self.ca().await);
        browser.request(method, self.url(path)).bearer_auth(token)
    }

    pub(super) async fn get(&self, path: &str, token: &str) -> Answer {
        Answer::from_request(self.request(Method::GET, path, token).await).await
    }

    pub(super) async fn put(&self, bundle: &str, token: &str, body: Vec<u8>) -> Answer {
        let path = format!("/uploads/{bundle}.tgz");
        Answer::from_request(self.request(Method::PUT, &path, token).await.body(body)).await
    }

    pub(super) async fn upload(&self, bundle: &str, token: &str, content: &Content) -> Answer {
        self.put(bundle, token, archive(content)).await
    }

    pub(super) async fn token(&self, roles: &[&str]) -> String {
        account(self.cluster, &self.namespace, roles).await.1
    }

    /// Returns the token of the service account that stands in for users without one.
    pub(super) async fn content_client(&self) -> String {
        let (cluster, binding) = (self.cluster, unique("binding"));
        let account = support::service_account(cluster, &self.namespace, CONTENT_CLIENT).await;
        support::bind(cluster, None, &binding, "bundle-uploader", &account).await;
        support::token(cluster, &account).await
    }

    pub(super) async fn token_with(&self, rules: &Value) -> String {
        let (name, token) = account(self.cluster, &self.namespace, &[]).await;
        let subject = support::account(&self.namespace, &name);
        support::grant(self.cluster, &subject, None, &unique("granted"), rules).await;
        token
    }

    pub(super) async fn bundle(&self, class: &str, source: BundleSource) -> Bundle {
        let bundle = support::bundle(&unique("bundle"), class, source);
        create(&self.bundles(), &bundle).await
    }

    pub(super) fn bundles(&self) -> Api<Bundle> {
        Api::all(self.client.clone())
    }

    pub(super) async fn waiting(&self) -> Bundle {
        self.bundle("plain", upload(None)).await
    }

    /// Creates a Bundle that accepts only the upload with this digest.
    pub(super) async fn expecting(&self, digest: &Digest) -> Bundle {
        self.bundle("plain", upload(Some(digest.to_string()))).await
    }

    /// Writes the status of an unpacked Bundle, as the Bundle controller does.
    pub(super) async fn unpacked(&self, bundle: &Bundle, digest: &Digest) {
        let status = json!({"status": {"phase": "Unpacked", "contentDigest": digest.to_string()}});
        self.patch(bundle, &status).await;
    }

    pub(super) async fn patch(&self, bundle: &Bundle, status: &Value) {
        merge_status(&self.bundles(), &bundle.name_any(), status).await;
    }

    pub(super) async fn fresh(&self, bundle: &Bundle) -> Bundle {
        self.bundles().get(&bundle.name_any()).await.unwrap()
    }

    pub(super) fn stored(&self, content: &Content) -> Digest {
        let tree = Tree::from_content(content.clone());
        self.store.put(&tree).unwrap().digest
    }
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: http::HeaderMap,
    pub(super) body: Vec<u8>,
}

impl Answer {
    pub(crate) async fn from_request(request: RequestBuilder) -> Self {
        let response = request.send().await.unwrap();
        Self {
            status: response.status(),
            headers: response.headers().clone(),
            body: response.bytes().await.unwrap().to_vec(),
        }
    }

    pub(super) fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name).map(|value| value.to_str().unwrap());
        value.unwrap_or_default()
    }

    pub(crate) fn rejection(&self) -> (u16, String, String) {
        let problem: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let text = |key: &str| problem[key].as_str().unwrap_or_default().to_owned();
        (self.status.as_u16(), text("reason"), text("message"))
    }

    /// Checks an error response. In the pattern of its message, `*` stands for any text.
    #[track_caller]
    pub(super) fn assert_rejected(&self, status: u16, reason: &str, pattern: &str) {
        let (found, found_reason, message) = self.rejection();
        assert_eq!((found, &*found_reason), (status, reason), "{message}");
        assert!(matches(pattern, &message), "{message}");
    }

    pub(super) fn content(&self) -> Content {
        assert_eq!(self.status, StatusCode::OK, "{:?}", self.rejection());
        let unpacked = unpacker::stream(self.body.as_slice(), &unpacker::Options::default());
        unpacked.unwrap().content
    }
}

pub(super) async fn namespace() -> String {
    let name = unique("system");
    apply(cluster().await, &namespace_object(&name)).await;
    name
}

pub(super) fn image() -> BundleSource {
    support::image("example.com/a/b:v1")
}

pub(super) fn saying(text: &str) -> Content {
    let map = support::config_map("default", "a", text);
    support::content(&[("manifests/map.yaml", map)])
}

pub(super) fn noise(bytes: usize) -> Content {
    let noise = tests::noise(7, bytes);
    let mut builder = Builder::new(Limits::default());
    let added = builder.add("manifests/noise", 0o644, &mut noise.as_slice());
    added.unwrap();
    builder.finish()
}

pub(super) fn digest(content: &Content) -> Digest {
    unpacker::pack(content, Format::Tar, std::io::sink()).unwrap()
}
