//! Which APIs accounts were seen to call, where an OpenShift counts requests.

use std::time::Duration;

use convert::removal::calls::{Calls, RequestCount};
use kube::{
    Api, Client, ResourceExt as _,
    api::ListParams,
    core::{ApiResource, GroupVersionKind, Object},
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tracing::warn;

use super::Uses;
use crate::context::Context;

/// How often requests are looked at: what goes is announced for years.
const EVERY: Duration = Duration::from_secs(30 * 60);
/// After which time that is tried again if it fails.
const AGAIN: Duration = Duration::from_secs(5 * 60);
/// How many objects are in a page: each may have a day's users of every node.
const PAGE: u32 = 20;
/// How many pages are read: a cluster serves some hundred resources.
const MOST_PAGES: usize = 250;

/// What is not read.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
struct Nothing {}

/// Keeps what was counted, while that is served.
pub(super) async fn follow(ctx: &Context, uses: &Uses) {
    let wanted = GroupVersionKind::gvk("apiserver.openshift.io", "v1", "APIRequestCount");
    ctx.kinds
        .while_served(&wanted, |served| async move {
            let Some(served) = served else {
                uses.count(Calls::default());
                return;
            };
            loop {
                let pause = match read(&ctx.client, &served.resource).await {
                    Ok(calls) => {
                        uses.count(calls);
                        EVERY
                    }
                    Err(error) => {
                        warn!(%error, "APIRequestCounts cannot be read; what was counted before stays, and it is tried again");
                        AGAIN
                    }
                };
                sleep(pause).await;
            }
        })
        .await;
}

async fn read(client: &Client, resource: &ApiResource) -> Result<Calls, kube::Error> {
    let api: Api<Object<Nothing, RequestCount>> = Api::all_with(client.clone(), resource);
    let mut calls = Calls::default();
    let mut params = ListParams::default().limit(PAGE);
    for _ in 0..MOST_PAGES {
        let page = api.list(&params).await?;
        for count in &page.items {
            if let Some(status) = &count.status {
                calls.add(&count.name_any(), status);
            }
        }
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token),
            None => return Ok(calls),
        }
    }
    warn!("there are more APIRequestCounts than are read");
    Ok(calls)
}
