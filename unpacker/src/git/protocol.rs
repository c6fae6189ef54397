//! The dialogue with a git server, in version 2 of the protocol or an older one.

use bytes::Bytes;
use tokio::sync::mpsc::Sender;

use super::{
    error::{Problem, Result},
    object_id::ObjectId,
    pkt_line::{self, ByteSource, DELIMITER, FLUSH, PktLine, PktReader},
    refs::Refs,
    smart_http::SmartHttp,
    ssh,
};
use crate::{Progress, http_client::printable};

const AGENT: &str = concat!("agent=rukpak-rs/", env!("CARGO_PKG_VERSION"));
/// Maximum number of bytes in the list of branches and tags.
const MAX_LIST_SIZE: u64 = 32 << 20;
/// Maximum number of bytes that may accompany a pack, such as progress messages.
const MAX_SIDEBAND: u64 = 8 << 20;

/// A connection to a server whose greeting was read.
pub(super) struct GitConnection {
    lines: PktReader,
    transport: Transport,
    version: Version,
    /// Capabilities that the server announced.
    capabilities: Vec<String>,
    /// Branches and tags, which servers of older versions list without a request.
    listed: Option<Refs>,
}

/// The transport of the connection.
pub(super) enum Transport {
    Http(SmartHttp),
    Ssh(ssh::Writer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// Versions 0 and 1, which differ only in one line.
    V0,
    V2,
}

/// The extent of the history to fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// Only the requested commits.
    Shallow,
    /// The requested commits and all their ancestors.
    All,
}

impl GitConnection {
    /// Reads the greeting of a server.
    pub(super) async fn connect(transport: Transport, input: ByteSource) -> Result<Self> {
        let mut connection = Self {
            lines: PktReader::new(input),
            transport,
            version: Version::V0,
            capabilities: Vec::new(),
            listed: None,
        };
        connection
            .lines
            .allow(MAX_LIST_SIZE, "its branches and tags");
        let mut first = connection.lines.next().await?;
        if matches!(&first, PktLine::Data(line) if line.starts_with(b"# service=")) {
            if connection.lines.next().await? != PktLine::Flush {
                return Err(GREETING);
            }
            first = connection.lines.next().await?;
        }
        match &first {
            PktLine::Eof => return Err(connection.silence()),
            PktLine::Data(line) if trimmed(line) == b"version 2" => {
                connection.version = Version::V2;
                while let PktLine::Data(line) = connection.lines.next().await? {
                    connection.capabilities.push(text(&line));
                    if connection.capabilities.len() > 100 {
                        return Err(GREETING);
                    }
                }
            }
            PktLine::Data(line) if trimmed(line) == b"version 1" => {
                let first = connection.lines.next().await?;
                connection.list(first).await?;
            }
            _ => connection.list(first).await?,
        }
        let formats = connection
            .capabilities
            .iter()
            .filter_map(|capability| capability.strip_prefix("object-format="));
        if formats.clone().count() > 0 && formats.clone().all(|format| format != "sha1") {
            return Err(Problem::Sha256);
        }
        Ok(connection)
    }

    /// Returns the error for a server that sent nothing. Over ssh, standard error explains the reason.
    fn silence(&self) -> Problem {
        match &self.transport {
            Transport::Http(_) => Problem::NotGit {
                found: "empty response".to_owned(),
                media_type: String::new(),
            },
            Transport::Ssh(_) => self.lines.remote_message(),
        }
    }

    /// Reads the branches and tags that a server of an older version lists.
    async fn list(&mut self, first: PktLine) -> Result<()> {
        let mut refs = Refs::default();
        let mut next = first;
        let mut is_first = true;
        while let PktLine::Data(line) = next {
            let line = trimmed(&line).to_vec();
            let mut parts = line.splitn(2, |byte| *byte == 0);
            let head = parts.next().unwrap_or_default();
            if is_first {
                let capabilities = String::from_utf8_lossy(parts.next().unwrap_or_default());
                self.capabilities = capabilities
                    .split(' ')
                    .take(100)
                    .map(str::to_owned)
                    .collect();
            }
            let (id, name) = split(head);
            match ObjectId::from_hex(id) {
                // A repository without commits lists this single entry, which is not a reference.
                Some(_) if name == b"capabilities^{}" => {}
                Some(id) => refs.add(name, id, None)?,
                None if id == b"shallow" => {}
                None => return Err(GREETING),
            }
            is_first = false;
            next = self.lines.next().await?;
        }
        if next != PktLine::Flush {
            return Err(Problem::Disconnected {
                during: "before all branches and tags were listed",
            });
        }
        self.listed = Some(refs);
        Ok(())
    }

    /// Returns the branches and tags whose names start with one of the prefixes, and possibly more.
    pub(super) async fn refs(&mut self, prefixes: &[String]) -> Result<Refs> {
        if self.version == Version::V0 {
            return Ok(self.listed.take().unwrap_or_default());
        }
        let mut body = Vec::new();
        pkt_line::write(&mut body, "command=ls-refs\n");
        pkt_line::write(&mut body, AGENT);
        body.extend_from_slice(DELIMITER);
        pkt_line::write(&mut body, "peel\n");
        for prefix in prefixes {
            pkt_line::write(&mut body, &format!("ref-prefix {prefix}\n"));
        }
        body.extend_from_slice(FLUSH);
        self.request(body, MAX_LIST_SIZE, "its branches and tags")
            .await?;
        let mut refs = Refs::default();
        loop {
            match self.lines.next().await? {
                PktLine::Data(line) => {
                    let (id, rest) = split(trimmed(&line));
                    let (name, more) = split(rest);
                    let mut more = more.split(|byte| *byte == b' ');
                    let peeled =
                        more.find_map(|word| ObjectId::from_hex(word.strip_prefix(b"peeled:")?));
                    match ObjectId::from_hex(id) {
                        Some(id) => refs.add(name, id, peeled)?,
                        None if id == b"unborn" => {}
                        None => {
                            return Err(Problem::Protocol {
                                problem: "a branch has no hash",
                            });
                        }
                    }
                }
                PktLine::Flush => return Ok(refs),
                _ => {
                    return Err(Problem::Disconnected {
                        during: "before all branches and tags were listed",
                    });
                }
            }
        }
    }

    /// Reports whether the server always lists all branches and tags.
    pub(super) fn is_listed(&self) -> bool {
        self.version == Version::V0
    }

    /// Reports whether the server accepts requests for commits that no branch or tag points to.
    pub(super) fn allows_any_object(&self) -> bool {
        self.version == Version::V2
            || self.has_capability("allow-tip-sha1-in-want")
            || self.has_capability("allow-reachable-sha1-in-want")
    }

    /// Reports whether a rejected request for a commit means that the commit does not exist. With version 2, git
    /// itself sends any object.
    pub(super) fn is_final(&self) -> bool {
        self.version == Version::V2
            && self
                .capabilities
                .iter()
                .any(|capability| capability.starts_with("agent=git/"))
    }

    /// Requests commits, and sends their pack to a channel.
    pub(super) async fn fetch(
        &mut self,
        wants: &[ObjectId],
        depth: Depth,
        limit: u64,
        to: Sender<Bytes>,
        progress: &Progress,
    ) -> Result<()> {
        let body = match self.version {
            Version::V2 => self.fetch_body_v2(wants, depth),
            Version::V0 => self.fetch_body_v0(wants, depth),
        };
        // The limit allows an eighth for framing, although the server chooses the frame sizes.
        let limit = limit.saturating_add(limit / 8).saturating_add(MAX_SIDEBAND);
        let mut sideband = MAX_SIDEBAND;
        self.request(body, limit, "the bytes to transfer").await?;
        let is_framed = match self.version {
            Version::V2 => self.skip_to_pack().await.map(|()| true)?,
            Version::V0 => {
                self.skip_to_answer().await?;
                self.has_capability("side-band-64k")
            }
        };
        while let Some(bytes) = if is_framed {
            self.band(&mut sideband).await?
        } else {
            self.lines.raw().await?
        } {
            progress.add(bytes.len() as u64);
            // The reader of the pack stopped and returns the reason.
            if to.send(bytes).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn fetch_body_v2(&self, wants: &[ObjectId], depth: Depth) -> Vec<u8> {
        let mut body = Vec::new();
        pkt_line::write(&mut body, "command=fetch");
        pkt_line::write(&mut body, AGENT);
        body.extend_from_slice(DELIMITER);
        pkt_line::write(&mut body, "no-progress");
        pkt_line::write(&mut body, "ofs-delta");
        let fetch = self
            .capabilities
            .iter()
            .find_map(|capability| capability.strip_prefix("fetch="));
        let is_shallow = fetch.is_some_and(|fetch| fetch.split(' ').any(|word| word == "shallow"));
        if depth == Depth::Shallow && is_shallow {
            pkt_line::write(&mut body, "deepen 1");
        }
        for want in wants {
            pkt_line::write(&mut body, &format!("want {want}\n"));
        }
        pkt_line::write(&mut body, "done\n");
        body.extend_from_slice(FLUSH);
        body
    }

    fn fetch_body_v0(&self, wants: &[ObjectId], depth: Depth) -> Vec<u8> {
        let mut body = Vec::new();
        let supported = ["side-band-64k", "ofs-delta", "no-progress"];
        let mut capabilities: Vec<&str> = supported
            .into_iter()
            .filter(|word| self.has_capability(word))
            .collect();
        capabilities.push(AGENT);
        let mut extra = format!(" {}", capabilities.join(" "));
        for want in wants {
            pkt_line::write(&mut body, &format!("want {want}{extra}\n"));
            extra.clear();
        }
        if depth == Depth::Shallow && self.has_capability("shallow") {
            pkt_line::write(&mut body, "deepen 1");
        }
        body.extend_from_slice(FLUSH);
        pkt_line::write(&mut body, "done\n");
        body
    }

    /// Skips the sections of version 2 before the pack.
    async fn skip_to_pack(&mut self) -> Result<()> {
        loop {
            match self.lines.next().await? {
                PktLine::Data(line) if trimmed(&line) == b"packfile" => return Ok(()),
                PktLine::Data(_) | PktLine::Delimiter => {}
                PktLine::Flush | PktLine::End => return Err(NO_PACK),
                PktLine::Eof => return Err(BEFORE_PACK),
            }
        }
    }

    /// Skips the lines of older versions before the pack: the shallow commits, and the acknowledgment.
    async fn skip_to_answer(&mut self) -> Result<()> {
        loop {
            match self.lines.next().await? {
                PktLine::Data(line) if line.starts_with(b"NAK") || line.starts_with(b"ACK ") => {
                    return Ok(());
                }
                PktLine::Data(line)
                    if line.starts_with(b"shallow ") || line.starts_with(b"unshallow ") => {}
                PktLine::Flush => {}
                PktLine::Eof => return Err(BEFORE_PACK),
                _ => return Err(NO_PACK),
            }
        }
    }

    /// Returns the next bytes of the pack. Progress messages are skipped, and error messages are returned as errors.
    async fn band(&mut self, sideband: &mut u64) -> Result<Option<Bytes>> {
        loop {
            match self.lines.next().await? {
                PktLine::Data(mut line) => match line.first() {
                    Some(1) => return Ok(Some(line.split_off(1))),
                    Some(2) => {
                        let size = line.len() as u64;
                        *sideband = sideband.checked_sub(size).ok_or(Problem::TooLarge {
                            resource: "its progress messages",
                            limit: MAX_SIDEBAND,
                        })?;
                    }
                    Some(3) => {
                        let message = String::from_utf8_lossy(&line.split_off(1)).into_owned();
                        let message = printable(&message, 300);
                        return Err(Problem::AbortedByServer { said: message });
                    }
                    _ => {
                        return Err(Problem::Protocol {
                            problem: "a part of the pack has no sideband",
                        });
                    }
                },
                PktLine::Flush | PktLine::End => return Ok(None),
                PktLine::Delimiter => return Err(NO_PACK),
                PktLine::Eof => {
                    return Err(Problem::Disconnected {
                        during: "within the pack",
                    });
                }
            }
        }
    }

    async fn request(&mut self, body: Vec<u8>, limit: u64, context: &'static str) -> Result<()> {
        match &mut self.transport {
            Transport::Http(http) => {
                let input = http.post(body.into(), self.version == Version::V2).await?;
                self.lines.switch(input);
            }
            Transport::Ssh(writer) => writer.send(body).await?,
        }
        self.lines.allow(limit, context);
        Ok(())
    }

    /// Ends the connection, so that the server does not log it as broken.
    pub(super) async fn end(self) {
        if let Transport::Ssh(writer) = self.transport {
            writer.end().await;
        }
    }

    fn has_capability(&self, word: &str) -> bool {
        self.capabilities
            .iter()
            .any(|capability| capability == word)
    }
}

const GREETING: Problem = Problem::Protocol {
    problem: "the greeting is malformed",
};

const NO_PACK: Problem = Problem::Protocol {
    problem: "the response has no pack",
};

const BEFORE_PACK: Problem = Problem::Disconnected {
    during: "before the pack",
};

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(trimmed(line)).into_owned()
}

/// Splits a line at the first space.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let at = line.iter().position(|byte| *byte == b' ');
    let (head, rest) = line
        .split_at_checked(at.unwrap_or(line.len()))
        .unwrap_or_default();
    (head, rest.get(1..).unwrap_or_default())
}
