use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;

use super::{
    authority::{
        CA_LIFETIME, CERTIFICATE_LIFETIME, CaRotation, CertificateAuthority, Error, RetiredCa,
    },
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

/// Who there is, as letters: predecessor, current, successor.
fn turn(authorities: &CaRotation, at: Timestamp) -> (CaRotation, &'static str) {
    let turned = authorities.rotate(at).unwrap();
    let what = match &turned {
        None => "same",
        Some(turned) if turned.current != authorities.current => "succession",
        Some(turned) if turned.next.is_some() && authorities.next.is_none() => "successor",
        Some(_) => "farewell",
    };
    (turned.unwrap_or_else(|| authorities.clone()), what)
}

#[test]
fn an_authority_is_succeeded_by_one_that_was_known_before() {
    let start = now();
    let mut authorities = CaRotation::new(start).unwrap();
    let first = authorities.current.clone();
    for (day, what, certificates) in [
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
        let (turned, found) = turn(&authorities, start + days(day));
        assert_eq!(found, what, "day {day}");
        let count = turned.bundle().matches("BEGIN").count();
        assert_eq!(count, certificates, "day {day}");
        let again = turned.rotate(start + days(day)).unwrap();
        assert!(again.is_none(), "day {day}, again");
        authorities = turned;
    }
    assert!(first != authorities.current);
}

#[test]
fn a_successor_that_nobody_can_know_yet_waits_unless_there_is_no_time() {
    let start = now();
    let authorities = CaRotation::new(start).unwrap();
    let (late, what) = turn(&authorities, start + days(350));
    assert_eq!(what, "successor");
    let soon = start + days(350) + SignedDuration::from_hours(1);
    assert_eq!(turn(&late, soon).1, "same");
    assert_eq!(turn(&late, start + days(351)).1, "succession");
    let (too_late, what) = turn(&authorities, start + days(400));
    assert_eq!(what, "succession");
    assert!(too_late.previous.is_none());
    // After years, not even the successor is of use.
    let (older, what) = turn(&late, start + days(2000));
    assert_eq!(what, "succession");
    assert!(older.current.ends > start + days(2300));
}

#[test]
fn certificates_hold_for_their_names_and_not_beyond_their_authority() {
    let authority = CertificateAuthority::new(now()).unwrap();
    let (_, ends) = authority.issue(&names(), now()).unwrap();
    assert_eq!(ends, now() + CERTIFICATE_LIFETIME);
    let late = now() + CA_LIFETIME - SignedDuration::from_hours(1);
    let (_, ends) = authority.issue(&names(), late).unwrap();
    assert_eq!(ends, authority.ends);
    // A name that no client could check is refused before it is shown to one.
    assert!(authority.issue(&["not a name".to_owned()], now()).is_err());
    assert!(authority.issue(&[], now()).is_err());
}

#[test]
fn a_secret_says_what_was_written_and_notices_what_was_damaged() {
    let start = now();
    let old = CaRotation::new(start - days(300)).unwrap();
    let previous = RetiredCa {
        certificate: old.current.certificate.clone(),
        ends: old.current.ends,
    };
    let (next, previous) = (
        Some(CertificateAuthority::new(start).unwrap()),
        Some(previous),
    );
    let full = with!(CaRotation::new(start).unwrap() => next: next, previous: previous);
    for authorities in [&old, &full] {
        let secret = secret::write(authorities, "a", "b", None);
        assert!(secret::is_managed(&secret));
        assert!(secret::read(&secret).as_ref() == Some(authorities));
    }
    for key in ["tls.crt", "tls.key"] {
        let mut secret = secret::write(&full, "a", "b", None);
        let data = secret.data.as_mut().unwrap();
        data.insert(key.to_owned(), ByteString(b"nonsense".to_vec()));
        let read = secret::read(&secret).unwrap();
        let issued = read.current.issue(&names(), start);
        assert!(matches!(issued, Err(Error::Damaged)), "{key}");
        secret.data.as_mut().unwrap().remove(key);
        assert!(secret::read(&secret).is_none(), "no {key}");
    }
    // A key of somebody else's.
    let mixed = with!(full.current.clone() => key: old.current.key.clone());
    assert!(matches!(mixed.issue(&names(), start), Err(Error::Damaged)));
}

#[test]
fn somebody_elses_certificate_is_read_or_refused_without_telling_the_key() {
    let authority = CertificateAuthority::new(now()).unwrap();
    let other = CertificateAuthority::new(now()).unwrap();
    let (chain, key) = (authority.certificate.as_bytes(), authority.key.as_bytes());
    assert!(certificate::read(chain, key).is_ok());
    for (chain, key, problem) in ::tests::rows![
        chain, other.key.as_bytes() => "tls.key does not match tls.crt";
        b"".as_slice(), key => "tls.crt has no certificate";
        chain, b"".as_slice() => "tls.key contains no private key in PEM";
        chain, chain => "tls.key contains no private key in PEM";
    ] {
        let error = certificate::read(chain, key).unwrap_err();
        assert_eq!(error, problem);
    }
}
