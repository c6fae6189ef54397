//! Current and target release of an upgrade. Pure; no I/O.

use convert::removed_apis::kubernetes_of;
use manifests::{openshift::Release, version::KubeVersion};
use serde::{Serialize, Serializer};

/// The release of OpenShift 4 that is identical to OpenShift 5.0.
const OPENSHIFT_5: Release = Release::new(4, 23);

/// Releases of a cluster, before or after the upgrade.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Releases {
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    pub(crate) openshift: Option<Release>,
    #[serde(serialize_with = "kubernetes_as_text")]
    pub(crate) kubernetes: KubeVersion,
}

/// Reason why a cluster cannot be upgraded to a release.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InvalidTarget {
    #[error("the cluster runs OpenShift {here}; set --to to a release of OpenShift, such as {}", here.next())]
    NotOpenShift { here: Release },
    #[error("the cluster runs Kubernetes {here}, not OpenShift; set --to to 1.{} or later", here.minor.saturating_add(1))]
    NotKubernetes { here: KubeVersion },
    #[error("the cluster already runs {here}; set --to to a later release, such as {next}")]
    AlreadyRunning { here: String, next: String },
    #[error(
        "the cluster runs {here}, which is newer than {to}; clusters cannot be downgraded; set --to to {next} or later"
    )]
    Older {
        here: String,
        to: Release,
        next: String,
    },
    #[error("OpenShift {to} does not exist: 4.23 (same as 5.0) is followed by 5.1")]
    Unknown { to: Release },
}

impl Releases {
    /// Returns the next releases.
    pub(crate) fn next(self) -> Self {
        let Self {
            openshift,
            kubernetes,
        } = self;
        let following = kubernetes.next();
        let openshift = openshift.map(Release::next);
        Self {
            openshift,
            kubernetes: openshift.and_then(kubernetes_of).unwrap_or(following),
        }
    }

    /// Reports whether `to` is the next release, regardless of its name.
    pub(crate) fn is_next(self, to: Self) -> bool {
        let number = |releases: Self| {
            (
                releases.openshift.map(Release::normalized),
                releases.kubernetes,
            )
        };
        number(self.next()) == number(to)
    }

    /// Returns the requested release, or else the next one.
    pub(crate) fn to(self, requested: Option<Release>) -> Result<Self, InvalidTarget> {
        let next = self.next();
        let Some(to) = requested else {
            return Ok(next);
        };
        let same = || InvalidTarget::AlreadyRunning {
            here: self.to_string(),
            next: next.name(),
        };
        let below = || InvalidTarget::Older {
            here: self.to_string(),
            to,
            next: next.name(),
        };
        let Some(here) = self.openshift else {
            let here = self.kubernetes;
            return match to.major {
                1 if to.minor > here.minor => Ok(Self {
                    openshift: None,
                    kubernetes: KubeVersion::new(1, to.minor),
                }),
                1 if to.minor == here.minor => Err(same()),
                1 => Err(below()),
                _ => Err(InvalidTarget::NotKubernetes { here }),
            };
        };
        match to.major {
            0..4 => Err(InvalidTarget::NotOpenShift { here }),
            4 if to > OPENSHIFT_5 => Err(InvalidTarget::Unknown { to }),
            _ if to.normalized() == here.normalized() => Err(same()),
            _ if to.is_after(here) => Ok(Self {
                openshift: Some(to),
                kubernetes: kubernetes_of(to).ok_or(InvalidTarget::Unknown { to })?,
            }),
            _ => Err(below()),
        }
    }

    /// Returns the name of the release in the syntax of --to, such as `4.21` or `1.36`.
    fn name(self) -> String {
        match self.openshift {
            Some(release) => release.to_string(),
            None => self.kubernetes.to_string(),
        }
    }
}

impl std::fmt::Display for Releases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.openshift {
            Some(release) => write!(f, "OpenShift {release}"),
            None => write!(f, "Kubernetes {}", self.kubernetes),
        }
    }
}

#[expect(clippy::ref_option, reason = "serde passes references")]
fn as_text<S: Serializer>(release: &Option<Release>, serializer: S) -> Result<S::Ok, S::Error> {
    match release {
        Some(release) => serializer.collect_str(release),
        None => serializer.serialize_none(),
    }
}

fn kubernetes_as_text<S: Serializer>(
    version: &KubeVersion,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn current(openshift: Option<&str>, minor: u64) -> Releases {
        Releases {
            openshift: openshift.map(|text| Release::read(text).unwrap()),
            kubernetes: KubeVersion::new(1, minor),
        }
    }

    #[test]
    fn the_next_release_has_two_names() {
        let (from, to) = (current(Some("4.22"), 35), |text| Release::read(text));
        for (text, is_next) in [("4.23", true), ("5.0", true), ("5.1", false)] {
            assert_eq!(from.is_next(from.to(to(text)).unwrap()), is_next, "{text}");
        }
        let from = current(None, 35);
        assert!(from.is_next(from.to(None).unwrap()));
        assert!(!from.is_next(from.to(to("1.37")).unwrap()));
    }

    #[test]
    fn target_is_the_next_or_the_requested_release() {
        for (openshift, kube, to, expected) in ::tests::rows![
            Some("4.20"), 33, None => Ok("4.21 1.34");
            Some("4.20"), 33, Some("4.22") => Ok("4.22 1.35");
            Some("4.22"), 35, None => Ok("4.23 1.36");
            Some("4.22"), 35, Some("5.0") => Ok("5.0 1.36");
            Some("4.23"), 36, None => Ok("5.1 1.37");
            Some("5.0"), 36, None => Ok("5.1 1.37");
            None, 35, None => Ok("1.36");
            None, 24, Some("1.36") => Ok("1.36");
            Some("4.20"), 33, Some("4.20") => Err("*already runs OpenShift 4.20; set --to to a later release, such as 4.21*");
            Some("4.23"), 36, Some("5.0") => Err("*already runs OpenShift 4.23; set --to to a later release, such as 5.1*");
            Some("5.0"), 36, Some("4.23") => Err("*already*");
            Some("4.20"), 33, Some("4.9") => Err("*which is newer than 4.9*");
            Some("5.1"), 37, Some("4.23") => Err("*which is newer than 4.23*");
            Some("4.20"), 33, Some("1.34") => Err("*set --to to a release of OpenShift, such as 4.21*");
            Some("4.20"), 33, Some("4.24") => Err("*OpenShift 4.24 does not exist*");
            Some("4.20"), 33, Some("7.1") => Err("*OpenShift 7.1 does not exist*");
            None, 35, Some("1.35") => Err("*already runs Kubernetes 1.35*");
            None, 35, Some("1.0") => Err("*which is newer than 1.0*");
            None, 35, Some("4.21") => Err("*not OpenShift; set --to to 1.36*");
            None, 35, Some("2.0") => Err("*set --to to 1.36*");
        ] {
            let to = to.map(|text| Release::read(text).unwrap());
            let found = current(openshift, kube).to(to).map(|release| {
                let openshift = release.openshift.map(|version| format!("{version} "));
                format!("{}{}", openshift.unwrap_or_default(), release.kubernetes)
            });
            let expected = expected.map(str::to_owned);
            ::tests::table::assert_outcome(found, expected, (openshift, kube, to));
        }
    }
}
