//! Images from registries.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use unpacker::{Access, Options, fetch::Progress, image, source::Image};
//!
//! let bundle = Image { reference: "quay.io/org/bundle:v1".parse()?, platform: None };
//! let fetched = image::fetch(&bundle, &Access::default(), &Options::default(), &Progress::default()).await?;
//! println!("{} has {} files", fetched.resolved, fetched.tree.len());
//! # Ok(())
//! # }
//! ```

mod layers;

use std::collections::BTreeMap;

use manifests::image::Reference;

use crate::{
    Access, Options, Result, Selection, Source,
    fetch::{Fetched, Progress},
    oci,
    registry::{
        Blob, Checksum, Error, manifest,
        mirrors::Place,
        session::{Action, Session},
    },
    source::Image,
};

/// Fetches the files of an image: those that its labels name, unless the options ask for others.
///
/// # Errors
/// When no registry gives the image, or its content cannot be taken.
pub async fn fetch(
    image: &Image,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched> {
    let fetched = fetch_anywhere(image, access, options, progress).await;
    access.quotes.apply(fetched)
}

async fn fetch_anywhere(
    image: &Image,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched> {
    let mut failures = Vec::new();
    for place in places(image, access)? {
        match fetch_from(&place, image, access, options, progress).await {
            Ok(fetched) => return Ok(fetched),
            Err(error) => failures.push(elsewhere(&place, error)?),
        }
    }
    Err(nowhere(image, failures).into())
}

/// Pins an image to the digest that its tag names now. What is pinned stays as it is, and nobody is asked.
///
/// # Errors
/// When no registry knows the image.
pub async fn resolve(image: &Image, access: &Access) -> Result<Image> {
    if image.reference.is_pinned() {
        return pinned(image, &checksum(&image.reference)?).map_err(Into::into);
    }
    access.quotes.apply(resolve_anywhere(image, access).await)
}

async fn resolve_anywhere(image: &Image, access: &Access) -> Result<Image> {
    let mut failures = Vec::new();
    for place in places(image, access)? {
        let found = async {
            let session = Session::open(&place, access, Action::Pull).await?;
            manifest::digest(&session, name(&image.reference)).await
        };
        match found.await {
            Ok(digest) => {
                tell(&place, image, &digest);
                return Ok(pinned(image, &digest)?);
            }
            Err(error) => failures.push(elsewhere(&place, error)?),
        }
    }
    Err(nowhere(image, failures).into())
}

/// The labels of an image, without its files.
///
/// # Errors
/// When no registry knows the image, or its configuration is not well formed.
pub async fn labels(image: &Image, access: &Access) -> Result<BTreeMap<String, String>> {
    access.quotes.apply(labels_anywhere(image, access).await)
}

async fn labels_anywhere(image: &Image, access: &Access) -> Result<BTreeMap<String, String>> {
    let mut failures = Vec::new();
    for place in places(image, access)? {
        let found = async {
            let session = Session::open(&place, access, Action::Pull).await?;
            let platform = image.platform.as_deref();
            let found = manifest::find(&session, name(&image.reference), platform).await?;
            let what = image.reference.to_string();
            natural(&session, &found.manifest, &what, access).await
        };
        match found.await {
            Ok((_, labels)) => return Ok(labels),
            Err(error) => failures.push(elsewhere(&place, error)?),
        }
    }
    Err(nowhere(image, failures).into())
}

async fn fetch_from(
    place: &Place,
    image: &Image,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched, Error> {
    let session = Session::open(place, access, Action::Pull).await?;
    let found = manifest::find(&session, name(&image.reference), image.platform.as_deref()).await?;
    tell(place, image, &found.named);
    let what = image.reference.to_string();
    let total = found.manifest.size();
    if total > options.image.bytes {
        return Err(Error::TooMuch {
            what,
            problem: format!("layers of {total} bytes"),
            limit: options.image.bytes,
        });
    }
    let (select, labels) = match &options.select {
        Selection::Natural => natural(&session, &found.manifest, &what, access).await?,
        chosen => (chosen.clone(), BTreeMap::new()),
    };
    progress.set_total(total);
    let options = Options {
        select,
        ..options.clone()
    };
    let fetch = layers::Fetch {
        session: &session,
        what: &what,
        options: &options,
        patience: &access.patience,
        progress,
    };
    let (tree, unselected) = fetch.layers(&found.manifest).await?;
    // An archive in an artifact is packed as archives are.
    let tree = match found.manifest.artifact {
        Some(_) => tree.strip_top_folder(),
        None => tree,
    };
    Ok(Fetched {
        resolved: Source::Image(pinned(image, &found.named)?),
        digest: Some(found.digest),
        tree,
        unselected,
        labels,
    })
}

/// The folders that the image's labels name, and these labels.
async fn natural(
    session: &Session,
    manifest: &oci::Manifest,
    what: &str,
    access: &Access,
) -> Result<(Selection, BTreeMap<String, String>), Error> {
    let document = |source| Error::Document {
        what: what.to_owned(),
        source,
    };
    if manifest.artifact.is_some() {
        return Ok((Selection::All, BTreeMap::new()));
    }
    let config = &manifest.config;
    if config.size > oci::DOCUMENT_LIMIT {
        return Err(document(oci::Error::TooLarge));
    }
    let what = format!("the configuration of {what}");
    let blob = Blob {
        digest: Checksum::parse(&config.digest.to_string(), &what)?,
        size: config.size,
        what,
    };
    let config = blob.bytes(session, &access.patience).await?;
    let labels = oci::labels(&config).map_err(document)?;
    let select = oci::select(&labels).map_err(document)?;
    Ok((select, labels))
}

fn places(image: &Image, access: &Access) -> Result<Vec<Place>, Error> {
    Ok(access.mirrors.places(&image.reference)?)
}

/// The failure of one place, if another one may do better; else an error.
fn elsewhere(place: &Place, error: Error) -> Result<(String, Error), Error> {
    if !error.is_of_the_place() {
        return Err(error);
    }
    tracing::debug!(%place, %error, "an image cannot be had here");
    Ok((place.to_string(), error))
}

fn nowhere(image: &Image, mut failures: Vec<(String, Error)>) -> Error {
    match failures.pop() {
        Some((_, only)) if failures.is_empty() => only,
        last => {
            failures.extend(last);
            Error::Everywhere {
                image: image.reference.to_string(),
                failures,
            }
        }
    }
}

/// Says that a mirror has been believed about what a tag means.
fn tell(place: &Place, image: &Image, digest: &Checksum) {
    if place.is_mirror && !image.reference.is_pinned() {
        tracing::info!(image = %image.reference, mirror = %place, %digest, "a mirror has said what the tag names");
    }
}

/// What the registry is asked for.
fn name(reference: &Reference) -> &str {
    let tag = || reference.tag().unwrap_or("latest");
    reference.digest().unwrap_or_else(tag)
}

fn checksum(reference: &Reference) -> Result<Checksum, Error> {
    Checksum::parse(name(reference), &reference.to_string())
}

fn pinned(image: &Image, digest: &Checksum) -> Result<Image, Error> {
    let repository = format!("{}/{}", image.reference.domain(), image.reference.path());
    let reference = format!("{repository}@{digest}").parse();
    let reference = reference.map_err(|_| Error::Invalid {
        what: image.reference.to_string(),
        problem: "cannot be written with its digest".to_owned(),
    })?;
    Ok(Image {
        reference,
        platform: image.platform.clone(),
    })
}
