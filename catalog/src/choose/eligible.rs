//! What speaks against a bundle, whatever its place in a channel.

use manifests::{
    openshift::MaxOpenShiftVersion,
    version::{self, Version},
};

use super::{Constraint, Override, Request};
use crate::model::{Bundle, Need};

/// How much of a stranger's text is repeated.
const SHORT: usize = 60;

impl Request<'_> {
    /// All reasons why a bundle cannot be installed here, whatever its place in a channel.
    pub fn refusals(&self, bundle: &Bundle) -> Vec<String> {
        let mut reasons = Vec::new();
        if let Some(why) = &bundle.unreadable {
            reasons.push(format!("cannot be read: {why}"));
        }
        if bundle.image.is_empty() && bundle.unreadable.is_none() {
            reasons.push("has no image".to_owned());
        }
        if !self.media_types.contains(&bundle.media_type()) {
            let media_type: String = bundle.media_type().chars().take(SHORT).collect();
            reasons.push(format!(
                "is of the format {media_type:?}, which nothing here installs"
            ));
        }
        if let Some(range) = self.range
            && !range.matches(&bundle.version.version)
        {
            reasons.push("is not in the range of versions asked for".to_owned());
        }
        if let Some((major, minor)) = self.minor
            && (bundle.version.version.major, bundle.version.version.minor) != (major, minor)
        {
            reasons.push(format!("is not of the minor version {major}.{minor}"));
        }
        if let Some(newest) = self.newest
            && bundle.version.version.cmp_precedence(newest).is_gt()
        {
            reasons.push(format!("is newer than {newest}, which is approved"));
        }
        reasons.extend(needs(&bundle.needs));
        let limits = self.limits(bundle);
        let limits = limits.filter(|(constraint, _)| !self.is_overridden(*constraint, bundle));
        reasons.extend(limits.map(|(_, reason)| reason));
        reasons
    }

    /// What it demands of the cluster, and does not get.
    pub fn limits(&self, bundle: &Bundle) -> impl Iterator<Item = (Constraint, String)> {
        let newest = self.too_new(bundle);
        let oldest = self.too_old(bundle);
        let newest = newest.map(|it| (Constraint::MaxOpenShiftVersion, it));
        newest
            .into_iter()
            .chain(oldest.map(|it| (Constraint::MinKubeVersion, it)))
    }

    fn is_overridden(&self, constraint: Constraint, bundle: &Bundle) -> bool {
        let Some((_, digest)) = bundle.image.rsplit_once('@') else {
            return false;
        };
        let wanted = Override { constraint, digest };
        self.overrides.contains(&wanted)
    }

    /// What may go wrong although nothing speaks against it.
    pub(super) fn doubts(&self, bundle: &Bundle) -> Vec<String> {
        let name = &bundle.name;
        let limits = self.limits(bundle);
        let limits = limits.filter(|(constraint, _)| self.is_overridden(*constraint, bundle));
        let mut doubts: Vec<String> = limits
            .map(|(_, reason)| {
                format!("bundle {name} {reason}, which an override says does not count")
            })
            .collect();
        let declared = bundle.max_openshift.as_ref();
        let version = declared.map(|declared| &declared.version);
        if let (Some(cluster), Some(Err(error))) = (self.openshift, version) {
            doubts.push(format!(
                "bundle {name}: {error}; the bundle may not run on OpenShift {cluster}"
            ));
        }
        doubts
    }

    fn too_new(&self, bundle: &Bundle) -> Option<String> {
        let cluster = self.openshift?;
        let declared = bundle.max_openshift.as_ref();
        let max = declared.and_then(MaxOpenShiftVersion::release)?;
        (!max.admits(cluster))
            .then(|| format!("requires OpenShift <= {max} but the cluster is {cluster}"))
    }

    fn too_old(&self, bundle: &Bundle) -> Option<String> {
        let text = bundle.min_kube.as_deref()?;
        let short: String = text.chars().take(SHORT).collect();
        let Ok(min) = version::tolerant(text) else {
            return Some(format!(
                "has a minKubeVersion that is no version: {short:?}"
            ));
        };
        let cluster = self.kubernetes?;
        (numbers(cluster) < numbers(&min)).then(|| {
            let cluster = match cluster.patch {
                // Whoever does not know the patch asks with the highest.
                u64::MAX => format!("{}.{}", cluster.major, cluster.minor),
                _ => cluster.to_string(),
            };
            format!("requires Kubernetes >= {short} but the cluster is {cluster}")
        })
    }
}

/// What a distribution adds to the version says nothing about which is newer.
fn numbers(version: &Version) -> (u64, u64, u64) {
    (version.major, version.minor, version.patch)
}

fn needs(needs: &[Need]) -> Option<String> {
    let first = needs.first()?;
    let first: String = first.to_string().chars().take(200).collect();
    let more = match needs.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    Some(format!(
        "needs {first}{more}, and dependencies are not resolved here"
    ))
}
