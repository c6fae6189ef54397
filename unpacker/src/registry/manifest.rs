//! Resolution of a tag or digest to the manifest of one image.

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};

use super::{Error, Result, checksum::Checksum, session::Session};
use crate::{
    Digest,
    http_client::{self, Response},
    oci::{self, Document, Index, Manifest},
};

/// Maximum number of entries of an index. The largest known indexes have some dozens.
const MAX_ENTRIES: usize = 1000;

/// An image that a reference resolved to.
#[derive(Debug)]
pub(crate) struct ResolvedImage {
    /// Digest of the document that the reference names: the index, if it names one.
    pub(crate) tag_digest: Checksum,
    /// SHA-256 of the same document.
    pub(crate) digest: Digest,
    pub(crate) manifest: Manifest,
}

/// A document as the registry sent it.
struct RawManifest {
    bytes: Bytes,
    media_type: Option<String>,
    /// Digest in the header `docker-content-digest`.
    digest_header: Option<Checksum>,
}

/// Returns the digest that a tag points to. The document is fetched only if the registry does not report the digest.
pub(crate) async fn digest(session: &Session, tag: &str) -> Result<Checksum> {
    let image = image_name(session, tag);
    let response = session
        .request(Method::HEAD, &path(tag), accepted())
        .await?;
    match response.status {
        StatusCode::OK => {
            if let Some(digest) = digest_header(&response) {
                return Ok(digest);
            }
        }
        StatusCode::NOT_FOUND => return Err(Error::NotFound { what: image }),
        _ => {}
    }
    // Not every registry supports HEAD or sends digests.
    verified_digest(&get(session, tag).await?, None, &image)
}

/// Returns the manifest that a tag or digest names, for a platform.
pub(crate) async fn find(
    session: &Session,
    name: &str,
    platform: Option<&str>,
) -> Result<ResolvedImage> {
    let image = image_name(session, name);
    let pinned = name
        .contains(':')
        .then(|| Checksum::parse(name, &image))
        .transpose()?;
    let mut sent = get(session, name).await?;
    let tag_digest = verified_digest(&sent, pinned, &image)?;
    let digest = Digest::sha256(&sent.bytes);
    let document = |source| Error::Document {
        what: image.clone(),
        source,
    };
    for _ in 0..=oci::DEPTH_LIMIT {
        let index = match Document::read(&sent.bytes, sent.media_type.as_deref()) {
            Ok(Document::Index(index)) => index,
            Ok(Document::Manifest(manifest)) => {
                return Ok(ResolvedImage {
                    tag_digest,
                    digest,
                    manifest,
                });
            }
            Err(error) => return Err(document(error)),
        };
        sent = entry(session, &index, platform, &image, document).await?;
    }
    Err(document(oci::Error::TooDeep))
}

/// Fetches the document that an index lists for a platform.
async fn entry(
    session: &Session,
    index: &Index,
    platform: Option<&str>,
    image: &str,
    document: impl Fn(oci::Error) -> Error,
) -> Result<RawManifest> {
    if index.entries.len() > MAX_ENTRIES {
        return Err(Error::LimitExceeded {
            what: image.to_owned(),
            problem: format!("an index with {} entries", index.entries.len()),
            limit: MAX_ENTRIES as u64,
        });
    }
    let entry = index.choose(platform).map_err(document)?;
    let name = entry.digest.to_string();
    let sent = get(session, &name).await?;
    let image = image_name(session, &name);
    Checksum::parse(&name, &image)?.check(&sent.bytes, &image)?;
    if sent.bytes.len() as u64 == entry.size {
        return Ok(sent);
    }
    Err(Error::Size {
        what: image,
        problem: if sent.bytes.len() as u64 > entry.size {
            "more than"
        } else {
            "fewer than"
        },
        expected: entry.size,
    })
}

/// Returns the verified digest of a document: the requested digest, or the one that the registry sent, or else the
/// computed one.
fn verified_digest(sent: &RawManifest, pinned: Option<Checksum>, image: &str) -> Result<Checksum> {
    let expected = match (pinned, &sent.digest_header) {
        (Some(pinned), _) => pinned,
        (None, Some(digest)) => digest.clone(),
        (None, None) => return Checksum::parse(&Digest::sha256(&sent.bytes).to_string(), image),
    };
    expected.check(&sent.bytes, image)?;
    Ok(expected)
}

async fn get(session: &Session, name: &str) -> Result<RawManifest> {
    let image = image_name(session, name);
    let response = session.get(&path(name), accepted()).await?;
    let response = session
        .expect(response, &[StatusCode::OK], "fetch", || image.clone())
        .await?;
    let media_type = response.headers.get(CONTENT_TYPE);
    let media_type = media_type
        .and_then(|kind| kind.to_str().ok())
        .map(str::to_owned);
    let digest_header = digest_header(&response);
    let bytes = response.bytes(oci::DOCUMENT_LIMIT).await;
    let bytes = bytes.map_err(|source| match source {
        http_client::Error::TooLarge { .. } => Error::Document {
            what: image.clone(),
            source: oci::Error::TooLarge,
        },
        source => Error::Web {
            action: format!("fetch {image}"),
            source,
        },
    })?;
    Ok(RawManifest {
        bytes,
        media_type,
        digest_header,
    })
}

fn digest_header(response: &Response) -> Option<Checksum> {
    let digest = response.headers.get("docker-content-digest")?;
    Checksum::parse(digest.to_str().ok()?, "").ok()
}

fn accepted() -> HeaderMap {
    let kinds = oci::ACCEPTED.map(|kind| (ACCEPT, HeaderValue::from_static(kind)));
    kinds.into_iter().collect()
}

fn path(name: &str) -> String {
    format!("manifests/{name}")
}

/// Formats the name of an image for messages.
fn image_name(session: &Session, name: &str) -> String {
    let separator = if name.contains(':') { '@' } else { ':' };
    format!("{}{separator}{name}", session.endpoint())
}
