//! Whether a platform operator may be upgraded to the next bundle of its channel.
//!
//! | `upgradeApproval` | patches of the installed minor version | a new minor version |
//! | --- | --- | --- |
//! | `WithCluster` | at once | when the cluster's minor version moved since the last one was approved; before that, when the installed bundle keeps the cluster from being upgraded and the new one, or one that it leads to, does not |
//! | `Automatic` | at once | at once |
//! | `Manual` | up to `approvedVersion` | up to `approvedVersion` |
//!
//! The cluster's move is told by comparing its minor version with the one that is kept, so moves that nobody has watched
//! count, too. A move counts until the package has followed it: a catalog for the new cluster may come days later. What is
//! kept moves on as soon as there is a new minor version and nothing more to upgrade to.

use convert::rights::Gained;
use manifests::{
    api::{
        bounds,
        platform::{Kept, NewRights, RightsApproval, UpgradeApproval},
    },
    object::shortened,
    openshift::Release,
    version::{self, Version},
};

/// Reasons for waiting.
pub mod reason {
    /// For the cluster's next minor version.
    pub const WITH_CLUSTER: &str = "WaitingForClusterUpgrade";
    /// For `spec.approvedVersion`.
    pub const VERSION: &str = "WaitingForVersionApproval";
    /// For `spec.approvedRights`.
    pub const RIGHTS: &str = "WaitingForRightsApproval";
}

/// A bundle that could be next.
#[derive(Debug, Clone, Copy)]
pub struct Next<'a> {
    /// Its version. It is eligible: what does not run on today's cluster is none.
    pub version: &'a Version,
    /// Whether it leads to where the cluster can be upgraded.
    pub way_out: WayOut,
    /// What it may do that the installed one may not.
    pub gains: Gains<'a>,
}

/// Whether a bundle ends that the installed one keeps the cluster from being upgraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WayOut {
    /// It does not, or nothing is kept from anything.
    None,
    /// It runs on the cluster's next minor version.
    Here,
    /// One does that comes after it, and to which today's cluster can be led.
    Ahead,
}

/// What is known of the rights that a bundle gains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gains<'a> {
    /// Nobody has looked.
    Unseen,
    /// Nobody can look, and why.
    Unknown(&'a str),
    /// It gains none.
    None,
    /// It gains those that this is the digest of.
    These(&'a str),
}

/// What is known.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// `spec.upgradeApproval`.
    pub approval: UpgradeApproval,
    /// `spec.approvedVersion`.
    pub approved_version: Option<&'a str>,
    /// `spec.approveNewRights`.
    pub rights: RightsApproval,
    /// `spec.approvedRights`.
    pub approved_rights: Option<&'a str>,
    /// The version that is installed, as far as it is known.
    pub installed: Option<&'a Version>,
    /// The minor version that the cluster has reached; nothing when that is not known.
    pub cluster: Option<Release>,
    /// What was kept of the last approval.
    pub kept: Option<Kept>,
    /// What could be next.
    pub next: Option<Next<'a>>,
}

/// What is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// There is nothing to upgrade to.
    Stay,
    /// The next bundle may be installed, and why.
    Go(String),
    /// Its version is approved; which rights it gains has to be looked at first.
    Look,
    /// It may not, yet.
    Wait {
        /// In one word.
        reason: &'static str,
        /// What is waited for, and what to do.
        message: String,
    },
}

/// What is decided, and what to keep from now on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What happens now.
    pub step: Step,
    /// To be written where it differs from what was kept.
    pub keep: Option<Kept>,
}

/// Decides about the next bundle.
pub fn decide(input: &Input<'_>) -> Decision {
    let line = input.installed.map(line);
    let step = match input.next {
        None => Step::Stay,
        Some(next) => match version_step(input, next) {
            Step::Go(why) => rights_step(input, next, why),
            other => other,
        },
    };
    let keep = match (input.kept, input.cluster, line) {
        // The first installation was chosen for the cluster as it is.
        (None, Some(cluster), Some(package)) => Some(Kept { cluster, package }),
        // The package has followed the cluster, and there is nothing more to follow with.
        (Some(kept), Some(cluster), Some(package))
            if cluster.is_after(kept.cluster) && step == Step::Stay =>
        {
            let has_followed = kept.package != package;
            Some(if has_followed {
                Kept { cluster, package }
            } else {
                kept
            })
        }
        // A minor version that was installed for another reason is no answer to a move that comes later.
        (Some(kept), Some(cluster), Some(package)) if !cluster.is_after(kept.cluster) => {
            Some(Kept { package, ..kept })
        }
        (kept, ..) => kept,
    };
    Decision { step, keep }
}

/// Reports whether the version is approved.
fn version_step(input: &Input<'_>, next: Next<'_>) -> Step {
    let Next {
        version, way_out, ..
    } = next;
    match input.approval {
        UpgradeApproval::Automatic => Step::Go("spec.upgradeApproval is Automatic".to_owned()),
        UpgradeApproval::Manual => manual(input, version),
        UpgradeApproval::WithCluster => {
            let new = line(version);
            if input.installed.map(line) == Some(new) {
                return Step::Go(format!("{version} is of the installed minor version {new}"));
            }
            let installed = input.installed.map(Version::to_string);
            let installed = installed.unwrap_or_else(|| "what is installed".to_owned());
            match (input.kept, input.cluster) {
                (Some(kept), Some(cluster)) if cluster.is_after(kept.cluster) => Step::Go(format!(
                    "the cluster has moved from {} to {cluster}",
                    kept.cluster
                )),
                _ if way_out == WayOut::Here => Step::Go(format!(
                    "{installed} keeps the cluster from being upgraded, and {version} does not"
                )),
                _ if way_out == WayOut::Ahead => Step::Go(format!(
                    "{installed} keeps the cluster from being upgraded, and {version} leads to one that does not"
                )),
                (_, cluster) if input.installed.is_none() => Step::Wait {
                    reason: reason::WITH_CLUSTER,
                    message: format!(
                        "it is not known which version is installed, so {version} may be a new minor version, and waits until \
                         the cluster is upgraded to one{}; to have it now, set spec.upgradeApproval to Automatic, or to Manual \
                         with spec.approvedVersion: {version}",
                        after(cluster)
                    ),
                },
                (_, cluster) => Step::Wait {
                    reason: reason::WITH_CLUSTER,
                    message: format!(
                        "{version} is a new minor version, and is installed when the cluster is upgraded to one{}; to have \
                         it now, set spec.upgradeApproval to Automatic, or to Manual with spec.approvedVersion: {version}",
                        after(cluster)
                    ),
                },
            }
        }
    }
}

fn after(cluster: Option<Release>) -> String {
    cluster.map(|it| format!(" after {it}")).unwrap_or_default()
}

/// Up to the approved version, and through versions on the way to it.
fn manual(input: &Input<'_>, version: &Version) -> Step {
    let ask = format!("set spec.approvedVersion: {version} to install it");
    let message = match input.approved_version.map(version::strict) {
        Some(Ok(approved)) if version.cmp_precedence(&approved).is_le() => {
            return Step::Go(format!("spec.approvedVersion is {approved}"));
        }
        Some(Ok(approved)) => {
            format!("{version} is newer than spec.approvedVersion {approved}; {ask}")
        }
        Some(Err(error)) => {
            let error = shortened(&error.to_string(), 200);
            format!("spec.approvedVersion cannot be read: {error}; {ask}")
        }
        None => format!("{version} waits for its approval; {ask}"),
    };
    Step::Wait {
        reason: reason::VERSION,
        message,
    }
}

/// Reports whether what the version may do is approved, too.
fn rights_step(input: &Input<'_>, next: Next<'_>, why: String) -> Step {
    match (input.rights, next.gains, input.approved_rights) {
        (RightsApproval::Automatic, ..) | (RightsApproval::Manual, Gains::None, _) => Step::Go(why),
        (RightsApproval::Manual, Gains::Unseen, _) => Step::Look,
        (RightsApproval::Manual, Gains::Unknown(problem), _) => Step::Wait {
            reason: reason::RIGHTS,
            message: format!("the rights of {} are not known: {problem}", next.version),
        },
        (RightsApproval::Manual, Gains::These(digest), Some(approved)) if approved == digest => {
            Step::Go(format!("{why}, and its new rights are approved"))
        }
        (RightsApproval::Manual, Gains::These(digest), approved) => {
            let state = match approved {
                Some(_) => "other ones than spec.approvedRights stands for",
                None => "which nobody has approved",
            };
            Step::Wait {
                reason: reason::RIGHTS,
                message: format!(
                    "{} gains rights, {state}: read status.newRights, and set spec.approvedRights: {digest} to allow them",
                    next.version
                ),
            }
        }
    }
}

/// New rights as the status tells them: each line cut to what is stored, the last one counting what is left out. The
/// digest is of all of them.
pub fn listed(gained: &Gained) -> NewRights {
    // Characters have up to four bytes.
    let longest = bounds::LINE as usize / 4;
    let most = bounds::FINDINGS as usize;
    let mut rules: Vec<String> = gained
        .lines
        .iter()
        .take(most)
        .map(|line| shortened(line, longest))
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

/// Major and minor version.
fn line(version: &Version) -> Release {
    Release::new(version.major, version.minor)
}

#[cfg(test)]
mod tests;
