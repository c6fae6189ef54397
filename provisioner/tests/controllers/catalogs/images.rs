//! Catalogs in images.

use tests::{Auth, Buildah, DATABASE_LABEL, DATABASE_TABLES, OWNER};

use super::*;

/// Builds the image of a catalog with these versions of the package `tide`, and pushes it.
pub(super) fn push_tide(registry: &Registry, name: &str, versions: &[&str]) -> String {
    push_documents(registry, name, &tide(versions), None)
}

/// Builds and pushes the image of a catalog with any documents.
pub(super) fn push_documents(
    registry: &Registry,
    name: &str,
    documents: &[Value],
    login: Option<&str>,
) -> String {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("configs")).unwrap();
    write_documents(&dir.path().join("configs"), documents);
    // Other files of an image are not part of the catalog.
    std::fs::write(dir.path().join("opm"), "{ not a catalog").unwrap();
    let file =
        "FROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/configs\nCOPY . /\n";
    let buildah = Buildah::new();
    let built = buildah.build(file, dir.path(), &[]);
    let image = registry.image(name);
    let mut flags = vec!["--tls-verify=false"];
    flags.extend(login);
    buildah.push(&built, &format!("docker://{image}"), &flags);
    image
}

pub(crate) fn pull_secret(namespace: &str, name: &str, config: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": name, "namespace": namespace}, "stringData": {".dockerconfigjson": config},
    })
}

const ROWS: &str = "
    INSERT INTO operatorbundle(name, csv, bundlepath, version) VALUES ('tide.v1.0.0', '{}', 'example.com/tide:1', '1.0.0');
    INSERT INTO package VALUES ('tide', 'stable');
    INSERT INTO channel VALUES ('stable', 'tide', 'tide.v1.0.0');
    INSERT INTO channel_entry VALUES (1, 'stable', 'tide', 'tide.v1.0.0', NULL, 0);
";

// parity: sqlite-4, platform-27, serve-12
#[tokio::test]
async fn images_and_servers_are_read_and_reported() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    let first = push_tide(&registry, "org/catalog:v1", &["1.0.0", "1.1.0"]);
    shelf.image("mine", &first).await;
    shelf.tide(&["mine: 1.0.0 1.1.0"]).await;
    assert_eq!(shelf.offers("other"), ["catalogs/mine: absent"]);
    assert_eq!(shelf.metric("catalogs", "mine").as_deref(), Some("1"));

    let missing = registry.image("org/catalog:none");
    shelf.image("mine", &missing).await;
    shelf.fails_with("mine", "org/catalog:none").await;
    // Content of the other image is not available to a source that cannot pull this one.
    let offers = shelf.offers("tide").concat();
    assert!(offers.starts_with("catalogs/mine: unknown: "), "{offers}");
    assert_eq!(shelf.metric("catalogs", "mine").as_deref(), Some("0"));
    for reason in ["CatalogRead", "CatalogUnavailable"] {
        let warnings = async || notes_about(&shelf.client(), "catalogs", "mine", reason).await;
        until(reason, warnings, |notes| !notes.is_empty()).await;
    }

    // The earlier image is read again.
    shelf.image("mine", &first).await;
    shelf.tide(&["mine: 1.0.0 1.1.0"]).await;
    let available = async || shelf.metric("catalogs", "mine");
    let is_healthy = |metric: &Option<String>| metric.as_deref() == Some("1");
    until("it is available", available, is_healthy).await;
    shelf.forget(&["mine"]).await;
    assert_eq!(shelf.metric("catalogs", "mine"), None);

    // An index image is a catalog.
    let dir = tempfile::tempdir().unwrap();
    let database = rusqlite::Connection::open(dir.path().join("index.db")).unwrap();
    let batch = format!("{DATABASE_TABLES}{ROWS}");
    database.execute_batch(&batch).unwrap();
    let file = format!(
        "FROM scratch\nLABEL {DATABASE_LABEL}=/database/index.db\nCOPY index.db /database/\nCOPY index.db /bin/opm\n"
    );
    let image = registry.image("org/index:v4.5");
    Buildah::new().publish(&file, dir.path(), &image, &[]);
    shelf.image("old", &image).await;
    shelf.tide(&["old: 1.0.0"]).await;
    shelf.forget(&["old"]).await;

    // An image without a catalog is reported. Once the tag names a catalog, it is read after a change of the CatalogSource.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("file"), "").unwrap();
    let image = registry.image("org/nothing:v1");
    Buildah::new().publish("FROM scratch\nCOPY . /\n", dir.path(), &image, &[]);
    shelf.image("nothing", &image).await;
    shelf.fails_with("nothing", "contains no catalog").await;
    push_tide(&registry, "org/nothing:v1", &["1.0.0"]);
    let changed = json!({"image": image, "priority": 1});
    shelf.declare("catalogs", "nothing", changed).await;
    shelf.tide(&["nothing: 1.0.0"]).await;
    shelf.forget(&["nothing"]).await;
    external_servers::servers_are_asked_for_what_is_wanted_and_reported(&shelf).await;
}

// parity: serve-14, openshift-25
#[tokio::test]
async fn each_catalog_is_pulled_with_its_own_secrets() {
    let shelf = Shelf::new().await;
    let registry = Registry::start(Auth::Basic, None);
    let login = format!("--creds={}:{}", OWNER.name, OWNER.password);
    let image = push_documents(&registry, "org/catalog:v1", &tide(&["1.0.0"]), Some(&login));
    // The Secret exceeds the limit of all pull secrets.
    let entries =
        (0..12_000).map(|number| (format!("r{number}.example.com"), json!({"auth": "YTpi"})));
    let entries: serde_json::Map<String, Value> = entries.collect();
    let large = pull_secret("catalogs", "large", &json!({"auths": entries}).to_string());
    shelf.apply(&large).await;
    let spec = json!({"image": image, "secrets": ["large"]});
    shelf.declare("catalogs", "large", spec).await;
    shelf.fails_with("large", "bytes in total").await;
    shelf.forget(&["large"]).await;
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
    let rejected = "requires credentials for org/catalog";
    shelf.fails_with("may-not", rejected).await;
    let missing = "Secret more-catalogs/pull not found";
    shelf.fails_with("more-catalogs/lost", missing).await;
    assert_eq!(shelf.offers("tide")[0], "catalogs/may: tide.v1.0.0");
}
