//! What was injected before, as it stands in annotations: of the CatalogSource, or of the BundleInstance. The keys and the
//! form are operator-sdk's, so that either program goes on where the other one has stopped.

use std::{collections::BTreeMap, fmt, str::FromStr};

use manifests::{image::Reference, object::shortened};
use serde::{Deserialize, Serialize};

use super::DEFAULT_INDEX;

/// The index below the injected bundles.
pub const INDEX_IMAGE: &str = "operators.operatorframework.io/index-image";
/// The injected bundles, oldest first, as JSON.
pub const INJECTED_BUNDLES: &str = "operators.operatorframework.io/injected-bundles";
/// The pod that serves the catalog.
pub const REGISTRY_POD: &str = "operators.operatorframework.io/registry-pod-name";

/// How many bundles a history may have; each is fetched.
const MOST: usize = 500;
/// How many characters of what is wrong are told: an annotation may have a quarter of a megabyte.
const TOLD: usize = 300;
/// How `opm:` images begin, for which operator-sdk writes another mode.
const OPM: &str = "quay.io/operator-framework/opm:";

/// How a bundle was once added to a database. It means nothing for catalogs of files, and is always written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By versions.
    Semver,
    /// By what the ClusterServiceVersions replace.
    Replaces,
}

/// A bundle that was injected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Injected {
    /// Its image.
    pub image_tag: String,
    /// How.
    #[serde(default = "usual")]
    pub mode: Mode,
}

fn usual() -> Mode {
    Mode::Semver
}

/// What annotations tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// The index, unless it is the one that stands for none.
    pub index: Option<String>,
    /// Oldest first; empty where nothing was injected.
    pub injected: Vec<Injected>,
}

/// An annotation that cannot be what was written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key} is damaged: {problem}; {remedy}")]
pub struct Damaged {
    /// The annotation's key.
    pub key: &'static str,
    problem: String,
    remedy: &'static str,
}

/// A history that takes no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{MOST} bundles were run already, one after the other, and no more are remembered: put them into a catalog, and name that \
     with --index-image when the bundle is run anew"
)]
pub struct Full;

/// No such mode; in operator-sdk's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(r#"bundle add mode {0:?} does not exist, must be one of: ["semver" "replaces"]"#)]
pub struct UnknownMode(String);

// === impl Mode ===

impl Mode {
    /// What is written for an index when nobody has named a mode.
    pub fn of(index: &str) -> Self {
        if index.starts_with(OPM) {
            Self::Semver
        } else {
            Self::Replaces
        }
    }
}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text {
            "semver" => Ok(Self::Semver),
            "replaces" => Ok(Self::Replaces),
            other => Err(UnknownMode(other.chars().take(100).collect())),
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Semver => "semver",
            Self::Replaces => "replaces",
        })
    }
}

// === impl History ===

impl History {
    /// Reads annotations; none of ours is an empty history.
    ///
    /// # Errors
    /// When what stands there was not written by such a command, or was changed since.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Self, Damaged> {
        let index = annotations.get(INDEX_IMAGE).map(|it| it.trim());
        let index = index.filter(|it| !it.is_empty() && *it != DEFAULT_INDEX);
        if let Some(index) = index {
            reference(index).map_err(|problem| Damaged {
                key: INDEX_IMAGE,
                problem: shortened(&problem, TOLD),
                remedy: "write the index image that was named when the bundle was run, or remove the annotation if none was",
            })?;
        }
        let injected = match annotations.get(INJECTED_BUNDLES).map(|it| it.trim()) {
            None | Some("" | "null" | "[]") => Vec::new(),
            Some(text) => list(text).map_err(|problem| Damaged {
                key: INJECTED_BUNDLES,
                problem: shortened(&problem, TOLD),
                remedy: "write the images of the bundles that were run, oldest first, as [{\"imageTag\":\"IMAGE\",\"mode\":\"semver\"}]",
            })?,
        };
        Ok(Self {
            index: index.map(str::to_owned),
            injected,
        })
    }

    /// The annotations that tell it.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let injected: Vec<String> = self.injected.iter().map(Injected::json).collect();
        BTreeMap::from([
            (INDEX_IMAGE.to_owned(), self.index_image().to_owned()),
            (
                INJECTED_BUNDLES.to_owned(),
                format!("[{}]", injected.join(",")),
            ),
        ])
    }

    /// The index, or the one that stands for none.
    pub fn index_image(&self) -> &str {
        self.index.as_deref().unwrap_or(DEFAULT_INDEX)
    }

    /// Adds a bundle; the mode is the usual one of the index unless one was named.
    ///
    /// # Errors
    /// When there are so many that nobody would read them again.
    pub fn push(&mut self, image: &str, mode: Option<Mode>) -> Result<(), Full> {
        if self.injected.len() >= MOST {
            return Err(Full);
        }
        let mode = mode.unwrap_or_else(|| Mode::of(self.index_image()));
        self.injected.push(Injected {
            image_tag: image.to_owned(),
            mode,
        });
        Ok(())
    }
}

impl Injected {
    /// Go's order of keys, as operator-sdk writes them.
    fn json(&self) -> String {
        let image = serde_json::Value::from(self.image_tag.as_str());
        format!(r#"{{"imageTag":{image},"mode":"{}"}}"#, self.mode)
    }
}

fn list(text: &str) -> Result<Vec<Injected>, String> {
    let list: Vec<Injected> =
        serde_json::from_str(text).map_err(|error| format!("it is no list of bundles: {error}"))?;
    if list.len() > MOST {
        return Err(format!("it has {} bundles, more than {MOST}", list.len()));
    }
    for (at, injected) in list.iter().enumerate() {
        reference(&injected.image_tag)?;
        let is_same = |it: &&Injected| it.image_tag == injected.image_tag;
        if list.iter().take(at).any(|it| is_same(&it)) {
            return Err(format!("{} is there twice", injected.image_tag));
        }
    }
    Ok(list)
}

fn reference(text: &str) -> Result<(), String> {
    let read: Result<Reference, _> = text.parse();
    read.map(drop).map_err(|error| error.to_string())
}
