//! What stays of a catalog: what decisions need, and nothing that is only shown.
//!
//! These are plain values. Whoever learns of a package in another way, as from a registry's gRPC service, makes them too
//! and gets the same decisions.

mod size;

use std::{cmp::Ordering, collections::BTreeMap, fmt};

use manifests::{openshift::MaxOpenShiftVersion, version::Version};
use semver::Prerelease;
use serde::Serialize;

pub use self::size::{MOST_BUNDLES, MOST_BYTES};
pub(crate) use self::size::{too_large, too_many};

/// The media type of bundles for OLM: a ClusterServiceVersion and what belongs to it. A bundle that names none has this.
pub const REGISTRY_V1: &str = "registry+v1";
/// The media type of bundles of plain manifests.
pub const PLAIN_V0: &str = "plain+v0";

/// A package: a product in its versions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Package {
    /// Its name, unique in a catalog.
    pub name: String,
    /// The channel that counts when none is asked for.
    pub default_channel: String,
    /// Why it should no longer be used.
    pub deprecation: Option<String>,
    /// By name.
    pub channels: BTreeMap<String, Channel>,
    /// By name, each once, whatever the number of channels it is in.
    pub bundles: BTreeMap<String, Bundle>,
}

/// A line of versions that follow one another.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Channel {
    /// Its name, unique in its package.
    pub name: String,
    /// Why it should no longer be used.
    pub deprecation: Option<String>,
    /// In the order they were written in.
    pub entries: Vec<Entry>,
}

/// A bundle's place in a channel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    /// The bundle's name.
    pub name: String,
    /// The bundle that this one follows; it need not be in the channel.
    pub replaces: Option<String>,
    /// Bundles that are upgraded to this one, too, and are not to be installed any more.
    pub skips: Vec<String>,
    /// The versions that are upgraded to this one, too; see [`manifests::range`].
    pub skip_range: Option<String>,
}

/// A version of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bundle {
    /// Its name; that of its ClusterServiceVersion.
    pub name: String,
    /// Where its content is; empty when it stands in the catalog itself.
    pub image: String,
    /// Its version and release.
    pub version: Release,
    /// What it is packed like; `None` stands for [`REGISTRY_V1`].
    pub media_type: Option<String>,
    /// The APIs it brings.
    pub provides: Vec<Gvk>,
    /// What it needs beside itself.
    pub needs: Vec<Need>,
    /// The max OpenShift version that it declares; `None` if it declares none.
    pub max_openshift: Option<MaxOpenShiftVersion>,
    /// The oldest Kubernetes it runs on, as it was written.
    pub min_kube: Option<String>,
    /// Why it should no longer be used.
    pub deprecation: Option<String>,
    /// Whether it has the property `olm.deprecated` of older catalogs.
    pub is_deprecated: bool,
    /// Why it is not known what the bundle asks for; then nobody may choose it.
    pub unreadable: Option<String>,
}

/// A version, and the release of what was packed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The version of the operator.
    pub version: Version,
    /// Which of several bundles for it this is. In older catalogs, bundles that stand in for others (`olm.substitutesFor`)
    /// have it as build metadata, which the version keeps.
    pub release: Option<Prerelease>,
}

/// An API: group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Gvk {
    /// Such as `etcd.database.coreos.com`.
    pub group: String,
    /// Such as `v1beta2`.
    pub version: String,
    /// Such as `EtcdCluster`.
    pub kind: String,
}

/// What a bundle needs beside itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// Another package (`olm.package.required`).
    Package {
        /// Its name.
        name: String,
        /// Its versions.
        range: String,
    },
    /// An API (`olm.gvk.required`).
    Api(Gvk),
    /// Something that only OLM's resolver evaluates (`olm.constraint`); holds what its author says when it fails.
    Constraint(Option<String>),
    /// An `olm.constraint` that OLM could not read either; why not.
    Unreadable(String),
}

// === impl Package ===

impl Package {
    /// The bundle of a name.
    pub fn bundle(&self, name: &str) -> Option<&Bundle> {
        self.bundles.get(name)
    }

    /// The channels that a bundle is in, by name.
    pub fn channels_of<'a>(&'a self, bundle: &'a str) -> impl Iterator<Item = &'a Channel> {
        self.channels
            .values()
            .filter(move |channel| channel.entries.iter().any(|entry| entry.name == bundle))
    }
}

// === impl Channel ===

impl Channel {
    /// The one entry that no other replaces or skips; `None` if there are none or several.
    pub fn head(&self) -> Option<&Entry> {
        let mut heads = crate::check::heads(self).into_iter();
        heads.next().filter(|_| heads.next().is_none())
    }
}

// === impl Bundle ===

impl Bundle {
    /// A bundle of which no more is known.
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
            needs: Vec::new(),
            max_openshift: None,
            min_kube: None,
            deprecation: None,
            is_deprecated: false,
            unreadable: None,
        }
    }

    /// What it is packed like.
    pub fn media_type(&self) -> &str {
        self.media_type.as_deref().unwrap_or(REGISTRY_V1)
    }
}

// === impl Release ===

impl Release {
    /// Orders by version, then by release; none comes before any. Build metadata does not count.
    pub fn cmp_precedence(&self, other: &Self) -> Ordering {
        self.version
            .cmp_precedence(&other.version)
            .then_with(|| self.release.cmp(&other.release))
    }

    /// Takes build metadata for the release, if it could be one.
    pub(crate) fn build_is_release(&mut self) {
        if self.release.is_none() && !self.version.build.is_empty() {
            self.release = Self::parse_release(&self.version.build).ok();
        }
    }

    /// Reads a release: at most 20 characters, dots between identifiers as those of a pre-release.
    ///
    /// # Errors
    /// In opm's words, as far as they are ours.
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

impl fmt::Display for Need {
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
