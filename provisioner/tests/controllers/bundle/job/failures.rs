//! What can go wrong on a node stands in the Bundle's condition.

use kubelet::{container, ended, waits};

use super::super::irregular::{linked, skipped};
use super::*;
use crate::support::storage;

// parity: b6
#[tokio::test]
async fn b06_what_the_kubelet_says_about_an_image_is_repeated_and_forgotten_when_it_has_it() {
    let world = place().await;
    let name = unique("b6");
    let content = small(&name);
    world.bundle(&name, "plain", nowhere(&name)).await;
    let node = node(world).await;
    let pod = node.pod(&name).await;
    let words = format!("Back-off pulling image \"127.0.0.1:1/{name}:v1\"");
    node.report(&pod, "Pending", &waits("ImagePullBackOff", &words))
        .await;
    let bundle = told(world, &name, "UnpackPending", &words).await;
    assert_eq!(message(&bundle), words);
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Pending));
    node.run(&pod, &content).await.unwrap();
    world.wait_bundle(&name, "Unpacked", "True").await;
}

// parity: rukpak-17
#[tokio::test]
async fn whatever_keeps_a_pod_from_starting_is_told() {
    let world = place().await;
    let name = unique("held");
    world.bundle(&name, "plain", nowhere(&name)).await;
    let node = node(world).await;
    let pod = node.pod(&name).await;
    let unscheduled = json!({"conditions": [{
        "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
        "message": "0/3 nodes are available: 3 node(s) had untolerated taint(s)",
    }]});
    node.status(&pod, unscheduled).await;
    told(
        world,
        &name,
        "UnpackPending",
        "3 node(s) had untolerated taint(s)",
    )
    .await;
    let scheduled = json!({"conditions": [{"type": "PodScheduled", "status": "True"}]});
    node.status(&pod, scheduled).await;
    let unsupported = waits("CreateContainerError", "stat : no such file or directory");
    node.report(&pod, "Pending", &unsupported).await;
    told(
        world,
        &name,
        "UnpackPending",
        "--unpack-mode=init-container",
    )
    .await;

    let unreadable = waits("InvalidImageName", "couldn't parse image name \"x\"");
    node.report(&pod, "Pending", &unreadable).await;
    let bundle = told(world, &name, "UnpackFailed", "couldn't parse image name").await;
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Failing));
    // It will not get better, and nothing is made again for that.
    assert_eq!(node.pod(&name).await.uid(), pod.uid());
}

// parity: complaint-2
#[tokio::test]
async fn a_job_that_failed_is_kept_to_be_looked_at_and_followed_by_another() {
    let world = place().await;
    let name = unique("failed");
    let content = small(&name);
    world.bundle(&name, "plain", nowhere(&name)).await;
    let node = node(world).await;
    let (pod, first) = (node.pod(&name).await, node.job(&name).await);
    // It is not all folders that a node of the tests can be kept from reading.
    let words = "FileUnreadable: \"/bundle/manifests/a.yaml\" may not be read by user 65532";
    node.report(&pod, "Failed", &ended(1, "Error", words)).await;
    let bundle = told(world, &name, "UnpackFailed", words).await;
    assert!(message(&bundle).starts_with("source bundle content: unpack Job rukpak-system/"));
    wait_for(node.jobs(), &first.name_any(), "failed", |job: &Job| {
        let conditions = job.status.as_ref()?.conditions.as_ref()?;
        let failed = conditions.iter().find(|one| one.type_ == "Failed")?;
        (failed.reason.as_deref() == Some("PodFailurePolicy")).then_some(())
    })
    .await;
    let kept = node.pods().get(&pod.name_any()).await.unwrap();
    assert_eq!(node.job(&name).await.uid(), first.uid());

    let second = eventually("another Job", async || {
        let job = node.find_job(&name).await;
        let job = job.filter(|job| job.uid() != first.uid());
        job.ok_or_else(|| "it is still the first".to_owned())
    })
    .await;
    let apart = |job: &Job| job.creation_timestamp().unwrap().0;
    let pause = apart(&second).duration_since(apart(&first)).as_secs();
    assert!(pause >= 14, "{pause} s");
    gone::<Pod>(node.pods(), &kept.name_any()).await;
    // Until it is known how the next one fares, what was wrong is still told.
    told(world, &name, "UnpackFailed", words).await;
    node.run(&node.pod(&name).await, &content).await.unwrap();
    world.wait_bundle(&name, "Unpacked", "True").await;
}

#[tokio::test]
async fn an_eviction_says_nothing_about_the_bundle() {
    let world = place().await;
    let name = unique("evicted");
    let content = small(&name);
    world.bundle(&name, "plain", nowhere(&name)).await;
    let node = node(world).await;
    let (pod, job) = (node.pod(&name).await, node.job(&name).await);
    let stopped = ended(143, "Error", "Stopped: stopped by SIGTERM");
    let evicted = json!({
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
        "containerStatuses": [container("unpack", &stopped)],
    });
    node.status(&pod, evicted).await;
    let next = node.pod(&name).await;
    assert_ne!(next.uid(), pod.uid());
    assert_eq!(node.job(&name).await.uid(), job.uid());
    node.run(&next, &content).await.unwrap();
    world.wait_bundle(&name, "Unpacked", "True").await;
}

// parity: b3
#[tokio::test]
async fn a_program_that_is_stopped_with_its_pod_fails_no_job() {
    let world = place().await;
    let name = unique("stopped");
    let content = small(&name);
    world.bundle(&name, "plain", nowhere(&name)).await;
    let node = node(world).await;
    let (pod, job) = (node.pod(&name).await, node.job(&name).await);
    // As when somebody deletes the pod: nothing says that it had to go.
    let stopped = ended(143, "Error", "Stopped: stopped by SIGTERM");
    node.report(&pod, "Failed", &stopped).await;
    told(
        world,
        &name,
        "UnpackPending",
        "its Job tries again: Stopped: stopped by SIGTERM",
    )
    .await;
    let next = node.pod(&name).await;
    assert_ne!(next.uid(), pod.uid());
    assert_eq!(node.job(&name).await.uid(), job.uid());
    node.run(&next, &content).await.unwrap();
    world.wait_bundle(&name, "Unpacked", "True").await;
}

#[tokio::test]
async fn what_is_too_large_or_no_bundle_is_said_by_the_program() {
    let world = place().await;
    let node = node(world).await;
    let (large, none) = (storage(), storage());
    std::fs::create_dir(large.path().join("manifests")).unwrap();
    std::fs::write(large.path().join("manifests/a.yaml"), "x".repeat(17 << 20)).unwrap();
    std::fs::write(none.path().join("os-release"), "ID=none").unwrap();
    for (folder, text) in [
        (large, "LimitExceeded"),
        (none, "check that the image is a bundle"),
    ] {
        let name = unique("content");
        world.bundle(&name, "plain", nowhere(&name)).await;
        let pod = node.pod(&name).await;
        node.run_folder(&pod, folder.path()).await.unwrap_err();
        told(world, &name, "UnpackFailed", text).await;
    }
}

#[tokio::test]
async fn a_link_among_the_manifests_of_a_job_is_rejected() {
    let world = place().await;
    let (name, node) = (unique("linked"), node(world).await);
    world.bundle(&name, "plain", nowhere(&name)).await;
    let pod = node.pod(&name).await;
    let folder = linked(&name, "manifests/link.yaml");
    let error = node.run_folder(&pod, folder.path()).await.unwrap_err();
    assert_eq!(error.reason(), "EntryRefused");
    let text = "source bundle content: entry \"manifests/link.yaml\" is a symbolic link";
    let bundle = told(world, &name, "EntryRefused", text).await;
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Failing));
}

#[tokio::test]
async fn skipped_entries_of_a_job_are_counted() {
    let world = place().await;
    let (name, node) = (unique("linked"), node(world).await);
    world.bundle(&name, "plain", nowhere(&name)).await;
    let pod = node.pod(&name).await;
    let folder = linked(&name, "tests/link");
    node.run_folder(&pod, folder.path()).await.unwrap();
    let bundle = world.wait_bundle(&name, "Unpacked", "True").await;
    assert_eq!(bundle.status.unwrap().skipped, skipped("tests/link"));
}

#[tokio::test]
async fn a_job_of_somebody_else_is_left_alone() {
    let world = place().await;
    let (name, node) = (unique("taken"), node(world).await);
    // A Bundle's uid is known when it exists, so the Job has to go first.
    world.bundle(&name, "plain", nowhere(&name)).await;
    let ours = node.job(&name).await;
    let job = ours.name_any();
    let disown = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    node.jobs()
        .patch(&job, &PatchParams::default(), &disown)
        .await
        .unwrap();
    told(
        world,
        &name,
        "UnpackFailed",
        "does not belong to this Bundle; delete it",
    )
    .await;
    let params = DeleteParams::background();
    node.jobs().delete(&job, &params).await.unwrap();
    let next = eventually("a Job of our own", async || {
        let job = node.find_job(&name).await;
        let job = job.filter(|job| job.uid() != ours.uid());
        job.ok_or_else(|| "there is none".to_owned())
    })
    .await;
    assert_eq!(next.owner_references().len(), 1);
}
