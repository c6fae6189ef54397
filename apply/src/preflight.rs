//! Everything that can be known to go wrong before anything is changed, all of it at once.

mod ask;
pub mod crd;
mod namespaces;
pub mod ownership;
mod protected;
mod rights;
mod words;

use std::collections::{BTreeMap, BTreeSet};

pub use self::rights::Mighty;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use manifests::object::{Identity, Object};

use crate::{
    account::Account,
    discovery::Kinds,
    first_few,
    inventory::Inventory,
    plan::{DefinitionPolicy, Owner, Plan},
};

/// What the checks look at.
pub struct Input<'a> {
    /// The object that everything applied belongs to.
    pub owner: &'a Owner,
    /// The name of the BundleInstance that installs the owner, if one does: two that install each other cannot be removed.
    pub parent: Option<&'a str>,
    /// Which checks count, and whose permissions.
    pub policy: &'a Policy,
    /// What is about to be done.
    pub plan: &'a Plan,
    /// What the instance has already.
    pub inventory: &'a Inventory,
    /// With the rights that objects are applied with.
    pub client: &'a Client,
    /// With the provisioner's own rights.
    pub own: &'a Client,
    /// Which APIs are served.
    pub kinds: &'a Kinds,
    /// Whether the provisioner itself may do everything.
    pub mighty: &'a Mighty,
    /// The objects of the plan that an informer shows, and that are not being deleted: their namespaces exist.
    pub existing: &'a BTreeSet<Identity>,
    /// The install namespace, where it was found to exist.
    pub namespace: Option<&'a (String, ObjectMeta)>,
    /// The label and the namespace of the provisioner's own objects, which no bundle may touch.
    pub system_namespace: &'a str,
    /// How many requests at once.
    pub concurrency: usize,
}

/// What the owner permits.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// The account that objects are applied as; the provisioner's own for `None`.
    pub account: Option<Account>,
    /// What happens to CustomResourceDefinitions that leave.
    pub crd_deletion: DefinitionPolicy,
    /// Whether a new version of a CustomResourceDefinition must be safe for existing custom resources.
    pub crd_upgrade_safety: crd::UpgradeSafety,
}

/// Which check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Check {
    /// An object belongs to somebody else, or is our own.
    Ownership,
    /// An object is still there that is about to go: it passes by itself.
    Going,
    /// An API is not served.
    Apis,
    /// A definition's new version is not safe.
    DefinitionUpgrade,
    /// The cluster is too old or too new.
    ClusterVersion,
    /// A namespace is terminating.
    Namespace,
    /// The API server finds an object invalid.
    Invalid,
    /// The account may not. The last, because it ends with what somebody pastes.
    Rights,
}

/// Something that is in the way, or worth knowing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Problem {
    /// Which check found it.
    pub check: Check,
    /// Object, problem and remedy, in one sentence or a few.
    pub message: String,
}

/// What the checks found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Nothing is applied while there is one.
    pub problems: Vec<Problem>,
    /// Worth knowing.
    pub warnings: Vec<Problem>,
    /// Namespaces and accounts `default` that exist: they are used as they are, and must not be applied.
    pub shared: BTreeSet<Identity>,
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
        self.shared.append(&mut other.shared);
        self.unsafe_definitions
            .append(&mut other.unsafe_definitions);
        self.holders.append(&mut other.holders);
    }
}

/// Runs all checks. What they find is in a stable order and bounded, so that it can be compared and written down.
///
/// # Errors
/// Returns an error if the API server does not answer.
pub async fn run(input: &Input<'_>) -> Result<Findings, kube::Error> {
    let (mut findings, out_of_reach) = at_once(input);
    let (access, namespaces) = futures::join!(rights::access(input), namespaces::find(input));
    let access = access?;
    if let rights::Access::None(problem) = access {
        // Whatever else is to be known would take the rights of the account.
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
                rights::Access::Everything => Ok(Findings::default()),
                _ => rights::check(input).await,
            }
        },
        ownership::check(input, &namespaces, &out_of_reach),
    );
    let (rights, ownership) = (rights?, ownership?);
    // Nobody asks again for what was just found not to be there.
    let may_exist = |object: &Object| !ownership.absent.contains(&object.identity());
    let definitions = crd::check(input, may_exist).await;
    let lacks_rights = !rights.problems.is_empty();
    findings.merge(rights);
    findings.merge(ownership.findings);
    if !lacks_rights {
        findings.problems.extend(ownership.unreadable);
    }
    match definitions {
        Ok(found) => findings.merge(found),
        // The account could not read something, and the rights that it lacks are listed already.
        Err(error) if lacks_rights && ask::code(&error) == Some(403) => {}
        Err(error) => return Err(error),
    }
    Ok(bounded(findings))
}

/// What can be said without asking anybody, and which objects are the provisioner's own, whoever else they belong to.
fn at_once(input: &Input<'_>) -> (Findings, BTreeSet<Identity>) {
    let steps = &input.plan.steps;
    let (out_of_reach, mut problems): (BTreeSet<Identity>, Vec<Problem>) =
        protected::check(steps, input.owner, input.parent, input.system_namespace).unzip();
    // The words are those that users of rukpak know.
    problems.extend(input.plan.missing.iter().map(|absent| {
        let (kind, api_version) = (&absent.kind, &absent.api_version);
        Problem {
            check: Check::Apis,
            message: format!(
                "required resource not found: no matches for kind {kind:?} in version {api_version:?}, needed by {}: \
                 install what serves it; the installation goes on by itself then",
                first_few(&absent.needed_by, 3)
            ),
        }
    }));
    let findings = Findings {
        problems,
        ..Findings::default()
    };
    (findings, out_of_reach)
}

/// Sorted, each problem once, and of each check no more than somebody reads.
pub fn bounded(findings: Findings) -> Findings {
    Findings {
        problems: few(findings.problems),
        warnings: few(findings.warnings),
        ..findings
    }
}

fn few(problems: Vec<Problem>) -> Vec<Problem> {
    const MOST_OF_A_CHECK: usize = 20;
    const MOST_BYTES: usize = 2 << 10;
    let mut checks: BTreeMap<Check, BTreeSet<String>> = BTreeMap::new();
    for problem in problems {
        let messages = checks.entry(problem.check).or_default();
        messages.insert(problem.message);
    }
    let mut few = Vec::new();
    for (check, messages) in checks {
        let more = messages.len().saturating_sub(MOST_OF_A_CHECK);
        for mut message in messages.into_iter().take(MOST_OF_A_CHECK) {
            // Rights bound themselves, so that what is left of them can still be applied.
            if check != Check::Rights {
                words::cut(&mut message, MOST_BYTES);
            }
            few.push(Problem { check, message });
        }
        if more > 0 {
            let message = format!("and {more} more like these");
            few.push(Problem { check, message });
        }
    }
    few
}

#[cfg(test)]
mod tests;
