//! When the cluster's version may have changed: OpenShift's ClusterVersion is another one, or the apiserver was away.

use futures::StreamExt as _;
use kube::{
    Api,
    core::{DynamicObject, GroupVersionKind, PartialObjectMeta},
    runtime::{WatchStreamExt as _, watcher},
};

use crate::{context::Context, watches::Pauses};

/// Follows the ClusterVersion, whenever such a thing is served.
pub(super) async fn follow(ctx: &Context) {
    let wanted = GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterVersion");
    ctx.kinds
        .while_served(&wanted, |served| async move {
            let Some(served) = served else {
                return;
            };
            // Each change of its status is one of its metadata.
            let api: Api<PartialObjectMeta<DynamicObject>> =
                Api::all_with(ctx.client.clone(), &served.resource);
            watcher::watcher(api, watcher::Config::default())
                .backoff(Pauses::default())
                .for_each(|_| {
                    ctx.versions.doubt();
                    std::future::ready(())
                })
                .await;
        })
        .await;
}
