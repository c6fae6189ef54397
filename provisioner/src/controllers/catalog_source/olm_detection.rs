//! Detects whether OLM or the provisioner serves catalogs. Pure; no I/O.
//!
//! OLM's CRDs prove nothing, because they remain after OLM is uninstalled. The relevant object is the Deployment of
//! its catalog-operator, which has the same name everywhere; the catalog-operator has no Lease. A missing or unavailable
//! Deployment is tolerated for some time, because it may be restarted or replaced. Two programs that serve the same catalog
//! would overwrite each other's objects.

use std::time::{Duration, Instant};

pub(super) use manifests::api::olm::{CatalogOperatorState, NAMESPACES, OPERATOR};

/// Time for which the Deployment may be missing, or scaled to zero, before the provisioner takes over. The
/// Deployment may be in the process of being replaced.
const REPLACEMENT_GRACE: Duration = Duration::from_secs(120);
/// Time for which the Deployment may be unavailable. Nodes may be drained, and images may have to be pulled.
const UNAVAILABLE_GRACE: Duration = Duration::from_secs(15 * 60);

/// Detector of a running OLM, with the start of its grace period.
#[derive(Debug, Default)]
pub(super) struct OlmDetector {
    /// True if OLM serves; `None` before the first observation.
    has_olm: Option<bool>,
    /// Time since which OLM is expected to serve, but does not run.
    unavailable_since: Option<Instant>,
}

// === impl OlmDetector ===

impl OlmDetector {
    /// Creates a detector that continues from an earlier decision, if one exists.
    pub(super) fn starting_from(has_olm: Option<bool>) -> Self {
        Self {
            has_olm,
            unavailable_since: None,
        }
    }

    /// Records an observation. Reports whether OLM serves, and the delay until the decision has to be evaluated again.
    pub(super) fn observe(
        &mut self,
        operator: CatalogOperatorState,
        now: Instant,
    ) -> (bool, Option<Duration>) {
        let was = self.has_olm;
        let grace = match operator {
            CatalogOperatorState::Running => {
                self.unavailable_since = None;
                self.has_olm = Some(true);
                return (true, None);
            }
            CatalogOperatorState::Unavailable => UNAVAILABLE_GRACE,
            CatalogOperatorState::Absent => REPLACEMENT_GRACE,
        };
        // An unavailable Deployment at the first observation may be restarting together with the provisioner.
        let has_olm = was.unwrap_or(operator == CatalogOperatorState::Unavailable);
        if !has_olm {
            self.has_olm = Some(false);
            return (false, None);
        }
        let unavailable_since = *self.unavailable_since.get_or_insert(now);
        let elapsed = now.saturating_duration_since(unavailable_since);
        let remaining = grace
            .checked_sub(elapsed)
            .filter(|remaining| !remaining.is_zero());
        self.has_olm = Some(remaining.is_some());
        if remaining.is_none() {
            self.unavailable_since = None;
        }
        (remaining.is_some(), remaining)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{
        CatalogOperatorState::{Absent, Running, Unavailable},
        *,
    };

    // parity: serve-10
    #[test]
    fn deployment_status_determines_whether_olm_runs() {
        for (spec, status, expected) in ::tests::rows![
            json!({}), json!({}) => Unavailable;
            json!({"replicas": 1}), json!({"replicas": 1}) => Unavailable;
            json!({"replicas": 1}), json!({"availableReplicas": 1}) => Running;
            json!({}), json!({"availableReplicas": 2}) => Running;
            // Its pods are terminating.
            json!({"replicas": 0}), json!({"availableReplicas": 1}) => Absent;
        ] {
            let spec =
                with!(spec => |spec| spec["selector"] = json!({}); spec["template"] = json!({}));
            let deployment =
                object!({"metadata": {"name": OPERATOR}, "spec": spec, "status": status});
            assert_rows!(CatalogOperatorState::from_deployments(&deployment) => expected, "{status}");
        }
    }

    // parity: serve-10
    #[test]
    fn installed_olm_serves_once_it_is_available() {
        // Nothing else serves while OLM is restarting.
        for (was, expected) in [(None, true), (Some(false), false), (Some(true), true)] {
            let (now, mut detector) = (Instant::now(), OlmDetector::starting_from(was));
            assert_rows! {
                detector.observe(Unavailable, now).0 => expected, "{was:?}";
                detector.observe(Unavailable, now).0 => expected, "{was:?}";
                detector.observe(Running, now) => (true, None), "{was:?}";
                detector.observe(Unavailable, now) => (true, Some(UNAVAILABLE_GRACE)), "{was:?}";
            }
        }
    }

    // parity: serve-10
    #[test]
    fn restarting_olm_counts_as_serving() {
        let begin = Instant::now();
        // Seconds, the observation at that time, whether OLM serves, and the seconds until the next evaluation.
        for (name, story) in ::tests::rows![
            "restarted, upgraded, and removed in the end" => &[
                (0, Running, true, None), (10, Unavailable, true, Some(900)), (40, Running, true, None), (100, Absent, true, Some(120)),
                (101, Unavailable, true, Some(899)), (130, Running, true, None), (200, Absent, true, Some(120)), (319, Absent, true, Some(1)),
                (320, Absent, false, None), (900, Absent, false, None),
            ][..];
            "missing, then installed, and slow to start"
                => &[(0, Absent, false, None), (60, Unavailable, false, None), (600, Unavailable, false, None), (660, Running, true, None)];
            "the provisioner starts while OLM does, or when it has failed permanently" => &[
                (0, Unavailable, true, Some(900)), (30, Running, true, None), (31, Unavailable, true, Some(900)), (931, Unavailable, false, None),
                (940, Unavailable, false, None), (950, Running, true, None),
            ];
            "unavailable, and then removed" => &[(0, Running, true, None), (1, Unavailable, true, Some(900)), (301, Absent, false, None)];
        ] {
            let mut detector = OlmDetector::default();
            for (at, state, has_olm, recheck) in story {
                let now = begin + Duration::from_secs(*at);
                assert_rows!(detector.observe(*state, now) => (*has_olm, recheck.map(Duration::from_secs)), "{name} at {at}");
            }
        }
    }
}
