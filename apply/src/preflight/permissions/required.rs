//! Permissions that a plan requires: to apply, watch and delete its objects.

use std::collections::{BTreeMap, BTreeSet};

use manifests::{
    api::rbac::{Permission, Scope},
    object::{Identity, Object, text},
};

use crate::{
    discovery::{ApiKind, DiscoveredKinds},
    plan::{ApplyStep, DefinitionPolicy, Plan, is_definition, is_namespace},
    preflight::{Policy, crd_safety::UpgradeSafety},
};

/// Permissions by scope.
pub(super) type PermissionsByScope<'a> = BTreeMap<Scope<'a>, BTreeSet<Permission<'a>>>;

/// Returns all permissions that a plan requires.
pub(super) fn required<'a>(
    plan: &'a Plan,
    leaving: &'a DiscoveredKinds,
    policy: &Policy,
) -> PermissionsByScope<'a> {
    let mut permissions = PermissionsByScope::new();
    for step in &plan.steps {
        apply(step, policy, &mut permissions);
    }
    for object in &plan.leaving {
        // Objects of a kind that the API server does not serve do not exist.
        if let Some(Some(kind)) = leaving.get(&object.gvk()) {
            let identity = &object.identity;
            let target = Target {
                kind,
                namespace: &identity.namespace,
                name: &identity.name,
            };
            let verbs = deletion_verbs(identity, policy.crd_deletion);
            target.named(&["get"], &mut permissions);
            target.named(verbs, &mut permissions);
        }
    }
    permissions
}

fn apply<'a>(step: &'a ApplyStep, policy: &Policy, permissions: &mut PermissionsByScope<'a>) {
    let object = &step.object;
    let target = Target {
        kind: &step.kind,
        namespace: object.namespace(),
        name: object.name(),
    };
    target.named(&["get", "patch"], permissions);
    target.all(&["create", "list", "watch"], permissions);
    let identity = object.identity();
    target.named(deletion_verbs(&identity, policy.crd_deletion), permissions);
    if is_definition(&identity) {
        custom_resource_permissions(object, policy, permissions);
    }
}

/// Adds the permissions for the custom resources of a CRD, which must be listed before the CRD is changed or deleted.
fn custom_resource_permissions<'a>(
    crd: &'a Object,
    policy: &Policy,
    permissions: &mut PermissionsByScope<'a>,
) {
    let field = |path| text(crd.value(), path).filter(|text| !text.is_empty());
    let (Some(group), Some(resource)) = (
        field(&["spec", "group"]),
        field(&["spec", "names", "plural"]),
    ) else {
        return;
    };
    let is_checked = policy.crd_upgrade_safety == UpgradeSafety::Enforced;
    let verbs: &[&str] = match policy.crd_deletion {
        DefinitionPolicy::Retain if !is_checked => &[],
        DefinitionPolicy::Retain | DefinitionPolicy::DeleteIfUnused => &["list"],
        DefinitionPolicy::Delete => &["list", "delete"],
    };
    let cluster = permissions.entry(None).or_default();
    cluster.extend(verbs.iter().map(|verb| Permission::Resource {
        group,
        resource,
        name: None,
        verb,
    }));
}

/// Returns the verbs that are needed to delete or release an object when it is pruned, or when the instance is deleted.
fn deletion_verbs(identity: &Identity, policy: DefinitionPolicy) -> &'static [&'static str] {
    match policy {
        _ if is_namespace(identity) => &["patch"],
        _ if !is_definition(identity) => &["delete"],
        DefinitionPolicy::Retain => &["patch"],
        DefinitionPolicy::DeleteIfUnused | DefinitionPolicy::Delete => &["patch", "delete"],
    }
}

/// Object of an authorization request.
struct Target<'a> {
    kind: &'a ApiKind,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Target<'a> {
    fn named(&self, verbs: &[&'static str], permissions: &mut PermissionsByScope<'a>) {
        self.add(verbs, Some(self.name), permissions);
    }

    fn all(&self, verbs: &[&'static str], permissions: &mut PermissionsByScope<'a>) {
        self.add(verbs, None, permissions);
    }

    fn add(
        &self,
        verbs: &[&'static str],
        name: Option<&'a str>,
        permissions: &mut PermissionsByScope<'a>,
    ) {
        let scope = self.kind.namespaced.then_some(self.namespace);
        let permissions = permissions.entry(scope).or_default();
        permissions.extend(verbs.iter().map(|verb| Permission::Resource {
            group: &self.kind.resource.group,
            resource: &self.kind.resource.plural,
            name,
            verb,
        }));
    }
}
