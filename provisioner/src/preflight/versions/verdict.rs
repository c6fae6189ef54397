//! Whether a bundle runs on a cluster, by what it says of itself.

use convert::maxocp::MaxOpenShiftVersion;
use manifests::{
    object::shortened,
    version::{self, Version},
};

use super::openshift::{OpenShift, normalized};
use crate::preflight::{Check, Findings, Problem};

const OVERRIDE: &str = "set spec.preflight.clusterVersion: Off to install it nevertheless";

/// What follows from one demand.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is met.
    Fine,
    /// It cannot be checked.
    Unclear(String),
    /// It is not met.
    Refused(String),
}

impl Verdict {
    /// Reports it.
    pub(super) fn add_to(self, findings: &mut Findings) {
        let (list, message) = match self {
            Self::Fine => return,
            Self::Unclear(message) => (&mut findings.warnings, message),
            Self::Refused(message) => (&mut findings.problems, message),
        };
        list.push(Problem {
            check: Check::ClusterVersion,
            message,
        });
    }
}

/// The newest OpenShift: only major and minor release count, and equal is fine.
pub(super) fn openshift(bundle: &str, max: &MaxOpenShiftVersion, cluster: &OpenShift) -> Verdict {
    let Some(newest) = max.version else {
        let raw = shortened(&max.raw, 60);
        let why = max.problem.as_deref().unwrap_or("it is no release");
        return Verdict::Unclear(format!(
            "{bundle} may not run on this cluster: its maxOpenShiftVersion {raw:?} ({}) cannot be checked: {}; ask the \
             author to write a release such as \"4.16\"",
            max.source,
            shortened(why, 200),
        ));
    };
    let Some(release) = cluster.highest() else {
        let why = cluster.problem.as_deref().unwrap_or("it is not known");
        return Verdict::Unclear(format!(
            "{bundle} requires OpenShift <= {newest}, which cannot be checked: {why}; look at the ClusterVersion \"version\""
        ));
    };
    if normalized(release) <= normalized(newest) {
        return Verdict::Fine;
    }
    let is_at = match cluster.running {
        Some(running) if running != release => format!("{running}, on its way to {release}"),
        _ => release.to_string(),
    };
    Verdict::Refused(format!(
        "{bundle} requires OpenShift <= {newest} but the cluster is {is_at}; choose a version of the bundle that is made \
         for it, or {OVERRIDE}"
    ))
}

/// The oldest Kubernetes. Pre-releases of it will do, as they do for OLM.
pub(super) fn kubernetes(bundle: &str, min: &str, cluster: &Version) -> Verdict {
    match version::tolerant(min) {
        Err(error) => Verdict::Unclear(format!(
            "{bundle} may not run on this cluster: its minKubeVersion cannot be checked: {error}"
        )),
        Ok(oldest) if cluster.cmp_precedence(&oldest).is_lt() => Verdict::Refused(format!(
            "{bundle} requires Kubernetes >= {oldest} but the cluster is {cluster}; upgrade the cluster, choose an older \
             version of the bundle, or {OVERRIDE}"
        )),
        Ok(_) => Verdict::Fine,
    }
}

#[cfg(test)]
mod tests {
    use convert::maxocp::{self, Release};

    use super::*;

    fn max(json: &str) -> MaxOpenShiftVersion {
        let parsed = maxocp::parse(json);
        MaxOpenShiftVersion {
            raw: json.trim_matches('"').to_owned(),
            source: "bundle properties".to_owned(),
            version: parsed.as_ref().ok().copied(),
            problem: parsed.err(),
        }
    }

    fn cluster(version: &str) -> OpenShift {
        OpenShift::of_release(version)
    }

    #[test]
    fn a_bundle_is_refused_where_the_cluster_is_newer_than_its_newest_release() {
        for (running, newest, refused) in [
            ("4.12.3", "\"4.12\"", false),
            ("4.12.3", "\"4.13\"", false),
            ("4.12.0-0.nightly-2022-10-05-053337", "\"4.12\"", false),
            ("4.13.0-rc.1", "\"4.12\"", true),
            ("4.13.0", "4.12", true),
            ("4.10.0", "\"4.9\"", true),
            ("4.9.0", "\"4.10\"", false),
            ("5.1.0", "\"4.22\"", true),
            // One and the same release.
            ("5.0.0", "\"4.23\"", false),
            ("4.23.1", "\"5.0\"", false),
            ("5.0.0", "\"4.22\"", true),
            ("4.22.3", "\"4.23\"", false),
            ("5.1.0", "\"5.0\"", true),
        ] {
            let verdict = openshift("etcd.v1", &max(newest), &cluster(running));
            assert_eq!(
                matches!(verdict, Verdict::Refused(_)),
                refused,
                "{running} {newest}: {verdict:?}"
            );
            assert_eq!(verdict == Verdict::Fine, !refused, "{running} {newest}");
        }
    }

    #[test]
    fn a_refusal_says_where_the_cluster_is_and_what_to_do() {
        let at = |major, minor| Some(Release { major, minor });
        let updating = OpenShift {
            running: at(4, 12),
            desired: at(4, 13),
            problem: None,
        };
        assert_eq!(
            openshift("etcd.v1", &max("\"4.12\""), &updating),
            Verdict::Refused(
                "etcd.v1 requires OpenShift <= 4.12 but the cluster is 4.12, on its way to 4.13; choose a version of the \
                 bundle that is made for it, or set spec.preflight.clusterVersion: Off to install it nevertheless"
                    .into()
            )
        );
    }

    #[test]
    fn what_cannot_be_determined_does_not_block() {
        for newest in ["\"\"", "\"4.8.1\"", "\"latest\"", "null", "\"4.8-rc\""] {
            let verdict = openshift("etcd.v1", &max(newest), &cluster("4.12.0"));
            assert!(
                matches!(verdict, Verdict::Unclear(_)),
                "{newest}: {verdict:?}"
            );
        }
        for unknown in ["garbage", "0.0.1-snapshot", ""] {
            let verdict = openshift("etcd.v1", &max("\"4.8\""), &cluster(unknown));
            assert!(
                matches!(verdict, Verdict::Unclear(_)),
                "{unknown}: {verdict:?}"
            );
        }
    }

    #[test]
    fn an_old_kubernetes_is_refused() {
        for (min, cluster, expected) in [
            ("1.36.0", Version::new(1, 36, 3), Some(false)),
            ("1.36", Version::new(1, 36, 0), Some(false)),
            ("v1.9", Version::new(1, 10, 0), Some(false)),
            ("1.36.4", Version::new(1, 36, 3), Some(true)),
            ("1.37.0", Version::new(1, 36, 3), Some(true)),
            ("2.0", Version::new(1, 36, 3), Some(true)),
            ("1.36.0-alpha.1", Version::new(1, 36, 0), Some(false)),
            ("soon", Version::new(1, 36, 3), None),
        ] {
            let verdict = kubernetes("etcd.v1", min, &cluster);
            let refused = match &verdict {
                Verdict::Fine => Some(false),
                Verdict::Refused(_) => Some(true),
                Verdict::Unclear(_) => None,
            };
            assert_eq!(refused, expected, "{min}: {verdict:?}");
        }
    }
}
