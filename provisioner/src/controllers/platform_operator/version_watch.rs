//! Watches for changes of the cluster's version: a change of OpenShift's ClusterVersion, or an outage of the API server.

use futures::StreamExt as _;
use kube::{Api, core::GroupVersionKind, runtime::watcher};
use manifests::{
    api::config::{CLUSTER_VERSION, ClusterVersion},
    openshift::ClusterRelease,
};

use crate::controllers::context::Context;
use apply::{api_error, backoff::patient};

/// Watches the ClusterVersion while its kind is served. During an update of the cluster it is written every few seconds;
/// only a change of the versions counts.
pub(crate) async fn follow(ctx: &Context) {
    let kind = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    ctx.discovery
        .while_served(&kind, |served| async move {
            if served.is_none() {
                return;
            }
            let api: Api<ClusterVersion> = Api::all(ctx.client.clone());
            let only = format!("metadata.name={CLUSTER_VERSION}");
            let events = watcher::watcher(api, watcher::Config::default().fields(&only));
            let mut events = patient(events).boxed();
            let mut last: Option<ClusterRelease> = None;
            let mut is_listed = false;
            while let Some(event) = events.next().await {
                if matches!(event, Ok(watcher::Event::InitApply(_))) {
                    is_listed = true;
                }
                let is_news = match event {
                    Ok(watcher::Event::Apply(version) | watcher::Event::InitApply(version)) => {
                        let now = Some(version.status.unwrap_or_default().cluster());
                        std::mem::replace(&mut last, now.clone()) != now
                    }
                    Ok(watcher::Event::Delete(_)) => last.take().is_some(),
                    Ok(watcher::Event::Init) => false,
                    // The ClusterVersion may have been deleted while the watch was interrupted.
                    Ok(watcher::Event::InitDone) => {
                        !std::mem::take(&mut is_listed) && last.take().is_some()
                    }
                    // The API server may have another version after its restart.
                    Err(error) => api_error::is_outage(api_error::code(&error)),
                };
                if is_news {
                    ctx.versions.doubt();
                }
            }
        })
        .await;
}
