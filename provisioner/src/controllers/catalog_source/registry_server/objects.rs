//! Manifests of a served catalog: a Service without selector, and the EndpointSlice that points it to a port of the
//! provisioner's pod. Pure; no I/O.

use std::net::SocketAddr;

use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt as _};
use manifests::api::labels::{CATALOG, CATALOG_POD};
use serde_json::{Value, json};

use crate::controllers::catalog_source::CatalogKey;

/// Field manager of both objects.
pub(super) const MANAGER: &str = "catalogserver";
/// Name of the Service port (OLM v0 parity).
const PORT_NAME: &str = "grpc";
/// Port of the Service of every catalog.
pub(super) const PORT: u16 = 50051;
/// Maximum length of the name of a Service and of a label value.
const MAX_NAME_LEN: usize = 63;
/// Value of `endpointslice.kubernetes.io/managed-by`. It keeps the controllers of Kubernetes from changing the
/// EndpointSlice.
const MANAGED_BY: &str = "core.rukpak.io";

/// Desired state of both objects.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EndpointSpec {
    pub(super) key: CatalogKey,
    /// Reference to the CatalogSource.
    pub(super) owner: OwnerReference,
    /// Address at which this process serves the catalog.
    pub(super) at: SocketAddr,
}

/// State of an object compared with its desired state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ObjectState {
    /// The object does not exist.
    Missing,
    /// The object is up to date.
    UpToDate,
    /// The object differs and has to be applied.
    Outdated,
    /// An immutable field differs, so the object has to be replaced.
    Recreate,
    /// The object is terminating.
    Terminating,
    /// The Service belongs to the registry pod of the catalog, whose controller maintains it.
    Shared,
    /// The object belongs to another owner. Contains the message for the user.
    Foreign(String),
}

/// Returns the name of a catalog's Service: that of the CatalogSource, with dashes in place of dots (OLM v0 parity).
///
/// # Errors
/// Returns the length of the name if no Service can have it.
pub(super) fn service_name(catalog: &str) -> Result<String, usize> {
    if catalog.len() > MAX_NAME_LEN {
        return Err(catalog.len());
    }
    Ok(catalog.replace('.', "-"))
}

/// Returns the name of a catalog's EndpointSlice. It differs from the name of the Service, which Kubernetes' controllers
/// might use for a slice.
pub(super) fn slice_name(catalog: &str) -> String {
    format!("{}-catalog", catalog.replace('.', "-"))
}

/// Returns the address of a catalog for its clients.
pub(super) fn address(key: &CatalogKey) -> String {
    let name = key.name.replace('.', "-");
    format!("{name}.{}.svc:{PORT}", key.namespace)
}

// === impl EndpointSpec ===

impl EndpointSpec {
    pub(super) fn service_name(&self) -> String {
        self.key.name.replace('.', "-")
    }

    pub(super) fn slice_name(&self) -> String {
        slice_name(&self.key.name)
    }

    pub(super) fn service(&self) -> Value {
        json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": self.metadata(&self.service_name(), &[]),
            "spec": {
                "type": "ClusterIP",
                // An explicit empty selector, so that applying it removes one that another client has added.
                "selector": {},
                "ports": [{"name": PORT_NAME, "port": PORT, "targetPort": PORT, "protocol": "TCP"}],
            },
        })
    }

    pub(super) fn slice(&self) -> Value {
        let labels = [
            ("kubernetes.io/service-name", self.service_name()),
            (
                "endpointslice.kubernetes.io/managed-by",
                MANAGED_BY.to_owned(),
            ),
        ];
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": self.metadata(&self.slice_name(), &labels),
            "addressType": self.family(),
            "endpoints": [{
                "addresses": [self.at.ip().to_string()],
                "conditions": {"ready": true, "serving": true, "terminating": false},
            }],
            "ports": [{"name": PORT_NAME, "port": self.at.port(), "protocol": "TCP"}],
        })
    }

    fn metadata(&self, name: &str, labels: &[(&str, String)]) -> Value {
        let own_labels = [
            (CATALOG, self.key.name.clone()),
            ("app.kubernetes.io/managed-by", "rukpak".to_owned()),
        ];
        let labels: serde_json::Map<String, Value> = own_labels
            .iter()
            .chain(labels)
            .map(|(key, value)| ((*key).to_owned(), value.clone().into()))
            .collect();
        json!({
            "name": name, "namespace": self.key.namespace, "labels": labels,
            "ownerReferences": [self.owner],
        })
    }

    fn family(&self) -> &'static str {
        if self.at.is_ipv4() { "IPv4" } else { "IPv6" }
    }

    /// Compares a live Service with the desired one.
    pub(super) fn compare_service(&self, live: Option<&Service>) -> ObjectState {
        let Some(live) = live else {
            return ObjectState::Missing;
        };
        if let Some(state) = self.evaluate_owner(live, "Service") {
            return state;
        }
        let spec = live.spec.as_ref();
        let is_plain = spec.is_some_and(|spec| {
            let has_selector = spec
                .selector
                .as_ref()
                .is_some_and(|selector| !selector.is_empty());
            let is_usual = spec
                .type_
                .as_deref()
                .is_none_or(|type_name| type_name == "ClusterIP");
            let mut ports = spec.ports.iter().flatten();
            let has_port = ports.any(|port| {
                port.name.as_deref() == Some(PORT_NAME)
                    && port.port == i32::from(PORT)
                    && is_tcp(port.protocol.as_deref())
            });
            !has_selector && is_usual && has_port
        });
        if is_plain && self.is_labeled(live, &self.service()) {
            ObjectState::UpToDate
        } else {
            ObjectState::Outdated
        }
    }

    /// Compares a live EndpointSlice with the desired one.
    pub(super) fn compare_slice(&self, live: Option<&EndpointSlice>) -> ObjectState {
        let Some(live) = live else {
            return ObjectState::Missing;
        };
        if let Some(state) = self.evaluate_owner(live, "EndpointSlice") {
            return state;
        }
        if live.address_type != self.family() {
            return ObjectState::Recreate;
        }
        let address = self.at.ip().to_string();
        let has_address = matches!(live.endpoints.as_deref(), Some([only])
            if only.addresses == [address]
                && only
                    .conditions
                    .as_ref()
                    .is_some_and(|state| state.ready != Some(false) && state.terminating != Some(true)));
        let has_port = matches!(live.ports.as_deref(), Some([only])
            if only.name.as_deref() == Some(PORT_NAME)
                && only.port == Some(i32::from(self.at.port()))
                && is_tcp(only.protocol.as_deref()));
        if has_address && has_port && self.is_labeled(live, &self.slice()) {
            ObjectState::UpToDate
        } else {
            ObjectState::Outdated
        }
    }

    /// Decides by the owner of an object and its deletion timestamp. Returns `None` if the content has to be compared.
    fn evaluate_owner<K: Resource<DynamicType = ()>>(
        &self,
        live: &K,
        kind: &str,
    ) -> Option<ObjectState> {
        let name = live.name_any();
        match owner_of(live) {
            ObjectOwner::Pod if self.is_owned(live) => Some(match live.meta().deletion_timestamp {
                Some(_) => ObjectState::Terminating,
                None => ObjectState::Shared,
            }),
            ObjectOwner::Catalog(catalog) if catalog != self.key.name => {
                Some(ObjectState::Foreign(format!(
                    "{kind} {}/{name} belongs to CatalogSource {catalog}; rename one of the two CatalogSources",
                    self.key.namespace
                )))
            }
            ObjectOwner::Pod | ObjectOwner::Other => Some(ObjectState::Foreign(format!(
                "{kind} {}/{name} already exists and is not managed by the provisioner; delete it, or rename the \
                 CatalogSource",
                self.key.namespace
            ))),
            ObjectOwner::Catalog(_) | ObjectOwner::Unlabeled => live
                .meta()
                .deletion_timestamp
                .as_ref()
                .map(|_| ObjectState::Terminating),
        }
    }

    /// Reports whether an object has the provisioner's labels and is owned by the CatalogSource.
    fn is_labeled<K: Resource<DynamicType = ()>>(&self, live: &K, declared: &Value) -> bool {
        let labels = declared
            .pointer("/metadata/labels")
            .and_then(Value::as_object);
        let has_labels = labels
            .into_iter()
            .flatten()
            .all(|(key, value)| live.labels().get(key).map(String::as_str) == value.as_str());
        has_labels && self.is_owned(live)
    }

    fn is_owned<K: Resource<DynamicType = ()>>(&self, live: &K) -> bool {
        let mut owners = live.owner_references().iter();
        owners.any(|owner| owner.uid == self.owner.uid)
    }
}

fn is_tcp(protocol: Option<&str>) -> bool {
    protocol.is_none_or(|protocol| protocol == "TCP")
}

/// Owner of a live object.
enum ObjectOwner<'a> {
    /// The catalog server, for the named catalog.
    Catalog(&'a str),
    /// The catalog server. The label with the catalog's name was removed by another client.
    Unlabeled,
    /// The registry pod of a catalog.
    Pod,
    Other,
}

fn owner_of<K: Resource<DynamicType = ()>>(object: &K) -> ObjectOwner<'_> {
    // This label takes precedence: the object may have belonged to the catalog server before.
    if object.labels().contains_key(CATALOG_POD) {
        return ObjectOwner::Pod;
    }
    if let Some(catalog) = object.labels().get(CATALOG) {
        return ObjectOwner::Catalog(catalog);
    }
    let mut managers = object.managed_fields().iter();
    let is_ours = managers.any(|entry| {
        entry.manager.as_deref() == Some(MANAGER) && entry.operation.as_deref() == Some("Apply")
    });
    if is_ours {
        ObjectOwner::Unlabeled
    } else {
        ObjectOwner::Other
    }
}

/// Reports whether an object belongs to the catalog server, for this catalog.
pub(super) fn is_ours<K: Resource<DynamicType = ()>>(object: &K, catalog: &str) -> bool {
    match owner_of(object) {
        ObjectOwner::Catalog(name) => name == catalog,
        ObjectOwner::Unlabeled => true,
        ObjectOwner::Pod | ObjectOwner::Other => false,
    }
}

/// Reports whether an EndpointSlice points clients of a catalog to the address of an earlier process.
pub(super) fn has_stale_endpoints(slice: &EndpointSlice, catalog: &str, is_served: bool) -> bool {
    let has_endpoints = slice
        .endpoints
        .as_ref()
        .is_some_and(|endpoints| !endpoints.is_empty());
    has_endpoints && !is_served && is_ours(slice, catalog)
}

#[cfg(test)]
mod tests;
