//! What the apiserver does not take.

use apply::{
    inventory::Inventory,
    plan::Wave,
    ssa::{Cause, Failure},
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

/// A client with the rights of an account that nobody has granted anything.
async fn nobody(scene: &Scene) -> Client {
    let mut config = world().await.cluster.config().clone();
    let user = format!("system:serviceaccount:{}:nobody", scene.namespace.name());
    config.auth_info.impersonate = Some(user);
    Client::try_from(config).unwrap()
}

fn only(failures: &[Failure]) -> &Failure {
    assert_eq!(failures.len(), 1, "{failures:#?}");
    &failures[0]
}

#[tokio::test]
async fn all_failures_of_a_wave_are_told_and_the_next_is_not_begun() {
    let scene = Scene::new("stopped").await;
    let mut broken = scene.text("broken", "text");
    broken["data"]["no key/"] = "x".into();
    let objects = [
        broken,
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "broken"}, "spec": {"ports": []}}),
        scene.text("fine", "text"),
        deployment("operator", None),
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
        [("ConfigMap", Cause::Invalid), ("Service", Cause::Invalid)]
    );
    assert!(
        report.failed[1]
            .message
            .contains("spec.ports: Required value"),
        "{}",
        report.failed[1].message
    );
    scene.end().await;
}

#[tokio::test]
async fn each_refusal_has_its_cause() {
    let scene = Scene::new("refused").await;
    let nobody = nobody(&scene).await;
    let objects = [scene.text("a", "text")];
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let report = scene.apply(&nobody).run(&plan.steps).await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, Cause::Forbidden);
    assert!(
        failure.message.contains("cannot patch resource"),
        "{failure:?}"
    );

    let elsewhere = unique("nowhere");
    let report = scene.run(&[config_map(&elsewhere, "a", "text")]).await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, Cause::Namespace);
    assert!(
        failure.message.contains("spec.installNamespace"),
        "{failure:?}"
    );

    let report = scene
        .run(&[scene.text("large", &"x".repeat(1 << 20 | 1))])
        .await;
    assert_eq!(only(&report.failed).cause, Cause::Invalid);
    let report = scene
        .run(&[scene.text("larger", &"x".repeat(4 << 20))])
        .await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, Cause::Invalid);
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
    assert_eq!(failure.cause, Cause::Invalid);
    assert!(failure.message.contains("nonsense"), "{failure:?}");

    // A kind whose definition went after it was looked up.
    let group = format!("{}.example.com", scene.owner.name);
    scene.install(&[crd(&group, "Widget")]).await;
    let plan = scene
        .plan(&[widget(&group, "late")], &Inventory::new())
        .await;
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    let name = format!("widgets.{group}");
    definitions
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    crate::support::gone(definitions, &name).await;
    let failure = crate::support::eventually("the kind is gone", async || {
        let report = scene.apply(&scene.client).run(&plan.steps).await;
        match report.failed.first() {
            Some(failure) if failure.cause == Cause::NotServed => Ok(failure.clone()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    assert!(
        failure.message.contains("install what serves it"),
        "{failure:?}"
    );
    scene.end().await;
}

#[tokio::test]
async fn what_a_secret_holds_is_in_no_message() {
    let scene = Scene::new("secret").await;
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
        assert_eq!(failure.cause, Cause::Invalid, "{failure:?}");
        assert!(!failure.message.contains("4711471147"), "{failure:?}");
    }
    let secrets: Api<Secret> = scene.namespaced();
    assert_eq!(secrets.get_opt("secret").await.unwrap(), None);
    scene.end().await;
}

#[tokio::test]
async fn an_object_that_is_being_deleted_is_waited_for() {
    let scene = Scene::new("deleting").await;
    let objects = [scene.text("a", "text")];
    scene.install(&objects).await;
    let api: Api<ConfigMap> = scene.namespaced();
    let hold = |finalizers: Value| json!({"metadata": {"finalizers": finalizers}});
    let params = PatchParams::default();
    let held = Patch::Merge(hold(json!(["example.com/hold"])));
    api.patch("a", &params, &held).await.unwrap();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let report = scene.run(&objects).await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, Cause::Deleting);
    assert!(failure.message.contains("example.com/hold"), "{failure:?}");
    let free = Patch::Merge(hold(json!(null)));
    api.patch("a", &params, &free).await.unwrap();
    crate::support::gone(api, "a").await;
    scene.install(&objects).await;
    scene.end().await;
}

#[tokio::test]
async fn a_definition_whose_names_are_taken_is_not_waited_for() {
    let scene = Scene::new("names").await;
    let group = format!("{}.example.com", scene.owner.name);
    let mut second = crd(&group, "Widget");
    second["metadata"]["name"] = format!("others.{group}").into();
    second["spec"]["names"]["plural"] = "others".into();
    second["spec"]["names"]["singular"] = "other".into();
    scene.install(&[crd(&group, "Widget")]).await;
    let report = scene.run(&[second, deployment("operator", None)]).await;
    let failure = only(&report.failed);
    assert_eq!(failure.cause, Cause::NotEstablished);
    assert!(
        failure.message.contains("names are not accepted"),
        "{failure:?}"
    );
    assert_eq!(report.stopped_in, Some(Wave::Definitions));
    let definitions: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
    for plural in ["widgets", "others"] {
        let name = format!("{plural}.{group}");
        let params = DeleteParams::default();
        definitions.delete(&name, &params).await.unwrap();
    }
    scene.end().await;
}

#[tokio::test]
async fn a_dry_run_tells_what_would_fail_and_changes_nothing() {
    let scene = Scene::new("dry").await;
    scene.install(&[deployment("operator", None)]).await;
    let group = format!("{}.example.com", scene.owner.name);
    let new = unique("new");
    let mut moved = deployment("operator", None);
    moved["spec"]["selector"]["matchLabels"] = json!({"app": "another"});
    moved["spec"]["template"]["metadata"]["labels"] = json!({"app": "another"});
    let objects = [
        // What cannot be judged: nothing of it is there yet.
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": new}}),
        config_map(&new, "a", "text"),
        crd(&group, "Widget"),
        widget(&group, "example"),
        // What can.
        scene.text("b", "text"),
        moved,
        config_map("never-made", "c", "text"),
    ];
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let failures = scene.apply(&scene.client).dry_run(&plan.steps).await;
    let told: Vec<_> = failures
        .iter()
        .map(|failure| (failure.identity.to_string(), failure.cause))
        .collect();
    assert_eq!(
        told,
        [
            ("ConfigMap never-made/c".to_owned(), Cause::Namespace),
            (
                format!("Deployment {}/operator", scene.namespace),
                Cause::Invalid
            ),
        ]
    );
    assert!(
        failures[1].message.contains("delete the object"),
        "{failures:?}"
    );
    let texts: Api<ConfigMap> = scene.namespaced();
    assert_eq!(texts.get_opt("b").await.unwrap(), None);
    scene.end().await;
}
