//! Whose an object is, as its metadata tells.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::ApiResource;

use super::{GROUP, MANAGER, labels};
use crate::object::group_version;

/// What the install file writes on everything in it.
const INSTALLED: [(&str, &str); 2] = [
    ("app.kubernetes.io/name", "rukpak"),
    ("app.kubernetes.io/part-of", "rukpak"),
];

/// The instance that objects belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Owner {
    /// The kind of every owner.
    pub const KIND: &str = "BundleInstance";
    /// The API version of that kind.
    pub const API_VERSION: &str = "core.rukpak.io/v1alpha1";

    /// Returns the resource of the owners: an owner can be looked up without its API type.
    pub fn resource() -> ApiResource {
        ApiResource {
            group: GROUP.to_owned(),
            version: "v1alpha1".to_owned(),
            api_version: Self::API_VERSION.to_owned(),
            kind: Self::KIND.to_owned(),
            plural: "bundleinstances".to_owned(),
        }
    }
}

/// Whose an object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// This instance's.
    Us,
    /// An instance's that had the same name.
    Earlier,
    /// Another instance's.
    Instance(String),
    /// The provisioner's own installation's.
    Provisioner,
    /// An ownerReference says whose.
    Controller(String),
    /// Another tool's, in words.
    Tool(String),
    /// It was applied by a BundleInstance, which has let it go on purpose.
    Released,
    /// It does not say.
    Nobody,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Us => f.write_str("this BundleInstance"),
            Self::Earlier => f.write_str("an earlier BundleInstance of the same name"),
            Self::Provisioner => f.write_str("the provisioner's own installation"),
            Self::Instance(name) => write!(f, "BundleInstance {name}"),
            Self::Controller(text) | Self::Tool(text) => f.write_str(text),
            Self::Released | Self::Nobody => f.write_str("nobody"),
        }
    }
}

impl Holder {
    /// Reads it off an object's metadata.
    pub fn of(live: &ObjectMeta, owner: &Owner) -> Self {
        let controller = live
            .owner_references
            .iter()
            .flatten()
            .find(|reference| reference.controller == Some(true));
        if let Some(controller) = controller {
            return Self::by_reference(controller, owner);
        }
        if label(live, labels::OWNER_KIND) == Some(Owner::KIND)
            && let Some(name) = label(live, labels::OWNER_NAME).filter(|name| !name.is_empty())
        {
            return if name == owner.name {
                Self::Us
            } else {
                Self::Instance(name.to_owned())
            };
        }
        if INSTALLED
            .iter()
            .all(|(key, value)| label(live, key) == Some(*value))
        {
            return Self::Provisioner;
        }
        if let Some(tool) = tool(live) {
            return Self::Tool(tool);
        }
        let is_ours = live.managed_fields.iter().flatten().any(|entry| {
            entry.manager.as_deref() == Some(MANAGER)
                && entry.operation.as_deref() == Some("Apply")
                && entry.subresource.as_deref().unwrap_or_default().is_empty()
        });
        if is_ours {
            Self::Released
        } else {
            Self::Nobody
        }
    }

    fn by_reference(reference: &OwnerReference, owner: &Owner) -> Self {
        let OwnerReference {
            api_version,
            kind,
            name,
            uid,
            ..
        } = reference;
        if *uid == owner.uid {
            Self::Us
        } else if kind != Owner::KIND || group_version(api_version).0 != GROUP {
            Self::Controller(format!("{kind} {name}"))
        } else if *name == owner.name {
            Self::Earlier
        } else {
            Self::Instance(name.clone())
        }
    }
}

/// To whom an object is to be handed over.
pub fn adopted_by(live: &ObjectMeta) -> Option<&str> {
    annotation(live, labels::ADOPT)
}

/// Tools that leave a mark on what they apply.
fn tool(live: &ObjectMeta) -> Option<String> {
    let place = |namespace: Option<&str>, name: &str| match namespace {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    };
    if let Some(name) = label(live, "olm.owner") {
        let kind = label(live, "olm.owner.kind").unwrap_or("ClusterServiceVersion");
        let place = place(label(live, "olm.owner.namespace"), name);
        return Some(format!("OLM, for its {kind} {place}"));
    }
    if let Some(name) = label(live, "olm.operatorframework.io/owner-name") {
        let kind = label(live, "olm.operatorframework.io/owner-kind").unwrap_or("ClusterExtension");
        return Some(format!("OLM, for its {kind} {name}"));
    }
    // OLM says which packages need a definition by the names of labels: `operators.coreos.com/etcd.operators`.
    if let Some(package) = live
        .labels
        .iter()
        .flatten()
        .find_map(|(key, _)| key.strip_prefix("operators.coreos.com/"))
    {
        return Some(format!("OLM, for its package {package}"));
    }
    if label(live, "olm.managed") == Some("true") {
        return Some("OLM".to_owned());
    }
    if let Some(name) = annotation(live, "meta.helm.sh/release-name") {
        let place = place(annotation(live, "meta.helm.sh/release-namespace"), name);
        return Some(format!("the Helm release {place}"));
    }
    if let Some(id) = annotation(live, "argocd.argoproj.io/tracking-id") {
        let application = id.split(':').next().unwrap_or_default();
        return Some(format!("the Argo CD application {application}"));
    }
    if let Some(name) = label(live, "kustomize.toolkit.fluxcd.io/name") {
        let place = place(label(live, "kustomize.toolkit.fluxcd.io/namespace"), name);
        return Some(format!("the Flux Kustomization {place}"));
    }
    None
}

fn label<'a>(live: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    live.labels.as_ref()?.get(key).map(String::as_str)
}

fn annotation<'a>(live: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    live.annotations.as_ref()?.get(key).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::instance::BundleInstance;

    #[test]
    fn resource_of_owners_is_that_of_the_api_type() {
        assert_eq!(Owner::resource(), ApiResource::erase::<BundleInstance>(&()));
    }
}
