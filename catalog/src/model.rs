//! Model of a catalog: the data that decisions need, without data that is only displayed.
//!
//! The types are plain values. Other sources of packages, such as the gRPC service of a registry, build the same values
//! and get the same decisions.

mod catalog;
mod size;

use std::{
    cmp::Ordering,
    collections::{BTreeMap, HashSet},
    fmt,
};

use manifests::{openshift::MaxOpenShiftVersion, version::Version};
use semver::Prerelease;
use serde::Serialize;

pub use self::catalog::Catalog;
pub use self::size::{MAX_BUNDLES, MAX_BYTES};
pub(crate) use self::size::{exceeds_bundle_limit, exceeds_size_limit};

/// Default media type: bundles for OLM with a ClusterServiceVersion.
pub const REGISTRY_V1: &str = "registry+v1";
/// Media type of bundles with plain manifests.
pub const PLAIN_V0: &str = "plain+v0";

/// A package: an operator in its versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// Name of the package, unique in a catalog.
    pub name: String,
    /// Channel that is used if none is specified.
    pub default_channel: String,
    /// Deprecation message; `None` if the package is not deprecated.
    pub deprecation: Option<String>,
    /// Channels by name.
    pub channels: BTreeMap<String, Channel>,
    /// Bundles by name, including those of several channels only once.
    pub bundles: BTreeMap<String, Bundle>,
}

/// A channel: a sequence of versions that upgrade each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// Name of the channel, unique in its package.
    pub name: String,
    /// Deprecation message; `None` if the channel is not deprecated.
    pub deprecation: Option<String>,
    /// Entries in the order of the document.
    pub entries: Vec<Entry>,
}

/// Entry of a bundle in a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// Name of the bundle.
    pub name: String,
    /// Bundle that this one replaces; the channel need not contain it.
    pub replaces: Option<String>,
    /// Bundles that are also upgraded to this one, and that are not chosen for new installations.
    pub skips: Vec<String>,
    /// Range of versions that are also upgraded to this one; see [`manifests::version_range`].
    pub skip_range: Option<String>,
}

/// A bundle: one version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Name of the bundle and its ClusterServiceVersion.
    pub name: String,
    /// Image reference; empty if the catalog contains the content.
    pub image: String,
    /// Version and release of the bundle.
    pub version: Release,
    /// Media type; `None` means [`REGISTRY_V1`].
    pub media_type: Option<String>,
    /// APIs that the bundle provides.
    pub provides: Vec<Gvk>,
    /// Requirements of the bundle.
    pub requires: Vec<Requirement>,
    /// Declared max OpenShift version; `None` if the bundle declares none.
    pub max_openshift: Option<MaxOpenShiftVersion>,
    /// Minimum Kubernetes version as declared.
    pub min_kube: Option<String>,
    /// Deprecation message; `None` if the bundle is not deprecated.
    pub deprecation: Option<String>,
    /// True if the bundle has the property `olm.deprecated` of older catalogs.
    pub is_deprecated: bool,
    /// Reason why the requirements are unknown; such a bundle must not be chosen.
    pub invalid_properties: Option<String>,
}

/// Version of an operator with the release of its bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// Version of the operator.
    pub version: Version,
    /// Release, which distinguishes several bundles of the version. In older catalogs, bundles that substitute others
    /// (`olm.substitutesFor`) declare it as build metadata, which the version retains.
    pub release: Option<Prerelease>,
}

/// An API: group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Gvk {
    /// API group, such as `etcd.database.coreos.com`.
    pub group: String,
    /// API version, such as `v1beta2`.
    pub version: String,
    /// Kind, such as `EtcdCluster`.
    pub kind: String,
}

/// A requirement of a bundle.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Requirement {
    /// Another package (`olm.package.required`).
    Package {
        /// Name of the required package.
        name: String,
        /// Range of its versions.
        range: String,
    },
    /// An API (`olm.gvk.required`).
    Api(Gvk),
    /// A constraint that only OLM's resolver evaluates (`olm.constraint`), with the author's failure message.
    Constraint(Option<String>),
    /// An invalid `olm.constraint`, with the problem.
    Unreadable(String),
}

// === impl Package ===

impl Package {
    /// Returns the bundle of this name.
    pub fn bundle(&self, name: &str) -> Option<&Bundle> {
        self.bundles.get(name)
    }

    /// Returns the channels that contain the bundle, by name.
    pub fn channels_of<'a>(&'a self, bundle: &'a str) -> impl Iterator<Item = &'a Channel> {
        self.channels
            .values()
            .filter(move |channel| channel.entries.iter().any(|entry| entry.name == bundle))
    }
}

// === impl Channel ===

impl Channel {
    /// Returns the only entry that no other entry replaces or skips, or `None` if none or several exist.
    pub fn head(&self) -> Option<&Entry> {
        let mut heads = self.heads().into_iter();
        heads.next().filter(|_| heads.next().is_none())
    }

    /// Returns the entries that no other entry replaces or skips, sorted by name.
    pub(crate) fn heads(&self) -> Vec<&Entry> {
        let mut targets: HashSet<&str> = HashSet::new();
        for entry in &self.entries {
            targets.extend(entry.replaces.as_deref());
            targets.extend(entry.skips.iter().map(String::as_str));
        }
        let mut heads: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| !targets.contains(entry.name.as_str()))
            .collect();
        heads.sort_by(|a, b| a.name.cmp(&b.name));
        heads
    }
}

// === impl Bundle ===

impl Bundle {
    /// Creates a bundle with a name and a version only.
    pub fn new(name: impl Into<String>, version: Version) -> Self {
        Self {
            name: name.into(),
            image: String::new(),
            version: Release {
                version,
                release: None,
            },
            media_type: None,
            provides: Vec::new(),
            requires: Vec::new(),
            max_openshift: None,
            min_kube: None,
            deprecation: None,
            is_deprecated: false,
            invalid_properties: None,
        }
    }

    /// Returns the media type, which defaults to [`REGISTRY_V1`].
    pub fn media_type(&self) -> &str {
        self.media_type.as_deref().unwrap_or(REGISTRY_V1)
    }
}

// === impl Release ===

impl Release {
    /// Compares versions, then releases. No release precedes any release, and build metadata is ignored.
    pub fn cmp_precedence(&self, other: &Self) -> Ordering {
        self.version
            .cmp_precedence(&other.version)
            .then_with(|| self.release.cmp(&other.release))
    }

    /// Sets the release to the build metadata of the version, if it is a valid release.
    pub(crate) fn build_is_release(&mut self) {
        if self.release.is_none() && !self.version.build.is_empty() {
            self.release = Self::parse_release(&self.version.build).ok();
        }
    }

    /// Parses a release: at most 20 characters, with dot-separated identifiers like those of a pre-release.
    ///
    /// # Errors
    /// Returns the problem, with opm's message where the check is the same.
    pub fn parse_release(text: &str) -> Result<Prerelease, String> {
        if text.len() > 20 {
            let short: String = text.chars().take(100).collect();
            return Err(format!(
                "invalid release {short:?}: exceeds maximum length of 20 characters"
            ));
        }
        for (at, segment) in text.split('.').enumerate() {
            if segment.is_empty() {
                return Err(format!("invalid release {text:?}: segment {at}: is empty"));
            }
            Prerelease::new(segment)
                .map_err(|error| format!("invalid release {text:?}: segment {at}: {error}"))?;
        }
        Prerelease::new(text).map_err(|error| format!("invalid release {text:?}: {error}"))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.release {
            Some(release) if self.version.build.as_str() != release.as_str() => {
                write!(f, "{}-{release}", self.version)
            }
            _ => write!(f, "{}", self.version),
        }
    }
}

impl fmt::Display for Gvk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            write!(f, "{} {}", self.version, self.kind)
        } else {
            write!(f, "{}/{} {}", self.group, self.version, self.kind)
        }
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Package { name, range } => write!(f, "package {name} {range}"),
            Self::Api(gvk) => write!(f, "API {gvk}"),
            Self::Constraint(Some(message)) => write!(f, "constraint: {message}"),
            Self::Constraint(None) => f.write_str("a constraint (olm.constraint)"),
            Self::Unreadable(problem) => write!(f, "a constraint that cannot be read ({problem})"),
        }
    }
}
