//! Status of a CatalogSource, with OLM's fields.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{limits, schema};

/// Observed state of the catalog.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CatalogSourceStatus {
    /// The current problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::MESSAGE))]
    pub message: Option<String>,
    /// The reason of the problem: `SpecInvalidError`, `ConfigMapError`, `RegistryServerError`, `InvalidIntervalError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub reason: Option<String>,
    /// The time of the last poll of the registry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latest_image_registry_poll: Option<Time>,
    /// The ConfigMap that is served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config_map_reference: Option<ConfigMapReference>,
    /// The Service of the served catalog.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry_service: Option<RegistryService>,
    /// The state of the connection to the catalog server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connection_state: Option<ConnectionState>,
    /// The conditions of the catalog.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}

/// A ConfigMap at the time its catalog was read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigMapReference {
    /// The name.
    #[schemars(length(max = 253))]
    pub name: String,
    /// The namespace, that of the catalog.
    #[schemars(length(max = 253))]
    pub namespace: String,
    /// The UID.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub uid: Option<String>,
    /// The resourceVersion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub resource_version: Option<String>,
    /// The time of the read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
}

/// A Service that serves a catalog.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RegistryService {
    /// The protocol, `grpc`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub protocol: Option<String>,
    /// The name of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub service_name: Option<String>,
    /// The namespace of the Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub service_namespace: Option<String>,
    /// The port as a string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::WORD))]
    pub port: Option<String>,
    /// The time of creation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
}

/// The state of a connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConnectionState {
    /// The address of the catalog server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = limits::URL))]
    pub address: Option<String>,
    /// The time of the last attempt.
    #[serde(
        default,
        rename = "lastConnect",
        skip_serializing_if = "Option::is_none"
    )]
    pub last_connect: Option<Time>,
    /// The gRPC state: `IDLE`, `CONNECTING`, `READY`, `TRANSIENT_FAILURE`, `SHUTDOWN`.
    #[schemars(length(max = limits::WORD))]
    pub last_observed_state: String,
}
