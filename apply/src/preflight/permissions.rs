//! Permission check: whether the account may apply the plan and grant the permissions of the bundle's roles. All missing
//! permissions are listed at once, as objects to apply.
//!
//! ```text
//!  plan ── required ──► permissions by scope ──┐
//!  SelfSubjectRulesReview by scope ────────────┴─► not allowed by rules ► SelfSubjectAccessReview ► missing ► manifest
//! ```
//!
//! RBAC rules are compared here, with one request per namespace. Other authorizers do not publish their rules, so each
//! remaining permission takes a separate request. A client that creates a role must hold the permissions that the role
//! grants. API servers check that by RBAC alone.

mod grants;
mod manifest;
mod required;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::{
    api::{
        authorization::v1::{
            ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
            SelfSubjectRulesReview, SelfSubjectRulesReviewSpec,
        },
        core::v1::ServiceAccount,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, api::PostParams};
use manifests::api::rbac::{self, Permission, Rule, Scope, expand};
use parking_lot::Mutex;

use self::grants::Grant;
use super::{Check, Finding, Findings, Input, access_review};
use crate::{account::Account, plan::PruneCandidate};

/// A name that no namespace has: the rules for it are those of the whole cluster.
const CLUSTER_SCOPE_PROBE: &str = "-";

/// Maximum number of compared permissions of roles. Beyond it, the API server decides.
const MAX_RULES: usize = 50_000;

/// Permissions of the account in general.
pub(super) enum Impersonation {
    /// The account has all permissions; no further check is necessary.
    Everything,
    /// The account has some permissions.
    Some,
    /// The account cannot be used, for this reason.
    None(Finding),
}

/// Caches that the provisioner has cluster-admin permissions. It nearly always has them, and every installation would check
/// it again.
#[derive(Debug, Default)]
pub struct ClusterAdminCheck(Mutex<Option<Instant>>);

/// Time for which the result is cached.
const CLUSTER_ADMIN_TTL: Duration = Duration::from_secs(15);

impl ClusterAdminCheck {
    fn is_cached(&self) -> bool {
        let checked_at = self.0.lock();
        checked_at.is_some_and(|checked_at| checked_at.elapsed() < CLUSTER_ADMIN_TTL)
    }

    fn record(&self, is_cluster_admin: bool) {
        let mut checked_at = self.0.lock();
        *checked_at = is_cluster_admin.then(Instant::now);
    }
}

/// Determines the permissions of the account with one or two requests.
pub(super) async fn access(input: &Input<'_>) -> Result<Impersonation, kube::Error> {
    let is_own = input.policy.account.is_none();
    if is_own && input.is_cluster_admin.is_cached() {
        return Ok(Impersonation::Everything);
    }
    if let Some(account) = &input.policy.account
        && let Some(problem) = missing_account(input.own, account).await?
    {
        return Ok(Impersonation::None(problem));
    }
    let everything = ResourceAttributes {
        group: Some("*".to_owned()),
        resource: Some("*".to_owned()),
        verb: Some("*".to_owned()),
        ..ResourceAttributes::default()
    };
    let answer = is_allowed(input.client, everything).await;
    if is_own {
        input.is_cluster_admin.record(matches!(answer, Ok(true)));
    }
    match (answer, &input.policy.account) {
        (Ok(true), _) => Ok(Impersonation::Everything),
        (Ok(false), _) => Ok(Impersonation::Some),
        (Err(kube::Error::Api(status)), Some(account)) if status.code == 403 => {
            Ok(Impersonation::None(no_impersonation(
                account,
                input.system_namespace,
                &status.message,
            )))
        }
        (Err(error), _) => Err(error),
    }
}

/// Returns a problem if the ServiceAccount does not exist. Impersonation does not require it, but an admin who deletes an
/// account expects its permissions to end.
async fn missing_account(own: &Client, account: &Account) -> Result<Option<Finding>, kube::Error> {
    let Account { name, namespace } = account;
    let api = Api::<ServiceAccount>::namespaced(own.clone(), namespace);
    match access_review::optional(access_review::with_timeout(api.get_metadata(name)).await) {
        Ok(None) => Ok(Some(Finding {
            check: Check::Rights,
            message: format!(
                "ServiceAccount {namespace}/{name} does not exist: create it, or correct spec.serviceAccount"
            ),
        })),
        // The provisioner may lack the permission to read the account.
        Err(error) if access_review::code(&error) != Some(403) => Err(error),
        Ok(Some(_)) | Err(_) => Ok(None),
    }
}

fn no_impersonation(account: &Account, system: &str, reason: &str) -> Finding {
    let Account { name, namespace } = account;
    Finding {
        check: Check::Rights,
        message: format!(
            "the provisioner is not allowed to impersonate ServiceAccount {namespace}/{name} ({reason}); to allow it \
             for all accounts of that namespace, run as a cluster admin: kubectl create rolebinding \
             bundle-instance-impersonator -n {namespace} --clusterrole=bundle-instance-impersonator \
             --serviceaccount={system}:provisioner"
        ),
    }
}

/// Finds all missing permissions.
pub(super) async fn check(input: &Input<'_>) -> Result<Findings, kube::Error> {
    let mut findings = Findings::default();
    let leaving = input.plan.leaving.iter().map(PruneCandidate::gvk);
    let kinds = input.kinds.find(leaving).await?;
    let needed = required::required(input.plan, &kinds, input.policy);
    let (grants, unknown) = grants::find(input).await?;
    findings.warnings.extend(unknown);

    let scopes: BTreeSet<Scope<'_>> = needed
        .keys()
        .copied()
        .chain(grants.iter().map(|grant| grant.scope))
        .collect();
    let held = held_rules(input, scopes).await?;
    let no_rules = Vec::new();
    let held_in = |scope| held.get(&scope).unwrap_or(&no_rules);

    let mut missing: BTreeMap<Scope<'_>, BTreeSet<Permission<'_>>> = BTreeMap::new();
    for (scope, permissions) in &needed {
        let permissions = rbac::missing(permissions.iter().copied(), held_in(*scope));
        missing.insert(*scope, permissions);
    }
    remove_allowed(input, &mut missing).await?;
    let mut budget = MAX_RULES;
    let mut lacking = Vec::new();
    for grant in &grants {
        if let Some(permissions) = expand(&grant.rules, &mut budget) {
            lacking.push((grant, rbac::missing(permissions, held_in(grant.scope))));
        } else {
            findings.warnings.push(Finding {
                check: Check::Rights,
                message: format!(
                    "{} grants too many permissions to compare them with those of the account; the API server checks \
                     them when they are applied",
                    grant.identity
                ),
            });
        }
    }
    lacking.retain(|(_, permissions)| !permissions.is_empty());
    for (scope, permissions) in without_escalation(input, lacking).await? {
        missing.entry(scope).or_default().extend(permissions);
    }
    if missing.values().any(|permissions| !permissions.is_empty()) {
        findings.problems.push(Finding {
            check: Check::Rights,
            message: manifest::format_manifest(
                &missing,
                input.policy.account.as_ref(),
                &input.owner.name,
                input.system_namespace,
            ),
        });
    }
    Ok(findings)
}

/// Returns the RBAC rules of the account by scope.
async fn held_rules<'a>(
    input: &Input<'_>,
    scopes: BTreeSet<Scope<'a>>,
) -> Result<BTreeMap<Scope<'a>, Vec<Rule>>, kube::Error> {
    // The futures are created before they are awaited: a borrowing closure in the stream would make the whole future not
    // Send.
    let requests: Vec<_> = scopes
        .into_iter()
        .map(|scope| async move {
            let review = SelfSubjectRulesReview {
                metadata: ObjectMeta::default(),
                spec: SelfSubjectRulesReviewSpec {
                    namespace: Some(scope.unwrap_or(CLUSTER_SCOPE_PROBE).to_owned()),
                },
                status: None,
            };
            let api = Api::<SelfSubjectRulesReview>::all(input.client.clone());
            let answer =
                access_review::with_timeout(api.create(&PostParams::default(), &review)).await?;
            Ok((scope, Rule::from_review(answer.status.unwrap_or_default())))
        })
        .collect();
    stream::iter(requests)
        .buffer_unordered(input.concurrency.max(1))
        .try_collect()
        .await
}

/// Removes the permissions that other authorizers than RBAC allow.
async fn remove_allowed(
    input: &Input<'_>,
    missing: &mut BTreeMap<Scope<'_>, BTreeSet<Permission<'_>>>,
) -> Result<(), kube::Error> {
    let questions: BTreeSet<(Scope<'_>, Permission<'_>)> = missing
        .iter()
        .flat_map(|(scope, permissions)| {
            permissions
                .iter()
                .map(|permission| (*scope, permission.of_any_name()))
        })
        .collect();
    let requests: Vec<_> = questions
        .into_iter()
        .map(|(scope, permission)| async move {
            let is_allowed = is_allowed(input.client, permission.attributes(scope)).await?;
            Ok::<_, kube::Error>(is_allowed.then_some((scope, permission)))
        })
        .collect();
    let allowed: BTreeSet<(Scope<'_>, Permission<'_>)> = stream::iter(requests)
        .buffer_unordered(input.concurrency.max(1))
        .try_filter_map(|answer| std::future::ready(Ok(answer)))
        .try_collect()
        .await?;
    for (scope, permissions) in missing {
        permissions.retain(|permission| !allowed.contains(&(*scope, permission.of_any_name())));
    }
    Ok(())
}

/// Removes the grants that the account may make without holding their permissions.
async fn without_escalation<'a>(
    input: &Input<'_>,
    lacking: Vec<(&Grant<'a>, BTreeSet<Permission<'a>>)>,
) -> Result<Vec<(Scope<'a>, BTreeSet<Permission<'a>>)>, kube::Error> {
    stream::iter(lacking)
        .map(|(grant, permissions)| async move {
            let is_free = is_allowed(input.client, grant.escalation.clone()).await?;
            Ok::<_, kube::Error>((!is_free).then_some((grant.scope, permissions)))
        })
        .buffer_unordered(input.concurrency.max(1))
        .boxed() // without boxing, the compiler cannot prove that it is Send
        .try_filter_map(|answer| std::future::ready(Ok(answer)))
        .try_collect()
        .await
}

async fn is_allowed(client: &Client, attributes: ResourceAttributes) -> Result<bool, kube::Error> {
    let review = SelfSubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            non_resource_attributes: None,
        },
        status: None,
    };
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = access_review::with_timeout(api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests;
