//! Connections, with TLS and without.

use std::{env, io, path::Path, path::PathBuf, sync::Arc, time::Duration};

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

/// How long a connection may take to come about, and then the agreement on TLS.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where distributions keep the authorities that they trust.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Either kind of connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Connects, and makes sure that the right one answers.
pub(super) async fn connect(
    address: &Address,
    ca_file: Option<&Path>,
) -> Result<Box<dyn Stream>, Error> {
    let to = || address.shown().to_owned();
    let late = |_| io::Error::from(io::ErrorKind::TimedOut);
    let target = (address.host.as_str(), address.port);
    let connected = time::timeout(PATIENCE, TcpStream::connect(target)).await;
    let stream = connected
        .map_err(late)
        .and_then(|result| result)
        .and_then(|stream| stream.set_nodelay(true).map(|()| stream))
        .map_err(|source| Error::Connect { to: to(), source })?;
    if !address.secure {
        return Ok(Box::new(stream));
    }
    let failed = |source| Error::Tls { to: to(), source };
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(io::Error::other(error)))?
        .with_root_certificates(roots(ca_file)?)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let name = ServerName::try_from(address.host.clone())
        .map_err(|error| failed(io::Error::other(error)))?;
    let agreed = TlsConnector::from(Arc::new(config)).connect(name, stream);
    let agreed = time::timeout(PATIENCE, agreed).await;
    let stream = agreed
        .map_err(late)
        .and_then(|result| result)
        .map_err(failed)?;
    Ok(Box::new(stream))
}

/// Whom to trust, read afresh for each connection: certificates are exchanged while a Job waits.
fn roots(ca_file: Option<&Path>) -> Result<RootCertStore, Error> {
    let named = ca_file.map(Path::to_owned);
    let file = named
        .or_else(|| env::var_os("SSL_CERT_FILE").map(PathBuf::from))
        .or_else(|| {
            let known = BUNDLES.iter().map(PathBuf::from);
            known.into_iter().find(|path| path.is_file())
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
        what: "the certificates of authorities in",
        path: path.clone(),
        flag: "--ca-file",
        source: match error {
            pem::Error::Io(source) => source,
            error => io::Error::new(io::ErrorKind::InvalidData, error),
        },
    })?;
    Ok(roots)
}
