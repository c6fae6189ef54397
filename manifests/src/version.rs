//! Versions, with a strict and a lenient parser that match Go's.
//!
//! [`semver::Version`] accepts the same versions as blang's `Parse`, but its `Ord` differs: it orders build metadata, which
//! Go ignores. Compare with [`semver::Version::cmp_precedence`].

use std::{fmt, str::FromStr};

pub use semver::Version;

/// Error of text that is not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is not `<major>.<minor>.<patch>`.
    #[error("{text:?} is not a semantic version ({problem}); use <major>.<minor>.<patch>")]
    Version {
        /// The text, truncated.
        text: String,
        /// The message of the parser.
        problem: String,
    },
    /// The text is not a Kubernetes release.
    #[error("{text:?} is not a Kubernetes version; use <major>.<minor>, for example 1.36")]
    Kube {
        /// The text, truncated.
        text: String,
    },
}

/// Parses a semantic version like blang's `semver.Parse`: three numbers, no leading `v`, no leading zeros.
///
/// # Errors
/// Returns an error for any other text.
pub fn parse_strict(text: &str) -> Result<Version, Error> {
    Version::parse(text).map_err(|error| Error::Version {
        text: excerpt(text),
        problem: error.to_string(),
    })
}

/// Parses a version like blang's `semver.ParseTolerant`: removes surrounding space, a leading `v` and leading zeros, and
/// sets missing parts to 0. A short form must not have pre-release or build data.
///
/// # Errors
/// Returns an error for any other text.
///
/// ```
/// use manifests::version::parse_lenient;
/// assert_eq!(parse_lenient(" v4.08 ").unwrap().to_string(), "4.8.0");
/// assert!(parse_lenient("4.8-rc").is_err());
/// ```
pub fn parse_lenient(text: &str) -> Result<Version, Error> {
    let trimmed = text.trim();
    let bare = trimmed.strip_prefix('v').unwrap_or(trimmed);
    let mut parts: Vec<String> = bare.splitn(3, '.').map(str::to_owned).collect();
    if parts.len() < 3 {
        if bare.contains(['+', '-']) {
            return Err(Error::Version {
                text: excerpt(text),
                problem: "a short version cannot contain pre-release or build metadata".into(),
            });
        }
        parts.resize(3, "0".into());
    }
    for part in &mut parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let zeros = part.bytes().take_while(|b| *b == b'0').count();
        let strip = zeros.min(digits.saturating_sub(1));
        part.drain(..strip);
    }
    parse_strict(&parts.join(".")).map_err(|error| match error {
        Error::Version { problem, .. } => Error::Version {
            text: excerpt(text),
            problem,
        },
        other @ Error::Kube { .. } => other,
    })
}

/// A Kubernetes minor release, which determines the served APIs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KubeVersion {
    /// Major version, so far always 1.
    pub major: u64,
    /// Minor version, the y of x.y.
    pub minor: u64,
}

impl KubeVersion {
    /// The newest release whose APIs are known to this crate.
    pub const NEWEST: Self = Self::new(1, 36);

    /// Creates the version `<major>.<minor>`.
    pub const fn new(major: u64, minor: u64) -> Self {
        Self { major, minor }
    }

    /// Returns the next minor version.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.major, self.minor.saturating_add(1))
    }
}

impl Default for KubeVersion {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl FromStr for KubeVersion {
    type Err = Error;

    /// Parses a version that API servers report: `1.36`, `v1.36.3`, `1.36+`, `1.36.3-gke.1` and similar.
    fn from_str(text: &str) -> Result<Self, Error> {
        let fail = || Error::Kube {
            text: excerpt(text),
        };
        let trimmed = text.trim();
        let mut parts = trimmed.strip_prefix('v').unwrap_or(trimmed).splitn(3, '.');
        let number = |part: Option<&str>| -> Result<u64, Error> {
            let part = part.ok_or_else(fail)?;
            let part = part.strip_suffix('+').unwrap_or(part);
            part.parse().map_err(|_| fail())
        };
        let (major, minor) = (number(parts.next())?, number(parts.next())?);
        if parts
            .next()
            .is_some_and(|patch| !patch.starts_with(|c: char| c.is_ascii_digit()))
        {
            return Err(fail());
        }
        Ok(Self { major, minor })
    }
}

impl fmt::Display for KubeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerant_reads_what_parse_tolerant_reads() {
        // Left: input. Right: result of blang's ParseTolerant, None for an error.
        let lenient = |text: &str| parse_lenient(text).ok().map(|found| found.to_string());
        assert_each!(|texts, version| texts.iter().find(|text| lenient(text).as_deref() != version) => None;
            &["4.8", " 4.8 ", "v4.8", "4.08", "04.8"][..] => Some("4.8.0");
            &["4"] => Some("4.0.0");
            &["1.2.3-rc.1+b"] => Some("1.2.3-rc.1+b");
            &["0.0.0", "00.0"] => Some("0.0.0");
            &["V4.8", "vv4.8", "4.8-rc", "4.8+b", "4.x", "latest", "4.8.", ".", "", "=4.8", "4,8", "null", "4.8e0", "-4.8"]
                => None;
        );
    }

    #[test]
    fn strict_rejects_what_parse_rejects() {
        let texts = "1.2.3 1.2.3-rc.1+b.7 1.2 v1.2.3 01.2.3 1.2.3-01".split(' ');
        let strict = texts.chain([""]).filter(|text| parse_strict(text).is_ok());
        assert_eq!(strict.collect::<Vec<_>>(), ["1.2.3", "1.2.3-rc.1+b.7"]);
    }

    #[test]
    fn kubernetes_versions_are_read_as_servers_write_them() {
        assert_each!(|text, version| text.parse::<KubeVersion>().ok().map(|v| (v.major, v.minor)) => version;
            "1.36" => Some((1, 36));
            "v1.36.3" => Some((1, 36));
            "1.27+" => Some((1, 27));
            "1.30.4-gke.1348000" => Some((1, 30));
            "v1.31.2+k3s1" => Some((1, 31));
        );
        let others = ["1", "1.x", "", "latest", "1.2.beta"];
        assert_rows!(others.into_iter().find(|text| text.parse::<KubeVersion>().is_ok()) => None);
        assert!(KubeVersion::new(1, 9) < KubeVersion::new(1, 22));
    }
}
