//! `CatalogSource` (`operators.coreos.com/v1alpha1`): the location of a catalog.
//!
//! The API is OLM's. The CRD here is for clusters without OLM; where OLM's CRD exists, it stays in place. A location has
//! two forms: OLM's own, in which `sourceType` selects the fields that are read, and three members, of which exactly one is
//! set.
//!
//! ```text
//!  sourceType grpc + image (+ grpcPodConfig) ──┐
//!  catalogImageSource ─────────────────────────┴─► Origin::Image
//!  sourceType grpc + address, catalogServiceSource ─► Origin::Service
//!  sourceType configmap + configMap, configMapSource ► Origin::ConfigMap
//! ```
//!
//! Only [`CatalogSource::origin`] reads both forms; all other code calls it.

pub mod convert;
mod crd_versions;
mod origin;
mod pod_options;
pub(super) mod rules;
mod status;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(in crate::api) use self::crd_versions::{add_v1, v1};
pub use self::{
    crd_versions::{CONVERSION, CONVERSION_PATH},
    origin::{DeclaredLocation, Invalid, Origin, PORT},
    status::{CatalogSourceStatus, ConfigMapReference, ConnectionState, RegistryService},
};
use super::{limits, schema};

/// Removes members that are null (`secrets:`) from the spec of a CatalogSource, and from the objects in it: the API server
/// treats them as absent.
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

/// The location of a catalog.
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
    doc = "A catalog of operators: an image, a catalog server or a ConfigMap."
)]
#[schemars(extend("x-kubernetes-validations" = rules::spec()))]
#[serde(rename_all = "camelCase")]
pub struct CatalogSourceSpec {
    /// Deprecated, with the fields it selects: `grpc` for an image or an address, `configmap` (once `internal`) for a
    /// ConfigMap. The members whose names end in Source need no type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub source_type: Option<String>,
    /// Deprecated: catalogImageSource.catalogImage. The catalog image, with sourceType grpc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::REFERENCE))]
    pub image: Option<String>,
    /// Deprecated: catalogServiceSource.address. The address of a gRPC server, with sourceType grpc.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::URL))]
    pub address: Option<String>,
    /// Deprecated: configMapSource.configMap. The ConfigMap, with sourceType configmap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub config_map: Option<String>,
    /// A catalog in an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_image_source: Option<CatalogImageSource>,
    /// A catalog that a gRPC server provides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub catalog_service_source: Option<CatalogServiceSource>,
    /// A catalog in a ConfigMap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_source: Option<ConfigMapSource>,
    /// The catalog with the highest priority is used if several have a package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Pull secrets for the catalog image, in the namespace of the CatalogSource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = limits::LABELS), inner(length(max = 253)))]
    pub secrets: Vec<String>,
    /// Polling of the registry for a new image of the same tag; only for a catalog in an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Deprecated: catalogImageSource.podSpecOverrides. Options of the pod that serves the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod_options::options")]
    pub grpc_pod_config: Option<Value>,
    /// The name shown to users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::LINE))]
    pub display_name: Option<String>,
    /// A description of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MESSAGE))]
    pub description: Option<String>,
    /// The publisher of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::LINE))]
    pub publisher: Option<String>,
    /// The icon of the catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub icon: Option<Icon>,
    /// Error of a spec that could not be parsed, for callers that continue with other objects. Never serialized.
    #[serde(skip)]
    pub unread: Option<String>,
}

/// A catalog in an image.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(transform = schema::named)]
pub struct CatalogImageSource {
    /// The catalog image.
    #[serde(default)]
    #[schemars(length(min = 1, max = limits::REFERENCE))]
    pub catalog_image: String,
    /// Options of the pod that serves the image: nodeSelector, tolerations, affinity, priorityClassName,
    /// securityContextConfig, memoryTarget, extractContent. If unset, no pod is required.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "pod_options::options")]
    pub pod_spec_overrides: Option<Value>,
}

/// A catalog that a gRPC server provides.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = schema::named)]
pub struct CatalogServiceSource {
    /// The address of the gRPC server: `host:port`; the default port is 50051.
    #[serde(default)]
    #[schemars(length(min = 1, max = limits::URL))]
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

/// Polling for a new image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// Polls the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_poll: Option<RegistryPoll>,
}

/// The interval of polling the registry.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RegistryPoll {
    /// A duration: `10m`, `1h30m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub interval: Option<String>,
}

/// An icon.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Icon {
    /// The image data, base64-encoded.
    #[schemars(length(max = limits::CERTIFICATES))]
    pub base64data: String,
    /// The media type: `image/png`.
    #[schemars(length(max = limits::WORD))]
    pub mediatype: String,
}
