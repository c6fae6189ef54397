//! Platform operators on dedicated control planes, with real catalog servers.
//!
//! ClusterOperators that report them are tested with `provisioner::controllers::cluster_operator::model` and in `openshift`.

mod bootstrap;
mod catalogs;
mod choices;
mod conflicts;
mod openshift;
mod permissions;
pub(crate) mod support;
mod upgrades;
