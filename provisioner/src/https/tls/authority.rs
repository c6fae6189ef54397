//! Authorities, and who signs when: plain functions of the time.

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
/// How long an authority lasts.
pub(super) const LIFE: SignedDuration = SignedDuration::from_hours(365 * 24);
/// So long before an authority ends, there is a successor.
pub(super) const SUCCESSOR: SignedDuration = SignedDuration::from_hours(60 * 24);
/// So long before an authority ends, its successor signs.
pub(super) const SUCCESSION: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How long a certificate of the service lasts, and so long before its end there is another.
pub(super) const SERVED: SignedDuration = SignedDuration::from_hours(20 * 24);
pub(super) const RENEWED: SignedDuration = SignedDuration::from_hours(10 * 24);
/// Clocks differ.
const SKEW: SignedDuration = SignedDuration::from_mins(10);

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum Error {
    /// Making one failed.
    #[error("failed to make a certificate")]
    Make(#[from] rcgen::Error),
    /// What was made does not hold.
    #[error("the authority's certificate and key do not belong together, or are damaged")]
    Damaged,
}

/// A certificate that signs others, and its key.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Authority {
    /// PEM.
    pub(super) certificate: String,
    /// PEM.
    pub(super) key: String,
    pub(super) ends: Timestamp,
}

/// Who signs, who will, and who did.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Authorities {
    pub(super) current: Authority,
    pub(super) next: Option<Authority>,
    /// Only its certificate: it signs no more.
    pub(super) previous: Option<Previous>,
}

/// An authority that signs no more.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Previous {
    /// PEM.
    pub(super) certificate: String,
    pub(super) ends: Timestamp,
}

impl Authority {
    pub(super) fn new(now: Timestamp) -> Result<Self, Error> {
        let key = KeyPair::generate()?;
        let pem = key.serialize_pem();
        let mut params = subject(&key);
        let ends = now.saturating_add(LIFE).unwrap_or(Timestamp::MAX);
        holds(&mut params, now, ends);
        let issuer = CertifiedIssuer::self_signed(params, key)?;
        Ok(Self {
            certificate: issuer.pem(),
            key: pem,
            ends,
        })
    }

    /// A certificate for these names, and when it ends.
    pub(super) fn issue(
        &self,
        names: &[String],
        now: Timestamp,
    ) -> Result<(CertifiedKey, Timestamp), Error> {
        let key = KeyPair::from_pem(&self.key).map_err(|_| Error::Damaged)?;
        let issuer = Issuer::new(subject(&key), key);
        let mut params = CertificateParams::new(names)?;
        let ends = self
            .ends
            .min(now.saturating_add(SERVED).unwrap_or(Timestamp::MAX));
        holds(&mut params, now, ends);
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

    /// Looks at a certificate as a client does. The Secret may have been changed by hand.
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

impl Authorities {
    pub(super) fn new(now: Timestamp) -> Result<Self, Error> {
        Ok(Self {
            current: Authority::new(now)?,
            next: None,
            previous: None,
        })
    }

    /// What they have to become by now, if that is something else.
    pub(super) fn turn(&self, now: Timestamp) -> Result<Option<Self>, Error> {
        let mut turned = self.clone();
        let left = |ends: Timestamp| ends.duration_since(now);
        if turned
            .previous
            .as_ref()
            .is_some_and(|previous| previous.ends <= now)
        {
            turned.previous = None;
        }
        // A successor that ends itself is of no use: nobody was here for a long time.
        if turned
            .next
            .as_ref()
            .is_some_and(|next| left(next.ends) <= SUCCESSION)
        {
            turned.next = None;
        }
        if turned.next.is_none() && left(turned.current.ends) <= SUCCESSOR {
            turned.next = Some(Authority::new(now)?);
        }
        // It is to be known before it signs, unless there is no time left.
        let succeeds = |next: &Authority| {
            let known = LIFE.saturating_sub(left(next.ends)) >= DAY;
            left(turned.current.ends) <= SignedDuration::ZERO
                || (left(turned.current.ends) <= SUCCESSION && known)
        };
        if let Some(next) = turned.next.take_if(|next| succeeds(next)) {
            let Authority {
                certificate, ends, ..
            } = std::mem::replace(&mut turned.current, next);
            turned.previous =
                Some(Previous { certificate, ends }).filter(|previous| previous.ends > now);
        }
        Ok((turned != *self).then_some(turned))
    }

    /// What clients have to believe: all of them, PEM.
    pub(super) fn bundle(&self) -> String {
        let next = self.next.as_ref().map(|next| next.certificate.as_str());
        let previous = self
            .previous
            .as_ref()
            .map(|previous| previous.certificate.as_str());
        let all = [Some(self.current.certificate.as_str()), next, previous];
        let all = all.into_iter().flatten().map(str::trim_end);
        all.flat_map(|certificate| [certificate, "\n"]).collect()
    }
}

/// Everything that names an authority follows from its key, so that the key is enough to sign in its name.
fn subject(key: &KeyPair) -> CertificateParams {
    let hash = Digest::of(&key.subject_public_key_info()).hex();
    let name = format!("rukpak {}", hash.get(..16).unwrap_or_default());
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

/// When a certificate holds.
fn holds(params: &mut CertificateParams, now: Timestamp, ends: Timestamp) {
    let date = |time: Timestamp| {
        let seconds = u64::try_from(time.as_second()).unwrap_or_default();
        date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds)
    };
    params.not_before = date(now.saturating_sub(SKEW).unwrap_or(Timestamp::MIN));
    params.not_after = date(ends);
}
