//! CA and rotation of CAs, as functions of the time. Pure; no I/O.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _, date_time_ymd,
};
use rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::ring,
    pki_types::{
        CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName, UnixTime,
        pem::PemObject as _,
    },
    sign::CertifiedKey,
};
use unpacker::Digest;

const DAY: SignedDuration = SignedDuration::from_hours(24);
/// Lifetime of a CA certificate after its creation. It is valid for the same time before, because the clock may have been
/// ahead at the creation, and most clients verify the start of the validity.
pub(super) const CA_LIFETIME: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Time before the expiry of a CA at which its successor is created.
pub(super) const SUCCESSOR_BEFORE: SignedDuration = SignedDuration::from_hours(60 * 24);
/// Time before the expiry of a CA at which its successor starts signing.
pub(super) const OVERLAP: SignedDuration = SignedDuration::from_hours(30 * 24);
/// Lifetime of a serving certificate, and time before its expiry at which it is renewed.
pub(super) const CERTIFICATE_LIFETIME: SignedDuration = SignedDuration::from_hours(20 * 24);
pub(super) const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(10 * 24);
/// Tolerated difference between clocks.
pub(super) const SKEW: SignedDuration = SignedDuration::from_mins(10);

/// Reason why no certificate can be issued.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Creating a key or certificate failed.
    #[error("failed to create a certificate")]
    Make(#[from] rcgen::Error),
    /// The certificate and the key of the CA are corrupt or do not match.
    #[error("the CA certificate and key do not match, or are corrupt")]
    Damaged,
}

/// A CA: its certificate and key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CertificateAuthority {
    /// CA certificate in PEM.
    pub(super) certificate: String,
    /// Private key in PEM.
    pub(super) key: String,
    pub(super) ends: Timestamp,
}

/// The current CA, its successor and its predecessor.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct CaRotation {
    pub(super) current: CertificateAuthority,
    pub(super) next: Option<CertificateAuthority>,
    /// Only the certificate of the predecessor: it no longer signs.
    pub(super) previous: Option<RetiredCa>,
}

/// A CA that no longer signs.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RetiredCa {
    /// CA certificate in PEM.
    pub(super) certificate: String,
    pub(super) ends: Timestamp,
}

impl CertificateAuthority {
    pub(super) fn new(now: Timestamp) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let pem = key.serialize_pem();
        let mut params = subject(&key);
        let ends = now.saturating_add(CA_LIFETIME).unwrap_or(Timestamp::MAX);
        set_validity(&mut params, now, CA_LIFETIME, ends);
        let issuer = CertifiedIssuer::self_signed(params, key)?;
        Ok(Self {
            certificate: issuer.pem(),
            key: pem,
            ends,
        })
    }

    /// Issues a serving certificate for these names. Returns it with its expiry.
    pub(super) fn issue(
        &self,
        names: &[String],
        now: Timestamp,
    ) -> Result<(CertifiedKey, Timestamp), Error> {
        let key = KeyPair::from_pem(&self.key).map_err(|_| Error::Damaged)?;
        let issuer = Issuer::new(subject(&key), key);
        let mut params = CertificateParams::new(names)?;
        let ends = self.ends.min(
            now.saturating_add(CERTIFICATE_LIFETIME)
                .unwrap_or(Timestamp::MAX),
        );
        set_validity(&mut params, now, SKEW, ends);
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let name = names.first().map(String::as_str).unwrap_or_default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &issuer)?.der().clone();
        self.verify(&certificate, name, now)?;
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let certified = CertifiedKey::from_der(vec![certificate], key, &ring::default_provider());
        Ok((certified.map_err(|_| Error::Damaged)?, ends))
    }

    /// Verifies a certificate like a client: the Secret may have been edited by hand.
    fn verify(
        &self,
        certificate: &CertificateDer<'_>,
        name: &str,
        now: Timestamp,
    ) -> Result<(), Error> {
        let check = || {
            let mut roots = RootCertStore::empty();
            let root = CertificateDer::from_pem_slice(self.certificate.as_bytes()).ok()?;
            roots.add(root).ok()?;
            let provider = ring::default_provider().into();
            let verifier = WebPkiServerVerifier::builder_with_provider(roots.into(), provider);
            let verifier = verifier.build().ok()?;
            let name = ServerName::try_from(name).ok()?;
            let seconds = u64::try_from(now.as_second()).ok()?;
            let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
            verifier
                .verify_server_cert(certificate, &[], &name, &[], now)
                .ok()
        };
        check().map(|_| ()).ok_or(Error::Damaged)
    }
}

impl CaRotation {
    pub(super) fn new(now: Timestamp) -> Result<Self, Error> {
        Ok(Self {
            current: CertificateAuthority::new(now)?,
            next: None,
            previous: None,
        })
    }

    /// Returns the state after all due rotations, or `None` if none is due.
    pub(super) fn rotate(&self, now: Timestamp) -> Result<Option<Self>, Error> {
        let mut rotated = self.clone();
        let remaining = |ends: Timestamp| ends.duration_since(now);
        if rotated
            .previous
            .as_ref()
            .is_some_and(|previous| previous.ends <= now)
        {
            rotated.previous = None;
        }
        // A successor that itself expires soon is useless. This happens if no replica ran for a long time.
        if rotated
            .next
            .as_ref()
            .is_some_and(|next| remaining(next.ends) <= OVERLAP)
        {
            rotated.next = None;
        }
        if rotated.next.is_none() && remaining(rotated.current.ends) <= SUCCESSOR_BEFORE {
            rotated.next = Some(CertificateAuthority::new(now)?);
        }
        // A successor must be published for a day before it signs, unless the current CA has expired.
        let succeeds = |next: &CertificateAuthority| {
            let is_published = CA_LIFETIME.saturating_sub(remaining(next.ends)) >= DAY;
            remaining(rotated.current.ends) <= SignedDuration::ZERO
                || (remaining(rotated.current.ends) <= OVERLAP && is_published)
        };
        if let Some(next) = rotated.next.take_if(|next| succeeds(next)) {
            let CertificateAuthority {
                certificate, ends, ..
            } = std::mem::replace(&mut rotated.current, next);
            rotated.previous =
                Some(RetiredCa { certificate, ends }).filter(|previous| previous.ends > now);
        }
        Ok((rotated != *self).then_some(rotated))
    }

    /// Returns the CA bundle for clients: all certificates in PEM.
    pub(super) fn bundle(&self) -> String {
        let next = self.next.as_ref().map(|next| next.certificate.as_str());
        let previous = self
            .previous
            .as_ref()
            .map(|previous| previous.certificate.as_str());
        let certificates = [Some(self.current.certificate.as_str()), next, previous];
        let certificates = certificates.into_iter().flatten().map(str::trim_end);
        certificates
            .flat_map(|certificate| [certificate, "\n"])
            .collect()
    }
}

/// Returns the parameters of a CA certificate. Its name is derived from the key, so that the key suffices to sign.
fn subject(key: &KeyPair) -> CertificateParams {
    let hash = Digest::sha256(&key.subject_public_key_info()).hex();
    let name = format!("rukpak {}", hash.get(..16).unwrap_or_default());
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// Sets the validity of a certificate, which starts before its creation.
fn set_validity(
    params: &mut CertificateParams,
    now: Timestamp,
    starts_before: SignedDuration,
    ends: Timestamp,
) {
    let date = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or_default();
        date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    params.not_before = date(now.saturating_sub(starts_before).unwrap_or(Timestamp::MIN));
    params.not_after = date(ends);
}
