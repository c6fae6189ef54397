//! Control planes with the published CRDs of OpenShift and OLM, and objects for them.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use cluster::Cluster;
use kube::{
    Api,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use manifests::{object::group_version, yaml};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::environment::apply;

/// Returns the directory of a pinned Go module that contains CRDs.
pub(crate) fn module(pinned: &str, name: &str) -> PathBuf {
    let dir = tests::root().join("tests/cluster").join(pinned);
    let go = |args: &[&str]| {
        let mut go = Command::new("go");
        let output = go.args(args).arg(name).current_dir(&dir).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).unwrap()
    };
    go(&["mod", "download"]);
    go(&["list", "-m", "-f", "{{.Dir}}"]).trim_end().into()
}

pub(crate) async fn define(cluster: &Cluster, dir: &Path, files: &[&str]) {
    for file in files {
        let bytes = fs::read(dir.join(file)).unwrap();
        let crd = yaml::documents(&bytes).next().unwrap().unwrap();
        apply(cluster, [crd]).await;
    }
}

pub(crate) async fn define_olm(cluster: &Cluster, kinds: &str) {
    let dir = module("olm", "github.com/operator-framework/api");
    for kind in kinds.split(' ') {
        let file = format!("crds/operators.coreos.com_{kind}.yaml");
        define(cluster, &dir, &[&file]).await;
    }
}

/// Adds the objects by which a cluster is detected as an OpenShift.
pub(crate) async fn become_openshift(cluster: &Cluster, version: &str) {
    let dir = module("openshift", "github.com/openshift/api");
    let crds = "config/v1/zz_generated.crd-manifests/0000_00_cluster-version-operator_01_cluster";
    let versions = format!("{crds}versions-Default.crd.yaml");
    let operators = format!("{crds}operators.crd.yaml");
    let counts = "apiserver/v1/zz_generated.crd-manifests/kube-apiserver_apirequestcounts.crd.yaml";
    define(cluster, &dir, &[&versions, &operators, counts]).await;
    let spec = json!({"clusterID": "00000000-0000-0000-0000-000000000000"});
    let entry = json!({
        "state": "Completed", "version": version, "image": "", "verified": true,
        "startedTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T01:00:00Z",
    });
    let status = json!({
        "desired": {"version": version, "image": ""}, "history": [entry], "observedGeneration": 1, "versionHash": "",
        "availableUpdates": null,
    });
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": spec,
    });
    put(cluster, object, Some(status)).await;
}

/// Counts requests of a ServiceAccount as the API server of an OpenShift does.
pub(crate) async fn count(cluster: &Cluster, api: &str, account: &str, requests: u64) {
    let user = json!({
        "username": format!("system:serviceaccount:{account}"), "userAgent": "operator/v1", "requestCount": requests,
        "byVerb": [{"verb": "list", "requestCount": requests}],
    });
    let node = json!({"nodeName": "10.0.0.1", "requestCount": requests, "byUser": [user]});
    let hour = json!({"requestCount": requests, "byNode": [node]});
    let status = json!({
        "conditions": [], "removedInRelease": "1.37", "requestCount": requests, "currentHour": hour, "last24h": [hour],
    });
    let object = json!({
        "apiVersion": "apiserver.openshift.io/v1", "kind": "APIRequestCount", "metadata": {"name": api},
        "spec": {"numberOfUsersToReport": 10},
    });
    put(cluster, object, Some(status)).await;
}

pub(crate) async fn put(cluster: &Cluster, mut object: Value, status: Option<Value>) {
    apply(cluster, [&object]).await;
    let Some(status) = status else { return };
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let name = text(&object["metadata"]["name"]);
    let api_version = text(&object["apiVersion"]);
    let (group, version) = group_version(&api_version);
    let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::all_with(cluster.client().unwrap(), &resource);
    object.as_object_mut().unwrap().remove("spec");
    object["status"] = status;
    let (params, patch) = (PatchParams::apply("tests").force(), Patch::Apply(object));
    api.patch_status(&name, &params, &patch).await.unwrap();
}

pub(super) const DIGEST: &str =
    "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// Returns the chosen bundle of an instance as the provisioner records it.
fn chosen(name: &str) -> Value {
    json!({
        "package": name, "name": format!("{name}.v1.0.0"), "version": "1.0.0", "channel": "stable", "catalog": "c/mine",
        "image": format!("quay.io/{name}@{DIGEST}"), "mediaType": "plain+v0",
    })
}

/// Creates an instance of a PlatformOperator, with a status as the provisioner writes it.
pub(super) async fn instance(cluster: &Cluster, name: &str, maximum: Option<&str>, more: Value) {
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
    let fields = status.as_object_mut().unwrap();
    fields.extend(more.as_object().unwrap().clone());
    fields.retain(|_, value| !value.is_null());
    let object = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "spec": spec,
        "metadata": {
            "name": name, "labels": {"core.rukpak.io/platform-operator": name},
            "annotations": {"core.rukpak.io/chosen-bundle": chosen(name).to_string()},
        },
    });
    put(cluster, object, Some(status)).await;
}

/// Returns a package whose versions replace each other, each with its maximum.
pub(crate) fn package(name: &str, versions: &[(&str, &str)]) -> String {
    let package = json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"});
    let (mut blobs, mut entries) = (vec![package], Vec::<Value>::new());
    for (version, maximum) in versions {
        let mut entry = json!({"name": format!("{name}.v{version}")});
        if let Some(before) = entries.last() {
            entry["replaces"] = before["name"].clone();
        }
        entries.push(entry);
        let package = json!({"packageName": name, "version": version});
        let mut properties = vec![json!({"type": "olm.package", "value": package})];
        if !maximum.is_empty() {
            properties.push(json!({"type": "olm.maxOpenShiftVersion", "value": maximum}));
        }
        blobs.push(json!({
            "schema": "olm.bundle", "package": name, "name": format!("{name}.v{version}"),
            "image": format!("quay.io/{name}@{DIGEST}"), "properties": properties,
        }));
    }
    blobs.push(channel(name, "stable", &entries));
    blobs.iter().map(Value::to_string).collect()
}

pub(crate) fn channel(package: &str, name: &str, entries: &[Value]) -> Value {
    json!({"schema": "olm.channel", "package": package, "name": name, "entries": entries})
}

pub(crate) fn catalog(packages: &[String]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("catalog.json"), packages.concat()).unwrap();
    dir
}
