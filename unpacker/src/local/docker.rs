//! What `docker save` writes: `manifest.json`, configurations, and layers that are usually not compressed.

use serde::Deserialize;

use super::{
    Error, Image, Shelf, Summed, is_named, layers, listed,
    shelf::{check, sum},
};
use crate::{
    Digest, Options, Result,
    block::explain,
    inflate::Inflate,
    layers::{Layers, Name},
    oci::{self, LAYERS_LIMIT},
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

pub(super) fn read(shelf: &Shelf, name: Option<&str>, options: &Options) -> Result<Image> {
    let bytes = shelf.document(MANIFEST)?.ok_or(Error::NotThere {
        missing: MANIFEST,
        kind: "docker archive",
        remedy: "check the path, or write oci-archive: for an OCI layout",
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
    let config = config(shelf, &saved.config)?;
    let wanted: Config = oci::json(&config, "the image's configuration")?;
    let wanted = wanted.rootfs.diff_ids;
    if wanted.len() != saved.layers.len() {
        return Err(Error::Layers {
            layers: saved.layers.len(),
            configured: wanted.len(),
        }
        .into());
    }
    let (mut stack, labels) = layers(&config, options)?;
    for (layer, wanted) in saved.layers.iter().zip(&wanted).rev() {
        let wanted = wanted
            .parse()
            .map_err(|error| oci::Error::Digest(Some(error)))?;
        push(shelf, layer, wanted, &mut stack)?;
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
    let known = || {
        listed(images.iter().map(|image| match tags(image).next() {
            Some(tag) => tag.clone(),
            None => image.config.clone(),
        }))
    };
    let is_wanted = |image: &&'a Saved| match name {
        None => true,
        Some(wanted) => image.config == wanted || tags(image).any(|tag| is_named(tag, wanted)),
    };
    let mut found = images.iter().filter(is_wanted);
    match (found.next(), found.next(), name) {
        (Some(image), None, _) => Ok(image),
        (Some(_), Some(_), _) => Err(Error::Several { known: known() }),
        (None, _, Some(wanted)) => Err(Error::Unknown {
            wanted: oci::excerpt(wanted),
            known: known(),
        }),
        (None, _, None) => Err(Error::Malformed {
            path: MANIFEST,
            source: oci::Error::NoImage,
        }),
    }
}

/// A path in an archive, which cannot be one elsewhere.
fn inside(path: &str) -> Result<String, Error> {
    let refuse = |problem| Error::Path {
        path: oci::excerpt(path),
        problem,
    };
    if path.starts_with('/') {
        return Err(refuse("is absolute"));
    }
    match Name::read(path.as_bytes()) {
        Ok(name) if !name.path.is_empty() => Ok(name.path),
        _ => Err(refuse("is no path in the archive")),
    }
}

/// The configuration, which has its digest as its name in every archive known.
fn config(shelf: &Shelf, path: &str) -> Result<Vec<u8>> {
    let inside = inside(path)?;
    let name = inside.rsplit('/').next().unwrap_or(&inside);
    let name = name.strip_suffix(".json").unwrap_or(name);
    let hex = name.strip_prefix("sha256:").unwrap_or(name);
    if let Ok(digest) = format!("sha256:{hex}").parse() {
        return shelf.verified(&inside, digest);
    }
    let missing = || Error::Missing {
        path: oci::excerpt(path),
    };
    Ok(shelf.document(&inside)?.ok_or_else(missing)?)
}

/// The digest in the configuration is that of the uncompressed layer.
fn push(shelf: &Shelf, layer: &str, wanted: Digest, stack: &mut Layers) -> Result<()> {
    let path = inside(layer)?;
    let (reader, _) = shelf.need(&path)?;
    let inflated = Inflate::new(reader).map_err(|error| explain(error, format!("in {path:?}")))?;
    let mut summed = Summed::new(inflated);
    stack.push(&wanted.to_string(), &mut summed)?;
    let (digest, _) = sum(&path, summed)?;
    check(&path, wanted, digest)
}
