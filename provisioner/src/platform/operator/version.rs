//! When the cluster's version may have changed: OpenShift's ClusterVersion is another one, or the API server was away.

use futures::StreamExt as _;
use kube::{Api, core::GroupVersionKind, runtime::watcher};
use manifests::{
    api::config::{CLUSTER_VERSION, ClusterVersion},
    openshift::Cluster,
};

use crate::context::Context;
use apply::{api_error as answer, backoff::patient};

/// Follows the ClusterVersion, whenever such a thing is served. While a cluster is upgraded it is written every few seconds;
/// only another version is news.
pub(super) async fn follow(ctx: &Context) {
    let wanted = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    ctx.kinds
        .while_served(&wanted, |served| async move {
            if served.is_none() {
                return;
            }
            let api: Api<ClusterVersion> = Api::all(ctx.client.clone());
            let only = format!("metadata.name={CLUSTER_VERSION}");
            let events = watcher::watcher(api, watcher::Config::default().fields(&only));
            let mut events = patient(events).boxed();
            let mut known: Option<Cluster> = None;
            let mut is_listed = false;
            while let Some(event) = events.next().await {
                if matches!(event, Ok(watcher::Event::InitApply(_))) {
                    is_listed = true;
                }
                let is_news = match event {
                    Ok(watcher::Event::Apply(version) | watcher::Event::InitApply(version)) => {
                        let now = Some(version.status.unwrap_or_default().cluster());
                        std::mem::replace(&mut known, now.clone()) != now
                    }
                    Ok(watcher::Event::Delete(_)) => known.take().is_some(),
                    Ok(watcher::Event::Init) => false,
                    // It may have gone while nobody watched.
                    Ok(watcher::Event::InitDone) => {
                        !std::mem::take(&mut is_listed) && known.take().is_some()
                    }
                    // The API server may come back as another version.
                    Err(error) => answer::is_outage(answer::code(&error)),
                };
                if is_news {
                    ctx.versions.doubt();
                }
            }
        })
        .await;
}
