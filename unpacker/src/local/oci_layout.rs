//! OCI image layouts: `index.json`, and blobs named by their digest.

use std::collections::BTreeMap;

use super::{
    Error, HashingReader, Image, LayoutFiles,
    files::{check, digest_of},
    is_named, layers, listed,
};
use crate::{
    Digest, Options, Result,
    layers::Layers,
    oci::{self, DEPTH_LIMIT, DOCUMENT_LIMIT, Descriptor, Document, Index, Manifest},
};

const INDEX: &str = "index.json";

/// Annotations with the name of an image.
const NAMES: [&str; 2] = [
    "org.opencontainers.image.ref.name",
    "io.containerd.image.name",
];

pub(super) fn read(
    files: &LayoutFiles,
    name: Option<&str>,
    platform: Option<&str>,
    options: &Options,
) -> Result<Image> {
    let bytes = files.document(INDEX)?.ok_or(Error::FileMissing {
        missing: INDEX,
        kind: "OCI layout",
        remedy: "check the path, or use docker-archive: for the output of docker save",
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
    let (digest, manifest) = manifest(files, entry, platform)?;

    let path = path(manifest.config.digest);
    let config = files.read_verified(&path, manifest.config.digest)?;
    let (mut stack, labels) = match manifest.artifact {
        // Artifacts have no labels, so all of their content is selected.
        Some(_) => (Layers::new(options)?, BTreeMap::new()),
        None => layers(&config, options)?,
    };
    for layer in manifest.layers.iter().rev() {
        push(files, layer, manifest.file(layer), &mut stack)?;
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

/// Returns the entry with this name, or the only entry.
fn choose<'a>(index: &'a Index, name: Option<&str>) -> Result<&'a Descriptor, Error> {
    let images = || index.entries.iter().filter(|entry| !entry.is_attestation());
    let names = |entry: &'a Descriptor| {
        let names = NAMES.iter().filter_map(|key| entry.annotations.get(*key));
        names.map(String::as_str)
    };
    let all_names = || {
        listed(images().map(|entry| match names(entry).next() {
            Some(name) => name.to_owned(),
            None => entry.digest.to_string(),
        }))
    };
    let is_selected = |entry: &&'a Descriptor| match name {
        None => true,
        Some(requested) => {
            entry.digest.to_string() == requested
                || names(entry).any(|name| is_named(name, requested))
        }
    };
    let mut selected = images().filter(is_selected);
    let first = selected.next().ok_or_else(|| match name {
        Some(wanted) => Error::Unknown {
            wanted: oci::excerpt(wanted),
            known: all_names(),
        },
        None => Error::Malformed {
            path: INDEX,
            source: oci::Error::NoImage,
        },
    })?;
    // One image may have several names.
    if selected.any(|other| other.digest != first.digest) {
        return Err(Error::Several { known: all_names() });
    }
    Ok(first)
}

/// Returns the manifest of an entry, through nested indexes.
fn manifest(
    files: &LayoutFiles,
    entry: &Descriptor,
    platform: Option<&str>,
) -> Result<(Digest, Manifest)> {
    let mut entry = entry.clone();
    for _ in 0..DEPTH_LIMIT {
        if entry.size > DOCUMENT_LIMIT {
            return Err(oci::Error::TooLarge.into());
        }
        let path = path(entry.digest);
        let bytes = files.read_verified(&path, entry.digest)?;
        match Document::read(&bytes, Some(&entry.media_type))? {
            Document::Manifest(manifest) => return Ok((entry.digest, manifest)),
            Document::Index(index) => entry = index.choose(platform)?.clone(),
        }
    }
    Err(oci::Error::TooDeep.into())
}

fn push(
    files: &LayoutFiles,
    layer: &Descriptor,
    file: Option<&str>,
    stack: &mut Layers,
) -> Result<()> {
    let path = path(layer.digest);
    let (reader, size) = files.require(&path)?;
    if size != layer.size {
        return Err(Error::DigestMismatch {
            path,
            wanted: layer.size.to_string(),
            found: format!("{size} bytes"),
        }
        .into());
    }
    let mut hashing = HashingReader::new(reader);
    match file {
        Some(name) => stack.push_file(name, layer.size, &mut hashing)?,
        // An empty blob is not an archive, but some images have one as a layer.
        None if layer.size == 0 => {}
        None => stack.push(&layer.digest.to_string(), &mut hashing)?,
    }
    let (digest, _) = digest_of(&path, hashing)?;
    check(&path, layer.digest, digest)
}
