//! Field conflicts: limits the repairs of a field that another field manager sets repeatedly.
//!
//! Three repairs of one field against one manager within ten minutes are a conflict. From then on, the delay between
//! repairs of the object grows, and a condition names the other manager. The conflict ends when no repair was necessary for
//! ten minutes after the next repair was allowed.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, time::Duration};

use jiff::Timestamp;
use manifests::object::Identity;

use crate::backoff::left;

/// Number of repairs within [`WINDOW`] that make a conflict.
pub const REPAIRS: u32 = 3;
/// Time in which repairs are counted. It is also the maximum delay between repairs, and the time without repairs that ends
/// a conflict.
pub const WINDOW: Duration = Duration::from_secs(600);
/// Delay after the first repair of a conflict. Each further repair doubles it.
pub const INITIAL_DELAY: Duration = Duration::from_secs(20);
/// Maximum number of tracked fields. The field with the oldest repair is dropped first.
pub const MAX_TRACKED_FIELDS: usize = 4096;

/// A field and the manager that changes it. All names come from the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConflictingManager {
    /// Object with the changed field.
    pub object: Identity,
    /// Path of the field (`.spec.replicas`); empty if the whole object was deleted, or if the field is unknown.
    pub field: String,
    /// Name of the field manager; empty if it is unknown.
    pub manager: String,
}

/// An active field conflict.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ActiveConflict {
    /// Changed field and the manager that changes it.
    pub opponent: ConflictingManager,
    /// Number of repairs since the conflict started.
    pub repairs: u32,
    /// Time before which the object is not repaired again.
    pub until: Timestamp,
    /// Delay between the last repair and `until`.
    pub wait: Duration,
}

/// Recent repairs of an instance, from which conflicts are derived.
#[derive(Debug, Clone, Default)]
pub struct FieldConflicts(HashMap<ConflictingManager, RepairHistory>);

/// The repairs of one field against one manager.
#[derive(Debug, Clone)]
struct RepairHistory {
    /// Last repairs, oldest first; at most [`REPAIRS`].
    recent: Vec<Timestamp>,
    /// Number of repairs since the last conflict ended.
    count: u32,
    /// Delay after the last repair; `None` if the repairs are not a conflict.
    wait: Option<Duration>,
}

// === impl FieldConflicts ===

impl FieldConflicts {
    /// Records the repair of an object, with each repaired field and its other manager. Returns the active conflicts.
    pub fn record_repair(
        &mut self,
        opponents: impl IntoIterator<Item = ConflictingManager>,
        now: Timestamp,
    ) -> Vec<ActiveConflict> {
        let mut verdicts = Vec::new();
        for opponent in opponents {
            if !self.0.contains_key(&opponent) {
                self.evict(now);
            }
            let repairs = self.0.entry(opponent.clone()).or_default();
            if repairs.is_over(now) {
                *repairs = RepairHistory::default();
            }
            repairs.add(now);
            verdicts.extend(repairs.verdict(&opponent));
        }
        verdicts.sort();
        verdicts
    }

    /// Returns the field conflict that suspends the repair of an object the longest. If the clock is set back, the repair
    /// is not suspended for longer than the original delay of the conflict.
    pub fn suspended_until(&self, object: &Identity, now: Timestamp) -> Option<ActiveConflict> {
        let is_held = |verdict: &ActiveConflict| left(verdict.until, verdict.wait, now).is_some();
        self.iter_active(now)
            .filter(|verdict| verdict.opponent.object == *object && is_held(verdict))
            .max_by_key(|verdict| verdict.until)
    }

    /// Returns all active conflicts in a stable order.
    pub fn active(&self, now: Timestamp) -> Vec<ActiveConflict> {
        let mut verdicts: Vec<_> = self.iter_active(now).collect();
        verdicts.sort();
        verdicts
    }

    /// Drops the objects that no longer belong to the instance.
    pub fn retain(&mut self, keep: impl Fn(&Identity) -> bool) {
        self.0.retain(|opponent, _| keep(&opponent.object));
    }

    fn iter_active(&self, now: Timestamp) -> impl Iterator<Item = ActiveConflict> {
        self.0
            .iter()
            .filter(move |(_, repairs)| !repairs.is_over(now))
            .filter_map(|(opponent, repairs)| repairs.verdict(opponent))
    }

    fn evict(&mut self, now: Timestamp) {
        if self.0.len() < MAX_TRACKED_FIELDS {
            return;
        }
        self.0.retain(|_, repairs| !repairs.is_over(now));
        if self.0.len() < MAX_TRACKED_FIELDS {
            return;
        }
        let oldest = self
            .0
            .iter()
            .min_by_key(|(opponent, repairs)| (repairs.recent.last(), *opponent))
            .map(|(opponent, _)| opponent.clone());
        if let Some(oldest) = oldest {
            self.0.remove(&oldest);
        }
    }
}

// === impl RepairHistory ===

impl Default for RepairHistory {
    fn default() -> Self {
        Self {
            recent: Vec::with_capacity(REPAIRS as usize),
            count: 0,
            wait: None,
        }
    }
}

impl RepairHistory {
    fn add(&mut self, now: Timestamp) {
        if self.recent.len() >= REPAIRS as usize {
            self.recent.remove(0);
        }
        self.recent.push(now);
        self.count = self.count.saturating_add(1);
        self.wait = match self.wait {
            Some(wait) => Some(wait.saturating_mul(2).min(WINDOW)),
            None => self.is_conflict(now).then_some(INITIAL_DELAY),
        };
    }

    fn is_conflict(&self, now: Timestamp) -> bool {
        self.recent.len() >= REPAIRS as usize
            && self.recent.iter().all(|&then| since(then, now) <= WINDOW)
    }

    fn is_over(&self, now: Timestamp) -> bool {
        let quiet = self.wait.unwrap_or_default().saturating_add(WINDOW);
        self.recent
            .last()
            .is_some_and(|&last| since(last, now) > quiet)
    }

    fn verdict(&self, opponent: &ConflictingManager) -> Option<ActiveConflict> {
        let wait = self.wait?;
        let last = *self.recent.last()?;
        Some(ActiveConflict {
            opponent: opponent.clone(),
            repairs: self.count,
            until: last.saturating_add(wait).unwrap_or(Timestamp::MAX),
            wait,
        })
    }
}

/// Returns the time since `then`; zero if the clock was set back.
fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

impl fmt::Display for ActiveConflict {
    /// Formats the conflict for a condition: object, field, manager, and the limit on repairs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConflictingManager {
            object,
            field,
            manager,
        } = &self.opponent;
        let manager = if manager.is_empty() {
            "another client"
        } else {
            manager
        };
        match field.as_str() {
            "" => write!(f, "{manager} repeatedly deletes or changes {object}")?,
            field => write!(f, "{manager} repeatedly changes {field} of {object}")?,
        }
        write!(
            f,
            "; repaired {} times; repairs are limited to one every {} seconds until {manager} stops or the bundle sets the same value",
            self.repairs,
            self.wait.as_secs()
        )
    }
}
