//! The limit of concurrent Jobs, in a separate cluster, because all Jobs count.

use super::replicas::{bundle, cluster, start};
use super::*;

const MAX_JOBS: usize = 16;

#[tokio::test]
async fn concurrent_jobs_are_limited_and_the_next_follows() {
    let cluster = cluster().await;
    let client = cluster.client().unwrap();
    let dir = storage();
    let (first, node) = start(&cluster, &dir).await;
    let names = (0..MAX_JOBS + 2).map(|number| format!("turn-{number}"));
    let names: Vec<String> = names.collect();
    let bundles: Api<Bundle> = Api::all(client.clone());
    for name in &names {
        bundle(&client, name).await;
    }
    let waiting = waiting(&bundles, 2).await;
    let working = async || jobs(&node).await;
    let all = |found: &Vec<String>| found.len() == MAX_JOBS;
    until("as many Jobs as may work", working, all).await;

    // A provisioner that starts counts the running Jobs.
    first.kill().await;
    let (_second, node) = start(&cluster, &dir).await;
    let done = names.iter().filter(|name| !waiting.contains(name));
    let done: Vec<_> = done.collect();
    let first = node.pod(done[0]).await;
    node.run(&first, &small("first")).await.unwrap();
    let next = eventually("the next Job", async || {
        let found = jobs(&node).await;
        let next = waiting.iter().find(|name| found.contains(name));
        next.cloned().ok_or_else(|| format!("{found:?}"))
    })
    .await;
    let last = waiting.iter().find(|name| **name != next).unwrap();
    assert!(node.find_job(last).await.is_none());
    // A Job that fails, or whose Bundle is deleted, makes room as well.
    delete(&bundles, done[1]).await;
    let pod = node.pod(last).await;
    node.run(&pod, &small("last")).await.unwrap();
    crate::support::unpacked(&bundles, last).await;
}

async fn jobs(node: &Kubelet) -> Vec<String> {
    let owner = |job: &Job| job.labels()["core.rukpak.io/owner-name"].clone();
    list(&node.jobs()).await.iter().map(owner).collect()
}

/// Waits until this many Bundles report that they are queued, and returns them.
async fn waiting(bundles: &Api<Bundle>, count: usize) -> Vec<String> {
    let waiting = async || {
        let mut all = list(bundles).await;
        let queued = "queued behind other unpack Jobs";
        all.retain(|bundle| {
            let conditions = bundle.status.iter().flat_map(|status| &status.conditions);
            let mut messages = conditions.map(|condition| &condition.message);
            messages.any(|message| message.contains(queued))
        });
        all.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    until("Bundles that wait", waiting, |found| found.len() == count).await
}
