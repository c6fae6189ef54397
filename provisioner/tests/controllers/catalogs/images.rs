//! Catalogs in images.

use parking_lot::Mutex;
use tests::{Auth, Buildah, OWNER, Registry, TENANT};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
};

use super::*;

/// Builds the image of a catalog with these versions of the package `tide`, and pushes it.
pub(super) fn push_tide(registry: &Registry, name: &str, versions: &[&str]) -> String {
    push(registry, name, versions, None)
}

/// Builds and pushes the same image with a login.
fn push(registry: &Registry, name: &str, versions: &[&str], login: Option<&str>) -> String {
    push_documents(registry, name, &tide(versions), login)
}

/// Builds and pushes the image of a catalog with any documents.
pub(crate) fn push_documents(
    registry: &Registry,
    name: &str,
    documents: &[Value],
    login: Option<&str>,
) -> String {
    push_as(registry, &[name], documents, login);
    registry.image(name)
}

/// Pushes one image under several names.
fn push_as(registry: &Registry, names: &[&str], documents: &[Value], login: Option<&str>) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("configs")).unwrap();
    write_documents(&dir.path().join("configs"), documents);
    // Other files of an image are not part of the catalog.
    std::fs::write(dir.path().join("opm"), "{ not a catalog").unwrap();
    let buildah = Buildah::new();
    let built = buildah.build(
        "FROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/configs\nCOPY . /\n",
        dir.path(),
        &[],
    );
    let mut flags = vec!["--tls-verify=false"];
    flags.extend(login);
    for name in names {
        buildah.push(
            &built,
            &format!("docker://{}", registry.image(name)),
            &flags,
        );
    }
}

/// The schema of the database in an old index image.
const DATABASE: &str = "
    CREATE TABLE operatorbundle (name TEXT PRIMARY KEY, csv TEXT, bundle TEXT, bundlepath TEXT, skiprange TEXT, version TEXT);
    CREATE TABLE package (name TEXT PRIMARY KEY, default_channel TEXT);
    CREATE TABLE channel (name TEXT, package_name TEXT, head_operatorbundle_name TEXT);
    CREATE TABLE channel_entry (entry_id INTEGER PRIMARY KEY, channel_name TEXT, package_name TEXT,
        operatorbundle_name TEXT, replaces INTEGER, depth INTEGER);
    INSERT INTO operatorbundle(name, bundlepath, version) VALUES ('tide.v1.0.0', 'example.com/tide:1.0.0', '1.0.0');
    INSERT INTO package VALUES ('tide', 'stable');
    INSERT INTO channel VALUES ('stable', 'tide', 'tide.v1.0.0');
    INSERT INTO channel_entry VALUES (1, 'stable', 'tide', 'tide.v1.0.0', NULL, 0);
";

// parity: sqlite-4, platform-27, serve-12, serve-23, complaint-5
#[tokio::test]
async fn images_and_servers_are_read_and_reported() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    status::a_poll_of_the_same_image_is_one_request(&shelf, &registry).await;
    an_image_is_read_and_replaced(&shelf, &registry).await;
    an_index_image_is_a_catalog(&shelf, &registry).await;
    large_packages_do_not_hide_others(&shelf, &registry).await;
    an_image_without_a_catalog_is_read_once(&shelf, &registry).await;
    external_servers::servers_are_asked_for_what_is_wanted_and_reported(&shelf).await;
}

// parity: serve-14, platform-12, openshift-25
#[tokio::test]
async fn each_catalog_is_pulled_with_its_own_secrets() {
    let shelf = Shelf::new().await;
    secrets_of_others_do_not_help(&shelf).await;
    each_secret_fetches_an_image_once(&shelf).await;
}

async fn an_index_image_is_a_catalog(shelf: &Shelf, registry: &Registry) {
    let dir = tempfile::tempdir().unwrap();
    let database = rusqlite::Connection::open(dir.path().join("index.db")).unwrap();
    database.execute_batch(DATABASE).unwrap();
    let file = "FROM scratch\nLABEL operators.operatorframework.io.index.database.v1=/database/index.db\n\
                COPY index.db /database/\nCOPY index.db /bin/opm\n";
    let image = registry.image("org/index:v4.5");
    Buildah::new().publish(file, dir.path(), &image, &[]);
    shelf.image("old", &image).await;
    shelf.tide(&["old: 1.0.0"]).await;
    shelf.forget(&["old"]).await;
}

async fn an_image_is_read_and_replaced(shelf: &Shelf, registry: &Registry) {
    let first = push_tide(registry, "org/catalog:v1", &["1.0.0", "1.1.0"]);
    let image = |image: &str| json!({"image": image});
    shelf.declare("catalogs", "mine", image(&first)).await;
    shelf.tide(&["mine: 1.0.0 1.1.0"]).await;
    assert_eq!(shelf.offers("other"), ["catalogs/mine: absent"]);
    assert_eq!(shelf.metric("catalogs", "mine").as_deref(), Some("1"));
    let digest = format!(
        "sha256:{}",
        "110".repeat(30).chars().take(64).collect::<String>()
    );
    let maximum = shelf
        .ctx
        .catalogs
        .effective_maximum("tide", "tide.v1.1.0", &digest);
    assert_eq!(maximum.as_deref(), Some("4.15"));

    let missing = registry.image("org/catalog:none");
    shelf.declare("catalogs", "mine", image(&missing)).await;
    shelf.fails_with("mine", "org/catalog:none").await;
    // Content of the other image is not available to a source that cannot pull this one.
    let offers = shelf.offers("tide");
    assert!(
        offers[0].starts_with("catalogs/mine: unknown: "),
        "{offers:?}"
    );
    assert_eq!(shelf.metric("catalogs", "mine").as_deref(), Some("0"));
    for reason in ["CatalogRead", "CatalogUnavailable"] {
        let warnings = async || notes_about(&shelf.client(), "catalogs", "mine", reason).await;
        until(reason, warnings, |notes| !notes.is_empty()).await;
    }

    // The earlier image is read again.
    shelf.declare("catalogs", "mine", image(&first)).await;
    shelf.tide(&["mine: 1.0.0 1.1.0"]).await;

    let second = push_tide(registry, "org/catalog:v2", &["1.0.0", "1.1.0", "1.2.0"]);
    shelf.declare("catalogs", "mine", image(&second)).await;
    shelf.tide(&["mine: 1.0.0 1.1.0 1.2.0"]).await;
    let available = async || shelf.metric("catalogs", "mine");
    let is_well = |metric: &Option<String>| metric.as_deref() == Some("1");
    until("it is well", available, is_well).await;

    shelf.forget(&["mine"]).await;
    assert_eq!(shelf.metric("catalogs", "mine"), None);
}

fn pull_secret(namespace: &str, name: &str, config: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name, "namespace": namespace}, "stringData": {".dockerconfigjson": config},
    })
}

/// Leaves no catalogs.
async fn secrets_of_others_do_not_help(shelf: &Shelf) {
    let registry = Registry::start(Auth::Basic, None);
    let login = format!("--creds={}:{}", OWNER.name, OWNER.password);
    let image = push(&registry, "org/catalog:v1", &["1.0.0"], Some(&login));
    let secret = pull_secret("catalogs", "pull", &registry.docker_config(OWNER));
    shelf.apply(&secret).await;
    let with = json!({"image": image, "secrets": ["", "pull"]});
    shelf.declare("catalogs", "may", with).await;
    shelf.tide(&["may: 1.0.0"]).await;
    // The content is in memory and in the store; but this source has no permission, and the Secret of that one is
    // missing.
    shelf.image("may-not", &image).await;
    let elsewhere = json!({"image": image, "secrets": ["pull"]});
    shelf.declare("more-catalogs", "lost", elsewhere).await;
    let refused = "requires credentials for org/catalog";
    shelf.fails_with("may-not", refused).await;
    let missing = ["Secret more-catalogs/pull not found"];
    shelf
        .catalog_fails_with("more-catalogs/lost", &missing)
        .await;
    assert_eq!(shelf.offers("tide")[0], "catalogs/may: tide.v1.0.0");
    delete(&shelf.sources("more-catalogs"), "lost").await;
    shelf.forget(&["may", "may-not"]).await;
}

/// The content of an image does not change: the image is polled like a valid one, and not retried like an unreachable
/// registry.
async fn an_image_without_a_catalog_is_read_once(shelf: &Shelf, registry: &Registry) {
    let watched = Watched::new(registry).await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let buildah = Buildah::new();
    let built = buildah.build("FROM scratch\nCOPY . /\n", dir.path(), &[]);
    let pushed = format!("docker://{}", registry.image("org/nothing:v1"));
    buildah.push(&built, &pushed, &["--tls-verify=false"]);
    let spec = |name: &str| json!({"image": format!("{}/org/{name}:v1", watched.host)});
    shelf.declare("catalogs", "nothing", spec("nothing")).await;
    shelf.fails_with("nothing", "contains no catalog").await;
    shelf.image("odd", "No Image").await;
    let odd = "spec.image of CatalogSource catalogs/odd";
    shelf.fails_with("odd", odd).await;
    let heads = |name: &str| {
        let path = format!("HEAD /v2/org/{name}/manifests/");
        let asked = watched.asked();
        asked
            .iter()
            .filter(|request| request.starts_with(&path))
            .count()
    };
    let before = heads("nothing");
    // A missing image, which may be pushed later, is retried after one second, two, and so on.
    shelf.declare("catalogs", "missing", spec("missing")).await;
    let asked = async || heads("missing");
    until("it is tried again and again", asked, |asked| *asked >= 6).await;
    assert_eq!(heads("nothing"), before, "{:?}", watched.asked());

    // A changed CatalogSource reports the same problem, and a new image of that name is read.
    let mut changed = spec("nothing");
    changed["priority"] = 1.into();
    shelf.declare("catalogs", "nothing", changed.clone()).await;
    let (asked, once_more) = (async || heads("nothing"), before + 1);
    until("it is asked once more", asked, |asked| *asked == once_more).await;
    shelf.fails_with("nothing", "contains no catalog").await;
    push_tide(registry, "org/nothing:v1", &["1.0.0"]);
    changed["priority"] = 2.into();
    shelf.declare("catalogs", "nothing", changed).await;
    let is_offered =
        |offers: &Vec<String>| offers.contains(&"catalogs/nothing: tide.v1.0.0".to_owned());
    let offers = async || shelf.offers("tide");
    until("it is a catalog", offers, is_offered).await;
    shelf.forget(&["nothing", "odd", "missing"]).await;
}

/// A proxy to a registry that records the requests.
pub(super) struct Watched {
    pub(super) host: String,
    asked: Arc<Mutex<Vec<u8>>>,
}

impl Watched {
    pub(super) async fn new(registry: &Registry) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let asked: Arc<Mutex<Vec<u8>>> = Arc::default();
        let (upstream, record) = (registry.host().to_owned(), Arc::clone(&asked));
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let mut upstream = TcpStream::connect(&upstream).await.unwrap();
                let record = Arc::clone(&record);
                // A TLS handshake ends without a line break.
                record.lock().push(b'\n');
                tokio::spawn(async move {
                    let (mut from, mut to) = client.split();
                    let (mut answers, mut questions) = upstream.split();
                    let ask = async {
                        let mut buffer = vec![0; 1 << 16];
                        while let Ok(read @ 1..) = from.read(&mut buffer).await {
                            let part = &buffer[..read];
                            record.lock().extend_from_slice(part);
                            if questions.write_all(part).await.is_err() {
                                return;
                            }
                        }
                    };
                    tokio::select! {
                        () = ask => {}
                        _ = copy(&mut answers, &mut to) => {}
                    }
                });
            }
        });
        Self { host, asked }
    }

    /// Returns all requests so far.
    pub(super) fn asked(&self) -> Vec<String> {
        let asked = self.asked.lock();
        let text = String::from_utf8_lossy(&asked);
        let lines = text.lines().filter(|line| line.ends_with("HTTP/1.1"));
        lines.map(str::to_owned).collect()
    }

    /// Returns the number of requests whose path contains this part.
    fn asked_for(&self, part: &str) -> usize {
        let asked = self.asked.lock();
        let text = String::from_utf8_lossy(&asked);
        let asked = text.lines().filter(|line| line.starts_with("GET "));
        asked.filter(|request| request.contains(part)).count()
    }
}

/// Returns the digest of the only layer of the only image in a registry.
fn layer(registry: &Registry) -> String {
    let blobs = registry.dir().join("docker/registry/v2/blobs/sha256");
    let folders = |path| {
        std::fs::read_dir(path)
            .unwrap()
            .map(|entry| entry.unwrap().path())
    };
    let mut found: Vec<String> = folders(blobs)
        .flat_map(folders)
        .filter_map(|blob| {
            let blob: Value =
                serde_json::from_slice(&std::fs::read(blob.join("data")).ok()?).ok()?;
            let [layer] = blob["layers"].as_array()?.as_slice() else {
                return None;
            };
            layer["digest"].as_str().map(str::to_owned)
        })
        .collect();
    found.dedup();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

async fn each_secret_fetches_an_image_once(shelf: &Shelf) {
    let registry = Registry::start(Auth::Basic, None);
    let proxy = Watched::new(&registry).await;
    let login = format!("--creds={}:{}", OWNER.name, OWNER.password);
    let names = ["org/catalog:v1", "org/catalog:latest"];
    push_as(&registry, &names, &tide(&["1.0.0"]), Some(&login));
    let layer = layer(&registry);
    for (namespace, name, user) in [
        ("catalogs", "owner", OWNER),
        ("more-catalogs", "tenant", TENANT),
    ] {
        let config = tests::docker_config(&[(&proxy.host, user)]);
        shelf.apply(&pull_secret(namespace, name, &config)).await;
    }
    let mut offers = Vec::new();
    for (namespace, name, tag, secret, times) in [
        ("catalogs", "first", "v1", "owner", 1),
        ("catalogs", "other-tag", "latest", "owner", 1),
        // A namespace with another Secret fetches the manifest once, which proves its permission.
        ("more-catalogs", "other-secret", "v1", "tenant", 2),
        ("more-catalogs", "other-tag", "latest", "tenant", 2),
    ] {
        let image = format!("{}/org/catalog:{tag}", proxy.host);
        let spec = json!({"image": image, "secrets": [secret]});
        shelf.declare(namespace, name, spec).await;
        offers.push(format!("{namespace}/{name}: tide.v1.0.0"));
        let offers: Vec<&str> = offers.iter().map(String::as_str).collect();
        shelf.offers_become("tide", &offers).await;
        assert_eq!(proxy.asked_for(&layer), times, "{namespace}/{name}");
    }
}

async fn large_packages_do_not_hide_others(shelf: &Shelf, registry: &Registry) {
    let names: Vec<String> = (0..=5000).map(|at| format!("whale.v1.{at}.0")).collect();
    let entries: Vec<Value> = names
        .iter()
        .enumerate()
        .map(|(at, name)| {
            let before = at.checked_sub(1).map(|at| &names[at]);
            json!({"name": name, "replaces": before})
        })
        .collect();
    let mut documents = tide(&["1.0.0"]);
    documents.extend([
        json!({"schema": "olm.package", "name": "whale", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "whale", "name": "stable", "entries": entries}),
        // Larger than the limit of a document.
        json!({"schema": "olm.package", "name": "kraken", "defaultChannel": "stable", "description": "k".repeat(65 << 20)}),
    ]);
    documents.extend(names.iter().enumerate().map(|(at, name)| {
        json!({
            "schema": "olm.bundle", "package": "whale", "name": name, "image": format!("example.com/whale:v{at}"),
            "properties": [{"type": "olm.package", "value": {"packageName": "whale", "version": format!("1.{at}.0")}}],
        })
    }));
    let image = push_documents(registry, "org/large:v1", &documents, None);
    shelf.image("mine", &image).await;
    shelf.tide(&["mine: 1.0.0"]).await;
    assert_eq!(
        shelf.offers("whale"),
        ["catalogs/mine: unknown: the package has more than 5000 bundles"]
    );
    shelf.forget(&["mine"]).await;
}
