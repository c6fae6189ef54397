//! Controllers of Bundles, BundleInstances, CatalogSources, PlatformOperators and the ClusterOperator.

pub(crate) mod backoff;
pub mod bundle;
pub mod bundle_instance;
pub mod catalog_source;
pub mod cluster_operator;
pub mod context;
pub mod platform_operator;
