//! Compares the constraints of a bundle with the versions of the cluster. Pure; no I/O.

use manifests::{
    api::bundle_instance::{Constraint, Override},
    object::truncate,
    openshift::MaxOpenShiftVersion,
    version::{self, Version},
};

use super::OpenShift;
use crate::cluster::overrides::ContentDigests;
use apply::preflight::{Check, Finding, Findings};

/// Result of one constraint.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConstraintResult {
    /// The constraint is satisfied.
    Satisfied,
    /// The constraint cannot be evaluated.
    Unknown(String),
    /// The constraint is violated.
    Unsatisfied {
        /// Constraint and actual version.
        problem: String,
        /// Remedy, in the imperative.
        remedy: &'static str,
    },
}

impl ConstraintResult {
    /// Adds the result to the findings: a violation is a problem, unless an override for this content ignores the
    /// constraint.
    pub(super) fn add_to(
        self,
        findings: &mut Findings,
        constraint: Constraint,
        overridden: Option<&Override>,
        content: ContentDigests<'_>,
        is_installed: bool,
    ) {
        let (list, message) = match (self, overridden) {
            (Self::Satisfied, _) => return,
            (Self::Unknown(message), _) => (&mut findings.warnings, message),
            (Self::Unsatisfied { problem, .. }, Some(by)) => {
                let reason = truncate(&by.reason, 200);
                let message = format!("{problem} (overridden in spec.overrides: {reason:?})");
                (&mut findings.warnings, message)
            }
            // An admin who upgraded the cluster despite the constraint keeps the installed bundle.
            (Self::Unsatisfied { problem, .. }, None) if is_installed => {
                let message = format!("{problem}; the bundle is already installed and is kept");
                (&mut findings.warnings, message)
            }
            (Self::Unsatisfied { problem, remedy }, None) => {
                let override_hint = override_hint(constraint, content);
                let message =
                    format!("{problem}; {remedy}, or {override_hint} to install it anyway");
                (&mut findings.problems, message)
            }
        };
        list.push(Finding {
            check: Check::ClusterVersion,
            message,
        });
    }
}

/// Returns the remedy that makes the constraint ignored, ready to be pasted.
fn override_hint(constraint: Constraint, content: ContentDigests<'_>) -> String {
    let constraint = match constraint {
        Constraint::MaxOpenShiftVersion => "maxOpenShiftVersion",
        Constraint::MinKubeVersion => "minKubeVersion",
    };
    match content.to_name() {
        Some(digest) => format!(
            "add {{constraint: {constraint}, digest: \"{digest}\", reason: \"…\"}} to spec.overrides"
        ),
        None => "set spec.preflight.clusterVersion: Off".to_owned(),
    }
}

/// Evaluates the newest supported OpenShift version. Only major and minor version are compared, and an equal version is
/// supported.
pub(super) fn openshift(
    bundle: &str,
    max: &MaxOpenShiftVersion,
    cluster: &OpenShift,
) -> ConstraintResult {
    let newest = match &max.version {
        Ok(newest) => *newest,
        Err(error) => {
            return ConstraintResult::Unknown(format!(
                "cannot determine whether {bundle} runs on this cluster: {error} ({}); ask the bundle author to set a \
                 release such as \"4.16\"",
                max.source,
            ));
        }
    };
    let Some(release) = cluster.max_release() else {
        let reason = cluster.problem.as_deref().unwrap_or("unknown version");
        return ConstraintResult::Unknown(format!(
            "{bundle} requires OpenShift <= {newest}, which cannot be checked: {reason}; check ClusterVersion \
             \"version\""
        ));
    };
    if newest.allows(release) {
        return ConstraintResult::Satisfied;
    }
    let is_at = match cluster.running {
        Some(running) if running != release => format!("{running}, being upgraded to {release}"),
        _ => release.to_string(),
    };
    ConstraintResult::Unsatisfied {
        problem: format!("{bundle} requires OpenShift <= {newest} but the cluster is {is_at}"),
        remedy: "choose a bundle version that supports this release",
    }
}

/// Evaluates the oldest supported Kubernetes version. A pre-release of it is supported, as in OLM.
pub(super) fn kubernetes(bundle: &str, min: &str, cluster: &Version) -> ConstraintResult {
    match version::parse_lenient(min) {
        Err(error) => ConstraintResult::Unknown(format!(
            "cannot determine whether {bundle} runs on this cluster: failed to check its minKubeVersion: {error}"
        )),
        Ok(oldest) if cluster.cmp_precedence(&oldest).is_lt() => ConstraintResult::Unsatisfied {
            problem: format!(
                "{bundle} requires Kubernetes >= {oldest} but the cluster is {cluster}"
            ),
            remedy: "upgrade the cluster, choose an older version of the bundle",
        },
        Ok(_) => ConstraintResult::Satisfied,
    }
}

#[cfg(test)]
mod tests {
    use manifests::openshift::{Release, Spelling};

    use super::*;

    fn max(json: &str) -> MaxOpenShiftVersion {
        MaxOpenShiftVersion::new(json, Spelling::BundleProperties)
    }

    fn cluster(version: &str) -> OpenShift {
        OpenShift::of_release(version)
    }

    /// Reports whether the bundle is rejected; `None` if that is unknown.
    fn is_rejected(result: &ConstraintResult) -> Option<bool> {
        match result {
            ConstraintResult::Satisfied => Some(false),
            ConstraintResult::Unsatisfied { .. } => Some(true),
            ConstraintResult::Unknown(_) => None,
        }
    }

    // parity: max-13
    #[test]
    fn bundle_is_rejected_if_the_cluster_exceeds_its_maximum() {
        assert_each!(|running, newest, expected| is_rejected(&openshift("etcd.v1", &max(newest), &cluster(running))) => expected;
            "4.12.3", "\"4.12\"" => Some(false);
            "4.13.0-rc.1", "4.12" => Some(true);
            // The same release.
            "5.0.0", "\"4.23\"" => Some(false);
        );
    }

    // parity: max-3
    #[test]
    fn rejection_names_the_cluster_version_and_the_remedy() {
        let at = |major, minor| Some(Release { major, minor });
        let updating = with!(OpenShift, running: at(4, 12), desired: at(4, 13));
        let content = format!("sha256:{}", "a".repeat(64));
        let outcome = |overridden: Option<&Override>, content: Option<&str>, is_installed| {
            let mut findings = Findings::default();
            openshift("etcd.v1", &max("\"4.12\""), &updating).add_to(
                &mut findings,
                Constraint::MaxOpenShiftVersion,
                overridden,
                ContentDigests::new(content, None),
                is_installed,
            );
            let message = |problem: Finding| problem.message;
            let problems: Vec<_> = findings.problems.into_iter().map(message).collect();
            let warnings: Vec<_> = findings.warnings.into_iter().map(message).collect();
            (problems, warnings)
        };
        let rejection = |overridden, content| outcome(overridden, content, false);
        let problem =
            "etcd.v1 requires OpenShift <= 4.12 but the cluster is 4.12, being upgraded to 4.13";
        let kept_message = format!("{problem}; the bundle is already installed and is kept");
        let choose = "choose a bundle version that supports this release";
        let by = Override {
            constraint: Constraint::MaxOpenShiftVersion,
            digest: content.clone(),
            reason: "tested by us".into(),
        };
        let allowed = format!("{problem} (overridden in spec.overrides: \"tested by us\")");
        assert_rows! {
            outcome(None, Some(&content), true) => (vec![], vec![kept_message]);
            rejection(None, Some(&content)).0 => [format!(
                "{problem}; {choose}, or add {{constraint: maxOpenShiftVersion, digest: \"{content}\", reason: \"…\"}} \
                 to spec.overrides to install it anyway"
            )];
            rejection(None, None).0
                => [format!("{problem}; {choose}, or set spec.preflight.clusterVersion: Off to install it anyway")];
            rejection(Some(&by), Some(&content)) => (vec![], vec![allowed]);
        }
    }

    // parity: max-olm-2
    #[test]
    fn undeterminable_versions_do_not_block() {
        for newest in ["\"4.8.1\"", "null"] {
            let verdict = openshift("etcd.v1", &max(newest), &cluster("4.12.0"));
            let ConstraintResult::Unknown(message) = &verdict else {
                panic!("{newest}: {verdict:?}");
            };
            let expected = "cannot determine whether etcd.v1 runs on this cluster: max OpenShift version cannot be \
                            determined: ";
            assert!(message.starts_with(expected), "{message}");
        }
        for unknown in ["garbage", "0.0.1-snapshot", ""] {
            let verdict = openshift("etcd.v1", &max("\"4.8\""), &cluster(unknown));
            assert_eq!(is_rejected(&verdict), None, "{unknown}: {verdict:?}");
        }
    }

    #[test]
    fn older_kubernetes_is_rejected() {
        assert_each!(|min, cluster, expected| is_rejected(&kubernetes("etcd.v1", min, &cluster)) => expected;
            "1.36.0", Version::new(1, 36, 3) => Some(false);
            "1.36", Version::new(1, 36, 0) => Some(false);
            "v1.9", Version::new(1, 10, 0) => Some(false);
            "1.36.4", Version::new(1, 36, 3) => Some(true);
            "1.37.0", Version::new(1, 36, 3) => Some(true);
            "2.0", Version::new(1, 36, 3) => Some(true);
            "1.36.0-alpha.1", Version::new(1, 36, 0) => Some(false);
            "soon", Version::new(1, 36, 3) => None;
        );
    }
}
