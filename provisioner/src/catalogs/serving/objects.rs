//! By which a catalog is found: a Service without selector, and the EndpointSlice that leads it to a port of the
//! provisioner's pod. No I/O.

use std::net::SocketAddr;

use k8s_openapi::{
    api::{core::v1::Service, discovery::v1::EndpointSlice},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{Resource, ResourceExt as _};
use manifests::api::labels::{CATALOG, CATALOG_POD};
use serde_json::{Value, json};

use crate::catalogs::Key;

/// Who writes both objects.
pub(super) const MANAGER: &str = "catalogserver";
/// The name of the port, as OLM calls it.
const PORT_NAME: &str = "grpc";
/// The port at which every catalog's Service answers.
pub(super) const PORT: u16 = 50051;
/// The longest name of a Service, and the longest value of a label.
const LONGEST: usize = 63;
/// Who looks after the EndpointSlice, so that Kubernetes' own controllers leave it alone.
const MANAGED_BY: &str = "core.rukpak.io";

/// What both objects are to say.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Declared {
    pub(super) key: Key,
    /// The CatalogSource.
    pub(super) owner: OwnerReference,
    /// Where this process serves the catalog.
    pub(super) at: SocketAddr,
}

/// How an object is that should be as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// There is none.
    Absent,
    /// Nothing is to be done.
    AsDeclared,
    /// It is to be applied.
    Differs,
    /// It has what cannot be changed.
    Replace,
    /// It is being deleted.
    Going,
    /// It leads to the catalog's own pod, and is left to whoever keeps that.
    Beside,
    /// It belongs to somebody else, and why that is said.
    Foreign(String),
}

/// The name of a catalog's Service: that of the CatalogSource, with dashes in place of dots (OLM v0 parity).
///
/// # Errors
/// The number of characters of a name that no Service can have.
pub(super) fn service_name(catalog: &str) -> Result<String, usize> {
    if catalog.len() > LONGEST {
        return Err(catalog.len());
    }
    Ok(catalog.replace('.', "-"))
}

/// The name of its EndpointSlice: not the Service's own, which Kubernetes' controllers might give to one of theirs.
pub(super) fn slice_name(catalog: &str) -> String {
    format!("{}-catalog", catalog.replace('.', "-"))
}

/// Where a catalog is to be had.
pub(super) fn address(key: &Key) -> String {
    let name = key.name.replace('.', "-");
    format!("{name}.{}.svc:{PORT}", key.namespace)
}

// === impl Declared ===

impl Declared {
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
                // Said, so that one that somebody adds is taken away.
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
        let ours = [
            (CATALOG, self.key.name.clone()),
            ("app.kubernetes.io/managed-by", "rukpak".to_owned()),
        ];
        let labels: serde_json::Map<String, Value> = ours
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

    /// How the Service is.
    pub(super) fn judge_service(&self, found: Option<&Service>) -> Verdict {
        let Some(found) = found else {
            return Verdict::Absent;
        };
        if let Some(verdict) = self.judge(found, "Service") {
            return verdict;
        }
        let spec = found.spec.as_ref();
        let is_plain = spec.is_some_and(|spec| {
            let has_selector = spec.selector.as_ref().is_some_and(|it| !it.is_empty());
            let is_usual = spec.type_.as_deref().is_none_or(|it| it == "ClusterIP");
            let mut ports = spec.ports.iter().flatten();
            let has_port = ports.any(|it| {
                it.name.as_deref() == Some(PORT_NAME)
                    && it.port == i32::from(PORT)
                    && is_tcp(it.protocol.as_deref())
            });
            !has_selector && is_usual && has_port
        });
        if is_plain && self.is_labelled(found, &self.service()) {
            Verdict::AsDeclared
        } else {
            Verdict::Differs
        }
    }

    /// How the EndpointSlice is.
    pub(super) fn judge_slice(&self, found: Option<&EndpointSlice>) -> Verdict {
        let Some(found) = found else {
            return Verdict::Absent;
        };
        if let Some(verdict) = self.judge(found, "EndpointSlice") {
            return verdict;
        }
        if found.address_type != self.family() {
            return Verdict::Replace;
        }
        let address = self.at.ip().to_string();
        let is_here = matches!(found.endpoints.as_deref(), Some([one])
            if one.addresses == [address]
                && one.conditions.as_ref().is_some_and(|it| it.ready != Some(false) && it.terminating != Some(true)));
        let has_port = matches!(found.ports.as_deref(), Some([one])
            if one.name.as_deref() == Some(PORT_NAME)
                && one.port == Some(i32::from(self.at.port()))
                && is_tcp(one.protocol.as_deref()));
        if is_here && has_port && self.is_labelled(found, &self.slice()) {
            Verdict::AsDeclared
        } else {
            Verdict::Differs
        }
    }

    /// What is decided whatever the object says otherwise.
    fn judge<K: Resource<DynamicType = ()>>(&self, found: &K, kind: &str) -> Option<Verdict> {
        let name = found.name_any();
        match whose(found) {
            Whose::Pod if self.is_owned(found) => Some(match found.meta().deletion_timestamp {
                Some(_) => Verdict::Going,
                None => Verdict::Beside,
            }),
            Whose::Catalog(catalog) if catalog != self.key.name => Some(Verdict::Foreign(format!(
                "{kind} {}/{name} is that of CatalogSource {catalog}; one of the two needs another name",
                self.key.namespace
            ))),
            Whose::Pod | Whose::Other => Some(Verdict::Foreign(format!(
                "{kind} {}/{name} is there already, and not the provisioner's; remove it, or give the CatalogSource \
                 another name",
                self.key.namespace
            ))),
            Whose::Catalog(_) | Whose::Ours => found
                .meta()
                .deletion_timestamp
                .as_ref()
                .map(|_| Verdict::Going),
        }
    }

    /// Reports whether it has our labels and belongs to the CatalogSource.
    fn is_labelled<K: Resource<DynamicType = ()>>(&self, found: &K, declared: &Value) -> bool {
        let labels = declared
            .pointer("/metadata/labels")
            .and_then(Value::as_object);
        let has_labels = labels
            .into_iter()
            .flatten()
            .all(|(key, value)| found.labels().get(key).map(String::as_str) == value.as_str());
        has_labels && self.is_owned(found)
    }

    fn is_owned<K: Resource<DynamicType = ()>>(&self, found: &K) -> bool {
        let mut owners = found.owner_references().iter();
        owners.any(|it| it.uid == self.owner.uid)
    }
}

fn is_tcp(protocol: Option<&str>) -> bool {
    protocol.is_none_or(|it| it == "TCP")
}

/// To whom an object belongs.
enum Whose<'a> {
    /// To the catalog server, for this catalog.
    Catalog(&'a str),
    /// To the catalog server: somebody has taken the label away.
    Ours,
    /// To a catalog's own pod.
    Pod,
    Other,
}

fn whose<K: Resource<DynamicType = ()>>(found: &K) -> Whose<'_> {
    // Before all else: it may have been the catalog server's.
    if found.labels().contains_key(CATALOG_POD) {
        return Whose::Pod;
    }
    if let Some(catalog) = found.labels().get(CATALOG) {
        return Whose::Catalog(catalog);
    }
    let mut managers = found.managed_fields().iter();
    let is_ours = managers.any(|it| {
        it.manager.as_deref() == Some(MANAGER) && it.operation.as_deref() == Some("Apply")
    });
    if is_ours { Whose::Ours } else { Whose::Other }
}

/// Reports whether an object is the catalog server's, for this catalog.
pub(super) fn is_ours<K: Resource<DynamicType = ()>>(found: &K, catalog: &str) -> bool {
    match whose(found) {
        Whose::Catalog(name) => name == catalog,
        Whose::Ours => true,
        Whose::Pod | Whose::Other => false,
    }
}

/// Reports whether an EndpointSlice, as it was found, leads clients of a catalog to an address of an earlier process.
pub(super) fn leads_to_nobody(found: &EndpointSlice, catalog: &str, is_served: bool) -> bool {
    let leads = found.endpoints.as_ref().is_some_and(|it| !it.is_empty());
    leads && !is_served && is_ours(found, catalog)
}

#[cfg(test)]
mod tests;
