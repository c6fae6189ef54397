//! Which folders of an image matter, as its labels say.

use std::collections::BTreeMap;

use manifests::content::normalize;
use serde::Deserialize;

use super::{Error, error::LabelProblem, excerpt, json};
use crate::Selection;

/// Labels of a bundle that name a folder.
const BUNDLE: [&str; 3] = [
    "operators.operatorframework.io.bundle.manifests.v1",
    "operators.operatorframework.io.bundle.metadata.v1",
    "operators.operatorframework.io.test.config.v1",
];

/// Labels of a catalog that name a folder or a file. Some images have both; then the first is the catalog, and the other
/// the same for older programs.
const CATALOG: [&str; 2] = [
    "operators.operatorframework.io.index.configs.v1",
    "operators.operatorframework.io.index.database.v1",
];

/// What a bundle has whatever its labels say.
const USUAL: [&str; 3] = ["manifests", "metadata", "tests"];

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

/// The labels in an image's configuration.
///
/// # Errors
/// When it is not well formed.
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

/// The folders of an image with these labels: that of a catalog if they name one, else those of a bundle and the usual
/// ones.
///
/// # Errors
/// When a label names what cannot be in an image.
pub fn select(labels: &BTreeMap<String, String>) -> Result<Selection, Error> {
    let mut paths = Vec::new();
    for label in CATALOG {
        if paths.is_empty() {
            paths = named(labels, &[label])?;
        }
    }
    if paths.is_empty() {
        paths = named(labels, &BUNDLE)?;
        paths.extend(USUAL.map(str::to_owned));
    }
    if paths.iter().any(String::is_empty) {
        return Ok(Selection::All);
    }
    paths.sort();
    paths.dedup();
    Ok(Selection::Only(paths))
}

/// The paths that these labels name, the root as an empty text.
fn named(labels: &BTreeMap<String, String>, keys: &[&'static str]) -> Result<Vec<String>, Error> {
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
