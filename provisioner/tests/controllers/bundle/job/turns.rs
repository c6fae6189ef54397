//! How many Jobs work at once, in a cluster where all count.

use super::{
    alone::{bundle, cluster, start},
    *,
};
use crate::support::storage;

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
    eventually("as many Jobs as may work", async || {
        let found = jobs(&node).await;
        if found.len() == MOST {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;

    // One that begins knows what works already.
    first.signal("KILL").await;
    drop(first);
    let (_second, node) = start(&cluster, &folder).await;
    let done: Vec<_> = names.iter().filter(|it| !waiting.contains(it)).collect();
    node.run(&node.pod(done[0]).await, &small("first"))
        .await
        .unwrap();
    let next = eventually("the next Job", async || {
        let found = jobs(&node).await;
        let next = waiting.iter().find(|it| found.contains(it));
        next.cloned().ok_or_else(|| format!("{found:?}"))
    })
    .await;
    let last = waiting.iter().find(|it| **it != next).unwrap();
    assert!(node.find_job(last).await.is_none());
    // One that fails, or whose Bundle goes, makes room as well.
    bundles
        .delete(done[1], &DeleteParams::default())
        .await
        .unwrap();
    node.run(&node.pod(last).await, &small("last"))
        .await
        .unwrap();
    wait_for(bundles, last, "unpacked", |bundle: &Bundle| {
        has(&bundle.status.as_ref()?.conditions, "Unpacked", "True").then_some(())
    })
    .await;
}

/// The Bundles whose Jobs there are.
async fn jobs(node: &Kubelet) -> Vec<String> {
    let all = node.jobs().list(&ListParams::default()).await.unwrap();
    let owner = |job: &Job| job.labels()["core.rukpak.io/owner-name"].clone();
    all.iter().map(owner).collect()
}

/// Those that say that they wait, as soon as there are so many.
async fn waiting(bundles: &Api<Bundle>, count: usize) -> Vec<String> {
    eventually("Bundles that wait", async || {
        let all = bundles.list(&ListParams::default()).await.unwrap();
        let waits = |bundle: &&Bundle| {
            let status = bundle.status.as_ref();
            let unpacked = status.and_then(|status| condition(&status.conditions, "Unpacked"));
            unpacked.is_some_and(|it| it.message.contains("waiting for other unpack Jobs"))
        };
        let found: Vec<_> = all
            .iter()
            .filter(waits)
            .map(ResourceExt::name_any)
            .collect();
        if found.len() == count {
            Ok(found)
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await
}
