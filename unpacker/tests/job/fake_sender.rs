//! A sender of uploads that follows a row of a table.

use crate::*;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The body ends with its trailers.
    Whole,
    /// The connection is closed within the body.
    Cut,
    /// The body stops, and the connection is not closed.
    Stop,
    /// The same bytes repeat without end.
    Endless,
}

#[derive(Debug, Clone)]
pub(crate) struct Sender {
    headers: String,
    pub(crate) body: Vec<u8>,
    trailers: String,
    pub(crate) end: End,
}

impl Sender {
    /// Returns a request with a body and without claims.
    pub(crate) fn new(body: Vec<u8>) -> Self {
        let headers = "Content-Type: application/gzip\r\nTransfer-Encoding: chunked\r\n";
        Self {
            headers: headers.to_owned(),
            body,
            trailers: String::new(),
            end: End::Whole,
        }
    }

    /// Returns a request with a body and true claims.
    pub(crate) fn claiming(body: Vec<u8>, tar: &[u8]) -> Self {
        let (body_digest, content, size) =
            (Digest::sha256(&body), Digest::sha256(tar), tar.len() as u64);
        let claims = with!(DeclaredUpload::default() => body: Some(body_digest), content: Some(content), size: Some(size));
        let mut sender = Self::new(body);
        for (name, value) in &claims.to_headers() {
            let value = value.to_str().unwrap();
            write!(sender.trailers, "{name}: {value}\r\n").unwrap();
        }
        sender
    }

    /// Changes the request, in the order of a cell: `headers` repeats the claims as headers, `no-trailers`
    /// removes those of the end, `NAME:VALUE` sets a trailer or, with a capital, a header, and `NAME:` removes it; `cut`,
    /// `stop` and `endless` are ends. A `_` in a value is a space.
    pub(crate) fn changed(mut self, changes: &Cell) -> Self {
        for word in changes.text().split_whitespace() {
            match word {
                "headers" => self.headers += &self.trailers,
                "no-trailers" => self.trailers.clear(),
                "cut" => self.end = End::Cut,
                "stop" => self.end = End::Stop,
                "endless" => self.end = End::Endless,
                _ => {
                    let (name, value) = word.split_once(':').unwrap();
                    let is_header = name.starts_with(|first: char| first.is_ascii_uppercase());
                    let both = [&mut self.trailers, &mut self.headers];
                    let lines = &mut *both[usize::from(is_header)];
                    let others = lines.split_inclusive('\n');
                    let others = others.filter(|line| !line.starts_with(&format!("{name}: ")));
                    *lines = others.collect();
                    if !value.is_empty() {
                        lines.extend([name, ": ", &value.replace('_', " "), "\r\n"]);
                    }
                }
            }
        }
        self
    }

    /// Sends the request, and returns status and body of the response within ten seconds; `None` without a response.
    pub(crate) async fn send(self, receiver: &Receiver) -> Option<(u16, String)> {
        let stream = TcpStream::connect(&receiver.host).await.unwrap();
        let (mut reader, mut writer) = stream.into_split();
        let writing = tokio::spawn(async move {
            let head = "PUT /content/x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n";
            let head = format!("{head}{}\r\n", self.headers);
            writer.write_all(head.as_bytes()).await?;
            let is_chunked = self.headers.contains("chunked");
            loop {
                for bytes in self.body.chunks(1000) {
                    let size = format!("{:x}\r\n", bytes.len());
                    let chunk = [size.as_bytes(), bytes, b"\r\n"].concat();
                    let part = if is_chunked { &*chunk } else { bytes };
                    writer.write_all(part).await?;
                }
                if self.end != End::Endless {
                    break;
                }
            }
            match self.end {
                End::Whole if !is_chunked => {}
                End::Whole => {
                    let end = format!("0\r\n{}\r\n", self.trailers);
                    writer.write_all(end.as_bytes()).await?;
                }
                End::Cut => writer.shutdown().await?,
                End::Stop | End::Endless => std::future::pending::<()>().await,
            }
            Ok::<_, std::io::Error>(writer)
        });
        let mut answer = Vec::new();
        let mut buffer = [0; 4096];
        // Reads only the response: a connection with unread bytes may end with a reset.
        let read = async {
            while !is_whole(&answer)
                && let Ok(count @ 1..) = reader.read(&mut buffer).await
            {
                answer.extend(&buffer[..count]);
            }
        };
        let read = time::timeout(Duration::from_secs(10), read).await;
        read.expect("an answer, or an end");
        writing.abort();
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Some((status, body.to_owned()))
    }
}

fn is_whole(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer).to_ascii_lowercase();
    text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
        let mut lines = head.lines();
        let length = lines.find_map(|line| line.strip_prefix("content-length: "));
        length.is_some_and(|length| body.len() >= length.parse().unwrap())
    })
}
