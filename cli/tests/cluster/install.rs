//! `rukpak install`, and the commands that read or pause an installation: `status`, `content`, `pause`, `resume` and
//! `upgrade-check`.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::world::{World, binary, plain, text, unique, until_it_listens, world};

// parity: k1, k4, platform-18
#[tokio::test(flavor = "multi_thread")]
async fn folder_is_installed_reported_replaced_and_paused() {
    let world = world().await;
    let name = unique("folder");
    let mut watch = world.command(
        world.cluster.kubeconfig_path(),
        &["status", &name, "--watch"],
    );
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut wait_for = |text: &str| {
        let found = lines.find(|line| line.as_ref().unwrap().contains(text));
        found.unwrap().unwrap();
    };
    wait_for("gone");
    let bundle = plain(&[&name, &format!("{name}-b")], "one");
    is_uploaded_once(world, &name, &bundle).await;
    wait_for("installed  yes");
    is_reported(world, &name).await;
    content_is_printed_and_written(world, &name, &bundle).await;
    is_replaced_by_other_content(world, &name, &bundle).await;
    removed_apis_are_reported(world, &name);
    is_paused_and_resumed(world, &name).await;
    world.remove(&name);
    wait_for("gone");
    world.fail(&format!("status {name}")).says(&format!(
        "bundleinstances.core.rukpak.io \"{name}\" not found"
    ));
    watch.kill().unwrap();
    watch.wait().unwrap();
}

async fn is_uploaded_once(world: &World, name: &str, bundle: &TempDir) {
    let install = ["install", name, text(bundle)];
    let run = world.ok(&install);
    let instance = format!("bundleinstance.core.rukpak.io/{name}");
    assert_eq!(
        run.out,
        format!("{instance} installed: 2 objects, healthy\n")
    );
    run.says(&format!("{instance} created"));
    let first = world.installed(name).await;
    let digest = Command::new(binary())
        .args(["unpack", "--format", "json", text(bundle)])
        .output();
    let digest: Value = serde_json::from_slice(&digest.unwrap().stdout).unwrap();
    let made = world.bundles().get(&first).await.unwrap();
    let upload = made.spec.source.upload.unwrap();
    assert_eq!(upload.digest.as_deref(), digest["digest"].as_str());
    assert_eq!(made.status.unwrap().content_digest, upload.digest);

    // Times and the order of files are no part of the content.
    let file = bundle.path().join(format!("manifests/{name}.yaml"));
    let same = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(&file, &same).unwrap();
    let mut touch = Command::new("touch");
    let touched = touch.args(["-d", "2001-01-01"]).arg(&file).status();
    assert!(touched.unwrap().success());
    world.ok(&install).says("unchanged");
    assert_eq!(world.installed(name).await, first);
}

async fn is_reported(world: &World, name: &str) {
    let installed = world.installed(name).await;
    let run = world.ok(&format!("status {name}"));
    assert_eq!(
        run.out,
        format!(
            "BundleInstance {name} in default: Ready, installed, healthy\n\
             ├─ Bundle {installed} Unpacked, installed\n\
             │  └─ from upload\n\
             └─ 2 objects\n   \
                ├─ ✓ ConfigMap default/{name}\n   \
                └─ ✓ ConfigMap default/{name}-b\n"
        )
    );
    let summary = world.ok(&format!("status {name} -o json")).json();
    assert_eq!(summary["healthy"], true);
    assert_eq!(summary["phase"], "Ready");
    assert_eq!(summary["rollout"], Value::Null);
    assert_eq!(summary["objects"][0]["name"], name);
    assert_eq!(summary["bundles"][0]["name"], installed);
    let all = world.ok("status -o json").json();
    let mut names = all
        .as_array()
        .unwrap()
        .iter()
        .map(|instance| &instance["name"]);
    assert!(names.any(|known| known == name), "{all}");
    let table = world.ok("status").out;
    assert!(table.starts_with("NAME "), "{table}");
    let row = table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(
        row.contains("installed") && row.contains(&installed),
        "{row}"
    );
    // Readers that have seen enough close the pipe.
    let mut child = world.spawn(&["status", name, "--all"]);
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), error.as_str()), (Some(0), ""));
}

async fn content_is_printed_and_written(world: &World, name: &str, bundle: &TempDir) {
    let installed = world.installed(name).await;
    let run = world.ok(&format!("content {installed}"));
    let maps = manifests::yaml::documents(run.out.as_bytes()).map(Result::unwrap);
    let maps = maps.filter(|object| object["kind"] == "ConfigMap");
    let names: Vec<String> = maps
        .map(|map| map["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names, [&*format!("{name}-b"), name], "{run:?}");

    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("bundle");
    let to = to.to_str().unwrap();
    world.ok(&format!("content {installed} --original -o {to}"));
    let read = |root: &str| fs::read(format!("{root}/manifests/{name}.yaml")).unwrap();
    assert_eq!(read(to), read(text(bundle)));

    // The message for the name of an instance has the name of its Bundle.
    world
        .fail(&format!("content {name}"))
        .says("content command failed")
        .says(&format!("bundles.core.rukpak.io \"{name}\" not found"))
        .says(&installed);
}

/// The new content has a right to an API that the next Kubernetes does not serve.
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
    world
        .ok(&["install", name, text(bundle)])
        .says("configured");
    assert_ne!(world.installed(name).await, first);
    let map = world.maps().get(name).await.unwrap();
    assert_eq!(map.data.unwrap()["text"], "two");
}

/// On Kubernetes only APIs that go count.
fn removed_apis_are_reported(world: &World, name: &str) {
    let report = world.ok("upgrade-check -o json").json();
    assert_eq!(report["from"], json!({"kubernetes": "1.36"}));
    assert_eq!(
        (&report["to"]["kubernetes"], &report["blocked"]),
        (&json!("1.37"), &json!(false))
    );
    let operators = report["operators"].as_array().unwrap();
    let ours = operators
        .iter()
        .find(|operator| operator["name"] == name)
        .unwrap();
    assert_eq!(ours["findings"].as_array().unwrap().len(), 1);
    assert_eq!(ours["findings"][0]["effect"], "Warns");
    assert_eq!(
        ours["removals"]["found"][0]["apiVersion"],
        "networking.k8s.io/v1beta1"
    );
    // The removals of all releases up to the target count; a note names the limit of what the command knows.
    world
        .ok("upgrade-check --to 1.41 -o json")
        .says("only that is known which Kubernetes 1.36 has announced");
}

async fn is_paused_and_resumed(world: &World, name: &str) {
    let instance = format!("bundleinstance.core.rukpak.io/{name}");
    let is_paused = async || world.instances().get(name).await.unwrap().spec.paused;
    let run = world.ok(&format!("pause {name} --dry-run=server"));
    assert_eq!(run.out, format!("{instance} paused (server dry run)\n"));
    assert!(!is_paused().await);
    let run = world.ok(&format!("resume {name}"));
    assert_eq!(run.out, format!("{instance} was not paused\n"));
    let run = world.ok(&format!("pause {name}"));
    assert_eq!(run.out, format!("{instance} paused\n"));
    assert!(is_paused().await);
    let run = world.ok(&format!("pause {name} -o json"));
    assert_eq!(run.json()["spec"]["paused"], true);

    // A paused instance does not become ready.
    let other = plain(&[name], "three");
    world
        .fail(&format!("install {name} {} --timeout 20s", text(&other)))
        .says("paused");
    let run = world.ok(&format!("resume {name} -o name"));
    assert_eq!(run.out, format!("{instance}\n"));
    assert!(!is_paused().await);
    world.fail("pause no-such").says("\"no-such\" not found");
}

#[tokio::test(flavor = "multi_thread")]
async fn images_are_installed_without_the_fields_of_others() {
    let world = world().await;
    let name = unique("image");
    let bundle = plain(&[&name], "one");
    let image = world.registry.image(&format!("{name}:v1"));
    fs::create_dir(bundle.path().join("metadata")).unwrap();
    fs::write(
        bundle.path().join("metadata/annotations.yaml"),
        "annotations:\n  operators.operatorframework.io.bundle.mediatype.v1: plain+v0\n  \
         operators.operatorframework.io.bundle.manifests.v1: manifests/\n  \
         operators.operatorframework.io.bundle.metadata.v1: metadata/\n",
    )
    .unwrap();
    let pushed = Command::new(binary())
        .args(["push", "--quiet", "--tls-verify=false"])
        .args([text(&bundle), &image])
        .status();
    assert!(pushed.unwrap().success());

    let install = ["install", &name, &image, "--tls-verify=false"];
    let with_json = [&install[..], &["--class", "plain", "-o", "json"]].concat();
    let run = world.ok(&[&with_json[..], &["--dry-run=server"]].concat());
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
    let run = world.ok(&[&install[..], &["-o", "name"]].concat());
    assert_eq!(run.out, format!("bundleinstance.core.rukpak.io/{name}\n"));

    let class = async || {
        let instance = world.instances().get(&name).await.unwrap();
        instance.spec.template.spec.provisioner_class_name
    };
    let ours = class().await;
    let theirs = "another";
    let change = Patch::Apply(json!({
        "apiVersion": "core.rukpak.io/v1alpha1",
        "kind": "BundleInstance",
        "spec": {"template": {"spec": {"provisionerClassName": theirs}}},
    }));
    let (instances, pipeline) = (world.instances(), PatchParams::apply("pipeline").force());
    let patched = instances.patch(&name, &pipeline, &change).await;
    patched.unwrap();
    world
        .fail(&with_json)
        .says("conflict with \"pipeline\"")
        .says(".spec.template.spec.provisionerClassName")
        .says("take them over with --force-conflicts");
    assert_eq!(class().await.as_deref(), Some(theirs));
    world.ok(&[&with_json[..], &["--force-conflicts"]].concat());
    assert_eq!(class().await, ours);
    world.remove(&name);
}

// parity: k2, k3, k5
#[tokio::test(flavor = "multi_thread")]
async fn problems_are_printed_by_every_command() {
    let world = world().await;
    let name = unique("refused");
    world
        .fail(&format!("install {name} /no/such/folder"))
        .says("No such file or directory");
    let bundle = plain(&[&name], "one");
    let bad = bundle.path().join("manifests/bad.yaml");
    fs::write(&bad, "kind: [").unwrap();
    world
        .fail(&format!("install {name} {}", text(&bundle)))
        .says("nothing was changed");
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);

    let image = world.registry.image("no/such/image:v1");
    world
        .fail(&format!("install {name} {image} --tls-verify=false"))
        .says("is not as it should be")
        .says("no/such/image");
    let run = world.ok(&format!("status {name}"));
    run.out_has("no good bundle, nothing is in the cluster");
    run.out_has("─ UnpackFailed: ");
    let run = world.ok(&format!("status {name} -o yaml"));
    run.out_has("reason: UnpackFailed");
    world
        .fail("content badname")
        .says("content command failed: bundles.core.rukpak.io \"badname\" not found");
    let bundles = world.bundles().list(&ListParams::default()).await.unwrap();
    let mut bundles = bundles
        .into_iter()
        .filter_map(|bundle| bundle.metadata.name);
    let failing = bundles.find(|bundle| bundle.starts_with(&name)).unwrap();
    world
        .fail(&format!("content {failing}"))
        .says("content command failed: error: url is not available")
        .says("is Failing");
    // The instance is kept and can be corrected.
    fs::remove_file(&bad).unwrap();
    world.ok(&format!("install {name} {} --class plain", text(&bundle)));
    world.remove(&name);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_in_time_and_with_a_signal() {
    let world = world().await;
    let name = unique("standby");
    let bundle = plain(&[&name], "one");
    // Another provisioner has the Lease, so that this one takes no content.
    let now = k8s_openapi::jiff::Timestamp::now();
    world
        .apply(&json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "core.rukpak.io", "namespace": "rukpak-system"},
            "spec": {
                "holderIdentity": "somebody",
                "leaseDurationSeconds": 3600,
                "acquireTime": format!("{now:.6}"),
                "renewTime": format!("{now:.6}"),
            },
        }))
        .await;
    let standby = tests::Provisioner::with(&binary(), &world.account.1, &["--leader-elect"]);
    let install = format!("install {name} {}", text(&bundle));
    world
        .run_at(&standby.content(), &format!("{install} --timeout 5s"))
        .exits(1)
        .says("failed to upload the content of Bundle")
        .says("it was tried for 5s");
    world.ok(&install);

    // Without a node nothing of this bundle becomes ready.
    let operator = unique("late");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": operator, "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "example.com/a:b"}]},
    });
    let folder = plain(&[], "");
    fs::write(folder.path().join("manifests/pod.yaml"), pod.to_string()).unwrap();
    let install = format!("install {operator} {}", text(&folder));
    world.ok(&format!("{install} --wait=false"));
    world
        .fail(&format!("{install} --timeout 3s"))
        .says("is not ready after 3s; its installation goes on")
        .says(&format!("Kind=Pod)(default/{operator})"));
    let run = until_it_listens(world.spawn(&install)).await;
    assert!(
        run.err.contains("stays") || run.err.contains("nothing was changed"),
        "{run:?}"
    );
    world.instances().get(&operator).await.unwrap();
    world.remove(&operator);
    world.remove(&name);
}
