//! `rukpak install`, and the commands that read or pause an installation: `status`, `content`, `pause`, `resume` and
//! `upgrade-check`. The test of docs/cli.md compares their output for an operator.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::Command,
};

use kube::{
    ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::environment::{
    Rukpak as _, World, binary, interrupt_when_listening, plain, text, unique, world,
};

// parity: k1, k4, platform-18
#[tokio::test(flavor = "multi_thread")]
async fn directory_is_installed_reported_replaced_and_paused() {
    let world = world().await;
    let name = unique("directory");
    let mut watch = world.spawn(&["status", &name, "--watch"]);
    let mut errors = BufReader::new(watch.stderr.take().unwrap()).lines();
    let missing = errors.next().unwrap().unwrap();
    assert_eq!(missing, format!("{name}: not found"));
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut wait_for = |text: &str| {
        let found = lines.find(|line| line.as_ref().unwrap().contains(text));
        found.unwrap().unwrap();
    };
    let bundle = plain(&[&name, &format!("{name}-b")], "one");
    is_uploaded_once(world, &name, text(&bundle)).await;
    wait_for("installed  yes");
    is_reported(world, &name).await;
    content_is_printed_and_written(world, &name, text(&bundle)).await;
    is_replaced_by_other_content(world, &name, &bundle).await;
    removed_apis_are_reported(world, &name);
    is_paused_and_resumed(world, &name).await;
    world.remove(&name);
    wait_for("not found");
    tests::assert_runs! { world; "status {name}" => 1, "", "bundleinstances.core.rukpak.io \"{name}\" not found"; }
    watch.kill().unwrap();
    watch.wait().unwrap();
}

async fn is_uploaded_once(world: &World, name: &str, bundle: &str) {
    let instance = format!("bundleinstance.core.rukpak.io/{name}");
    tests::assert_runs! { world;
        "install {name} {bundle}" => 0, "{instance} installed: 2 objects, healthy\n", "{instance} created";
    }
    let first = world.installed(name).await;
    let mut unpack = Command::new(binary());
    let unpack = unpack.args(["unpack", "--format", "json", bundle]).output();
    let digest: Value = serde_json::from_slice(&unpack.unwrap().stdout).unwrap();
    let stored = world.bundles().get(&first).await.unwrap();
    let upload = stored.spec.source.upload.unwrap();
    assert_eq!(upload.digest.as_deref(), digest["digest"].as_str());
    assert_eq!(stored.status.unwrap().content_digest, upload.digest);
    tests::assert_runs! { world; "install {name} {bundle}" => 0, _, "unchanged"; }
    assert_eq!(world.installed(name).await, first);
}

async fn is_reported(world: &World, name: &str) {
    let installed = world.installed(name).await;
    let summary = world.ok(&format!("status {name} -o json")).json();
    let names = ["objects", "bundles"].map(|list| &summary[list][0]["name"]);
    assert_eq!(names, [name, &installed], "{summary}");
    let facts = ["healthy", "phase", "rollout"].map(|field| &summary[field]);
    assert_eq!(json!(facts), json!([true, "Ready", null]));
    let all = world.ok("status -o json").json();
    let mut names = all.as_array().unwrap().iter().map(|entry| &entry["name"]);
    assert!(names.any(|listed| listed == name), "{all}");
    // A reader may close the pipe early.
    let mut child = world.spawn(&["status", name, "--all"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    tests::assert_rows!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()) => (Some(0), ""));
}

async fn content_is_printed_and_written(world: &World, name: &str, bundle: &str) {
    let installed = world.installed(name).await;
    let run = world.ok(&format!("content {installed}"));
    let maps = manifests::yaml::documents(run.out.as_bytes()).map(Result::unwrap);
    let maps = maps.filter(|object| object["kind"] == "ConfigMap");
    let names: Vec<_> = maps.map(|map| map["metadata"]["name"].clone()).collect();
    assert_eq!(names, [&*format!("{name}-b"), name], "{run:?}");

    let dir = tempfile::tempdir().unwrap();
    let to = dir.path().join("bundle").display().to_string();
    world.ok(&format!("content {installed} --original -o {to}"));
    let read = |root: &str| fs::read(format!("{root}/manifests/{name}.yaml")).unwrap();
    assert_eq!(read(&to), read(bundle));
    // The error for the name of an instance suggests the name of its Bundle.
    tests::assert_runs! { world;
        "content {name}" => 1, "", "content command failed", "bundles.core.rukpak.io \"{name}\" not found", "{installed}";
    }
}

/// Replaces the content. The new content has permissions on an API that the next Kubernetes does not serve.
async fn is_replaced_by_other_content(world: &World, name: &str, bundle: &TempDir) {
    let first = world.installed(name).await;
    let manifests = bundle.path().join("manifests");
    let file = manifests.join(format!("{name}.yaml"));
    let changed = fs::read_to_string(&file).unwrap().replace("one", "two");
    fs::write(&file, changed).unwrap();
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name},
        "rules": [{"apiGroups": ["networking.k8s.io"], "resources": ["ipaddresses"], "verbs": ["get"]}],
    });
    fs::write(manifests.join("role.yaml"), role.to_string()).unwrap();
    let run = world.ok(&["install", name, text(bundle)]);
    run.err_has("configured");
    assert_ne!(world.installed(name).await, first);
    tests::assert_rows!(world.maps().get(name).await.unwrap().data.unwrap()["text"] => "two");
}

/// Checks that only removed APIs are reported on Kubernetes.
fn removed_apis_are_reported(world: &World, name: &str) {
    let report = world.ok("upgrade-check -o json").json();
    assert_eq!(report["from"], json!({"kubernetes": "1.36"}));
    assert_eq!(report["to"]["kubernetes"], "1.37");
    assert_eq!(report["blocked"], false);
    let mut operators = report["operators"].as_array().unwrap().iter();
    let operator = operators.find(|operator| operator["name"] == name).unwrap();
    assert_eq!(operator["findings"].as_array().unwrap().len(), 1);
    assert_eq!(operator["findings"][0]["effect"], "Warns");
    tests::assert_rows!(&operator["removals"]["found"][0]["apiVersion"] => "networking.k8s.io/v1beta1");
    // The removals of all releases up to the target count; a note names the limit of what the command knows.
    tests::assert_runs! { world;
        "upgrade-check --to 1.41 -o json" => 0, _, "only the API removals that Kubernetes 1.36 announced are known";
    }
}

async fn is_paused_and_resumed(world: &World, name: &str) {
    let instance = format!("bundleinstance.core.rukpak.io/{name}");
    let is_paused = async || world.instances().get(name).await.unwrap().spec.paused;
    tests::assert_runs! { world; "pause {name} --dry-run=server" => 0, "{instance} paused (server dry run)\n"; }
    assert!(!is_paused().await);
    tests::assert_runs! { world;
        "resume {name}" => 0, "{instance} not paused\n";
        "pause {name}" => 0, "{instance} paused\n";
        "pause {name} --dry-run=server" => 0, "{instance} already paused (server dry run)\n";
    }
    assert!(is_paused().await);
    tests::assert_rows!(world.ok(&format!("pause {name} -o json")).json()["spec"]["paused"] => true);

    // A paused instance does not become ready.
    let dir = plain(&[name], "three");
    let other = text(&dir);
    tests::assert_runs! { world;
        "install {name} {other} --timeout 20s" => 1, "", "paused";
        "resume {name} -o name" => 0, "{instance}\n";
        "pause no-such" => 1, "", "\"no-such\" not found";
    }
    assert!(!is_paused().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_installed_and_conflicts_are_reported() {
    let world = world().await;
    let name = unique("image");
    let bundle = plain(&[&name], "one");
    let image = world.registry.image(&format!("{name}:v1"));
    let annotations = "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: plain+v0\n  \
         operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
         operators.operatorframework.io.bundle.metadata.v1: metadata/\n";
    tests::write(bundle.path(), "metadata/annotations.yaml", annotations);
    push(&bundle, &image);

    let install = format!("install {name} {image} --tls-verify=false");
    let with_json = format!("{install} --class plain -o json");
    let run = world.ok(&format!("{with_json} --dry-run=server"));
    let source = &run.json()["spec"]["template"]["spec"]["source"];
    assert_eq!(source["image"]["ref"], image);
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);
    let run = world.ok(&with_json);
    assert_eq!(run.err, "", "data alone");
    let instance = run.json();
    assert_eq!(instance["metadata"]["name"], name);
    assert!(instance["metadata"]["managedFields"].is_null());
    assert_eq!(instance["status"]["inventory"]["count"], 1);
    // The class of the first command is kept.
    tests::assert_runs! { world; "{install} -o name" => 0, "bundleinstance.core.rukpak.io/{name}\n"; }

    let class = async || {
        let instance = world.instances().get(&name).await.unwrap();
        instance.spec.template.spec.provisioner_class_name
    };
    let initial = class().await;
    let foreign_class = "another";
    let change = Patch::Apply(json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance",
        "spec": {"template": {"spec": {"provisionerClassName": foreign_class}}},
    }));
    let (instances, pipeline) = (world.instances(), PatchParams::apply("pipeline").force());
    instances.patch(&name, &pipeline, &change).await.unwrap();
    tests::assert_runs! { world;
        "{with_json}" => 1, "", "conflict with \"pipeline\"", ".spec.template.spec.provisionerClassName",
            "use --force-conflicts to take ownership";
    }
    assert_eq!(class().await.as_deref(), Some(foreign_class));
    world.ok(&format!("{with_json} --force-conflicts"));
    assert_eq!(class().await, initial);
    world.remove(&name);
}

/// A source has one member, so the member of another client is removed.
#[tokio::test(flavor = "multi_thread")]
async fn forced_install_replaces_the_source_of_another_client() {
    let world = world().await;
    let name = unique("forced");
    let image = json!({"ref": world.registry.image("no/such/image:v1"), "pullSecret": "secret"});
    let class = "core-rukpak-io-plain";
    let object = json!({
        "apiVersion": "core.rukpak.io/v1alpha1", "kind": "BundleInstance", "metadata": {"name": name},
        "spec": {"provisionerClassName": class, "template": {"spec": {
            "provisionerClassName": class, "source": {"type": "image", "image": image},
        }}},
    });
    let params = tests::with!(PostParams, field_manager: Some("pipeline".to_owned()));
    let object = serde_json::from_value(object).unwrap();
    world.instances().create(&params, &object).await.unwrap();
    let dir = plain(&[&name], "one");
    let bundle = text(&dir);
    let source = async || {
        let instance = world.instances().get(&name).await.unwrap();
        instance.spec.template.spec.source
    };
    let initial = source().await;
    tests::assert_runs! { world;
        "install {name} {bundle}" => 1, "", "conflict with \"pipeline\"", "use --force-conflicts to take ownership";
    }
    assert_eq!(source().await, initial);
    tests::assert_runs! { world; "install {name} {bundle} --force-conflicts" => 0, _; }
    let forced = source().await;
    assert_eq!((forced.type_.as_str(), forced.image), ("upload", None));
    world.remove(&name);
}

/// Publishes a bundle in a registry without TLS.
pub(crate) fn push(bundle: &TempDir, image: &str) {
    let mut command = Command::new(binary());
    let command = command.args(["push", "--quiet", "--tls-verify=false", text(bundle), image]);
    assert!(command.status().unwrap().success());
}

// parity: k2, k3, k5
#[tokio::test(flavor = "multi_thread")]
async fn problems_are_printed_by_every_command() {
    let world = world().await;
    let name = unique("rejected");
    let dir = plain(&[&name], "one");
    let bundle = text(&dir);
    let bad = dir.path().join("manifests/bad.yaml");
    fs::write(&bad, "kind: [").unwrap();
    tests::assert_runs! { world;
        "install {name} /no/such/directory" => 1, "", "No such file or directory";
        "install {name} {bundle}" => 1, "", "no changes were made";
    }
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);

    let image = world.registry.image("no/such/image:v1");
    tests::assert_runs! { world;
        "install {name} {image} --tls-verify=false" => 1, "", "is not ready:", "no/such/image";
        "status {name}" => 0, ["invalid bundle, no objects in the cluster", "─ UnpackFailed: "];
        "status {name} -o yaml" => 0, ["reason: UnpackFailed"];
        "content badname" => 1, "", "content command failed: bundles.core.rukpak.io \"badname\" not found";
    }
    let bundles = world.bundles().list(&ListParams::default()).await.unwrap();
    let mut bundles = bundles.into_iter().map(|bundle| bundle.name_any());
    let failing = bundles.find(|bundle| bundle.starts_with(&name)).unwrap();
    // The instance is kept and can be corrected.
    fs::remove_file(&bad).unwrap();
    tests::assert_runs! { world;
        "content {failing}" => 1, "", "content command failed: error: url is not available", "is Failing";
        "install {name} {bundle} --class plain" => 0, _;
    }
    world.remove(&name);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_on_timeout_and_on_signal() {
    let world = world().await;
    let name = unique("standby");
    let dir = plain(&[&name], "one");
    let bundle = text(&dir);
    // Another provisioner holds the Lease, so this one accepts no content.
    let now = format!("{:.6}", k8s_openapi::jiff::Timestamp::now());
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "core.rukpak.io", "namespace": "rukpak-system"},
        "spec": {"holderIdentity": "other", "leaseDurationSeconds": 3600, "acquireTime": now, "renewTime": now},
    });
    world.apply(lease).await;
    let standby = tests::Provisioner::with(&binary(), world.account.path(), &["--leader-elect"]);
    let address = standby.content();
    tests::assert_runs! { world;
        "install {name} {bundle} --content-address {address} --timeout 15s"
            => 1, "", "failed to upload the content of Bundle", "retried for 15s";
        "install {name} {bundle} --content-address https://127.0.0.1:1 --timeout 5s"
            => 1, "", "failed to reach the content service at 127.0.0.1:1", "retried for 5s";
        "install {name} {bundle}" => 0, _;
    }

    // Without a node, the pod of this bundle never becomes ready.
    let operator = unique("late");
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": operator, "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "example.com/a:b"}]},
    });
    let dir = plain(&[], "");
    fs::write(dir.path().join("manifests/pod.yaml"), pod.to_string()).unwrap();
    let install = format!("install {operator} {}", text(&dir));
    tests::assert_runs! { world; "{install} --wait=false" => 0, _; }
    world.reports(&operator, "Kind=Pod)").await;
    tests::assert_runs! { world;
        "{install} --timeout 3s" => 1, "", "is not ready; the installation continues", "Kind=Pod)(default/{operator})";
    }
    let run = interrupt_when_listening(world.spawn(&install)).await;
    let results = ["is kept", "no changes were made"];
    assert!(results.iter().any(|text| run.err.contains(text)), "{run:?}");
    world.instances().get(&operator).await.unwrap();
    world.remove(&operator);
    world.remove(&name);
}
