//! Local images: OCI layouts as directories or archives, and archives of `docker save`.
//!
//! ```text
//!  oci:DIR ────────────────┐
//!  oci-archive:FILE ───────┼─ index.json ─> index ─> manifest ─> config (labels) ─┐
//!                          │                                  └> layers ──────────┼─> Layers ─> Tree
//!  docker-archive:FILE ────┴─ manifest.json ──────────────────> config, layers ───┘
//! ```
//!
//! Every blob must have the digest in its name. A compressed archive is first decompressed into an unnamed temporary
//! file, because images are not read in the order of the archive.

mod docker_archive;
mod error;
mod files;
mod oci_layout;

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::Path,
};

use sha2::{Digest as _, Sha256};

use crate::{
    Digest, Error as Failure, Fetched, Options, Result, Selection, Source, layers::Layers, oci,
    source::Local,
};

pub use error::Error;
use files::LayoutFiles;

/// Reads an image from an OCI layout, an OCI archive or a Docker archive. The platform selects one of several images:
/// see [`oci::Index::choose`].
///
/// # Errors
/// Returns an error if the image does not exist, contains rejected entries, exceeds a limit, or does not match its
/// digests.
pub fn image(local: &Local, platform: Option<&str>, options: &Options) -> Result<Fetched> {
    let (path, name) = match local {
        Local::OciLayout(path, name)
        | Local::OciArchive(path, name)
        | Local::DockerArchive(path, name) => (path, name.as_deref()),
        Local::Path(path) => return Err(Error::NoImage { path: path.clone() }.into()),
        Local::Stdin => return Err(Error::NoImage { path: "-".into() }.into()),
    };
    let read = || {
        let files = match local {
            Local::OciLayout(..) => LayoutFiles::dir(path)?,
            _ => LayoutFiles::archive(path, options)?,
        };
        match local {
            Local::DockerArchive(..) => docker_archive::read(&files, name, options),
            _ => oci_layout::read(&files, name, platform, options),
        }
    };
    let image = read().map_err(|source| unpack(path, source))?;
    let pinned = |name: String| match local {
        Local::OciLayout(path, _) => Local::OciLayout(path.clone(), Some(name)),
        Local::OciArchive(path, _) => Local::OciArchive(path.clone(), Some(name)),
        other => other.clone(),
    };
    Ok(Fetched {
        resolved: Source::Local(image.name.map_or_else(|| local.clone(), pinned)),
        digest: image.manifest,
        tree: image.tree,
        unselected: image.unselected,
        labels: image.labels,
    })
}

/// The result of reading an image.
struct Image {
    /// Digest that identifies the image in its layout.
    name: Option<String>,
    manifest: Option<Digest>,
    tree: crate::Tree,
    unselected: usize,
    labels: BTreeMap<String, String>,
}

fn unpack(path: &Path, source: Failure) -> Failure {
    match source {
        open @ (Failure::Open { .. } | Failure::NotReadable { .. }) => open,
        source => Failure::Unpack {
            path: path.to_owned(),
            source: Box::new(source),
        },
    }
}

/// Returns an empty stack of layers for an image with this configuration, and the labels if they determine the
/// selection.
fn layers(config: &[u8], options: &Options) -> Result<(Layers, BTreeMap<String, String>)> {
    let mut options = options.clone();
    let mut labels = BTreeMap::new();
    if options.select == Selection::Default {
        labels = oci::labels(config)?;
        options.select = oci::select(&labels)?;
    }
    Ok((Layers::new(&options)?, labels))
}

/// Reports whether a name selects an image: the full name, its part after the last slash, or its tag.
fn is_named(full: &str, requested: &str) -> bool {
    let last = full.rsplit('/').next().unwrap_or(full);
    let tag = last.split_once(':').map(|(_, tag)| tag);
    let latest = last.strip_suffix(":latest");
    full == requested || [Some(last), tag, latest].contains(&Some(requested)) || {
        let parsed: (Result<manifests::image::Reference, _>, _) = (full.parse(), requested.parse());
        matches!(parsed, (Ok(full), Ok(requested)) if full == requested)
    }
}

/// Formats a list for messages.
fn listed(names: impl IntoIterator<Item = String>) -> String {
    let names: Vec<_> = names
        .into_iter()
        .take(20)
        .map(|name| oci::excerpt(&name))
        .collect();
    if names.is_empty() {
        return "nothing".to_owned();
    }
    names.join(", ")
}

/// A reader that hashes and counts its bytes.
struct HashingReader<R> {
    reader: R,
    hash: Sha256,
    count: u64,
}

impl<R: Read> HashingReader<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            hash: Sha256::new(),
            count: 0,
        }
    }

    /// Returns the digest and the size of the whole file, including the part that was not read yet.
    fn finish(mut self) -> io::Result<(Digest, u64)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((self.hash.into(), self.count))
    }
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.hash.update(buffer.get(..count).unwrap_or_default());
        self.count = self.count.saturating_add(count as u64);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn image_is_named_by_its_full_name_or_a_suffix() {
        for (full, names, others) in ::tests::rows![
            "v1", "v1" => "v";
            "quay.io/org/app:v1", "quay.io/org/app:v1 app:v1 v1" => "org/app:v1 v";
            "docker.io/library/app:v1", "app:v1" => "library";
            "localhost/app:latest", "app" => "latest:";
            "app:latest", "app" => "app:";
            "quay.io:5000/org/app", "app" => "5000/org/app";
        ] {
            assert!(names.split(' ').all(|name| is_named(full, name)), "{full}");
            assert_rows!(others.split(' ').find(|name| is_named(full, name)) => None, "{full}");
        }
        assert!(!is_named("quay.io/org/app:v1", ""));
    }
}
