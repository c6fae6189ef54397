//! Whether the account may do what the plan says, and grant what the bundle's roles grant. All that is missing is listed
//! at once, as objects to apply.
//!
//! ```text
//!  plan ── need ──► rights, by scope ──┐
//!  SelfSubjectRulesReview, by scope ───┴─► not allowed by rules ─► SelfSubjectAccessReview ─► missing ─► text
//! ```
//!
//! Rules of RBAC are compared here, one question for each namespace; other authorizers do not tell their rules and are
//! asked about what is left. Whoever creates a role has to hold what it grants: API servers decide that by RBAC alone.

mod grant;
mod need;
mod text;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
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
use manifests::api::rights::{Right, Rule, Scope, expand, not_covered};

use self::grant::Grant;
use super::{Check, Findings, Input, Problem, ask};
use crate::{account::Account, plan::Leaving};

/// No namespace has this name, so the rules in it are those of the whole cluster.
const NOWHERE: &str = "-";

/// Rights of roles that are compared; what would be more is left to the API server.
const MOST_RIGHTS: usize = 50_000;

/// Whether requests with the account's rights can be made at all.
pub(super) enum Access {
    /// It may do everything, so nothing else has to be asked.
    Everything,
    /// It may do something.
    Some,
    /// No: why, and what to do.
    None(Problem),
}

/// That the provisioner's own rights were found to be everything, a moment ago: nearly always they are, and each
/// installation would ask.
#[derive(Debug, Default)]
pub struct Mighty(Mutex<Option<Instant>>);

/// How long that counts.
const MIGHTY: Duration = Duration::from_secs(15);

impl Mighty {
    fn is_known(&self) -> bool {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        found.is_some_and(|found| found.elapsed() < MIGHTY)
    }

    fn note(&self, is_mighty: bool) {
        let mut found = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *found = is_mighty.then(Instant::now);
    }
}

/// Finds out, with one question or two.
pub(super) async fn access(input: &Input<'_>) -> Result<Access, kube::Error> {
    let is_own = input.policy.account.is_none();
    if is_own && input.mighty.is_known() {
        return Ok(Access::Everything);
    }
    if let Some(account) = &input.policy.account
        && let Some(problem) = absent(input.own, account).await?
    {
        return Ok(Access::None(problem));
    }
    let everything = ResourceAttributes {
        group: Some("*".to_owned()),
        resource: Some("*".to_owned()),
        verb: Some("*".to_owned()),
        ..ResourceAttributes::default()
    };
    let answer = may(input.client, everything).await;
    if is_own {
        input.mighty.note(matches!(answer, Ok(true)));
    }
    match (answer, &input.policy.account) {
        (Ok(true), _) => Ok(Access::Everything),
        (Ok(false), _) => Ok(Access::Some),
        (Err(kube::Error::Api(status)), Some(account)) if status.code == 403 => Ok(Access::None(
            no_impersonation(account, input.system_namespace, &status.message),
        )),
        (Err(error), _) => Err(error),
    }
}

/// Impersonation does not ask whether there is such an account, but who deletes one wants its rights to end.
async fn absent(own: &Client, account: &Account) -> Result<Option<Problem>, kube::Error> {
    let Account { name, namespace } = account;
    let api = Api::<ServiceAccount>::namespaced(own.clone(), namespace);
    match ask::or_none(ask::within(api.get_metadata(name)).await) {
        Ok(None) => Ok(Some(Problem {
            check: Check::Rights,
            message: format!(
                "ServiceAccount {namespace}/{name} does not exist: create it, or correct spec.serviceAccount"
            ),
        })),
        // The provisioner need not have the right to look.
        Err(error) if ask::code(&error) != Some(403) => Err(error),
        Ok(Some(_)) | Err(_) => Ok(None),
    }
}

fn no_impersonation(account: &Account, system: &str, refusal: &str) -> Problem {
    let Account { name, namespace } = account;
    Problem {
        check: Check::Rights,
        message: format!(
            "the provisioner may not act as ServiceAccount {namespace}/{name} ({refusal}): an administrator allows it for all \
             accounts of that namespace with: kubectl create rolebinding bundle-instance-impersonator -n {namespace} \
             --clusterrole=bundle-instance-impersonator --serviceaccount={system}:provisioner"
        ),
    }
}

/// Finds all rights that are missing.
pub(super) async fn check(input: &Input<'_>) -> Result<Findings, kube::Error> {
    let mut findings = Findings::default();
    let leaving = input.plan.leaving.iter().map(Leaving::gvk);
    let kinds = input.kinds.find(leaving).await?;
    let needed = need::of(input.plan, &kinds, input.policy);
    let (grants, unknown) = grant::find(input).await?;
    findings.warnings.extend(unknown);

    let scopes: BTreeSet<Scope<'_>> = needed
        .keys()
        .copied()
        .chain(grants.iter().map(|grant| grant.scope))
        .collect();
    let held = held(input, scopes).await?;
    let no_rules = Vec::new();
    let held_in = |scope| held.get(&scope).unwrap_or(&no_rules);

    let mut missing: BTreeMap<Scope<'_>, BTreeSet<Right<'_>>> = BTreeMap::new();
    for (scope, rights) in &needed {
        let rights = not_covered(rights.iter().copied(), held_in(*scope));
        missing.insert(*scope, rights);
    }
    ask_others(input, &mut missing).await?;
    let mut left = MOST_RIGHTS;
    let mut lacking = Vec::new();
    for grant in &grants {
        if let Some(rights) = expand(&grant.rules, &mut left) {
            lacking.push((grant, not_covered(rights, held_in(grant.scope))));
        } else {
            findings.warnings.push(Problem {
                check: Check::Rights,
                message: format!(
                    "{} grants too much to compare it with the account's rights: the apiserver will decide",
                    grant.identity
                ),
            });
        }
    }
    lacking.retain(|(_, rights)| !rights.is_empty());
    for (scope, rights) in not_bypassed(input, lacking).await? {
        missing.entry(scope).or_default().extend(rights);
    }
    if missing.values().any(|rights| !rights.is_empty()) {
        findings.problems.push(Problem {
            check: Check::Rights,
            message: text::of(
                &missing,
                input.policy.account.as_ref(),
                &input.owner.name,
                input.system_namespace,
            ),
        });
    }
    Ok(findings)
}

/// What the account holds, by scope.
async fn held<'a>(
    input: &Input<'_>,
    scopes: BTreeSet<Scope<'a>>,
) -> Result<BTreeMap<Scope<'a>, Vec<Rule>>, kube::Error> {
    // Made before they are awaited: a closure that borrows, in a stream, would keep the whole from being Send.
    let requests: Vec<_> = scopes
        .into_iter()
        .map(|scope| async move {
            let review = SelfSubjectRulesReview {
                metadata: ObjectMeta::default(),
                spec: SelfSubjectRulesReviewSpec {
                    namespace: Some(scope.unwrap_or(NOWHERE).to_owned()),
                },
                status: None,
            };
            let api = Api::<SelfSubjectRulesReview>::all(input.client.clone());
            let answer = ask::within(api.create(&PostParams::default(), &review)).await?;
            Ok((scope, Rule::of_review(answer.status.unwrap_or_default())))
        })
        .collect();
    stream::iter(requests)
        .buffer_unordered(input.concurrency.max(1))
        .try_collect()
        .await
}

/// Takes out what other authorizers than RBAC allow.
async fn ask_others(
    input: &Input<'_>,
    missing: &mut BTreeMap<Scope<'_>, BTreeSet<Right<'_>>>,
) -> Result<(), kube::Error> {
    let questions: BTreeSet<(Scope<'_>, Right<'_>)> = missing
        .iter()
        .flat_map(|(scope, rights)| rights.iter().map(|right| (*scope, right.of_any_name())))
        .collect();
    let requests: Vec<_> = questions
        .into_iter()
        .map(|(scope, right)| async move {
            let is_allowed = may(input.client, right.attributes(scope)).await?;
            Ok::<_, kube::Error>(is_allowed.then_some((scope, right)))
        })
        .collect();
    let allowed: BTreeSet<(Scope<'_>, Right<'_>)> = stream::iter(requests)
        .buffer_unordered(input.concurrency.max(1))
        .try_filter_map(|answer| std::future::ready(Ok(answer)))
        .try_collect()
        .await?;
    for (scope, rights) in missing {
        rights.retain(|right| !allowed.contains(&(*scope, right.of_any_name())));
    }
    Ok(())
}

/// Takes out what may be given away without being held.
async fn not_bypassed<'a>(
    input: &Input<'_>,
    lacking: Vec<(&Grant<'a>, BTreeSet<Right<'a>>)>,
) -> Result<Vec<(Scope<'a>, BTreeSet<Right<'a>>)>, kube::Error> {
    stream::iter(lacking)
        .map(|(grant, rights)| async move {
            let is_free = may(input.client, grant.bypass.clone()).await?;
            Ok::<_, kube::Error>((!is_free).then_some((grant.scope, rights)))
        })
        .buffer_unordered(input.concurrency.max(1))
        .boxed() // without, the compiler does not see that it is Send
        .try_filter_map(|answer| std::future::ready(Ok(answer)))
        .try_collect()
        .await
}

async fn may(client: &Client, attributes: ResourceAttributes) -> Result<bool, kube::Error> {
    let review = SelfSubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(attributes),
            non_resource_attributes: None,
        },
        status: None,
    };
    let api = Api::<SelfSubjectAccessReview>::all(client.clone());
    let answer = ask::within(api.create(&PostParams::default(), &review)).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

#[cfg(test)]
mod tests;
