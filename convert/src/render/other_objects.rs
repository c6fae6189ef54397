//! All other objects of a bundle: CustomResourceDefinitions, RBAC, Services, custom resources.

use manifests::go_types;
use manifests::object::{child_mut, mapping, text};
use manifests::path::Path;
use serde_json::Value;

use crate::{
    bundle::Item,
    csv,
    finding::{Findings, code::Code},
    scope::{self, Scope, Scopes},
};

/// Moves the objects to their namespace, and removes fields that an API server would reject.
pub(crate) fn objects(others: Vec<Item>, namespace: &str, findings: &mut Findings) -> Vec<Item> {
    let places: Vec<Option<Scope>> = {
        let scopes = Scopes::of_crds(
            others
                .iter()
                .filter(|item| item.kind() == "CustomResourceDefinition"),
        );
        others
            .iter()
            .map(|item| scopes.for_kind(item.api_version(), item.kind()))
            .collect()
    };
    others
        .into_iter()
        .zip(places)
        .map(|(mut item, scope)| {
            supported(&item, findings);
            place(&mut item, scope, namespace, findings);
            remove_server_fields(&mut item, findings);
            item
        })
        .collect()
}

/// Warns about kinds that OLM does not install. This conversion installs all kinds, but OLM rejects the bundle.
fn supported(item: &Item, findings: &mut Findings) {
    if !scope::is_supported_by_olm(item.kind()) {
        findings.warn(
            Code::UnsupportedKind,
            item.place.clone(),
            format!(
                "{} is installed here; OLM rejects bundles with this kind",
                item.label()
            ),
            "create it from the operator if the bundle must also work with OLM",
        );
    }
}

fn place(item: &mut Item, scope: Option<Scope>, namespace: &str, findings: &mut Findings) {
    let at = || item.place.at(&Path::from(["metadata", "namespace"]));
    let stated = text(&item.value, &["metadata", "namespace"]).unwrap_or_default();
    let target = match scope {
        Some(Scope::Namespaced) => Some(namespace),
        Some(Scope::Cluster) => None,
        None => {
            // An object without an apiVersion is rejected elsewhere.
            if !item.api_version().is_empty() {
                findings.warn(
                    Code::UnknownScope,
                    item.place.clone(),
                    format!(
                        "the scope of kind {} ({}) is unknown; {} is treated as {}, as in the bundle",
                        item.kind(),
                        item.api_version(),
                        item.label(),
                        if stated.is_empty() { "cluster-scoped" } else { "namespaced" },
                    ),
                    "add the CRD of the kind to the bundle, or set metadata.namespace if the kind is namespaced",
                );
            }
            (!stated.is_empty()).then_some(namespace)
        }
    };
    let stated = stated.to_owned();
    match target {
        Some(namespace) if stated != namespace => {
            if !stated.is_empty() {
                let message = format!(
                    "{} moves from namespace {stated:?} to {namespace:?}",
                    item.label()
                );
                // A role for another namespace now grants its permissions in the wrong one.
                if matches!(item.kind(), "Role" | "RoleBinding") {
                    findings.warn(
                        Code::Namespace,
                        at(),
                        message,
                        "use a ClusterRole, or grant the permissions manually",
                    );
                } else {
                    findings.change(Code::Namespace, at(), message);
                }
            }
            set_namespace(&mut item.value, Some(namespace));
        }
        None if !stated.is_empty() => {
            let message = format!(
                "{} is cluster-scoped; its namespace {stated:?} is dropped",
                item.label()
            );
            findings.change(Code::Namespace, at(), message);
            set_namespace(&mut item.value, None);
        }
        _ => {}
    }
}

fn set_namespace(value: &mut Value, namespace: Option<&str>) {
    let metadata = mapping(child_mut(value, "metadata"));
    match namespace {
        Some(name) => metadata.insert("namespace".into(), name.into()),
        None => metadata.remove("namespace"),
    };
}

/// Removes fields that a cluster sets itself. Reports and removes fields that the API of a built-in kind does not define,
/// because server-side apply rejects them.
fn remove_server_fields(item: &mut Item, findings: &mut Findings) {
    let is_built_in = scope::of_builtin(item.api_version(), item.kind()).is_some();
    let value = mapping(&mut item.value);
    // In a custom resource, the status may be data: without a status subresource it is stored like all other fields.
    if is_built_in {
        value.remove("status");
    }
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in [
            "creationTimestamp",
            "generation",
            "deletionGracePeriodSeconds",
            "deletionTimestamp",
            "managedFields",
            "ownerReferences",
            "resourceVersion",
            "selfLink",
            "uid",
        ] {
            metadata.remove(field);
        }
    }
    let Some(kind) = go_types::kind(item.api_version(), item.kind()) else {
        return;
    };
    let label = item.label();
    // Other tools decode CustomResourceDefinitions, so a wrong type prevents their use. All other kinds are validated by
    // the API server.
    if item.kind() == "CustomResourceDefinition" {
        for problem in go_types::conform(&mut item.value, kind.ty) {
            csv::report(&problem, |_| true, &item.place, &label, findings);
        }
    } else {
        for problem in go_types::prune(&mut item.value, kind.ty) {
            csv::report(&problem, |_| false, &item.place, &label, findings);
        }
    }
}
