//! Protocol for the transfer of content, from an unpack Job or from a user who uploads a bundle.
//!
//! # Request
//!
//! HTTP/1.1, `PUT` to a URL that the receiver chooses. The body is a tar.gz archive. Links, devices and sockets of
//! the source are tar entries without content. The receiver rejects the bundle if it needs one of them, and counts
//! the others. The digest and the size of the content are those of a tar archive without them.
//!
//! | header                                      | from a Job                                                     |
//! | ------------------------------------------- | -------------------------------------------------------------- |
//! | `Authorization: Bearer …`                   | the projected token of the pod, read again for each attempt    |
//! | `Content-Type: application/gzip`            | always; other senders may omit it, but not send another type   |
//! | `Transfer-Encoding: chunked`                | always: the length is not known before the end                 |
//! | `Trailer: Content-Digest, Rukpak-Content-…` | names the trailers                                             |
//!
//! | trailer                                | claim of the sender                                                         |
//! | -------------------------------------- | --------------------------------------------------------------------------- |
//! | `Content-Digest: sha-256=:<base64>:`   | RFC 9530: the digest of the body as sent, chunk headers not included        |
//! | `Rukpak-Content-Digest: sha256:<hex>`  | the digest of the content: of the deterministic, uncompressed tar of it     |
//! | `Rukpak-Content-Size: <bytes>`         | the size of that tar                                                        |
//!
//! Claims may also be sent as headers, for clients without trailers. Contradictory claims are rejected. A receiver of
//! Jobs requires all three claims, and a receiver of uploads none. Every claim that is made must be correct. A
//! receiver may additionally expect a content digest, for example for a Bundle that names one; a claim does not
//! replace it.
//!
//! # Response
//!
//! | status                | body                | meaning                                | reaction of a Job             |
//! | --------------------- | ------------------- | -------------------------------------- | ----------------------------- |
//! | 201                   | `{digest, size}`    | stored                                 | succeeds                      |
//! | 200                   | `{digest, size}`    | already stored                         | succeeds                      |
//! | 408, 429, 5xx         | `{reason, message}` | unavailable; `Retry-After` is optional | sends everything again later  |
//! | any other 4xx         | `{reason, message}` | rejected                               | fails with reason and message |
//! | 3xx, any other status |                     | not a receiver                         | fails with an error           |
//!
//! No data is kept of a body that is truncated, stalls, or does not match its claims. The response may arrive while
//! the body is still being sent, so the sender must read it concurrently.
//!
//! ```
//! use unpacker::{Digest, transfer::DeclaredUpload};
//!
//! let claims = DeclaredUpload { body: Some(Digest::sha256(b"")), content: None, size: Some(1024) };
//! let headers = claims.to_headers();
//! assert_eq!(headers["content-digest"], "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:");
//! assert_eq!(DeclaredUpload::read(&headers)?, claims);
//! # Ok::<(), unpacker::transfer::InvalidHeader>(())
//! ```

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::Digest;

#[cfg(feature = "sources")]
mod receive;
#[cfg(feature = "sources")]
mod rejection;
#[cfg(feature = "sources")]
mod verify;

#[cfg(feature = "sources")]
pub use receive::{ReceiveOptions, RequiredHeaders, StoredUpload, answer, receive};
#[cfg(feature = "sources")]
pub use rejection::Rejection;

/// Media type of the body.
pub const CONTENT_TYPE: &str = "application/gzip";
/// Digest of the body (RFC 9530).
pub const BODY_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// Digest of the content.
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("rukpak-content-digest");
/// Size of the tar archive of the content.
pub const CONTENT_SIZE: HeaderName = HeaderName::from_static("rukpak-content-size");
/// Value of the `Trailer` header.
pub const TRAILERS: &str = "Content-Digest, Rukpak-Content-Digest, Rukpak-Content-Size";

/// The claims of a sender about the transferred content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeclaredUpload {
    /// Digest of the body.
    pub body: Option<Digest>,
    /// Digest of the content.
    pub content: Option<Digest>,
    /// Size of the tar archive of the content, in bytes.
    pub size: Option<u64>,
}

/// The error for a malformed or contradictory claim.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} {problem}")]
pub struct InvalidHeader {
    /// Name of the header or trailer.
    pub name: HeaderName,
    /// Problem of the claim, as a continuation of the message.
    pub problem: &'static str,
}

/// The body of the response for stored content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// Digest of the content.
    pub digest: String,
    /// Size of the tar archive of the content, in bytes.
    pub size: u64,
}

/// The body of the response for rejected content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Reason in CamelCase, such as `NotGzip`.
    pub reason: String,
    /// Message in one sentence.
    pub message: String,
}

impl DeclaredUpload {
    /// Formats the claims as headers or trailers.
    pub fn to_headers(&self) -> HeaderMap {
        let body = |digest: Digest| format!("sha-256=:{}:", BASE64.encode(digest.as_bytes()));
        let fields = [
            (BODY_DIGEST, self.body.map(body)),
            (
                CONTENT_DIGEST,
                self.content.map(|digest| digest.to_string()),
            ),
            (CONTENT_SIZE, self.size.map(|size| size.to_string())),
        ];
        fields
            .into_iter()
            .filter_map(|(name, value)| Some((name, HeaderValue::try_from(value?).ok()?)))
            .collect()
    }

    /// Parses the claims in headers or trailers.
    ///
    /// # Errors
    /// Returns an error if a claim is malformed or repeated.
    pub fn read(headers: &HeaderMap) -> Result<Self, InvalidHeader> {
        let field = |name: &HeaderName| {
            let mut values = headers.get_all(name).iter();
            match (values.next(), values.next()) {
                (None, _) => Ok(None),
                (Some(value), None) => match value.to_str() {
                    Ok(text) => Ok(Some(text.trim())),
                    Err(_) => invalid(name, "is not plain text"),
                },
                (Some(_), Some(_)) => invalid(name, "is set twice"),
            }
        };
        let content = field(&CONTENT_DIGEST)?.map(|text| {
            text.parse().or_else(|_| {
                invalid(
                    &CONTENT_DIGEST,
                    "is not sha256: and 64 lower-case hexadecimal digits",
                )
            })
        });
        let size = field(&CONTENT_SIZE)?.map(|text| match text.parse() {
            Ok(size) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(size),
            _ => invalid(&CONTENT_SIZE, "is not a number of bytes"),
        });
        Ok(Self {
            body: field(&BODY_DIGEST)?.map_or(Ok(None), body_digest)?,
            content: content.transpose()?,
            size: size.transpose()?,
        })
    }

    /// Merges two sets of claims.
    ///
    /// # Errors
    /// Returns an error if the claims contradict each other.
    pub fn merge(self, other: Self) -> Result<Self, InvalidHeader> {
        fn one<T: PartialEq>(
            a: Option<T>,
            b: Option<T>,
            name: &HeaderName,
        ) -> Result<Option<T>, InvalidHeader> {
            match (a, b) {
                (Some(a), Some(b)) if a != b => invalid(name, "differs between header and trailer"),
                (a, b) => Ok(a.or(b)),
            }
        }
        Ok(Self {
            body: one(self.body, other.body, &BODY_DIGEST)?,
            content: one(self.content, other.content, &CONTENT_DIGEST)?,
            size: one(self.size, other.size, &CONTENT_SIZE)?,
        })
    }
}

/// Returns the SHA-256 digest of a `Content-Digest` field. Other algorithms are ignored.
fn body_digest(field: &str) -> Result<Option<Digest>, InvalidHeader> {
    let digests = field.split(',').map(str::trim);
    let mut sha256_digests = digests.filter_map(|digest| digest.strip_prefix("sha-256="));
    let Some(value) = sha256_digests.next() else {
        return Ok(None);
    };
    let bytes = value
        .strip_prefix(':')
        .and_then(|value| value.strip_suffix(':'))
        .and_then(|value| BASE64.decode(value).ok())
        .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    match (bytes, sha256_digests.next()) {
        (Some(bytes), None) => Ok(Some(bytes.into())),
        _ => invalid(
            &BODY_DIGEST,
            "does not have the form sha-256=:<32 bytes in base64>:",
        ),
    }
}

fn invalid<T>(name: &HeaderName, problem: &'static str) -> Result<T, InvalidHeader> {
    Err(InvalidHeader {
        name: name.clone(),
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_parse_only_in_their_own_format() {
        let digest = Digest::sha256(b"x");
        let (base64, hex) = (BASE64.encode(digest.as_bytes()), digest.hex());
        let read = |name: &'static str, values: &[&str]| {
            let value = |text: &&str| text.replace("B64", &base64).replace("HEX", &hex);
            let header = |text: String| HeaderValue::from_bytes(text.as_bytes()).unwrap();
            let mut headers = HeaderMap::new();
            for value in values.iter().map(value) {
                headers.append(name, header(value));
            }
            DeclaredUpload::read(&headers).is_ok()
        };
        for (name, good, invalid) in ::tests::rows![
            "content-digest", "sha-256=:B64:|sha-512=:eHg=:, sha-256=:B64:|sha-512=:eHg=:"
                => "sha-256=B64|sha-256=:B64|sha-256=:B64:, sha-256=:B64:|sha-256=:eHg=:";
            "rukpak-content-digest", "sha256:HEX" => "HEX|é";
            "rukpak-content-size", "10240" => "+1|-1|99999999999999999999";
        ] {
            for value in good.split('|') {
                assert_rows!((read(name, &[value]), read(name, &[value, value])) => (true, false), "{name}: {value}");
            }
            for value in invalid.split('|') {
                assert!(!read(name, &[value]), "{name}: {value}");
            }
        }
    }
}
