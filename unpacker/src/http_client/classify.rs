//! Classification of library errors by their remedy.

use std::{error::Error as StdError, io};

use super::{CertificateProblem, Error, RedactedUrl};
use rustls::CertificateError;

/// Converts the error of a request without a response.
pub(super) fn classify(error: &reqwest::Error, url: RedactedUrl, tries: u32) -> Error {
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
    // C libraries use different texts for unknown hosts, and "try again" for temporary failures.
    let unknown_host = ["not known", "does not resolve", "No address", "nodename"];
    if text.contains("lookup") && unknown_host.iter().any(|phrase| text.contains(phrase)) {
        return Error::Host { url, source };
    }
    Error::Connect { url, tries, source }
}

/// Returns the first error of type `T` in the chain of causes. An [`io::Error`] does not return the error that it
/// wraps as `source`.
fn find<'a, T: StdError + 'static>(error: &'a (dyn StdError + 'static)) -> Option<&'a T> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = source_of(error);
    }
    None
}

fn source_of<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    match error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// Returns the root cause. The intermediate errors only report that an operation failed.
pub(super) fn cause(error: &(dyn StdError + 'static)) -> Box<dyn StdError + Send + Sync> {
    let mut last = error;
    while let Some(next) = source_of(last) {
        last = next;
    }
    last.to_string().into()
}

fn untrusted(error: &CertificateError) -> CertificateProblem {
    match error {
        // Another CA with the same name as a known one has a different key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            CertificateProblem::Authority
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            CertificateProblem::Name
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            CertificateProblem::Expired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateProblem::NotYet
        }
        // rustls has no variant for this error.
        CertificateError::Other(other) if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            CertificateProblem::CaAsLeaf
        }
        _ => CertificateProblem::Other,
    }
}
