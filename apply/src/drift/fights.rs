//! Somebody who sets the same field again and again is not fought for ever.
//!
//! Three repairs of one field against one manager in ten minutes are a fight. From then on the object is repaired more
//! and more seldom, and whoever reads the conditions learns who the other one is. A fight is over when nothing had to be
//! repaired for ten minutes after a repair was allowed again.

#[cfg(test)]
mod tests;

use std::{collections::HashMap, fmt, time::Duration};

use jiff::Timestamp;
use manifests::object::Identity;

use crate::backoff::left;

/// How many repairs make a fight.
pub const REPAIRS: u32 = 3;
/// Within what time; also the longest wait between repairs, and the peace that ends a fight.
pub const WINDOW: Duration = Duration::from_secs(600);
/// The first wait; each further one is twice as long.
pub const FIRST_WAIT: Duration = Duration::from_secs(20);
/// How many fields are remembered at most. The longest quiet ones are forgotten first.
pub const REMEMBERED: usize = 4096;

/// Who changes what: names that come from the cluster.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Opponent {
    /// Which object.
    pub object: Identity,
    /// Which field (`.spec.replicas`); empty when the object as a whole disappears, or nobody can tell.
    pub field: String,
    /// Who; empty when nobody can tell.
    pub manager: String,
}

/// A fight.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Verdict {
    /// Who against us, about what.
    pub opponent: Opponent,
    /// How many repairs there have been.
    pub repairs: u32,
    /// Before this time the object is not repaired again.
    pub until: Timestamp,
    /// How long that is after the last repair.
    pub wait: Duration,
}

/// All repairs that may be or become fights.
#[derive(Debug, Clone, Default)]
pub struct Fights(HashMap<Opponent, Repairs>);

/// The repairs of one field against one manager.
#[derive(Debug, Clone)]
struct Repairs {
    /// The last ones, oldest first, at most as many as make a fight.
    recent: Vec<Timestamp>,
    /// All since the peace before.
    count: u32,
    /// Whether it is a fight, and how long to wait after the last repair.
    wait: Option<Duration>,
}

// === impl Fights ===

impl Fights {
    /// An object was repaired: each opponent is one field that had been taken. Tells which of them are fights now.
    pub fn repaired(
        &mut self,
        opponents: impl IntoIterator<Item = Opponent>,
        now: Timestamp,
    ) -> Vec<Verdict> {
        let mut verdicts = Vec::new();
        for opponent in opponents {
            if !self.0.contains_key(&opponent) {
                self.make_room(now);
            }
            let repairs = self.0.entry(opponent.clone()).or_default();
            if repairs.is_over(now) {
                *repairs = Repairs::default();
            }
            repairs.add(now);
            verdicts.extend(repairs.verdict(&opponent));
        }
        verdicts.sort();
        verdicts
    }

    /// Returns the field conflict that postpones the repair of an object the longest. If the clock is set back, the repair is
    /// not postponed for longer than the conflict's original delay.
    pub fn held(&self, object: &Identity, now: Timestamp) -> Option<Verdict> {
        let is_held = |verdict: &Verdict| left(verdict.until, verdict.wait, now).is_some();
        self.going_on(now)
            .filter(|verdict| verdict.opponent.object == *object && is_held(verdict))
            .max_by_key(|verdict| verdict.until)
    }

    /// All fights that go on, in order.
    pub fn verdicts(&self, now: Timestamp) -> Vec<Verdict> {
        let mut verdicts: Vec<_> = self.going_on(now).collect();
        verdicts.sort();
        verdicts
    }

    /// Forgets objects: they belong to the instance no longer.
    pub fn retain(&mut self, keep: impl Fn(&Identity) -> bool) {
        self.0.retain(|opponent, _| keep(&opponent.object));
    }

    fn going_on(&self, now: Timestamp) -> impl Iterator<Item = Verdict> {
        self.0
            .iter()
            .filter(move |(_, repairs)| !repairs.is_over(now))
            .filter_map(|(opponent, repairs)| repairs.verdict(opponent))
    }

    fn make_room(&mut self, now: Timestamp) {
        if self.0.len() < REMEMBERED {
            return;
        }
        self.0.retain(|_, repairs| !repairs.is_over(now));
        if self.0.len() < REMEMBERED {
            return;
        }
        let quietest = self
            .0
            .iter()
            .min_by_key(|(opponent, repairs)| (repairs.recent.last(), *opponent))
            .map(|(opponent, _)| opponent.clone());
        if let Some(quietest) = quietest {
            self.0.remove(&quietest);
        }
    }
}

// === impl Repairs ===

impl Default for Repairs {
    fn default() -> Self {
        Self {
            recent: Vec::with_capacity(REPAIRS as usize),
            count: 0,
            wait: None,
        }
    }
}

impl Repairs {
    fn add(&mut self, now: Timestamp) {
        if self.recent.len() >= REPAIRS as usize {
            self.recent.remove(0);
        }
        self.recent.push(now);
        self.count = self.count.saturating_add(1);
        self.wait = match self.wait {
            Some(wait) => Some(wait.saturating_mul(2).min(WINDOW)),
            None => self.are_a_fight(now).then_some(FIRST_WAIT),
        };
    }

    fn are_a_fight(&self, now: Timestamp) -> bool {
        self.recent.len() >= REPAIRS as usize
            && self.recent.iter().all(|&then| since(then, now) <= WINDOW)
    }

    fn is_over(&self, now: Timestamp) -> bool {
        let quiet = self.wait.unwrap_or_default().saturating_add(WINDOW);
        self.recent
            .last()
            .is_some_and(|&last| since(last, now) > quiet)
    }

    fn verdict(&self, opponent: &Opponent) -> Option<Verdict> {
        let wait = self.wait?;
        let last = *self.recent.last()?;
        Some(Verdict {
            opponent: opponent.clone(),
            repairs: self.count,
            until: last.saturating_add(wait).unwrap_or(Timestamp::MAX),
            wait,
        })
    }
}

/// How long ago a time was; nothing when the clock was set back.
fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

impl fmt::Display for Verdict {
    /// For a condition: object, field, manager, and what becomes of it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Opponent {
            object,
            field,
            manager,
        } = &self.opponent;
        let who = if manager.is_empty() {
            "somebody"
        } else {
            manager
        };
        match field.as_str() {
            "" => write!(f, "{object} is removed or changed by {who} again and again")?,
            field => write!(f, "{field} of {object} is changed by {who} again and again")?,
        }
        write!(
            f,
            "; it was put back {} times and is put back every {} seconds at most until {who} stops, or the bundle agrees",
            self.repairs,
            self.wait.as_secs()
        )
    }
}
