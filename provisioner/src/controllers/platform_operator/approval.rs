//! Decides whether a platform operator may be upgraded to the next bundle of its channel. Pure; no I/O.
//!
//! | `upgradeApproval` | patches of the installed minor version | a new minor version |
//! | --- | --- | --- |
//! | `WithCluster` | at once | after the minor version of the cluster has changed since the last approval; before that, if the installed bundle blocks cluster upgrades and the new one, or a later one on its upgrade path, does not |
//! | `Automatic` | at once | at once |
//! | `Manual` | up to `approvedVersion` | up to `approvedVersion` |
//!
//! A change of the cluster's minor version is detected by comparison with the recorded one, so that changes while the
//! provisioner does not run count as well. It counts until the package has followed the cluster, since a catalog for the
//! new cluster may arrive days later. The record is updated once a new minor version is installed and no further upgrade
//! exists.

use convert::permissions::PermissionDiff;
use manifests::{
    api::{
        limits,
        platform_operator::{ApprovedMinors, NewRights, RightsApproval, UpgradeApproval},
    },
    object::truncate,
    openshift::Release,
    version::{self, Version},
};

/// Reasons for waiting.
pub mod reason {
    /// Waiting for the next minor version of the cluster.
    pub const WITH_CLUSTER: &str = "WaitingForClusterUpgrade";
    /// Waiting for `spec.approvedVersion`.
    pub const VERSION: &str = "WaitingForVersionApproval";
    /// Waiting for `spec.approvedRights`.
    pub const RIGHTS: &str = "WaitingForRightsApproval";
}

/// The next bundle on the upgrade path.
#[derive(Debug, Clone, Copy)]
pub struct UpgradeCandidate<'a> {
    /// Version of the bundle, which supports the current cluster.
    pub version: &'a Version,
    /// Whether the bundle leads to one that does not block cluster upgrades.
    pub unblocks_cluster: UnblocksCluster,
    /// Permissions of the bundle that the installed one does not have.
    pub gains: PermissionChange<'a>,
}

/// Whether an upgrade unblocks cluster upgrades that the installed bundle blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnblocksCluster {
    /// The upgrade does not, or the installed bundle does not block them.
    None,
    /// The bundle supports the next minor version of the cluster.
    Now,
    /// A later bundle does, which is on an upgrade path for the current cluster.
    Later,
}

/// New permissions of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionChange<'a> {
    /// The permissions were not compared yet.
    NotChecked,
    /// The permissions cannot be compared, with the reason.
    Unknown(&'a str),
    /// The bundle has no new permissions.
    None,
    /// The bundle has new permissions, with their digest.
    Digest(&'a str),
}

/// Inputs of the decision.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// Policy for versions, from `spec.upgradeApproval`.
    pub approval: UpgradeApproval,
    /// Newest approved version, from `spec.approvedVersion`.
    pub approved_version: Option<&'a str>,
    /// Policy for new permissions, from `spec.approveNewRights`.
    pub permissions: RightsApproval,
    /// Digest of the approved permissions, from `spec.approvedRights`.
    pub approved_rights: Option<&'a str>,
    /// Installed version; `None` if it is not known.
    pub installed: Option<&'a Version>,
    /// Minor version that the cluster has reached; `None` if it is not known.
    pub cluster: Option<Release>,
    /// Record of the last approval.
    pub kept: Option<ApprovedMinors>,
    /// Next bundle; `None` if no upgrade exists.
    pub next: Option<UpgradeCandidate<'a>>,
}

/// Next step of the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// No upgrade exists.
    NoChange,
    /// The next bundle is approved, with the reason.
    Upgrade(String),
    /// The version is approved, and its new permissions have to be computed.
    CheckPermissions,
    /// The next bundle is not approved yet.
    Wait {
        /// CamelCase reason for waiting.
        reason: &'static str,
        /// Message with the missing approval and the remedy.
        message: String,
    },
}

/// Step, and the record of the approval from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// Next step of the controller.
    pub step: ApprovalDecision,
    /// Record; written if it differs from the previous one.
    pub keep: Option<ApprovedMinors>,
}

/// Decides about the next bundle.
pub fn decide(input: &Input<'_>) -> Decision {
    let package = input.installed.map(minor);
    let step = match input.next {
        None => ApprovalDecision::NoChange,
        Some(next) => match version_step(input, next) {
            ApprovalDecision::Upgrade(why) => rights_step(input, next, why),
            other => other,
        },
    };
    let keep = match (input.kept, input.cluster, package) {
        // The first installation was chosen for the current cluster.
        (None, Some(cluster), Some(package)) => Some(ApprovedMinors { cluster, package }),
        // The package has followed the cluster, and no further upgrade exists.
        (Some(kept), Some(cluster), Some(package))
            if cluster.is_after(kept.cluster) && step == ApprovalDecision::NoChange =>
        {
            let has_followed = kept.package != package;
            Some(if has_followed {
                ApprovedMinors { cluster, package }
            } else {
                kept
            })
        }
        // A minor version that was installed for another reason does not follow a later change of the cluster.
        (Some(kept), Some(cluster), Some(package)) if !cluster.is_after(kept.cluster) => {
            Some(ApprovedMinors { package, ..kept })
        }
        (kept, ..) => kept,
    };
    Decision { step, keep }
}

/// Decides whether the version is approved.
fn version_step(input: &Input<'_>, next: UpgradeCandidate<'_>) -> ApprovalDecision {
    let UpgradeCandidate {
        version,
        unblocks_cluster,
        ..
    } = next;
    match input.approval {
        UpgradeApproval::Automatic => {
            ApprovalDecision::Upgrade("spec.upgradeApproval is Automatic".to_owned())
        }
        UpgradeApproval::Manual => manual(input, version),
        UpgradeApproval::WithCluster => {
            let new = minor(version);
            if input.installed.map(minor) == Some(new) {
                return ApprovalDecision::Upgrade(format!(
                    "{version} belongs to the installed minor version {new}"
                ));
            }
            let installed = input.installed.map(Version::to_string);
            let installed = installed.unwrap_or_else(|| "the installed bundle".to_owned());
            match (input.kept, input.cluster) {
                (Some(kept), Some(cluster)) if cluster.is_after(kept.cluster) => {
                    ApprovalDecision::Upgrade(format!(
                        "the cluster was upgraded from {} to {cluster}",
                        kept.cluster
                    ))
                }
                _ if unblocks_cluster == UnblocksCluster::Now => ApprovalDecision::Upgrade(
                    format!("{installed} blocks cluster upgrades and {version} does not"),
                ),
                _ if unblocks_cluster == UnblocksCluster::Later => {
                    ApprovalDecision::Upgrade(format!(
                        "{installed} blocks cluster upgrades and {version} leads to a version that does not"
                    ))
                }
                (_, cluster) if input.installed.is_none() => ApprovalDecision::Wait {
                    reason: reason::WITH_CLUSTER,
                    message: format!(
                        "the installed version is unknown, so {version} may be a new minor version and waits until the \
                         cluster is upgraded to a new minor version{}; to install it now, set spec.upgradeApproval to \
                         Automatic, or to Manual with spec.approvedVersion: {version}",
                        after(cluster)
                    ),
                },
                (_, cluster) => ApprovalDecision::Wait {
                    reason: reason::WITH_CLUSTER,
                    message: format!(
                        "{version} is a new minor version and is installed when the cluster is upgraded to a new minor \
                         version{}; to install it now, set spec.upgradeApproval to Automatic, or to Manual with \
                         spec.approvedVersion: {version}",
                        after(cluster)
                    ),
                },
            }
        }
    }
}

fn after(cluster: Option<Release>) -> String {
    cluster
        .map(|release| format!(" after {release}"))
        .unwrap_or_default()
}

/// Approves versions up to the approved one, including those on the path to it.
fn manual(input: &Input<'_>, version: &Version) -> ApprovalDecision {
    let ask = format!("set spec.approvedVersion: {version} to install it");
    let message = match input.approved_version.map(version::parse_strict) {
        Some(Ok(approved)) if version.cmp_precedence(&approved).is_le() => {
            return ApprovalDecision::Upgrade(format!("spec.approvedVersion is {approved}"));
        }
        Some(Ok(approved)) => {
            format!("{version} is newer than spec.approvedVersion {approved}; {ask}")
        }
        Some(Err(error)) => {
            let error = truncate(&error.to_string(), 200);
            format!("invalid spec.approvedVersion: {error}; {ask}")
        }
        None => format!("{version} is waiting for approval; {ask}"),
    };
    ApprovalDecision::Wait {
        reason: reason::VERSION,
        message,
    }
}

/// Decides whether the new permissions of an approved version are approved.
fn rights_step(input: &Input<'_>, next: UpgradeCandidate<'_>, why: String) -> ApprovalDecision {
    match (input.permissions, next.gains, input.approved_rights) {
        (RightsApproval::Automatic, ..) | (RightsApproval::Manual, PermissionChange::None, _) => {
            ApprovalDecision::Upgrade(why)
        }
        (RightsApproval::Manual, PermissionChange::NotChecked, _) => {
            ApprovalDecision::CheckPermissions
        }
        (RightsApproval::Manual, PermissionChange::Unknown(problem), _) => ApprovalDecision::Wait {
            reason: reason::RIGHTS,
            message: format!(
                "cannot determine the permissions of {}: {problem}",
                next.version
            ),
        },
        (RightsApproval::Manual, PermissionChange::Digest(digest), Some(approved))
            if approved == digest =>
        {
            ApprovalDecision::Upgrade(format!("{why}, and its new permissions are approved"))
        }
        (RightsApproval::Manual, PermissionChange::Digest(digest), approved) => {
            let state = match approved {
                Some(_) => "that differ from those in spec.approvedRights",
                None => "that are not approved",
            };
            ApprovalDecision::Wait {
                reason: reason::RIGHTS,
                message: format!(
                    "{} requests new permissions {state}; review status.newRights and set spec.approvedRights: \
                     {digest}",
                    next.version
                ),
            }
        }
    }
}

/// Formats new permissions for the status: truncated lines, the last of which counts the omitted ones. The digest covers
/// all of them.
pub fn listed(gained: &PermissionDiff) -> NewRights {
    // Characters have up to four bytes.
    let max_len = limits::LINE as usize / 4;
    let most = limits::FINDINGS as usize;
    let mut rules: Vec<String> = gained
        .lines
        .iter()
        .take(most)
        .map(|line| truncate(line, max_len))
        .collect();
    if gained.lines.len() > most {
        rules.truncate(most.saturating_sub(1));
        rules.push(format!("and {} more", gained.lines.len() - rules.len()));
    }
    NewRights {
        digest: gained.digest.clone(),
        rules,
    }
}

/// Returns the major and minor version.
fn minor(version: &Version) -> Release {
    Release::new(version.major, version.minor)
}

#[cfg(test)]
mod tests;
