//! The pkt-line framing of the git protocol: four hexadecimal digits of length, followed by the data.

use bytes::{Buf as _, Bytes, BytesMut};
use futures::{StreamExt as _, stream::BoxStream};

use super::{
    error::{Problem, Result},
    ssh,
};
use crate::http_client;

/// Maximum length of a line, including its length prefix.
const MAX_LINE_LEN: usize = 65_520;

/// One frame of the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PktLine {
    Data(Bytes),
    /// The end of a list (flush packet).
    Flush,
    /// The end of a section (delimiter packet).
    Delimiter,
    /// The end of a response (response-end packet).
    End,
    /// The end of the stream.
    Eof,
}

/// A source of bytes from the server.
pub(super) enum ByteSource {
    Http(BoxStream<'static, http_client::Result<Bytes>>),
    Ssh(ssh::Reader),
}

/// A reader of frames with a limit on the received bytes.
pub(super) struct PktReader {
    input: ByteSource,
    buffer: BytesMut,
    remaining: u64,
    limit: u64,
    context: &'static str,
}

impl PktReader {
    pub(super) fn new(input: ByteSource) -> Self {
        Self {
            input,
            buffer: BytesMut::new(),
            remaining: 0,
            limit: 0,
            context: "",
        }
    }

    /// Continues with another source of bytes. Buffered bytes are discarded.
    pub(super) fn switch(&mut self, input: ByteSource) {
        self.input = input;
        self.buffer.clear();
    }

    /// Sets the number of bytes that may be received from now on. `context` names them in errors.
    pub(super) fn allow(&mut self, bytes: u64, context: &'static str) {
        (self.remaining, self.limit, self.context) = (bytes, bytes, context);
    }

    pub(super) async fn next(&mut self) -> Result<PktLine> {
        if !self.fill(4).await? {
            return if self.buffer.is_empty() {
                Ok(PktLine::Eof)
            } else {
                Err(Problem::Disconnected {
                    during: "within a line",
                })
            };
        }
        let head = self.buffer.split_to(4);
        let digits = head.iter().try_fold(0, |length, digit| {
            Some(length * 16 + char::from(*digit).to_digit(16)?)
        });
        let Some(length) = digits.and_then(|length| usize::try_from(length).ok()) else {
            return Err(Problem::NotGit {
                found: "the response is not in pkt-line format".to_owned(),
                media_type: String::new(),
            });
        };
        match length {
            0 => Ok(PktLine::Flush),
            1 => Ok(PktLine::Delimiter),
            2 => Ok(PktLine::End),
            4..=MAX_LINE_LEN => {
                let length = length - 4;
                if !self.fill(length).await? {
                    return Err(Problem::Disconnected {
                        during: "within a line",
                    });
                }
                let data = self.buffer.split_to(length).freeze();
                match data.strip_prefix(b"ERR ") {
                    Some(message) => Err(refused(message)),
                    None => Ok(PktLine::Data(data)),
                }
            }
            _ => Err(Problem::Protocol {
                problem: "a line has an invalid length",
            }),
        }
    }

    /// Returns the error for a server that sent nothing. Over ssh, standard error explains the reason.
    pub(super) fn remote_message(&self) -> Problem {
        match &self.input {
            ByteSource::Ssh(reader) => reader.remote_message(),
            ByteSource::Http(_) => Problem::Disconnected {
                during: "before the server sent anything",
            },
        }
    }

    /// Returns the next bytes without framing, or `None` at the end. Some servers send packs without frames.
    pub(super) async fn raw(&mut self) -> Result<Option<Bytes>> {
        if self.buffer.is_empty() && !self.fill(1).await? {
            return Ok(None);
        }
        Ok(Some(self.buffer.split().freeze()))
    }

    /// Waits until the buffer has `count` bytes. Returns false if the stream ends before.
    async fn fill(&mut self, count: usize) -> Result<bool> {
        while self.buffer.len() < count {
            let chunk = match &mut self.input {
                ByteSource::Http(stream) => stream.next().await.transpose()?,
                ByteSource::Ssh(reader) => reader.next().await?,
            };
            let Some(chunk) = chunk else {
                return Ok(false);
            };
            self.remaining = (self.remaining)
                .checked_sub(chunk.remaining() as u64)
                .ok_or(Problem::TooLarge {
                    resource: self.context,
                    limit: self.limit,
                })?;
            self.buffer.extend_from_slice(&chunk);
        }
        Ok(true)
    }
}

/// Converts a message of the server into an error, depending on its meaning.
pub(super) fn refused(message: &[u8]) -> Problem {
    let message = http_client::printable(&String::from_utf8_lossy(message), 300);
    let lower = message.to_ascii_lowercase();
    let is_hidden = ["not found", "does not exist", "does not appear", "no such"]
        .iter()
        .any(|phrase| lower.contains(phrase));
    // GitLab: "currently unable to handle this request due to load".
    let is_busy = lower.contains("due to load") || lower.contains("try again");
    if is_hidden {
        Problem::NotFound { said: message }
    } else if is_busy {
        Problem::AbortedByServer { said: message }
    } else {
        Problem::Refused { said: message }
    }
}

/// Writes a frame.
pub(super) fn write(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(format!("{:04x}{text}", text.len() + 4).as_bytes());
}

pub(super) const FLUSH: &[u8] = b"0000";
pub(super) const DELIMITER: &[u8] = b"0001";
