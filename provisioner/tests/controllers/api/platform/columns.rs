//! The columns of each kind, with statuses that the API server stores as they are written.

use manifests::api::{
    platform_operator::{PlatformOperator, PlatformOperatorStatus},
    platform_status::PlatformStatus,
};
use provisioner::controllers::cluster_operator::{
    model::{self, Input},
    upgradeable::{ClusterKind, InstalledOperator, assess},
};

use super::*;
use crate::support::merge_status;

// parity: platform-13, source-17, source-19
#[tokio::test]
async fn get_shows_the_columns_of_each_kind() {
    defined().await;

    let client = installed().await.client().unwrap();
    store(&client, &bundle("columns", &image())).await;
    let status =
        json!({"status": {"phase": "Unpacked", "version": "1.2.3", "resolvedSource": image()}});
    merge_status(&api(client.clone(), "Bundle"), "columns", &status).await;
    let [heads, row] = rows("bundles columns --output wide").await;
    tests::assert_rows!(heads => "NAME TYPE PHASE VERSION AGE RESOLVED SOURCE PROVISIONER PACKAGE MESSAGE");
    let resolved = r#""ref":"quay.io/example/bundle:v1""#;
    for cell in ["image", "Unpacked", "1.2.3", resolved] {
        assert_has(&row, cell);
    }

    store(&client, &instance("columns", &image())).await;
    let status = json!({"status": {
        "installedBundleName": "columns-abc", "version": "1.2.3", "package": "etcd",
        "conditions": [
            condition("Installed", "True", "InstallationSucceeded", ""),
            condition("Healthy", "False", "Unhealthy", ""),
            condition("Progressing", "True", "Applying", "2 of 3 objects"),
            condition("Ready", "Unknown", "Applying", "2 of 3 objects"),
        ],
    }});
    merge_status(&api(client, "BundleInstance"), "columns", &status).await;

    let expected = "NAME READY INSTALLED BUNDLE VERSION INSTALLED INSTALL STATE HEALTHY AGE";
    let [heads, row] = rows("bi columns").await;
    assert_eq!(heads, expected);
    let cells = "columns Unknown columns-abc 1.2.3 True InstallationSucceeded False ";
    assert!(row.starts_with(cells), "{row}");
    let [heads, row] = rows("bis columns --output wide").await;
    tests::assert_rows!(heads => format!("{expected} PROVISIONER PACKAGE PROGRESSING MESSAGE"));
    tests::assert_rows!(row.ends_with(" core-rukpak-io-plain etcd Applying 2 of 3 objects") => true, "{row}");

    platform_operators_show_all_stored_fields().await;
    platform_status_is_stored_as_concluded().await;

    // A CatalogSource without a type also shows the source of its catalog.
    let old = json!({"sourceType": "grpc", "address": "b:2", "displayName": "Community", "publisher": "Us"});
    for (name, spec, cells) in tests::rows![
        "list-image", json!({"catalogImageSource": {"catalogImage": "r/c:v1"}}) => ["list-image", "r/c:v1"];
        "list-service", json!({"catalogServiceSource": {"address": "a:1"}}) => ["list-service", "a:1"];
        "list-map", json!({"configMapSource": {"configMap": "m"}}) => ["list-map", "m"];
        "list-old", old => ["list-old Community grpc Us", "b:2"];
    ] {
        put(&sources::source(name, &spec), false).await.unwrap();
        let [heads, row] = rows(&format!("catsrc {name} --output wide")).await;
        assert_eq!(heads, "NAME DISPLAY TYPE PUBLISHER AGE SOURCE STATE REASON");
        let [first, last] = cells;
        assert!(row.starts_with(&format!("{first} ")), "{row}");
        assert!(row.ends_with(&format!(" {last}")), "{row}");
    }
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
           "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

async fn platform_operators_show_all_stored_fields() {
    let object = operator("columns", &json!({"package": {"name": "etcd"}}));
    put(&object, false).await.unwrap();
    let status = json!({
        "conditions": [
            condition("Installed", "True", "InstallSuccessful", ""),
            condition("Upgradeable", "False", "IncompatibleOperatorsInstalled", ""),
            condition("CatalogAvailable", "True", "AsExpected", ""),
        ],
        "observedGeneration": 1, "clusterMinor": "4.12", "packageMinor": "1.2",
        "activeBundleInstance": {"name": "columns"}, "activeBundleDeployment": {"name": "columns"},
        "chosenBundle": {
            "name": "etcd.v1.2.3", "version": "1.2.3", "channel": "stable", "catalog": "catalogs/community",
            "image": format!("quay.io/example/etcd@{DIGEST}"), "why": ["the head of channel stable"],
        },
        "nextAvailable": {"name": "etcd.v1.3.0", "version": "1.3.0", "waitsFor": "an upgrade of the cluster"},
        "newRights": {"digest": DIGEST, "rules": ["ServiceAccount etcd/etcd, in the whole cluster: {}"]},
    });
    let stored = write_status(&object, &status).await.unwrap();
    // No field is dropped, and the types contain all fields.
    assert_eq!(stored["status"], status);
    let typed: PlatformOperatorStatus = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), status);
    let stored: PlatformOperator = serde_json::from_value(stored).unwrap();
    assert_eq!(stored.approved_minors().unwrap().to_string(), "4.12 1.2");

    let [heads, row] = rows("platformoperators columns --output wide").await;
    let expected = "NAME PACKAGE VERSION INSTALLED INSTALL STATE UPGRADEABLE AGE CHANNEL CATALOG NEXT WAITS FOR MESSAGE";
    assert_eq!(heads, expected);
    let cells = "columns etcd 1.2.3 True InstallSuccessful False ";
    assert!(row.starts_with(cells), "{row}");
    assert_has(row, " catalogs/community 1.3.0 ");
    // `po` remains the short name of pods.
    let resources = run("api-resources --api-group platform.openshift.io --no-headers").await;
    tests::assert_rows!(normalized(&resources) => "platformoperators platform.openshift.io/v1alpha1 false PlatformOperator");
}

/// Another name than `cluster` is rejected.
async fn platform_status_is_stored_as_concluded() {
    let named = |name: &str| object("PlatformStatus", name, &json!({}));
    let error = put(&named("other"), true).await.unwrap_err();
    let expected = r#"metadata.name: Unsupported value: "other": supported values: "cluster""#;
    assert_has(error, expected);
    let object = named("cluster");
    put(&object, false).await.unwrap();

    let refusal = Some(("Busy".into(), "moving data".into()));
    let busy =
        tests::with!(InstalledOperator, namespace: "etcd".into(), name: "etcd".into(), refusal);
    let platform_operator = operator("a", &json!({"package": {"name": "a"}}));
    let platform_operator: PlatformOperator = serde_json::from_value(platform_operator).unwrap();
    let input = Input {
        operators: Ok(vec![&platform_operator]),
        instances: Vec::new(),
        is_installing: false,
        is_updating: false,
        gate: &assess(&ClusterKind::Kubernetes, &[busy], &[]),
        catalog_maxima: [("etcd/etcd.v1@sha256:a".to_owned(), "4.12".to_owned())].into(),
        now: "2026-01-01T00:00:00.123456Z".parse().unwrap(),
    };
    let first = model::platform_status(None, &input, Some("1.36"));
    let stored = write_status(&object, &serde_json::to_value(&first.status).unwrap()).await;
    let stored: PlatformStatus = serde_json::from_value(stored.unwrap()).unwrap();
    assert_eq!(stored.status.unwrap(), first.status);

    let [_, row] = rows("platformstatuses --output wide").await;
    assert!(row.starts_with("cluster False True False False "), "{row}");
    assert_has(row, "are not upgradeable: etcd/etcd");
}

/// Returns a line with single spaces between its fields.
fn normalized(line: &str) -> String {
    let parts: Vec<&str> = line.split_whitespace().collect();
    parts.join(" ")
}

/// Returns the two lines that kubectl prints of one object.
async fn rows(object: &str) -> [String; 2] {
    let output = run(&format!("get {object}")).await;
    let lines: Vec<String> = output.lines().map(normalized).collect();
    lines.try_into().unwrap()
}
