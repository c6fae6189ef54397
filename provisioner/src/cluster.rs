//! Clients, versions and cluster-wide configuration of the cluster that the provisioner runs in.

pub(crate) mod client;
pub mod impersonation;
pub mod overrides;
pub mod pull_config;
pub(crate) mod shallow_json;
pub mod versions;
pub(crate) mod written_versions;
