//! The choice of the revision to roll back to. Pure; no I/O.

use manifests::api::bundle_instance::{RevisionState, RevisionStatus};

use crate::{
    args,
    cluster::revisions::{self, FindError, list},
};

/// The reason why a BundleInstance is not rolled back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum ChooseError {
    /// The requested revision is not available.
    #[error(transparent)]
    Find(#[from] FindError),
    /// The status records no other revision.
    #[error(
        "BundleInstance {name} has no other revision to roll back to; run \"{} history {name}\"",
        args::name()
    )]
    NoOther {
        /// The BundleInstance.
        name: String,
    },
    /// The requested revision is the active one.
    #[error(
        "revision {number} of BundleInstance {name} is already active{}",
        remedy(others)
    )]
    Active {
        /// The BundleInstance.
        name: String,
        /// The requested number.
        number: i64,
        /// The numbers of revisions that can be chosen.
        others: Vec<i64>,
    },
    /// The active revision has the same digest.
    #[error(
        "revision {number} of BundleInstance {name} has the objects of revision {active}, which is already active{}",
        remedy(others)
    )]
    Same {
        /// The BundleInstance.
        name: String,
        /// The requested number.
        number: i64,
        /// The number of the active revision.
        active: i64,
        /// The numbers of revisions that can be chosen.
        others: Vec<i64>,
    },
    /// The requested revision is the one that is being rolled out.
    #[error(
        "revision {number} of BundleInstance {name} is being rolled out{}",
        remedy(others)
    )]
    RollingOut {
        /// The BundleInstance.
        name: String,
        /// The requested number.
        number: i64,
        /// The numbers of revisions that can be chosen.
        others: Vec<i64>,
    },
}

/// Chooses the revision to roll back to.
///
/// Without a requested number, the pinned revision is chosen, so that a repeated command changes nothing. Without a pin, it
/// is the active revision while a newer one is being rolled out, and otherwise the newest archived revision whose digest
/// differs from that of the active one.
///
/// # Errors
/// Returns an error if the requested revision is not recorded, or is the current one, or if no other revision exists.
pub(super) fn target(
    name: &str,
    revisions: &[RevisionStatus],
    pin: Option<i64>,
    requested: Option<i64>,
) -> Result<i64, ChooseError> {
    let name = name.to_owned();
    let active = revisions::newest(revisions, RevisionState::Active);
    let is_rolling_out = revisions::newest(revisions, RevisionState::RollingOut).is_some();
    // While a newer revision is being rolled out, the active one is the target.
    let is_eligible = |revision: &&RevisionStatus| match revision.state {
        RevisionState::RollingOut => false,
        RevisionState::Active => is_rolling_out,
        RevisionState::Archived => {
            is_rolling_out || active.is_none_or(|active| active.digest != revision.digest)
        }
    };
    let eligible: Vec<RevisionStatus> = revisions.iter().filter(is_eligible).cloned().collect();
    let others = || revisions::numbers(&eligible);
    let Some(number) = requested else {
        let default = match pin {
            Some(number) => Some(number),
            None if revisions.is_empty() => return Err(FindError::Empty { name }.into()),
            None => [RevisionState::Active, RevisionState::Archived]
                .into_iter()
                .find_map(|state| revisions::newest(&eligible, state))
                .map(|revision| revision.number),
        };
        return default.ok_or(ChooseError::NoOther { name });
    };
    if pin == Some(number) {
        return Ok(number);
    }
    let revision = revisions::find(&name, revisions, number)?;
    if is_eligible(&revision) {
        return Ok(number);
    }
    let others = others();
    Err(match (revision.state, active) {
        (RevisionState::RollingOut, _) => ChooseError::RollingOut {
            name,
            number,
            others,
        },
        (RevisionState::Archived, Some(active)) => ChooseError::Same {
            name,
            number,
            active: active.number,
            others,
        },
        _ => ChooseError::Active {
            name,
            number,
            others,
        },
    })
}

/// Formats the revisions that can be chosen instead.
fn remedy(others: &[i64]) -> String {
    if others.is_empty() {
        String::new()
    } else {
        format!("; choose one of {}", list(others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::revisions::tests::revision;

    /// Revision 3 is a rollback to revision 1.
    const BACK: &str = "1 Archived a, 2 Archived b, 3 Active a";
    const STUCK: &str = "1 Archived a, 2 Active b, 3 RollingOut c";

    /// Returns revisions, each written as number, state and digest.
    fn rows(text: &str) -> Vec<RevisionStatus> {
        let row = |row: &str| {
            let words: Vec<&str> = row.split(' ').collect();
            revision(words[0].parse().unwrap(), words[1], words[2])
        };
        text.split_terminator(", ").map(row).collect()
    }

    #[test]
    fn default_is_the_newest_other_revision() {
        let upgraded = "1 Archived a, 2 Archived b, 3 Active c";
        for (states, pin, expected) in ::tests::rows![
            upgraded, None => Ok(2);
            "3 Active c, 2 Archived b, 1 Archived a", None => Ok(2);
            BACK, None => Ok(2);
            STUCK, None => Ok(2);
            // Revision 3 was superseded before it became active.
            "2 Active b, 3 Archived c, 4 RollingOut d", None => Ok(2);
            // A repeated command does not choose an earlier revision.
            upgraded, Some(1) => Ok(1);
            BACK, Some(1) => Ok(1);
            "1 Active a", None => Err("*has no other revision to roll back to*");
            "1 RollingOut a", None => Err("*has no other revision to roll back to*");
            "1 Archived a, 2 Active a", None => Err("*has no other revision to roll back to*");
            "", None => Err("*has no revision yet*");
        ] {
            let chosen = target("tide", &rows(states), pin, None);
            ::tests::table::assert_outcome(chosen, expected, states);
        }
    }

    #[test]
    fn rejection_names_the_revisions_to_choose_from() {
        let upgraded = "2 Archived b, 4 Archived c, 5 Active e";
        for (states, pin, requested, expected) in ::tests::rows![
            upgraded, None, 2 => Ok(2);
            upgraded, Some(2), 4 => Ok(4);
            upgraded, None, 5 => Err("revision 5 of BundleInstance tide is already active; choose one of 2, 4");
            upgraded, None, 6 => Err("revision 6 of BundleInstance tide not found; choose one of 2, 4, 5");
            BACK, None, 1 => Err("revision 1 of BundleInstance tide has the objects of revision 3, \
                which is already active; choose one of 2");
            // The rollback that is pinned is the active revision.
            BACK, Some(1), 1 => Ok(1);
            STUCK, None, 2 => Ok(2);
            STUCK, None, 1 => Ok(1);
            STUCK, None, 3 => Err("revision 3 of BundleInstance tide is being rolled out; choose one of 1, 2");
            "1 Active a", None, 1 => Err("revision 1 of BundleInstance tide is already active");
        ] {
            let chosen = target("tide", &rows(states), pin, Some(requested));
            ::tests::table::assert_outcome(chosen, expected, (states, pin, requested));
        }
    }
}
