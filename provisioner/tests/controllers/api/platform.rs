//! PlatformOperator, PlatformStatus and CatalogSource as the apiserver takes and refuses them, with our own definitions.

mod rights;
pub(super) mod sources;
mod told;

use manifests::api::platform::{PlatformOperator, RightsApproval, UpgradeApproval};
use serde_json::json;

use super::*;

/// [`installed`], and the definitions that are installed only where they are absent.
async fn defined() -> &'static Cluster {
    static DEFINED: OnceCell<()> = OnceCell::const_new();
    let cluster = installed().await;
    DEFINED
        .get_or_init(|| async {
            let before = kubectl(cluster, &["get", "crds", "--output", "name"], "").await;
            let before = before.unwrap();
            for name in [
                "platformoperators.platform.openshift.io",
                "catalogsources.operators.coreos.com",
            ] {
                // They are others': no install file brings them.
                assert!(!before.contains(name), "{before}");
                let file = manifests(&format!("optional/{name}.yaml"));
                let apply = ["apply", "--server-side", "--filename", &file];
                kubectl(cluster, &apply, "").await.unwrap();
                cluster.wait_established(name).await.unwrap();
            }
        })
        .await;
    cluster
}

pub(super) fn operator(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn resource(object: &Value) -> ApiResource {
    let (group, version) = object["apiVersion"]
        .as_str()
        .unwrap()
        .split_once('/')
        .unwrap();
    ApiResource::from_gvk(&GroupVersionKind::gvk(
        group,
        version,
        object["kind"].as_str().unwrap(),
    ))
}

async fn api_of(object: &Value) -> Api<DynamicObject> {
    let client = defined().await.client().unwrap();
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client, namespace, &resource(object)),
        None => Api::all_with(client, &resource(object)),
    }
}

/// Creates an object, or offers it only.
pub(super) async fn put(object: &Value, dry_run: bool) -> Result<Value, String> {
    let params = PostParams {
        dry_run,
        ..PostParams::default()
    };
    let object_: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    match api_of(object).await.create(&params, &object_).await {
        Ok(stored) => Ok(serde_json::to_value(stored).unwrap()),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => panic!("{error}"),
    }
}

pub(super) async fn alter(object: &Value, patch: Value) -> Result<(), String> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    match api_of(object).await.patch(name, &params, &patch).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => panic!("{error}"),
    }
}

async fn write_status(object: &Value, status: &Value) -> Result<Value, String> {
    let name = object["metadata"]["name"].as_str().unwrap();
    let body = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": name}, "status": status,
    });
    let params = PatchParams::apply("rukpak").force();
    let api = api_of(object).await;
    match api.patch_status(name, &params, &Patch::Apply(body)).await {
        Ok(stored) => Ok(serde_json::to_value(stored).unwrap()),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => panic!("{error}"),
    }
}

pub(super) const DIGEST: &str =
    "sha256:1111111111111111111111111111111111111111111111111111111111111111";

#[tokio::test]
async fn platform_operator_has_safe_defaults() {
    let spec = json!({"package": {"name": "etcd"}});
    let stored = put(&operator("good", &spec), true).await.unwrap();
    assert_eq!(stored["spec"]["upgradeApproval"], "WithCluster");
    let stored: PlatformOperator = serde_json::from_value(stored).unwrap();
    assert_eq!(stored.spec.upgrade_approval, UpgradeApproval::WithCluster);
    assert_eq!(stored.spec.approve_new_rights, RightsApproval::Automatic);
    assert_eq!(stored.check(), Ok(()));
}
