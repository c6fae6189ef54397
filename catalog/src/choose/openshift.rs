//! Releases of OpenShift: major and minor, where 4.23 and 5.0 are one.

use std::{fmt, str::FromStr};

use manifests::version;

/// A release of OpenShift, without its patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenShift {
    /// 4, mostly.
    pub major: u64,
    /// The y of x.y.
    pub minor: u64,
}

// === impl OpenShift ===

impl OpenShift {
    /// Reads the JSON text of a maximum: `{major}.{minor}`, a text or a number; `4.10` stays 4.10.
    pub(super) fn maximum(json: &str) -> Option<Self> {
        let text = json.trim();
        let text = text
            .strip_prefix('"')
            .and_then(|it| it.strip_suffix('"'))
            .unwrap_or(text);
        let (major, minor) = text.trim().split_once('.')?;
        let number = |text: &str| {
            let leading = text.len() > 1 && text.starts_with('0');
            let plain = text.bytes().all(|b| b.is_ascii_digit());
            (plain && !leading).then(|| text.parse().ok()).flatten()
        };
        Some(Self {
            major: number(major)?,
            minor: number(minor)?,
        })
    }

    /// Whether what runs on this release at most runs on a cluster of another.
    pub(super) fn admits(self, cluster: Self) -> bool {
        cluster.place() <= self.place()
    }

    /// What is compared.
    fn place(self) -> (u64, u64) {
        match (self.major, self.minor) {
            (4, 23) => (5, 0),
            other => other,
        }
    }
}

impl FromStr for OpenShift {
    type Err = version::Error;

    /// Reads what clusters say of themselves: `4.12.7`, `4.13.0-0.nightly-2022-10-05-053337`, `4.12`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let version = version::tolerant(text)?;
        Ok(Self {
            major: version.major,
            minor: version.minor,
        })
    }
}

impl fmt::Display for OpenShift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the enhancement "maxOpenShiftVersion" makes of values.
    #[test]
    fn maxima_are_major_and_minor_and_nothing_else() {
        for (json, release) in [
            ("\"4.8\"", Some("4.8")),
            ("4.8", Some("4.8")),
            ("4.10", Some("4.10")),
            ("\" 4.8 \"", Some("4.8")),
            ("5.0", Some("5.0")),
            ("\"\"", None),
            ("\" \"", None),
            ("\"4.8.0\"", None),
            ("\"4.8.1\"", None),
            ("\"v4.8\"", None),
            ("\"4\"", None),
            ("4", None),
            ("\"4.8-rc\"", None),
            ("\"4.8+b\"", None),
            ("\"4.08\"", None),
            ("\"04.8\"", None),
            ("\"4.x\"", None),
            ("\"4.8.\"", None),
            ("\".\"", None),
            ("\"<=4.8\"", None),
            ("null", None),
            ("true", None),
            ("[]", None),
            ("4.8e0", None),
            ("-4.8", None),
            ("99999999999999999999.1", None),
        ] {
            let read = OpenShift::maximum(json).map(|it| it.to_string());
            assert_eq!(read.as_deref(), release, "{json}");
        }
    }

    #[test]
    fn a_maximum_admits_its_own_release_and_4_23_is_5_0() {
        for (max, cluster, admitted) in [
            ("4.12", "4.12.3", true),
            ("4.12", "4.11.0", true),
            ("4.12", "4.13.0-0.nightly-2022-10-05-053337", false),
            ("4.9", "4.10.1", false),
            ("4.23", "5.0.0", true),
            ("5.0", "4.23.1", true),
            ("4.22", "4.23.0", false),
            ("4.24", "5.0.0", false),
        ] {
            let (max, cluster) = (OpenShift::maximum(max).unwrap(), cluster.parse().unwrap());
            assert_eq!(max.admits(cluster), admitted, "{max} on {cluster}");
        }
    }
}
