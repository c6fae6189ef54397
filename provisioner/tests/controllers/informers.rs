//! Watches of applied objects, and drift by managedFields.

pub(crate) mod observer;

use apply::{account::Account, drift, informers::InstanceView, inventory::Entry};
use cluster::Cluster;
use k8s_openapi::{
    api::{
        apps::v1::Deployment,
        core::v1::{ConfigMap, ServiceAccount},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use self::observer::{Observer, kind_of};
use crate::support::{Line, grant, unique, wait_deleted};

fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"price": "1", "currency": "EUR"},
    })
}

fn deployment(name: &str, replicas: Option<i32>) -> Value {
    let mut object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "example.com/none"}]},
            },
        },
    });
    if let Some(replicas) = replicas {
        object["spec"]["replicas"] = json!(replicas);
    }
    object
}

fn merge(change: Value) -> Patch<Value> {
    Patch::Merge(change)
}

#[tokio::test]
async fn changes_of_applied_objects_are_observed() {
    let mut observer = Observer::new("changes").await;
    changed_fields_are_drift_and_added_ones_are_not(&mut observer).await;
    deleted_and_relabelled_objects_are_absent(&mut observer).await;
    scaling_takes_replicas_once(&mut observer).await;
}

#[tokio::test]
async fn unwatchable_objects_are_reported_until_watchable() {
    let config = Cluster::shared().await.unwrap().config().clone();
    let (line, config) = Line::to(config).await;
    let mut observer = Observer::through("reported", config).await;
    a_deleted_kind_is_watched_again(&mut observer).await;
    an_account_sees_objects_once_allowed(&mut observer).await;
    changes_during_an_outage_are_seen(&mut observer, line).await;
}

async fn changed_fields_are_drift_and_added_ones_are_not(observer: &mut Observer) {
    let (instance, other) = (unique("till"), unique("shelf"));
    let map = observer.apply(&instance, config_map("ours")).await;
    let fence = observer.apply(&other, config_map("fence")).await;
    observer.want::<ConfigMap>(&instance, &[&map]);
    observer.want::<ConfigMap>(&other, &[&fence]);
    observer.wait(&instance, "synced", |view| view.synced).await;
    observer.wait(&other, "synced", |view| view.synced).await;
    let inventory = [(map.identity.clone(), entry(&map))].into();
    assert_eq!(drift::drifted(&inventory, &observer.view(&instance)), []);

    // Applying the same object again changes nothing and wakes no instance.
    observer.settle();
    let again = observer.apply(&instance, config_map("ours")).await;
    assert_eq!(again.applied, map.applied);
    let mut changed = config_map("fence");
    changed["data"] = json!({"price": "1", "other": "field"});
    observer.apply(&other, changed).await;
    assert_eq!(observer.next_wake().await, other);

    // An annotation, a label and a key of other clients, and defaults: the watch reports them before it reports the fence.
    observer.settle();
    let api: Api<ConfigMap> = observer.namespaced();
    let additions = json!({
        "metadata": {"annotations": {"a": "b"}, "labels": {"a": "b"}}, "data": {"more": "1"}});
    let params = PatchParams {
        field_manager: Some("other".to_owned()),
        ..PatchParams::default()
    };
    api.patch("ours", &params, &merge(additions)).await.unwrap();
    api.patch("fence", &params, &merge(json!({"data": {"price": "2"}})))
        .await
        .unwrap();
    assert_eq!(observer.next_wake().await, other);
    assert_eq!(drift::drifted(&inventory, &observer.view(&instance)), []);

    for change in [
        json!({"data": {"price": "2"}}),
        json!({"data": {"currency": null}}),
    ] {
        api.patch("ours", &params, &merge(change.clone()))
            .await
            .unwrap();
        let view = observer
            .wait(&instance, "drift", |view| {
                !drift::drifted(&inventory, view).is_empty()
            })
            .await;
        assert_eq!(
            drift::drifted(&inventory, &view),
            std::slice::from_ref(&map.identity),
            "{change}"
        );
        assert_eq!(view.objects[&map.identity].writer.as_deref(), Some("other"));
        let again = observer.apply(&instance, config_map("ours")).await;
        assert_eq!(
            again.applied.fields, map.applied.fields,
            "the same fields are ours again"
        );
        // The applied state is recorded at once, without a watch event.
        observer.applied(&instance, &[&again]);
        assert_eq!(drift::drifted(&inventory, &observer.view(&instance)), []);
    }
}

fn entry(object: &observer::Object) -> Entry {
    Entry {
        version: "v1".to_owned(),
        fields: object.applied.fields,
        recreating: false,
    }
}

async fn deleted_and_relabelled_objects_are_absent(observer: &mut Observer) {
    let instance = unique("till");
    // An object that waits for its finalizers is terminating, and has no drift.
    let mut held = config_map("one");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    let one = observer.apply(&instance, held).await;
    let two = observer.apply(&instance, config_map("two")).await;
    observer.want::<ConfigMap>(&instance, &[&one, &two]);
    observer
        .wait(&instance, "all there", |view| view.objects.len() == 2)
        .await;
    let api: Api<ConfigMap> = observer.namespaced();
    api.delete("one", &DeleteParams::default()).await.unwrap();
    let is_deleting = |view: &InstanceView| view.objects.values().any(|object| object.deleting);
    let view = observer.wait(&instance, "deleting", is_deleting).await;
    let inventory = [(one.identity.clone(), Entry::default())].into();
    assert_eq!(drift::drifted(&inventory, &view), []);
    let release = json!({"metadata": {"finalizers": null}});
    api.patch("one", &PatchParams::default(), &merge(release))
        .await
        .unwrap();
    let view = observer
        .wait(&instance, "one gone", |view| view.absent.len() == 1)
        .await;
    assert!(view.absent.contains(&one.identity));
    assert_eq!(drift::drifted(&inventory, &view), [one.identity]);
    let strip = json!({"metadata": {"labels": {"core.rukpak.io/owner-kind": null}}});
    api.patch("two", &PatchParams::default(), &merge(strip))
        .await
        .unwrap();
    observer
        .wait(&instance, "both gone", |view| view.absent.len() == 2)
        .await;
    let back = observer.apply(&instance, config_map("two")).await;
    let view = observer
        .wait(&instance, "one back", |view| view.objects.len() == 1)
        .await;
    assert_eq!(view.objects[&two.identity].fields, back.applied.fields);
    let theirs = json!({"metadata": {"labels": {"core.rukpak.io/owner-name": "somebody"}}});
    api.patch("two", &PatchParams::default(), &merge(theirs))
        .await
        .unwrap();
    observer
        .wait(&instance, "given away", |view| view.absent.len() == 2)
        .await;
}

async fn scaling_takes_replicas_once(observer: &mut Observer) {
    let (instance, other) = (unique("till"), unique("shelf"));
    let workload = observer.apply(&instance, deployment("till", Some(0))).await;
    let fence = observer.apply(&other, deployment("fence", Some(0))).await;
    observer.want::<Deployment>(&instance, &[&workload]);
    observer.want::<Deployment>(&other, &[&fence]);
    observer.wait(&instance, "synced", |view| view.synced).await;
    let inventory = [(workload.identity.clone(), entry(&workload))].into();
    // The Deployment controller writes status and annotations at the same time.
    assert_eq!(drift::drifted(&inventory, &observer.view(&instance)), []);

    let api: Api<Deployment> = observer.namespaced();
    let scale = |replicas| merge(json!({"spec": {"replicas": replicas}}));
    let params = PatchParams::default();
    api.patch_scale("till", &params, &scale(1)).await.unwrap();
    observer
        .wait(&instance, "drift", |view| {
            !drift::drifted(&inventory, view).is_empty()
        })
        .await;
    let yielded = observer.apply(&instance, deployment("till", None)).await;
    assert_ne!(yielded.applied.fields, workload.applied.fields);
    let inventory = [(yielded.identity.clone(), entry(&yielded))].into();
    api.patch_scale("till", &params, &scale(2)).await.unwrap();
    let scaled = api
        .get("till")
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let view = observer
        .wait(&instance, "the second scaling", |view| {
            let object = view.objects.get(&yielded.identity);
            object.is_some_and(|object| object.version >= scaled.parse().unwrap())
        })
        .await;
    assert_eq!(drift::drifted(&inventory, &view), []);
}

async fn a_deleted_kind_is_watched_again(observer: &mut Observer) {
    let instance = unique("till");
    let group = format!("{}.example.com", unique("watches"));
    let crd = observer::crd(&group);
    let name = format!("tills.{group}");
    let applied = observer.apply_cluster_wide(&instance, crd.clone()).await;
    observer.cluster.wait_established(&name).await.unwrap();
    let till = json!({
        "apiVersion": format!("{group}/v1"), "kind": "Till", "metadata": {"name": "a"}, "spec": {"drawer": "open"}});
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Till"));
    let object = observer.apply(&instance, till.clone()).await;
    let kinds = [
        (&applied, kind_of::<CustomResourceDefinition>()),
        (&object, observer::kind(resource, true)),
    ];
    observer.want_kinds(&instance, None, &kinds);
    let view = observer.wait(&instance, "synced", |view| view.synced).await;
    assert_eq!(view.objects.len(), 2);

    let api: Api<CustomResourceDefinition> = Api::all(observer.client());
    api.delete(&name, &DeleteParams::default()).await.unwrap();
    let view = observer
        .wait(&instance, "failing", |view| {
            !view.failing.is_empty() && view.absent.contains(&applied.identity)
        })
        .await;
    assert!(view.unknown.contains(&object.identity), "{view:?}");
    assert!(
        view.failing[0].starts_with(&format!("failed to watch tills.{group}: "))
            && view.failing[0].contains(&format!("API {group}/v1 is not served")),
        "{view:?}"
    );

    wait_deleted(api.clone(), &name).await;
    let applied = observer.apply_cluster_wide(&instance, crd).await;
    observer.cluster.wait_established(&name).await.unwrap();
    observer.applied(&instance, &[&applied]);
    let view = observer
        .wait(&instance, "watched again", |view| view.synced)
        .await;
    assert_eq!(view.absent, [object.identity.clone()].into());
    assert_eq!(view.failing, [] as [String; 0]);
    observer.apply(&instance, till).await;
    observer
        .wait(&instance, "there again", |view| view.absent.is_empty())
        .await;
    observer.watches.forget(&instance);
    api.delete(&name, &DeleteParams::default()).await.unwrap();
}

async fn an_account_sees_objects_once_allowed(observer: &mut Observer) {
    let instance = unique("till");
    let namespace = observer.namespace.name().to_owned();
    let account = Account {
        name: "installer".to_owned(),
        namespace: namespace.clone(),
    };
    let create = PostParams::default();
    let made: ServiceAccount =
        serde_json::from_value(json!({"metadata": {"name": "installer"}})).unwrap();
    observer.namespaced().create(&create, &made).await.unwrap();
    let map = observer.apply(&instance, config_map("ours")).await;
    observer.want_kinds(&instance, Some(&account), &[(&map, kind_of::<ConfigMap>())]);
    let view = observer
        .wait(&instance, "refused", |view| !view.failing.is_empty())
        .await;
    assert!(!view.synced && view.unknown.contains(&map.identity));
    let message = &view.failing[0];
    assert!(
        message.starts_with(&format!("failed to watch configmaps of namespace {namespace}: configmaps is forbidden"))
            && message.contains(&format!(
                "; grant system:serviceaccount:{namespace}:installer (and allow the provisioner to impersonate it) \
                 list and watch on configmaps of namespace {namespace}"
            )),
        "{message}"
    );

    let subject = json!({"kind": "ServiceAccount", "name": "installer", "namespace": namespace});
    let rules =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]);
    let namespace = Some(namespace.as_str());
    grant(observer.cluster, &subject, namespace, "reader", &rules).await;
    let view = observer
        .wait(&instance, "allowed", |view| view.synced)
        .await;
    assert_eq!(view.failing, [] as [String; 0]);
    assert_eq!(view.objects[&map.identity].fields, map.applied.fields);
}

async fn changes_during_an_outage_are_seen(observer: &mut Observer, mut line: Line) {
    let instance = unique("till");
    let (unchanged, deleted) = (
        observer.apply(&instance, config_map("kept")).await,
        observer.apply(&instance, config_map("lost")).await,
    );
    observer.want::<ConfigMap>(&instance, &[&unchanged, &deleted]);
    observer
        .wait(&instance, "all there", |view| view.objects.len() == 2)
        .await;
    line.cut();
    let view = observer
        .wait(&instance, "in trouble", |view| !view.failing.is_empty())
        .await;
    assert!(
        view.failing[0].starts_with("failed to watch configmaps: "),
        "{view:?}"
    );
    assert_eq!(
        view.objects.len(),
        2,
        "what was known is not forgotten for that"
    );
    let api: Api<ConfigMap> = observer.namespaced();
    api.delete("lost", &DeleteParams::default()).await.unwrap();
    line.mend().await;
    let view = observer
        .wait(&instance, "seen", |view| !view.absent.is_empty())
        .await;
    assert!(
        view.absent.contains(&deleted.identity) && view.objects.contains_key(&unchanged.identity)
    );
    assert_eq!(view.failing, [] as [String; 0]);
}
