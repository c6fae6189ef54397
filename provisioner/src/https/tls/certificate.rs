//! What the listener shows.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
    server::{ClientHello, ResolvesServerCert},
    sign::CertifiedKey,
};
use tokio::sync::watch;

/// The certificate that connections begin with from now on, once there is one.
pub(crate) struct Certificate {
    shown: RwLock<Option<Arc<CertifiedKey>>>,
    ready: watch::Sender<bool>,
}

impl Default for Certificate {
    fn default() -> Self {
        Self {
            shown: RwLock::default(),
            ready: watch::Sender::new(false),
        }
    }
}

impl Certificate {
    /// TLS as this service speaks it.
    pub(crate) fn server(self: &Arc<Self>) -> Result<ServerConfig, rustls::Error> {
        let provider = Arc::new(ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(self) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }

    /// Becomes true with the first certificate.
    pub(crate) fn ready(&self) -> watch::Receiver<bool> {
        self.ready.subscribe()
    }

    pub(super) fn show(&self, certificate: CertifiedKey) {
        let mut shown = self.shown.write().unwrap_or_else(PoisonError::into_inner);
        *shown = Some(Arc::new(certificate));
        self.ready.send_replace(true);
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let shown = self.shown.read().unwrap_or_else(PoisonError::into_inner);
        shown.clone()
    }
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

/// Reads a chain and a key as they are in Secrets.
pub(super) fn read(chain: &[u8], key: &[u8]) -> Result<CertifiedKey, String> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|error| format!("tls.crt is no PEM: {error}"))?;
    if chain.is_empty() {
        return Err("tls.crt has no certificate".to_owned());
    }
    // What is wrong with a key is not repeated: the text might quote it.
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "tls.key is no PEM with a key")?;
    CertifiedKey::from_der(chain, key, &ring::default_provider()).map_err(|error| match error {
        rustls::Error::InconsistentKeys(_) => "tls.key is not the key of tls.crt".to_owned(),
        _ => "tls.crt or tls.key is of a kind that is not supported".to_owned(),
    })
}
