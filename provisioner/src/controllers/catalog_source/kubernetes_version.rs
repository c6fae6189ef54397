//! Effective Kubernetes version of a cluster whose API servers report different versions. Pure; no I/O.
//!
//! Several API servers are upgraded one after the other, and each request may reach another one. An image that followed
//! every response would flap between two versions. The newest reported version is therefore effective. An older one
//! replaces it only if it lasts, or if the ClusterVersion shows that an update was reverted.

use std::time::{Duration, Instant};

use semver::Version;

/// Time for which only older versions have to be reported before a downgrade is accepted. It exceeds the time to replace
/// one of several API servers, because a connection may stay with the same server for that long.
const DOWNGRADE_DELAY: Duration = Duration::from_secs(15 * 60);

/// Tracker of the effective Kubernetes version.
#[derive(Debug, Default)]
pub(super) struct VersionTracker {
    /// Effective version, and the OpenShift version at the time of its report.
    effective: Option<(Version, Option<Version>)>,
    /// Time since which only older versions are reported.
    older: Option<Instant>,
}

// === impl VersionTracker ===

impl VersionTracker {
    /// Records a reported version on a cluster with this OpenShift version. Returns the effective version.
    pub(super) fn observe(
        &mut self,
        reported: Version,
        openshift: Option<&Version>,
        now: Instant,
    ) -> &Version {
        let is_accepted = match &self.effective {
            Some((effective, openshift_then)) if reported < *effective => {
                let since = *self.older.get_or_insert(now);
                let is_reverted = openshift
                    .zip(openshift_then.as_ref())
                    .is_some_and(|(now, then)| now < then);
                is_reverted || now.saturating_duration_since(since) >= DOWNGRADE_DELAY
            }
            _ => true,
        };
        if is_accepted {
            self.older = None;
            self.effective = None;
        }
        let (effective, _) = self
            .effective
            .get_or_insert_with(|| (reported, openshift.cloned()));
        effective
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: switch-4
    #[test]
    fn lower_version_counts_only_if_it_persists() {
        let begin = Instant::now();
        // Minutes, the version reported then, the OpenShift version, and the effective version.
        for (name, story) in ::tests::rows![
            // Another version was reported in between.
            "three servers, of which one after the other is upgraded" => &[
                (0, "1.36.3", None, "1.36.3"), (1, "1.37.0", None, "1.37.0"), (2, "1.36.3", None, "1.37.0"),
                (9, "1.36.3", None, "1.37.0"), (12, "1.37.0", None, "1.37.0"), (13, "1.36.3", None, "1.37.0"),
                (20, "1.36.3", None, "1.37.0"), (27, "1.36.3", None, "1.37.0"), (28, "1.36.3", None, "1.36.3"),
                (29, "1.37.0", None, "1.37.0"),
            ][..];
            "a patch is taken back, too, and a newer version counts at once" => &[
                (0, "1.36.3", None, "1.36.3"), (1, "1.36.2", None, "1.36.3"), (2, "1.36.4", None, "1.36.4"),
                (3, "1.36.3", None, "1.36.4"), (17, "1.36.2", None, "1.36.4"), (18, "1.36.3", None, "1.36.3"),
            ];
            "an update of OpenShift is taken back after it was complete" => &[
                (0, "1.21.1", Some("4.8.3"), "1.21.1"), (1, "1.22.0", Some("4.8.3"), "1.22.0"),
                (2, "1.21.1", Some("4.8.3"), "1.22.0"), (3, "1.22.0", Some("4.9.1"), "1.22.0"),
                (4, "1.21.1", Some("4.9.1"), "1.22.0"), (5, "1.21.1", Some("4.8.3"), "1.21.1"),
                (6, "1.22.0", Some("4.8.3"), "1.22.0"),
            ];
            "a ClusterVersion that is not known says nothing" => &[
                (0, "1.22.0", Some("4.9.1"), "1.22.0"), (1, "1.21.1", None, "1.22.0"), (16, "1.21.1", None, "1.21.1"),
            ];
        ] {
            let mut release = VersionTracker::default();
            for (at, reported, openshift, counts) in story {
                let openshift: Option<Version> = openshift.map(|version| version.parse().unwrap());
                let now = begin + Duration::from_secs(60 * at);
                let found = release.observe(reported.parse().unwrap(), openshift.as_ref(), now);
                assert_eq!(found.to_string(), *counts, "{name} at {at}");
            }
        }
    }
}
