//! A single request on a new connection.

use std::{io, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::{body::Bytes, client::conn::http1};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::TlsConnector;

/// Maximum time without received data.
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for the response to an upload, equal to that of the service.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(600);

/// Reports whether an exchange failed because of TLS, for example because of an untrusted certificate. A retry does not
/// help.
pub(super) fn is_tls_error(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let cause = cause.downcast_ref::<io::Error>();
        let cause = cause.and_then(io::Error::get_ref);
        cause
            .and_then(|cause| cause.downcast_ref::<rustls::Error>())
            .is_some()
    })
}

/// Sends a request and reads the response, which may have `max_size` bytes.
pub(super) async fn exchange(
    roots: &RootCertStore,
    name: ServerName<'static>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    max_size: u64,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let stream = timeout(IDLE_TIMEOUT, connecting)
        .await
        .context("the content service does not respond")?
        .context("failed to verify the content service")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .context("the content service does not speak HTTP")?;
    let connection = tokio::spawn(connection);
    let answer = timeout(RESPONSE_TIMEOUT, sender.send_request(request))
        .await
        .context("the content service does not respond")?
        .context("the connection to the content service was lost")?;
    let status = answer.status();
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(IDLE_TIMEOUT, body.frame())
        .await
        .context("the content service stopped sending")?
    {
        let frame = frame.context("the connection to the content service was lost")?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() as u64 > max_size {
            bail!("the response of the content service exceeds the maximum size of a bundle");
        }
    }
    connection.abort();
    Ok((status, bytes.into()))
}
