//! PlatformOperator, PlatformStatus and CatalogSource as the apiserver takes and refuses them, with our own definitions.

mod rights;
mod sources;
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

fn operator(name: &str, spec: &Value) -> Value {
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
async fn put(object: &Value, dry_run: bool) -> Result<Value, String> {
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

async fn refuse(object: &Value, message: &str) {
    match put(object, true).await {
        Ok(_) => panic!("accepted, where {message:?} was to be said: {object}"),
        Err(said) => assert!(said.contains(message), "{said}\nlacks: {message}"),
    }
}

async fn alter(object: &Value, patch: Value) -> Result<(), String> {
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

const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

#[tokio::test]
async fn good_platform_operators_are_taken() {
    for spec in [
        json!({"package": {"name": "etcd"}}),
        json!({"package": {"name": "a".repeat(56)}}),
        json!({"package": {"name": "3scale"}}),
        json!({
            "package": {"name": "etcd"}, "catalog": {"name": "community", "namespace": "catalogs"},
            "channel": "stable-v1.x", "version": ">=1.2.0 <2.0.0 || 3.x", "upgradeApproval": "Manual",
            "approvedVersion": "1.2.3-rc.1+b", "approveNewRights": "Manual", "approvedRights": DIGEST,
            "bundle": {
                "installNamespace": "etcd", "serviceAccount": {"name": "etcd", "namespace": "etcd"},
                "overrides": [{"constraint": "maxOpenShiftVersion", "digest": DIGEST, "reason": "tested"}],
            },
        }),
    ] {
        put(&operator("good", &spec), true).await.unwrap();
    }
    put(
        &operator(&"o".repeat(45), &json!({"package": {"name": "etcd"}})),
        true,
    )
    .await
    .unwrap();
    // What is not said has safe defaults.
    let stored = put(
        &operator("good", &json!({"package": {"name": "etcd"}})),
        true,
    )
    .await
    .unwrap();
    assert_eq!(stored["spec"]["upgradeApproval"], "WithCluster");
    let stored: PlatformOperator = serde_json::from_value(stored).unwrap();
    assert_eq!(stored.spec.upgrade_approval, UpgradeApproval::WithCluster);
    assert_eq!(stored.spec.approve_new_rights, RightsApproval::Automatic);
    assert_eq!(stored.check(), Ok(()));
}

#[tokio::test]
async fn bad_platform_operators_are_refused_by_field() {
    let with = |field: &str, value: Value| {
        let mut spec = json!({"package": {"name": "etcd"}});
        spec[field] = value;
        operator("bad", &spec)
    };
    let package = |name: &str| operator("bad", &json!({"package": {"name": name}}));
    for (object, message) in [
        (operator("bad", &json!({})), "spec.package: Required value"),
        (
            operator("bad", &json!({"package": {}})),
            "spec.package.name: Required value",
        ),
        // OpenShift's own pattern has no anchors, and takes this.
        (
            package("Foo_Bar!"),
            "spec.package.name in body should match",
        ),
        (package("etcd\n"), "spec.package.name in body should match"),
        (package("-etcd"), "spec.package.name in body should match"),
        (package(""), "spec.package.name in body should"),
        (
            package(&"a".repeat(57)),
            "spec.package.name: Too long: may not be more than 56 bytes",
        ),
        (
            operator(&"o".repeat(46), &json!({"package": {"name": "etcd"}})),
            "metadata.name: Too long: may not be more than 45 bytes",
        ),
        (with("channel", json!("")), "spec.channel in body should"),
        (
            with("channel", json!("a b")),
            "spec.channel in body should match",
        ),
        (
            with("version", json!("1.0\n2.0")),
            "spec.version in body should match",
        ),
        (
            with("version", json!("1".repeat(513))),
            "spec.version: Too long",
        ),
        (
            with("upgradeApproval", json!("Never")),
            r#"spec.upgradeApproval: Unsupported value: "Never": supported values: "WithCluster", "Automatic", "Manual""#,
        ),
        (
            with("approveNewRights", json!("No")),
            r#"spec.approveNewRights: Unsupported value: "No": supported values: "Automatic", "Manual""#,
        ),
        (
            with("approvedVersion", json!("1.2.3")),
            "spec.approvedVersion is for spec.upgradeApproval Manual: set that, or remove the version",
        ),
        (
            with("approvedRights", json!(DIGEST)),
            "spec.approvedRights is for spec.approveNewRights Manual: set that, or remove the digest",
        ),
        (
            operator(
                "bad",
                &json!({"package": {"name": "etcd"}, "upgradeApproval": "Manual", "approvedVersion": "1.2"}),
            ),
            "spec.approvedVersion in body should match",
        ),
        (
            operator(
                "bad",
                &json!({"package": {"name": "etcd"}, "approveNewRights": "Manual", "approvedRights": "sha256:1"}),
            ),
            "spec.approvedRights in body should match",
        ),
        (
            with("catalog", json!({"namespace": "a"})),
            "spec.catalog.name: Required value",
        ),
        (
            with("catalog", json!({"name": "A"})),
            "spec.catalog.name in body should match",
        ),
        (
            with("bundle", json!({"installNamespace": "A"})),
            "spec.bundle.installNamespace in body should match",
        ),
        (
            with("bundle", json!({"serviceAccount": {"name": "a"}})),
            "spec.bundle.serviceAccount.namespace: Required value",
        ),
    ] {
        refuse(&object, message).await;
    }
}

#[tokio::test]
async fn what_an_operator_is_made_of_stays() {
    let object = operator(
        "immutable",
        &json!({"package": {"name": "etcd"}, "bundle": {"installNamespace": "etcd"}}),
    );
    put(&object, false).await.unwrap();
    for (patch, message) in [
        (
            json!({"spec": {"package": {"name": "other"}}}),
            "spec.package.name is immutable: another package is another PlatformOperator",
        ),
        (
            json!({"spec": {"bundle": {"installNamespace": "other"}}}),
            "spec.bundle.installNamespace is immutable once set",
        ),
        (
            json!({"spec": {"bundle": {"installNamespace": null}}}),
            "spec.bundle.installNamespace is immutable once set",
        ),
    ] {
        let said = alter(&object, patch).await.unwrap_err();
        assert!(said.contains(message), "{said}");
    }
    let patch = json!({"spec": {"channel": "stable", "upgradeApproval": "Manual", "approvedVersion": "1.2.3"}});
    alter(&object, patch).await.unwrap();
}

#[tokio::test]
async fn overrides_say_what_for_which_content_and_why() {
    let with = |overrides: Value| {
        let mut object = instance("overrides", &image());
        object["spec"]["overrides"] = overrides;
        object
    };
    let one = json!({"constraint": "minKubeVersion", "digest": DIGEST, "reason": "tested"});
    put(&with(json!([one])), true).await.unwrap();
    let but = |field: &str, value: Value| {
        let mut one = one.clone();
        one[field] = value;
        with(json!([one]))
    };
    for (object, message) in [
        (
            but("constraint", json!("everything")),
            r#"spec.overrides[0].constraint: Unsupported value: "everything": supported values: "maxOpenShiftVersion", "minKubeVersion""#,
        ),
        (
            but("digest", json!("sha256:1")),
            "spec.overrides[0].digest in body should match",
        ),
        (
            but("digest", Value::Null),
            "spec.overrides[0].digest: Required value",
        ),
        (
            but("reason", json!("")),
            "spec.overrides[0].reason in body should be at least 1 chars",
        ),
        (
            but("reason", json!("r".repeat(513))),
            "spec.overrides[0].reason: Too long",
        ),
        (
            with(json!(vec![one.clone(); 17])),
            "spec.overrides: Too many: 17: must have at most 16 items",
        ),
    ] {
        refuse(&object, message).await;
    }
}
