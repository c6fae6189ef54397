//! Protection of the provisioner's own objects, which no bundle may change.

use manifests::{api::GROUP, object::Identity};

use super::{Check, Finding};
use crate::plan::{ApplyStep, InstanceOwner};

/// Returns the steps that would change an object of the provisioner, each with its problem.
pub(super) fn check<'a>(
    steps: &'a [ApplyStep],
    owner: &'a InstanceOwner,
    parent: Option<&'a str>,
    system_namespace: &'a str,
) -> impl Iterator<Item = (Identity, Finding)> + 'a {
    steps.iter().filter_map(move |step| {
        let identity = step.object.identity();
        let reason = protection_reason(&identity, owner, parent, system_namespace)?;
        let problem = Finding {
            check: Check::Ownership,
            message: format!("{identity} {reason}"),
        };
        Some((identity, problem))
    })
}

fn protection_reason(
    identity: &Identity,
    owner: &InstanceOwner,
    parent: Option<&str>,
    system_namespace: &str,
) -> Option<String> {
    let Identity {
        group,
        kind,
        namespace,
        name,
    } = identity;
    match (group.as_str(), kind.as_str()) {
        (GROUP, InstanceOwner::KIND) if *name == owner.name => Some(
            "is the BundleInstance that installs this bundle: remove it from the bundle".to_owned(),
        ),
        (GROUP, InstanceOwner::KIND) if Some(name.as_str()) == parent => Some(format!(
            "installs BundleInstance {}, which forms a cycle that cannot be uninstalled: remove one of them from its \
             bundle",
            owner.name
        )),
        // The object would carry the labels by which an instance finds its own Bundles.
        (GROUP, "Bundle") => Some(
            "is created by a BundleInstance, not by a bundle: put a BundleInstance with this source into the bundle instead"
                .to_owned(),
        ),
        ("apiextensions.k8s.io", "CustomResourceDefinition") if in_group(name) => Some(format!(
            "belongs to the provisioner and is part of its install manifest: remove the APIs of {GROUP} from the bundle"
        )),
        ("apiregistration.k8s.io", "APIService") if in_group(name) => Some(format!(
            "would replace the provisioner's own API: remove the APIs of {GROUP} from the bundle"
        )),
        ("", "Namespace") if name == system_namespace => Some(
            "is the provisioner's namespace: remove it from the bundle, or set spec.installNamespace to another \
             namespace"
                .to_owned(),
        ),
        _ if namespace == system_namespace => Some(
            "would be created in the provisioner's namespace: set spec.installNamespace, or metadata.namespace in the \
             bundle"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Reports whether a CRD or an APIService belongs to the API group of the provisioner.
fn in_group(name: &str) -> bool {
    name.strip_suffix(GROUP)
        .is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{identity, owner};

    #[test]
    fn objects_of_the_provisioner_are_protected() {
        for (group, kind, namespace, name, expected) in ::tests::rows![
            GROUP, "BundleInstance", "", "etcd" => Some("installs this bundle");
            GROUP, "BundleInstance", "", "parent" => Some("cannot be uninstalled");
            GROUP, "BundleInstance", "", "other" => None;
            GROUP, "Bundle", "", "other" => Some("put a BundleInstance");
            "apiextensions.k8s.io", "CustomResourceDefinition", "", "bundles.core.rukpak.io" => Some("install manifest");
            "apiextensions.k8s.io", "CustomResourceDefinition", "", "bundles.hardcore.rukpak.io" => None;
            "apiextensions.k8s.io", "CustomResourceDefinition", "", "bundles.mycore.rukpak.io" => None;
            "apiregistration.k8s.io", "APIService", "", "v1alpha1.core.rukpak.io" => Some("replace the provisioner's own API");
            "", "Namespace", "", "rukpak-system" => Some("is the provisioner's namespace");
            "", "Namespace", "", "operators" => None;
            "", "ConfigMap", "rukpak-system", "a" => Some("would be created in the provisioner's namespace");
            "", "ConfigMap", "operators", "rukpak-system" => None;
            "rbac.authorization.k8s.io", "RoleBinding", "rukpak-system", "a" => Some("would be created in the provisioner's namespace");
        ] {
            let identity = identity(group, kind, namespace, name);
            let found = protection_reason(&identity, &owner(), Some("parent"), "rukpak-system");
            let is_expected = match expected {
                None => found.is_none(),
                Some(part) => found.as_ref().is_some_and(|found| found.contains(part)),
            };
            assert!(is_expected, "{identity}: {found:?}");
        }
    }
}
