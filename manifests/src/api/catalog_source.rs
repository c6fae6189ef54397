//! `CatalogSource` (`operators.coreos.com/v1alpha1`): where catalogs come from.
//!
//! The API is OLM's, and its definition here is for clusters without OLM; where there is one, it stays. There are two ways
//! to say where the catalog is: OLM's own, in which `sourceType` decides which of four fields count, and three members of
//! which there is one.
//!
//! ```text
//!  sourceType grpc + image (+ grpcPodConfig) ──┐
//!  catalogImageSource ─────────────────────────┴─► Origin::Image
//!  sourceType grpc + address, catalogServiceSource ─► Origin::Service
//!  sourceType configmap + configMap, configMapSource ► Origin::ConfigMap
//! ```
//!
//! [`CatalogSource::origin`] alone reads either: everybody else asks it.

pub mod convert;
mod origin;
mod pod;
pub(super) mod rules;
mod status;
mod versions;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(in crate::api) use self::versions::{v1, with_v1};
pub use self::{
    origin::{Invalid, Origin, PORT, Place},
    status::{CatalogSourceStatus, ConfigMapReference, ConnectionState, RegistryService},
    versions::{CONVERSION, CONVERSION_PATH},
};
use super::{bounds, schema};

/// A CatalogSource as it was written, without what has a name and nothing behind it (`secrets:`): the apiserver takes that for
/// nothing in the spec, and in what is below it.
pub fn without_nulls(mut object: Value) -> Value {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.retain(|_, value| !value.is_null());
        for below in spec.values_mut().filter_map(Value::as_object_mut) {
            below.retain(|_, value| !value.is_null());
        }
    }
    object
}

/// The API group, which is OLM's.
pub const GROUP: &str = "operators.coreos.com";

/// Where a catalog comes from.
#[derive(CustomResource, Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "CatalogSource",
    plural = "catalogsources",
    shortname = "catsrc",
    namespaced,
    status = "CatalogSourceStatus",
    derive = "PartialEq",
    category = "olm",
    doc = "A catalog of operators: an image, or a server that hands it out."
)]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
#[serde(rename_all = "camelCase")]
pub struct CatalogSourceSpec {
    /// Deprecated, with what it chooses from: `grpc` for an image or an address, `configmap` (once `internal`) for a
    /// ConfigMap. The members that end in Source say it by themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub source_type: Option<String>,
    /// Deprecated: catalogImageSource.catalogImage. The catalog's image, with sourceType grpc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::REFERENCE))]
    pub image: Option<String>,
    /// Deprecated: catalogServiceSource.address. Where the catalog is served over gRPC, with sourceType grpc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::URL))]
    pub address: Option<String>,
    /// Deprecated: configMapSource.configMap. The ConfigMap of a source of type configmap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub config_map: Option<String>,
    /// The catalog is in an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_image_source: Option<CatalogImageSource>,
    /// The catalog is served by somebody already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_service_source: Option<CatalogServiceSource>,
    /// The catalog is in a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_source: Option<ConfigMapSource>,
    /// Of several catalogs that have a package, the one with the highest priority is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Pull secrets in the namespace of the CatalogSource, for the catalog's image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::LABELS), inner(length(max = 253)))]
    pub secrets: Vec<String>,
    /// When to look for a new image behind the same tag; only for a catalog in an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Deprecated: catalogImageSource.podSpecOverrides. How the pod that serves the image looks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::options")]
    pub grpc_pod_config: Option<Value>,
    /// Its name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::LINE))]
    pub display_name: Option<String>,
    /// What is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::MESSAGE))]
    pub description: Option<String>,
    /// Who publishes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::LINE))]
    pub publisher: Option<String>,
    /// Its picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<Icon>,
    /// Why nothing of what is written there can be read, for those who have to go on with others. It is written nowhere.
    #[serde(skip)]
    pub unread: Option<String>,
}

/// A catalog in an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::named)]
pub struct CatalogImageSource {
    /// The catalog's image.
    #[serde(default)]
    #[schemars(length(min = 1, max = bounds::REFERENCE))]
    pub catalog_image: String,
    /// How the pod that serves the image looks: nodeSelector, tolerations, affinity, priorityClassName,
    /// securityContextConfig, memoryTarget, extractContent. Without any of it, there need be no pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod::options")]
    pub pod_spec_overrides: Option<Value>,
}

/// A catalog that is served.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::named)]
pub struct CatalogServiceSource {
    /// Where it is served over gRPC: `host:port`; the port is 50051 unless it is there.
    #[serde(default)]
    #[schemars(length(min = 1, max = bounds::URL))]
    pub address: String,
}

/// A catalog in a ConfigMap.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::named)]
pub struct ConfigMapSource {
    /// The ConfigMap, in the namespace of the CatalogSource.
    #[serde(default)]
    #[schemars(length(min = 1, max = 253))]
    pub config_map: String,
}

/// When to look for a new image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// By asking the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_poll: Option<RegistryPoll>,
}

/// How often to ask the registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegistryPoll {
    /// A duration: `10m`, `1h30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub interval: Option<String>,
}

/// A picture.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Icon {
    /// The picture's bytes in base64.
    #[schemars(length(max = bounds::CERTIFICATES))]
    pub base64data: String,
    /// What kind of picture it is: `image/png`.
    #[schemars(length(max = bounds::WORD))]
    pub mediatype: String,
}
