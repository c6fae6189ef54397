//! What a bundle demands of the cluster, whichever engine installs it.

use anyhow::bail;
use catalog::{
    choose::{Constraint, Request},
    model,
};
use convert::facts::Facts;
use manifests::{openshift::MaxOpenShiftVersion, version::Version};

use super::pulling::Pulled;
use crate::{
    cluster::Cluster,
    upgrade::read::{Here, releases_seen},
};

/// Refuses what this cluster cannot run; its releases as far as they may be seen, and whether it may be any OpenShift.
pub(super) async fn check(cluster: &Cluster, pulled: &Pulled) -> anyhow::Result<(Here, bool)> {
    let (here, hidden) = releases_seen(cluster).await?;
    let is_hidden = hidden.is_some();
    let names = (&*pulled.bundle.package, &*pulled.bundle.name);
    decide(names, &pulled.version, &pulled.facts, &here, hidden)?;
    Ok((here, is_hidden))
}

/// Refuses a bundle of a package that this cluster cannot run. An error that hides the OpenShift release counts only for bundles
/// that declare a maximum: who is not an administrator may not see the release, as a rule.
fn decide(
    names: (&str, &str),
    version: &Version,
    facts: &Facts,
    here: &Here,
    hidden: Option<anyhow::Error>,
) -> anyhow::Result<()> {
    let claim = facts.max_open_shift_version.as_ref();
    let claim = claim.and_then(MaxOpenShiftVersion::release);
    let (_, name) = names;
    if let (Some(why), Some(_)) = (hidden, claim) {
        return Err(why.context(format!(
            "bundle {name:?} says on which OpenShift it runs at most, and which one this is may not be seen; nothing was changed"
        )));
    }
    let unmet = demands(names, version, facts, here);
    if !unmet.is_empty() {
        bail!(
            "bundle {name:?} {}; nothing was changed",
            unmet.join(", and ")
        );
    }
    Ok(())
}

/// Returns the demands of a bundle that the cluster does not meet.
fn demands(
    (package, name): (&str, &str),
    version: &Version,
    facts: &Facts,
    here: &Here,
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
        // What cannot run on the target of an update is not installed on the way to it.
        openshift: here.newest,
        kubernetes: here.version.as_ref(),
        media_types: &[],
        overrides: &[],
    };
    let updating = here.is_updating.as_ref();
    let limits = request.limits(&claims);
    limits
        .map(|(constraint, reason)| match (constraint, updating) {
            (Constraint::MaxOpenShiftVersion, Some(updating)) => {
                format!("{reason} (it is being updated from {updating})")
            }
            _ => reason,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use manifests::openshift::{Cluster as Told, Release, Spelling};

    use super::*;

    const NAMES: (&str, &str) = ("tide", "tide.v1.0.0");

    fn version() -> Version {
        "1.0.0".parse().unwrap()
    }

    fn facts(max: Option<&str>) -> Facts {
        let max = max.map(|json| MaxOpenShiftVersion::new(json, Spelling::BundleProperties));
        ::tests::with!(Facts, max_open_shift_version: max)
    }

    /// The rows of `maxOpenShiftVersion`: absent, invalid, greater, equal, less, and not on an OpenShift.
    // parity: sdk-27
    #[test]
    fn what_a_cluster_does_not_meet_is_told_whatever_the_engine() {
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
            let openshift = openshift.and_then(Release::read);
            let mut here = Here::new("1.36".parse().unwrap(), None);
            (here.releases.openshift, here.newest) = (openshift, openshift);
            here.version = "1.36.3".parse().ok();
            let told = demands(NAMES, &version(), &facts, &here);
            assert_eq!(told, expected, "{max:?} {min:?} {openshift:?}");
        }
    }

    #[test]
    fn what_cannot_run_on_the_target_of_an_update_is_not_installed_on_the_way() {
        let refused =
            "requires OpenShift <= 4.21 but the cluster is 4.22 (it is being updated from";
        for (max, running, desired, expected) in ::tests::rows![
            "4.21", "4.21", "4.21" => None;
            "4.21", "4.21", "4.22" => Some(format!("{refused} 4.21 to 4.22)"));
            "4.22", "4.21", "4.22" => None;
            // On its way back it still runs what it came from.
            "4.21", "4.22", "4.21" => Some(format!("{refused} 4.22 to 4.21)"));
        ] {
            let facts = facts(Some(max));
            let history = [(Some("Partial"), desired), (Some("Completed"), running)];
            let history = history.map(|(state, minor)| (state, format!("{minor}.3")));
            let history = history
                .iter()
                .map(|(state, it)| (*state, Some(it.as_str())));
            let told = Told::of_history(history, Some(&format!("{desired}.3")));
            let mut here = Here::new("1.36".parse().unwrap(), None);
            here.learn(&told).unwrap();
            let unmet = demands(NAMES, &version(), &facts, &here);
            let row = format!("{max} {running} {desired}");
            assert_eq!(unmet.first(), expected.as_ref(), "{row}");
            assert_eq!(here.releases.openshift, Release::read(running));
        }
    }

    // parity: sdk-27
    #[test]
    fn hidden_release_blocks_only_bundles_that_declare_a_maximum() {
        let hidden = "bundle \"tide.v1.0.0\" says on which OpenShift it runs at most, and which one this is may not be seen; \
                      nothing was changed: placeholder";
        let newer = "bundle \"tide.v1.0.0\" requires OpenShift <= 4.21 but the cluster is 4.22; nothing was changed";
        for (max, openshift, is_hidden, expected) in [
            (None, None, true, Ok(())),
            (Some("\"4.x\""), None, true, Ok(())),
            (Some("\"4.22\""), None, true, Err(hidden)),
            (Some("\"4.22\""), None, false, Ok(())),
            (Some("\"4.22\""), Some("4.22"), false, Ok(())),
            (Some("\"4.21\""), Some("4.22"), false, Err(newer)),
        ] {
            let facts = facts(max);
            let mut here = Here::new("1.36".parse().unwrap(), None);
            here.newest = openshift.and_then(Release::read);
            let why = is_hidden.then(|| anyhow!("placeholder"));
            let decided = decide(NAMES, &version(), &facts, &here, why);
            let decided = decided.map_err(|error| format!("{error:#}"));
            assert_eq!(decided, expected.map_err(str::to_owned), "{facts:?}");
        }
    }
}
