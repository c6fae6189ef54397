//! Images on this machine: an OCI layout as a folder or an archive, and what `docker save` writes.
//!
//! ```text
//!  oci:DIR ────────────────┐
//!  oci-archive:FILE ───────┼─ index.json ─> index ─> manifest ─> config (labels) ─┐
//!                          │                                  └> layers ──────────┼─> Layers ─> Tree
//!  docker-archive:FILE ────┴─ manifest.json ──────────────────> config, layers ───┘
//! ```
//!
//! Every blob must have the digest by which it is named. What archives are compressed with is taken off into an
//! unnamed temporary file first, since images are not read in the order in which they are written.

mod docker;
mod error;
mod layout;
mod shelf;

use std::{
    collections::BTreeMap,
    io::{self, Read},
    path::Path,
};

use sha2::{Digest as _, Sha256};

use crate::{
    Digest, Error as Failure, Options, Result, Selection, Source, fetch::Fetched, layers::Layers,
    oci, source::Local,
};

pub use error::Error;
use shelf::Shelf;

/// Reads an image: an OCI layout, an OCI archive or a docker archive. The platform matters if the name stands for
/// several images: see [`oci::Index::choose`].
///
/// # Errors
/// When there is no such image, it holds what is refused, exceeds a limit, or differs from its digests.
pub fn image(local: &Local, platform: Option<&str>, options: &Options) -> Result<Fetched> {
    let (path, name) = match local {
        Local::OciLayout(path, name)
        | Local::OciArchive(path, name)
        | Local::DockerArchive(path, name) => (path, name.as_deref()),
        Local::Path(path) => return Err(Error::NoImage { path: path.clone() }.into()),
        Local::Stdin => return Err(Error::NoImage { path: "-".into() }.into()),
    };
    let read = || {
        let shelf = match local {
            Local::OciLayout(..) => Shelf::folder(path)?,
            _ => Shelf::archive(path, options)?,
        };
        match local {
            Local::DockerArchive(..) => docker::read(&shelf, name, options),
            _ => layout::read(&shelf, name, platform, options),
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

/// What was read.
struct Image {
    /// The digest by which the image is found again.
    name: Option<String>,
    manifest: Option<Digest>,
    tree: crate::Tree,
    unselected: usize,
    labels: BTreeMap<String, String>,
}

fn unpack(path: &Path, source: Failure) -> Failure {
    match source {
        open @ (Failure::Open { .. } | Failure::Kind { .. }) => open,
        source => Failure::Unpack {
            path: path.to_owned(),
            source: Box::new(source),
        },
    }
}

/// The layers of an image with this configuration, and the labels if they have a say.
fn layers(config: &[u8], options: &Options) -> Result<(Layers, BTreeMap<String, String>)> {
    let mut options = options.clone();
    let mut labels = BTreeMap::new();
    if options.select == Selection::Natural {
        labels = oci::labels(config)?;
        options.select = oci::select(&labels)?;
    }
    Ok((Layers::new(&options)?, labels))
}

/// Which of several images a name means: all of its full name, what follows the last slash of that, or its tag.
fn is_named(full: &str, wanted: &str) -> bool {
    let last = full.rsplit('/').next().unwrap_or(full);
    let tag = last.split_once(':').map(|(_, tag)| tag);
    let latest = last.strip_suffix(":latest");
    full == wanted || [Some(last), tag, latest].contains(&Some(wanted)) || {
        let parsed: (Result<manifests::image::Reference, _>, _) = (full.parse(), wanted.parse());
        matches!(parsed, (Ok(full), Ok(wanted)) if full == wanted)
    }
}

/// A list for messages.
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

/// Hashes and counts what is read.
struct Summed<R> {
    reader: R,
    hash: Sha256,
    count: u64,
}

impl<R: Read> Summed<R> {
    fn new(reader: R) -> Self {
        Self {
            reader,
            hash: Sha256::new(),
            count: 0,
        }
    }

    /// The digest and the size of everything, the rest included.
    fn finish(mut self) -> io::Result<(Digest, u64)> {
        io::copy(&mut self, &mut io::sink())?;
        Ok((self.hash.into(), self.count))
    }
}

impl<R: Read> Read for Summed<R> {
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
    fn a_name_is_the_whole_or_its_end() {
        for (full, names, others) in ::tests::rows![
            "v1", "v1" => "v";
            "quay.io/org/app:v1", "quay.io/org/app:v1 app:v1 v1" => "org/app:v1 v";
            "docker.io/library/app:v1", "app:v1" => "library";
            "localhost/app:latest", "app" => "latest:";
            "app:latest", "app" => "app:";
            "quay.io:5000/org/app", "app" => "5000/org/app";
        ] {
            assert!(names.split(' ').all(|name| is_named(full, name)), "{full}");
            assert!(
                !others.split(' ').any(|name| is_named(full, name)),
                "{full}"
            );
        }
        assert!(!is_named("quay.io/org/app:v1", ""));
    }
}
