//! Owner of an object, determined from its metadata.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::core::ApiResource;

use super::{GROUP, MANAGER, labels};
use crate::object::group_version;

/// Labels of all objects in the install file.
const INSTALLED: [(&str, &str); 2] = [
    ("app.kubernetes.io/name", "rukpak"),
    ("app.kubernetes.io/part-of", "rukpak"),
];

/// The instance that owns an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstanceOwner {
    /// Name of the BundleInstance.
    pub name: String,
    /// UID of the BundleInstance.
    pub uid: String,
}

impl InstanceOwner {
    /// Kind of every owner.
    pub const KIND: &str = "BundleInstance";
    /// API version of that kind.
    pub const API_VERSION: &str = "core.rukpak.io/v1alpha1";

    /// Returns the API resource of the owners, so that an owner can be read without its API type.
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

/// Owner of an existing object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ObjectOwner {
    /// The BundleInstance itself.
    ThisInstance,
    /// A former BundleInstance of the same name.
    FormerInstance,
    /// Another BundleInstance, by name.
    Instance(String),
    /// The provisioner's own installation.
    Provisioner,
    /// The controller of an ownerReference.
    Controller(String),
    /// Another tool, described for messages.
    OtherTool(String),
    /// A BundleInstance applied the object, and released it on purpose.
    Released,
    /// The metadata names no owner.
    None,
}

impl fmt::Display for ObjectOwner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ThisInstance => f.write_str("this BundleInstance"),
            Self::FormerInstance => f.write_str("an earlier BundleInstance of the same name"),
            Self::Provisioner => f.write_str("the provisioner's own installation"),
            Self::Instance(name) => write!(f, "BundleInstance {name}"),
            Self::Controller(text) | Self::OtherTool(text) => f.write_str(text),
            Self::Released | Self::None => f.write_str("no owner"),
        }
    }
}

impl ObjectOwner {
    /// Determines the owner from the metadata of an object.
    pub fn from_metadata(live: &ObjectMeta, owner: &InstanceOwner) -> Self {
        let controller = live
            .owner_references
            .iter()
            .flatten()
            .find(|reference| reference.controller == Some(true));
        if let Some(controller) = controller {
            return Self::from_owner_reference(controller, owner);
        }
        if label(live, labels::OWNER_KIND) == Some(InstanceOwner::KIND)
            && let Some(name) = label(live, labels::OWNER_NAME).filter(|name| !name.is_empty())
        {
            return if name == owner.name {
                Self::ThisInstance
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
            return Self::OtherTool(tool);
        }
        let has_our_fields = live.managed_fields.iter().flatten().any(|entry| {
            entry.manager.as_deref() == Some(MANAGER)
                && entry.operation.as_deref() == Some("Apply")
                && entry.subresource.as_deref().unwrap_or_default().is_empty()
        });
        if has_our_fields {
            Self::Released
        } else {
            Self::None
        }
    }

    fn from_owner_reference(reference: &OwnerReference, owner: &InstanceOwner) -> Self {
        let OwnerReference {
            api_version,
            kind,
            name,
            uid,
            ..
        } = reference;
        if *uid == owner.uid {
            Self::ThisInstance
        } else if kind != InstanceOwner::KIND || group_version(api_version).0 != GROUP {
            Self::Controller(format!("{kind} {name}"))
        } else if *name == owner.name {
            Self::FormerInstance
        } else {
            Self::Instance(name.clone())
        }
    }
}

/// Returns the name of the BundleInstance that may adopt the object.
pub fn adopted_by(live: &ObjectMeta) -> Option<&str> {
    annotation(live, labels::ADOPT)
}

/// Describes the tool that applied the object, for tools that mark their objects.
fn tool(live: &ObjectMeta) -> Option<String> {
    let qualified_name = |namespace: Option<&str>, name: &str| match namespace {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    };
    if let Some(name) = label(live, "olm.owner") {
        let kind = label(live, "olm.owner.kind").unwrap_or("ClusterServiceVersion");
        let name = qualified_name(label(live, "olm.owner.namespace"), name);
        return Some(format!("OLM ({kind} {name})"));
    }
    if let Some(name) = label(live, "olm.operatorframework.io/owner-name") {
        let kind = label(live, "olm.operatorframework.io/owner-kind").unwrap_or("ClusterExtension");
        return Some(format!("OLM ({kind} {name})"));
    }
    // OLM labels a CRD with the packages that require it: `operators.coreos.com/etcd.operators`.
    if let Some(package) = live
        .labels
        .iter()
        .flatten()
        .find_map(|(key, _)| key.strip_prefix("operators.coreos.com/"))
    {
        return Some(format!("OLM (package {package})"));
    }
    if label(live, "olm.managed") == Some("true") {
        return Some("OLM".to_owned());
    }
    if let Some(name) = annotation(live, "meta.helm.sh/release-name") {
        let name = qualified_name(annotation(live, "meta.helm.sh/release-namespace"), name);
        return Some(format!("the Helm release {name}"));
    }
    if let Some(id) = annotation(live, "argocd.argoproj.io/tracking-id") {
        let application = id.split(':').next().unwrap_or_default();
        return Some(format!("the Argo CD application {application}"));
    }
    if let Some(name) = label(live, "kustomize.toolkit.fluxcd.io/name") {
        let name = qualified_name(label(live, "kustomize.toolkit.fluxcd.io/namespace"), name);
        return Some(format!("the Flux Kustomization {name}"));
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
    use crate::api::bundle_instance::BundleInstance;

    #[test]
    fn owner_resource_equals_that_of_the_api_type() {
        let resource = ApiResource::erase::<BundleInstance>(&());
        assert_eq!(InstanceOwner::resource(), resource);
    }
}
