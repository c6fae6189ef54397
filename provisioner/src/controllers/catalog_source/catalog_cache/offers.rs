//! Snapshot of the catalogs that may provide one package.

use catalog::choose::{CatalogAnswer, Offer};

use super::{CatalogContent, CatalogState};

/// Content and state of all catalogs that may provide a package, at one moment.
#[derive(Debug)]
pub struct Offers {
    pub(super) package: String,
    pub(super) offers: Vec<CatalogOffer>,
}

/// Content and state of one catalog.
#[derive(Debug)]
pub(super) struct CatalogOffer {
    pub(super) catalog: String,
    pub(super) priority: i64,
    /// Content of the catalog, or the reason why it is unavailable; `None` while it is read for the first time.
    pub(super) read: Result<CatalogContent, Option<String>>,
    pub(super) state: CatalogState,
    /// Error of the package, if the catalog has it in an invalid form.
    pub(super) broken: Option<String>,
}

// === impl Offers ===

impl Offers {
    /// Returns the offers for the resolver.
    pub fn list(&self) -> Vec<Offer<'_>> {
        self.offers
            .iter()
            .map(|held| Offer {
                catalog: &held.catalog,
                priority: held.priority,
                answer: match (&held.broken, &held.read) {
                    (Some(reason), _) | (None, Err(Some(reason))) => {
                        CatalogAnswer::Unavailable(reason)
                    }
                    (None, Err(None)) => CatalogAnswer::Pending,
                    (None, Ok(read)) => match read.package(&self.package) {
                        Some(package) => CatalogAnswer::Package(package),
                        None => CatalogAnswer::NotFound,
                    },
                },
            })
            .collect()
    }

    /// Returns the states of the catalogs.
    pub fn states(&self) -> impl Iterator<Item = &CatalogState> {
        self.offers.iter().map(|held| &held.state)
    }
}
