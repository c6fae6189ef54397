//! Policies for Bundles that belong to a BundleInstance.

use serde_json::{Value, json};

use super::{GARBAGE_COLLECTORS, Policy, metadata_list, provisioner, upkeep};
use crate::api::{
    GROUP,
    install::Options,
    labels::{OWNER_KIND, OWNER_NAME, TEMPLATE_HASH},
};

pub(super) fn policies(options: &Options) -> impl Iterator<Item = Policy> {
    [ownership(options), deletion(options)].into_iter()
}

/// Returns a CEL expression for the references of an object to BundleInstances.
fn references(object: &str) -> String {
    format!(
        "{}.filter(r, r.kind == 'BundleInstance' && r.apiVersion.startsWith('{GROUP}/'))",
        metadata_list(object, "ownerReferences")
    )
}

/// Denies changes of the BundleInstance that a Bundle belongs to, except by the provisioner. The garbage collector may
/// remove references.
fn ownership(options: &Options) -> Policy {
    // Compare whole references: `bundle-deletion` depends on their names, and the provisioner on `controller`.
    let owners = [("now", "object"), ("before", "oldObject")].map(|(name, object)| {
        let references = references(object);
        (name, format!("{object} == null ? [] : {references}"))
    });
    let labels = [("labels", "object"), ("labelsBefore", "oldObject")].map(|(name, object)| {
        let labels = format!("{object}.metadata.?labels.orValue({{}})");
        (name, format!("{object} == null ? {{}} : {labels}"))
    });
    let collectors = GARBAGE_COLLECTORS
        .map(|user| format!("'{user}'"))
        .join(", ");
    let [finalizers, finalizers_before] =
        ["object", "oldObject"].map(|object| metadata_list(object, "finalizers"));
    Policy {
        name: "bundle-ownership",
        comment: "Only the provisioner creates Bundles with an ownerReference to a BundleInstance or with its labels, and changes these\n\
                  references and labels and the finalizers of such Bundles. The garbage collector removes references and finalizers.",
        group: GROUP,
        resource: "bundles",
        operations: &["CREATE", "UPDATE"],
        conditions: vec![not_in(
            "not-the-provisioner",
            &format!("[{}]", provisioner(options)),
        )],
        variables: owners.into_iter().chain(labels).collect(),
        validations: vec![
            denied(
                &format!(
                    "variables.now.all(r, r in variables.before) && (request.userInfo.username in [{collectors}] || \
                     variables.before.all(r, r in variables.now))"
                ),
                "metadata.ownerReferences: ' + request.userInfo.username + ' is not allowed to add, change or remove a reference \
                 to a BundleInstance; leave them as they are, and create, change or delete the BundleInstance, for which the \
                 provisioner creates the Bundle",
            ),
            denied(
                &format!(
                    "['{OWNER_KIND}', '{OWNER_NAME}', '{TEMPLATE_HASH}'].all(k, k in variables.labels ? k in variables.labelsBefore \
                     && variables.labels[k] == variables.labelsBefore[k] : !(k in variables.labelsBefore))"
                ),
                &format!(
                    "metadata.labels: ' + request.userInfo.username + ' is not allowed to add, change or remove {OWNER_KIND}, \
                     {OWNER_NAME} and {TEMPLATE_HASH}, which the provisioner sets; leave them as they are"
                ),
            ),
            denied(
                &format!(
                    "request.userInfo.username in [{collectors}] || (variables.before + variables.now).size() == 0 || \
                     {finalizers} == (oldObject == null ? [] : {finalizers_before})"
                ),
                "metadata.finalizers: ' + request.userInfo.username + ' is not allowed to change the finalizers of a Bundle of a \
                 BundleInstance; leave them as they are, or delete the BundleInstance",
            ),
        ],
    }
}

/// Requires permission to delete the BundleInstance, because deleting a Bundle interrupts its BundleInstance.
fn deletion(options: &Options) -> Policy {
    Policy {
        name: "bundle-deletion",
        comment: "A user that deletes the Bundle of a BundleInstance needs permission to delete that BundleInstance.",
        group: GROUP,
        resource: "bundles",
        operations: &["DELETE"],
        conditions: vec![not_in("not-upkeep", &upkeep(options))],
        variables: vec![("owners", references("oldObject"))],
        validations: vec![denied(
            &format!(
                "variables.owners.all(r, authorizer.group('{GROUP}').resource('bundleinstances').name(r.name).check('delete').allowed())"
            ),
            "' + request.userInfo.username + ' is not allowed to delete Bundle ' + oldObject.metadata.name + ' of BundleInstance ' + variables.owners.map(r, \
             r.name).join(', ') + '; ask for the verb delete on bundleinstances.core.rukpak.io, or change the BundleInstance",
        )],
    }
}

/// Returns the condition that the user is not in a list.
fn not_in(name: &'static str, users: &str) -> (&'static str, String) {
    (name, format!("!(request.userInfo.username in {users})"))
}

/// Returns a rule with its message, which becomes part of a CEL string.
fn denied(expression: &str, message: &str) -> Value {
    json!({
        "expression": expression,
        "messageExpression": format!("'{message}'"),
        "reason": "Forbidden",
    })
}
