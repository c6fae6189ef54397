//! Sending, again and again if need be.

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header, request, response};
use http_body_util::{BodyExt as _, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use manifests::object::is_unprintable;
use tokio::time::{self, Instant};

use super::{Address, Error, Load, Packed, connect, upload};
use crate::wire::{self, Accepted, Problem};

/// What an answer may have at most.
const ANSWER: usize = 64 << 10;
/// What of a message is kept: a termination message holds 4096 bytes, and there is more to say.
const MESSAGE: usize = 3000;
/// The first wait between two tries, and the longest that we choose.
const WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// The longest wait that a receiver may ask for.
const RETRY_AFTER: u64 = 120;

/// Who takes the archive, and how long that may take.
#[derive(Debug, Clone)]
pub struct Receiver {
    /// Where it is.
    pub address: Address,
    /// The file with the token, which is read for each try: tokens are renewed.
    pub token_file: Option<PathBuf>,
    /// The file with the certificates of authorities; the system's if there is none.
    pub ca_file: Option<PathBuf>,
    /// How often to try.
    pub tries: u32,
    /// How long all tries may take together.
    pub total: Duration,
    /// How long nothing may move.
    pub idle: Duration,
}

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// What the receiver has now.
    pub packed: Packed,
    /// Whether it had it before.
    pub known: bool,
    /// How often it took.
    pub tries: u32,
}

/// Sends until the receiver has it, refuses it, or the tries or the time are up. `told` hears of each try that
/// failed, and how long the wait for the next one is.
///
/// # Errors
/// When the receiver does not get it, or does not want it.
pub async fn send(
    load: &Arc<Load>,
    receiver: &Receiver,
    mut told: impl FnMut(&Error, u32, Duration),
) -> Result<Sent, Error> {
    let started = Instant::now();
    let end = started + receiver.total;
    let gave_up = |tries, source: Option<Error>| Error::GaveUp {
        tries,
        seconds: started.elapsed().as_secs(),
        source: source.map(Box::new),
    };
    let mut last = None;
    for tries in 1..=receiver.tries.max(1) {
        let error = match time::timeout_at(end, attempt(load, receiver)).await {
            Ok(Ok((packed, known))) => {
                return Ok(Sent {
                    packed,
                    known,
                    tries,
                });
            }
            Ok(Err(error)) if error.is_terminal() => return Err(error),
            Ok(Err(error)) => error,
            Err(_) => return Err(gave_up(tries, last)),
        };
        let wait = wait(&error, tries);
        if tries >= receiver.tries || Instant::now() + wait >= end {
            return Err(gave_up(tries, Some(error)));
        }
        told(&error, tries, wait);
        time::sleep(wait).await;
        last = Some(error);
    }
    Err(gave_up(receiver.tries, last))
}

/// Twice as long each time, with the lower half certain and the upper half by chance, so that many Jobs do not come
/// back at once; or what the receiver says.
fn wait(error: &Error, tries: u32) -> Duration {
    if let Error::Unavailable {
        after: Some(seconds),
        ..
    } = error
    {
        return Duration::from_secs((*seconds).min(RETRY_AFTER))
            .mul_f64(1.0 + fastrand::f64() / 4.0);
    }
    let (first, longest) = WAIT;
    let doubled = first.saturating_mul(2_u32.saturating_pow(tries.saturating_sub(1)));
    doubled.min(longest).mul_f64(0.5 + fastrand::f64() / 2.0)
}

/// One connection, one request, one answer.
async fn attempt(load: &Arc<Load>, receiver: &Receiver) -> Result<(Packed, bool), Error> {
    let address = &receiver.address;
    let broken = |source| Error::Broken {
        to: address.shown().to_owned(),
        source,
    };
    let request = request(receiver)?;
    let stream = connect::connect(address, receiver.ca_file.as_deref()).await?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(broken)?;
    let (body, made) = upload::start(Arc::clone(load));
    let movement = body.movement();
    let request = request.body(body).map_err(|_| Error::Address {
        text: address.authority.clone(),
        problem: "makes no request",
    })?;
    // The connection reads and writes by itself, so that an answer before the end of the body is seen.
    let mut connection = Connection(tokio::spawn(connection));
    let exchange = async {
        let sent = sender.send_request(request).await;
        let (head, body) = sent.map_err(broken)?.into_parts();
        let body = match Limited::new(body, ANSWER).collect().await {
            Ok(body) => body.to_bytes(),
            // Half an answer is none: what it would have been, only another try can tell.
            Err(error) => match error.downcast() {
                Ok(error) => return Err(broken(*error)),
                Err(_) => Bytes::new(), // a longer one than any receiver gives
            },
        };
        Ok((head, body))
    };
    let answered = tokio::select! {
        answered = exchange => answered,
        () = movement.end(receiver.idle) => Err(Error::Silent {
            to: address.shown().to_owned(),
            after: receiver.idle,
        }),
    };
    // Ends the body as well, and with it the making of the archive.
    connection.close().await;
    let made = made.await.unwrap_or_else(|error| {
        Err(Error::Write {
            source: io::Error::other(error),
        })
    });
    let (head, body) = match (answered, &made) {
        (Err(_), Err(error)) if !is_gone(error) => return made.map(|packed| (packed, false)),
        (answered, _) => answered?,
    };
    let answer = Answer {
        to: address.shown(),
        head,
        body,
    };
    answer.judge(made)
}

/// Whether the archive was not finished since nobody wanted more of it.
fn is_gone(error: &Error) -> bool {
    matches!(error, Error::Write { source } if source.kind() == io::ErrorKind::BrokenPipe)
}

/// Ends with its owner.
struct Connection(tokio::task::JoinHandle<hyper::Result<()>>);

impl Connection {
    async fn close(&mut self) {
        self.0.abort();
        let _ = (&mut self.0).await; // it was told to end
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
        .header(header::CONTENT_TYPE, wire::CONTENT_TYPE)
        .header(header::TRAILER, wire::TRAILERS);
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
            return Err(invalid("it is empty"));
        }
        let mut value = HeaderValue::try_from(format!("Bearer {}", token.trim()))
            .map_err(|_| invalid("it holds what no token holds"))?;
        value.set_sensitive(true);
        request = request.header(header::AUTHORIZATION, value);
    }
    Ok(request)
}

// === Answers ===

struct Answer<'a> {
    to: &'a str,
    head: response::Parts,
    body: Bytes,
}

impl Answer<'_> {
    fn judge(&self, made: Result<Packed, Error>) -> Result<(Packed, bool), Error> {
        let to = self.to.to_owned();
        let status = self.head.status;
        let unusable = |problem: String| Error::Answer {
            to: self.to.to_owned(),
            problem,
        };
        match status {
            StatusCode::OK | StatusCode::CREATED => {
                let packed = made.map_err(|error| {
                    if is_gone(&error) {
                        unusable(format!("{status} before it had everything"))
                    } else {
                        error
                    }
                })?;
                let accepted: Accepted = serde_json::from_slice(&self.body)
                    .map_err(|_| unusable(format!("{status} without the digest of the content")))?;
                let ours = packed.digest.to_string();
                if accepted.digest != ours {
                    let theirs = clean(&accepted.digest, 100);
                    return Err(unusable(format!("it says {theirs} and we sent {ours}")));
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
            status if status.is_redirection() => Err(unusable(format!(
                "{status}, and redirects are not followed, for the token is for this host alone"
            ))),
            status => Err(unusable(status.to_string())),
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

    /// What the receiver says; something in front of it may have said something else.
    fn problem(&self) -> Problem {
        let said: Option<Problem> = serde_json::from_slice(&self.body).ok();
        match said {
            Some(Problem { reason, message }) => Problem {
                reason: clean(&reason, 64),
                message: clean(&message, MESSAGE),
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

/// Whole characters that can be shown on one line, and so many bytes of them at most.
fn clean(text: &str, most: usize) -> String {
    let mut clean = String::new();
    for character in text.chars() {
        let shown = if is_unprintable(character) {
            ' '
        } else {
            character
        };
        if clean.len() + shown.len_utf8() > most {
            break;
        }
        clean.push(shown);
    }
    clean.truncate(clean.trim_end().len());
    clean
}
