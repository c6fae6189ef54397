//! The OCI image layout: `index.json`, and every blob under its digest.

use std::collections::BTreeMap;

use super::{
    Error, Image, Shelf, Summed, is_named, layers, listed,
    shelf::{check, sum},
};
use crate::{
    Digest, Options, Result,
    layers::Layers,
    oci::{self, DEPTH_LIMIT, DOCUMENT_LIMIT, Descriptor, Document, Index, Manifest},
};

const INDEX: &str = "index.json";

/// What a tool that writes a layout calls an image.
const NAMES: [&str; 2] = [
    "org.opencontainers.image.ref.name",
    "io.containerd.image.name",
];

pub(super) fn read(
    shelf: &Shelf,
    name: Option<&str>,
    platform: Option<&str>,
    options: &Options,
) -> Result<Image> {
    let bytes = shelf.document(INDEX)?.ok_or(Error::NotThere {
        missing: INDEX,
        kind: "OCI layout",
        remedy: "check the path, or write docker-archive: for what docker save writes",
    })?;
    let malformed = |source| Error::Malformed {
        path: INDEX,
        source,
    };
    let index = match Document::read(&bytes, None).map_err(malformed)? {
        Document::Index(index) => index,
        Document::Manifest(_) => {
            return Err(malformed(oci::Error::NoManifest { kind: None }).into());
        }
    };
    let entry = choose(&index, name)?;
    let (digest, manifest) = manifest(shelf, entry, platform)?;

    let path = path(manifest.config.digest);
    let config = shelf.verified(&path, manifest.config.digest)?;
    let (mut stack, labels) = match manifest.artifact {
        // What is pushed as an artifact is all meant to be there.
        Some(_) => (Layers::new(options)?, BTreeMap::new()),
        None => layers(&config, options)?,
    };
    for layer in manifest.layers.iter().rev() {
        push(shelf, layer, manifest.file(layer), &mut stack)?;
    }
    let (tree, unselected) = stack.finish();
    let tree = match manifest.artifact {
        Some(_) => tree.strip_top_folder(),
        None => tree,
    };
    Ok(Image {
        name: Some(entry.digest.to_string()),
        manifest: Some(digest),
        tree,
        unselected,
        labels,
    })
}

fn path(digest: Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

/// The entry of that name, or the only one.
fn choose<'a>(index: &'a Index, name: Option<&str>) -> Result<&'a Descriptor, Error> {
    let images = || index.entries.iter().filter(|entry| !entry.is_attestation());
    let names = |entry: &'a Descriptor| {
        let names = NAMES.iter().filter_map(|key| entry.annotations.get(*key));
        names.map(String::as_str)
    };
    let known = || {
        listed(images().map(|entry| match names(entry).next() {
            Some(name) => name.to_owned(),
            None => entry.digest.to_string(),
        }))
    };
    let is_wanted = |entry: &&'a Descriptor| match name {
        None => true,
        Some(wanted) => {
            entry.digest.to_string() == wanted || names(entry).any(|name| is_named(name, wanted))
        }
    };
    let mut found = images().filter(is_wanted);
    let first = found.next().ok_or_else(|| match name {
        Some(wanted) => Error::Unknown {
            wanted: oci::excerpt(wanted),
            known: known(),
        },
        None => Error::Malformed {
            path: INDEX,
            source: oci::Error::NoImage,
        },
    })?;
    // One image may have several names.
    if found.any(|other| other.digest != first.digest) {
        return Err(Error::Several { known: known() });
    }
    Ok(first)
}

/// The manifest behind an entry, through as many indexes as there may be.
fn manifest(
    shelf: &Shelf,
    entry: &Descriptor,
    platform: Option<&str>,
) -> Result<(Digest, Manifest)> {
    let mut entry = entry.clone();
    for _ in 0..DEPTH_LIMIT {
        if entry.size > DOCUMENT_LIMIT {
            return Err(oci::Error::TooLarge.into());
        }
        let path = path(entry.digest);
        let bytes = shelf.verified(&path, entry.digest)?;
        match Document::read(&bytes, Some(&entry.media_type))? {
            Document::Manifest(manifest) => return Ok((entry.digest, manifest)),
            Document::Index(index) => entry = index.choose(platform)?.clone(),
        }
    }
    Err(oci::Error::TooDeep.into())
}

fn push(shelf: &Shelf, layer: &Descriptor, file: Option<&str>, stack: &mut Layers) -> Result<()> {
    let path = path(layer.digest);
    let (reader, found) = shelf.need(&path)?;
    if found != layer.size {
        return Err(Error::Lie {
            path,
            wanted: layer.size.to_string(),
            found: format!("{found} bytes"),
        }
        .into());
    }
    let mut summed = Summed::new(reader);
    match file {
        Some(name) => stack.push_file(name, layer.size, &mut summed)?,
        None => stack.push(&layer.digest.to_string(), &mut summed)?,
    }
    let (digest, _) = sum(&path, summed)?;
    check(&path, layer.digest, digest)
}
