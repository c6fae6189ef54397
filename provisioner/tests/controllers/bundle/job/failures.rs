//! Failures on a node are reported in the condition of the Bundle.

use kubelet::{container, ended, waits};

use super::{
    super::rejections::{linked, skipped},
    *,
};

// parity: b6, rukpak-17, rukpak-18
#[tokio::test]
async fn b06_a_pod_that_waits_is_reported_until_it_runs() {
    let world = place().await;
    let (name, node) = (unpacking(world, "b6").await, node(world).await);
    let pod = node.pod(&name).await;
    // Only the node can resolve this tag.
    let reference = format!("127.0.0.1:1/{name}:v1");
    let volume = image_volume(&pod);
    assert_eq!(volume.reference.as_ref(), Some(&reference));
    assert_eq!(volume.pull_policy.as_deref(), Some("Always"));

    // The name of the image cannot be corrected, so the controller creates no other Job.
    let unreadable = waits("InvalidImageName", "couldn't parse image name \"x\"");
    node.report(&pod, "Pending", &unreadable).await;
    let bundle = condition_is(world, &name, "UnpackFailed", "couldn't parse image name").await;
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Failing));
    assert_eq!(node.pod(&name).await.uid(), pod.uid());

    // The message of the kubelet is quoted.
    let quoted = format!("Back-off pulling image \"{reference}\"");
    let back_off = waits("ImagePullBackOff", &quoted);
    node.report(&pod, "Pending", &back_off).await;
    let bundle = condition_is(world, &name, "UnpackPending", &quoted).await;
    assert_eq!(message(&bundle), quoted);
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Pending));
    node.run(&pod, &small(&name)).await.unwrap();
    let bundle = world.wait_bundle(&name, "Unpacked", "True").await;
    assert_has(message(&bundle), "pinned by contentDigest only");
    tests::assert_rows!(bundle.status.unwrap().resolved_source.unwrap().image.unwrap().reference => reference);
}

// parity: b3
#[tokio::test]
async fn b03_pods_that_are_deleted_or_stopped_are_replaced() {
    let world = place().await;
    let (name, node) = (unpacking(world, "b3").await, node(world).await);
    let (first, job) = (node.pod(&name).await, node.job(&name).await);
    let params = DeleteParams::default().grace_period(0);
    let deleted = node.pods().delete(&first.name_any(), &params).await;
    deleted.unwrap();
    wait_deleted::<Pod>(node.pods(), &first.name_any()).await;
    let second = node.pod(&name).await;
    assert_ne!(first.uid(), second.uid(), "deleted");

    // An eviction does not fail the Job.
    let stopped = ended(143, "Error", "Stopped: stopped by SIGTERM");
    let evicted = json!({
        "phase": "Failed",
        "reason": "Evicted",
        "message": "The node was low on resource: memory.",
        "conditions": [{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
        "containerStatuses": [container("unpack", &stopped)],
    });
    node.status(&second, evicted).await;
    let third = node.pod(&name).await;
    assert_ne!(second.uid(), third.uid(), "evicted");

    // The program ends with its pod, without a condition that the pod was disrupted.
    node.report(&third, "Failed", &stopped).await;
    let retried = "its Job retries: Stopped: stopped by SIGTERM";
    condition_is(world, &name, "UnpackPending", retried).await;
    let last = node.pod(&name).await;
    assert_ne!(third.uid(), last.uid(), "stopped");
    assert_eq!(node.job(&name).await.uid(), job.uid());
    node.run(&last, &small(&name)).await.unwrap();
    world.wait_bundle(&name, "Unpacked", "True").await;
}

// parity: complaint-2
#[tokio::test]
async fn failed_job_is_kept_and_followed_by_another() {
    let world = place().await;
    let (name, node) = (unpacking(world, "failed").await, node(world).await);
    let (pod, first) = (node.pod(&name).await, node.job(&name).await);
    // The tests cannot make every directory unreadable for a node.
    let problem = "FileUnreadable: \"/bundle/manifests/a.yaml\" is not readable by user 65532";
    let failed = ended(1, "Error", problem);
    node.report(&pod, "Failed", &failed).await;
    let bundle = condition_is(world, &name, "UnpackFailed", problem).await;
    assert!(message(&bundle).starts_with("source bundle content: unpack Job rukpak-system/"));
    let failed = json!({"type": "Failed", "reason": "PodFailurePolicy"});
    let failed = json!({"status": {"conditions": [failed]}});
    wait_part(node.jobs(), &first.name_any(), failed).await;
    let retained = node.pods().get(&pod.name_any()).await.unwrap();
    assert_eq!(node.job(&name).await.uid(), first.uid());

    let second = next_job(&node, &name, &first).await;
    let created = |job: &Job| job.creation_timestamp().unwrap().0;
    tests::assert_rows!(created(&second).duration_since(created(&first)).as_secs() >= 14 => true);
    wait_deleted::<Pod>(node.pods(), &retained.name_any()).await;
    // The problem is reported until the next Job has a result.
    condition_is(world, &name, "UnpackFailed", problem).await;
    let pod = node.pod(&name).await;
    node.run(&pod, &small(&name)).await.unwrap();
    world.wait_bundle(&name, "Unpacked", "True").await;
}

#[tokio::test]
async fn content_of_jobs_is_checked_like_any_other() {
    let world = place().await;
    let node = node(world).await;
    let deliver = async |link: &str| {
        let (name, dir) = (unpacking(world, "content").await, linked("job", link));
        let pod = node.pod(&name).await;
        (name, node.run_folder(&pod, dir.path()).await)
    };
    // The program of the Job rejects this.
    let (name, sent) = deliver("manifests/link.yaml").await;
    assert_eq!(sent.unwrap_err().reason(), "EntryRefused");
    let refused = "source bundle content: entry \"manifests/link.yaml\" is a symbolic link";
    let bundle = condition_is(world, &name, "EntryRefused", refused).await;
    assert_eq!(bundle.status.unwrap().phase, Some(Phase::Failing));

    // The controller rejects this content, which does not change: no other Job is created.
    let name = unpacking(world, "refused").await;
    let nested = content(&[("manifests/nested/a.yaml", config_map("default", "a", "a"))]);
    node.run(&node.pod(&name).await, &nested).await.unwrap();
    condition_is(world, &name, "UnpackFailed", "manifests/nested").await;
    tests::assert_rows!(node.job(&name).await.annotations().contains_key("core.rukpak.io/handed-over") => true);

    let (name, sent) = deliver("tests/link").await;
    sent.unwrap();
    tests::assert_rows!(world.wait_bundle(&name, "Unpacked", "True").await.status.unwrap().skipped => skipped("tests/link"));
}

#[tokio::test]
async fn foreign_job_is_not_changed() {
    let world = place().await;
    // The uid of a Bundle is known once the Bundle exists, so the Job must be deleted first.
    let (name, node) = (unpacking(world, "taken").await, node(world).await);
    let first = node.job(&name).await;
    let job = first.name_any();
    let disown = json!({"metadata": {"ownerReferences": null}});
    merge(&node.jobs(), &job, &disown).await;
    let foreign = "does not belong to this Bundle; delete it";
    condition_is(world, &name, "UnpackFailed", foreign).await;
    let params = DeleteParams::background();
    node.jobs().delete(&job, &params).await.unwrap();
    tests::assert_rows!(next_job(&node, &name, &first).await.owner_references().len() => 1);
}
