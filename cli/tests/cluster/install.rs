//! `rukpak install`.

use std::{fs, process::Command};

use kube::api::{Patch, PatchParams};

use crate::world::{binary, eventually, plain, text, unique, world};

// parity: k1
#[tokio::test(flavor = "multi_thread")]
async fn a_folder_is_uploaded_once_and_changed_content_is_another_bundle() {
    let world = world().await;
    let name = unique("folder");
    let bundle = plain(&[&name], "one");
    let run = world.ok(&format!("install {name} {}", text(&bundle)));
    let told = format!("bundleinstance.core.rukpak.io/{name}");
    assert_eq!(run.out, format!("{told} installed: 1 object, healthy\n"));
    run.says(&format!("{told} created"));
    let first = installed(&name).await;
    let digest = Command::new(binary())
        .args(["unpack", "--format", "json", text(&bundle)])
        .output();
    let digest: serde_json::Value = serde_json::from_slice(&digest.unwrap().stdout).unwrap();
    let made = world.bundles().get(&first).await.unwrap();
    let upload = made.spec.source.upload.unwrap();
    assert_eq!(upload.digest.as_deref(), digest["digest"].as_str());
    assert_eq!(made.status.unwrap().content_digest, upload.digest);

    // Neither a new time nor another order makes other content.
    let file = bundle.path().join(format!("manifests/{name}.yaml"));
    let same = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    fs::write(&file, &same).unwrap();
    let touched = Command::new("touch")
        .args(["-d", "2001-01-01"])
        .arg(&file)
        .status();
    assert!(touched.unwrap().success());
    world
        .ok(&format!("install {name} {}", text(&bundle)))
        .says("unchanged");
    assert_eq!(installed(&name).await, first);

    let text_now = String::from_utf8(same).unwrap().replace("one", "two");
    fs::write(&file, text_now).unwrap();
    world
        .ok(&format!("install {name} {}", text(&bundle)))
        .says("configured");
    let second = installed(&name).await;
    assert_ne!(second, first);
    let map = kube::Api::<k8s_openapi::api::core::v1::ConfigMap>::namespaced(
        world.cluster.client().unwrap(),
        "default",
    );
    let map = map.get(&name).await.unwrap();
    assert_eq!(map.data.unwrap()["text"], "two");
    world.remove(&name);
}

async fn installed(name: &str) -> String {
    let found = world().await.instances().get(name).await.unwrap();
    found.status.unwrap().installed_bundle_name.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_named_and_what_programs_read_is_json() {
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
    let pushed = Command::new(crate::world::binary())
        .args([
            "push",
            "--quiet",
            "--tls-verify=false",
            text(&bundle),
            &image,
        ])
        .status();
    assert!(pushed.unwrap().success());

    let args = [
        "install",
        &name,
        &image,
        "--class",
        "plain",
        "--tls-verify=false",
        "-o",
        "json",
    ];
    let dry = [&args[..], &["--dry-run=server"]].concat();
    let run = world.ok(&dry);
    assert_eq!(
        run.json()["spec"]["template"]["spec"]["source"]["image"]["ref"],
        image
    );
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);

    let run = world.ok(&args);
    assert_eq!(run.err, "", "data alone");
    let instance = run.json();
    assert_eq!(instance["metadata"]["name"], name);
    assert!(instance["metadata"]["managedFields"].is_null());
    assert_eq!(instance["status"]["inventory"]["count"], 1);

    // What was said earlier stays said: the class, above all.
    let run = world.ok(&format!(
        "install {name} {image} --tls-verify=false -o name"
    ));
    assert_eq!(run.out, format!("bundleinstance.core.rukpak.io/{name}\n"));
    world.remove(&name);
}

// parity: k2, k3
#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_here_never_reaches_the_cluster() {
    let world = world().await;
    let name = unique("refused");
    let missing = "/no/such/folder";
    world
        .fail(&format!("install {name} {missing}"))
        .says("No such file or directory");
    let bundle = plain(&[&name], "one");
    fs::write(bundle.path().join("manifests/bad.yaml"), "kind: [").unwrap();
    world
        .fail(&format!("install {name} {}", text(&bundle)))
        .says("nothing was changed");
    for args in [
        &["install", &name, text(&bundle), "--pull-secret", "x"][..],
        &["install", &name, "git+https://example.com/tide"],
        &["install", &name, "quay.io/a/b:c", "--service-account", "x"],
        &["install", "Not A Name", text(&bundle)],
        &["install", "a?b=c", text(&bundle)],
    ] {
        world.run(args).exits(2);
    }
    assert_eq!(world.instances().get_opt(&name).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn content_that_is_refused_for_now_is_sent_until_the_time_is_up() {
    let world = world().await;
    let name = unique("standby");
    let bundle = plain(&[&name], "one");
    // Somebody else has the Lease, so that this one takes nothing.
    let now = k8s_openapi::jiff::Timestamp::now();
    world
        .apply(&serde_json::json!({
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
    let kubeconfig = &world.account.1;
    let standby = tests::Provisioner::with(&binary(), kubeconfig, &["--leader-elect"]);
    let output = Command::new(binary())
        .args(["install", &name, text(&bundle), "--timeout", "5s"])
        .args(["--content-address", &standby.content(), "--kubeconfig"])
        .arg(world.cluster.kubeconfig_path())
        .output();
    let run: crate::world::Run = output.unwrap().into();
    run.exits(1)
        .says("failed to upload the content of Bundle")
        .says("it was tried for 5s");
    world.ok(&format!("install {name} {}", text(&bundle)));
    world.remove(&name);
}

// parity: k3
#[tokio::test(flavor = "multi_thread")]
async fn what_the_provisioner_finds_is_printed() {
    let world = world().await;
    let name = unique("missing");
    let image = world.registry.image("no/such/image:v1");
    world
        .fail(&format!("install {name} {image} --tls-verify=false"))
        .says("is not as it should be")
        .says("no/such/image");
    // The instance stays, to be corrected.
    let bundle = plain(&[&name], "one");
    world.ok(&format!("install {name} {} --class plain", text(&bundle)));
    world.remove(&name);
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_that_others_have_set_are_left_unless_they_are_taken_by_force() {
    let world = world().await;
    let name = unique("conflict");
    let bundle = plain(&[&name], "one");
    let install = ["install", &name, text(&bundle), "--class", "plain"];
    world.ok(&install);
    let class = async || {
        let instance = world.instances().get(&name).await.unwrap();
        instance.spec.template.spec.provisioner_class_name
    };
    let ours = class().await;
    let theirs = "another";
    let change = serde_json::json!({
        "apiVersion": "core.rukpak.io/v1alpha1",
        "kind": "BundleInstance",
        "spec": {"template": {"spec": {"provisionerClassName": theirs}}},
    });
    let pipeline = PatchParams::apply("pipeline").force();
    world
        .instances()
        .patch(&name, &pipeline, &Patch::Apply(change))
        .await
        .unwrap();

    world
        .fail(&install)
        .says("conflict with \"pipeline\"")
        .says(".spec.template.spec.provisionerClassName")
        .says("take them over with --force-conflicts");
    assert_eq!(
        class().await.as_deref(),
        Some(theirs),
        "what is refused changes nothing"
    );
    let force = [&install[..], &["--force-conflicts"]].concat();
    world.ok(&force);
    assert_eq!(class().await, ours);
    world.remove(&name);
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_ends_in_time_and_with_a_signal() {
    let world = world().await;
    let name = unique("paused");
    let bundle = plain(&[&name], "one");
    world.ok(&format!("install {name} {} --wait=false", text(&bundle)));
    // Without a node nothing of it becomes ready.
    let operator = unique("late");
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("manifests")).unwrap();
    let pod = serde_json::json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": operator, "namespace": "default"},
        "spec": {"containers": [{"name": "a", "image": "example.com/a:b"}]},
    });
    fs::write(folder.path().join("manifests/pod.yaml"), pod.to_string()).unwrap();
    world
        .fail(&format!(
            "install {operator} {} --timeout 3s",
            text(&folder)
        ))
        .says("is not ready after 3s; its installation goes on")
        .says(&format!("Kind=Pod)(default/{operator})"));

    let child = world.spawn(&["install", &operator, text(&folder)]);
    eventually("waiting", async || {
        // It waits for signals as soon as it talks to the cluster.
        let fields = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = fields
            .lines()
            .find_map(|line| line.strip_prefix("SigCgt:\t"));
        let caught = u64::from_str_radix(caught.unwrap(), 16).unwrap();
        if caught & 2 == 0 { Err(fields) } else { Ok(()) }
    })
    .await;
    let sent = Command::new("kill")
        .arg("-INT")
        .arg(child.id().to_string())
        .status();
    assert!(sent.unwrap().success());
    let run: crate::world::Run = child.wait_with_output().unwrap().into();
    let run = run.exits(130);
    assert!(
        run.err.contains("stays") || run.err.contains("nothing was changed"),
        "{run:?}"
    );
    world.instances().get(&operator).await.unwrap();
    world.remove(&operator);
    world.remove(&name);
}
