//! Image labels that select the directories to read.

use std::collections::BTreeMap;

use manifests::content::normalize;
use serde::Deserialize;

use super::{Error, error::LabelProblem, excerpt, json};
use crate::Selection;

/// Labels of a bundle that name directories.
const BUNDLE: [&str; 3] = [
    "operators.operatorframework.io.bundle.manifests.v1",
    "operators.operatorframework.io.bundle.metadata.v1",
    "operators.operatorframework.io.test.config.v1",
];

/// Labels of a catalog that name a directory or a file. Some images have both. Then the first one is the catalog, and
/// the second one is a copy for older programs.
const CATALOG: [&str; 2] = [
    "operators.operatorframework.io.index.configs.v1",
    "operators.operatorframework.io.index.database.v1",
];

/// Directories of a bundle that are read regardless of its labels.
const DEFAULT_DIRS: [&str; 3] = ["manifests", "metadata", "tests"];

#[derive(Deserialize)]
struct Image {
    #[serde(default)]
    config: Option<Config>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default, rename = "Labels")]
    labels: Option<BTreeMap<String, String>>,
}

/// Returns the labels in an image configuration.
///
/// # Errors
/// Returns an error if the configuration is malformed.
pub fn labels(config: &[u8]) -> Result<BTreeMap<String, String>, Error> {
    if config.len() as u64 > super::DOCUMENT_LIMIT {
        return Err(Error::TooLarge);
    }
    let image: Image = json(config, "the image's configuration")?;
    Ok(image
        .config
        .and_then(|config| config.labels)
        .unwrap_or_default())
}

/// Returns the directories to read of an image with these labels: the catalog if a label names one, otherwise the
/// directories of the bundle and the default ones.
///
/// # Errors
/// Returns an error if a label names a path that cannot exist in an image.
pub fn select(labels: &BTreeMap<String, String>) -> Result<Selection, Error> {
    let mut paths = Vec::new();
    for label in CATALOG {
        if paths.is_empty() {
            paths = label_paths(labels, &[label])?;
        }
    }
    if paths.is_empty() {
        paths = label_paths(labels, &BUNDLE)?;
        paths.extend(DEFAULT_DIRS.map(str::to_owned));
    }
    if paths.iter().any(String::is_empty) {
        return Ok(Selection::All);
    }
    paths.sort();
    paths.dedup();
    Ok(Selection::Only(paths))
}

/// Returns the paths in these labels. The root is an empty string.
fn label_paths(
    labels: &BTreeMap<String, String>,
    keys: &[&'static str],
) -> Result<Vec<String>, Error> {
    let mut paths = Vec::new();
    for label in keys {
        let Some(value) = labels.get(*label).filter(|value| !value.is_empty()) else {
            continue;
        };
        let relative = value.trim_start_matches('/');
        if matches!(relative.trim_end_matches('/'), "" | ".") {
            paths.push(String::new());
            continue;
        }
        let path = normalize(relative).map_err(|error| Error::Label {
            label,
            value: Some(excerpt(value)),
            source: Some(LabelProblem(excerpt(&error.to_string()))),
        })?;
        paths.push(path);
    }
    Ok(paths)
}
