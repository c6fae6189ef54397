//! Permissions that the roles and bindings of a plan grant. A client that creates them must hold these permissions, or have
//! the permission to grant permissions that it does not hold.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::ResourceAttributes,
    rbac::v1::{ClusterRole, PolicyRule, Role},
};
use kube::Api;
use manifests::{
    api::rbac::Scope,
    object::{Identity, get_path, text},
};
use serde_json::Value;

use super::super::{Check, Finding, Input, access_review};
use crate::plan::ApplyStep;

const RBAC: &str = "rbac.authorization.k8s.io";

/// A role or binding of the plan, with the permissions that it grants.
pub(super) struct Grant<'a> {
    /// Identity of the role or binding.
    pub(super) identity: Identity,
    /// Scope of the permissions.
    pub(super) scope: Scope<'a>,
    /// Granted rules.
    pub(super) rules: Vec<PolicyRule>,
    /// Permission to grant the rules without holding them.
    pub(super) escalation: ResourceAttributes,
}

/// Key of a role: true for a ClusterRole, the namespace, and the name.
type RoleKey<'a> = (bool, &'a str, &'a str);

/// Returns all grants of the plan, and a problem for each role that could not be read.
pub(super) async fn find<'a>(
    input: &Input<'a>,
) -> Result<(Vec<Grant<'a>>, Vec<Finding>), kube::Error> {
    let steps = || {
        input
            .plan
            .steps
            .iter()
            .filter(|step| step.object.group() == RBAC)
    };
    let mut roles: BTreeMap<RoleKey<'a>, Option<Vec<PolicyRule>>> = BTreeMap::new();
    let mut grants = Vec::new();
    for step in steps() {
        if let Some((key, grant)) = role(step) {
            roles.insert(key, Some(rules(step.object.value())));
            grants.push(grant);
        }
    }
    let unresolved: BTreeSet<RoleKey<'a>> = steps()
        .filter_map(|step| binding(step).map(|(_, key)| key))
        .filter(|key| !roles.contains_key(key))
        .collect();
    let resolved: Vec<_> = stream::iter(unresolved)
        .map(|key| async move { Ok::<_, kube::Error>((key, resolve_role(input, key).await?)) })
        .buffer_unordered(input.concurrency.max(1))
        .boxed() // without boxing, the compiler cannot prove that it is Send
        .try_collect()
        .await?;
    roles.extend(resolved);
    let mut unknown = Vec::new();
    for step in steps() {
        let Some((scope, key)) = binding(step) else {
            continue;
        };
        let (is_cluster, _, name) = key;
        match roles.get(&key) {
            Some(Some(rules)) => grants.push(Grant {
                identity: step.object.identity(),
                scope,
                rules: rules.clone(),
                escalation: escalation("bind", is_cluster, scope, name),
            }),
            _ => unknown.push(Finding {
                check: Check::Rights,
                message: format!(
                    "{} refers to {} {name}, which cannot be read, or exists neither in the cluster nor in the bundle: \
                     cannot determine whether the account is allowed to grant its permissions",
                    step.object.identity(),
                    if is_cluster { "ClusterRole" } else { "Role" },
                ),
            }),
        }
    }
    Ok((grants, unknown))
}

fn role(step: &ApplyStep) -> Option<(RoleKey<'_>, Grant<'_>)> {
    let object = &step.object;
    let (is_cluster, scope) = match object.kind() {
        "ClusterRole" => (true, None),
        "Role" => (false, Some(object.namespace())),
        _ => return None,
    };
    let mut rules = rules(object.value());
    if get_path(object.value(), &["aggregationRule"]).is_some_and(|rule| !rule.is_null()) {
        // The rules that an aggregated role collects are unknown, so API servers require all permissions.
        let everything = || Some(vec!["*".to_owned()]);
        rules = vec![
            PolicyRule {
                api_groups: everything(),
                resources: everything(),
                verbs: vec!["*".to_owned()],
                ..PolicyRule::default()
            },
            PolicyRule {
                non_resource_urls: everything(),
                verbs: vec!["*".to_owned()],
                ..PolicyRule::default()
            },
        ];
    }
    let grant = Grant {
        identity: object.identity(),
        scope,
        rules,
        escalation: escalation("escalate", is_cluster, scope, object.name()),
    };
    Some((
        (is_cluster, scope.unwrap_or_default(), object.name()),
        grant,
    ))
}

fn binding(step: &ApplyStep) -> Option<(Scope<'_>, RoleKey<'_>)> {
    let object = &step.object;
    let scope = match object.kind() {
        "ClusterRoleBinding" => None,
        "RoleBinding" => Some(object.namespace()),
        _ => return None,
    };
    let name = text(object.value(), &["roleRef", "name"]).filter(|name| !name.is_empty())?;
    match text(object.value(), &["roleRef", "kind"])? {
        "ClusterRole" => Some((scope, (true, "", name))),
        "Role" => Some((scope, (false, scope?, name))),
        _ => None,
    }
}

/// Returns the rules of a role. Malformed rules are skipped: the API server rejects them.
fn rules(role: &Value) -> Vec<PolicyRule> {
    let rules = get_path(role, &["rules"]).and_then(Value::as_array);
    rules
        .into_iter()
        .flatten()
        .filter_map(|rule| serde_json::from_value(rule.clone()).ok())
        .collect()
}

fn escalation(verb: &str, is_cluster: bool, scope: Scope<'_>, name: &str) -> ResourceAttributes {
    let resource = if is_cluster { "clusterroles" } else { "roles" };
    ResourceAttributes {
        group: Some(RBAC.to_owned()),
        resource: Some(resource.to_owned()),
        name: Some(name.to_owned()),
        namespace: scope.map(str::to_owned),
        verb: Some(verb.to_owned()),
        ..ResourceAttributes::default()
    }
}

/// Returns the rules of a role in the cluster. API servers report them to every client that tries to bind the role, so
/// reading the role with the provisioner's permissions reveals nothing.
async fn resolve_role(
    input: &Input<'_>,
    (is_cluster, namespace, name): RoleKey<'_>,
) -> Result<Option<Vec<PolicyRule>>, kube::Error> {
    for client in [input.own, input.client] {
        let client = client.clone();
        let rules = if is_cluster {
            let api = Api::<ClusterRole>::all(client);
            access_review::with_timeout(api.get(name))
                .await
                .map(|role| role.rules)
        } else {
            let api = Api::<Role>::namespaced(client, namespace);
            access_review::with_timeout(api.get(name))
                .await
                .map(|role| role.rules)
        };
        match rules {
            Ok(rules) => return Ok(Some(rules.unwrap_or_default())),
            Err(error) => match access_review::code(&error) {
                Some(403) => {}
                Some(404) => return Ok(None),
                _ => return Err(error),
            },
        }
    }
    Ok(None)
}
