//! Catalogs that another server serves: reads the requested packages over gRPC.

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};

use catalog::registry::{Client, ClientLimits, Packages, client::Error};
use manifests::api::catalog_source::CatalogSource;
use tokio::time::sleep_until;
use tracing::info;

use super::CatalogWorker;
use crate::controllers::catalog_source::{
    catalog_cache::CatalogContent, locate::CatalogPlan, status::Connection,
};
use apply::backoff::spread;

/// Interval at which a served catalog is read again although the connection was not lost.
const REFRESH_INTERVAL: Duration = Duration::from_secs(15 * 60);

// === impl CatalogWorker ===

impl CatalogWorker {
    /// Reads the requested packages from the server until the connection is lost.
    pub(super) async fn read_from_server(
        &mut self,
        source: &Arc<CatalogSource>,
        plan: &CatalogPlan,
        address: &str,
    ) -> Result<(), Error> {
        let place = format!("grpc {address}");
        let client = Client::connect(address, ClientLimits::default()).await?;
        let catalogs = Arc::clone(&self.shared.ctx.catalogs);
        let mut requested = catalogs.wanted.subscribe();
        let mut lost = pin!(client.disconnected());
        let (mut packages_read, mut refresh_at) = (Arc::new(Packages::default()), Instant::now());
        let is_selectable = self.is_selectable;
        loop {
            // For a catalog that no platform operator chooses from, only the state of the connection is reported.
            let names = if is_selectable {
                requested.borrow_and_update().clone()
            } else {
                BTreeSet::new()
            };
            if Instant::now() >= refresh_at {
                packages_read = Arc::default();
                refresh_at = Instant::now() + spread(REFRESH_INTERVAL);
            }
            // A server does not change its content while a connection lasts.
            packages_read = Arc::new(packages_read.merge(&client, &names).await?);
            self.backoff.record_success(Instant::now());
            self.record_loaded(
                source,
                &place,
                CatalogContent::Partial(Arc::clone(&packages_read)),
            )
            .await;
            self.observed.problem = None;
            self.report_connection(source, plan, address, Connection::Ready);
            let (packages, broken) = (packages_read.packages.len(), packages_read.broken.len());
            info!(
                catalog = %self.key,
                %place,
                packages,
                broken,
                "read the requested packages of a catalog"
            );
            // A smaller set of requested packages is already covered.
            let more = async {
                while is_selectable && requested.changed().await.is_ok() {
                    if !requested.borrow().is_subset(&packages_read.requested) {
                        return;
                    }
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = &mut lost => return Ok(()),
                () = more => {}
                () = sleep_until(refresh_at.into()) => {}
            }
        }
    }
}
