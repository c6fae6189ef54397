//! Platform operators on dedicated control planes, with real catalog servers.
//!
//! ClusterOperators that report them are tested with `provisioner::controllers::cluster_operator::model` and in `openshift`.

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
