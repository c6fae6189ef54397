//! Requests that the API server accepts or rejects, and manifests that a cluster admin applies: on a separate control
//! plane with the install file, because its objects would affect other tests. The rows are those of rukpak's tests.

mod admission;
mod install;
mod install_targets;
mod platform;
mod stored;
mod validation;

use std::process::Stdio;

use cluster::{Cluster, Controllers, Options};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use tests::assert_has;
use tokio::{io::AsyncWriteExt, process::Command, sync::OnceCell};

/// The user of the provisioner's ServiceAccount.
pub(crate) const PROVISIONER: &str = "system:serviceaccount:rukpak-system:provisioner";

/// Returns a cluster after `kubectl apply --server-side -f manifests/install/rukpak.yaml`.
async fn installed() -> &'static Cluster {
    static INSTALLED: OnceCell<Cluster> = OnceCell::const_new();
    let start = || async {
        let options = Options::new(Controllers::Off, None);
        let cluster = Cluster::start_with(&options).await.unwrap();
        let file = manifests("install/rukpak.yaml");
        let apply = ["apply", "--server-side", "--filename", &file];
        kubectl(&cluster, &apply, "").await.unwrap();
        for plural in ["bundles", "bundleinstances"] {
            let name = format!("{plural}.core.rukpak.io");
            cluster.wait_established(&name).await.unwrap();
        }
        cluster
    };
    INSTALLED.get_or_init(start).await
}

pub(crate) fn manifests(path: &str) -> String {
    format!("{}/../manifests/{path}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the output of kubectl, or its error output.
pub(crate) async fn kubectl(
    cluster: &Cluster,
    arguments: &[&str],
    input: &str,
) -> Result<String, String> {
    let mut child = Command::new(cluster.tools().unwrap().join("kubectl"))
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig_path())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    if output.status.success() {
        Ok(text(output.stdout))
    } else {
        Err(text(output.stderr))
    }
}

async fn run(line: &str) -> String {
    let arguments: Vec<&str> = line.split_whitespace().collect();
    let printed = kubectl(installed().await, &arguments, "").await;
    printed.unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn api(client: Client, kind: &str) -> Api<DynamicObject> {
    let group = match kind {
        "PlatformOperator" => "platform.openshift.io",
        _ => "core.rukpak.io",
    };
    let kind = GroupVersionKind::gvk(group, "v1alpha1", kind);
    Api::all_with(client, &ApiResource::from_gvk(&kind))
}

fn api_of(client: Client, object: &Value) -> Api<DynamicObject> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
    let (group, version) = version.split_once('/').unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, &kind));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource),
        None => Api::all_with(client, &resource),
    }
}

/// Returns the stored object, or the message of the API server.
fn answer<T>(result: kube::Result<T>) -> Result<T, String> {
    match result {
        Ok(stored) => Ok(stored),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => panic!("{error}"),
    }
}

/// Creates an object, or sends it as a dry run.
async fn create(client: &Client, object: &Value, dry_run: bool) -> Result<DynamicObject, String> {
    let api = api_of(client.clone(), object);
    let object: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let params = tests::with!(PostParams, dry_run);
    answer(api.create(&params, &object).await)
}

async fn store(client: &Client, object: &Value) -> DynamicObject {
    create(client, object, false).await.unwrap()
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

fn bundle(name: &str, source: &Value) -> Value {
    let spec = json!({"provisionerClassName": "core-rukpak-io-plain", "source": source});
    object("Bundle", name, &spec)
}

fn instance(name: &str, source: &Value) -> Value {
    let template = json!({"spec": bundle(name, source)["spec"]});
    let spec = json!({"provisionerClassName": "core-rukpak-io-plain", "template": template});
    object("BundleInstance", name, &spec)
}

fn image() -> Value {
    json!({"type": "image", "image": {"ref": "quay.io/example/bundle:v1"}})
}
