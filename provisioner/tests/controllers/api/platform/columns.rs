//! The columns of each kind, with statuses that the API server stores as they are written.

use manifests::api::{
    platform::{PlatformOperator, PlatformOperatorStatus},
    platform_status::PlatformStatus,
};
use provisioner::platform::{
    aggregate::{self, Input},
    gate,
};

use super::*;

// parity: platform-13, source-17, source-19
#[tokio::test]
async fn get_shows_the_columns_of_each_kind() {
    defined().await;
    bundles_have_the_columns_of_rukpak().await;
    instances_have_conditions_and_versions().await;
    platform_operators_have_all_that_is_stored().await;
    the_platform_status_is_stored_as_concluded().await;
    catalog_sources_of_olm_are_stored_as_written().await;
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
    // Nothing is dropped, and the types know all of it.
    assert_eq!(stored["status"], status);
    let typed: PlatformOperatorStatus = serde_json::from_value(status.clone()).unwrap();
    assert_eq!(serde_json::to_value(&typed).unwrap(), status);
    let stored: PlatformOperator = serde_json::from_value(stored).unwrap();
    assert_eq!(stored.kept().unwrap().to_string(), "4.12 1.2");

    let shown = run("get platformoperators columns --output wide").await;
    let heads: Vec<_> = shown.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        heads.join(" "),
        "NAME PACKAGE VERSION INSTALLED INSTALL STATE UPGRADEABLE AGE CHANNEL CATALOG NEXT WAITS FOR MESSAGE"
    );
    let row: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        row[..6].join(" "),
        "columns etcd 1.2.3 True InstallSuccessful False"
    );
    assert!(
        shown.contains("catalogs/community") && shown.contains("1.3.0"),
        "{shown}"
    );
    // `po` are pods, and stay that.
    let resources = run("api-resources --api-group platform.openshift.io --no-headers").await;
    let words: Vec<_> = resources.split_whitespace().collect();
    assert_eq!(
        words.join(" "),
        "platformoperators platform.openshift.io/v1alpha1 false PlatformOperator"
    );
}

/// Another name than `cluster` is rejected.
async fn the_platform_status_is_stored_as_concluded() {
    let named = |name: &str| json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "PlatformStatus", "metadata": {"name": name}, "spec": {}});
    let said = put(&named("other"), true).await.unwrap_err();
    let words = r#"metadata.name: Unsupported value: "other": supported values: "cluster""#;
    assert!(said.contains(words), "{said}");
    let object = named("cluster");
    put(&object, false).await.unwrap();

    let busy = gate::Operator {
        namespace: "etcd".into(),
        name: "etcd".into(),
        refusal: Some(("Busy".into(), "moving data".into())),
        ..gate::Operator::default()
    };
    let verdict = gate::judge(&gate::Cluster::Kubernetes, &[busy], &[]);
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
    let first = aggregate::platform_status(None, &input, Some("1.36"));
    let stored = write_status(&object, &serde_json::to_value(&first.status).unwrap()).await;
    let stored: PlatformStatus = serde_json::from_value(stored.unwrap()).unwrap();
    let kept = stored.status.unwrap();
    assert_eq!(kept, first.status);
    // So there is nothing to write again.
    let again = aggregate::platform_status(Some(&kept), &input, Some("1.36"));
    assert_eq!(again.status, kept);

    let shown = run("get platformstatuses --output wide").await;
    let row: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["cluster", "False", "True", "False", "False"]);
    assert!(
        shown.contains("ask not to be upgraded now: etcd/etcd"),
        "{shown}"
    );
}

async fn catalog_sources_of_olm_are_stored_as_written() {
    let object = json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": "community", "namespace": "default"},
        "spec": {
            "sourceType": "grpc", "image": "quay.io/example/index:v1", "priority": -100, "secrets": ["pull", ""],
            "displayName": "Community", "publisher": "Us", "description": "Operators",
            "icon": {"base64data": "", "mediatype": ""},
            "updateStrategy": {"registryPoll": {"interval": "10m"}},
            "grpcPodConfig": {"securityContextConfig": "restricted", "memoryTarget": "50Mi", "extractContent": {"catalogDir": "/configs"}},
        },
    });
    let stored = put(&object, false).await.unwrap();
    assert_eq!(stored["spec"], object["spec"]);
    let status = json!({
        "connectionState": {"address": "community.default.svc:50051", "lastConnect": "2026-01-01T00:00:00Z", "lastObservedState": "READY"},
        "registryService": {"protocol": "grpc", "serviceName": "community", "serviceNamespace": "default", "port": "50051",
                            "createdAt": "2026-01-01T00:00:00Z"},
    });
    let stored = write_status(&object, &status).await.unwrap();
    assert_eq!(stored["status"], status);
    let catalog: manifests::api::catalog_source::CatalogSource =
        serde_json::from_value(stored).unwrap();
    assert_eq!(
        catalog.place(true),
        Ok(manifests::api::catalog_source::Place::Served(
            "community.default.svc:50051".into()
        ))
    );
    let shown = run("get catsrc").await;
    let lines: Vec<Vec<_>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "DISPLAY", "TYPE", "PUBLISHER", "AGE"]);
    assert_eq!(lines[1][..4], ["community", "Community", "grpc", "Us"]);
}

/// A CatalogSource without a type shows where its catalog is, too.
async fn catalog_sources_show_their_source() {
    let rows = tests::rows![
        "list-image", json!({"catalogImageSource": {"catalogImage": "r/c:v1"}}) => "r/c:v1";
        "list-service", json!({"catalogServiceSource": {"address": "a:1"}}) => "a:1";
        "list-map", json!({"configMapSource": {"configMap": "m"}}) => "m";
        "list-old", json!({"sourceType": "grpc", "address": "b:2"}) => "b:2";
    ];
    for (name, spec, shown) in rows {
        let object = sources::source(name, &spec);
        put(&object, false).await.unwrap();
        let get = ["get", "catsrc", name, "--output", "wide"];
        let lines = kubectl(defined().await, &get, "").await.unwrap();
        let heads: Vec<_> = lines.lines().next().unwrap().split_whitespace().collect();
        assert_eq!(
            heads.join(" "),
            "NAME DISPLAY TYPE PUBLISHER AGE SOURCE STATE REASON"
        );
        let row: Vec<_> = lines.lines().nth(1).unwrap().split_whitespace().collect();
        assert!(row.contains(&shown), "{lines}");
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
    let patch = Patch::Merge(&status);
    api(client, "BundleInstance")
        .patch_status("columns", &PatchParams::default(), &patch)
        .await
        .unwrap();

    assert_eq!(
        columns(&run("get bi columns").await),
        [
            "NAME|READY|INSTALLED BUNDLE|VERSION|INSTALLED|INSTALL STATE|HEALTHY",
            "columns|Unknown|columns-abc|1.2.3|True|InstallationSucceeded|False",
        ]
    );
    let wide = run("get bis columns --output wide").await;
    let lines: Vec<&str> = wide.lines().collect();
    let more = |line: &str| cells(line)[8..].join("|");
    assert!(cells(lines[0])[7..].starts_with(&["AGE"]), "{wide}");
    assert_eq!(more(lines[0]), "PROVISIONER|PACKAGE|PROGRESSING|MESSAGE");
    assert_eq!(
        more(lines[1]),
        "core-rukpak-io-plain|etcd|Applying|2 of 3 objects"
    );
}

fn cells(line: &str) -> Vec<&str> {
    let cells = line.split("  ").map(str::trim);
    cells.filter(|cell| !cell.is_empty()).collect()
}

/// The columns before the age.
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
    let patch = Patch::Merge(&status);
    api(client, "Bundle")
        .patch_status("columns", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let shown = run("get bundles columns --output wide").await;
    let heads: Vec<_> = shown.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        heads.join(" "),
        "NAME TYPE PHASE VERSION AGE RESOLVED SOURCE PROVISIONER PACKAGE MESSAGE"
    );
    for cell in [
        "image",
        "Unpacked",
        "1.2.3",
        r#""ref":"quay.io/example/bundle:v1""#,
    ] {
        assert!(shown.contains(cell), "{shown}");
    }
}
