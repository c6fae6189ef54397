//! Subscriptions to a kind, for tasks that run while the kind is served.
//!
//! ```text
//! kinds.while_served(&requested, |kind| async move {
//!     match kind {
//!         Some(kind) => watch(&kind.resource).await,
//!         None => stop_watch(),
//!     }
//! })
//! .await;
//! ```

use std::{convert::Infallible, sync::Arc};

use futures::{Stream, StreamExt as _, stream};
use kube::core::GroupVersionKind;
use tokio::{sync::watch, time::sleep};
use tracing::debug;

use super::{ApiKind, Discovery};
use crate::{api_error, backoff::WatchBackoff};

impl Discovery {
    /// Returns a stream of the served forms of a kind: the current one, and then each change. The stream retries while the
    /// API server does not respond.
    pub fn served<'k>(
        &'k self,
        requested: &'k GroupVersionKind,
    ) -> impl Stream<Item = Option<Arc<ApiKind>>> + Send + 'k {
        let start = (self.changes(), None);
        stream::unfold(start, move |(mut changes, before)| async move {
            loop {
                let now = self.answer(requested, &mut changes).await;
                if before.as_ref() != Some(&now) {
                    return Some((now.clone(), (changes, Some(now))));
                }
                changes.changed().await.ok()?;
            }
        })
    }

    /// Runs the future that `work` returns for each served form, until the next change. A future that ends earlier is not
    /// started again before that change.
    pub async fn while_served<F: Future<Output = ()> + Send>(
        &self,
        requested: &GroupVersionKind,
        mut work: impl FnMut(Option<Arc<ApiKind>>) -> F + Send,
    ) {
        let mut served = Box::pin(self.served(requested));
        let mut answer = served.next().await;
        while let Some(kind) = answer {
            let working = async {
                work(kind).await;
                std::future::pending::<Infallible>().await
            };
            tokio::select! {
                never = working => match never {},
                next = served.next() => answer = next,
            }
        }
    }

    async fn answer(
        &self,
        requested: &GroupVersionKind,
        changes: &mut watch::Receiver<u64>,
    ) -> Option<Arc<ApiKind>> {
        let mut backoff = WatchBackoff::default();
        loop {
            changes.mark_unchanged();
            match self.find([requested.clone()]).await {
                Ok(mut found) => return found.remove(requested).flatten(),
                Err(error) => {
                    let error = api_error::chain(&error);
                    debug!(
                        error,
                        kind = requested.kind,
                        "failed to determine whether a kind is served"
                    );
                    tokio::select! {
                        () = sleep(backoff.next().unwrap_or_default()) => {}
                        _ = changes.changed() => {}
                    }
                }
            }
        }
    }
}
