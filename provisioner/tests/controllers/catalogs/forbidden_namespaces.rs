//! Namespaces where listing CatalogSources is forbidden.

use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::ListParams;

use super::*;
use crate::support::{grant, user};

/// Allows the user of these tests to read a kind.
async fn allow(shelf: &Shelf, namespace: Option<&str>, (group, resource): (&str, &str)) {
    let verbs = ["get", "list", "watch"];
    let rules = json!([{"apiGroups": [group], "resources": [resource], "verbs": verbs}]);
    grant(&shelf.cluster, &user(USER), namespace, resource, &rules).await;
}

const USER: &str = "half-trusted";

// parity: complaint-3, serve-17
#[tokio::test]
async fn forbidden_namespace_does_not_hide_the_others() {
    let (shelf, mut line) = Shelf::behind_line(USER).await;
    define_source(&shelf.cluster).await;
    let crds = ("apiextensions.k8s.io", "customresourcedefinitions");
    allow(&shelf, None, crds).await;
    let sources = ("operators.coreos.com", "catalogsources");
    allow(&shelf, Some("catalogs"), sources).await;
    let spec = json!({"address": "127.0.0.1:1"});
    for namespace in NAMESPACES.into_iter().chain(["elsewhere"]) {
        shelf.declare(namespace, "mine", spec.clone()).await;
    }
    let hidden = "more-catalogs/*: unknown: failed to list CatalogSources: *";
    let mine = "catalogs/mine: unknown: *";
    shelf.offers_become(&[mine, hidden]).await;
    assert!(shelf.reader.ctx.catalogs.is_synced());
    let resource = "catalogsources.operators.coreos.com";
    for text in [USER, "in namespace more-catalogs", resource] {
        shelf.fails_with("more-catalogs/*", text).await;
    }
    assert_eq!(shelf.metric("more-catalogs", "*").as_deref(), Some("0"));

    allow(&shelf, Some("more-catalogs"), sources).await;
    let other = "more-catalogs/mine: unknown: *";
    shelf.offers_become(&[mine, other]).await;
    assert_eq!(shelf.metric("more-catalogs", "*"), None);

    // The permission takes effect again after its revocation.
    shelf.declare("more-catalogs", "late", spec).await;
    let late = "more-catalogs/late: unknown: *";
    shelf.offers_become(&[mine, late, other]).await;
    let bindings = shelf.api::<RoleBinding>("more-catalogs");
    delete(&bindings, sources.1).await;
    let mut config = shelf.cluster.config().clone();
    config.auth_info.impersonate = Some(USER.to_owned());
    let client = Client::try_from(config).unwrap();
    let visible: Api<CatalogSource> = Api::namespaced(client, "more-catalogs");
    let listed = async || visible.list(&ListParams::default()).await.is_ok();
    until("the permission is revoked", listed, |is_listed| !is_listed).await;
    // The revocation does not affect a running watch, so the connection is cut.
    line.cut();
    line.restore().await;
    shelf.offers_become(&[mine, late, other, hidden]).await;

    allow(&shelf, Some("more-catalogs"), sources).await;
    shelf.offers_become(&[mine, late, other]).await;
    assert_eq!(shelf.metric("more-catalogs", "*"), None);
}
