//! Push of a bundle image.

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
    http_client::{Request, Response},
};

/// Pushes a bundle under a tag, or only under its digest. Blobs that the registry already has are not sent.
///
/// # Errors
/// Returns an error if the registry is unreachable or rejects the image.
pub async fn push(image: &Reference, bundle: &BundleImage, access: &Access) -> Result<Digest> {
    let digest = bundle.digest();
    if image
        .digest()
        .is_some_and(|pinned| pinned != digest.to_string())
    {
        return Err(Error::NoBundle {
            problem: format!("its digest {digest} is not that of {image}; use a tag instead"),
        });
    }
    let endpoint = access.mirrors.target(image)?;
    let session = Session::open(&endpoint, access, Action::Push).await?;
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
    expect_status(&session, response, &[StatusCode::CREATED, StatusCode::OK]).await?;
    Ok(digest)
}

async fn send_blob(session: &Session, blob: &Bytes) -> Result<()> {
    let digest = Digest::sha256(blob).to_string();
    let existing = session
        .request(
            Method::HEAD,
            &format!("blobs/{digest}"),
            http::HeaderMap::new(),
        )
        .await?;
    if existing.status == StatusCode::OK {
        return Ok(());
    }
    let mut request = Request::new(Method::POST, session.url("blobs/uploads/")?);
    request.body = Some(Bytes::new());
    // The registry discards an abandoned upload, so the request can be repeated.
    request.idempotent = true;
    let response = session.send(request).await?;
    let response = expect_status(session, response, &[StatusCode::ACCEPTED]).await?;
    let mut url = upload(session, &response)?;
    url.query_pairs_mut().append_pair("digest", &digest);
    let mut request = Request::new(Method::PUT, url);
    let kind = HeaderValue::from_static("application/octet-stream");
    request.headers.insert(header::CONTENT_TYPE, kind);
    request.body = Some(blob.clone());
    let response = session.send(request).await?;
    expect_status(
        session,
        response,
        &[StatusCode::CREATED, StatusCode::NO_CONTENT],
    )
    .await?;
    Ok(())
}

/// Returns the URL that the registry chose for the upload of a blob.
fn upload(session: &Session, response: &Response) -> Result<Url> {
    let fail = |problem: &str| Error::Invalid {
        what: format!("the response of registry {}", session.endpoint().registry),
        problem: problem.to_owned(),
    };
    let location = response
        .headers
        .get(header::LOCATION)
        .and_then(|to| to.to_str().ok());
    let location = location.ok_or_else(|| fail("has no upload URL"))?;
    let url = response.url.join(location);
    let url = url.map_err(|_| fail("has an invalid upload URL"))?;
    let same = url.scheme() == response.url.scheme() || url.scheme() == "https";
    if same && url.has_host() {
        return Ok(url);
    }
    Err(fail("has an unencrypted upload URL"))
}

async fn expect_status(
    session: &Session,
    response: Response,
    statuses: &[StatusCode],
) -> Result<Response> {
    let target = || session.endpoint().to_string();
    session.expect(response, statuses, "push to", target).await
}
