//! `rukpak history`, `rukpak rollback`, and `--revision` of `rukpak diff` and `rukpak content`.
//!
//! No provisioner runs here: the tests write the statuses and the records that it would write.

mod rollout;

use apply::revision::{Encoded, Header, encode, store::Store};
use cluster::Cluster;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use manifests::{
    api::{
        MANAGER, bundle_instance::BundleInstance, crds, owner::InstanceOwner, owner_metadata,
        revision::RevisionDetails,
    },
    object::Object,
    yaml,
};
use serde_json::{Value, json};

use crate::environment::{Rukpak as _, Run, apply, bare, eventually, namespace, objects};

const SYSTEM_NAMESPACE: &str = "rukpak-system";
const DIGEST: &str = "sha256:0123456789abcdef";

fn instances(cluster: &Cluster) -> Api<BundleInstance> {
    Api::all(cluster.client().unwrap())
}

async fn create(cluster: &Cluster, name: &str) -> BundleInstance {
    let instance = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "metadata": {"name": name},
        "spec": {
            "provisionerClassName": "core-rukpak-io-plain",
            "template": {"spec": {"source": {"type": "upload", "upload": {}}}},
        },
    });
    apply(cluster, [instance]).await;
    instances(cluster).get(name).await.unwrap()
}

async fn write_status(cluster: &Cluster, name: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    let params = PatchParams::default();
    let patched = instances(cluster).patch_status(name, &params, &patch).await;
    patched.unwrap();
}

fn config_map(name: &str, text: &str) -> Object {
    object(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text},
    }))
}

fn secret(name: &str, password: &str) -> Object {
    object(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"},
        "stringData": {"password": password},
    }))
}

fn object(value: Value) -> Object {
    Object::try_from(value).unwrap()
}

fn owner(instance: &BundleInstance) -> InstanceOwner {
    InstanceOwner {
        name: instance.name_any(),
        uid: instance.uid().unwrap(),
    }
}

fn encoded(number: i64, owner: &str, objects: &[Object]) -> Encoded {
    let header = Header {
        owner: owner.to_owned(),
        number,
        namespace: "default".to_owned(),
        account: None,
        details: RevisionDetails::default(),
    };
    encode(&header, objects).unwrap()
}

async fn write_record(cluster: &Cluster, instance: &BundleInstance, number: i64, record: &Encoded) {
    let (client, owner) = (cluster.client().unwrap(), owner(instance));
    let store = Store {
        client: &client,
        namespace: SYSTEM_NAMESPACE,
        owner: &owner,
    };
    store.write(number, record).await.unwrap();
}

fn entry(number: i64, state: &str, record: &Encoded) -> Value {
    json!({
        "number": number, "state": state, "cause": "Upgrade", "version": format!("1.{number}.0"),
        "bundle": format!("tide-{number}"), "digest": format!("{DIGEST}{number}"), "checksum": record.checksum,
        "parts": record.parts.len(), "created": "2026-01-01T00:00:00Z",
    })
}

fn condition(generation: Option<i64>, [type_, status, reason]: [&str; 3]) -> Value {
    json!({
        "type": type_, "status": status, "reason": reason, "message": "", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Applies an object as the provisioner does, with a hash of its content.
async fn apply_owned(cluster: &Cluster, owner: &InstanceOwner, object: &Object, hash: &str) {
    let mut object = object.clone();
    owner_metadata::set_namespace(&mut object, true, "default");
    owner_metadata::set_owner(&mut object, owner);
    owner_metadata::record_hash(&mut object, hash);
    let identity = object.identity();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", &identity.kind));
    let client = cluster.client().unwrap();
    let api = Api::<DynamicObject>::namespaced_with(client, "default", &resource);
    let params = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(object.value());
    api.patch(&identity.name, &params, &patch).await.unwrap();
}

/// Writes a record for each list of objects. The last one is the active revision, and its objects are applied.
async fn roll_out(cluster: &Cluster, instance: &BundleInstance, revisions: &[Vec<Object>]) {
    let owner = owner(instance);
    let mut entries = Vec::new();
    for (number, objects) in (1..).zip(revisions) {
        let record = encoded(number, &owner.uid, objects);
        write_record(cluster, instance, number, &record).await;
        let is_last = entries.len() + 1 == revisions.len();
        let state = if is_last { "Active" } else { "Archived" };
        entries.push(entry(number, state, &record));
    }
    let mut names = Vec::new();
    for object in revisions.last().into_iter().flatten() {
        apply_owned(cluster, &owner, object, "0123456789abcdef").await;
        let identity = object.identity();
        if identity.kind == "ConfigMap" {
            names.push(format!("default/{}", identity.name));
        }
    }
    let kinds = json!([{"apiVersion": "v1", "kind": "ConfigMap", "objects": names}]);
    let status = json!({"revisions": entries, "inventory": {"count": names.len(), "kinds": kinds}});
    write_status(cluster, &owner.name, status).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_listed_compared_and_rolled_back_to() {
    let cluster = bare().await;
    tests::assert_runs! { cluster; "status" => 1, "", "install rukpak with"; }
    apply(&cluster, objects(crds::all())).await;
    apply(&cluster, [namespace(SYSTEM_NAMESPACE)]).await;
    history_lists_the_revisions(&cluster).await;
    revision_is_compared_and_printed_without_secrets(&cluster);
    damaged_and_foreign_records_are_rejected(&cluster).await;
    let ebb = rollback_sets_and_removes_the_pin(&cluster).await;
    rollback_waits_until_its_revision_is_active(&cluster, &ebb).await;
    rollout::status_counts_the_applied_objects(&cluster).await;
}

async fn history_lists_the_revisions(cluster: &Cluster) {
    tests::assert_runs! { cluster; "history tide" => 1, "", "failed to read BundleInstance tide", "\"tide\" not found"; }
    let instance = create(cluster, "tide").await;
    tests::assert_runs! { cluster;
        "history tide" => 0, "", "BundleInstance tide has no revision yet; run \"rukpak status tide\"";
        "history tide -o json" => 0, "[]\n";
    }
    let revisions = [("one", "low", "hunter2"), ("two", "high", "other-one")];
    let revisions = revisions.map(|(text, other, password)| {
        let maps = ["tide", other].map(|name| config_map(name, text));
        [&maps[..], &[secret("tide", password)]].concat()
    });
    roll_out(cluster, &instance, &revisions).await;
    tests::assert_runs! { cluster;
        "rollback tide --to 1 --wait=false" => 0, _;
        "history tide" => 0, ["1         1.1.0    Upgrade  Archived  ", "2         1.2.0    Upgrade  Active    "],
            "pinned to revision 1; run \"rukpak rollback tide --undo\"";
    }
    let json = cluster.ok("history tide -o json").json();
    let first = json!({
        "number": 1, "version": "1.1.0", "cause": "Upgrade", "state": "Archived", "pinned": true,
        "created": "2026-01-01T00:00:00Z", "digest": format!("{DIGEST}1"), "bundle": "tide-1",
    });
    assert_eq!(json[0], first);
}

fn revision_is_compared_and_printed_without_secrets(cluster: &Cluster) {
    // The hash that the provisioner writes is not reported as a difference.
    tests::assert_runs! { cluster;
        "diff tide --revision 2" => 0, "";
        "diff tide --revision 1" => 1, [
            "1 object to create, 2 to change, 1 not in revision 1:\n", "  ~ ConfigMap default/tide\n",
            "  + ConfigMap default/low\n", "  ~ Secret default/tide\n", "  - ConfigMap default/high\n",
            "+++ revision 1 ConfigMap default/tide\n", "-  text: two\n+  text: one\n"
        ];
        "content tide --revision 1" => 0, _, "the values of 1 Secret are masked";
        "diff tide --revision 3" => 2, _, "revision 3 of BundleInstance tide not found";
        "content tide --revision 3" => 1, _, "not found; choose one of 1, 2";
        "diff low --revision 1" => 2, _, "\"low\" not found";
        "diff tide" => 2, _, "<BUNDLE>";
        "diff tide bundle --revision 1" => 2, _, "cannot be used with";
        "content tide --format json" => 2, _, "--revision";
        "content tide --revision 0" => 2, _, "invalid value '0'";
    }
    let yaml = cluster.ok("content tide --revision 1");
    let objects = yaml::documents(yaml.out.as_bytes());
    let objects: Vec<Value> = objects.map(Result::unwrap).collect();
    assert_eq!(objects[0], *config_map("tide", "one").value());
    assert_eq!(objects[2]["stringData"]["password"], "***");
    let json = cluster.ok("content tide --revision 1 --format json");
    assert_eq!(json.json()["items"], Value::Array(objects));
    for run in [cluster.run("diff tide --revision 1"), yaml, json] {
        for value in ["hunter2", "other-one", "aHVudGVyMg", "b3RoZXItb25l"] {
            run.out_lacks(value);
        }
    }
}

async fn damaged_and_foreign_records_are_rejected(cluster: &Cluster) {
    let instance = create(cluster, "spring").await;
    let uid = instance.uid().unwrap();
    let objects = [config_map("spring", "one")];
    let record = |owner: &str, number| encoded(number, owner, &objects);

    // Part 2 of revision 1 does not exist, revision 2 was altered, and 3 is the record of another instance.
    let complete = record(&uid, 1);
    let half = tests::with!(complete.clone() => parts: vec![complete.parts.concat()]);
    let mut missing = entry(1, "Archived", &complete);
    missing["parts"] = 2.into();
    let recorded = record(&uid, 2);
    let mut altered = recorded.clone();
    *altered.parts[0].last_mut().unwrap() ^= 1;
    let foreign = record("another-uid", 3);
    for (number, record) in (1..).zip([&half, &altered, &foreign]) {
        write_record(cluster, &instance, number, record).await;
    }
    let revisions = json!([
        missing,
        entry(2, "Archived", &recorded),
        entry(3, "Archived", &foreign),
        entry(4, "Active", &complete),
    ]);
    write_status(cluster, "spring", json!({"revisions": revisions})).await;
    // Content of an unusable record is not printed, and no object is changed.
    for (number, problem) in tests::rows![
        1 => "Secret rukpak-system/spring-r1-2 of revision 1 not found; check --system-namespace";
        2 => "got sha256:";
        3 => "the Secret contains revision 3 of the owner with uid another-uid; choose another revision";
    ] {
        let prefix = format!("failed to read revision {number} of BundleInstance spring: ");
        tests::assert_runs! { cluster;
            "diff spring --revision {number}" => 2, "", "{prefix}", "{problem}";
            "content spring --revision {number}" => 1, "", "{prefix}", "{problem}";
            "rollback spring --to {number} --dry-run=server" => 1, "", "{prefix}", "{problem}";
        }
    }
    tests::assert_rows!(instances(cluster).get("spring").await.unwrap().spec.rollback_to => None);
    // The error for an unprivileged user names the Secret and the missing permission.
    tests::assert_runs! { cluster; "content spring --revision 2 --as ann --as-group readers" => 1, "", "forbidden"; }
    let secrets = Api::<Secret>::namespaced(cluster.client().unwrap(), SYSTEM_NAMESPACE);
    assert!(secrets.get_opt("spring-r2-1").await.unwrap().is_some());
}

async fn rollback_sets_and_removes_the_pin(cluster: &Cluster) -> BundleInstance {
    tests::assert_runs! { cluster; "rollback ebb" => 1, "", "\"ebb\" not found"; }
    let instance = create(cluster, "ebb").await;
    tests::assert_runs! { cluster; "rollback ebb" => 1, "", "BundleInstance ebb has no revision yet; run \"rukpak status ebb\""; }
    let revisions = ["one", "two", "three"].map(|text| vec![config_map("ebb", text)]);
    roll_out(cluster, &instance, &revisions).await;
    let resource = "bundleinstance.core.rukpak.io/ebb";
    let pin = async || {
        let instance = instances(cluster).get("ebb").await.unwrap();
        instance.spec.rollback_to
    };
    // Dry runs change nothing; the one of the server prints the difference.
    tests::assert_runs! { cluster;
        "rollback ebb --to 7" => 1, "", "revision 7 of BundleInstance ebb not found; choose one of 1, 2, 3";
        "rollback ebb --to 1 --undo" => 2, "";
        "rollback ebb --dry-run=client" => 0, "{resource} pinned to revision 2 (dry run)\n";
    }
    let dry = cluster.ok("rollback ebb --to 1 --dry-run=server");
    dry.out_starts_with("0 objects to create, 1 to change, 0 not in revision 1:\n");
    dry.out_has("-  text: three\n+  text: one\n");
    let pinned = format!("{resource} pinned to revision 1 (server dry run)\n");
    dry.out_has(pinned);
    let dry = cluster.ok("rollback ebb --dry-run=server -o yaml");
    dry.out_has("  rollbackTo: 2\n");
    dry.out_lacks("to create, ");
    assert_eq!(pin().await, None);

    tests::assert_runs! { cluster; "rollback ebb --wait=false" => 0, "{resource} pinned to revision 2\n"; }
    assert_eq!(pin().await, Some(2));
    tests::assert_runs! { cluster;
        // A repeated command does not go further back.
        "rollback ebb --wait=false" => 0, "{resource} already pinned to revision 2\n";
        // No provisioner performs the rollback.
        "rollback ebb --timeout 1s" => 1, "", "BundleInstance ebb is not rolled back to revision 2 after 1s",
            "run \"rukpak status ebb\"";
        "rollback ebb --undo --wait=false" => 0, "{resource} pin to revision 2 removed\n";
    }
    assert_eq!(pin().await, None);
    tests::assert_runs! { cluster; "rollback ebb --undo" => 0, "{resource} not pinned\n"; }
    instance
}

async fn rollback_waits_until_its_revision_is_active(cluster: &Cluster, instance: &BundleInstance) {
    let child = cluster.spawn("rollback ebb");
    let pinned = eventually("pinned", async || {
        let instance = instances(cluster).get("ebb").await.unwrap();
        match instance.spec.rollback_to {
            Some(2) => Ok(instance),
            pin => Err(format!("{pin:?}")),
        }
    });
    let generation = pinned.await.metadata.generation;
    let condition = |facts| condition(generation, facts);
    let record = encoded(4, &instance.uid().unwrap(), &[config_map("ebb", "two")]);
    let mut rollback = entry(4, "Active", &record);
    rollback["cause"] = "Rollback".into();
    rollback["rollbackOf"] = 2.into();
    let status = json!({
        "conditions": [
            condition(["Progressing", "False", "UpToDate"]),
            condition(["Installed", "True", "InstallationSucceeded"]),
            condition(["Healthy", "True", "Healthy"]),
        ],
        "revisions": [entry(2, "Archived", &record), entry(3, "Archived", &record), rollback],
    });
    write_status(cluster, "ebb", status).await;
    let ended = Run::from(child.wait_with_output().unwrap()).exits(0);
    let resource = "bundleinstance.core.rukpak.io/ebb";
    ended.err_has(format!("{resource} pinned to revision 2"));
    ended.err_has("run \"rukpak rollback ebb --undo\" to remove the pin");
    tests::assert_rows!(ended.out => format!("{resource} rolled back to revision 2: 1 object, healthy\n"));
    tests::assert_runs! { cluster; "history ebb" => 0, ["Rollback to 2"]; }
}
