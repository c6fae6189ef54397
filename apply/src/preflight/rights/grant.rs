//! What the roles and bindings of a plan give to others: whoever creates them has to hold it, or to have the right to
//! give away what he does not hold.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::{
    authorization::v1::ResourceAttributes,
    rbac::v1::{ClusterRole, PolicyRule, Role},
};
use kube::Api;
use manifests::{
    api::rights::Scope,
    object::{Identity, at, text},
};
use serde_json::Value;

use super::super::{Check, Input, Problem, ask};
use crate::plan::Step;

const RBAC: &str = "rbac.authorization.k8s.io";

/// Something that gives rights.
pub(super) struct Grant<'a> {
    /// The role or the binding.
    pub(super) identity: Identity,
    /// Where the rights hold.
    pub(super) scope: Scope<'a>,
    /// Which.
    pub(super) rules: Vec<PolicyRule>,
    /// The right to give them without holding them.
    pub(super) bypass: ResourceAttributes,
}

/// A role: whether it is one of the cluster, its namespace, its name.
type Key<'a> = (bool, &'a str, &'a str);

/// Everything that gives rights, and roles that could not be looked at.
pub(super) async fn find<'a>(
    input: &Input<'a>,
) -> Result<(Vec<Grant<'a>>, Vec<Problem>), kube::Error> {
    let steps = || {
        input
            .plan
            .steps
            .iter()
            .filter(|step| step.object.group() == RBAC)
    };
    let mut roles: BTreeMap<Key<'a>, Option<Vec<PolicyRule>>> = BTreeMap::new();
    let mut grants = Vec::new();
    for step in steps() {
        if let Some((key, grant)) = role(step) {
            roles.insert(key, Some(rules(step.object.value())));
            grants.push(grant);
        }
    }
    let others: BTreeSet<Key<'a>> = steps()
        .filter_map(|step| binding(step).map(|(_, key)| key))
        .filter(|key| !roles.contains_key(key))
        .collect();
    let others: Vec<_> = stream::iter(others)
        .map(|key| async move { Ok::<_, kube::Error>((key, look_up(input, key).await?)) })
        .buffer_unordered(input.concurrency.max(1))
        .boxed() // without, the compiler does not see that it is Send
        .try_collect()
        .await?;
    roles.extend(others);
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
                bypass: bypass("bind", is_cluster, scope, name),
            }),
            _ => unknown.push(Problem {
                check: Check::Rights,
                message: format!(
                    "{} refers to {} {name}, which neither exists nor comes with the bundle, or cannot be looked at: whether \
                     the account may give its rights away is not known before it is tried",
                    step.object.identity(),
                    if is_cluster { "ClusterRole" } else { "Role" },
                ),
            }),
        }
    }
    Ok((grants, unknown))
}

fn role(step: &Step) -> Option<(Key<'_>, Grant<'_>)> {
    let object = &step.object;
    let (is_cluster, scope) = match object.kind() {
        "ClusterRole" => (true, None),
        "Role" => (false, Some(object.namespace())),
        _ => return None,
    };
    let mut rules = rules(object.value());
    if at(object.value(), &["aggregationRule"]).is_some_and(|rule| !rule.is_null()) {
        // What it will collect is not known, so API servers demand everything.
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
        bypass: bypass("escalate", is_cluster, scope, object.name()),
    };
    Some((
        (is_cluster, scope.unwrap_or_default(), object.name()),
        grant,
    ))
}

fn binding(step: &Step) -> Option<(Scope<'_>, Key<'_>)> {
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

/// Rules of a wrong shape are for the API server to refuse.
fn rules(role: &Value) -> Vec<PolicyRule> {
    let rules = at(role, &["rules"]).and_then(Value::as_array);
    rules
        .into_iter()
        .flatten()
        .filter_map(|rule| serde_json::from_value(rule.clone()).ok())
        .collect()
}

fn bypass(verb: &str, is_cluster: bool, scope: Scope<'_>, name: &str) -> ResourceAttributes {
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

/// The rules of a role in the cluster. Apiservers tell them to everybody who tries to bind it, so whose right it is read
/// with makes no difference.
async fn look_up(
    input: &Input<'_>,
    (is_cluster, namespace, name): Key<'_>,
) -> Result<Option<Vec<PolicyRule>>, kube::Error> {
    for client in [input.own, input.client] {
        let client = client.clone();
        let rules = if is_cluster {
            let api = Api::<ClusterRole>::all(client);
            ask::within(api.get(name)).await.map(|role| role.rules)
        } else {
            let api = Api::<Role>::namespaced(client, namespace);
            ask::within(api.get(name)).await.map(|role| role.rules)
        };
        match rules {
            Ok(rules) => return Ok(Some(rules.unwrap_or_default())),
            Err(error) => match ask::code(&error) {
                Some(403) => {}
                Some(404) => return Ok(None),
                _ => return Err(error),
            },
        }
    }
    Ok(None)
}
