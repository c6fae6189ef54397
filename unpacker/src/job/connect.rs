//! Connections to the receiver, with and without TLS.

use std::{
    env, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, ServerName, pem, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time,
};
use tokio_rustls::TlsConnector;

use super::{Address, Error};

/// Timeout for the TCP connection, and again for the TLS handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Locations of the CA bundles of common distributions.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A connection with or without TLS.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects to the receiver and verifies its certificate.
pub(super) async fn connect(
    address: &Address,
    ca_file: Option<&Path>,
) -> Result<Box<dyn Stream>, Error> {
    let receiver = || address.host_and_port().to_owned();
    let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
    let target = (address.host.as_str(), address.port);
    let connected = time::timeout(CONNECT_TIMEOUT, TcpStream::connect(target)).await;
    let stream = connected
        .map_err(timed_out)
        .and_then(|result| result)
        .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
        .map_err(|source| Error::Connect {
            to: receiver(),
            source,
        })?;
    if !address.secure {
        return Ok(Box::new(stream));
    }
    let failed = |source| Error::Tls {
        to: receiver(),
        source,
    };
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(io::Error::other(error)))?
        .with_root_certificates(roots(ca_file)?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(address.host.clone())
        .map_err(|error| failed(io::Error::other(error)))?;
    let handshake = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let handshake = time::timeout(CONNECT_TIMEOUT, handshake).await;
    let stream = handshake
        .map_err(timed_out)
        .and_then(|result| result)
        .map_err(failed)?;
    Ok(Box::new(stream))
}

/// Loads the trusted CAs. They are read for each connection, because certificates are rotated while a Job waits.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, Error> {
    let configured = ca_file.map(Path::to_owned);
    let file = configured
        .or_else(|| env::var_os("SSL_CERT_FILE").map(PathBuf::from))
        .or_else(|| {
            let candidates = BUNDLES.iter().map(PathBuf::from);
            candidates.into_iter().find(|path| path.is_file())
        });
    let Some(path) = file else {
        return Err(Error::NoRoots);
    };
    let mut roots = RootCertStore::empty();
    let mut read = || {
        let certificates = CertificateDer::pem_file_iter(&path)?;
        roots.add_parsable_certificates(certificates.collect::<Result<Vec<_>, _>>()?);
        if roots.is_empty() {
            return Err(pem::Error::NoItemsFound);
        }
        Ok(())
    };
    read().map_err(|error: pem::Error| Error::Configuration {
        what: "the CA certificates in",
        path: path.clone(),
        flag: "--ca-file",
        source: match error {
            pem::Error::Io(source) => source,
            error => io::Error::new(io::ErrorKind::InvalidData, error),
        },
    })?;
    Ok(roots)
}
