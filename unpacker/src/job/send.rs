//! Upload with retries.

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header, request, response};
use http_body_util::{BodyExt as _, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use manifests::object::is_unprintable;
use tokio::time::{self, Instant};

use super::{Address, Error, Packed, Payload, connect, upload};
use crate::transfer::{self, Accepted, Problem};

/// Maximum size of a response in bytes.
const MAX_RESPONSE: usize = 64 << 10;
/// Maximum length of a message in bytes. A termination message has 4096 bytes and contains more than this message.
const MAX_MESSAGE_LEN: usize = 3000;
/// Initial and maximum delay between two attempts.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// Maximum delay in seconds that a receiver may request.
const MAX_RETRY_AFTER: u64 = 120;

/// The receiver of the archive, and the limits for the upload.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// URL of the receiver.
    pub address: Address,
    /// File with the token. It is read for each attempt, because tokens are renewed.
    pub token_file: Option<PathBuf>,
    /// File with the CA certificates; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// Maximum number of attempts.
    pub attempts: u32,
    /// Timeout of all attempts together.
    pub total: Duration,
    /// Timeout without any transferred data.
    pub idle: Duration,
}

/// The result of a successful upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendReport {
    /// Archive that the receiver has now.
    pub packed: Packed,
    /// Whether the receiver already had the content.
    pub already_stored: bool,
    /// Number of attempts.
    pub attempts: u32,
}

/// Uploads until the receiver has the content or rejects it, or until the attempts or the time are used up.
/// `on_retry` is called after each failed attempt, with its number and the delay before the next one.
///
/// # Errors
/// Returns an error if the receiver does not get or does not accept the content.
pub async fn send(
    load: &Arc<Payload>,
    receiver: &Receiver,
    mut on_retry: impl FnMut(&Error, u32, Duration),
) -> Result<SendReport, Error> {
    let started = Instant::now();
    let deadline = started + receiver.total;
    let gave_up = |attempts, source: Option<Error>| Error::RetriesExhausted {
        tries: attempts,
        seconds: started.elapsed().as_secs(),
        source: source.map(Box::new),
    };
    let mut last = None;
    for attempt_number in 1..=receiver.attempts.max(1) {
        let error = match time::timeout_at(deadline, attempt(load, receiver)).await {
            Ok(Ok((packed, known))) => {
                return Ok(SendReport {
                    packed,
                    already_stored: known,
                    attempts: attempt_number,
                });
            }
            Ok(Err(error)) if error.is_terminal() => return Err(error),
            Ok(Err(error)) => error,
            Err(_) => return Err(gave_up(attempt_number, last)),
        };
        let delay = retry_delay(&error, attempt_number);
        if attempt_number >= receiver.attempts || Instant::now() + delay >= deadline {
            return Err(gave_up(attempt_number, Some(error)));
        }
        on_retry(&error, attempt_number, delay);
        time::sleep(delay).await;
        last = Some(error);
    }
    Err(gave_up(receiver.attempts, last))
}

/// Returns the delay before the next attempt. It doubles with each attempt and is shortened randomly by up to half,
/// so that many Jobs do not retry at once. A delay that the receiver requests takes precedence.
fn retry_delay(error: &Error, attempts: u32) -> Duration {
    if let Error::Unavailable {
        after: Some(seconds),
        ..
    } = error
    {
        return Duration::from_secs((*seconds).min(MAX_RETRY_AFTER))
            .mul_f64(1.0 + fastrand::f64() / 4.0);
    }
    let (first, max) = RETRY_DELAYS;
    let doubled = first.saturating_mul(2_u32.saturating_pow(attempts.saturating_sub(1)));
    doubled.min(max).mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// Performs one attempt: one connection, one request and one response.
async fn attempt(load: &Arc<Payload>, receiver: &Receiver) -> Result<(Packed, bool), Error> {
    let address = &receiver.address;
    let broken = |source| Error::Broken {
        to: address.host_and_port().to_owned(),
        source,
    };
    let request = request(receiver)?;
    let stream = connect::connect(address, receiver.ca_file.as_deref()).await?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(broken)?;
    let (body, archive) = upload::start(Arc::clone(load));
    let progress = body.progress();
    let request = request.body(body).map_err(|_| Error::Address {
        text: address.authority.clone(),
        problem: "is not a valid request target",
    })?;
    // The connection runs in its own task, so that a response before the end of the body is noticed.
    let mut connection = Connection(tokio::spawn(connection));
    let exchange = async {
        let response = sender.send_request(request).await;
        let (head, body) = response.map_err(broken)?.into_parts();
        let body = match Limited::new(body, MAX_RESPONSE).collect().await {
            Ok(body) => body.to_bytes(),
            // A truncated response cannot be interpreted; the next attempt returns another one.
            Err(error) => match error.downcast() {
                Ok(error) => return Err(broken(*error)),
                Err(_) => Bytes::new(), // longer than any response of a receiver
            },
        };
        Ok((head, body))
    };
    let result = tokio::select! {
        result = exchange => result,
        () = progress.wait_until_idle(receiver.idle) => Err(Error::Stalled {
            to: address.host_and_port().to_owned(),
            after: receiver.idle,
        }),
    };
    // Aborting the connection also ends the body, and with it the creation of the archive.
    connection.close().await;
    let archive = archive.await.unwrap_or_else(|error| {
        Err(Error::Write {
            source: io::Error::other(error),
        })
    });
    let (head, body) = match (result, &archive) {
        (Err(_), Err(error)) if !is_closed(error) => return archive.map(|packed| (packed, false)),
        (result, _) => result?,
    };
    let response = Response {
        to: address.host_and_port(),
        head,
        body,
    };
    response.classify(archive)
}

/// Reports whether the archive is incomplete only because the connection was closed.
fn is_closed(error: &Error) -> bool {
    matches!(error, Error::Write { source } if source.kind() == io::ErrorKind::BrokenPipe)
}

/// A connection task that is aborted on drop.
struct Connection(tokio::task::JoinHandle<hyper::Result<()>>);

impl Connection {
    async fn close(&mut self) {
        self.0.abort();
        let _ = (&mut self.0).await; // it was aborted
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn request(receiver: &Receiver) -> Result<request::Builder, Error> {
    let address = &receiver.address;
    let mut request = Request::builder()
        .method(Method::PUT)
        .uri(&address.path)
        .header(header::HOST, &address.authority)
        .header(
            header::USER_AGENT,
            concat!("rukpak-unpack/", env!("CARGO_PKG_VERSION")),
        )
        .header(header::CONTENT_TYPE, transfer::CONTENT_TYPE)
        .header(header::TRAILER, transfer::TRAILERS);
    if let Some(path) = &receiver.token_file {
        let failed = |source| Error::Configuration {
            what: "the token in",
            path: path.clone(),
            flag: "--token-file",
            source,
        };
        let token = fs::read_to_string(path).map_err(failed)?;
        let invalid = |problem: &str| failed(io::Error::new(io::ErrorKind::InvalidData, problem));
        if token.trim().is_empty() {
            return Err(invalid("the file is empty"));
        }
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
            .map_err(|_| invalid("the token has invalid characters"))?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    Ok(request)
}

// === Response ===

struct Response<'a> {
    to: &'a str,
    head: response::Parts,
    body: Bytes,
}

impl Response<'_> {
    fn classify(&self, archive: Result<Packed, Error>) -> Result<(Packed, bool), Error> {
        let to = self.to.to_owned();
        let status = self.head.status;
        let invalid = |problem: String| Error::InvalidResponse {
            to: self.to.to_owned(),
            problem,
        };
        match status {
            StatusCode::OK | StatusCode::CREATED => {
                let packed = archive.map_err(|error| {
                    if is_closed(&error) {
                        invalid(format!("{status} before the end of the upload"))
                    } else {
                        error
                    }
                })?;
                let accepted: Accepted = serde_json::from_slice(&self.body)
                    .map_err(|_| invalid(format!("{status} without the digest of the content")))?;
                let sent = packed.digest.to_string();
                if accepted.digest != sent {
                    let received = clean(&accepted.digest, 100);
                    return Err(invalid(format!(
                        "the reported digest {received} differs from the sent digest {sent}"
                    )));
                }
                Ok((packed, status == StatusCode::OK))
            }
            StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS => self.unavailable(),
            status if status.is_server_error() => self.unavailable(),
            status if status.is_client_error() => {
                let Problem { reason, message } = self.problem();
                Err(Error::Refused {
                    to,
                    status: status.as_u16(),
                    reason,
                    message,
                })
            }
            status if status.is_redirection() => Err(invalid(format!(
                "{status}, but redirects are not followed because the token is only for this host"
            ))),
            status => Err(invalid(status.to_string())),
        }
    }

    fn unavailable<T>(&self) -> Result<T, Error> {
        let after = self.head.headers.get(header::RETRY_AFTER);
        Err(Error::Unavailable {
            to: self.to.to_owned(),
            status: self.head.status.as_u16(),
            message: self.problem().message,
            after: after.and_then(|after| after.to_str().ok()?.trim().parse().ok()),
        })
    }

    /// Returns the problem that the receiver reports. A proxy in front of it may send other texts.
    fn problem(&self) -> Problem {
        let problem: Option<Problem> = serde_json::from_slice(&self.body).ok();
        match problem {
            Some(Problem { reason, message }) => Problem {
                reason: clean(&reason, 64),
                message: clean(&message, MAX_MESSAGE_LEN),
            },
            None => Problem {
                reason: "UploadRefused".to_owned(),
                message: clean(
                    &format!(
                        "{} {}",
                        self.head.status,
                        String::from_utf8_lossy(&self.body)
                    ),
                    200,
                ),
            },
        }
    }
}

/// Replaces unprintable characters, and truncates the text to `limit` bytes at a character boundary.
fn clean(text: &str, limit: usize) -> String {
    let mut clean = String::new();
    for character in text.chars() {
        let printable = if is_unprintable(character) {
            ' '
        } else {
            character
        };
        if clean.len() + printable.len_utf8() > limit {
            break;
        }
        clean.push(printable);
    }
    clean.truncate(clean.trim_end().len());
    clean
}
