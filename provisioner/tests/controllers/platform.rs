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

use kube::{Api, ResourceExt as _};
use manifests::api::{
    bundle_instance::BundleInstance,
    condition::INSTALLED,
    labels,
    platform_operator::condition::{CATALOG_AVAILABLE, UPGRADEABLE},
};
use serde_json::{Value, json};

use crate::catalogs::external_servers::Server;
use crate::openshift::{PLATFORM_OPERATOR, crd};
use crate::support::{
    Options, Provisioner, delete, list, merge, operator, until, wait_deleted, wait_for, wait_part,
    wait_recreated,
};
