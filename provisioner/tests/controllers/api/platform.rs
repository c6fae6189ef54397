//! PlatformOperator, PlatformStatus and CatalogSource as the apiserver takes and refuses them, with our own definitions.

use manifests::api::{
    platform::{PlatformOperator, PlatformOperatorStatus, RightsApproval, UpgradeApproval},
    platform_status::PlatformStatus,
};
use provisioner::platform::{
    aggregate::{self, Input},
    gate,
};
use serde_json::json;

use super::*;
use crate::support::eventually;

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

/// The BundleInstance is made by the provisioner, so who names the account has to be asked here.
#[tokio::test]
async fn who_names_an_account_in_a_platform_operator_has_to_be_allowed_to_act_as_it() {
    let cluster = defined().await;
    let rbac = "rbac.authorization.k8s.io";
    let role = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": "platform-admin"},
        "rules": [{"apiGroups": ["platform.openshift.io"], "resources": ["*"], "verbs": ["*"]}],
    });
    cluster.apply(&role, cluster::DryRun::No).await.unwrap();
    let subjects =
        ["carol", "dave"].map(|name| json!({"apiGroup": rbac, "kind": "User", "name": name}));
    let binding = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "platform-admin"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "platform-admin"},
        "subjects": subjects,
    });
    cluster.apply(&binding, cluster::DryRun::No).await.unwrap();
    let impersonator = json!({
        "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding",
        "metadata": {"name": "dave-is-installer", "namespace": "default"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "bundle-instance-impersonator"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "dave"}],
    });
    cluster
        .apply(&impersonator, cluster::DryRun::No)
        .await
        .unwrap();

    let account = json!({"name": "installer", "namespace": "default"});
    let named = operator(
        "named",
        &json!({"package": {"name": "etcd"}, "bundle": {"serviceAccount": account}}),
    );
    let put_as = async |user: &str, object: &Value| {
        let arguments = ["create", "--as", user, "--filename", "-"];
        kubectl(cluster, &arguments, &object.to_string()).await
    };
    let refusal = "spec.bundle.serviceAccount: carol may not impersonate the ServiceAccount default/installer";
    eventually("carol is refused an account", async || {
        match put_as("carol", &named).await {
            Err(said) if said.contains(refusal) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    eventually("dave may name it", async || put_as("dave", &named).await).await;
    // What is installed with these rights is his to say.
    let patch_as = async |user: &str, patch: &str| {
        let arguments = [
            "patch",
            "platformoperator",
            "named",
            "--type",
            "merge",
            "--patch",
            patch,
            "--as",
            user,
        ];
        kubectl(cluster, &arguments, "").await
    };
    for patch in [
        r#"{"spec": {"channel": "other"}}"#,
        r#"{"spec": {"bundle": null}}"#,
    ] {
        let said = patch_as("carol", patch).await.unwrap_err();
        assert!(said.contains(refusal), "{said}");
        patch_as("dave", patch).await.unwrap();
    }
    // Who names none is not asked.
    for bundle in [json!({}), json!({"installNamespace": "etcd"})] {
        let object = operator(
            "unnamed",
            &json!({"package": {"name": "etcd"}, "bundle": bundle}),
        );
        put_as("carol", &object).await.unwrap();
        api_of(&object)
            .await
            .delete("unnamed", &kube::api::DeleteParams::default())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn get_shows_what_became_of_a_platform_operator() {
    let cluster = defined().await;
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

    let get = ["get", "platformoperators", "columns", "--output", "wide"];
    let shown = kubectl(cluster, &get, "").await.unwrap();
    let heads: Vec<_> = shown.lines().next().unwrap().split_whitespace().collect();
    assert_eq!(
        heads.join(" "),
        "NAME PACKAGE VERSION INSTALLED INSTALL STATE UPGRADEABLE AGE CHANNEL CATALOG NEXT WAITS FOR MESSAGE"
    );
    let row: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(
        row[..6],
        [
            "columns",
            "etcd",
            "1.2.3",
            "True",
            "InstallSuccessful",
            "False"
        ]
    );
    assert!(
        shown.contains("catalogs/community") && shown.contains("1.3.0"),
        "{shown}"
    );
    // `po` are pods, and stay that.
    let resources = [
        "api-resources",
        "--api-group",
        "platform.openshift.io",
        "--no-headers",
    ];
    let resources = kubectl(cluster, &resources, "").await.unwrap();
    let words: Vec<_> = resources.split_whitespace().collect();
    assert_eq!(
        words,
        [
            "platformoperators",
            "platform.openshift.io/v1alpha1",
            "false",
            "PlatformOperator"
        ]
    );
}

#[tokio::test]
async fn there_is_one_platform_status_and_what_is_concluded_is_what_it_keeps() {
    let cluster = defined().await;
    let named = |name: &str| json!({"apiVersion": "core.rukpak.io/v1alpha1", "kind": "PlatformStatus", "metadata": {"name": name}, "spec": {}});
    refuse(
        &named("other"),
        r#"metadata.name: Unsupported value: "other": supported values: "cluster""#,
    )
    .await;
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

    let shown = kubectl(
        cluster,
        &["get", "platformstatuses", "--output", "wide"],
        "",
    )
    .await
    .unwrap();
    let row: Vec<_> = shown.lines().nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["cluster", "False", "True", "False", "False"]);
    assert!(
        shown.contains("ask not to be upgraded now: etcd/etcd"),
        "{shown}"
    );
}

#[tokio::test]
async fn catalog_sources_of_olm_are_kept_as_they_are_written() {
    let cluster = defined().await;
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
            "community.default.svc:50051"
        ))
    );
    let mut typeless = object.clone();
    typeless["spec"]
        .as_object_mut()
        .unwrap()
        .remove("sourceType");
    typeless["metadata"]["name"] = "typeless".into();
    refuse(&typeless, "spec.sourceType: Required value").await;
    let shown = kubectl(cluster, &["get", "catsrc"], "").await.unwrap();
    let lines: Vec<Vec<_>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(lines[0], ["NAME", "DISPLAY", "TYPE", "PUBLISHER", "AGE"]);
    assert_eq!(lines[1][..4], ["community", "Community", "grpc", "Us"]);
}
