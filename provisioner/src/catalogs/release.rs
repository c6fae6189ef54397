//! Which Kubernetes a cluster is while its API servers do not agree. No I/O.
//!
//! Several API servers are upgraded one after the other, and whoever asks gets now the one and now another. An image that
//! followed each answer would go back and forth. So the newest that was told counts, and an older one only when it stays, or
//! when the ClusterVersion says that an update was taken back.

use std::time::{Duration, Instant};

use semver::Version;

/// How long only older versions have to be told: longer than one API server of several takes to be replaced, for a connection
/// may stay with the same one for as long.
const STAYS: Duration = Duration::from_secs(15 * 60);

/// Decides, and remembers.
#[derive(Debug, Default)]
pub(super) struct Release {
    /// What counts, and the OpenShift that it was told on.
    believed: Option<(Version, Option<Version>)>,
    /// Since when only older ones are told.
    older: Option<Instant>,
}

// === impl Release ===

impl Release {
    /// What counts, now that a server has told this, on a cluster that is this OpenShift.
    pub(super) fn see(
        &mut self,
        told: Version,
        openshift: Option<&Version>,
        now: Instant,
    ) -> &Version {
        let counts = match &self.believed {
            Some((believed, of)) if told < *believed => {
                let since = *self.older.get_or_insert(now);
                let is_taken_back = openshift
                    .zip(of.as_ref())
                    .is_some_and(|(now, then)| now < then);
                is_taken_back || now.saturating_duration_since(since) >= STAYS
            }
            _ => true,
        };
        if counts {
            self.older = None;
            self.believed = None;
        }
        let (believed, _) = self
            .believed
            .get_or_insert_with(|| (told, openshift.cloned()));
        believed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // parity: switch-4
    #[test]
    fn a_version_that_goes_back_is_believed_when_it_stays() {
        let begin = Instant::now();
        // Minutes, what a server tells then, the OpenShift, and what counts.
        for (name, story) in ::tests::rows![
            // Another one was heard of in between.
            "three servers, of which one after the other is upgraded" => &[
                (0, "1.36.3", None, "1.36.3"), (1, "1.37.0", None, "1.37.0"), (2, "1.36.3", None, "1.37.0"),
                (9, "1.36.3", None, "1.37.0"), (12, "1.37.0", None, "1.37.0"), (13, "1.36.3", None, "1.37.0"),
                (20, "1.36.3", None, "1.37.0"), (27, "1.36.3", None, "1.37.0"), (28, "1.36.3", None, "1.36.3"),
                (29, "1.37.0", None, "1.37.0"),
            ][..];
            "a patch goes back, too, and what is newer counts at once" => &[
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
            let mut release = Release::default();
            for (at, told, openshift, counts) in story {
                let openshift: Option<Version> = openshift.map(|it| it.parse().unwrap());
                let now = begin + Duration::from_secs(60 * at);
                let found = release.see(told.parse().unwrap(), openshift.as_ref(), now);
                assert_eq!(found.to_string(), *counts, "{name} at {at}");
            }
        }
    }
}
