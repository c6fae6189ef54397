//! `CatalogSource` (`operators.coreos.com/v1alpha1`): where catalogs come from.
//!
//! The API is OLM's. Its definition here is for clusters without OLM; where there is one, it stays. What makes a
//! catalog be served by pods (`grpcPodConfig`) and what belongs to other types of sources is kept as it is written.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{bounds, schema};
use crate::object::shortened;

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
#[serde(rename_all = "camelCase")]
pub struct CatalogSourceSpec {
    /// `grpc` for an image or an address. `configmap` and its old name `internal` are not served here.
    #[schemars(length(max = bounds::WORD))]
    pub source_type: String,
    /// The catalog's image. It counts before address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::REFERENCE))]
    pub image: Option<String>,
    /// Where the catalog is served over gRPC: `host:port`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = bounds::URL))]
    pub address: Option<String>,
    /// The ConfigMap of a source of type configmap.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub config_map: Option<String>,
    /// Of several catalogs that have a package, the one with the highest priority is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<i64>,
    /// Pull secrets in the namespace of the CatalogSource.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = bounds::LABELS), inner(length(max = 253)))]
    pub secrets: Vec<String>,
    /// When to look for a new image behind the same tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// How pods that serve the catalog look; nothing here makes any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::deployment_config")]
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
    #[schemars(schema_with = "schema::deployment_config")]
    pub config_map_reference: Option<Value>,
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

/// Why a CatalogSource cannot be used; OLM's words where OLM has some.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// No image and no address.
    #[error("image and address unset: at least one must be set for sourcetype: grpc")]
    NoPlace,
    /// A ConfigMap.
    #[error(
        "sourcetype {0} is not served here: use sourcetype grpc with an image, or the address of who serves the catalog"
    )]
    ConfigMap(String),
    /// Something else.
    #[error("unknown sourcetype: {0}")]
    Type(String),
}

/// Where a catalog is to be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place<'a> {
    /// Already served by somebody over gRPC: `host:port`.
    Served(&'a str),
    /// In an image.
    Image(&'a str),
}

impl CatalogSource {
    /// Where to take the catalog from: from who serves it, where OLM does that; else from its address, or from its image.
    /// Without OLM in the cluster, what it has written is of the past.
    ///
    /// # Errors
    /// When it says neither.
    pub fn place(&self, has_olm: bool) -> Result<Place<'_>, Invalid> {
        let filled =
            |text: &'_ Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
        match self.spec.source_type.as_str() {
            "grpc" => {}
            other @ ("configmap" | "internal") => return Err(Invalid::ConfigMap(other.to_owned())),
            other => return Err(Invalid::Type(shortened(other, 80))),
        }
        let (image, address) = (&self.spec.image, &self.spec.address);
        if !filled(image) && !filled(address) {
            return Err(Invalid::NoPlace);
        }
        let state = self
            .status
            .as_ref()
            .and_then(|status| status.connection_state.as_ref());
        let served = state
            .filter(|state| has_olm && state.last_observed_state == "READY")
            .and_then(|state| state.address.as_deref())
            .filter(|address| !address.is_empty());
        Ok(match (served, image.as_deref(), address.as_deref()) {
            (Some(served), ..) => Place::Served(served),
            (None, Some(image), _) if !image.is_empty() => Place::Image(image),
            (None, _, address) => Place::Served(address.unwrap_or_default()),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_catalog_is_taken_from_who_serves_it_and_else_from_its_image() {
        let ready =
            json!({"connectionState": {"address": "olm.svc:50051", "lastObservedState": "READY"}});
        let idle =
            json!({"connectionState": {"address": "olm.svc:50051", "lastObservedState": "IDLE"}});
        let blank = json!({"connectionState": {"address": "", "lastObservedState": "READY"}});
        let none = json!({});
        for (spec, status, expected) in [
            (
                json!({"sourceType": "grpc", "image": "a:1"}),
                &none,
                Ok(Place::Image("a:1")),
            ),
            (
                json!({"sourceType": "grpc", "image": "a:1"}),
                &ready,
                Ok(Place::Served("olm.svc:50051")),
            ),
            (
                json!({"sourceType": "grpc", "image": "a:1"}),
                &idle,
                Ok(Place::Image("a:1")),
            ),
            (
                json!({"sourceType": "grpc", "image": "a:1"}),
                &blank,
                Ok(Place::Image("a:1")),
            ),
            (
                json!({"sourceType": "grpc", "image": "a:1", "address": "b:2"}),
                &none,
                Ok(Place::Image("a:1")),
            ),
            (
                json!({"sourceType": "grpc", "image": "", "address": "b:2"}),
                &none,
                Ok(Place::Served("b:2")),
            ),
            (
                json!({"sourceType": "grpc"}),
                &ready,
                Err("image and address unset: at least one must be set for sourcetype: grpc"),
            ),
            (
                json!({"sourceType": "grpc", "address": ""}),
                &none,
                Err("image and address unset"),
            ),
            (
                json!({"sourceType": "configmap", "configMap": "a"}),
                &ready,
                Err("sourcetype configmap is not served here"),
            ),
            (
                json!({"sourceType": "internal"}),
                &none,
                Err("sourcetype internal is not served here"),
            ),
            (
                json!({"sourceType": "Grpc", "image": "a"}),
                &none,
                Err("unknown sourcetype: Grpc"),
            ),
        ] {
            let catalog: CatalogSource = serde_json::from_value(json!({
                "apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
                "metadata": {"name": "a"}, "spec": spec, "status": status,
            }))
            .unwrap();
            match (catalog.place(true), expected) {
                (found, Ok(place)) => {
                    assert_eq!(found, Ok(place), "{spec}");
                    let without = catalog.place(false).unwrap();
                    assert_ne!(without, Place::Served("olm.svc:50051"), "{spec}");
                }
                (found, Err(problem)) => {
                    let said = found.unwrap_err().to_string();
                    assert!(said.starts_with(problem), "{said}");
                }
            }
        }
    }
}
