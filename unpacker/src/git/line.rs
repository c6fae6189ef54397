//! The frames in which git sends everything: four hexadecimal digits of length, then that many bytes.

use bytes::{Buf as _, Bytes, BytesMut};
use futures::{StreamExt as _, stream::BoxStream};

use super::{
    error::{Problem, Result},
    ssh,
};
use crate::web;

/// No line is longer, its length included.
const LONGEST: usize = 65_520;

/// One frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Data(Bytes),
    /// The end of a list.
    Flush,
    /// The end of a section.
    Delimiter,
    /// The end of an answer.
    End,
    /// Nothing more will come.
    Eof,
}

/// Where bytes come from.
pub(super) enum Input {
    Http(BoxStream<'static, web::Result<Bytes>>),
    Ssh(ssh::Reader),
}

/// Reads frame by frame, and never more than it may.
pub(super) struct Lines {
    input: Input,
    buffer: BytesMut,
    left: u64,
    limit: u64,
    what: &'static str,
}

impl Lines {
    pub(super) fn new(input: Input) -> Self {
        Self {
            input,
            buffer: BytesMut::new(),
            left: 0,
            limit: 0,
            what: "",
        }
    }

    /// Goes on with another source of bytes.
    pub(super) fn switch(&mut self, input: Input) {
        self.input = input;
        self.buffer.clear();
    }

    /// How many bytes may come from here on.
    pub(super) fn allow(&mut self, bytes: u64, what: &'static str) {
        (self.left, self.limit, self.what) = (bytes, bytes, what);
    }

    pub(super) async fn next(&mut self) -> Result<Line> {
        if !self.fill(4).await? {
            return if self.buffer.is_empty() {
                Ok(Line::Eof)
            } else {
                Err(Problem::CutShort {
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
                found: "it answers with something else than git's lines".to_owned(),
                media_type: String::new(),
            });
        };
        match length {
            0 => Ok(Line::Flush),
            1 => Ok(Line::Delimiter),
            2 => Ok(Line::End),
            4..=LONGEST => {
                let length = length - 4;
                if !self.fill(length).await? {
                    return Err(Problem::CutShort {
                        during: "within a line",
                    });
                }
                let data = self.buffer.split_to(length).freeze();
                match data.strip_prefix(b"ERR ") {
                    Some(said) => Err(refused(said)),
                    None => Ok(Line::Data(data)),
                }
            }
            _ => Err(Problem::Protocol {
                problem: "a line has an impossible length",
            }),
        }
    }

    /// Why a server that was to talk over ssh says nothing.
    pub(super) fn last_words(&self) -> Problem {
        match &self.input {
            Input::Ssh(reader) => reader.last_words(),
            Input::Http(_) => Problem::CutShort {
                during: "before the server said anything",
            },
        }
    }

    /// What comes next, whatever it is: for packs without frames. `None` at the end.
    pub(super) async fn raw(&mut self) -> Result<Option<Bytes>> {
        if self.buffer.is_empty() && !self.fill(1).await? {
            return Ok(None);
        }
        Ok(Some(self.buffer.split().freeze()))
    }

    /// Whether this many bytes are there, after waiting for them.
    async fn fill(&mut self, count: usize) -> Result<bool> {
        while self.buffer.len() < count {
            let part = match &mut self.input {
                Input::Http(stream) => stream.next().await.transpose()?,
                Input::Ssh(reader) => reader.next().await?,
            };
            let Some(part) = part else {
                return Ok(false);
            };
            self.left =
                (self.left)
                    .checked_sub(part.remaining() as u64)
                    .ok_or(Problem::TooLarge {
                        what: self.what,
                        limit: self.limit,
                    })?;
            self.buffer.extend_from_slice(&part);
        }
        Ok(true)
    }
}

/// A message of the server as an error, with what is known of its meaning.
pub(super) fn refused(said: &[u8]) -> Problem {
    let said = web::printable(&String::from_utf8_lossy(said), 300);
    let lower = said.to_ascii_lowercase();
    let is_hidden = ["not found", "does not exist", "does not appear", "no such"]
        .iter()
        .any(|words| lower.contains(words));
    if is_hidden {
        Problem::NotFound { said }
    } else {
        Problem::Refused { said }
    }
}

/// Writes a frame.
pub(super) fn write(to: &mut Vec<u8>, text: &str) {
    to.extend_from_slice(format!("{:04x}{text}", text.len() + 4).as_bytes());
}

pub(super) const FLUSH: &[u8] = b"0000";
pub(super) const DELIMITER: &[u8] = b"0001";
