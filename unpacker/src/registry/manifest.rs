//! The way from a tag or a digest to one image's manifest.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header::ACCEPT, header::CONTENT_TYPE};

use super::{Error, Result, checksum::Checksum, session::Session};
use crate::{
    Digest,
    oci::{self, Document, Index, Manifest},
    web::{self, Response},
};

/// The entries that one index may have. The largest known have some dozens.
const MAX_ENTRIES: usize = 1000;

/// One image, found.
#[derive(Debug)]
pub(crate) struct Found {
    /// The digest of what the reference named: of the index, if it named one.
    pub(crate) named: Checksum,
    /// The SHA-256 of the same.
    pub(crate) digest: Digest,
    pub(crate) manifest: Manifest,
}

/// A document as it came.
struct Sent {
    bytes: Bytes,
    media_type: Option<String>,
    /// What the registry says that it is.
    stated: Option<Checksum>,
}

/// The digest of what a tag names now, without fetching it where the registry knows it.
pub(crate) async fn digest(session: &Session, tag: &str) -> Result<Checksum> {
    let what = what(session, tag);
    let response = session.ask(Method::HEAD, &path(tag), accepted()).await?;
    match response.status {
        StatusCode::OK => {
            if let Some(stated) = stated(&response) {
                return Ok(stated);
            }
        }
        StatusCode::NOT_FOUND => return Err(Error::NotFound { what }),
        _ => {}
    }
    // Not every registry knows HEAD, or tells digests.
    named(&get(session, tag).await?, None, &what)
}

/// The manifest of the image that a tag or a digest names, for a platform.
pub(crate) async fn find(session: &Session, name: &str, platform: Option<&str>) -> Result<Found> {
    let what = what(session, name);
    let pinned = name
        .contains(':')
        .then(|| Checksum::parse(name, &what))
        .transpose()?;
    let mut sent = get(session, name).await?;
    let named = named(&sent, pinned, &what)?;
    let digest = Digest::of(&sent.bytes);
    let document = |source| Error::Document {
        what: what.clone(),
        source,
    };
    for _ in 0..=oci::DEPTH_LIMIT {
        let index = match Document::read(&sent.bytes, sent.media_type.as_deref()) {
            Ok(Document::Index(index)) => index,
            Ok(Document::Manifest(manifest)) => {
                return Ok(Found {
                    named,
                    digest,
                    manifest,
                });
            }
            Err(error) => return Err(document(error)),
        };
        sent = entry(session, &index, platform, &what, document).await?;
    }
    Err(document(oci::Error::TooDeep))
}

/// What an index has for a platform.
async fn entry(
    session: &Session,
    index: &Index,
    platform: Option<&str>,
    what: &str,
    document: impl Fn(oci::Error) -> Error,
) -> Result<Sent> {
    if index.entries.len() > MAX_ENTRIES {
        return Err(Error::TooMuch {
            what: what.to_owned(),
            problem: format!("an index with {} entries", index.entries.len()),
            limit: MAX_ENTRIES as u64,
        });
    }
    let entry = index.choose(platform).map_err(document)?;
    let name = entry.digest.to_string();
    let sent = get(session, &name).await?;
    let what = self::what(session, &name);
    Checksum::parse(&name, &what)?.check(&sent.bytes, &what)?;
    if sent.bytes.len() as u64 == entry.size {
        return Ok(sent);
    }
    Err(Error::Size {
        what,
        problem: if sent.bytes.len() as u64 > entry.size {
            "more than"
        } else {
            "fewer than"
        },
        expected: entry.size,
    })
}

/// The digest of a document: the one that it was asked for by, or else one that the registry and we agree on.
fn named(sent: &Sent, pinned: Option<Checksum>, what: &str) -> Result<Checksum> {
    let expected = match (pinned, &sent.stated) {
        (Some(pinned), _) => pinned,
        (None, Some(stated)) => stated.clone(),
        (None, None) => return Checksum::parse(&Digest::of(&sent.bytes).to_string(), what),
    };
    expected.check(&sent.bytes, what)?;
    Ok(expected)
}

async fn get(session: &Session, name: &str) -> Result<Sent> {
    let what = what(session, name);
    let response = session.get(&path(name), accepted()).await?;
    let response = session
        .expect(response, &[StatusCode::OK], "fetch", || what.clone())
        .await?;
    let media_type = response.headers.get(CONTENT_TYPE);
    let media_type = media_type
        .and_then(|kind| kind.to_str().ok())
        .map(str::to_owned);
    let stated = stated(&response);
    let bytes = response.bytes(oci::DOCUMENT_LIMIT).await;
    let bytes = bytes.map_err(|source| match source {
        web::Error::TooLarge { .. } => Error::Document {
            what: what.clone(),
            source: oci::Error::TooLarge,
        },
        source => Error::Web {
            action: format!("fetch {what}"),
            source,
        },
    })?;
    Ok(Sent {
        bytes,
        media_type,
        stated,
    })
}

fn stated(response: &Response) -> Option<Checksum> {
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

/// How messages call it.
fn what(session: &Session, name: &str) -> String {
    let separator = if name.contains(':') { '@' } else { ':' };
    format!("{}{separator}{name}", session.place())
}
