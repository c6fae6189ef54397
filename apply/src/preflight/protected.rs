//! What no bundle may touch: the provisioner's own objects.

use manifests::{api::GROUP, object::Identity};

use super::{Check, Problem};
use crate::plan::{Owner, Step};

/// Every step that would change something of the provisioner's own.
pub(super) fn check<'a>(
    steps: &'a [Step],
    owner: &'a Owner,
    parent: Option<&'a str>,
    system_namespace: &'a str,
) -> impl Iterator<Item = (Identity, Problem)> + 'a {
    steps.iter().filter_map(move |step| {
        let identity = step.object.identity();
        let why = why(&identity, owner, parent, system_namespace)?;
        let problem = Problem {
            check: Check::Ownership,
            message: format!("{identity} {why}"),
        };
        Some((identity, problem))
    })
}

fn why(
    identity: &Identity,
    owner: &Owner,
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
        (GROUP, Owner::KIND) if *name == owner.name => Some(
            "is the BundleInstance that installs this bundle: remove it from the bundle".to_owned(),
        ),
        (GROUP, Owner::KIND) if Some(name.as_str()) == parent => Some(format!(
            "installs BundleInstance {}, and two that install each other cannot be removed any more: remove one of them \
             from its bundle",
            owner.name
        )),
        // It would carry the labels by which an instance finds the Bundles it made itself.
        (GROUP, "Bundle") => Some(
            "is made by a BundleInstance, and not by a bundle: put a BundleInstance with this source into the bundle instead"
                .to_owned(),
        ),
        ("apiextensions.k8s.io", "CustomResourceDefinition") if in_group(name) => Some(format!(
            "is the provisioner's own, and comes with its install file: remove the APIs of {GROUP} from the bundle"
        )),
        ("apiregistration.k8s.io", "APIService") if in_group(name) => Some(format!(
            "would take the provisioner's own API away from it: remove the APIs of {GROUP} from the bundle"
        )),
        ("", "Namespace") if name == system_namespace => Some(
            "is where the provisioner itself lives: remove it from the bundle, or let the bundle go somewhere else by \
             spec.installNamespace"
                .to_owned(),
        ),
        _ if namespace == system_namespace => Some(
            "would live among the provisioner's own objects: let the bundle go somewhere else, by spec.installNamespace or by \
             its own metadata.namespace"
                .to_owned(),
        ),
        _ => None,
    }
}

/// Reports whether the definition or the service is about our group.
fn in_group(name: &str) -> bool {
    name.strip_suffix(GROUP)
        .is_some_and(|rest| rest.ends_with('.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{identity, owner};

    #[test]
    fn our_own_objects_are_told_from_those_of_others() {
        let cases: &[(&str, &str, &str, &str, Option<&str>)] = &::tests::rows![
            GROUP, "BundleInstance", "", "etcd" => Some("installs this bundle");
            GROUP, "BundleInstance", "", "parent" => Some("install each other");
            GROUP, "BundleInstance", "", "other" => None;
            GROUP, "Bundle", "", "other" => Some("put a BundleInstance");
            "apiextensions.k8s.io", "CustomResourceDefinition", "", "bundles.core.rukpak.io" => Some("install file");
            "apiextensions.k8s.io", "CustomResourceDefinition", "", "bundles.hardcore.rukpak.io" => None;
            "apiextensions.k8s.io", "CustomResourceDefinition", "", "bundles.mycore.rukpak.io" => None;
            "apiregistration.k8s.io", "APIService", "", "v1alpha1.core.rukpak.io" => Some("take the provisioner's own API");
            "", "Namespace", "", "rukpak-system" => Some("lives");
            "", "Namespace", "", "operators" => None;
            "", "ConfigMap", "rukpak-system", "a" => Some("would live among");
            "", "ConfigMap", "operators", "rukpak-system" => None;
            "rbac.authorization.k8s.io", "RoleBinding", "rukpak-system", "a" => Some("would live among");
        ];
        for (group, kind, namespace, name, expected) in cases {
            let identity = identity(group, kind, namespace, name);
            let found = why(&identity, &owner(), Some("parent"), "rukpak-system");
            let is_expected = match expected {
                None => found.is_none(),
                Some(part) => found.as_ref().is_some_and(|found| found.contains(part)),
            };
            assert!(is_expected, "{identity}: {found:?}");
        }
    }
}
