//! `rukpak history`, `rukpak rollback`, and `--revision` of `rukpak diff` and `rukpak content`.
//!
//! No provisioner runs here: the tests write the statuses and the records that it would write.

mod rollout;

use std::process::{Command, Stdio};

use apply::revision::{Encoded, Header, encode, store::Store};
use cluster::{Cluster, DryRun, Lease};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use manifests::{
    api::{
        MANAGER, decorate, definitions, holder::Owner, instance::BundleInstance,
        revision::RevisionDetails,
    },
    object::Object,
    yaml,
};
use serde_json::{Value, json};

use crate::world::{Run, bare, binary, eventually};

const SYSTEM_NAMESPACE: &str = "rukpak-system";
const DIGEST: &str = "sha256:0123456789abcdef";

/// Takes a control plane with the API of rukpak.
async fn control_plane() -> Lease {
    let cluster = bare().await;
    run(&cluster, "status")
        .exits(1)
        .says("rukpak is not installed there");
    for definition in definitions::all() {
        let name = definition.name_any();
        let definition = serde_json::to_value(definition).unwrap();
        cluster.apply(&definition, DryRun::No).await.unwrap();
        cluster.wait_established(&name).await.unwrap();
    }
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}});
    cluster.apply(&namespace, DryRun::No).await.unwrap();
    cluster
}

fn command(cluster: &Cluster, args: &str) -> Command {
    let mut command = Command::new(binary());
    command
        .args(args.split(' '))
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig_path())
        .stdin(Stdio::null());
    command
}

fn run(cluster: &Cluster, args: &str) -> Run {
    command(cluster, args).output().unwrap().into()
}

fn instances(cluster: &Cluster) -> Api<BundleInstance> {
    Api::all(cluster.client().unwrap())
}

async fn create(cluster: &Cluster, name: &str) -> BundleInstance {
    let instance = serde_json::from_value(json!({
        "apiVersion": "core.rukpak.io/v1alpha1",
        "kind": "BundleInstance",
        "metadata": {"name": name},
        "spec": {
            "provisionerClassName": "core-rukpak-io-plain",
            "template": {"spec": {"source": {"type": "upload", "upload": {}}}},
        },
    }));
    let (instance, params) = (instance.unwrap(), PostParams::default());
    let created = instances(cluster).create(&params, &instance).await;
    created.unwrap()
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
    let owner = Owner {
        name: instance.name_any(),
        uid: instance.uid().unwrap(),
    };
    let client = cluster.client().unwrap();
    let store = Store {
        client: &client,
        namespace: SYSTEM_NAMESPACE,
        owner: &owner,
    };
    store.write(number, record).await.unwrap();
}

/// An entry of `status.revisions`.
fn entry(number: i64, state: &str, record: &Encoded) -> Value {
    json!({
        "number": number, "state": state, "cause": "Upgrade", "version": format!("1.{number}.0"),
        "bundle": format!("tide-{number}"), "digest": format!("{DIGEST}{number}"), "checksum": record.checksum,
        "parts": record.parts.len(), "created": "2026-01-01T00:00:00Z",
    })
}

/// Writes a record for each list of objects. The last one is the active revision, and its objects are applied.
async fn roll_out(cluster: &Cluster, instance: &BundleInstance, revisions: &[Vec<Object>]) {
    let uid = instance.uid().unwrap();
    let mut entries = Vec::new();
    for (number, objects) in (1..).zip(revisions) {
        let record = encoded(number, &uid, objects);
        write_record(cluster, instance, number, &record).await;
        let is_last = entries.len() + 1 == revisions.len();
        let state = if is_last { "Active" } else { "Archived" };
        entries.push(entry(number, state, &record));
    }
    let owner = Owner {
        name: instance.name_any(),
        uid,
    };
    let mut names = Vec::new();
    for object in revisions.last().into_iter().flatten() {
        let mut object = object.clone();
        decorate::place(&mut object, true, "default");
        decorate::own(&mut object, &owner);
        decorate::record_hash(&mut object, "0123456789abcdef");
        let identity = object.identity();
        let resource = ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: identity.kind.clone(),
            plural: format!("{}s", identity.kind.to_lowercase()),
        };
        let client = cluster.client().unwrap();
        let api = Api::<DynamicObject>::namespaced_with(client, "default", &resource);
        let patch = Patch::Apply(object.value());
        let params = PatchParams::apply(MANAGER).force();
        let applied = api.patch(&identity.name, &params, &patch);
        applied.await.unwrap();
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
    let cluster = control_plane().await;
    history_lists_the_revisions(&cluster).await;
    revision_is_compared_and_printed_without_secrets(&cluster);
    damaged_and_foreign_records_are_rejected(&cluster).await;
    let ebb = rollback_sets_and_removes_the_pin(&cluster).await;
    rollback_waits_until_its_revision_is_active(&cluster, &ebb).await;
    rollout::status_counts_the_applied_objects(&cluster).await;
}

async fn history_lists_the_revisions(cluster: &Cluster) {
    run(cluster, "history tide")
        .exits(1)
        .says("failed to read BundleInstance tide")
        .says("\"tide\" not found");
    let instance = create(cluster, "tide").await;
    let empty = run(cluster, "history tide").exits(0);
    assert_eq!(empty.out, "");
    empty.says("BundleInstance tide has no revision yet; run \"rukpak status tide\"");
    assert_eq!(
        run(cluster, "history tide -o json").exits(0).json(),
        json!([])
    );

    let first = vec![
        config_map("tide", "one"),
        config_map("low", "one"),
        secret("tide", "hunter2"),
    ];
    let second = vec![
        config_map("tide", "two"),
        config_map("high", "two"),
        secret("tide", "other-one"),
    ];
    roll_out(cluster, &instance, &[first, second]).await;
    let pin = Patch::Merge(json!({"spec": {"rollbackTo": 1}}));
    let params = PatchParams::default();
    let patched = instances(cluster).patch("tide", &params, &pin).await;
    patched.unwrap();
    let table = run(cluster, "history tide").exits(0);
    let lines: Vec<Vec<&str>> = table
        .out
        .lines()
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(
        lines[0],
        ["REVISION", "VERSION", "CAUSE", "STATE", "AGE", "DIGEST"]
    );
    assert_eq!(lines[1][..4], ["1", "1.1.0", "Upgrade", "Archived"]);
    assert_eq!(lines[2][..4], ["2", "1.2.0", "Upgrade", "Active"]);
    assert_eq!(lines[1][5], "sha256:0123456789ab");
    table.says("pinned to revision 1; run \"rukpak rollback tide --undo\"");
    let json = run(cluster, "history tide -o json").exits(0).json();
    let first = json!({
        "number": 1, "version": "1.1.0", "cause": "Upgrade", "state": "Archived", "pinned": true,
        "created": "2026-01-01T00:00:00Z", "digest": format!("{DIGEST}1"), "bundle": "tide-1",
    });
    assert_eq!(json[0], first);
    let text = run(cluster, "history tide -o yaml").exits(0).out;
    assert_eq!(
        yaml::documents(text.as_bytes()).next().unwrap().unwrap(),
        json
    );
}

fn revision_is_compared_and_printed_without_secrets(cluster: &Cluster) {
    // The hash that the provisioner writes is no difference.
    let same = run(cluster, "diff tide --revision 2").exits(0);
    assert_eq!(same.out, "");
    let diff = run(cluster, "diff tide --revision 1").exits(1);
    for line in [
        "1 object new, 2 changed, 1 not in revision 1:\n",
        "  ~ ConfigMap default/tide\n",
        "  + ConfigMap default/low\n",
        "  ~ Secret default/tide\n",
        "  - ConfigMap default/high\n",
        "+++ revision 1 ConfigMap default/tide\n",
        "-  text: two\n+  text: one\n",
    ] {
        diff.out_has(line);
    }
    let yaml = run(cluster, "content tide --revision 1").exits(0);
    let objects: Vec<Value> = yaml::documents(yaml.out.as_bytes())
        .map(Result::unwrap)
        .collect();
    assert_eq!(objects[0], *config_map("tide", "one").value());
    assert_eq!(objects[2]["stringData"]["password"], "***");
    let json = run(cluster, "content tide --revision 1 --format json").exits(0);
    assert_eq!(json.json()["items"], Value::Array(objects));
    for run in [&diff, &yaml, &json] {
        for value in ["hunter2", "other-one", "aHVudGVyMg", "b3RoZXItb25l"] {
            run.out_lacks(value);
        }
    }
    yaml.says("the values of 1 Secret are masked");

    for (args, code, problem) in tests::rows![
        "diff tide --revision 3", 2 => "revision 3 of BundleInstance tide not found";
        "content tide --revision 3", 1 => "not found; choose one of 1, 2";
        "diff low --revision 1", 2 => "\"low\" not found";
        "diff tide", 2 => "<BUNDLE>";
        "diff tide bundle --revision 1", 2 => "cannot be used with";
        "content tide --format json", 2 => "--revision";
        "content tide --revision 0", 2 => "invalid value '0'";
    ] {
        run(cluster, args).exits(code).says(problem);
    }
}

async fn damaged_and_foreign_records_are_rejected(cluster: &Cluster) {
    let instance = create(cluster, "spring").await;
    let uid = instance.uid().unwrap();
    let objects = [config_map("spring", "one")];
    let record = |owner: &str, number| encoded(number, owner, &objects);

    // Part 2 of revision 1 does not exist, revision 2 was altered, 3 is the record of another instance, 4 of another number.
    let complete = record(&uid, 1);
    let half = Encoded {
        parts: vec![complete.parts.concat()],
        ..complete.clone()
    };
    let mut missing = entry(1, "Archived", &complete);
    missing["parts"] = 2.into();
    write_record(cluster, &instance, 1, &half).await;
    let recorded = record(&uid, 2);
    let mut altered = recorded.clone();
    *altered.parts[0].last_mut().unwrap() ^= 1;
    write_record(cluster, &instance, 2, &altered).await;
    let foreign = record("another-uid", 3);
    write_record(cluster, &instance, 3, &foreign).await;
    let other = record(&uid, 9);
    write_record(cluster, &instance, 4, &other).await;
    let revisions = json!([
        missing,
        entry(2, "Archived", &recorded),
        entry(3, "Archived", &foreign),
        entry(4, "Archived", &other),
        entry(5, "Archived", &complete),
        entry(6, "Active", &complete),
    ]);
    write_status(cluster, "spring", json!({"revisions": revisions})).await;
    // Nothing of a record that cannot be used is printed, and nothing is changed.
    for (number, problem) in tests::rows![
        1 => "Secret rukpak-system/spring-r1-2 of revision 1 not found; check --system-namespace";
        2 => "and sha256:";
        3 => "it records revision 3 of the owner with uid another-uid; choose another revision";
        4 => "it records revision 9 of the owner with uid";
        5 => "Secret rukpak-system/spring-r5-1 of revision 5 not found";
    ] {
        for (command, code) in [
            (format!("diff spring --revision {number}"), 2),
            (format!("content spring --revision {number}"), 1),
            (format!("rollback spring --to {number} --dry-run=server"), 1),
        ] {
            let refused = run(cluster, &command).exits(code);
            assert_eq!(refused.out, "", "{command}");
            refused
                .says(&format!(
                    "failed to read revision {number} of BundleInstance spring: "
                ))
                .says(problem);
        }
    }
    let after = instances(cluster).get("spring").await.unwrap();
    assert_eq!(after.spec.rollback_to, None);
    // What an unprivileged user is told names the Secret and the missing permission.
    run(
        cluster,
        "content spring --revision 2 --as nobody --as-group readers",
    )
    .exits(1)
    .says("forbidden");
    let secrets = Api::<Secret>::namespaced(cluster.client().unwrap(), SYSTEM_NAMESPACE);
    assert!(secrets.get_opt("spring-r2-1").await.unwrap().is_some());
}

async fn rollback_sets_and_removes_the_pin(cluster: &Cluster) -> BundleInstance {
    run(cluster, "rollback ebb")
        .exits(1)
        .says("\"ebb\" not found");
    let instance = create(cluster, "ebb").await;
    run(cluster, "rollback ebb")
        .exits(1)
        .says("BundleInstance ebb has no revision yet; run \"rukpak status ebb\"");
    let revisions = ["one", "two", "three"].map(|text| vec![config_map("ebb", text)]);
    roll_out(cluster, &instance, &revisions).await;
    let told = "bundleinstance.core.rukpak.io/ebb";
    let pin = async || {
        let instance = instances(cluster).get("ebb").await.unwrap();
        instance.spec.rollback_to
    };
    run(cluster, "rollback ebb --to 7")
        .exits(1)
        .says("revision 7 of BundleInstance ebb not found; choose one of 1, 2, 3");
    run(cluster, "rollback ebb --to 1 --undo").exits(2);

    // Dry runs change nothing; the one of the server prints the difference.
    let dry = run(cluster, "rollback ebb --dry-run=client").exits(0);
    assert_eq!(dry.out, format!("{told} pinned to revision 2 (dry run)\n"));
    let dry = run(cluster, "rollback ebb --dry-run=client -o json").exits(0);
    assert_eq!(dry.json()["spec"]["rollbackTo"], 2);
    let dry = run(cluster, "rollback ebb --to 1 --dry-run=server").exits(0);
    dry.out_starts_with("0 objects new, 1 changed, 0 not in revision 1:\n");
    dry.out_has("-  text: three\n+  text: one\n");
    dry.out_has(format!("{told} pinned to revision 1 (server dry run)\n"));
    let dry = run(cluster, "rollback ebb --dry-run=server -o yaml").exits(0);
    dry.out_has("  rollbackTo: 2\n");
    dry.out_lacks("new, ");
    assert_eq!(pin().await, None);

    let set = run(cluster, "rollback ebb --wait=false").exits(0);
    assert_eq!(set.out, format!("{told} pinned to revision 2\n"));
    assert_eq!(pin().await, Some(2));
    // A repeated command does not go further back.
    let again = run(cluster, "rollback ebb --wait=false").exits(0);
    assert_eq!(again.out, format!("{told} already pinned to revision 2\n"));
    // Nobody rolls it back here.
    run(cluster, "rollback ebb --timeout 1s")
        .exits(1)
        .says("BundleInstance ebb is not rolled back to revision 2 after 1s")
        .says("run \"rukpak status ebb\"");
    let undone = run(cluster, "rollback ebb --undo --wait=false").exits(0);
    assert_eq!(undone.out, format!("{told} pin to revision 2 removed\n"));
    assert_eq!(pin().await, None);
    let undone = run(cluster, "rollback ebb --undo").exits(0);
    assert_eq!(undone.out, format!("{told} not pinned\n"));
    instance
}

async fn rollback_waits_until_its_revision_is_active(cluster: &Cluster, instance: &BundleInstance) {
    let child = command(cluster, "rollback ebb")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pinned = eventually("pinned", async || {
        let instance = instances(cluster).get("ebb").await.unwrap();
        match instance.spec.rollback_to {
            Some(2) => Ok(instance),
            other => Err(format!("{other:?}")),
        }
    });
    let pinned = pinned.await;
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({
            "type": type_, "status": status, "reason": reason, "message": "",
            "observedGeneration": pinned.metadata.generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
        })
    };
    let objects = [config_map("ebb", "two")];
    let record = encoded(4, &instance.uid().unwrap(), &objects);
    let mut rollback = entry(4, "Active", &record);
    rollback["cause"] = "Rollback".into();
    rollback["rollbackOf"] = 2.into();
    let status = json!({
        "conditions": [
            condition("Progressing", "False", "UpToDate"),
            condition("Installed", "True", "InstallationSucceeded"),
            condition("Healthy", "True", "Healthy"),
        ],
        "revisions": [entry(2, "Archived", &record), entry(3, "Archived", &record), rollback],
    });
    write_status(cluster, "ebb", status).await;
    let ended: Run = child.wait_with_output().unwrap().into();
    let ended = ended.exits(0);
    assert_eq!(
        ended.out,
        "bundleinstance.core.rukpak.io/ebb rolled back to revision 2: 1 object, healthy\n"
    );
    ended
        .says("bundleinstance.core.rukpak.io/ebb pinned to revision 2")
        .says("run \"rukpak rollback ebb --undo\" to remove the pin");
    run(cluster, "history ebb")
        .exits(0)
        .out_has("Rollback to 2");
}
