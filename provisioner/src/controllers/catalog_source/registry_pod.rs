//! Registry pods: one pod per catalog in clusters without OLM, for catalogs with pod options, and for all catalogs if
//! configured.
//!
//! ```text
//!  CatalogSource ─ options ─┐
//!  image's labels ──────────┴─ manifest: ServiceAccount, Service, two NetworkPolicies, a pod
//!                                │
//!  existing pods ─── observe ────┴─ plan: create, promote, delete, wait
//! ```
//!
//! The objects have the names, labels and shape of OLM's, so that clients that select, watch or scrape those keep working.
//! The server differs: the provisioner's binary is copied into the pod of the catalog's image and reads the catalog in
//! place, as unpack Jobs do. No program of the image runs, only the binary is copied, and the kubelet still reports the
//! image of the pod. The image's own program serves the catalog only if the directory of the catalog is unknown.

mod apply;
mod diff;
mod manifest;
mod memory;
mod options;
pub mod plan;
mod reconciler;
mod repair_backoff;
mod slot;
mod spec_hash;
mod teardown;

pub use self::apply::{Error, RegistryPodState, TagPoll, is_restricted, reconcile};
pub use self::manifest::{PodEnvironment, PodServer, RegistryPodObjects, RegistryPodSpec, objects};
pub use self::options::{ExtractContent, Options, Security};
pub use self::reconciler::{RegistryPodConfig, RegistryPodReconciler, needs_pod, served_image};
pub use self::teardown::{remove, return_service, tear_down};
pub(super) use self::{
    repair_backoff::RepairBackoff,
    slot::{PodReport, RegistryPodSlot},
};

/// Reason why a catalog cannot have a registry pod. All of them have to be corrected in the CatalogSource.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// The name is not a valid label value or, with dashes for dots, not a valid Service name.
    #[error(
        "a catalog with its own pod cannot be named {name:?}, because its Service would be named {service:?}: \
         {problem}; use another name of at most 63 characters"
    )]
    Name {
        /// Name of the CatalogSource.
        name: String,
        /// Name of the Service.
        service: String,
        /// Problem with the Service name.
        problem: &'static str,
    },
    /// The value of an option is invalid.
    #[error("failed to parse {field}: {problem}; correct it or remove it")]
    Option {
        /// Path of the field.
        field: String,
        /// Problem with the value.
        problem: String,
    },
}
