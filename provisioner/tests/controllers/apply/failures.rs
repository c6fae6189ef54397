//! Requests that the API server rejects.

use apply::{
    inventory::Inventory,
    plan::Wave,
    ssa::{ApplyFailure, FailureKind},
};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{Scene, deployment, widget};
use crate::support::{config_map, crd, unique, world};

/// Returns a client of a service account without permissions.
async fn unprivileged(scene: &Scene) -> Client {
    let mut config = world().await.cluster.config().clone();
    let user = format!("system:serviceaccount:{}:nobody", scene.namespace.name());
    config.auth_info.impersonate = Some(user);
    Client::try_from(config).unwrap()
}

fn only(failures: &[ApplyFailure]) -> &ApplyFailure {
    assert_eq!(failures.len(), 1, "{failures:#?}");
    &failures[0]
}

/// All failures of a wave are reported, and the next wave does not begin.
async fn failures_stop_the_next_wave(scene: &Scene) {
    let mut broken = scene.text("broken", "text");
    broken["data"]["no key/"] = "x".into();
    let objects = [
        broken,
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "broken"}, "spec": {"ports": []}}),
        scene.text("fine", "text"),
        deployment("unbegun", None),
    ];
    let report = scene.run(&objects).await;
    assert_eq!(report.stopped_in, Some(Wave::Configuration));
    let applied: Vec<_> = report
        .applied
        .keys()
        .map(|identity| &identity.name)
        .collect();
    assert_eq!(applied, ["fine"]);
    let failed: Vec<_> = report
        .failed
        .iter()
        .map(|failure| (failure.identity.kind.as_str(), failure.cause))
        .collect();
    assert_eq!(
        failed,
        [
            ("ConfigMap", FailureKind::Invalid),
            ("Service", FailureKind::Invalid)
        ]
    );
    assert!(
        report.failed[1]
            .message
            .contains("spec.ports: Required value"),
        "{}",
        report.failed[1].message
    );
}

/// Each rejection by the API server has a cause.
async fn refusals_have_a_cause(scene: &Scene) {
    let client = unprivileged(scene).await;
    let objects = [scene.text("a", "text")];
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let report = scene.apply(&client).run(&plan.steps).await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, FailureKind::Forbidden);
    assert!(
        failure.message.contains("cannot patch resource"),
        "{failure:?}"
    );

    let elsewhere = unique("nowhere");
    let report = scene.run(&[config_map(&elsewhere, "a", "text")]).await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, FailureKind::Namespace);
    assert!(
        failure.message.contains("spec.installNamespace"),
        "{failure:?}"
    );

    let report = scene
        .run(&[scene.text("large", &"x".repeat(1 << 20 | 1))])
        .await;
    assert_eq!(only(&report.failed).cause, FailureKind::Invalid);
    let report = scene
        .run(&[scene.text("larger", &"x".repeat(4 << 20))])
        .await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, FailureKind::Invalid);
    assert!(
        failure
            .message
            .contains("larger than the cluster can store"),
        "{failure:?}"
    );

    // The API server accepts the request, and etcd rejects the object.
    let rule = |n: usize| {
        json!({
            "apiGroups": [format!("group-{n}.{}.example.com", "x".repeat(50))],
            "resources": [format!("resource-{}", "y".repeat(60))], "verbs": ["get"],
        })
    };
    let rules: Vec<_> = (0..12_000).map(rule).collect();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": unique("large")},
        "rules": rules,
    });
    let report = scene.run(&[role]).await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, FailureKind::Invalid);
    assert!(
        failure
            .message
            .contains("larger than the cluster can store"),
        "{failure:?}"
    );

    let mut unknown = deployment("unknown", None);
    unknown["spec"]["nonsense"] = 1.into();
    let report = scene.run(&[unknown]).await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, FailureKind::Invalid);
    assert!(failure.message.contains("nonsense"), "{failure:?}");
}

/// No message quotes the data of a Secret.
async fn secrets_are_not_quoted(scene: &Scene) {
    for (field, value) in [
        ("data", json!({"password": 4_711_471_147_u64})),
        ("data", json!({"password": "not base64: 4711471147"})),
        ("stringData", json!({"password": {"is": "4711471147"}})),
        ("type", json!(4_711_471_147_u64)),
    ] {
        let mut secret =
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"}});
        secret[field] = value;
        let report = scene.run(&[secret]).await;
        let failure = only(&report.failed);
        assert_eq!(failure.cause, FailureKind::Invalid, "{failure:?}");
        assert!(!failure.message.contains("4711471147"), "{failure:?}");
    }
    let secrets: Api<Secret> = scene.namespaced();
    assert_eq!(secrets.get_opt("secret").await.unwrap(), None);
}

/// An object that is being deleted is named with its finalizers, and applied afterwards.
async fn terminating_object_is_waited_for(scene: &Scene) {
    let objects = [scene.text("held", "text")];
    scene.install(&objects).await;
    let api: Api<ConfigMap> = scene.namespaced();
    let hold = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    let params = PatchParams::default();
    let held = Patch::Merge(hold(json!(["example.com/hold"])));
    api.patch("held", &params, &held).await.unwrap();
    api.delete("held", &DeleteParams::default()).await.unwrap();
    let report = scene.run(&objects).await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, FailureKind::Deleting);
    assert!(failure.message.contains("example.com/hold"), "{failure:?}");
    let free = Patch::Merge(hold(json!(null)));
    api.patch("held", &params, &free).await.unwrap();
    crate::support::wait_deleted(api, "held").await;
    scene.install(&objects).await;
}

/// A CRD whose names are taken fails, and so do objects of a kind that was removed.
async fn definitions_are_not_waited_for_in_vain(scene: &Scene) {
    let group = format!("{}.example.com", scene.owner.name);
    let mut second = crd(&group, "Widget");
    second["metadata"]["name"] = format!("others.{group}").into();
    second["spec"]["names"]["plural"] = "others".into();
    second["spec"]["names"]["singular"] = "other".into();
    scene.install(&[crd(&group, "Widget")]).await;
    let report = scene.run(&[second, deployment("unbegun", None)]).await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, FailureKind::NotEstablished);
    assert!(
        failure.message.contains("names not accepted"),
        "{failure:?}"
    );
    assert_eq!(report.stopped_in, Some(Wave::Definitions));

    // The CRD is removed after the lookup of the kind.
    let plan = scene
        .plan(&[widget(&group, "late")], &Inventory::new())
        .await;
    let crds: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    for plural in ["others", "widgets"] {
        let name = format!("{plural}.{group}");
        let params = DeleteParams::default();
        crds.delete(&name, &params).await.unwrap();
        crate::support::wait_deleted(crds.clone(), &name).await;
    }
    let failure = crate::support::eventually("the kind is gone", async || {
        let report = scene.apply(&scene.client).run(&plan.steps).await;
        match report.failed.first() {
            Some(failure) if failure.cause == FailureKind::NotServed => Ok(failure.clone()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(
        failure.message.contains("install its CRD or API server"),
        "{failure:?}"
    );
}

#[tokio::test]
async fn failures_have_causes_and_stop_the_next_wave() {
    let scene = Scene::new("failures").await;
    failures_stop_the_next_wave(&scene).await;
    refusals_have_a_cause(&scene).await;
    secrets_are_not_quoted(&scene).await;
    terminating_object_is_waited_for(&scene).await;
    definitions_are_not_waited_for_in_vain(&scene).await;
    scene.end().await;
}

#[tokio::test]
async fn dry_run_reports_failures_and_changes_nothing() {
    let scene = Scene::new("dry").await;
    scene.install(&[deployment("operator", None)]).await;
    let group = format!("{}.example.com", scene.owner.name);
    let new = unique("new");
    let mut moved = deployment("operator", None);
    moved["spec"]["selector"]["matchLabels"] = json!({"app": "another"});
    moved["spec"]["template"]["metadata"]["labels"] = json!({"app": "another"});
    let objects = [
        // Objects that cannot be checked, because nothing they need exists yet.
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": new}}),
        config_map(&new, "a", "text"),
        crd(&group, "Widget"),
        widget(&group, "example"),
        // Objects that can be checked.
        scene.text("b", "text"),
        moved,
        config_map("never-made", "c", "text"),
    ];
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let steps: Vec<_> = plan.steps.iter().collect();
    let apply = scene.apply(&scene.client);
    let preview = apply.dry_run(&steps, &scene.owner).await;
    let failure = only(&preview.failed);
    assert_eq!(
        (failure.identity.to_string(), failure.cause),
        ("ConfigMap never-made/c".to_owned(), FailureKind::Namespace)
    );
    let [immutable] = &preview.immutable[..] else {
        panic!("{preview:#?}");
    };
    assert_eq!(
        immutable.refusal("delete the object").message,
        format!(
            "Deployment {}/operator: immutable fields changed: spec.selector; delete the object",
            scene.namespace
        )
    );
    let texts: Api<ConfigMap> = scene.namespaced();
    assert_eq!(texts.get_opt("b").await.unwrap(), None);
    scene.end().await;
}
