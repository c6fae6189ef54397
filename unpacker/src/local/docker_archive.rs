//! Archives of `docker save`: `manifest.json`, configurations, and usually uncompressed layers.

use serde::Deserialize;

use super::{
    Error, HashingReader, Image, LayoutFiles,
    files::{check, digest_of},
    is_named, layers, listed,
};
use crate::{
    Digest, Options, Result,
    decompress::Decompressor,
    layers::{LayerPath, Layers},
    oci::{self, LAYERS_LIMIT},
    tar::blocks::explain,
};

const MANIFEST: &str = "manifest.json";

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    rootfs: Rootfs,
}

#[derive(Default, Deserialize)]
struct Rootfs {
    #[serde(default)]
    diff_ids: Vec<String>,
}

pub(super) fn read(files: &LayoutFiles, name: Option<&str>, options: &Options) -> Result<Image> {
    let bytes = files.document(MANIFEST)?.ok_or(Error::FileMissing {
        missing: MANIFEST,
        kind: "docker archive",
        remedy: "check the path, or use oci-archive: for an OCI layout",
    })?;
    let malformed = |source| Error::Malformed {
        path: MANIFEST,
        source,
    };
    if bytes.len() as u64 > oci::DOCUMENT_LIMIT {
        return Err(malformed(oci::Error::TooLarge).into());
    }
    let images: Vec<Saved> = serde_json::from_slice(&bytes).map_err(|error| {
        malformed(oci::Error::Json {
            what: "the list of images",
            problem: Some(oci::excerpt(&error.to_string())),
        })
    })?;
    let saved = choose(&images, name)?;
    if saved.layers.is_empty() {
        return Err(oci::Error::NoLayers.into());
    }
    if saved.layers.len() > LAYERS_LIMIT {
        let count = saved.layers.len();
        return Err(oci::Error::TooManyLayers { count }.into());
    }
    let config = config(files, &saved.config)?;
    let config_json: Config = oci::json(&config, "the image's configuration")?;
    let diff_ids = config_json.rootfs.diff_ids;
    if diff_ids.len() != saved.layers.len() {
        return Err(Error::Layers {
            layers: saved.layers.len(),
            configured: diff_ids.len(),
        }
        .into());
    }
    let (mut stack, labels) = layers(&config, options)?;
    for (layer, diff_id) in saved.layers.iter().zip(&diff_ids).rev() {
        let diff_id = diff_id
            .parse()
            .map_err(|error| oci::Error::Digest(Some(error)))?;
        push(files, layer, diff_id, &mut stack)?;
    }
    let (tree, unselected) = stack.finish();
    Ok(Image {
        name: None,
        manifest: None,
        tree,
        unselected,
        labels,
    })
}

fn choose<'a>(images: &'a [Saved], name: Option<&str>) -> Result<&'a Saved, Error> {
    let tags = |image: &'a Saved| image.repo_tags.iter().flatten();
    let names = || {
        listed(images.iter().map(|image| match tags(image).next() {
            Some(tag) => tag.clone(),
            None => image.config.clone(),
        }))
    };
    let is_selected = |image: &&'a Saved| match name {
        None => true,
        Some(name) => image.config == name || tags(image).any(|tag| is_named(tag, name)),
    };
    let mut selected = images.iter().filter(is_selected);
    match (selected.next(), selected.next(), name) {
        (Some(image), None, _) => Ok(image),
        (Some(_), Some(_), _) => Err(Error::Several { known: names() }),
        (None, _, Some(wanted)) => Err(Error::Unknown {
            wanted: oci::excerpt(wanted),
            known: names(),
        }),
        (None, _, None) => Err(Error::Malformed {
            path: MANIFEST,
            source: oci::Error::NoImage,
        }),
    }
}

/// Parses a path in an archive. Rejects paths that leave the archive.
fn relative_path(path: &str) -> Result<String, Error> {
    let reject = |problem| Error::Path {
        path: oci::excerpt(path),
        problem,
    };
    if path.starts_with('/') {
        return Err(reject("is absolute"));
    }
    match LayerPath::read(path.as_bytes()) {
        Ok(name) if !name.path.is_empty() => Ok(name.path),
        _ => Err(reject("is not a path in the archive")),
    }
}

/// Reads the configuration. All known tools name it by its digest.
fn config(files: &LayoutFiles, path: &str) -> Result<Vec<u8>> {
    let file_path = relative_path(path)?;
    let name = file_path.rsplit('/').next().unwrap_or(&file_path);
    let name = name.strip_suffix(".json").unwrap_or(name);
    let hex = name.strip_prefix("sha256:").unwrap_or(name);
    if let Ok(digest) = format!("sha256:{hex}").parse() {
        return files.read_verified(&file_path, digest);
    }
    let missing = || Error::Missing {
        path: oci::excerpt(path),
    };
    Ok(files.document(&file_path)?.ok_or_else(missing)?)
}

/// Adds a layer. The digest in the configuration is that of the uncompressed layer.
fn push(files: &LayoutFiles, layer: &str, expected: Digest, stack: &mut Layers) -> Result<()> {
    let path = relative_path(layer)?;
    let (reader, size) = files.require(&path)?;
    if size == 0 {
        // An empty blob is not an archive, but some images have one as a layer.
        return check(&path, expected, Digest::sha256(b""));
    }
    let inflated =
        Decompressor::new(reader).map_err(|error| explain(error, format!("in {path:?}")))?;
    let mut hashing = HashingReader::new(inflated);
    stack.push(&expected.to_string(), &mut hashing)?;
    let (digest, _) = digest_of(&path, hashing)?;
    check(&path, expected, digest)
}
