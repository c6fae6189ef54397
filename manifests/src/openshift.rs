//! Releases of OpenShift: that of a cluster, its successor, and the maximum that a bundle declares.
//!
//! Only major and minor version count. 4.23 and 5.0 are the same release, and the successor of both is 5.1.
//! A max OpenShift version has exactly the form `<major>.<minor>`, as the enhancement "maxOpenShiftVersion" defines it. Any
//! other value is undetermined, and blocks neither an upgrade nor an installation. [`maximum`] is the only parser of the
//! value, [`Unquoted`] preserves the spelling of numbers, and [`Declarations`] chooses between several declared values.

mod cluster;
mod declared;
pub mod olm_v0;
pub mod properties;
mod unquoted;
mod value;

use std::{fmt, str::FromStr};

use serde::Serialize;

pub use self::{
    cluster::{ClusterRelease, is_placeholder},
    declared::{Annotation, Decision, Declarations, MaxOpenShiftVersion, Problem, Spelling},
    olm_v0::OlmV0,
    unquoted::Unquoted,
    value::{ParseMaximumError, maximum},
};
use crate::version;

/// Type of the property that declares the max OpenShift version of a bundle.
pub const MAX_PROPERTY: &str = "olm.maxOpenShiftVersion";
/// Annotation of a ClusterServiceVersion that declares its max OpenShift version, as the enhancement defines it. It is also
/// the key that declares the version directly in a bundle of a catalog.
pub const MAX_ANNOTATION: &str = "operators.coreos.com/maxOpenShiftVersion";
/// Annotation of a ClusterServiceVersion with a JSON list of properties, written by the bundle author.
pub const PROPERTIES_ANNOTATION: &str = "olm.properties";
/// Annotation of an installed ClusterServiceVersion with all properties of its bundle, written by OLM.
pub const INSTALLED_PROPERTIES_ANNOTATION: &str = "operatorframework.io/properties";

/// An OpenShift release without its patch version.
///
/// The order is numeric. To compare releases, use [`Release::normalized`] of both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Release {
    /// Major version, usually 4.
    pub major: u64,
    /// Minor version, the y of x.y.
    pub minor: u64,
}

impl Release {
    /// Creates the release `<major>.<minor>`.
    pub const fn new(major: u64, minor: u64) -> Self {
        Self { major, minor }
    }

    /// Returns 5.0 for 4.23, which is the same release, and any other release unchanged.
    #[must_use]
    pub const fn normalized(self) -> Self {
        match self {
            Self {
                major: 4,
                minor: 23,
            } => Self::new(5, 0),
            other => other,
        }
    }

    /// Returns the minor release with the next number, even if it has another name.
    #[must_use]
    pub const fn next_minor(self) -> Self {
        Self::new(self.major, self.minor.saturating_add(1))
    }

    /// Returns the release after this one: 4.17 after 4.16, 5.1 after 4.23 and after 5.0.
    ///
    /// ```
    /// use manifests::openshift::Release;
    /// assert_eq!(Release::new(4, 22).next(), Release::new(4, 23));
    /// assert_eq!(Release::new(4, 23).next(), Release::new(5, 1));
    /// ```
    #[must_use]
    pub const fn next(self) -> Self {
        self.normalized().next_minor()
    }

    /// Returns true if an operator with this maximum can be installed in a cluster.
    pub fn allows(self, cluster: Self) -> bool {
        cluster.normalized() <= self.normalized()
    }

    /// Returns true if an operator with this maximum also supports the release after `cluster`.
    pub fn allows_next(self, cluster: Self) -> bool {
        self.normalized() >= cluster.next()
    }

    /// Reports whether this release is newer than another one.
    pub fn is_after(self, earlier: Self) -> bool {
        self.normalized() > earlier.normalized()
    }

    /// Parses `4.12`, the form in a status or annotation of ours, and no other form.
    pub fn read(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self::new(number(major)?, number(minor)?))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Release {
    type Err = version::Error;

    /// Parses a version that a cluster reports: `4.12.7`, `4.13.0-0.nightly-2022-10-05-053337`, `4.12`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let version = version::parse_lenient(text)?;
        Ok(Self::new(version.major, version.minor))
    }
}

/// Parses a number that consists of digits and has no leading zero.
fn number(text: &str) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let leading = text.len() > 1 && text.starts_with('0');
    (plain && !leading).then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests;
