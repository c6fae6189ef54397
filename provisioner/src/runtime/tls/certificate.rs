//! Serving certificate of the listener.

use std::{fmt, sync::Arc};

use parking_lot::RwLock;
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::sync::watch;

/// Certificate of new connections, once the service has one.
pub(crate) struct ServingCertificate {
    served: RwLock<Option<Arc<CertifiedKey>>>,
    ready: watch::Sender<bool>,
}

impl Default for ServingCertificate {
    fn default() -> Self {
        Self {
            served: RwLock::default(),
            ready: watch::Sender::new(false),
        }
    }
}

impl ServingCertificate {
    /// Returns the TLS configuration of the service.
    pub(crate) fn server(self: &Arc<Self>) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Returns a watch that becomes true with the first certificate.
    pub(crate) fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    pub(super) fn serve(&self, certificate: CertifiedKey) {
        let mut served = self.served.write();
        *served = Some(Arc::new(certificate));
        self.ready.send_replace(true);
    }
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let served = self.served.read();
        served.clone()
    }
}

impl fmt::Debug for ServingCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

/// Parses a certificate chain and a key in the format of Secrets.
pub(super) fn read(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("tls.crt is not valid PEM: {error}"))?;
    if chain.is_empty() {
        return Err("tls.crt has no certificate".to_owned());
    }
    // The parser error is omitted, because it might quote the key.
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| {
        "tls.key contains no private key in \
                                                              PEM"
    })?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => "tls.key does not match tls.crt".to_owned(),
        _ => "tls.crt or tls.key has an unsupported type".to_owned(),
    })
}
