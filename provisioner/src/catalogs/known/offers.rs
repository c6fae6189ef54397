//! What catalogs offer of one package.

use catalog::choose::{Answer, Offer};

use super::{Read, State};

/// What catalogs have of a package, as it was at one moment.
#[derive(Debug)]
pub struct Offers {
    pub(super) package: String,
    pub(super) offers: Vec<Held>,
}

/// What one catalog has of it.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) catalog: String,
    pub(super) priority: i64,
    /// What was read, or why nothing was: `None` while the first reading is under way.
    pub(super) read: Result<Read, Option<String>>,
    pub(super) state: State,
    /// Why the package cannot be used, if it is there.
    pub(super) broken: Option<String>,
}

// === impl Offers ===

impl Offers {
    /// As they are to be chosen from.
    pub fn list(&self) -> Vec<Offer<'_>> {
        self.offers
            .iter()
            .map(|held| Offer {
                catalog: &held.catalog,
                priority: held.priority,
                answer: match (&held.broken, &held.read) {
                    (Some(why), _) | (None, Err(Some(why))) => Answer::Unknown(why),
                    (None, Err(None)) => Answer::Pending,
                    (None, Ok(read)) => match read.package(&self.package) {
                        Some(package) => Answer::Package(package),
                        None => Answer::Absent,
                    },
                },
            })
            .collect()
    }

    /// How the catalogs are that were asked.
    pub fn states(&self) -> impl Iterator<Item = &State> {
        self.offers.iter().map(|held| &held.state)
    }
}
