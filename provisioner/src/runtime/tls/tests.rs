use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;

use super::{
    ca::{CA_LIFETIME, CERTIFICATE_LIFETIME, CaRotation, CertificateAuthority, Error, RetiredCa},
    certificate, secret,
};

fn now() -> Timestamp {
    "2026-11-21T12:00:00Z".parse().unwrap()
}

fn days(days: i64) -> SignedDuration {
    SignedDuration::from_hours(days * 24)
}

fn names() -> Vec<String> {
    vec!["core.system.svc".to_owned(), "127.0.0.1".to_owned()]
}

fn rotate(cas: &CaRotation, at: Timestamp) -> (CaRotation, &'static str) {
    let rotated = cas.rotate(at).unwrap();
    let change = match &rotated {
        None => "same",
        Some(rotated) if rotated.current != cas.current => "succession",
        Some(rotated) if rotated.next.is_some() && cas.next.is_none() => "successor",
        Some(_) => "farewell",
    };
    (rotated.unwrap_or_else(|| cas.clone()), change)
}

#[test]
fn ca_is_succeeded_by_a_published_successor() {
    let start = now();
    let mut cas = CaRotation::new(start).unwrap();
    let first = cas.current.clone();
    for (day, change, certificates) in [
        (0, "same", 1),
        (304, "same", 1),
        (305, "successor", 2),
        (334, "same", 2),
        (335, "succession", 2),
        (336, "same", 2),
        (365, "farewell", 1),
        (609, "same", 1),
        (610, "successor", 2),
    ] {
        let (rotated, found) = rotate(&cas, start + days(day));
        assert_eq!(found, change, "day {day}");
        assert_rows!(rotated.bundle().matches("BEGIN").count() => certificates, "day {day}");
        assert_rows!(rotated.rotate(start + days(day)).unwrap().is_none() => true, "day {day}, again");
        cas = rotated;
    }
    assert!(first != cas.current);
}

#[test]
fn unpublished_successor_waits_unless_the_ca_expires() {
    let start = now();
    let cas = CaRotation::new(start).unwrap();
    let (late, change) = rotate(&cas, start + days(350));
    assert_eq!(change, "successor");
    assert_rows!(rotate(&late, start + days(350) + SignedDuration::from_hours(1)).1 => "same");
    assert_eq!(rotate(&late, start + days(351)).1, "succession");
    let (too_late, change) = rotate(&cas, start + days(400));
    assert_eq!(change, "succession");
    assert!(too_late.previous.is_none());
    // After years, the successor has expired as well.
    let (older, change) = rotate(&late, start + days(2000));
    assert_eq!(change, "succession");
    assert!(older.current.ends > start + days(2300));
}

#[test]
fn certificates_are_limited_to_their_names_and_their_ca() {
    let ca = CertificateAuthority::new(now()).unwrap();
    let (_, ends) = ca.issue(&names(), now()).unwrap();
    assert_eq!(ends, now() + CERTIFICATE_LIFETIME);
    let late = now() + CA_LIFETIME - SignedDuration::from_hours(1);
    let (_, ends) = ca.issue(&names(), late).unwrap();
    assert_eq!(ends, ca.ends);
    // A name that clients cannot verify is rejected when the certificate is issued.
    assert!(ca.issue(&["not a name".to_owned()], now()).is_err() && ca.issue(&[], now()).is_err());
}

#[test]
fn secret_round_trips_and_detects_corruption() {
    let start = now();
    let old = CaRotation::new(start - days(300)).unwrap();
    let next = CertificateAuthority::new(start).unwrap();
    let (certificate, ends) = (old.current.certificate.clone(), old.current.ends);
    let previous = RetiredCa { certificate, ends };
    let full = with!(CaRotation::new(start).unwrap() => next: Some(next), previous: Some(previous));
    for cas in [&old, &full] {
        let secret = secret::write(cas, "a", "b", None);
        assert!(secret::is_managed(&secret) && secret::read(&secret).as_ref() == Some(cas));
    }
    for key in ["tls.crt", "tls.key"] {
        let mut secret = secret::write(&full, "a", "b", None);
        let data = secret.data.as_mut().unwrap();
        data.insert(key.to_owned(), ByteString(b"nonsense".to_vec()));
        let read = secret::read(&secret).unwrap();
        assert_rows!(matches!(read.current.issue(&names(), start), Err(Error::Damaged)) => true, "{key}");
        secret.data.as_mut().unwrap().remove(key);
        assert!(secret::read(&secret).is_none(), "no {key}");
    }
    // A key of another CA.
    let mixed = with!(full.current.clone() => key: old.current.key.clone());
    assert!(matches!(mixed.issue(&names(), start), Err(Error::Damaged)));
}

#[test]
fn provided_certificate_is_checked_without_logging_its_key() {
    let ca = CertificateAuthority::new(now()).unwrap();
    let other = CertificateAuthority::new(now()).unwrap();
    let (chain, key) = (ca.certificate.as_bytes(), ca.key.as_bytes());
    assert!(certificate::read(chain, key).is_ok());
    assert_each!(|chain, key, problem| certificate::read(chain, key).unwrap_err() => problem;
        chain, other.key.as_bytes() => "tls.key does not match tls.crt";
        b"".as_slice(), key => "tls.crt has no certificate";
        chain, b"".as_slice() => "tls.key contains no private key in PEM";
        chain, chain => "tls.key contains no private key in PEM";
    );
}
