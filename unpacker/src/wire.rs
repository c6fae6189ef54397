//! How content is handed over: from an unpack Job, or by whoever uploads a bundle.
//!
//! # The request
//!
//! HTTP/1.1, `PUT` to a URL that the receiver chooses. The body is a tar.gz. Links, devices and sockets of the source are
//! entries of the tar like any other, without content: the receiver rejects the bundle if it needs one of them, and
//! counts the others. The digest and the size of the content are those of a tar without them.
//!
//! | header                                      | from a Job                                                     |
//! | ------------------------------------------- | -------------------------------------------------------------- |
//! | `Authorization: Bearer …`                   | the projected token of the pod, read afresh for each try       |
//! | `Content-Type: application/gzip`            | always; others may leave it out, but not say something else    |
//! | `Transfer-Encoding: chunked`                | always: the length is not known before the end                 |
//! | `Trailer: Content-Digest, Rukpak-Content-…` | names the trailers                                             |
//!
//! | trailer                                | what the sender claims                                                      |
//! | -------------------------------------- | --------------------------------------------------------------------------- |
//! | `Content-Digest: sha-256=:<base64>:`   | RFC 9530: the digest of the body as sent, chunk headers not included        |
//! | `Rukpak-Content-Digest: sha256:<hex>`  | the digest of the content: of the deterministic, uncompressed tar of it     |
//! | `Rukpak-Content-Size: <bytes>`         | the size of that tar                                                        |
//!
//! Claims may stand among the headers as well, for clients without trailers; claims that contradict each other are
//! refused. A receiver of Jobs demands all three, a receiver of uploads none. Each that is made must be right.
//! A receiver may expect a digest of the content itself, as for a Bundle that names one; no claim replaces it.
//!
//! # The answer
//!
//! | status                   | body                | what it means                           | what a Job does              |
//! | ------------------------ | ------------------- | --------------------------------------- | ---------------------------- |
//! | 201                      | `{digest, size}`    | stored                                  | ends well                    |
//! | 200                      | `{digest, size}`    | known already                           | ends well                    |
//! | 408, 429, 5xx            | `{reason, message}` | not now; `Retry-After` may say when     | sends all again, after a wait |
//! | any other 4xx            | `{reason, message}` | never                                   | ends with reason and message |
//! | 3xx, anything else       |                     | no receiver is there                    | ends with an error           |
//!
//! Nothing is kept of a body that breaks off, stops, or whose claims are wrong. An answer may come while the body is
//! still being sent; who sends must read it.
//!
//! ```
//! use unpacker::{Digest, wire::Claims};
//!
//! let claims = Claims { body: Some(Digest::of(b"")), content: None, size: Some(1024) };
//! let headers = claims.to_headers();
//! assert_eq!(headers["content-digest"], "sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:");
//! assert_eq!(Claims::read(&headers)?, claims);
//! # Ok::<(), unpacker::wire::BadClaim>(())
//! ```

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::Digest;

#[cfg(feature = "sources")]
mod check;
#[cfg(feature = "sources")]
mod receive;
#[cfg(feature = "sources")]
mod refusal;

#[cfg(feature = "sources")]
pub use receive::{Demand, Received, Terms, answer, receive};
#[cfg(feature = "sources")]
pub use refusal::Refusal;

/// What a body is.
pub const CONTENT_TYPE: &str = "application/gzip";
/// RFC 9530: the digest of the body.
pub const BODY_DIGEST: HeaderName = HeaderName::from_static("content-digest");
/// The digest of the content.
pub const CONTENT_DIGEST: HeaderName = HeaderName::from_static("rukpak-content-digest");
/// The size of the content's tar.
pub const CONTENT_SIZE: HeaderName = HeaderName::from_static("rukpak-content-size");
/// What `Trailer` announces.
pub const TRAILERS: &str = "Content-Digest, Rukpak-Content-Digest, Rukpak-Content-Size";

/// What a sender says about what it sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Claims {
    /// The digest of the body.
    pub body: Option<Digest>,
    /// The digest of the content.
    pub content: Option<Digest>,
    /// The size of the content's tar in bytes.
    pub size: Option<u64>,
}

/// Why a claim cannot be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} {problem}")]
pub struct BadClaim {
    /// The header or trailer.
    pub name: HeaderName,
    /// What is wrong with it.
    pub problem: &'static str,
}

/// The body of an answer to content that is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accepted {
    /// The digest of the content.
    pub digest: String,
    /// The size of the content's tar in bytes.
    pub size: u64,
}

/// The body of an answer to content that is not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// One word in CamelCase.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
}

impl Claims {
    /// As headers or trailers.
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

    /// What headers or trailers claim.
    ///
    /// # Errors
    /// When a claim is not written as it must be, or made twice.
    pub fn read(headers: &HeaderMap) -> Result<Self, BadClaim> {
        let field = |name: &HeaderName| {
            let mut values = headers.get_all(name).iter();
            match (values.next(), values.next()) {
                (None, _) => Ok(None),
                (Some(value), None) => match value.to_str() {
                    Ok(text) => Ok(Some(text.trim())),
                    Err(_) => bad(name, "is not plain text"),
                },
                (Some(_), Some(_)) => bad(name, "is there twice"),
            }
        };
        let content = field(&CONTENT_DIGEST)?.map(|text| {
            text.parse().or_else(|_| {
                bad(
                    &CONTENT_DIGEST,
                    "is not sha256: and 64 lower-case hexadecimal digits",
                )
            })
        });
        let size = field(&CONTENT_SIZE)?.map(|text| match text.parse() {
            Ok(size) if text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(size),
            _ => bad(&CONTENT_SIZE, "is not a number of bytes"),
        });
        Ok(Self {
            body: field(&BODY_DIGEST)?.map_or(Ok(None), body_digest)?,
            content: content.transpose()?,
            size: size.transpose()?,
        })
    }

    /// These claims and others, which must not contradict each other.
    ///
    /// # Errors
    /// When they do.
    pub fn and(self, other: Self) -> Result<Self, BadClaim> {
        fn one<T: PartialEq>(
            a: Option<T>,
            b: Option<T>,
            name: &HeaderName,
        ) -> Result<Option<T>, BadClaim> {
            match (a, b) {
                (Some(a), Some(b)) if a != b => {
                    bad(name, "says one thing as a header and another as a trailer")
                }
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

/// The SHA-256 among the digests of a `Content-Digest`; others are nothing that we could check.
fn body_digest(field: &str) -> Result<Option<Digest>, BadClaim> {
    let digests = field.split(',').map(str::trim);
    let mut ours = digests.filter_map(|digest| digest.strip_prefix("sha-256="));
    let Some(value) = ours.next() else {
        return Ok(None);
    };
    let bytes = value
        .strip_prefix(':')
        .and_then(|value| value.strip_suffix(':'))
        .and_then(|value| BASE64.decode(value).ok())
        .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    match (bytes, ours.next()) {
        (Some(bytes), None) => Ok(Some(bytes.into())),
        _ => bad(
            &BODY_DIGEST,
            "is not sha-256=:, 32 bytes in base64, and a colon",
        ),
    }
}

fn bad<T>(name: &HeaderName, problem: &'static str) -> Result<T, BadClaim> {
    Err(BadClaim {
        name: name.clone(),
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_as_they_are_written_and_in_no_other_way() {
        let digest = Digest::of(b"x");
        let (base64, hex) = (BASE64.encode(digest.as_bytes()), digest.hex());
        let read = |name: &'static str, values: &[&str]| {
            let value = |text: &&str| text.replace("B64", &base64).replace("HEX", &hex);
            let header = |text: String| HeaderValue::from_bytes(text.as_bytes()).unwrap();
            let mut headers = HeaderMap::new();
            for value in values.iter().map(value) {
                headers.append(name, header(value));
            }
            Claims::read(&headers).is_ok()
        };
        for (name, good, bad) in ::tests::rows![
            "content-digest", "sha-256=:B64:|sha-512=:eHg=:, sha-256=:B64:|sha-512=:eHg=:"
                => "sha-256=B64|sha-256=:B64|sha-256=:B64:, sha-256=:B64:|sha-256=:eHg=:";
            "rukpak-content-digest", "sha256:HEX" => "HEX|é";
            "rukpak-content-size", "10240" => "+1|-1|99999999999999999999";
        ] {
            for value in good.split('|') {
                assert!(read(name, &[value]), "{name}: {value}");
                assert!(!read(name, &[value, value]), "{name} twice");
            }
            for value in bad.split('|') {
                assert!(!read(name, &[value]), "{name}: {value}");
            }
        }
    }
}
