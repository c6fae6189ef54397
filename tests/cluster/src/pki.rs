//! The certificates of a control plane and the key that signs service account tokens.

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, KeyUsagePurpose,
};

use crate::{Error, Result};

pub(crate) const CA: &str = "ca.crt";
pub(crate) const TOKEN_KEY: &str = "service-accounts.key";
pub(crate) const TOKENS: &str = "service-accounts.pub";

/// Writes `ca.crt`, `apiserver.{crt,key}`, `admin.{crt,key}` and `service-accounts.{key,pub}` into a directory.
pub(crate) fn write(dir: &Path) -> Result<()> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let name = &mut params.distinguished_name;
    name.push(DnType::CommonName, "cluster");
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
    save(dir, CA, &ca.pem())?;

    // The addresses are sandbox::ADDRESS and the first one of sandbox::SERVICES.
    let names = "127.0.0.1 10.88.0.1 10.0.0.1 localhost kubernetes kubernetes.default kubernetes.default.svc";
    let names: Vec<String> = names.split(' ').map(str::to_owned).collect();
    let mut server = CertificateParams::new(names)?;
    let name = &mut server.distinguished_name;
    name.push(DnType::CommonName, "kube-apiserver");
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    certify(dir, "apiserver", &server, &ca)?;

    let mut admin = CertificateParams::default();
    let name = &mut admin.distinguished_name;
    name.push(DnType::OrganizationName, "system:masters");
    name.push(DnType::CommonName, "admin");
    admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    certify(dir, "admin", &admin, &ca)?;

    let tokens = KeyPair::generate()?;
    save(dir, TOKEN_KEY, &tokens.serialize_pem())?;
    save(dir, TOKENS, &tokens.public_key_pem())
}

type Issuer = CertifiedIssuer<'static, KeyPair>;

fn certify(dir: &Path, name: &str, params: &CertificateParams, ca: &Issuer) -> Result<()> {
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, ca)?.pem();
    save(dir, &format!("{name}.crt"), &certificate)?;
    save(dir, &format!("{name}.key"), &key.serialize_pem())
}

pub(crate) fn save(dir: &Path, name: &str, text: &str) -> Result<()> {
    let path = dir.join(name);
    fs::write(&path, text).map_err(Error::io(format!("write {}", path.display())))
}
