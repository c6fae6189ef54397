//! Constraints of a bundle on the cluster, for both engines.

use anyhow::bail;
use catalog::{
    choose::{Constraint, Request},
    model,
};
use convert::bundle_info::BundleInfo;
use manifests::{openshift::MaxOpenShiftVersion, version::Version};

use super::images::PulledBundle;
use crate::{
    cluster::Cluster,
    commands::upgrade_check::cluster_state::{ClusterState, observed_releases},
};

/// Rejects a bundle that this cluster cannot run. Returns the releases that may be read, and whether the OpenShift release
/// is hidden, so that the cluster may be any OpenShift.
pub(super) async fn check(
    cluster: &Cluster,
    pulled: &PulledBundle,
) -> anyhow::Result<(ClusterState, bool)> {
    let (state, hidden) = observed_releases(cluster).await?;
    let is_hidden = hidden.is_some();
    let names = (&*pulled.bundle.package, &*pulled.bundle.name);
    decide(names, &pulled.version, &pulled.facts, &state, hidden)?;
    Ok((state, is_hidden))
}

/// Rejects a bundle of a package that this cluster cannot run. An error that hides the OpenShift release matters only for
/// bundles that declare a maximum: users without admin permissions usually cannot read the release.
fn decide(
    names: (&str, &str),
    version: &Version,
    facts: &BundleInfo,
    state: &ClusterState,
    hidden: Option<anyhow::Error>,
) -> anyhow::Result<()> {
    let claim = facts.max_open_shift_version.as_ref();
    let claim = claim.and_then(MaxOpenShiftVersion::release);
    let (_, name) = names;
    if let (Some(error), Some(_)) = (hidden, claim) {
        return Err(error.context(format!(
            "bundle {name:?} sets maxOpenShiftVersion, but you are not allowed to read the cluster version; no changes were \
             made"
        )));
    }
    let violations = demands(names, version, facts, state);
    if !violations.is_empty() {
        bail!(
            "bundle {name:?} {}; no changes were made",
            violations.join(", and ")
        );
    }
    Ok(())
}

/// Returns the constraints of a bundle that the cluster violates.
fn demands(
    (package, name): (&str, &str),
    version: &Version,
    facts: &BundleInfo,
    state: &ClusterState,
) -> Vec<String> {
    let mut claims = model::Bundle::new(name.to_owned(), version.clone());
    claims.min_kube.clone_from(&facts.min_kube_version);
    claims
        .max_openshift
        .clone_from(&facts.max_open_shift_version);
    let request = Request {
        package,
        channel: None,
        range: None,
        minor: None,
        newest: None,
        installed: None,
        // A bundle that cannot run on the target release of a cluster update is not installed during the update.
        openshift: state.newest,
        kubernetes: state.version.as_ref(),
        media_types: &[],
        overrides: &[],
    };
    let updating = state.is_updating.as_ref();
    let limits = request.constraint_violations(&claims);
    limits
        .map(|(constraint, reason)| match (constraint, updating) {
            (Constraint::MaxOpenShiftVersion, Some(updating)) => {
                format!("{reason} (the cluster is being upgraded from {updating})")
            }
            _ => reason,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use manifests::openshift::{ClusterRelease as ObservedCluster, Release, Spelling};

    use super::*;

    const NAMES: (&str, &str) = ("tide", "tide.v1.0.0");

    fn version() -> Version {
        "1.0.0".parse().unwrap()
    }

    fn facts(max: Option<&str>) -> BundleInfo {
        let max = max.map(|json| MaxOpenShiftVersion::new(json, Spelling::BundleProperties));
        ::tests::with!(BundleInfo, max_open_shift_version: max)
    }

    fn cluster() -> ClusterState {
        ClusterState::new("1.36".parse().unwrap(), None)
    }

    /// Rows of `maxOpenShiftVersion`: absent, invalid, greater, equal, less, and on Kubernetes.
    // parity: sdk-27
    #[test]
    fn unmet_constraints_are_reported_for_every_engine() {
        let newer = "requires OpenShift <= 4.21 but the cluster is 4.22";
        let older = "requires Kubernetes >= 1.99.0 but the cluster is 1.36.3";
        for (max, min, openshift, expected) in ::tests::rows![
            None, None, Some("4.22") => &[][..];
            Some("\"4.x\""), None, Some("4.22") => &[];
            Some("\"4.23\""), None, Some("4.22") => &[];
            Some("4.22"), None, Some("4.22") => &[];
            Some("\"4.21\""), None, Some("4.22") => &[newer];
            Some("4.21"), None, None => &[];
            None, Some("1.36.3"), None => &[];
            None, Some("1.99.0"), None => &[older];
            Some("4.21"), Some("1.99.0"), Some("4.22") => &[newer, older];
        ] {
            let facts = ::tests::with!(facts(max) => min_kube_version: min.map(str::to_owned));
            let release = openshift.and_then(Release::read);
            let cluster = ::tests::with!(cluster() => releases.openshift: release, newest: release, version: "1.36.3".parse().ok());
            ::tests::assert_rows!(demands(NAMES, &version(), &facts, &cluster) => expected, "{max:?} {min:?} {openshift:?}");
        }
    }

    #[test]
    fn bundle_must_support_both_releases_of_an_upgrade() {
        let refused = "requires OpenShift <= 4.21 but the cluster is 4.22 (the cluster is being upgraded from";
        for (max, running, desired, expected) in ::tests::rows![
            "4.21", "4.21", "4.21" => None;
            "4.21", "4.21", "4.22" => Some(format!("{refused} 4.21 to 4.22)"));
            "4.22", "4.21", "4.22" => None;
            // During a rollback, the cluster still runs the newer release.
            "4.21", "4.22", "4.21" => Some(format!("{refused} 4.22 to 4.21)"));
        ] {
            let [new, old] = [desired, running].map(|minor| format!("{minor}.3"));
            let history = [("Partial", &new), ("Completed", &old)];
            let history = history.map(|(state, release)| (Some(state), Some(release.as_str())));
            let observed = ObservedCluster::of_history(history.into_iter(), Some(&new));
            let mut cluster = cluster();
            cluster.detect(&observed).unwrap();
            ::tests::assert_rows! {
                demands(NAMES, &version(), &facts(Some(max)), &cluster).first() => expected.as_ref(), "{max} {running} {desired}";
                cluster.releases.openshift => Release::read(running);
            }
        }
    }

    // parity: sdk-27
    #[test]
    fn hidden_release_blocks_only_bundles_that_declare_a_maximum() {
        let hidden = "bundle \"tide.v1.0.0\" sets maxOpenShiftVersion, but you are not allowed to read the cluster version; \
                      no changes were made: placeholder";
        let newer = "bundle \"tide.v1.0.0\" requires OpenShift <= 4.21 but the cluster is 4.22; no changes were made";
        for (max, openshift, is_hidden, expected) in [
            (None, None, true, Ok(())),
            (Some("\"4.x\""), None, true, Ok(())),
            (Some("\"4.22\""), None, true, Err(hidden)),
            (Some("\"4.22\""), None, false, Ok(())),
            (Some("\"4.22\""), Some("4.22"), false, Ok(())),
            (Some("\"4.21\""), Some("4.22"), false, Err(newer)),
        ] {
            let cluster = ::tests::with!(cluster() => newest: openshift.and_then(Release::read));
            let error = is_hidden.then(|| anyhow!("placeholder"));
            let decided = decide(NAMES, &version(), &facts(max), &cluster, error);
            let decided = decided.map_err(|error| format!("{error:#}"));
            ::tests::table::assert_outcome(decided, expected, (max, openshift));
        }
    }
}
