//! The status of a CatalogSource: OLM's, field by field.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{bounds, schema};

/// What has become of a catalog.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSourceStatus {
    /// What is wrong, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::MESSAGE))]
    pub message: Option<String>,
    /// What is wrong, in one word: `SpecInvalidError`, `ConfigMapError`, `RegistryServerError`, `InvalidIntervalError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub reason: Option<String>,
    /// When the registry was last asked for a new image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_image_registry_poll: Option<Time>,
    /// The ConfigMap that is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_reference: Option<ConfigMapReference>,
    /// The Service behind which the catalog is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_service: Option<RegistryService>,
    /// How the connection to the catalog's server is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_state: Option<ConnectionState>,
    /// What else is known of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A ConfigMap as it was when its catalog was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapReference {
    /// Its name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// Its namespace, which is the catalog's own.
    #[schemars(length(max = 253))]
    pub namespace: String,
    /// Its UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub uid: Option<String>,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub resource_version: Option<String>,
    /// When that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
}

/// A Service that serves a catalog.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryService {
    /// `grpc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub protocol: Option<String>,
    /// The Service's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub service_name: Option<String>,
    /// The Service's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub service_namespace: Option<String>,
    /// The port, as a text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::WORD))]
    pub port: Option<String>,
    /// Since when it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
}

/// How a connection is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionState {
    /// Where the catalog is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::URL))]
    pub address: Option<String>,
    /// When that was last tried.
    #[serde(
        default,
        rename = "lastConnect",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_connect: Option<Time>,
    /// gRPC's word for the connection: `IDLE`, `CONNECTING`, `READY`, `TRANSIENT_FAILURE`, `SHUTDOWN`.
    #[schemars(length(max = bounds::WORD))]
    pub last_observed_state: String,
}
