//! Whether a kind is served, for whoever has work to do while it is.
//!
//! ```text
//! kinds.while_served(&wanted, |kind| async move {
//!     match kind {
//!         Some(kind) => watch(&kind.resource).await,
//!         None => forget(),
//!     }
//! })
//! .await;
//! ```

use std::{convert::Infallible, sync::Arc};

use futures::{Stream, StreamExt as _, stream};
use kube::core::GroupVersionKind;
use tokio::{sync::watch, time::sleep};
use tracing::debug;

use super::{Kind, Kinds};
use crate::backoff::Pauses;

impl Kinds {
    /// Returns a stream of the served forms of a kind: the present one, and then each change. The stream retries while the API
    /// server does not answer.
    pub fn served<'k>(
        &'k self,
        wanted: &'k GroupVersionKind,
    ) -> impl Stream<Item = Option<Arc<Kind>>> + Send + 'k {
        let begin = (self.changes(), None);
        stream::unfold(begin, move |(mut changes, before)| async move {
            loop {
                let now = self.answer(wanted, &mut changes).await;
                if before.as_ref() != Some(&now) {
                    return Some((now.clone(), (changes, Some(now))));
                }
                changes.changed().await.ok()?;
            }
        })
    }

    /// Does what `work` makes of each answer, until the next one. Work that ends is not begun again before.
    pub async fn while_served<F: Future<Output = ()> + Send>(
        &self,
        wanted: &GroupVersionKind,
        mut work: impl FnMut(Option<Arc<Kind>>) -> F + Send,
    ) {
        let mut served = Box::pin(self.served(wanted));
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
        wanted: &GroupVersionKind,
        changes: &mut watch::Receiver<u64>,
    ) -> Option<Arc<Kind>> {
        let mut pauses = Pauses::default();
        loop {
            changes.mark_unchanged();
            match self.find([wanted.clone()]).await {
                Ok(mut found) => return found.remove(wanted).flatten(),
                Err(error) => {
                    debug!(%error, kind = wanted.kind, "cannot see whether a kind is served");
                    tokio::select! {
                        () = sleep(pauses.next().unwrap_or_default()) => {}
                        _ = changes.changed() => {}
                    }
                }
            }
        }
    }
}
