//! Preflight checks: find all problems of a plan before any object is changed.

mod access_review;
pub mod crd_safety;
mod format;
mod namespaces;
pub mod ownership;
mod permissions;
mod protected;

use std::collections::{BTreeMap, BTreeSet};

pub use self::permissions::ClusterAdminCheck;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use manifests::object::{Identity, Object};

use crate::{
    account::Account,
    discovery::Discovery,
    first_few,
    inventory::Inventory,
    plan::{DefinitionPolicy, InstanceOwner, Plan},
};

/// Input of the checks.
pub struct Input<'a> {
    /// Owner of all applied objects.
    pub owner: &'a InstanceOwner,
    /// The name of the BundleInstance that installs the owner, if one does: two that install each other cannot be removed.
    pub parent: Option<&'a str>,
    /// Enforced checks, and the account of the requests.
    pub policy: &'a Policy,
    /// Plan to check.
    pub plan: &'a Plan,
    /// Objects that the instance owns already.
    pub inventory: &'a Inventory,
    /// Client with the permissions that the objects are applied with.
    pub client: &'a Client,
    /// Client with the provisioner's own permissions.
    pub own: &'a Client,
    /// Discovery cache.
    pub kinds: &'a Discovery,
    /// Caches whether the provisioner has cluster-admin permissions.
    pub is_cluster_admin: &'a ClusterAdminCheck,
    /// Objects of the plan that an informer reports and that are not terminating: their namespaces exist.
    pub existing: &'a BTreeSet<Identity>,
    /// Install namespace with its metadata; `None` if it was not found.
    pub namespace: Option<&'a (String, ObjectMeta)>,
    /// Namespace of the provisioner's own objects, which no bundle may change.
    pub system_namespace: &'a str,
    /// Maximum number of concurrent requests.
    pub concurrency: usize,
}

/// Settings of the owner.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// The account that objects are applied as; the provisioner's own for `None`.
    pub account: Option<Account>,
    /// Treatment of CustomResourceDefinitions that are pruned.
    pub crd_deletion: DefinitionPolicy,
    /// Whether a new version of a CustomResourceDefinition must be safe for existing custom resources.
    pub crd_upgrade_safety: crd_safety::UpgradeSafety,
}

/// A preflight check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// An object has another owner, or belongs to the provisioner itself.
    Ownership,
    /// An object is still terminating; the problem resolves itself.
    Terminating,
    /// A required API is not served.
    Apis,
    /// A new version of a CRD is not safe for existing custom resources.
    DefinitionUpgrade,
    /// The version of the cluster is not supported.
    ClusterVersion,
    /// A namespace does not exist, or is terminating.
    Namespace,
    /// The API server rejects an object as invalid.
    Invalid,
    /// The account lacks permissions. This check is the last one because its message ends with a manifest to copy.
    Rights,
}

/// A problem or a warning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Check that reported the problem.
    pub check: Check,
    /// Message with object, problem and remedy.
    pub message: String,
}

/// Results of the checks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Problems that prevent the plan from being applied.
    pub problems: Vec<Finding>,
    /// Warnings, which do not prevent the plan from being applied.
    pub warnings: Vec<Finding>,
    /// Existing Namespaces and `default` ServiceAccounts. They are used unchanged and must not be applied.
    pub used_as_is: BTreeSet<Identity>,
    /// The names of CustomResourceDefinitions whose new version is not safe.
    pub unsafe_definitions: BTreeSet<String>,
    /// The BundleInstances that own objects of the plan; `None` stands for any other owner.
    pub holders: BTreeSet<Option<String>>,
}

impl Findings {
    /// Adds the findings of another check.
    pub fn merge(&mut self, mut other: Self) {
        self.problems.append(&mut other.problems);
        self.warnings.append(&mut other.warnings);
        self.used_as_is.append(&mut other.used_as_is);
        self.unsafe_definitions
            .append(&mut other.unsafe_definitions);
        self.holders.append(&mut other.holders);
    }
}

/// Runs all checks. The findings are sorted and bounded, so that they can be compared and recorded.
///
/// # Errors
/// Returns an error if the API server does not respond.
pub async fn run(input: &Input<'_>) -> Result<Findings, kube::Error> {
    let (mut findings, protected_objects) = check_locally(input);
    let (access, namespaces) = futures::join!(permissions::access(input), namespaces::find(input));
    let access = access?;
    if let permissions::Impersonation::None(problem) = access {
        // All other checks require the permissions of the account.
        findings.problems.push(problem);
        return Ok(bounded(findings));
    }
    let namespaces = namespaces?;
    findings
        .problems
        .extend(namespaces::check(&input.plan.steps, &namespaces));
    let (rights, ownership) = futures::join!(
        async {
            match access {
                permissions::Impersonation::Everything => Ok(Findings::default()),
                _ => permissions::check(input).await,
            }
        },
        ownership::check(input, &namespaces, &protected_objects),
    );
    let (rights, ownership) = (rights?, ownership?);
    // Objects that were just found to be missing are not requested again.
    let may_exist = |object: &Object| !ownership.absent.contains(&object.identity());
    let crds = crd_safety::check(input, may_exist).await;
    let lacks_rights = !rights.problems.is_empty();
    findings.merge(rights);
    findings.merge(ownership.findings);
    if !lacks_rights {
        findings.problems.extend(ownership.unreadable);
    }
    match crds {
        Ok(found) => findings.merge(found),
        // The account lacks permission to read an object, and the missing permissions are listed already.
        Err(error) if lacks_rights && access_review::code(&error) == Some(403) => {}
        Err(error) => return Err(error),
    }
    Ok(bounded(findings))
}

/// Runs the checks that need no request. Returns their findings, and the plan's objects that belong to the provisioner
/// itself.
fn check_locally(input: &Input<'_>) -> (Findings, BTreeSet<Identity>) {
    let steps = &input.plan.steps;
    let (protected_objects, mut problems): (BTreeSet<Identity>, Vec<Finding>) =
        protected::check(steps, input.owner, input.parent, input.system_namespace).unzip();
    // The message has the wording of rukpak.
    problems.extend(input.plan.missing.iter().map(|absent| {
        let (kind, api_version) = (&absent.kind, &absent.api_version);
        Finding {
            check: Check::Apis,
            message: format!(
                "required resource not found: no matches for kind {kind:?} in version {api_version:?}, needed by {}: \
                 install its CRD or API server; the installation then continues automatically",
                first_few(&absent.needed_by, 3)
            ),
        }
    }));
    let findings = Findings {
        problems,
        ..Findings::default()
    };
    (findings, protected_objects)
}

/// Sorts and deduplicates findings, and limits their number per check.
pub fn bounded(findings: Findings) -> Findings {
    Findings {
        problems: limit(findings.problems),
        warnings: limit(findings.warnings),
        ..findings
    }
}

fn limit(problems: Vec<Finding>) -> Vec<Finding> {
    const MAX_PER_CHECK: usize = 20;
    const MAX_MESSAGE_LEN: usize = 2 << 10;
    let mut checks: BTreeMap<Check, BTreeSet<String>> = BTreeMap::new();
    for problem in problems {
        let messages = checks.entry(problem.check).or_default();
        messages.insert(problem.message);
    }
    let mut limited = Vec::new();
    for (check, messages) in checks {
        let more = messages.len().saturating_sub(MAX_PER_CHECK);
        for mut message in messages.into_iter().take(MAX_PER_CHECK) {
            // The manifest with missing permissions limits itself, so that its remaining part can be applied.
            if check != Check::Rights {
                format::truncate(&mut message, MAX_MESSAGE_LEN);
            }
            limited.push(Finding { check, message });
        }
        if more > 0 {
            let message = format!("and {more} more like these");
            limited.push(Finding { check, message });
        }
    }
    limited
}

#[cfg(test)]
mod tests;
