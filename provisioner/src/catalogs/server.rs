//! Who serves catalogs: OLM where it runs, else the provisioner. No I/O.
//!
//! That OLM's kinds are defined says nothing: definitions stay when OLM goes. Its catalog-operator is what counts. It has no
//! Lease, but its Deployment has the same name everywhere. A Deployment is not believed at once when it says that nothing runs,
//! for it may be restarted or replaced, and two who serve the same catalog would write over each other.

use std::time::{Duration, Instant};

pub(super) use manifests::api::olm::{NAMESPACES, OPERATOR, Operator};

/// How long an operator may have no Deployment, or one without pods, and be the one who serves: somebody may be replacing it.
const REPLACED: Duration = Duration::from_secs(120);
/// How long one that is to run may not be available: nodes are drained, images are pulled.
const AWAY: Duration = Duration::from_secs(15 * 60);

/// Decides, and remembers.
#[derive(Debug, Default)]
pub(super) struct Judge {
    /// Whether OLM serves; nothing before the first look.
    has_olm: Option<bool>,
    /// Since when OLM is the one who serves and does not run.
    missed: Option<Instant>,
}

// === impl Judge ===

impl Judge {
    /// One who goes on from what was decided before, if anything was.
    pub(super) fn after(has_olm: Option<bool>) -> Self {
        Self {
            has_olm,
            missed: None,
        }
    }

    /// Reports whether OLM serves, and when to look again although nothing has changed.
    pub(super) fn see(&mut self, operator: Operator, now: Instant) -> (bool, Option<Duration>) {
        let was = self.has_olm;
        let patience = match operator {
            Operator::Runs => {
                self.missed = None;
                self.has_olm = Some(true);
                return (true, None);
            }
            Operator::Away => AWAY,
            Operator::Gone => REPLACED,
        };
        // One that is not here at the first look, but is to run, may just be restarted as the provisioner is.
        let has_olm = was.unwrap_or(operator == Operator::Away);
        if !has_olm {
            self.has_olm = Some(false);
            return (false, None);
        }
        let missed = *self.missed.get_or_insert(now);
        let elapsed = now.saturating_duration_since(missed);
        let left = patience.checked_sub(elapsed).filter(|it| !it.is_zero());
        self.has_olm = Some(left.is_some());
        if left.is_none() {
            self.missed = None;
        }
        (left.is_some(), left)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        Operator::{Away, Gone, Runs},
        *,
    };

    // parity: serve-10
    #[test]
    fn a_deployment_tells_whether_it_runs() {
        for (spec, status, expected) in ::tests::rows![
            json!({}), json!({}) => Away;
            json!({"replicas": 1}), json!({"replicas": 1}) => Away;
            json!({"replicas": 1}), json!({"availableReplicas": 1}) => Runs;
            json!({}), json!({"availableReplicas": 2}) => Runs;
            // Its pods are about to end.
            json!({"replicas": 0}), json!({"availableReplicas": 1}) => Gone;
        ] {
            let spec =
                with!(spec => |spec| spec["selector"] = json!({}); spec["template"] = json!({}));
            let deployment =
                json!({"metadata": {"name": OPERATOR}, "spec": spec, "status": status});
            assert_rows!(Operator::of(&serde_json::from_value(deployment).unwrap()) => expected, "{status}");
        }
    }

    // parity: serve-10
    #[test]
    fn an_olm_that_comes_serves_from_when_it_runs() {
        // While it is on its way nobody else would.
        for (was, expected) in [(None, true), (Some(false), false), (Some(true), true)] {
            let (now, mut judge) = (Instant::now(), Judge::after(was));
            assert_eq!(judge.see(Away, now).0, expected, "{was:?}");
            assert_eq!(judge.see(Away, now).0, expected, "{was:?}");
            assert_eq!(judge.see(Runs, now), (true, None), "{was:?}");
            assert_eq!(judge.see(Away, now), (true, Some(AWAY)), "{was:?}");
        }
    }

    // parity: serve-10
    #[test]
    fn olm_is_believed_to_serve_while_it_restarts() {
        let begin = Instant::now();
        // Seconds, what is seen then, whether OLM serves, and in how many seconds to look again.
        for (name, story) in ::tests::rows![
            "restarted, upgraded, and gone in the end" => &[
                (0, Runs, true, None), (10, Away, true, Some(900)), (40, Runs, true, None), (100, Gone, true, Some(120)),
                (101, Away, true, Some(899)), (130, Runs, true, None), (200, Gone, true, Some(120)), (319, Gone, true, Some(1)),
                (320, Gone, false, None), (900, Gone, false, None),
            ][..];
            "has never been there, is installed, and takes its time"
                => &[(0, Gone, false, None), (60, Away, false, None), (600, Away, false, None), (660, Runs, true, None)];
            "the provisioner starts while OLM does, or when it has failed for good" => &[
                (0, Away, true, Some(900)), (30, Runs, true, None), (31, Away, true, Some(900)), (931, Away, false, None),
                (940, Away, false, None), (950, Runs, true, None),
            ];
            "away, and then somebody removes it" => &[(0, Runs, true, None), (1, Away, true, Some(900)), (301, Gone, false, None)];
        ] {
            let mut judge = Judge::default();
            for (at, seen, has_olm, again) in story {
                let now = begin + Duration::from_secs(*at);
                assert_rows!(judge.see(*seen, now) => (*has_olm, again.map(Duration::from_secs)), "{name} at {at}");
            }
        }
    }
}
