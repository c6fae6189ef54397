//! What a bundle demands of the cluster, whichever engine installs it.

use anyhow::bail;
use catalog::{choose::Request, model};
use convert::facts::Facts;
use manifests::version::Version;

use super::pulling::Pulled;
use crate::{
    cluster::Cluster,
    upgrade::read::{Here, releases_seen},
};

/// Refuses what this cluster cannot run; its releases as far as they may be seen, and whether it may be any OpenShift. Which one
/// counts only for bundles that say something of it: who is not an administrator may not see it, as a rule.
pub(super) async fn check(cluster: &Cluster, pulled: &Pulled) -> anyhow::Result<(Here, bool)> {
    let (here, hidden) = releases_seen(cluster).await?;
    let claim = pulled.facts.max_open_shift_version.as_ref();
    let (is_hidden, claim) = (hidden.is_some(), claim.and_then(|it| it.version));
    let name = &pulled.bundle.name;
    if let (Some(why), Some(_)) = (hidden, claim) {
        return Err(why.context(format!(
            "bundle {name:?} says on which OpenShift it runs at most, and which one this is may not be seen; nothing was changed"
        )));
    }
    let unmet = unmet(pulled, &here);
    if !unmet.is_empty() {
        bail!(
            "bundle {name:?} {}; nothing was changed",
            unmet.join(", and ")
        );
    }
    Ok((here, is_hidden))
}

/// What a bundle demands, and does not get.
fn unmet(pulled: &Pulled, here: &Here) -> Vec<String> {
    let names = (&*pulled.bundle.package, &*pulled.bundle.name);
    demands(names, &pulled.version, &pulled.facts, here)
}

/// The same, given a package and a bundle of it.
fn demands(
    (package, name): (&str, &str),
    version: &Version,
    facts: &Facts,
    here: &Here,
) -> Vec<String> {
    let mut claims = model::Bundle::new(name.to_owned(), version.clone());
    claims.min_kube.clone_from(&facts.min_kube_version);
    let max = facts.max_open_shift_version.as_ref();
    claims.max_openshift = max
        .and_then(|it| it.version)
        .map(|it| format!("\"{it}\""))
        .into_iter()
        .collect();
    let request = Request {
        package,
        channel: None,
        range: None,
        minor: None,
        newest: None,
        installed: None,
        openshift: here.releases.openshift,
        kubernetes: here.version.as_ref(),
        media_types: &[],
        overrides: &[],
    };
    request.limits(&claims).map(|(_, reason)| reason).collect()
}

#[cfg(test)]
mod tests {
    use convert::maxocp::MaxOpenShiftVersion;
    use manifests::openshift::{Release, maximum};

    use super::*;
    use crate::upgrade::target::Releases;

    /// The rows of `maxOpenShiftVersion`: absent, invalid, greater, equal, less, and not on an OpenShift.
    #[test]
    fn what_a_cluster_does_not_meet_is_told_whatever_the_engine() {
        let newer = "requires OpenShift <= 4.21 but the cluster is 4.22";
        let older = "requires Kubernetes >= 1.99.0 but the cluster is 1.36.3";
        for (max, min, openshift, expected) in [
            (None, None, Some("4.22"), &[][..]),
            (Some("\"4.x\""), None, Some("4.22"), &[]),
            (Some("\"4.23\""), None, Some("4.22"), &[]),
            (Some("4.22"), None, Some("4.22"), &[]),
            (Some("\"4.21\""), None, Some("4.22"), &[newer]),
            (Some("4.21"), None, None, &[]),
            (None, Some("1.36.3"), None, &[]),
            (None, Some("1.99.0"), None, &[older]),
            (Some("4.21"), Some("1.99.0"), Some("4.22"), &[newer, older]),
        ] {
            let facts = Facts {
                min_kube_version: min.map(str::to_owned),
                max_open_shift_version: max.map(|json| MaxOpenShiftVersion {
                    raw: json.to_owned(),
                    source: String::new(),
                    version: maximum(json).ok(),
                    problem: None,
                }),
                ..Facts::default()
            };
            let here = Here {
                releases: Releases {
                    openshift: openshift.and_then(Release::read),
                    kubernetes: "1.36".parse().unwrap(),
                },
                version: "1.36.3".parse().ok(),
                is_updating: None,
            };
            let version = "1.0.0".parse().unwrap();
            let told = demands(("tide", "tide.v1.0.0"), &version, &facts, &here);
            assert_eq!(told, expected, "{max:?} {min:?} {openshift:?}");
        }
    }
}
