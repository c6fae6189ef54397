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
    let queued = waiting(&bundles, 2).await;
    let working = async || list(&node.jobs()).await.len();
    let all = |count: &usize| *count == MAX_JOBS;
    until("as many Jobs as may work", working, all).await;

    // A provisioner that starts counts the running Jobs. The tests of `provisioner::controllers::bundle::job` cover Jobs
    // that end.
    first.kill().await;
    let (_second, node) = start(&cluster, &dir).await;
    assert_eq!(list(&node.jobs()).await.len(), MAX_JOBS);
    let working = names.iter().find(|name| !queued.contains(name));
    delete(&bundles, working.unwrap()).await;
    let last = waiting(&bundles, 1).await;
    let next = queued.iter().find(|name| !last.contains(name)).unwrap();
    node.job(next).await;
    assert!(node.find_job(&last[0]).await.is_none());
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
