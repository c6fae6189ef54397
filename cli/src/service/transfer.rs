//! One request on a connection of its own.

use std::{sync::Arc, time::Duration};

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

/// How long nothing may come.
pub(super) const IDLE: Duration = Duration::from_secs(30);
/// How long an upload may take until it is answered: the service gives it as much.
const TOTAL: Duration = Duration::from_secs(600);

/// Sends a request and reads the answer, of which no more than `most` is taken.
pub(super) async fn exchange(
    roots: &RootCertStore,
    name: ServerName<'static>,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
    most: u64,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots.clone())
        .with_no_client_auth();
    let connecting = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let stream = timeout(IDLE, connecting)
        .await
        .context("the content service does not answer")?
        .context("the content service cannot be believed")?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .context("the content service does not speak HTTP")?;
    let connection = tokio::spawn(connection);
    let answer = timeout(TOTAL, sender.send_request(request))
        .await
        .context("the content service does not answer")?
        .context("the connection to the content service broke")?;
    let status = answer.status();
    let mut body = answer.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(IDLE, body.frame())
        .await
        .context("the content service has stopped to send")?
    {
        let frame = frame.context("the connection to the content service broke")?;
        if let Ok(data) = frame.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() as u64 > most {
            bail!("the content service sends more than any bundle has");
        }
    }
    connection.abort();
    Ok((status, bytes.into()))
}
