//! Watches of objects that cannot be read for a while. The tests of `apply::informers` and `apply::drift` cover changes of
//! objects.

pub(crate) mod observer;

use apply::{account::Account, informers::InstanceView};
use cluster::Cluster;
use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;
use tests::assert_has;

use self::observer::{Observer, kind_of};
use crate::support::{
    Line, account, config_map, crd, delete, grant, service_account, unique, wait_deleted,
};

#[tokio::test]
async fn unwatchable_objects_are_reported_until_watchable() {
    let config = Cluster::shared().await.unwrap().config().clone();
    let (mut line, config) = Line::to(config).await;
    let mut observer = Observer::through("reported", config).await;
    a_deleted_kind_is_watched_again(&mut observer).await;
    an_account_observes_objects_once_allowed(&mut observer).await;

    // Changes during an outage.
    let instance = unique("till");
    let unchanged = observer.apply(&instance, config_map("", "kept", "1")).await;
    let deleted = observer.apply(&instance, config_map("", "lost", "1")).await;
    let kinds = [&unchanged, &deleted].map(|object| (object, kind_of::<ConfigMap>()));
    observer.declare_kinds(&instance, None, &kinds);
    let complete = |view: &InstanceView| view.objects.len() == 2;
    observer.wait(&instance, "complete", complete).await;
    line.cut();
    let failing = |view: &InstanceView| !view.failing.is_empty();
    let view = observer.wait(&instance, "failing", failing).await;
    let (message, prefix) = (&view.failing[0], "failed to watch configmaps: ");
    assert!(message.starts_with(prefix), "{message}");
    assert_eq!(view.objects.len(), 2, "the cache is kept");
    delete(&observer.namespaced::<ConfigMap>(), "lost").await;
    line.restore().await;
    let absent = |view: &InstanceView| !view.absent.is_empty();
    let view = observer.wait(&instance, "synced again", absent).await;
    assert_eq!(view.absent, [deleted.identity.clone()].into());
    assert!(view.objects.contains_key(&unchanged.identity), "{view:?}");
    assert_eq!(view.failing, [] as [String; 0]);
}

async fn a_deleted_kind_is_watched_again(observer: &mut Observer) {
    let instance = unique("till");
    let group = format!("{}.example.com", unique("watches"));
    let crd = crd(&group, "Till");
    let name = format!("tills.{group}");
    let applied = observer.apply(&instance, crd.clone()).await;
    observer.cluster.wait_established(&name).await.unwrap();
    let till =
        json!({"apiVersion": format!("{group}/v1"), "kind": "Till", "metadata": {"name": "a"}});
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(&group, "v1", "Till"));
    let object = observer.apply(&instance, till.clone()).await;
    let kinds = [
        (&applied, kind_of::<CustomResourceDefinition>()),
        (&object, observer::kind(resource)),
    ];
    observer.declare_kinds(&instance, None, &kinds);
    let view = observer.wait(&instance, "synced", |view| view.synced).await;
    assert_eq!(view.objects.len(), 2);

    let api: Api<CustomResourceDefinition> = Api::all(observer.client());
    delete(&api, &name).await;
    let is_absent = |view: &InstanceView| view.absent.contains(&applied.identity);
    let failing = |view: &InstanceView| !view.failing.is_empty() && is_absent(view);
    let view = observer.wait(&instance, "failing", failing).await;
    assert!(view.unknown.contains(&object.identity), "{view:?}");
    let failing = &view.failing[0];
    tests::assert_rows!(failing.starts_with(&format!("failed to watch tills.{group}: ")) => true, "{failing}");
    assert_has(failing, &format!("API {group}/v1 is not served"));

    wait_deleted(api.clone(), &name).await;
    let applied = observer.apply(&instance, crd).await;
    observer.cluster.wait_established(&name).await.unwrap();
    observer.applied(&instance, &applied);
    let synced = |view: &InstanceView| view.synced;
    let view = observer.wait(&instance, "watched again", synced).await;
    assert_eq!(view.absent, [object.identity.clone()].into());
    assert_eq!(view.failing, [] as [String; 0]);
    observer.apply(&instance, till).await;
    let complete = |view: &InstanceView| view.absent.is_empty();
    observer.wait(&instance, "complete", complete).await;
    observer.watches.forget(&instance);
    delete(&api, &name).await;
}

async fn an_account_observes_objects_once_allowed(observer: &mut Observer) {
    let instance = unique("till");
    let namespace = observer.namespace.name().to_owned();
    let installer = Account {
        name: "installer".to_owned(),
        namespace: namespace.clone(),
    };
    service_account(observer.cluster, &namespace, "installer").await;
    let map = observer.apply(&instance, config_map("", "ours", "1")).await;
    let kinds = [(&map, kind_of::<ConfigMap>())];
    observer.declare_kinds(&instance, Some(&installer), &kinds);
    let failing = |view: &InstanceView| !view.failing.is_empty();
    let view = observer.wait(&instance, "forbidden", failing).await;
    assert!(!view.synced && view.unknown.contains(&map.identity));
    let message = &view.failing[0];
    let scope = format!("configmaps of namespace {namespace}");
    tests::assert_rows!(message.starts_with(&format!("failed to watch {scope}: configmaps is forbidden")) => true, "{message}");
    let remedy = format!(
        "; grant system:serviceaccount:{namespace}:installer (and allow the provisioner to impersonate it) list and watch on \
         {scope}"
    );
    assert_has(message, &remedy);

    let subject = account(&namespace, "installer");
    let rules =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]);
    let namespace = Some(namespace.as_str());
    grant(observer.cluster, &subject, namespace, "reader", &rules).await;
    let synced = |view: &InstanceView| view.synced;
    let view = observer.wait(&instance, "allowed", synced).await;
    assert_eq!(view.failing, [] as [String; 0]);
    assert_eq!(view.objects[&map.identity].fields, map.applied.fields);
}
