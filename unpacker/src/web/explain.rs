//! From the errors of libraries to what a user can do about it.

use std::{error::Error as StdError, io};

use super::{Error, Shown, Untrusted};
use rustls::CertificateError;

/// Why a request got no answer.
pub(super) fn explain(error: &reqwest::Error, url: Shown, tries: u32) -> Error {
    let source = cause(error);
    match find::<rustls::Error>(error) {
        Some(rustls::Error::InvalidCertificate(problem)) => {
            return Error::Untrusted {
                url,
                problem: untrusted(problem),
                source: Some(source),
            };
        }
        Some(rustls::Error::InvalidMessage(_)) => return Error::NotTls { url },
        Some(_) => return Error::Handshake { url, source },
        None => {}
    }
    let text = source.to_string();
    if text.ends_with("proxy authorization required") || text == "tunnel error: unsuccessful" {
        return Error::Tunnel { url, source };
    }
    // The libraries of C word it differently, and say "try again" where that is meant.
    let unknown = ["not known", "does not resolve", "No address", "nodename"];
    if text.contains("lookup") && unknown.iter().any(|known| text.contains(known)) {
        return Error::Host { url, source };
    }
    Error::Connect { url, tries, source }
}

/// The first error behind this one that is of a kind. An [`io::Error`] hides the one it wraps from `source`.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = behind(error);
    }
    None
}

fn behind<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// What started it, without the steps on the way, which only say that something failed.
pub(super) fn cause(error: &(dyn StdError + 'static)) -> Box<dyn StdError + Send + Sync> {
    let mut last = error;
    while let Some(next) = behind(last) {
        last = next;
    }
    last.to_string().into()
}

fn untrusted(error: &CertificateError) -> Untrusted {
    match error {
        // One of the same name as an authority that is known signs differently.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => Untrusted::Authority,
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            Untrusted::Name
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => Untrusted::Expired,
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            Untrusted::NotYet
        }
        // It has no variant of its own in rustls.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            Untrusted::AuthorityItself
        }
        _ => Untrusted::Other,
    }
}
