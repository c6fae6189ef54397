//! PlatformOperator, PlatformStatus and CatalogSource on the API server, with the project's CRDs.

mod columns;
pub(super) mod sources;

use super::*;

/// Returns [`installed`] with the CRDs that are installed only where they are missing.
pub(super) async fn defined() -> &'static Cluster {
    static DEFINED: OnceCell<()> = OnceCell::const_new();
    let cluster = installed().await;
    let define = async || {
        let before = run("get crds --output name").await;
        for name in [
            "platformoperators.platform.openshift.io",
            "catalogsources.operators.coreos.com",
        ] {
            // They belong to other projects: no install file contains them.
            assert!(!before.contains(name), "{before}");
            let file = manifests(&format!("optional/{name}.yaml"));
            run(&format!("apply --server-side --filename {file}")).await;
            cluster.wait_established(name).await.unwrap();
        }
    };
    DEFINED.get_or_init(define).await;
    cluster
}

pub(super) fn operator(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "platform.openshift.io/v1alpha1", "kind": "PlatformOperator",
        "metadata": {"name": name}, "spec": spec,
    })
}

pub(super) async fn put(object: &Value, dry_run: bool) -> Result<Value, String> {
    let stored = create(&defined().await.client().unwrap(), object, dry_run).await?;
    Ok(serde_json::to_value(stored).unwrap())
}

fn name_of(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap()
}

pub(super) async fn alter(object: &Value, patch: Value) -> Result<(), String> {
    let api = api_of(defined().await.client().unwrap(), object);
    let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
    answer(api.patch(name_of(object), &params, &patch).await).map(drop)
}

async fn write_status(object: &Value, status: &Value) -> Result<Value, String> {
    let api = api_of(defined().await.client().unwrap(), object);
    let body = json!({
        "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {"name": name_of(object)},
        "status": status,
    });
    let (params, patch) = (PatchParams::apply("rukpak").force(), Patch::Apply(body));
    let stored = answer(api.patch_status(name_of(object), &params, &patch).await)?;
    Ok(serde_json::to_value(stored).unwrap())
}

pub(super) const DIGEST: &str =
    "sha256:1111111111111111111111111111111111111111111111111111111111111111";
