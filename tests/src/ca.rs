//! A CA (certificate authority) that no client trusts by default.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer},
};

use crate::address;

/// A private CA, like that of a company.
pub struct TestCa {
    issuer: CertifiedIssuer<'static, KeyPair>,
}

pub(crate) struct Identity {
    pub(crate) certificate: rcgen::Certificate,
    pub(crate) key: KeyPair,
}

impl std::fmt::Debug for TestCa {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TestCa").finish_non_exhaustive()
    }
}

impl Default for TestCa {
    fn default() -> Self {
        Self::new("a private CA")
    }
}

impl TestCa {
    /// Returns a CA with this name.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        params.distinguished_name.push(DnType::CommonName, name);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        Self { issuer }
    }

    /// Returns the CA certificate that clients have to trust.
    pub fn pem(&self) -> String {
        self.issuer.pem()
    }

    /// Issues a certificate for [`address`] and `localhost`.
    pub(crate) fn identity(&self) -> Identity {
        self.issue(&[&address().to_string(), "localhost"], |params| {
            let name = &mut params.distinguished_name;
            name.push(DnType::CommonName, "localhost");
        })
    }

    /// Returns a server configuration with a certificate for these names, after `change` of its other fields.
    pub fn server(
        &self,
        names: &[&str],
        change: impl FnOnce(&mut CertificateParams),
    ) -> ServerConfig {
        self.issue(names, change).server()
    }

    /// Returns a server configuration with the CA certificate itself.
    pub fn server_itself(&self) -> ServerConfig {
        config(self.issuer.der().clone(), self.issuer.key())
    }

    fn issue(&self, names: &[&str], change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity { certificate, key }
    }
}

impl Identity {
    pub(crate) fn server(&self) -> ServerConfig {
        config(self.certificate.der().clone(), &self.key)
    }
}

fn config(certificate: CertificateDer<'static>, key: &KeyPair) -> ServerConfig {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_no_client_auth();
    builder.with_single_cert(vec![certificate], key).unwrap()
}
