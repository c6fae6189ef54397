//! Fetching and resolving of images from registries.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use unpacker::{Access, Options, Progress, image, source::Image};
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
    Access, Fetched, Options, Progress, Result, Selection, Source, oci,
    registry::{
        Blob, Checksum, Error, manifest,
        mirrors::RegistryEndpoint,
        session::{Action, Session},
    },
    source::Image,
};

/// Fetches the files of an image. By default, these are the directories in its labels.
///
/// # Errors
/// Returns an error if all endpoints fail, or if the content is rejected.
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
    for endpoint in endpoints(image, access)? {
        match fetch_from(&endpoint, image, access, options, progress).await {
            Ok(fetched) => return Ok(fetched),
            Err(error) => failures.push(next_endpoint(&endpoint, error)?),
        }
    }
    Err(combine_failures(image, failures).into())
}

/// Pins an image to the digest that its tag points to. A pinned image is returned without a request.
///
/// # Errors
/// Returns an error if no endpoint has the image.
pub async fn resolve(image: &Image, access: &Access) -> Result<Image> {
    if image.reference.is_pinned() {
        return pinned(image, &checksum(&image.reference)?).map_err(Into::into);
    }
    access.quotes.apply(resolve_anywhere(image, access).await)
}

async fn resolve_anywhere(image: &Image, access: &Access) -> Result<Image> {
    let mut failures = Vec::new();
    for endpoint in endpoints(image, access)? {
        let resolve_tag = async {
            let session = Session::open(&endpoint, access, Action::Pull).await?;
            manifest::digest(&session, name(&image.reference)).await
        };
        match resolve_tag.await {
            Ok(digest) => {
                log_mirror_digest(&endpoint, image, &digest);
                return Ok(pinned(image, &digest)?);
            }
            Err(error) => failures.push(next_endpoint(&endpoint, error)?),
        }
    }
    Err(combine_failures(image, failures).into())
}

/// Returns the labels of an image without fetching its files.
///
/// # Errors
/// Returns an error if no endpoint has the image, or if its configuration is malformed.
pub async fn labels(image: &Image, access: &Access) -> Result<BTreeMap<String, String>> {
    access.quotes.apply(labels_anywhere(image, access).await)
}

async fn labels_anywhere(image: &Image, access: &Access) -> Result<BTreeMap<String, String>> {
    let mut failures = Vec::new();
    for endpoint in endpoints(image, access)? {
        let fetch_labels = async {
            let session = Session::open(&endpoint, access, Action::Pull).await?;
            let platform = image.platform.as_deref();
            let resolved = manifest::find(&session, name(&image.reference), platform).await?;
            let image_name = image.reference.to_string();
            default_selection(&session, &resolved.manifest, &image_name, access).await
        };
        match fetch_labels.await {
            Ok((_, labels)) => return Ok(labels),
            Err(error) => failures.push(next_endpoint(&endpoint, error)?),
        }
    }
    Err(combine_failures(image, failures).into())
}

async fn fetch_from(
    endpoint: &RegistryEndpoint,
    image: &Image,
    access: &Access,
    options: &Options,
    progress: &Progress,
) -> Result<Fetched, Error> {
    let session = Session::open(endpoint, access, Action::Pull).await?;
    let resolved =
        manifest::find(&session, name(&image.reference), image.platform.as_deref()).await?;
    log_mirror_digest(endpoint, image, &resolved.tag_digest);
    let image_name = image.reference.to_string();
    let total = resolved.manifest.size();
    if total > options.image.bytes {
        return Err(Error::LimitExceeded {
            what: image_name,
            problem: format!("layers of {total} bytes"),
            limit: options.image.bytes,
        });
    }
    let (select, labels) = match &options.select {
        Selection::Default => {
            default_selection(&session, &resolved.manifest, &image_name, access).await?
        }
        chosen => (chosen.clone(), BTreeMap::new()),
    };
    progress.set_total(total);
    let options = Options {
        select,
        ..options.clone()
    };
    let fetch = layers::Fetch {
        session: &session,
        image: &image_name,
        options: &options,
        timeouts: &access.timeouts,
        progress,
    };
    let (tree, unselected) = fetch.layers(&resolved.manifest).await?;
    // Artifacts may contain archives with a top-level directory.
    let tree = match resolved.manifest.artifact {
        Some(_) => tree.strip_top_folder(),
        None => tree,
    };
    Ok(Fetched {
        resolved: Source::Image(pinned(image, &resolved.tag_digest)?),
        digest: Some(resolved.digest),
        tree,
        unselected,
        labels,
    })
}

/// Returns the directories that the labels of the image name, and these labels.
async fn default_selection(
    session: &Session,
    manifest: &oci::Manifest,
    image_name: &str,
    access: &Access,
) -> Result<(Selection, BTreeMap<String, String>), Error> {
    let document = |source| Error::Document {
        what: image_name.to_owned(),
        source,
    };
    if manifest.artifact.is_some() {
        return Ok((Selection::All, BTreeMap::new()));
    }
    let config = &manifest.config;
    if config.size > oci::DOCUMENT_LIMIT {
        return Err(document(oci::Error::TooLarge));
    }
    let subject = format!("the configuration of {image_name}");
    let blob = Blob {
        digest: Checksum::parse(&config.digest.to_string(), &subject)?,
        size: config.size,
        what: subject,
    };
    let config = blob.bytes(session, &access.timeouts).await?;
    let labels = oci::labels(&config).map_err(document)?;
    let select = oci::select(&labels).map_err(document)?;
    Ok((select, labels))
}

fn endpoints(image: &Image, access: &Access) -> Result<Vec<RegistryEndpoint>, Error> {
    Ok(access.mirrors.endpoints(&image.reference)?)
}

/// Returns the failure of an endpoint if another one may succeed; otherwise returns the error.
fn next_endpoint(endpoint: &RegistryEndpoint, error: Error) -> Result<(String, Error), Error> {
    if !error.is_endpoint_specific() {
        return Err(error);
    }
    tracing::debug!(place = %endpoint, %error, "failed to pull an image from an endpoint");
    Ok((endpoint.to_string(), error))
}

fn combine_failures(image: &Image, mut failures: Vec<(String, Error)>) -> Error {
    match failures.pop() {
        Some((_, only)) if failures.is_empty() => only,
        last => {
            failures.extend(last);
            Error::AllEndpointsFailed {
                image: image.reference.to_string(),
                failures,
            }
        }
    }
}

/// Logs the digest if a mirror resolved the tag.
fn log_mirror_digest(endpoint: &RegistryEndpoint, image: &Image, digest: &Checksum) {
    if endpoint.is_mirror && !image.reference.is_pinned() {
        tracing::info!(image = %image.reference, mirror = %endpoint, %digest, "a mirror resolved the tag");
    }
}

/// Returns the digest, or else the tag, for a request to the registry.
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
