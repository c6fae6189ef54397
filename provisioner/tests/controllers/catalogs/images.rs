//! Catalogs in images.

use k8s_openapi::api::events::v1::Event;
use kube::api::{DeleteParams, ListParams};
use tests::{Auth, Buildah, OWNER, Registry};

use super::*;

/// Builds the image of a catalog with these versions, and pushes it.
fn push(registry: &Registry, name: &str, versions: &[&str], login: Option<&str>) -> String {
    push_documents(registry, name, &tide(versions), login)
}

/// The same, with any documents.
pub(crate) fn push_documents(
    registry: &Registry,
    name: &str,
    documents: &[Value],
    login: Option<&str>,
) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("configs")).unwrap();
    write_documents(&folder.path().join("configs"), documents);
    // What else is in an image is no part of the catalog.
    std::fs::write(folder.path().join("opm"), "{ not a catalog").unwrap();
    let buildah = Buildah::new();
    let built = buildah.build(
        "FROM scratch\nLABEL operators.operatorframework.io.index.configs.v1=/configs\nCOPY . /\n",
        folder.path(),
        &[],
    );
    let image = registry.image(name);
    let mut flags = vec!["--tls-verify=false"];
    flags.extend(login);
    buildah.push(&built, &format!("docker://{image}"), &flags);
    image
}

#[tokio::test]
async fn an_image_is_read_and_another_one_takes_its_place() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    let first = push(&registry, "org/catalog:v1", &["1.0.0", "1.1.0"], None);
    let image = |image: &str| json!({"image": image});
    shelf.declare("catalogs", "mine", image(&first)).await;
    shelf
        .offers_become("tide", &["catalogs/mine: tide.v1.0.0 tide.v1.1.0"])
        .await;
    assert_eq!(shelf.offers("other"), ["catalogs/mine: absent"]);
    assert_eq!(shelf.metric("catalogs", "mine").as_deref(), Some("1"));
    let digest = format!(
        "sha256:{}",
        "110".repeat(30).chars().take(64).collect::<String>()
    );
    let maximum = shelf.ctx.catalogs.maximum("tide", "tide.v1.1.0", &digest);
    assert_eq!(maximum, Some(vec!["\"4.15\"".to_owned()]));

    let missing = registry.image("org/catalog:none");
    shelf.declare("catalogs", "mine", image(&missing)).await;
    shelf
        .is_in_trouble("catalogs/mine", &["org/catalog:none"])
        .await;
    // What was read of the other image is not for whoever may not pull this one.
    let offers = shelf.offers("tide");
    assert!(
        offers[0].starts_with("catalogs/mine: unknown: "),
        "{offers:?}"
    );
    assert_eq!(shelf.metric("catalogs", "mine").as_deref(), Some("0"));
    let events: Api<Event> = Api::namespaced(shelf.cluster.client().unwrap(), "catalogs");
    eventually("an event says so", async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let reasons: Vec<_> = all.items.into_iter().filter_map(|it| it.reason).collect();
        let has_both = ["CatalogRead", "CatalogUnavailable"]
            .iter()
            .all(|&reason| reasons.iter().any(|it| it == reason));
        has_both.then_some(()).ok_or(format!("{reasons:?}"))
    })
    .await;

    // And back again: that is read, though it was read before.
    shelf.declare("catalogs", "mine", image(&first)).await;
    shelf
        .offers_become("tide", &["catalogs/mine: tide.v1.0.0 tide.v1.1.0"])
        .await;

    let second = push(
        &registry,
        "org/catalog:v2",
        &["1.0.0", "1.1.0", "1.2.0"],
        None,
    );
    shelf.declare("catalogs", "mine", image(&second)).await;
    shelf
        .offers_become(
            "tide",
            &["catalogs/mine: tide.v1.0.0 tide.v1.1.0 tide.v1.2.0"],
        )
        .await;
    eventually("it is well", async || {
        let metric = shelf.metric("catalogs", "mine");
        (metric.as_deref() == Some("1"))
            .then_some(())
            .ok_or(format!("{metric:?}"))
    })
    .await;

    let sources = shelf.sources("catalogs");
    sources
        .delete("mine", &DeleteParams::default())
        .await
        .unwrap();
    shelf.offers_become("tide", &[]).await;
    assert_eq!(shelf.metric("catalogs", "mine"), None);
}

#[tokio::test]
async fn each_catalog_is_pulled_with_its_own_secrets() {
    let shelf = Shelf::new().await;
    let registry = Registry::start(Auth::Basic, None);
    let login = format!("--creds={}:{}", OWNER.name, OWNER.password);
    let image = push(&registry, "org/catalog:v1", &["1.0.0"], Some(&login));
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson",
        "metadata": {"name": "pull", "namespace": "catalogs"},
        "stringData": {".dockerconfigjson": registry.docker_config(OWNER)},
    });
    shelf.cluster.apply(&secret, DryRun::No).await.unwrap();
    let with = json!({"image": image, "secrets": ["", "pull"]});
    shelf.declare("catalogs", "may", with).await;
    shelf
        .offers_become("tide", &["catalogs/may: tide.v1.0.0"])
        .await;
    // It is in memory and in the store by now; but this one may not have it, and that one's secret is not there.
    shelf
        .declare("catalogs", "may-not", json!({"image": image}))
        .await;
    let elsewhere = json!({"image": image, "secrets": ["pull"]});
    shelf.declare("more-catalogs", "lost", elsewhere).await;
    shelf
        .is_in_trouble("catalogs/may-not", &["needs credentials for org/catalog"])
        .await;
    shelf
        .is_in_trouble(
            "more-catalogs/lost",
            &["Secret more-catalogs/pull not found"],
        )
        .await;
    assert_eq!(shelf.offers("tide")[0], "catalogs/may: tide.v1.0.0");
}

#[tokio::test]
async fn what_is_no_catalog_is_told() {
    let shelf = Shelf::new().await;
    let registry = Registry::plain();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let buildah = Buildah::new();
    let built = buildah.build("FROM scratch\nCOPY . /\n", folder.path(), &[]);
    let image = registry.image("org/nothing:v1");
    buildah.push(
        &built,
        &format!("docker://{image}"),
        &["--tls-verify=false"],
    );
    shelf
        .declare("catalogs", "nothing", json!({"image": image}))
        .await;
    shelf
        .declare("catalogs", "odd", json!({"image": "No Image"}))
        .await;
    shelf
        .is_in_trouble("catalogs/nothing", &["no file-based catalog"])
        .await;
    shelf
        .is_in_trouble(
            "catalogs/odd",
            &["spec.image of CatalogSource catalogs/odd"],
        )
        .await;
}
