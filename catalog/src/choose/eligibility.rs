//! Eligibility of a bundle, regardless of its entry in a channel.

use manifests::{
    openshift::MaxOpenShiftVersion,
    version::{self, Version},
};

use super::{Constraint, Override, Request};
use crate::model::{Bundle, Requirement};

/// Maximum length of repeated untrusted text in characters.
const MAX_TEXT_LEN: usize = 60;

impl Request<'_> {
    /// Returns all reasons why a bundle is ineligible, regardless of its entry in a channel.
    pub fn ineligible_reasons(&self, bundle: &Bundle) -> Vec<String> {
        let mut reasons = Vec::new();
        if let Some(reason) = &bundle.invalid_properties {
            reasons.push(format!("cannot be read: {reason}"));
        }
        if bundle.image.is_empty() && bundle.invalid_properties.is_none() {
            reasons.push("has no image".to_owned());
        }
        if !self.media_types.contains(&bundle.media_type()) {
            let media_type: String = bundle.media_type().chars().take(MAX_TEXT_LEN).collect();
            reasons.push(format!("has unsupported media type {media_type:?}"));
        }
        if let Some(range) = self.range
            && !range.matches(&bundle.version.version)
        {
            reasons.push("is not in the requested version range".to_owned());
        }
        if let Some((major, minor)) = self.minor
            && (bundle.version.version.major, bundle.version.version.minor) != (major, minor)
        {
            reasons.push(format!("does not have the minor version {major}.{minor}"));
        }
        if let Some(newest) = self.newest
            && bundle.version.version.cmp_precedence(newest).is_gt()
        {
            reasons.push(format!("is newer than the approved version {newest}"));
        }
        reasons.extend(unsupported_dependencies(&bundle.requires));
        let limits = self.constraint_violations(bundle);
        let limits = limits.filter(|(constraint, _)| !self.is_overridden(*constraint, bundle));
        reasons.extend(limits.map(|(_, reason)| reason));
        reasons
    }

    /// Returns the constraints of the bundle that the cluster does not meet, with the reasons.
    pub fn constraint_violations(
        &self,
        bundle: &Bundle,
    ) -> impl Iterator<Item = (Constraint, String)> {
        let newest = self.too_new(bundle);
        let oldest = self.too_old(bundle);
        let newest = newest.map(|reason| (Constraint::MaxOpenShiftVersion, reason));
        newest
            .into_iter()
            .chain(oldest.map(|reason| (Constraint::MinKubeVersion, reason)))
    }

    fn is_overridden(&self, constraint: Constraint, bundle: &Bundle) -> bool {
        let Some((_, digest)) = bundle.image.rsplit_once('@') else {
            return false;
        };
        let key = Override { constraint, digest };
        self.overrides.contains(&key)
    }

    /// Returns warnings about an eligible bundle: overridden constraints and an invalid max OpenShift version.
    pub(super) fn uncertainties(&self, bundle: &Bundle) -> Vec<String> {
        let name = &bundle.name;
        let limits = self.constraint_violations(bundle);
        let limits = limits.filter(|(constraint, _)| self.is_overridden(*constraint, bundle));
        let mut uncertainties: Vec<String> = limits
            .map(|(_, reason)| format!("bundle {name} {reason} (overridden)"))
            .collect();
        let declared = bundle.max_openshift.as_ref();
        let version = declared.map(|declared| &declared.version);
        if let (Some(cluster), Some(Err(error))) = (self.openshift, version) {
            uncertainties.push(format!(
                "bundle {name}: {error}; the bundle may not run on OpenShift {cluster}"
            ));
        }
        uncertainties
    }

    fn too_new(&self, bundle: &Bundle) -> Option<String> {
        let cluster = self.openshift?;
        let declared = bundle.max_openshift.as_ref();
        let max = declared.and_then(MaxOpenShiftVersion::release)?;
        (!max.allows(cluster))
            .then(|| format!("requires OpenShift <= {max} but the cluster is {cluster}"))
    }

    fn too_old(&self, bundle: &Bundle) -> Option<String> {
        let text = bundle.min_kube.as_deref()?;
        let short: String = text.chars().take(MAX_TEXT_LEN).collect();
        let Ok(min) = version::parse_lenient(text) else {
            return Some(format!("has an invalid minKubeVersion: {short:?}"));
        };
        let cluster = self.kubernetes?;
        (version_numbers(cluster) < version_numbers(&min)).then(|| {
            let cluster = match cluster.patch {
                // A patch of `u64::MAX` means that the patch is unknown.
                u64::MAX => format!("{}.{}", cluster.major, cluster.minor),
                _ => cluster.to_string(),
            };
            format!("requires Kubernetes >= {short} but the cluster is {cluster}")
        })
    }
}

/// Returns the version without suffixes that distributions add, which do not affect the order.
fn version_numbers(version: &Version) -> (u64, u64, u64) {
    (version.major, version.minor, version.patch)
}

fn unsupported_dependencies(needs: &[Requirement]) -> Option<String> {
    let first = needs.first()?;
    let first: String = first.to_string().chars().take(200).collect();
    let more = match needs.len() {
        1 => String::new(),
        count => format!(" and {} more", count - 1),
    };
    Some(format!(
        "requires {first}{more}; dependencies are not resolved"
    ))
}
