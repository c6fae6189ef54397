//! Findings about operators before an upgrade of their cluster. Pure; no I/O.

use std::collections::BTreeSet;

use convert::removed_apis::{RemovedApiUses, request_counts::ApiCall};
use manifests::{
    api::platform_status::Effect, object::truncate, openshift::maximum, version_range::Range,
};
use serde::Serialize;

use super::target::Releases;

/// Maximum length of a text of another author, in characters.
const MAX_TEXT_LEN: usize = 200;

/// Installed operator, and its constraints on an upgrade.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstalledOperator {
    /// Install namespace of the operator.
    pub(crate) namespace: String,
    /// Name of the BundleInstance or the ClusterServiceVersion.
    pub(crate) name: String,
    /// Kind of the object with this name.
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) package: Option<String>,
    /// Name of the bundle in catalogs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// Digest of the bundle image.
    #[serde(skip)]
    pub(crate) image: Option<String>,
    /// Requested channel, if any.
    #[serde(skip)]
    pub(crate) channel: Option<String>,
    /// Requested version range, if any.
    #[serde(skip)]
    pub(crate) range: Option<Range>,
    /// Newest OpenShift release that the operator supports, as declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) maximum: Option<String>,
    /// Reason why `maximum` is overridden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) overridden: Option<String>,
    /// Reason why the operator is not upgradeable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refusal: Option<String>,
    /// Message of the provisioner that the operator blocks the upgrade to the next release, if that is the target.
    #[serde(skip)]
    pub(crate) reported: Option<String>,
    /// Whether a catalog has the package but could not be read.
    #[serde(skip)]
    pub(crate) is_unread: bool,
    /// Use of removed APIs.
    pub(crate) removals: RemovedApiUses,
    /// Recorded calls of the operator's accounts to removed APIs.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) calls: BTreeSet<ApiCall>,
    /// Version to which the operator must be upgraded before the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unblocked_by: Option<CandidateVersion>,
    /// Resulting findings, most severe first.
    pub(crate) findings: Vec<Finding>,
}

/// Version in a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct CandidateVersion {
    pub(crate) version: String,
    pub(crate) bundle: String,
    pub(crate) catalog: String,
    pub(crate) channel: String,
}

/// Result of the check of an operator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    pub(crate) effect: Effect,
    pub(crate) message: String,
}

impl InstalledOperator {
    pub(crate) fn label(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Reports whether its max OpenShift version is too low and not overridden, or whether the provisioner reports that.
    pub(crate) fn is_too_old(&self, to: &Releases) -> bool {
        if self.reported.is_some() {
            return true;
        }
        let maximum = self.maximum.as_deref().map(maximum);
        match (maximum, to.openshift) {
            (Some(Ok(maximum)), Some(to)) => !maximum.allows(to) && self.overridden.is_none(),
            _ => false,
        }
    }

    /// Reports whether the operator blocks the upgrade of the cluster.
    pub(crate) fn blocks(&self) -> bool {
        self.findings
            .iter()
            .any(|finding| matches!(finding.effect, Effect::Blocks | Effect::Refuses))
    }

    /// Derives the findings.
    pub(crate) fn assess(&mut self, to: &Releases, has_catalogs: bool) {
        let mut of_maximum = self.of_maximum(to, has_catalogs);
        // A message of the provisioner blocks the cluster upgrade, regardless of what is known here.
        if let Some(concern) = &self.reported
            && of_maximum.as_ref().map(|finding| finding.effect) != Some(Effect::Blocks)
        {
            of_maximum = Some(Finding {
                effect: Effect::Blocks,
                message: repeated(concern),
            });
        }
        // Properties are JSON and annotations are not, but both mean the same.
        if let Some(Ok(release)) = self.maximum.as_deref().map(maximum) {
            self.maximum = Some(release.to_string());
        }
        let mut findings: Vec<Finding> = of_maximum.into_iter().collect();
        let mut add = |effect, message: String| findings.push(Finding { effect, message });
        if let Some(refusal) = &self.refusal {
            add(Effect::Refuses, repeated(refusal));
        }
        for call in &self.calls {
            add(Effect::Warns, call.to_string());
        }
        for removal in &self.removals.found {
            add(Effect::Warns, removal.to_string());
        }
        if self.removals.is_incomplete {
            let message = "could not check all objects for removed APIs".to_owned();
            add(Effect::Warns, message);
        }
        findings.sort_by_key(|finding| finding.effect); // stable
        self.findings = findings;
    }

    fn of_maximum(&self, to: &Releases, has_catalogs: bool) -> Option<Finding> {
        let release = to.openshift?;
        let finding = |effect, message| Some(Finding { effect, message });
        let max = match self.maximum.as_deref().map(maximum) {
            None => {
                let message = format!("does not declare whether it supports OpenShift {release}");
                return finding(Effect::Unknown, message);
            }
            Some(Err(error)) => {
                return finding(Effect::Unknown, error.to_string());
            }
            Some(Ok(max)) if max.allows(release) => return None,
            Some(Ok(max)) => max,
        };
        if let Some(reason) = &self.overridden {
            let reason = repeated(reason);
            let message =
                format!("supports OpenShift up to {max} (overridden in spec.overrides: {reason})");
            return finding(Effect::Overridden, message);
        }
        let message = match (&self.unblocked_by, &self.reported) {
            (None, Some(concern)) if !has_catalogs => repeated(concern),
            (None, _) if self.is_unread => format!(
                "supports OpenShift up to {max}; failed to read its package from the catalogs"
            ),
            (None, _) if has_catalogs => format!(
                "supports OpenShift up to {max}; the catalogs have no reachable version that supports {release}"
            ),
            _ => format!("supports OpenShift up to {max}"),
        };
        finding(Effect::Blocks, message)
    }
}

/// Returns a text of another author as one line of limited length.
fn repeated(text: &str) -> String {
    let parts: Vec<&str> = text.split_whitespace().collect();
    truncate(&parts.join(" "), MAX_TEXT_LEN)
}

#[cfg(test)]
mod tests {
    use convert::removed_apis::UsageScan;
    use manifests::{openshift::Release, version::KubeVersion};

    use super::*;

    fn to(openshift: Option<&str>) -> Releases {
        Releases {
            openshift: openshift.map(|text| Release::read(text).unwrap()),
            kubernetes: KubeVersion::new(1, 36),
        }
    }

    fn operator(maximum: Option<&str>) -> InstalledOperator {
        ::tests::with!(InstalledOperator, namespace: "ns".into(), name: "a".into(), maximum: maximum.map(str::to_owned))
    }

    #[test]
    fn a_maximum_blocks_every_release_above_it() {
        let (blocks, unknown) = (Some(Effect::Blocks), Some(Effect::Unknown));
        for (maximum, release, effect) in ::tests::rows![
            Some("4.20"), Some("4.20") => None;
            Some("\"4.20\""), Some("4.21") => blocks;
            Some("4.21"), Some("4.22") => blocks;
            Some("4.23"), Some("5.0") => None;
            Some("5.0"), Some("4.23") => None;
            Some("5.0"), Some("5.1") => blocks;
            Some("4.9"), Some("4.10") => blocks;
            None, Some("4.21") => unknown;
            Some("4.20.1"), Some("4.21") => unknown;
            Some("4.20\n\u{202e}"), Some("4.21") => unknown;
            // Without OpenShift, the maximum has no effect.
            Some("4.1"), None => None;
            None, None => None;
        ] {
            let mut operator = operator(maximum);
            let to = to(release);
            operator.assess(&to, false);
            ::tests::assert_rows!(operator.findings.first().map(|finding| finding.effect) => effect, "{maximum:?} {release:?}");
            assert_eq!(operator.blocks(), effect == blocks);
            assert_eq!(operator.is_too_old(&to), effect == blocks);
        }
    }

    #[test]
    fn blocks_reported_by_the_provisioner_stay_blocks() {
        for (maximum, overridden) in [
            (None, None),
            (Some("4.21"), None),
            (Some("latest"), None),
            (Some("4.20"), Some("tested")),
        ] {
            let message = "supports OpenShift up to 4.20:\nuninstall it".to_owned();
            let mut operator = ::tests::with!(operator(maximum) => reported: Some(message), overridden: overridden.map(str::to_owned));
            let to = to(Some("4.21"));
            assert!(operator.is_too_old(&to));
            operator.assess(&to, true);
            let expected = Finding {
                effect: Effect::Blocks,
                message: "supports OpenShift up to 4.20: uninstall it".into(),
            };
            assert_eq!(operator.findings, [expected], "{maximum:?}");
        }
    }

    #[test]
    fn maximum_is_normalized() {
        for (maximum, normalized) in [("\"4.20\"", "4.20"), (" 4.20", "4.20"), ("x", "x")] {
            let mut operator = operator(Some(maximum));
            operator.assess(&to(Some("4.21")), false);
            assert_eq!(operator.maximum.as_deref(), Some(normalized));
        }
    }

    // parity: max-20
    #[test]
    fn findings_name_the_remedy() {
        let old = operator(Some("4.20"));
        let reported = "supports OpenShift up to 4.20:\n upgrade it".to_owned();
        let reported = ::tests::with!(old.clone() => reported: Some(reported));
        let unread = ::tests::with!(reported.clone() => is_unread: true);
        let overridden = ::tests::with!(old.clone() => overridden: Some("tested".to_owned()));
        for (operator, has_catalogs, expected) in ::tests::rows![
            &old, false => "supports OpenShift up to 4.20";
            &old, true => "*no reachable version that supports 4.21";
            &reported, false => "supports OpenShift up to 4.20: upgrade it";
            &reported, true => "*no reachable version that supports 4.21";
            &unread, true => "*failed to read its package from the catalogs";
            &overridden, true => "*(overridden in spec.overrides: tested)";
        ] {
            let mut operator = operator.clone();
            operator.assess(&to(Some("4.21")), has_catalogs);
            let message = Err::<(), _>(operator.findings.remove(0).message);
            ::tests::table::assert_outcome(message, Err(expected), has_catalogs);
        }
    }

    #[test]
    fn worst_findings_come_first_and_texts_are_bounded() {
        let mut search = UsageScan::new(KubeVersion::new(1, 24), KubeVersion::new(1, 25));
        let identity = || crate::testing::identity("policy", "PodDisruptionBudget", "a");
        search.listed("policy/v1beta1", identity, "PodDisruptionBudget");
        let (busy, mut removals) = ("busy ".repeat(1000), search.finish());
        removals.is_incomplete = true;
        let mut operator =
            ::tests::with!(operator(Some("4.20")) => refusal: Some(busy), removals: removals);
        operator.assess(&to(Some("4.21")), false);
        let findings = &operator.findings;
        let effects: Vec<Effect> = findings.iter().map(|finding| finding.effect).collect();
        let [blocks, refuses, warns] = [Effect::Blocks, Effect::Refuses, Effect::Warns];
        assert_eq!(effects, [blocks, refuses, warns, warns]);
        assert!(findings[1].message.chars().count() <= MAX_TEXT_LEN + 1);
        let last = &findings[3].message;
        assert!(last.starts_with("could not check all objects"), "{last}");
    }
}
