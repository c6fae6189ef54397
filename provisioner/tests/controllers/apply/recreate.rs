//! Objects whose new form changes immutable fields.

use std::collections::BTreeMap;

use apply::{
    inventory::Inventory,
    ssa::{FailureKind, JobState, Obstacle, Permission, Recreation},
};
use k8s_openapi::{
    api::{
        batch::v1::Job,
        core::v1::{ConfigMap, Service},
        rbac::v1::RoleBinding,
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{Api, ResourceExt};
use manifests::object::Object;
use serde_json::{Value, json};
use tests::assert_has;

use super::{Scene, assert_failed, deployment, names};
use crate::support::{define, delete, eventually, merge, until, wait_deleted, world};

fn fixed(scene: &Scene, name: &str, text: &str) -> Value {
    tests::with!(scene.text(name, text) => |map| map["immutable"] = json!(true))
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
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]});
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"completions": completions, "suspend": completions > 0, "template": {"spec": pod}},
    })
}

fn service(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn moved(name: &str, template: &str) -> Value {
    let mut moved = deployment(name, None);
    moved["spec"]["selector"]["matchLabels"] = json!({"app": "moved"});
    moved["spec"]["template"]["metadata"]["labels"] = json!({"app": template});
    moved
}

fn stateful_set(management: &str) -> Value {
    let mut set = deployment("set", Some(0));
    set["kind"] = json!("StatefulSet");
    set["spec"]["podManagementPolicy"] = json!(management);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Delete"});
    set
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
async fn free_address(scene: &Scene) -> Option<String> {
    let probe = service("probe", &json!({"ports": [{"port": 80}]}));
    scene.install(&[probe]).await;
    let services: Api<Service> = scene.namespaced();
    let address = services.get("probe").await.unwrap().spec.unwrap();
    delete(&services, "probe").await;
    wait_deleted(services, "probe").await;
    address.cluster_ip
}

// The tests of `apply::ssa::recreate` cover the other obstacles.
#[tokio::test]
async fn immutable_objects_are_distinguished_from_invalid_ones() {
    let scene = Scene::new("immutable").await;
    let world = world().await;
    let mut crd = scene.crd();
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] =
        json!([{"rule": "self == oldSelf"}]);
    define(world.cluster, &crd).await;
    let sized = |size: u8| tests::with!(scene.widget("operand") => |widget| widget["spec"] = json!({"size": size}));
    let mut node_port = json!({"type": "NodePort", "ports": [{"port": 80}]});
    let objects = [
        fixed(&scene, "fixed", "1"),
        deployment("operator", None),
        deployment("broken", None),
        binding("one"),
        service("service", &node_port),
        stateful_set("Parallel"),
        job("finished", 0, "example.com/a:1"),
        job("suspended", 1, "example.com/a:1"),
        sized(1),
    ];
    scene.install(&objects).await;
    world.apply(&fixed(&scene, "foreign", "1")).await;
    finished(&scene, "finished").await;
    let services: Api<Service> = scene.namespaced();
    let live = services.get("service").await.unwrap().spec.unwrap();
    // The node port is that of the existing Service.
    node_port["ports"][0]["nodePort"] = json!(live.ports.unwrap()[0].node_port);
    node_port["clusterIP"] = json!(free_address(&scene).await);
    let objects = [
        fixed(&scene, "fixed", "2"),
        moved("operator", "moved"),
        // This object is invalid regardless of the existing one.
        moved("broken", "other"),
        binding("two"),
        service("service", &node_port),
        stateful_set("OrderedReady"),
        job("finished", 0, "example.com/a:2"),
        job("suspended", 1, "example.com/a:2"),
        sized(2),
        fixed(&scene, "foreign", "2"),
        scene.text("new", "1"),
    ];
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let steps: Vec<_> = plan.steps.iter().collect();
    let apply = scene.apply(&scene.client);
    let preview = apply.dry_run(&steps, &scene.owner).await;
    let failed = preview.failed.iter().map(|failure| &failure.identity);
    assert_eq!(names(failed), ["broken"], "{preview:#?}");
    assert_eq!(preview.failed[0].cause, FailureKind::Invalid);
    let found = preview.immutable.iter().map(|immutable| {
        let obstacle = immutable.obstacle.as_ref().map(|obstacle| match obstacle {
            Obstacle::Kind(_) => "kind",
            Obstacle::Foreign => "foreign",
            Obstacle::Claims => "claims",
            Obstacle::Data(_) => "data",
            Obstacle::Kept => "kept",
        });
        let (name, fields) = (&*immutable.identity.name, immutable.fields.join(" "));
        (name, (fields, immutable.job, obstacle))
    });
    let found: BTreeMap<_, _> = found.collect();
    let expected = tests::rows![
        "fixed", "data", None => None;
        "operator", "spec.selector", None => None;
        "binding", "roleRef", None => None;
        "service", "spec.clusterIPs[0]", None => None;
        "set", "spec", None => Some("claims");
        "finished", "spec.template", Some(JobState::Finished) => None;
        "suspended", "spec.template.spec", Some(JobState::Unfinished) => None;
        "operand", "spec", None => Some("kind");
        "foreign", "data", None => Some("foreign");
    ];
    let expected =
        expected.map(|(name, fields, job, obstacle)| (name, (fields.to_owned(), job, obstacle)));
    assert_eq!(found, expected.into(), "{preview:#?}");
    let crds: Api<CustomResourceDefinition> = world.api();
    delete(&crds, &format!("widgets.{}", scene.group())).await;
    scene.end().await;
}

#[tokio::test]
async fn permitted_objects_are_deleted_and_created_again() {
    let scene = Scene::new("recreated").await;
    let objects = [
        fixed(&scene, "fixed", "1"),
        fixed(&scene, "forbidden", "1"),
        binding("one"),
        job("finished", 0, "example.com/a:1"),
        job("suspended", 1, "example.com/a:1"),
    ];
    scene.install(&objects).await;
    world().await.apply(&fixed(&scene, "foreign", "1")).await;
    finished(&scene, "finished").await;
    let maps: Api<ConfigMap> = scene.namespaced();
    let bindings: Api<RoleBinding> = scene.namespaced();
    let jobs: Api<Job> = scene.namespaced();
    let uids = async || {
        let mut uids = vec![("binding", bindings.get("binding").await.unwrap().uid())];
        for name in ["fixed", "forbidden", "foreign"] {
            uids.push((name, maps.get(name).await.unwrap().uid()));
        }
        for name in ["finished", "suspended"] {
            uids.push((name, jobs.get(name).await.unwrap().uid()));
        }
        uids
    };
    let before = uids().await;

    let objects = [
        fixed(&scene, "fixed", "2"),
        fixed(&scene, "forbidden", "2"),
        fixed(&scene, "foreign", "2"),
        binding("two"),
    ];
    let changed = [
        job("finished", 0, "example.com/a:2"),
        job("suspended", 1, "example.com/a:2"),
    ];
    let mut permissions = BTreeMap::new();
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
    let failed = report.failed.iter();
    let failed = failed.map(|failure| (failure.identity.name.as_str(), failure));
    let failed: BTreeMap<_, _> = failed.collect();
    let failed_names: Vec<_> = failed.keys().copied().collect();
    assert_eq!(failed_names, ["forbidden", "foreign"]);
    for failure in failed.values() {
        assert_eq!(failure.cause, FailureKind::Invalid, "{failure:?}");
    }
    assert_has(&failed["foreign"].message, "does not carry the labels");
    // Bindings are applied after the other objects of their wave.
    assert_eq!(roll_out(&[binding("two")]).await.failed, []);
    let report = roll_out(&changed).await;
    let failed = report.failed.iter().map(|failure| &failure.identity);
    assert_eq!(names(failed), ["suspended"], "{report:#?}");

    let after = uids().await;
    let recreated = before.iter().filter(|uid| !after.contains(uid));
    let recreated: Vec<_> = recreated.map(|(name, _)| *name).collect();
    assert_eq!(recreated, ["binding", "fixed", "finished"]);
    let text = async |name| maps.get(name).await.unwrap().data.unwrap()["text"].clone();
    for (name, expected) in [("fixed", "2"), ("forbidden", "1"), ("foreign", "1")] {
        assert_eq!(text(name).await, expected, "{name}");
    }
    assert_eq!(bindings.get("binding").await.unwrap().role_ref.name, "two");
    scene.end().await;
}

#[tokio::test]
async fn slow_deletion_is_reported_and_continued() {
    let scene = Scene::new("held").await;
    scene.install(&[fixed(&scene, "held", "1")]).await;
    let maps: Api<ConfigMap> = scene.namespaced();
    let finalizers = |names: Value| json!({"metadata": {"finalizers": names}});
    merge(&maps, "held", &finalizers(json!(["example.com/held"]))).await;
    let objects = [fixed(&scene, "held", "2")];
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let apply = scene.apply(&scene.client);
    let roll_out = async |permission| {
        let permissions = [(plan.steps[0].object.identity(), permission)];
        let recreation = Recreation::new(&scene.owner, permissions.into());
        apply.roll_out(&plan.steps, &[], &recreation).await
    };
    for permission in [Permission::Delete, Permission::Await] {
        let report = roll_out(permission).await;
        assert_failed(&report, FailureKind::Deleting, "example.com/held");
    }
    merge(&maps, "held", &finalizers(Value::Null)).await;
    wait_deleted(maps.clone(), "held").await;
    let report = roll_out(Permission::Await).await;
    assert_eq!(report.failed, []);
    let data = async || json!(maps.get("held").await.unwrap().data);
    until("new", data, |data| data["text"] == "2").await;
    scene.end().await;
}
