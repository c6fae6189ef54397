//! Kubernetes versions of OpenShift releases.

use manifests::{openshift::Release, version::KubeVersion};

/// The first OpenShift 4 release since which each release has the next Kubernetes minor version.
const FIRST: u64 = 3;
/// Difference between the two minor versions since then.
const MINOR_OFFSET: u64 = 13;
/// The OpenShift 4 release that equals OpenShift 5.0.
const OPENSHIFT_5: u64 = 23;

/// Returns the Kubernetes version of an OpenShift release: 1.(N+13) for 4.N, from 4.3 (1.16) on. Sources: Red Hat's list
/// "What version of the Kubernetes API is included with each OpenShift 4.x release?" (solution 4870701), and the notes of
/// each release. 5.0 is 4.23, and 5.N is assumed to continue from there. Returns `None` for earlier releases, and for
/// numbers that are not releases.
///
/// ```
/// use convert::removed_apis::kubernetes_of;
/// use manifests::{openshift::Release, version::KubeVersion};
/// assert_eq!(kubernetes_of(Release::new(4, 16)), Some(KubeVersion::new(1, 29)));
/// ```
pub fn kubernetes_of(release: Release) -> Option<KubeVersion> {
    let of_four = match (release.major, release.minor) {
        (4, minor @ FIRST..=OPENSHIFT_5) => minor,
        (5, minor) => minor.checked_add(OPENSHIFT_5)?,
        _ => return None,
    };
    Some(KubeVersion::new(1, of_four.checked_add(MINOR_OFFSET)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_release_has_the_next_kubernetes() {
        for (releases, minor) in ::tests::rows![
            vec![(4, 1), (4, 2), (4, 24), (5, u64::MAX), (3, 11), (0, 0)] => None;
            vec![(4, 3)] => Some(16);
            vec![(4, 8)] => Some(21);
            vec![(4, 12)] => Some(25);
            vec![(4, 16)] => Some(29);
            vec![(4, 20)] => Some(33);
            vec![(4, 23), (5, 0)] => Some(36);
            vec![(5, 1)] => Some(37);
        ] {
            for release in releases {
                let release = Release::new(release.0, release.1);
                assert_rows!(kubernetes_of(release) => minor.map(|minor| KubeVersion::new(1, minor)), "{release}");
            }
        }
    }
}
