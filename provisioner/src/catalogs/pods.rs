//! A pod for a catalog, in clusters without OLM: for catalogs that say how their pod is to be, and for all of them where
//! that is asked for.
//!
//! ```text
//!  CatalogSource ─ options ─┐
//!  image's labels ──────────┴─ declare: ServiceAccount, Service, two NetworkPolicies, a pod
//!                                │
//!  pods there are ─ observe ─────┴─ decide: make, promote, delete, wait
//! ```
//!
//! The objects are OLM's, by name, label and shape, so that what selects, watches or scrapes them goes on working. What
//! serves is another matter: our program is put beside the files of the catalog's image and reads them in place, as unpack
//! Jobs do it. So nothing of the image runs, nothing is copied but the program, and the kubelet still tells which image
//! the pod has. Only where it is not known in which folder the catalog is, the image's own program serves it.

pub mod decide;
mod declare;
mod follow;
mod hash;
mod keep;
mod leave;
mod options;
mod pace;
mod quantity;
mod repair;
mod watch;

pub(super) use self::pace::Pace;
pub use self::{
    declare::{Around, Content, Objects, Wanted, objects},
    follow::{Of, follow, has_own},
    keep::{Asks, Error, Kept, is_restricted, keep},
    leave::{are_there, hand_back, leave, remove},
    options::{Extract, Options, Security},
    watch::Watches,
};

/// Why there can be no pod for a catalog. All of it is for who wrote the CatalogSource to correct.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// Its name is a label's value and, with dashes for dots, a Service's name.
    #[error(
        "a catalog with a pod of its own cannot be called {name:?}, for its Service would be {service:?}: {problem}; \
         use another name, of 63 characters at most"
    )]
    Name {
        /// The CatalogSource's name.
        name: String,
        /// The Service's.
        service: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// An option that is none.
    #[error("{field} cannot be read: {problem}; correct it or remove it")]
    Option {
        /// Where it stands.
        field: String,
        /// What is wrong with it.
        problem: String,
    },
}
