//! `rukpak upgrade-check`, on control planes with the definitions of OpenShift and OLM, as these publish them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use cluster::{Cluster, Controllers, DryRun, Options};
use kube::{
    Api,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject},
};
use manifests::{api::definitions, yaml};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{Run, binary, plain, text, unique, world};

/// The folder of a Go module that has definitions, as it is pinned for these tests.
fn module(pinned: &str, name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../tests/cluster")
        .join(pinned);
    let go = |args: &[&str]| {
        let output = Command::new("go")
            .args(args)
            .arg(name)
            .current_dir(&folder)
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        String::from_utf8(output.stdout).unwrap()
    };
    go(&["mod", "download"]);
    go(&["list", "-m", "-f", "{{.Dir}}"]).trim_end().into()
}

/// Applies definitions, by their names and files below the module's folder.
pub(crate) async fn define(cluster: &Cluster, folder: &Path, definitions: &[(&str, &str)]) {
    for (name, file) in definitions {
        let bytes = fs::read(folder.join(file)).unwrap();
        let definition = yaml::documents(&bytes).next().unwrap().unwrap();
        assert_eq!(definition["metadata"]["name"], *name);
        cluster.apply(&definition, DryRun::No).await.unwrap();
        cluster.wait_established(name).await.unwrap();
    }
}

/// Makes an OpenShift of a cluster, as far as anybody asks.
pub(crate) async fn become_openshift(cluster: &Cluster, version: &str) {
    let folder = module("openshift", "github.com/openshift/api");
    define(
        cluster,
        &folder,
        &[
            (
                "clusterversions.config.openshift.io",
                "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusterversions-Default.crd.yaml",
            ),
            (
                "clusteroperators.config.openshift.io",
                "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_clusteroperators.crd.yaml",
            ),
            (
                "apirequestcounts.apiserver.openshift.io",
                "apiserver/v1/zz_generated.crd-manifests/kube-apiserver_apirequestcounts.crd.yaml",
            ),
        ],
    )
    .await;
    let spec = json!({"clusterID": "00000000-0000-0000-0000-000000000000"});
    let entry = json!({
        "state": "Completed", "version": version, "image": "", "verified": true,
        "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T01:00:00Z",
    });
    let status = json!({
        "desired": {"version": version, "image": ""}, "history": [entry], "observedGeneration": 1, "versionHash": "",
        "availableUpdates": null,
    });
    put(
        cluster,
        "config.openshift.io/v1",
        "ClusterVersion",
        "",
        "version",
        json!({"spec": spec}),
        Some(status),
    )
    .await;
}

/// Counts requests of a ServiceAccount, as the apiserver of an OpenShift does.
pub(crate) async fn count(
    cluster: &Cluster,
    api: &str,
    removed: &str,
    account: &str,
    requests: u64,
) {
    let user = json!({
        "username": format!("system:serviceaccount:{account}"), "userAgent": "operator/v1", "requestCount": requests,
        "byVerb": [{"verb": "list", "requestCount": requests}],
    });
    let node = json!({"nodeName": "10.0.0.1", "requestCount": requests, "byUser": [user]});
    let hour = json!({"requestCount": requests, "byNode": [node]});
    let status = json!({
        "conditions": [], "removedInRelease": removed, "requestCount": requests, "currentHour": hour, "last24h": [hour],
    });
    let body = json!({"spec": {"numberOfUsersToReport": 10}});
    put(
        cluster,
        "apiserver.openshift.io/v1",
        "APIRequestCount",
        "",
        api,
        body,
        Some(status),
    )
    .await;
}

/// Writes an object, and its status if there is one.
async fn put(
    cluster: &Cluster,
    api_version: &str,
    kind: &str,
    namespace: &str,
    name: &str,
    body: Value,
    status: Option<Value>,
) {
    let mut object = body;
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object["metadata"]["name"] = name.into();
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    cluster.apply(&object, DryRun::No).await.unwrap();
    let Some(status) = status else { return };
    let (group, version) = api_version.split_once('/').unwrap();
    let plural = format!("{}s", kind.to_ascii_lowercase());
    let resource = ApiResource {
        group: group.into(),
        version: version.into(),
        api_version: api_version.into(),
        kind: kind.into(),
        plural,
    };
    let client = cluster.client().unwrap();
    let api: Api<DynamicObject> = if namespace.is_empty() {
        Api::all_with(client, &resource)
    } else {
        Api::namespaced_with(client, namespace, &resource)
    };
    object.as_object_mut().unwrap().remove("spec");
    object["status"] = status;
    api.patch_status(
        name,
        &PatchParams::apply("tests").force(),
        &Patch::Apply(object),
    )
    .await
    .unwrap();
}

fn run(cluster: &Cluster, args: &[&str]) -> Run {
    let mut command = Command::new(binary());
    command
        .arg("upgrade-check")
        .args(args)
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig_path());
    command.stdin(Stdio::null()).output().unwrap().into()
}

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// An instance with a status as the provisioner writes it.
async fn instance(cluster: &Cluster, name: &str, maximum: Option<&str>, more: Value) {
    let spec = json!({
        "provisionerClassName": "core-rukpak-io-registry",
        "template": {"spec": {"source": {"type": "image", "image": {"ref": format!("quay.io/{name}:v1")}}}},
    });
    let mut status = json!({
        "installedBundleName": format!("{name}-1"), "installNamespace": name, "package": name, "version": "1.0.0",
        "clusterServiceVersion": format!("{name}.v1.0.0"), "appliedDigest": DIGEST,
        "resolvedSource": {"type": "image", "image": {"ref": format!("quay.io/{name}@{DIGEST}")}},
    });
    if let Some(maximum) = maximum {
        status["maxOpenShiftVersion"] = maximum.into();
    }
    for (key, value) in more.as_object().unwrap() {
        let fields = status.as_object_mut().unwrap();
        fields.remove(key);
        if !value.is_null() {
            fields.insert(key.clone(), value.clone());
        }
    }
    put(
        cluster,
        "core.rukpak.io/v1alpha1",
        "BundleInstance",
        "",
        name,
        json!({"spec": spec}),
        Some(status),
    )
    .await;
}

/// A package whose versions replace one another, each with its maximum.
fn package(name: &str, versions: &[(&str, &str)]) -> String {
    let mut text =
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}).to_string();
    let mut entries = Vec::new();
    for (at, (version, maximum)) in versions.iter().enumerate() {
        let mut entry = json!({"name": format!("{name}.v{version}")});
        if let Some((before, _)) = at.checked_sub(1).map(|at| versions[at]) {
            entry["replaces"] = format!("{name}.v{before}").into();
        }
        entries.push(entry);
        let mut properties = vec![
            json!({"type": "olm.package", "value": {"packageName": name, "version": version}}),
        ];
        if !maximum.is_empty() {
            properties.push(json!({"type": "olm.maxOpenShiftVersion", "value": maximum}));
        }
        let bundle = json!({
            "schema": "olm.bundle", "package": name, "name": format!("{name}.v{version}"),
            "image": format!("quay.io/{name}@{DIGEST}"), "properties": properties,
        });
        text.push_str(&bundle.to_string());
    }
    let channel =
        json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries});
    text + &channel.to_string()
}

fn catalog(packages: &[String]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("catalog.json"), packages.concat()).unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread")]
async fn an_openshift_is_told_what_blocks_it_and_what_comes_first() {
    let options = Options {
        controllers: Controllers::Off,
        ..Options::default()
    };
    let cluster = Cluster::start_with(&options).await.unwrap();
    // Nothing is there that could be looked at.
    run(&cluster, &[])
        .exits(1)
        .says("neither BundleInstances nor ClusterServiceVersions");
    for definition in definitions::all() {
        let name = definition.metadata.name.clone().unwrap();
        let definition = serde_json::to_value(definition).unwrap();
        cluster.apply(&definition, DryRun::No).await.unwrap();
        cluster.wait_established(&name).await.unwrap();
    }
    become_openshift(&cluster, "4.22.3").await;
    let empty = run(&cluster, &[]).exits(0);
    assert_eq!(
        empty.out,
        "OpenShift 4.22 to 4.23 (Kubernetes 1.36 to 1.36): 0 operators, nothing blocks\n"
    );

    instance(&cluster, "fine", Some("5.0"), json!({})).await;
    instance(&cluster, "mute", None, json!({})).await;
    instance(&cluster, "old", Some("4.22"), json!({})).await;
    instance(&cluster, "stuck", Some("4.22"), json!({})).await;
    let overrides =
        json!([{"constraint": "maxOpenShiftVersion", "digest": DIGEST, "reason": "tested by us"}]);
    instance(
        &cluster,
        "tested",
        Some("4.22"),
        json!({"overrides": overrides}),
    )
    .await;
    instance(
        &cluster,
        "waiting",
        Some("4.1"),
        json!({"installedBundleName": null}),
    )
    .await;
    let run_json = |args: &[&str], code| {
        let mut all = vec!["-o", "json"];
        all.extend(args);
        let run = run(&cluster, &all).exits(code);
        let told = run.json();
        let operators = told["operators"].as_array().unwrap().iter();
        let effects: Vec<String> = operators
            .flat_map(|it| {
                let findings = it["findings"].as_array().unwrap().iter();
                findings.map(move |finding| {
                    format!(
                        "{} {}",
                        it["name"].as_str().unwrap(),
                        finding["effect"].as_str().unwrap()
                    )
                })
            })
            .collect();
        (told, effects)
    };
    let (told, effects) = run_json(&[], 3);
    assert_eq!(
        effects,
        [
            "mute Unknown",
            "old Blocks",
            "stuck Blocks",
            "tested Overridden"
        ]
    );
    assert_eq!(
        (&told["blocked"], &told["to"]["openshift"]),
        (&json!(true), &json!("4.23"))
    );
    // Several releases ahead, what runs on the next one is in the way, too.
    let (_, effects) = run_json(&["--to", "5.1"], 3);
    assert!(effects.contains(&"fine Blocks".to_owned()), "{effects:?}");

    // A catalog may have what runs then, and may know better about what is installed.
    let folder = catalog(&[
        package(
            "old",
            &[("1.0.0", "4.22"), ("1.1.0", "4.23"), ("1.2.0", "4.22")],
        ),
        package("stuck", &[("1.0.0", "5.1")]),
    ]);
    let run_text = run(&cluster, &["--catalog", text(&folder)]).exits(3);
    let line = run_text
        .out
        .lines()
        .find(|line| line.starts_with("old/old"))
        .unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!((words[2], words[3]), ("blocks", "1.1.0"), "{run_text:?}");
    assert!(!run_text.out.contains("stuck/stuck"), "{run_text:?}");
    assert!(
        run_text
            .out
            .ends_with(": 5 operators, 1 blocks, of 1 it is not known\n"),
        "{run_text:?}"
    );
    let (told, _) = run_json(&["--catalog", text(&folder)], 3);
    assert_eq!(told["operators"][2]["unblockedBy"]["version"], "1.1.0");
    let folder = catalog(&[
        package("old", &[("1.0.0", "5.0")]),
        package("stuck", &[("1.0.0", "5.1")]),
    ]);
    let run_text = run(&cluster, &["--catalog", text(&folder)]).exits(0);
    assert!(run_text.out.contains("nothing blocks"), "{run_text:?}");

    for (args, code, words) in [
        (&["--to", "4.22"][..], 1, "runs OpenShift 4.22 already"),
        (&["--to", "4.9"], 1, "newer than 4.9"),
        (&["--to", "1.36"], 1, "takes a release of OpenShift"),
        (&["--to", "4.99"], 1, "there is no OpenShift 4.99"),
        (&["--to", "4.23.1"], 2, "without a patch"),
        (&["--to", "latest"], 2, "without a patch"),
        (&["--catalog", "/nowhere"], 1, "cannot be read"),
    ] {
        let run = run(&cluster, args).exits(code).says(words);
        assert_eq!(run.out, "");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_olm_has_installed_counts_and_so_do_requests_that_were_seen() {
    let options = Options {
        controllers: Controllers::Off,
        ..Options::default()
    };
    let cluster = Cluster::start_with(&options).await.unwrap();
    let folder = module("opm", "github.com/operator-framework/api");
    let definitions = [
        (
            "clusterserviceversions.operators.coreos.com",
            "crds/operators.coreos.com_clusterserviceversions.yaml",
        ),
        (
            "operatorconditions.operators.coreos.com",
            "crds/operators.coreos.com_operatorconditions.yaml",
        ),
        (
            "catalogsources.operators.coreos.com",
            "crds/operators.coreos.com_catalogsources.yaml",
        ),
    ];
    define(&cluster, &folder, &definitions).await;
    become_openshift(&cluster, "4.23.5").await;
    for namespace in ["operators", "other"] {
        let object =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        cluster.apply(&object, DryRun::No).await.unwrap();
    }
    let csv = |maximum: &str, labels: Value| {
        let properties = json!({"properties": [
            {"type": "olm.package", "value": {"packageName": "tide", "version": "1.0.0"}},
            {"type": "olm.maxOpenShiftVersion", "value": maximum},
        ]});
        let rule = json!({"apiGroups": ["networking.k8s.io"], "resources": ["servicecidrs"], "verbs": ["list"]});
        json!({
            "metadata": {"labels": labels, "annotations": {
                "olm.operatorNamespace": "operators", "operatorframework.io/properties": properties.to_string(),
            }},
            "spec": {"displayName": "Tide", "version": "1.0.0", "install": {"strategy": "deployment", "spec": {
                "deployments": [], "clusterPermissions": [{"serviceAccountName": "tide", "rules": [rule]}],
            }}},
        })
    };
    let (api, kind) = ("operators.coreos.com/v1alpha1", "ClusterServiceVersion");
    put(
        &cluster,
        api,
        kind,
        "operators",
        "tide.v1.0.0",
        csv("5.0", json!({})),
        None,
    )
    .await;
    // Copies do not count.
    let copy = csv("4.1", json!({"olm.copiedFrom": "operators"}));
    put(&cluster, api, kind, "other", "tide.v1.0.0", copy, None).await;
    let other = csv("4.1", json!({}));
    put(&cluster, api, kind, "other", "tide.v0.9.0", other, None).await;
    let busy = json!([{"type": "Upgradeable", "status": "False", "reason": "Migrating", "message": "3\nof 7\u{1b}[31m",
                       "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let condition = json!({"spec": {"conditions": busy}});
    put(
        &cluster,
        "operators.coreos.com/v2",
        "OperatorCondition",
        "operators",
        "tide.v1.0.0",
        condition,
        None,
    )
    .await;
    count(
        &cluster,
        "servicecidrs.v1beta1.networking.k8s.io",
        "1.37",
        "operators:tide",
        12,
    )
    .await;
    count(
        &cluster,
        "ipaddresses.v1beta1.networking.k8s.io",
        "1.37",
        "kube-system:somebody",
        12,
    )
    .await;
    let source = json!({"spec": {"sourceType": "grpc", "image": "quay.io/tide/catalog:v1"}});
    put(
        &cluster,
        "operators.coreos.com/v1alpha1",
        "CatalogSource",
        "operators",
        "mine",
        source,
        None,
    )
    .await;

    let run_text = run(&cluster, &[])
        .exits(3)
        .says("such as quay.io/tide/catalog:v1 (CatalogSource operators/mine)");
    let name = "operators/tide.v1.0.0";
    let lines: Vec<Vec<&str>> = run_text
        .out
        .lines()
        .map(|line| {
            line.split("  ")
                .map(str::trim)
                .filter(|cell| !cell.is_empty())
                .collect()
        })
        .collect();
    assert_eq!(
        lines,
        [
            vec!["OPERATOR", "VERSION", "EFFECT", "UNBLOCKED BY", "WHY"],
            vec![
                name,
                "1.0.0",
                "blocks",
                "-",
                "it runs on OpenShift 5.0 at most"
            ],
            vec![
                name,
                "1.0.0",
                "blocks",
                "-",
                "it asks not to be upgraded: Migrating: 3 of 7 [31m"
            ],
            vec![
                name,
                "1.0.0",
                "may break",
                "-",
                "ServiceAccount operators/tide called servicecidrs.v1beta1.networking.k8s.io 12 times within a day, which \
                 Kubernetes 1.37 does not serve"
            ],
            vec![
                name,
                "1.0.0",
                "may break",
                "-",
                "ClusterServiceVersion operators/tide.v1.0.0 names the resource of ServiceCIDR, of which Kubernetes 1.37 does \
                 not serve networking.k8s.io/v1beta1 any more: make sure that the operator uses networking.k8s.io/v1"
            ],
            vec![
                "OpenShift 4.23 to 5.1 (Kubernetes 1.36 to 1.37): 1 operator, 1 blocks, 1 may break"
            ],
        ]
    );
    // What comes after it in a catalog, though OLM tells no digest.
    let folder = catalog(&[package("tide", &[("1.0.0", ""), ("1.1.0", "5.1")])]);
    let run_text = run(&cluster, &["--catalog", text(&folder), "-o", "json"]).exits(3);
    let told = run_text.json();
    assert_eq!(told["operators"][0]["unblockedBy"]["bundle"], "tide.v1.1.0");
    assert_eq!(told["operators"][0]["calls"][0]["count"], 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_kubernetes_only_what_goes_and_who_refuses_counts() {
    let world = world().await;
    let name = unique("goes");
    let bundle = plain(&[&name], "one");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": ["networking.k8s.io"], "resources": ["ipaddresses"], "verbs": ["get"]}],
    });
    fs::write(bundle.path().join("manifests/role.yaml"), role.to_string()).unwrap();
    world.run(&["install", &name, text(&bundle)]).exits(0);
    let run = world.run(&["upgrade-check", "-o", "json"]).exits(0);
    let told = run.json();
    assert_eq!(told["from"], json!({"kubernetes": "1.36"}));
    assert_eq!(
        (&told["to"]["kubernetes"], &told["blocked"]),
        (&json!("1.37"), &json!(false))
    );
    let operators = told["operators"].as_array().unwrap();
    let ours = operators
        .iter()
        .find(|it| it["name"] == name.as_str())
        .unwrap();
    assert_eq!(ours["findings"].as_array().unwrap().len(), 1);
    assert_eq!(ours["findings"][0]["effect"], "Warns");
    assert_eq!(
        ours["removals"]["found"][0]["apiVersion"],
        "networking.k8s.io/v1beta1"
    );
    // All removals on the way count, and what is not known is said.
    let run = world
        .run(&["upgrade-check", "--to", "1.41", "-o", "json"])
        .exits(0);
    assert!(
        run.err
            .contains("only that is known which Kubernetes 1.36 has announced"),
        "{run:?}"
    );
    for (to, words) in [
        ("1.36", "runs Kubernetes 1.36 already"),
        ("1.30", "newer than 1.30"),
        ("4.20", "no OpenShift"),
    ] {
        world
            .run(&["upgrade-check", "--to", to])
            .exits(1)
            .says(words);
    }
    // Whoever may not look is told what is missing.
    let (_folder, nobody) = world.somebody(&unique("nobody"), &[]).await;
    world
        .run_as(&nobody, &["upgrade-check"])
        .exits(1)
        .says("ask an administrator");
    world.remove(&name);
}
