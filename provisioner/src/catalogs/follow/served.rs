//! A catalog that somebody else serves.

use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use catalog::registry::{Bounds, Client, Packages, client::Error};
use manifests::api::catalog_source::CatalogSource;
use tokio::time::sleep_until;
use tracing::info;

use super::Following;
use crate::catalogs::{known::Read, plan::Plan, status::Connection};
use apply::backoff::spread;

/// How often what others serve is read again although nothing has told of a change.
const REREAD: Duration = Duration::from_secs(15 * 60);

// === impl Following ===

impl Following {
    /// Reads what is wanted from whoever serves the catalog, until he ends.
    pub(super) async fn served(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &Plan,
        address: &str,
    ) -> Result<(), Error> {
        let place = format!("grpc {address}");
        let client = Client::connect(address, Bounds::default()).await?;
        let catalogs = Arc::clone(&self.shared.ctx.catalogs);
        let mut wanted = catalogs.wanted.subscribe();
        let mut lost = pin!(client.lost());
        let (mut read, mut anew) = (Arc::new(Packages::default()), Instant::now());
        loop {
            let asked = wanted.borrow_and_update().clone();
            if Instant::now() >= anew {
                read = Arc::default();
                anew = Instant::now() + spread(REREAD);
            }
            // The server is the same as long as the connection is.
            read = Arc::new(read.and(&client, &asked).await?);
            self.patience.is_served(Instant::now());
            self.has_read(source, &place, Read::Some(Arc::clone(&read)))
                .await;
            self.seen.problem = None;
            self.is_served(source, plan, address, Connection::Ready);
            let (packages, broken) = (read.packages.len(), read.broken.len());
            info!(catalog = %self.key, %place, packages, broken, "read what is wanted of a catalog");
            // Those who want less need not be told anything new.
            let more = async {
                while wanted.changed().await.is_ok() {
                    if !wanted.borrow().is_subset(&read.asked) {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = &mut lost => return Ok(()),
                () = more => {}
                () = sleep_until(anew.into()) => {}
            }
        }
    }
}
