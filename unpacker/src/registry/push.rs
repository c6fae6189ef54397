//! Publishing a bundle.

use bytes::Bytes;
use http::{HeaderValue, Method, StatusCode, header};
use manifests::image::Reference;
use url::Url;

use super::{
    BundleImage, Error, Result,
    session::{Action, Session},
};
use crate::{
    Access, Digest,
    web::{Request, Response},
};

/// Publishes a bundle under a tag, or under its digest alone. What the registry has already is not sent again.
///
/// # Errors
/// When the registry does not take it.
pub async fn push(image: &Reference, bundle: &BundleImage, access: &Access) -> Result<Digest> {
    let digest = bundle.digest();
    if image
        .digest()
        .is_some_and(|pinned| pinned != digest.to_string())
    {
        return Err(Error::NoBundle {
            problem: format!("its digest is {digest}, and not that of {image}; name a tag instead"),
        });
    }
    let place = access.mirrors.target(image)?;
    let session = Session::open(&place, access, Action::Push).await?;
    for blob in bundle.blobs() {
        send_blob(&session, blob).await?;
    }
    let name = image
        .tag()
        .map_or_else(|| digest.to_string(), str::to_owned);
    let mut request = Request::new(Method::PUT, session.url(&format!("manifests/{name}"))?);
    let kind = HeaderValue::from_static(oci_client::manifest::OCI_IMAGE_MEDIA_TYPE);
    request.headers.insert(header::CONTENT_TYPE, kind);
    request.body = Some(bundle.manifest().clone());
    let response = session.send(request).await?;
    taken(&session, response, &[StatusCode::CREATED, StatusCode::OK]).await?;
    Ok(digest)
}

async fn send_blob(session: &Session, blob: &Bytes) -> Result<()> {
    let digest = Digest::of(blob).to_string();
    let known = session
        .ask(
            Method::HEAD,
            &format!("blobs/{digest}"),
            http::HeaderMap::new(),
        )
        .await?;
    if known.status == StatusCode::OK {
        return Ok(());
    }
    let mut request = Request::new(Method::POST, session.url("blobs/uploads/")?);
    request.body = Some(Bytes::new());
    // An upload that is begun and left is forgotten by the registry.
    request.repeatable = true;
    let response = session.send(request).await?;
    let response = taken(session, response, &[StatusCode::ACCEPTED]).await?;
    let mut url = upload(session, &response)?;
    url.query_pairs_mut().append_pair("digest", &digest);
    let mut request = Request::new(Method::PUT, url);
    let kind = HeaderValue::from_static("application/octet-stream");
    request.headers.insert(header::CONTENT_TYPE, kind);
    request.body = Some(blob.clone());
    let response = session.send(request).await?;
    taken(
        session,
        response,
        &[StatusCode::CREATED, StatusCode::NO_CONTENT],
    )
    .await?;
    Ok(())
}

/// Where the registry wants a blob to be sent.
fn upload(session: &Session, response: &Response) -> Result<Url> {
    let fail = |problem: &str| Error::Invalid {
        what: format!("the answer of the registry {}", session.place().registry),
        problem: problem.to_owned(),
    };
    let location = response
        .headers
        .get(header::LOCATION)
        .and_then(|to| to.to_str().ok());
    let location = location.ok_or_else(|| fail("does not say where to upload"))?;
    let url = response.url.join(location);
    let url = url.map_err(|_| fail("names no URL to upload to"))?;
    let same = url.scheme() == response.url.scheme() || url.scheme() == "https";
    if same && url.has_host() {
        return Ok(url);
    }
    Err(fail("names a URL to upload to that is not encrypted"))
}

async fn taken(session: &Session, response: Response, statuses: &[StatusCode]) -> Result<Response> {
    let what = || session.place().to_string();
    session.expect(response, statuses, "push to", what).await
}
