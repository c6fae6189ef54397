//! How many Jobs work at once, in a cluster where all count.

use super::{
    alone::{bundle, cluster, start},
    *,
};

const MOST: usize = 16;

#[tokio::test]
async fn only_so_many_jobs_work_at_once_and_the_next_one_follows_when_one_has_ended() {
    let cluster = cluster().await;
    let client = cluster.client().unwrap();
    let folder = storage();
    let (first, node) = start(&cluster, &folder).await;
    let names: Vec<String> = (0..MOST + 2).map(|it| format!("turn-{it}")).collect();
    let bundles: Api<Bundle> = Api::all(client.clone());
    for name in &names {
        bundle(&client, name).await;
    }
    let waiting = waiting(&bundles, 2).await;
    let working = async || jobs(&node).await;
    let all = |found: &Vec<String>| found.len() == MOST;
    until("as many Jobs as may work", working, all).await;

    // One that begins knows what works already.
    first.signal("KILL").await;
    drop(first);
    let (_second, node) = start(&cluster, &folder).await;
    let done: Vec<_> = names.iter().filter(|it| !waiting.contains(it)).collect();
    let first = node.pod(done[0]).await;
    node.run(&first, &small("first")).await.unwrap();
    let next = eventually("the next Job", async || {
        let found = jobs(&node).await;
        let next = waiting.iter().find(|it| found.contains(it));
        next.cloned().ok_or_else(|| format!("{found:?}"))
    })
    .await;
    let last = waiting.iter().find(|it| **it != next).unwrap();
    assert!(node.find_job(last).await.is_none());
    // One that fails, or whose Bundle goes, makes room as well.
    delete(&bundles, done[1]).await;
    let pod = node.pod(last).await;
    node.run(&pod, &small("last")).await.unwrap();
    crate::support::unpacked(&bundles, last).await;
}

/// The Bundles whose Jobs there are.
async fn jobs(node: &Kubelet) -> Vec<String> {
    let owner = |job: &Job| job.labels()["core.rukpak.io/owner-name"].clone();
    list(&node.jobs()).await.iter().map(owner).collect()
}

/// Those that say that they wait, as soon as there are so many.
async fn waiting(bundles: &Api<Bundle>, count: usize) -> Vec<String> {
    let waiting = async || {
        let mut all = list(bundles).await;
        all.retain(|bundle| {
            let status = bundle.status.as_ref();
            let unpacked = status.and_then(|status| condition(&status.conditions, "Unpacked"));
            unpacked.is_some_and(|it| it.message.contains("queued behind other unpack Jobs"))
        });
        all.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    until("Bundles that wait", waiting, |found| found.len() == count).await
}
