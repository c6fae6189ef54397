//! Objects whose new form changes immutable fields.

use std::collections::BTreeMap;

use apply::{
    inventory::Inventory,
    ssa::{FailureKind, JobState, Obstacle, Permission, Recreation},
};
use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Secret, Service},
    rbac::v1::RoleBinding,
};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams},
};
use manifests::object::Object;
use serde_json::{Value, json};

use super::{Scene, deployment, widget};
use crate::support::{crd, define, delete, eventually, until, wait_deleted, world};

/// A ConfigMap whose data cannot change.
fn fixed(scene: &Scene, name: &str, text: &str) -> Value {
    let mut fixed = scene.text(name, text);
    fixed["immutable"] = json!(true);
    fixed
}

fn binding(role: &str) -> Value {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "binding"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
        "subjects": [],
    })
}

/// Returns a Job that is finished at once, or never.
fn job(name: &str, completions: u8, image: &str) -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {
            "completions": completions,
            "suspend": completions > 0,
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": image}],
            }},
        },
    })
}

fn service(spec: &Value) -> Value {
    let mut service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "service"}, "spec": spec});
    service["spec"]["type"] = json!("NodePort");
    service
}

fn moved(name: &str, template: &str) -> Value {
    let mut moved = deployment(name, None);
    moved["spec"]["selector"]["matchLabels"] = json!({"app": "moved"});
    moved["spec"]["template"]["metadata"]["labels"] = json!({"app": template});
    moved
}

fn stateful_set(policy: &str, management: &str) -> Value {
    let mut set = deployment("set", Some(0));
    set["kind"] = json!("StatefulSet");
    set["spec"]["podManagementPolicy"] = json!(management);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": policy});
    set
}

fn claim(class: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "claim"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": class,
        },
    })
}

fn secret(type_: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret"},
        "type": type_, "stringData": {"key": "value"},
    })
}

async fn finished(scene: &Scene, name: &str) {
    let jobs: Api<Job> = scene.namespaced();
    eventually("a finished Job", async || {
        let status = jobs.get(name).await.unwrap().status.unwrap_or_default();
        let mut conditions = status.conditions.iter().flatten();
        let is_complete = conditions.any(|condition| condition.type_ == "Complete");
        is_complete.then_some(()).ok_or(format!("{status:?}"))
    })
    .await;
}

/// Returns an address that no Service has.
async fn free_address(scene: &Scene) -> String {
    let probe = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "probe"}, "spec": {"ports": [{"port": 80}]}});
    scene.install(&[probe]).await;
    let services: Api<Service> = scene.namespaced();
    let address = services.get("probe").await.unwrap().spec.unwrap();
    delete(&services, "probe").await;
    wait_deleted(services, "probe").await;
    address.cluster_ip.unwrap()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table")]
async fn immutable_objects_are_distinguished_from_invalid_ones() {
    let scene = Scene::new("immutable").await;
    let world = world().await;
    let group = format!("{}.example.com", scene.owner.name);
    let mut definition = crd(&group, "Widget");
    definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self == oldSelf"}]);
    define(world.cluster, &definition).await;
    let sized = |size: u8| {
        let mut widget = widget(&group, "operand");
        widget["spec"] = json!({"size": size});
        widget
    };
    let ports = |number: Option<i32>| json!([{"port": 80, "nodePort": number}]);
    scene
        .install(&[
            fixed(&scene, "fixed", "1"),
            deployment("operator", None),
            deployment("broken", None),
            binding("one"),
            service(&json!({"ports": [{"port": 80}]})),
            stateful_set("Delete", "Parallel"),
            claim("one"),
            secret("Opaque"),
            job("finished", 0, "example.com/a:1"),
            job("suspended", 1, "example.com/a:1"),
            sized(1),
        ])
        .await;
    world.apply(&fixed(&scene, "foreign", "1")).await;
    finished(&scene, "finished").await;
    let added = json!({"stringData": {"added": "value"}});
    let signer = PatchParams {
        field_manager: Some("signer".to_owned()),
        ..PatchParams::default()
    };
    let secrets: Api<Secret> = scene.namespaced();
    secrets
        .patch("secret", &signer, &Patch::Merge(&added))
        .await
        .unwrap();
    let services: Api<Service> = scene.namespaced();
    let live = services.get("service").await.unwrap().spec.unwrap();
    let number = live.ports.unwrap()[0].node_port;
    let address = free_address(&scene).await;

    let plan = scene
        .plan(
            &[
                fixed(&scene, "fixed", "2"),
                moved("operator", "moved"),
                // This object is invalid regardless of the existing one.
                moved("broken", "other"),
                binding("two"),
                // The node port is that of the existing Service.
                service(&json!({"clusterIP": address, "ports": ports(number)})),
                stateful_set("Delete", "OrderedReady"),
                claim("two"),
                secret("example.com/other"),
                job("finished", 0, "example.com/a:2"),
                job("suspended", 1, "example.com/a:2"),
                sized(2),
                fixed(&scene, "foreign", "2"),
                scene.text("new", "1"),
            ],
            &Inventory::new(),
        )
        .await;
    let steps: Vec<_> = plan.steps.iter().collect();
    let apply = scene.apply(&scene.client);
    let preview = apply.dry_run(&steps, &scene.owner).await;
    let failed: Vec<_> = preview
        .failed
        .iter()
        .map(|failure| (failure.identity.name.as_str(), failure.cause))
        .collect();
    assert_eq!(failed, [("broken", FailureKind::Invalid)], "{preview:#?}");
    let found: BTreeMap<_, _> = preview
        .immutable
        .iter()
        .map(|immutable| {
            let fields = immutable.fields.join(" ");
            let obstacle = match &immutable.obstacle {
                Some(Obstacle::Kind(_)) => Some("kind"),
                Some(Obstacle::Foreign) => Some("foreign"),
                Some(Obstacle::Claims) => Some("claims"),
                Some(Obstacle::Data(manager)) => Some(manager.as_str()),
                Some(Obstacle::Kept) => Some("kept"),
                None => None,
            };
            let name = immutable.identity.name.as_str();
            (name, (fields, immutable.job, obstacle))
        })
        .collect();
    let expected = [
        ("fixed", "data", None, None),
        ("operator", "spec.selector", None, None),
        ("binding", "roleRef", None, None),
        ("service", "spec.clusterIPs[0]", None, None),
        ("set", "spec", None, Some("claims")),
        ("claim", "spec", None, Some("kind")),
        ("secret", "type", None, Some("signer")),
        ("finished", "spec.template", Some(JobState::Finished), None),
        (
            "suspended",
            "spec.template.spec",
            Some(JobState::Unfinished),
            None,
        ),
        ("operand", "spec", None, Some("kind")),
        ("foreign", "data", None, Some("foreign")),
    ];
    let expected =
        expected.map(|(name, fields, job, obstacle)| (name, (fields.to_owned(), job, obstacle)));
    assert_eq!(found, expected.into(), "{preview:#?}");
    let crds: Api<
        k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    > = world.api();
    delete(&crds, &format!("widgets.{group}")).await;
    scene.end().await;
}

#[tokio::test]
async fn permitted_objects_are_deleted_and_created_again() {
    let scene = Scene::new("recreated").await;
    let world = world().await;
    scene
        .install(&[
            fixed(&scene, "fixed", "1"),
            fixed(&scene, "forbidden", "1"),
            binding("one"),
            job("finished", 0, "example.com/a:1"),
            job("suspended", 1, "example.com/a:1"),
        ])
        .await;
    world.apply(&fixed(&scene, "foreign", "1")).await;
    finished(&scene, "finished").await;
    let maps: Api<ConfigMap> = scene.namespaced();
    let bindings: Api<RoleBinding> = scene.namespaced();
    let jobs: Api<Job> = scene.namespaced();
    let uids = async || {
        let map = async |name| maps.get(name).await.unwrap().uid();
        let job = async |name| jobs.get(name).await.unwrap().uid();
        BTreeMap::from([
            ("fixed", map("fixed").await),
            ("forbidden", map("forbidden").await),
            ("foreign", map("foreign").await),
            ("binding", bindings.get("binding").await.unwrap().uid()),
            ("finished", job("finished").await),
            ("suspended", job("suspended").await),
        ])
    };
    let before = uids().await;

    let objects = [
        fixed(&scene, "fixed", "2"),
        fixed(&scene, "forbidden", "2"),
        fixed(&scene, "foreign", "2"),
        binding("two"),
    ];
    let jobs_of = |image| [job("finished", 0, image), job("suspended", 1, image)];
    let mut permissions = BTreeMap::new();
    let changed = jobs_of("example.com/a:2");
    for object in objects.iter().chain(&changed) {
        let mut object = Object::try_from(object.clone()).unwrap();
        manifests::api::owner_metadata::set_namespace(&mut object, true, scene.namespace.name());
        let permission = match (object.name(), object.kind()) {
            ("forbidden", _) => continue,
            (_, "Job") => Permission::DeleteFinished,
            _ => Permission::Delete,
        };
        permissions.insert(object.identity(), permission);
    }
    let roll_out = async |objects: &[Value]| {
        let plan = scene.plan(objects, &Inventory::new()).await;
        let recreation = Recreation::new(&scene.owner, permissions.clone());
        let apply = scene.apply(&scene.client);
        apply.roll_out(&plan.steps, &[], &recreation).await
    };
    let report = roll_out(&objects).await;
    let failed: BTreeMap<_, _> = report
        .failed
        .iter()
        .map(|failure| (failure.identity.name.as_str(), failure))
        .collect();
    assert_eq!(
        failed.keys().collect::<Vec<_>>(),
        [&"forbidden", &"foreign"]
    );
    assert!(
        failed
            .values()
            .all(|failure| failure.cause == FailureKind::Invalid)
    );
    assert!(
        failed["foreign"]
            .message
            .contains("does not carry the labels"),
        "{failed:?}"
    );
    // Bindings are applied after the other objects of their wave.
    assert_eq!(roll_out(&[binding("two")]).await.failed, []);
    let report = roll_out(&changed).await;
    let failed: Vec<_> = report.failed.iter().map(|one| &one.identity.name).collect();
    assert_eq!(failed, ["suspended"], "{report:#?}");

    let after = uids().await;
    let recreated = before.iter().filter(|(name, uid)| after[*name] != **uid);
    let recreated: Vec<_> = recreated.map(|(name, _)| *name).collect();
    assert_eq!(recreated, ["binding", "finished", "fixed"]);
    let text = async |name| maps.get(name).await.unwrap().data.unwrap()["text"].clone();
    assert_eq!(text("fixed").await, "2");
    assert_eq!(
        (text("forbidden").await, text("foreign").await),
        ("1".into(), "1".into())
    );
    assert_eq!(bindings.get("binding").await.unwrap().role_ref.name, "two");
    scene.end().await;
}

#[tokio::test]
async fn a_deletion_that_takes_long_is_reported_and_continued() {
    let scene = Scene::new("held").await;
    scene.install(&[fixed(&scene, "held", "1")]).await;
    let maps: Api<ConfigMap> = scene.namespaced();
    let params = PatchParams::default();
    let finalizers = |names: Value| Patch::Merge(json!({"metadata": {"finalizers": names}}));
    maps.patch("held", &params, &finalizers(json!(["example.com/held"])))
        .await
        .unwrap();
    let plan = scene
        .plan(&[fixed(&scene, "held", "2")], &Inventory::new())
        .await;
    let apply = scene.apply(&scene.client);
    let roll_out = async |permission| {
        let permissions = [(plan.steps[0].object.identity(), permission)];
        let recreation = Recreation::new(&scene.owner, permissions.into());
        apply.roll_out(&plan.steps, &[], &recreation).await
    };
    for permission in [Permission::Delete, Permission::Await] {
        let report = roll_out(permission).await;
        let [failure] = &report.failed[..] else {
            panic!("{report:#?}");
        };
        assert_eq!(failure.cause, FailureKind::Deleting, "{permission:?}");
        assert!(failure.message.contains("example.com/held"), "{failure:?}");
    }
    maps.patch("held", &params, &finalizers(Value::Null))
        .await
        .unwrap();
    wait_deleted(maps.clone(), "held").await;
    let report = roll_out(Permission::Await).await;
    assert_eq!(report.failed, []);
    let is_new = |data: &Option<BTreeMap<String, String>>| {
        data.as_ref().is_some_and(|data| data["text"] == "2")
    };
    until("new", async || maps.get("held").await.unwrap().data, is_new).await;
    scene.end().await;
}
