//! Platform operators on control planes of their own, with catalogs that are served for real.
//!
//! What ClusterOperators tell of them is tried with `provisioner::platform::aggregate` and in `openshift`.

mod catalogs;
mod choices;
mod conflicts;
mod day0;
mod kubernetes;
mod openshift;
mod pauses;
mod rights;
pub(crate) mod stage;
mod upgrades;
