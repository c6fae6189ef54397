//! What there is to say of operators before an upgrade of their cluster. No I/O.

use std::collections::BTreeSet;

use convert::removal::{Removals, calls::Call};
use manifests::{
    api::platform_status::Effect, object::shortened, openshift::maximum, range::Range,
};
use serde::Serialize;

use super::target::Releases;

/// How much of what others have written is repeated, in characters.
const REPEATED: usize = 200;

/// An operator that is installed, and what is known of its demands.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Operator {
    /// Where it is installed.
    pub(crate) namespace: String,
    /// The BundleInstance, or the ClusterServiceVersion.
    pub(crate) name: String,
    /// Which of both.
    pub(crate) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) package: Option<String>,
    /// Its name in catalogs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<String>,
    /// The digest of the image it came in.
    #[serde(skip)]
    pub(crate) image: Option<String>,
    /// The channel that is followed, where somebody has named one.
    #[serde(skip)]
    pub(crate) channel: Option<String>,
    /// The versions that may be installed, where somebody has named some.
    #[serde(skip)]
    pub(crate) range: Option<Range>,
    /// The newest OpenShift that it runs on, as it is written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) maximum: Option<String>,
    /// Why that does not count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) overridden: Option<String>,
    /// Why the operator asks not to be upgraded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) refusal: Option<String>,
    /// What the provisioner says of it that keeps the cluster from its next release, if that is the one in question.
    #[serde(skip)]
    pub(crate) said: Option<String>,
    /// Whether a catalog has the package, and it could not be read there.
    #[serde(skip)]
    pub(crate) is_unread: bool,
    /// What it uses of APIs that go.
    pub(crate) removals: Removals,
    /// What its accounts were seen to call that goes.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) calls: BTreeSet<Call>,
    /// The version that comes before the upgrade of the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unblocked_by: Option<Later>,
    /// What follows from all that, the worst first.
    pub(crate) findings: Vec<Finding>,
}

/// A version in a catalog.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Later {
    pub(crate) version: String,
    pub(crate) bundle: String,
    pub(crate) catalog: String,
    pub(crate) channel: String,
}

/// One thing about an operator.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    pub(crate) effect: Effect,
    pub(crate) message: String,
}

impl Operator {
    pub(crate) fn label(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// Whether its maximum is too low, and nobody says that this does not count; or whether the provisioner says so.
    pub(crate) fn is_too_old(&self, to: &Releases) -> bool {
        if self.said.is_some() {
            return true;
        }
        let maximum = self.maximum.as_deref().map(maximum);
        match (maximum, to.openshift) {
            (Some(Ok(maximum)), Some(to)) => !maximum.admits(to) && self.overridden.is_none(),
            _ => false,
        }
    }

    /// Whether it keeps the cluster as it is.
    pub(crate) fn blocks(&self) -> bool {
        self.findings
            .iter()
            .any(|it| matches!(it.effect, Effect::Blocks | Effect::Refuses))
    }

    /// Draws the conclusions.
    pub(crate) fn judge(&mut self, to: &Releases, has_catalogs: bool) {
        let mut of_maximum = self.of_maximum(to, has_catalogs);
        // What the provisioner says closes the cluster's gate, whatever is known here.
        if let Some(said) = &self.said
            && of_maximum.as_ref().map(|it| it.effect) != Some(Effect::Blocks)
        {
            of_maximum = Some(Finding {
                effect: Effect::Blocks,
                message: repeated(said),
            });
        }
        // Properties are JSON, annotations are none, and both mean the same.
        if let Some(Ok(release)) = self.maximum.as_deref().map(maximum) {
            self.maximum = Some(release.to_string());
        }
        let mut findings: Vec<Finding> = of_maximum.into_iter().collect();
        let mut say = |effect, message: String| findings.push(Finding { effect, message });
        if let Some(refusal) = &self.refusal {
            say(Effect::Refuses, repeated(refusal));
        }
        for call in &self.calls {
            say(Effect::Warns, call.to_string());
        }
        for removal in &self.removals.found {
            say(Effect::Warns, removal.to_string());
        }
        if self.removals.is_incomplete {
            let message = "not everything of it could be looked at for APIs that go".to_owned();
            say(Effect::Warns, message);
        }
        findings.sort_by_key(|it| it.effect); // stable
        self.findings = findings;
    }

    fn of_maximum(&self, to: &Releases, has_catalogs: bool) -> Option<Finding> {
        let release = to.openshift?;
        let finding = |effect, message| Some(Finding { effect, message });
        let max = match self.maximum.as_deref().map(maximum) {
            None => {
                let message = format!("it does not say whether it runs on OpenShift {release}");
                return finding(Effect::Unknown, message);
            }
            Some(Err(error)) => {
                return finding(Effect::Unknown, error.to_string());
            }
            Some(Ok(max)) if max.admits(release) => return None,
            Some(Ok(max)) => max,
        };
        if let Some(why) = &self.overridden {
            let why = repeated(why);
            let message = format!(
                "it runs on OpenShift {max} at most, which spec.overrides says does not count: {why}"
            );
            return finding(Effect::Overridden, message);
        }
        let message = match (&self.unblocked_by, &self.said) {
            (None, Some(said)) if !has_catalogs => repeated(said),
            (None, _) if self.is_unread => format!(
                "it runs on OpenShift {max} at most, and what the catalogs have of its package cannot be read"
            ),
            (None, _) if has_catalogs => format!(
                "it runs on OpenShift {max} at most, and no version that can be reached and runs on {release} is in the catalogs"
            ),
            _ => format!("it runs on OpenShift {max} at most"),
        };
        finding(Effect::Blocks, message)
    }
}

/// What somebody else has written, as a part of a line.
fn repeated(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    shortened(&words.join(" "), REPEATED)
}

#[cfg(test)]
mod tests {
    use convert::removal::Search;
    use manifests::{object::Identity, openshift::Release, version::KubeVersion};

    use super::*;

    fn to(openshift: Option<&str>) -> Releases {
        Releases {
            openshift: openshift.map(|text| Release::read(text).unwrap()),
            kubernetes: KubeVersion::new(1, 36),
        }
    }

    fn operator(maximum: Option<&str>) -> Operator {
        let maximum = maximum.map(str::to_owned);
        ::tests::with!(Operator, namespace: "ns".into(), name: "a".into(), maximum)
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
            // Without OpenShift it means nothing.
            Some("4.1"), None => None;
            None, None => None;
        ] {
            let mut operator = operator(maximum);
            let to = to(release);
            operator.judge(&to, false);
            let found = operator.findings.first().map(|it| it.effect);
            assert_eq!(found, effect, "{maximum:?} {release:?}");
            assert_eq!(operator.blocks(), effect == blocks);
            assert_eq!(operator.is_too_old(&to), effect == blocks);
        }
    }

    #[test]
    fn what_the_provisioner_says_blocks_is_never_told_as_less() {
        for (maximum, overridden) in [
            (None, None),
            (Some("4.21"), None),
            (Some("latest"), None),
            (Some("4.20"), Some("tested")),
        ] {
            let said = "it runs on OpenShift 4.20 at most:\nuninstall it".to_owned();
            let mut operator = ::tests::with!(operator(maximum) => said: Some(said), overridden: overridden.map(str::to_owned));
            let to = to(Some("4.21"));
            assert!(operator.is_too_old(&to));
            operator.judge(&to, true);
            let expected = Finding {
                effect: Effect::Blocks,
                message: "it runs on OpenShift 4.20 at most: uninstall it".into(),
            };
            assert_eq!(operator.findings, [expected], "{maximum:?}");
        }
    }

    #[test]
    fn a_maximum_is_told_in_one_form() {
        for (maximum, told) in [("\"4.20\"", "4.20"), (" 4.20", "4.20"), ("x", "x")] {
            let mut operator = operator(Some(maximum));
            operator.judge(&to(Some("4.21")), false);
            assert_eq!(operator.maximum.as_deref(), Some(told));
        }
    }

    // parity: max-20
    #[test]
    fn what_is_said_names_the_way_out() {
        let old = operator(Some("4.20"));
        let told = "it runs on OpenShift 4.20 at most:\n upgrade it".to_owned();
        let told = ::tests::with!(old.clone() => said: Some(told));
        let unread = ::tests::with!(told.clone() => is_unread: true);
        let overridden = ::tests::with!(old.clone() => overridden: Some("tested".to_owned()));
        for (operator, has_catalogs, expected) in ::tests::rows![
            &old, false => "it runs on OpenShift 4.20 at most";
            &old, true => "*is in the catalogs";
            &told, false => "it runs on OpenShift 4.20 at most: upgrade it";
            &told, true => "*is in the catalogs";
            &unread, true => "*cannot be read";
            &overridden, true => "*does not count: tested";
        ] {
            let mut operator = operator.clone();
            operator.judge(&to(Some("4.21")), has_catalogs);
            let said = operator.findings.remove(0).message;
            assert!(
                ::tests::table::matches(expected, &said),
                "{said}, not {expected}"
            );
        }
    }

    #[test]
    fn the_worst_comes_first_and_texts_are_bounded() {
        let mut search = Search::new(KubeVersion::new(1, 24), KubeVersion::new(1, 25));
        let identity = || Identity {
            group: "policy".into(),
            kind: "PodDisruptionBudget".into(),
            namespace: "ns".into(),
            name: "a".into(),
        };
        search.listed("policy/v1beta1", identity, "PodDisruptionBudget");
        search.miss();
        let (busy, removals) = ("busy ".repeat(1000), search.end());
        let mut operator =
            ::tests::with!(operator(Some("4.20")) => refusal: Some(busy), removals: removals);
        operator.judge(&to(Some("4.21")), false);
        let effects: Vec<Effect> = operator.findings.iter().map(|it| it.effect).collect();
        let [blocks, refuses, warns] = [Effect::Blocks, Effect::Refuses, Effect::Warns];
        assert_eq!(effects, [blocks, refuses, warns, warns]);
        assert!(operator.findings[1].message.chars().count() <= REPEATED + 1);
        assert!(operator.findings[3].message.starts_with("not everything"));
    }
}
