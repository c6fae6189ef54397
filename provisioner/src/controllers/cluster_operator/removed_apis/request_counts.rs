//! Reads the calls to deprecated APIs that OpenShift counts, by service account.

use std::time::Duration;

use apply::api_error;
use convert::removed_apis::request_counts::{ApiCalls, RequestCount};
use kube::{
    Api, Client, ResourceExt as _,
    api::ListParams,
    core::{ApiResource, GroupVersionKind, Object},
};
use serde::{Deserialize, Serialize};
use tokio::time::sleep;
use tracing::warn;

use super::RemovedApiUsage;
use crate::controllers::context::Context;

/// Interval of reads; removals are announced years in advance.
const READ_INTERVAL: Duration = Duration::from_secs(30 * 60);
/// Delay until a failed read is retried.
const RETRY_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Page size of lists. Each object may list the users of all nodes for a day.
const PAGE_SIZE: u32 = 20;
/// Maximum number of pages. A cluster serves some hundred resources.
const MAX_PAGES: usize = 250;

/// Placeholder for fields that are not read.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
struct Ignored {}

/// Updates the counts while their kind is served.
pub(super) async fn follow(ctx: &Context, uses: &RemovedApiUsage) {
    let kind = GroupVersionKind::gvk("apiserver.openshift.io", "v1", "APIRequestCount");
    ctx.discovery
        .while_served(&kind, |served| async move {
            let Some(served) = served else {
                uses.count(ApiCalls::default());
                return;
            };
            loop {
                let delay = match read(&ctx.client, &served.resource).await {
                    Ok(calls) => {
                        uses.count(calls);
                        READ_INTERVAL
                    }
                    Err(error) => {
                        let error = api_error::chain(&error);
                        warn!(error, "failed to read APIRequestCounts; keeping the previous counts and retrying");
                        RETRY_INTERVAL
                    }
                };
                sleep(delay).await;
            }
        })
        .await;
}

async fn read(client: &Client, resource: &ApiResource) -> Result<ApiCalls, kube::Error> {
    let api: Api<Object<Ignored, RequestCount>> = Api::all_with(client.clone(), resource);
    let mut calls = ApiCalls::default();
    let mut params = ListParams::default().limit(PAGE_SIZE);
    for _ in 0..MAX_PAGES {
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
    warn!("too many APIRequestCounts; ignoring the rest");
    Ok(calls)
}
