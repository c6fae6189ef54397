//! Objects whose new form changes immutable fields.

use apply::ssa::{JobState, Obstacle, Permission, Recreation};
use k8s_openapi::api::{batch::v1::Job, core::v1::Service};

use super::*;
use crate::support::define;

fn fixed(scene: &Scene, name: &str, text: &str) -> Value {
    tests::with!(scene.text(name, text) => |map| map["immutable"] = json!(true))
}

fn binding(role: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "binding"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role}, "subjects": []})
}

/// Returns a Job that is finished at once, or never.
fn job(name: &str, completions: u8, image: &str) -> Value {
    let pod = json!({"restartPolicy": "Never", "containers": [{"name": "main", "image": image}]});
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
        "spec": {"completions": completions, "suspend": completions > 0, "template": {"spec": pod}}})
}

fn service(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec})
}

fn moved(name: &str, template: &str) -> Value {
    let mut moved = deployment(name);
    moved["spec"]["selector"]["matchLabels"] = json!({"app": "moved"});
    moved["spec"]["template"]["metadata"]["labels"] = json!({"app": template});
    moved
}

fn stateful_set(management: &str) -> Value {
    let mut set = deployment("set");
    set["kind"] = json!("StatefulSet");
    set["spec"]["replicas"] = json!(0);
    set["spec"]["podManagementPolicy"] = json!(management);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] = json!({"whenDeleted": "Delete"});
    set
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
    let node_port = json!({"type": "NodePort", "ports": [{"port": 80}]});
    let probe = service("probe", &json!({"ports": [{"port": 80}]}));
    let both = [service("service", &node_port), probe];
    scene.install(&both).await;
    let services: Api<Service> = scene.namespaced();
    let spec = async |name: &str| services.get(name).await.unwrap().spec.unwrap();
    // The node port is that of the existing Service, and no other Service has the address.
    let number = spec("service").await.ports.unwrap()[0].node_port;
    let address = spec("probe").await.cluster_ip;
    let moved_port = json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": number}], "clusterIP": address});
    delete(&services, "probe").await;
    wait_deleted(services, "probe").await;
    let rows = tests::rows![
        fixed(&scene, "fixed", "1"), fixed(&scene, "fixed", "2"), "data", None => None;
        deployment("operator"), moved("operator", "moved"), "spec.selector", None => None;
        binding("one"), binding("two"), "roleRef", None => None;
        service("service", &node_port), service("service", &moved_port), "spec.clusterIPs[0]", None => None;
        stateful_set("Parallel"), stateful_set("OrderedReady"), "spec", None => Some(Obstacle::Claims);
        job("finished", 0, "example.com/a:1"), job("finished", 0, "example.com/a:2"), "spec.template", Some(JobState::Finished)
            => None;
        job("suspended", 1, "example.com/a:1"), job("suspended", 1, "example.com/a:2"), "spec.template.spec",
            Some(JobState::Unfinished) => None;
        sized(1), sized(2), "spec", None => Some(Obstacle::Kind("the deletion may lose data of users"));
    ];
    let mut objects: Vec<Value> = rows.iter().map(|(old, ..)| old.clone()).collect();
    objects.push(deployment("broken"));
    scene.install(&objects).await;
    world.apply(&fixed(&scene, "foreign", "1")).await;
    let jobs: Api<Job> = scene.namespaced();
    eventually("a finished Job", async || {
        let job = jobs.get("finished").await.unwrap();
        let status = job.status.unwrap_or_default();
        let mut conditions = status.conditions.iter().flatten();
        let is_complete = conditions.any(|condition| condition.type_ == "Complete");
        is_complete.then_some(()).ok_or(format!("{status:?}"))
    })
    .await;
    let mut objects: Vec<Value> = rows.iter().map(|(_, new, ..)| new.clone()).collect();
    // This object is invalid regardless of the existing one.
    objects.push(moved("broken", "other"));
    objects.extend([fixed(&scene, "foreign", "2"), scene.text("new", "1")]);
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let steps: Vec<_> = plan.steps.iter().collect();
    let apply = scene.apply(&scene.client);
    let preview = apply.dry_run(&steps, &scene.owner).await;
    tests::assert_rows!(names(preview.failed.iter().map(|failure| &failure.identity)) => ["broken"], "{preview:#?}");
    assert_eq!(preview.failed[0].cause, FailureKind::Invalid);
    let found = preview.immutable.iter().map(|immutable| {
        let (name, fields) = (immutable.identity.name.clone(), immutable.fields.join(" "));
        (name, (fields, immutable.job, immutable.obstacle.clone()))
    });
    let expected = rows.map(|(object, _, fields, job, obstacle)| {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        (name, (fields.to_owned(), job, obstacle))
    });
    let mut expected = BTreeMap::from(expected);
    let foreign = ("data".to_owned(), None, Some(Obstacle::Foreign));
    expected.insert("foreign".to_owned(), foreign);
    assert_eq!(found.collect::<BTreeMap<_, _>>(), expected, "{preview:#?}");
    delete(&scene.crds(), &scene.crd_name()).await;
    scene.end().await;
}

// The tests of `revisions::recreate` cover the other kinds of objects, Jobs and finalizers.
#[tokio::test]
async fn only_own_objects_with_permission_are_recreated() {
    let scene = Scene::new("recreated").await;
    let objects = |text: &str| ["fixed", "forbidden"].map(|name| fixed(&scene, name, text));
    scene.install(&objects("1")).await;
    let foreign = |text: &str| fixed(&scene, "foreign", text);
    world().await.apply(&foreign("1")).await;
    let maps: Api<ConfigMap> = scene.namespaced();
    let all = ["fixed", "forbidden", "foreign"];
    let live = async |name| {
        let map: ConfigMap = maps.get(name).await.unwrap();
        (map.uid(), map.data.unwrap()["text"].clone())
    };
    let mut before = Vec::new();
    for name in all {
        before.push(live(name).await);
    }

    let [own, forbidden] = objects("2");
    let objects = [own, forbidden, foreign("2")];
    let plan = scene.plan(&objects, &Inventory::new()).await;
    let identities = plan.steps.iter().map(|step| step.object.identity());
    let permitted = identities.filter(|identity| identity.name != "forbidden");
    let permissions = permitted.map(|identity| (identity, Permission::Delete));
    let recreation = Recreation::new(&scene.owner, permissions.collect());
    let apply = scene.apply(&scene.client);
    let report = apply.roll_out(&plan.steps, &[], &recreation).await;
    let failed = report.failed.iter();
    let failed = failed.map(|failure| (&*failure.identity.name, failure));
    let failed: BTreeMap<_, _> = failed.collect();
    let causes = failed.iter().map(|(name, failure)| (*name, failure.cause));
    let expected = ["forbidden", "foreign"].map(|name| (name, FailureKind::Invalid));
    assert_eq!(causes.collect::<Vec<_>>(), expected, "{failed:?}");
    assert_has(&failed["foreign"].message, "does not carry the labels");
    let (uid, text) = live("fixed").await;
    assert_ne!(uid, before[0].0);
    assert_eq!(text, "2");
    for index in [1, 2] {
        assert_eq!(live(all[index]).await, before[index]);
    }
    scene.end().await;
}
