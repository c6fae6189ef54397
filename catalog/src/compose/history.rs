//! History of injected bundles in annotations of the CatalogSource or the BundleInstance. Keys and format are those of
//! operator-sdk, so either program can continue the work of the other.

use std::{collections::BTreeMap, fmt, str::FromStr};

use manifests::{image::Reference, object::truncate};
use serde::{Deserialize, Serialize};

use super::DEFAULT_INDEX;

/// Annotation with the index image below the injected bundles.
pub const INDEX_IMAGE: &str = "operators.operatorframework.io/index-image";
/// Annotation with the injected bundles as JSON, oldest first.
pub const INJECTED_BUNDLES: &str = "operators.operatorframework.io/injected-bundles";
/// Annotation with the name of the pod that serves the catalog.
pub const REGISTRY_POD: &str = "operators.operatorframework.io/registry-pod-name";

/// Maximum number of bundles in a history. Each of them is fetched.
const MAX_BUNDLES: usize = 500;
/// Maximum length of a problem in characters, because annotations can have a quarter of a mebibyte.
const MAX_SHOWN: usize = 300;
/// Prefix of `opm` images, for which operator-sdk writes another mode.
const OPM: &str = "quay.io/operator-framework/opm:";

/// Mode in which a bundle was once added to a database. It is always written, but has no effect on file-based catalogs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Ordered by version.
    Semver,
    /// Ordered by the `replaces` fields of the ClusterServiceVersions.
    Replaces,
}

/// A bundle that was injected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InjectedBundle {
    /// Image reference of the bundle.
    pub image_tag: String,
    /// Mode in which the bundle was added.
    #[serde(default = "default_mode")]
    pub mode: Mode,
}

fn default_mode() -> Mode {
    Mode::Semver
}

/// Content of the annotations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct History {
    /// Index image; `None` if the catalog contains only injected bundles.
    pub index: Option<String>,
    /// Injected bundles, oldest first.
    pub injected: Vec<InjectedBundle>,
}

/// The error for a malformed annotation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("annotation {key} is malformed: {problem}; {remedy}")]
pub struct InvalidAnnotation {
    /// Key of the annotation.
    pub key: &'static str,
    problem: String,
    remedy: &'static str,
}

/// The error for a history that has reached its maximum length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the history reached its limit of {MAX_BUNDLES} bundles; put the bundles into a catalog, and run the bundle again with \
     --index-image"
)]
pub struct HistoryFull;

/// The error for an unknown mode, with the message of operator-sdk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(r#"bundle add mode {0:?} does not exist, must be one of: ["semver" "replaces"]"#)]
pub struct UnknownMode(String);

// === impl Mode ===

impl Mode {
    /// Returns the default mode for an index.
    pub fn for_index(index: &str) -> Self {
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
    /// Reads the annotations. Absent annotations yield an empty history.
    ///
    /// # Errors
    /// Returns an error if an annotation is malformed because it was changed or was not written by such a command.
    pub fn read(annotations: &BTreeMap<String, String>) -> Result<Self, InvalidAnnotation> {
        let index = annotations.get(INDEX_IMAGE).map(|image| image.trim());
        let index = index.filter(|image| !image.is_empty() && *image != DEFAULT_INDEX);
        if let Some(index) = index {
            reference(index).map_err(|problem| InvalidAnnotation {
                key: INDEX_IMAGE,
                problem: truncate(&problem, MAX_SHOWN),
                remedy: "set it to the index image with which the bundle was run, or remove the annotation if there was none",
            })?;
        }
        let injected = match annotations.get(INJECTED_BUNDLES).map(|text| text.trim()) {
            None | Some("" | "null" | "[]") => Vec::new(),
            Some(text) => list(text).map_err(|problem| InvalidAnnotation {
                key: INJECTED_BUNDLES,
                problem: truncate(&problem, MAX_SHOWN),
                remedy: "set it to the images of the bundles that were run, oldest first, as \
                         [{\"imageTag\":\"IMAGE\",\"mode\":\"semver\"}]",
            })?,
        };
        Ok(Self {
            index: index.map(str::to_owned),
            injected,
        })
    }

    /// Returns the annotations for this history.
    pub fn to_annotations(&self) -> BTreeMap<String, String> {
        let injected: Vec<String> = self.injected.iter().map(InjectedBundle::json).collect();
        BTreeMap::from([
            (INDEX_IMAGE.to_owned(), self.index_image().to_owned()),
            (
                INJECTED_BUNDLES.to_owned(),
                format!("[{}]", injected.join(",")),
            ),
        ])
    }

    /// Returns the index image, or [`DEFAULT_INDEX`] without an index.
    pub fn index_image(&self) -> &str {
        self.index.as_deref().unwrap_or(DEFAULT_INDEX)
    }

    /// Adds a bundle. Without `mode`, the default mode of the index is used.
    ///
    /// # Errors
    /// Returns an error if the history has reached its maximum length.
    pub fn push(&mut self, image: &str, mode: Option<Mode>) -> Result<(), HistoryFull> {
        if self.injected.len() >= MAX_BUNDLES {
            return Err(HistoryFull);
        }
        let mode = mode.unwrap_or_else(|| Mode::for_index(self.index_image()));
        self.injected.push(InjectedBundle {
            image_tag: image.to_owned(),
            mode,
        });
        Ok(())
    }
}

impl InjectedBundle {
    /// Encodes the bundle with the key order of Go, as operator-sdk does.
    fn json(&self) -> String {
        let image = serde_json::Value::from(self.image_tag.as_str());
        format!(r#"{{"imageTag":{image},"mode":"{}"}}"#, self.mode)
    }
}

fn list(text: &str) -> Result<Vec<InjectedBundle>, String> {
    let list: Vec<InjectedBundle> =
        serde_json::from_str(text).map_err(|error| format!("not a list of bundles: {error}"))?;
    if list.len() > MAX_BUNDLES {
        return Err(format!(
            "{} bundles exceed the limit of {MAX_BUNDLES}",
            list.len()
        ));
    }
    for (at, injected) in list.iter().enumerate() {
        reference(&injected.image_tag)?;
        let is_same = |other: &&InjectedBundle| other.image_tag == injected.image_tag;
        if list.iter().take(at).any(|other| is_same(&other)) {
            return Err(format!("{} is listed twice", injected.image_tag));
        }
    }
    Ok(list)
}

fn reference(text: &str) -> Result<(), String> {
    let read: Result<Reference, _> = text.parse();
    read.map(drop).map_err(|error| error.to_string())
}
