//! A sender that says and sends what a test wants.

use std::{fmt::Write as _, time::Duration};

use http::HeaderMap;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time,
};
use unpacker::{
    Digest,
    wire::{Claims, Problem},
};

use crate::receiver::Receiver;

/// How a body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// Well.
    Whole,
    /// The connection is closed in the middle of it.
    Cut,
    /// Nothing more comes, and the connection stays.
    Stop,
    /// The same comes again and again.
    Endless,
}

/// A request, byte by byte.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<(String, String)>,
    pub(crate) end: End,
}

impl Sender {
    /// A body without any claim.
    pub(crate) fn new(body: Vec<u8>) -> Self {
        let headers = [
            ("Content-Type", "application/gzip"),
            ("Transfer-Encoding", "chunked"),
        ];
        Self {
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .to_vec(),
            body,
            trailers: Vec::new(),
            end: End::Whole,
        }
    }

    /// A body with true claims about it.
    pub(crate) fn claiming(body: Vec<u8>, tar: &[u8]) -> Self {
        let claims = Claims {
            body: Some(Digest::of(&body)),
            content: Some(Digest::of(tar)),
            size: Some(tar.len() as u64),
        };
        let mut sender = Self::new(body);
        sender.trailers = lines(&claims.to_headers());
        sender
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Says something else, or nothing, in a trailer.
    pub(crate) fn trailer(mut self, name: &str, value: Option<&str>) -> Self {
        self.trailers.retain(|(known, _)| known != name);
        self.trailers
            .extend(value.map(|value| (name.to_owned(), value.to_owned())));
        self
    }

    pub(crate) fn end(mut self, end: End) -> Self {
        self.end = end;
        self
    }

    /// The status and the body of the answer, which must come within ten seconds; nothing if there is none.
    pub(crate) async fn send(self, receiver: &Receiver) -> Option<(u16, String)> {
        let stream = TcpStream::connect(receiver.address).await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        let end = self.end;
        let writing = tokio::spawn(async move {
            let mut text =
                String::from("PUT /content/x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n");
            for (name, value) in &self.headers {
                write!(text, "{name}: {value}\r\n").unwrap();
            }
            writer.write_all((text + "\r\n").as_bytes()).await?;
            loop {
                for chunk in self.body.chunks(1000) {
                    let size = format!("{:x}\r\n", chunk.len());
                    writer
                        .write_all(&[size.as_bytes(), chunk, b"\r\n"].concat())
                        .await?;
                }
                if end != End::Endless {
                    break;
                }
            }
            if end == End::Whole {
                let mut text = String::from("0\r\n");
                for (name, value) in &self.trailers {
                    write!(text, "{name}: {value}\r\n").unwrap();
                }
                writer.write_all((text + "\r\n").as_bytes()).await?;
            }
            if end == End::Cut {
                writer.shutdown().await?;
            }
            if end == End::Stop {
                std::future::pending::<()>().await;
            }
            Ok::<_, std::io::Error>(writer)
        });
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        // To the end of the answer alone: what is not read to its end may end with a reset.
        let read = async {
            while let Ok(count) = reader.read(&mut buffer).await
                && count > 0
            {
                answer.extend(&buffer[..count]);
                if is_whole(&answer) {
                    break;
                }
            }
        };
        time::timeout(Duration::from_secs(10), read)
            .await
            .expect("an answer, or an end");
        writing.abort();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((status, body.to_owned()))
    }

    /// It is refused, and nothing is left of it.
    pub(crate) async fn refused(
        self,
        receiver: &Receiver,
        status: u16,
        reason: &str,
        message: &str,
    ) {
        let before = receiver.kept();
        let told = format!("{:?} {:?}", self.headers, self.trailers);
        let (found, body) = self.send(receiver).await.expect("an answer");
        let problem: Problem = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (found, problem.reason.as_str()),
            (status, reason),
            "{told}: {body}"
        );
        assert!(
            problem.message.contains(message),
            "\n found {body}\nwanted {message}"
        );
        receiver.settled(before).await;
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return false;
    };
    let length = head.lines().find_map(|line| {
        line.to_ascii_lowercase()
            .strip_prefix("content-length: ")?
            .parse()
            .ok()
    });
    length.is_some_and(|length: usize| body.len() >= length)
}

fn lines(headers: &HeaderMap) -> Vec<(String, String)> {
    let line = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
        (name.to_string(), value.to_str().unwrap().to_owned())
    };
    headers.iter().map(line).collect()
}

impl Receiver {
    /// What is kept becomes as it was, once readers have learnt that nothing more comes.
    pub(crate) async fn settled(&self, kept: (usize, usize)) {
        let settled = async {
            while self.kept() != kept {
                tokio::task::yield_now().await;
            }
        };
        let settled = time::timeout(Duration::from_secs(10), settled).await;
        assert!(settled.is_ok(), "{:?} is kept, not {kept:?}", self.kept());
    }
}
