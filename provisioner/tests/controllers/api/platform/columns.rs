//! The columns of each kind, with statuses that the API server stores as they are written.

use manifests::api::{
    platform_operator::{PlatformOperator, PlatformOperatorStatus},
    platform_status::PlatformStatus,
};
use provisioner::controllers::cluster_operator::{
    model::{self, Input},
    upgradeable,
};

use super::*;
use crate::support::merge_status;

// parity: platform-13, source-17, source-19
#[tokio::test]
async fn get_shows_the_columns_of_each_kind() {
    defined().await;
    bundles_have_the_columns_of_rukpak().await;
    instances_have_conditions_and_versions().await;
    platform_operators_have_all_that_is_stored().await;
    the_platform_status_is_stored_as_concluded().await;
    catalog_sources_show_their_source().await;
}

async fn platform_operators_have_all_that_is_stored() {
    let object = operator("columns", &json!({"package": {"name": "etcd"}}));
    put(&object, false).await.unwrap();
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": format!("{type_} it is"),
               "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1})
    };
    let status = json!({
        "conditions": [
            condition("Installed", "True", "InstallSuccessful"),
            condition("Upgradeable", "False", "IncompatibleOperatorsInstalled"),
            condition("CatalogAvailable", "True", "AsExpected"),
        ],
        "observedGeneration": 1,
        "activeBundleInstance": {"name": "columns"},
        "activeBundleDeployment": {"name": "columns"},
        "chosenBundle": {
            "name": "etcd.v1.2.3", "version": "1.2.3", "channel": "stable", "catalog": "catalogs/community",
            "image": format!("quay.io/example/etcd@{DIGEST}"), "why": ["the head of channel stable"],
        },
        "nextAvailable": {"name": "etcd.v1.3.0", "version": "1.3.0", "waitsFor": "an upgrade of the cluster"},
        "clusterMinor": "4.12", "packageMinor": "1.2",
        "newRights": {"digest": DIGEST, "rules": ["ServiceAccount etcd/etcd, in the whole cluster: {}"]},
    });
    let stored = write_status(&object, &status).await.unwrap();
    // No field is dropped, and the types contain all fields.
    assert_eq!(stored["status"], status);
    let typed: PlatformOperatorStatus = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), status);
    let stored: PlatformOperator = serde_json::from_value(stored).unwrap();
    assert_eq!(stored.approved_minors().unwrap().to_string(), "4.12 1.2");

    let [heads, row] = wide_rows("platformoperators columns").await;
    assert_eq!(
        heads,
        "NAME PACKAGE VERSION INSTALLED INSTALL STATE UPGRADEABLE AGE CHANNEL CATALOG NEXT WAITS FOR MESSAGE"
    );
    let cells = "columns etcd 1.2.3 True InstallSuccessful False ";
    assert!(row.starts_with(cells), "{row}");
    assert!(row.contains(" catalogs/community 1.3.0 "), "{row}");
    // `po` stays the short name of pods.
    let resources = run("api-resources --api-group platform.openshift.io --no-headers").await;
    let expected = "platformoperators platform.openshift.io/v1alpha1 false PlatformOperator";
    assert_eq!(normalized(&resources), expected);
}

/// Another name than `cluster` is rejected.
async fn the_platform_status_is_stored_as_concluded() {
    let named = |name: &str| json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "PlatformStatus", "metadata": {"name": name}, "spec": {}});
    let error = put(&named("other"), true).await.unwrap_err();
    let expected = r#"metadata.name: Unsupported value: "other": supported values: "cluster""#;
    assert!(error.contains(expected), "{error}");
    let object = named("cluster");
    put(&object, false).await.unwrap();

    let busy = upgradeable::InstalledOperator {
        namespace: "etcd".into(),
        name: "etcd".into(),
        refusal: Some(("Busy".into(), "moving data".into())),
        ..upgradeable::InstalledOperator::default()
    };
    let verdict = upgradeable::assess(&upgradeable::ClusterKind::Kubernetes, &[busy], &[]);
    let operators: Vec<PlatformOperator> =
        vec![serde_json::from_value(operator("a", &json!({"package": {"name": "a"}}))).unwrap()];
    let now = "2026-01-01T00:00:00.123456Z".parse().unwrap();
    let input = Input {
        operators: Ok(operators.iter().collect()),
        instances: Vec::new(),
        is_installing: false,
        is_updating: false,
        gate: &verdict,
        catalog_maxima: [("etcd/etcd.v1@sha256:a".to_owned(), "4.12".to_owned())].into(),
        now,
    };
    let first = model::platform_status(None, &input, Some("1.36"));
    let stored = write_status(&object, &serde_json::to_value(&first.status).unwrap()).await;
    let stored: PlatformStatus = serde_json::from_value(stored.unwrap()).unwrap();
    let status = stored.status.unwrap();
    assert_eq!(status, first.status);
    // A second conclusion from the same input changes nothing.
    let again = model::platform_status(Some(&status), &input, Some("1.36"));
    assert_eq!(again.status, status);

    let [_, row] = wide_rows("platformstatuses").await;
    assert!(row.starts_with("cluster False True False False "), "{row}");
    let asks = "are not upgradeable: etcd/etcd";
    assert!(row.contains(asks), "{row}");
}

/// A CatalogSource without a type also shows the source of its catalog.
async fn catalog_sources_show_their_source() {
    let old = json!({"sourceType": "grpc", "address": "b:2", "displayName": "Community", "publisher": "Us"});
    for (name, spec, cells) in tests::rows![
        "list-image", json!({"catalogImageSource": {"catalogImage": "r/c:v1"}}) => ["list-image", "r/c:v1"];
        "list-service", json!({"catalogServiceSource": {"address": "a:1"}}) => ["list-service", "a:1"];
        "list-map", json!({"configMapSource": {"configMap": "m"}}) => ["list-map", "m"];
        "list-old", old => ["list-old Community grpc Us", "b:2"];
    ] {
        let object = sources::source(name, &spec);
        put(&object, false).await.unwrap();
        let [heads, row] = wide_rows(&format!("catsrc {name}")).await;
        assert_eq!(heads, "NAME DISPLAY TYPE PUBLISHER AGE SOURCE STATE REASON");
        let [first, last] = cells;
        assert!(row.starts_with(&format!("{first} ")), "{row}");
        assert!(row.ends_with(&format!(" {last}")), "{row}");
    }
}

async fn instances_have_conditions_and_versions() {
    let client = installed().await.client().unwrap();
    create(client.clone(), &instance("columns", &image()), false)
        .await
        .unwrap();
    let condition = |type_: &str, status: &str, reason: &str, message: &str| json!({"type": type_, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"});
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

    assert_eq!(
        columns(&run("get bi columns").await),
        [
            "NAME|READY|INSTALLED BUNDLE|VERSION|INSTALLED|INSTALL STATE|HEALTHY",
            "columns|Unknown|columns-abc|1.2.3|True|InstallationSucceeded|False",
        ]
    );
    let [heads, row] = wide_rows("bis columns").await;
    let more = " AGE PROVISIONER PACKAGE PROGRESSING MESSAGE";
    assert!(heads.ends_with(more), "{heads}");
    let more = " core-rukpak-io-plain etcd Applying 2 of 3 objects";
    assert!(row.ends_with(more), "{row}");
}

/// Returns a line with single spaces between its fields.
fn normalized(line: &str) -> String {
    let parts: Vec<&str> = line.split_whitespace().collect();
    parts.join(" ")
}

/// Returns the two lines that kubectl prints of one object with all columns.
async fn wide_rows(object: &str) -> [String; 2] {
    let output = run(&format!("get {object} --output wide")).await;
    let lines: Vec<String> = output.lines().map(normalized).collect();
    lines.try_into().unwrap()
}

fn cells(line: &str) -> Vec<&str> {
    let cells = line.split("  ").map(str::trim);
    cells.filter(|cell| !cell.is_empty()).collect()
}

/// Returns the columns before the age.
fn columns(table: &str) -> Vec<String> {
    table
        .lines()
        .map(|line| cells(line)[..7].join("|"))
        .collect()
}

async fn bundles_have_the_columns_of_rukpak() {
    let client = installed().await.client().unwrap();
    create(client.clone(), &bundle("columns", &image()), false)
        .await
        .unwrap();
    let status =
        json!({"status": {"phase": "Unpacked", "version": "1.2.3", "resolvedSource": image()}});
    merge_status(&api(client, "Bundle"), "columns", &status).await;
    let [heads, row] = wide_rows("bundles columns").await;
    let expected = "NAME TYPE PHASE VERSION AGE RESOLVED SOURCE PROVISIONER PACKAGE MESSAGE";
    assert_eq!(heads, expected);
    let resolved = r#""ref":"quay.io/example/bundle:v1""#;
    for cell in ["image", "Unpacked", "1.2.3", resolved] {
        assert!(row.contains(cell), "{cell}: {row}");
    }
}
