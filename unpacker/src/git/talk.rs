//! What is said to a server, in the protocol's version 2 or the ones before it.

use bytes::Bytes;
use tokio::sync::mpsc::Sender;

use super::{
    error::{Problem, Result},
    id::Id,
    line::{self, DELIMITER, FLUSH, Input, Line, Lines},
    refs::Refs,
    smart::Smart,
    ssh,
};
use crate::{Progress, web::printable};

const AGENT: &str = concat!("agent=rukpak-rs/", env!("CARGO_PKG_VERSION"));
/// Bytes in which a server lists its branches and tags.
const LISTED: u64 = 32 << 20;
/// What else may come along with a pack: progress.
const BESIDE: u64 = 8 << 20;

/// A server that has greeted us.
pub(super) struct Talk {
    lines: Lines,
    way: Way,
    version: Version,
    /// What it can do, as it says it.
    can: Vec<String>,
    /// What the older versions list without being asked.
    listed: Option<Refs>,
}

/// How the server is reached.
pub(super) enum Way {
    Http(Smart),
    Ssh(ssh::Writer),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    /// One and zero differ in one line.
    Old,
    Two,
}

/// How much of the history is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// The commits that are asked for alone.
    One,
    /// All that led to them.
    All,
}

impl Talk {
    /// Reads a server's greeting.
    pub(super) async fn begin(way: Way, input: Input) -> Result<Self> {
        let mut talk = Self {
            lines: Lines::new(input),
            way,
            version: Version::Old,
            can: Vec::new(),
            listed: None,
        };
        talk.lines.allow(LISTED, "its branches and tags");
        let mut first = talk.lines.next().await?;
        if matches!(&first, Line::Data(line) if line.starts_with(b"# service=")) {
            if talk.lines.next().await? != Line::Flush {
                return Err(GREETING);
            }
            first = talk.lines.next().await?;
        }
        match &first {
            Line::Eof => return Err(talk.silence()),
            Line::Data(line) if trimmed(line) == b"version 2" => {
                talk.version = Version::Two;
                while let Line::Data(line) = talk.lines.next().await? {
                    talk.can.push(text(&line));
                    if talk.can.len() > 100 {
                        return Err(GREETING);
                    }
                }
            }
            Line::Data(line) if trimmed(line) == b"version 1" => {
                let first = talk.lines.next().await?;
                talk.list(first).await?;
            }
            _ => talk.list(first).await?,
        }
        let formats = talk
            .can
            .iter()
            .filter_map(|can| can.strip_prefix("object-format="));
        if formats.clone().count() > 0 && formats.clone().all(|format| format != "sha1") {
            return Err(Problem::Sha256);
        }
        Ok(talk)
    }

    /// Why nothing came at all; over ssh the reason is told beside it.
    fn silence(&self) -> Problem {
        match &self.way {
            Way::Http(_) => Problem::NotGit {
                found: "its answer is empty".to_owned(),
                media_type: String::new(),
            },
            Way::Ssh(_) => self.lines.last_words(),
        }
    }

    /// Reads what a server of an older version lists.
    async fn list(&mut self, first: Line) -> Result<()> {
        let mut refs = Refs::default();
        let mut next = first;
        let mut is_first = true;
        while let Line::Data(line) = next {
            let line = trimmed(&line).to_vec();
            let mut parts = line.splitn(2, |byte| *byte == 0);
            let head = parts.next().unwrap_or_default();
            if is_first {
                let can = String::from_utf8_lossy(parts.next().unwrap_or_default());
                self.can = can.split(' ').take(100).map(str::to_owned).collect();
            }
            let (id, name) = split(head);
            match Id::from_hex(id) {
                // A repository without commits lists one name that is none.
                Some(_) if name == b"capabilities^{}" => {}
                Some(id) => refs.add(name, id, None)?,
                None if id == b"shallow" => {}
                None => return Err(GREETING),
            }
            is_first = false;
            next = self.lines.next().await?;
        }
        if next != Line::Flush {
            return Err(Problem::CutShort {
                during: "before all branches and tags were listed",
            });
        }
        self.listed = Some(refs);
        Ok(())
    }

    /// The branches and tags whose names begin with one of these; maybe more.
    pub(super) async fn refs(&mut self, prefixes: &[String]) -> Result<Refs> {
        if self.version == Version::Old {
            return Ok(self.listed.take().unwrap_or_default());
        }
        let mut ask = Vec::new();
        line::write(&mut ask, "command=ls-refs\n");
        line::write(&mut ask, AGENT);
        ask.extend_from_slice(DELIMITER);
        line::write(&mut ask, "peel\n");
        for prefix in prefixes {
            line::write(&mut ask, &format!("ref-prefix {prefix}\n"));
        }
        ask.extend_from_slice(FLUSH);
        self.ask(ask, LISTED, "its branches and tags").await?;
        let mut refs = Refs::default();
        loop {
            match self.lines.next().await? {
                Line::Data(line) => {
                    let (id, rest) = split(trimmed(&line));
                    let (name, more) = split(rest);
                    let mut more = more.split(|byte| *byte == b' ');
                    let peeled = more.find_map(|word| Id::from_hex(word.strip_prefix(b"peeled:")?));
                    match Id::from_hex(id) {
                        Some(id) => refs.add(name, id, peeled)?,
                        None if id == b"unborn" => {}
                        None => {
                            return Err(Problem::Protocol {
                                problem: "a branch has no hash",
                            });
                        }
                    }
                }
                Line::Flush => return Ok(refs),
                _ => {
                    return Err(Problem::CutShort {
                        during: "before all branches and tags were listed",
                    });
                }
            }
        }
    }

    /// Whether all branches and tags were listed, whatever was asked for.
    pub(super) fn is_listed(&self) -> bool {
        self.version == Version::Old
    }

    /// Whether a commit may be asked for that no branch or tag stands for.
    pub(super) fn may_want_any(&self) -> bool {
        self.version == Version::Two
            || self.can("allow-tip-sha1-in-want")
            || self.can("allow-reachable-sha1-in-want")
    }

    /// Whether a refusal to give a commit means that it does not exist. Git itself gives any object by version 2.
    pub(super) fn is_final(&self) -> bool {
        self.version == Version::Two && self.can.iter().any(|can| can.starts_with("agent=git/"))
    }

    /// Asks for commits, and hands on the pack that comes.
    pub(super) async fn fetch(
        &mut self,
        wants: &[Id],
        depth: Depth,
        most: u64,
        to: Sender<Bytes>,
        progress: &Progress,
    ) -> Result<()> {
        let ask = match self.version {
            Version::Two => self.ask_new(wants, depth),
            Version::Old => self.ask_old(wants, depth),
        };
        // Frames are a tenth at worst; how small they are is up to the server.
        let most = most.saturating_add(most / 8).saturating_add(BESIDE);
        let mut beside = BESIDE;
        self.ask(ask, most, "the bytes to transfer").await?;
        let is_framed = match self.version {
            Version::Two => self.skip_to_pack().await.map(|()| true)?,
            Version::Old => {
                self.skip_to_answer().await?;
                self.can("side-band-64k")
            }
        };
        while let Some(bytes) = if is_framed {
            self.band(&mut beside).await?
        } else {
            self.lines.raw().await?
        } {
            progress.add(bytes.len() as u64);
            // Whoever reads the pack has had enough, and will say why.
            if to.send(bytes).await.is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn ask_new(&self, wants: &[Id], depth: Depth) -> Vec<u8> {
        let mut ask = Vec::new();
        line::write(&mut ask, "command=fetch");
        line::write(&mut ask, AGENT);
        ask.extend_from_slice(DELIMITER);
        line::write(&mut ask, "no-progress");
        line::write(&mut ask, "ofs-delta");
        let fetch = self.can.iter().find_map(|can| can.strip_prefix("fetch="));
        let is_shallow = fetch.is_some_and(|fetch| fetch.split(' ').any(|word| word == "shallow"));
        if depth == Depth::One && is_shallow {
            line::write(&mut ask, "deepen 1");
        }
        for want in wants {
            line::write(&mut ask, &format!("want {want}\n"));
        }
        line::write(&mut ask, "done\n");
        ask.extend_from_slice(FLUSH);
        ask
    }

    fn ask_old(&self, wants: &[Id], depth: Depth) -> Vec<u8> {
        let mut ask = Vec::new();
        let known = ["side-band-64k", "ofs-delta", "no-progress"];
        let mut can: Vec<&str> = known.into_iter().filter(|word| self.can(word)).collect();
        can.push(AGENT);
        let mut extra = format!(" {}", can.join(" "));
        for want in wants {
            line::write(&mut ask, &format!("want {want}{extra}\n"));
            extra.clear();
        }
        if depth == Depth::One && self.can("shallow") {
            line::write(&mut ask, "deepen 1");
        }
        ask.extend_from_slice(FLUSH);
        line::write(&mut ask, "done\n");
        ask
    }

    /// Version 2: sections before the pack.
    async fn skip_to_pack(&mut self) -> Result<()> {
        loop {
            match self.lines.next().await? {
                Line::Data(line) if trimmed(&line) == b"packfile" => return Ok(()),
                Line::Data(_) | Line::Delimiter => {}
                Line::Flush | Line::End => return Err(NO_PACK),
                Line::Eof => return Err(BEFORE_PACK),
            }
        }
    }

    /// Older versions: where the history is cut off, then that we have nothing in common.
    async fn skip_to_answer(&mut self) -> Result<()> {
        loop {
            match self.lines.next().await? {
                Line::Data(line) if line.starts_with(b"NAK") || line.starts_with(b"ACK ") => {
                    return Ok(());
                }
                Line::Data(line)
                    if line.starts_with(b"shallow ") || line.starts_with(b"unshallow ") => {}
                Line::Flush => {}
                Line::Eof => return Err(BEFORE_PACK),
                _ => return Err(NO_PACK),
            }
        }
    }

    /// The next bytes of the pack; progress is not shown, and errors are told.
    async fn band(&mut self, beside: &mut u64) -> Result<Option<Bytes>> {
        loop {
            match self.lines.next().await? {
                Line::Data(mut line) => match line.first() {
                    Some(1) => return Ok(Some(line.split_off(1))),
                    Some(2) => {
                        let size = line.len() as u64;
                        *beside = beside.checked_sub(size).ok_or(Problem::TooLarge {
                            what: "its messages beside the pack",
                            limit: BESIDE,
                        })?;
                    }
                    Some(3) => {
                        let said = String::from_utf8_lossy(&line.split_off(1)).into_owned();
                        let said = printable(&said, 300);
                        return Err(Problem::GivenUp { said });
                    }
                    _ => {
                        return Err(Problem::Protocol {
                            problem: "a part of the pack has no band",
                        });
                    }
                },
                Line::Flush | Line::End => return Ok(None),
                Line::Delimiter => return Err(NO_PACK),
                Line::Eof => {
                    return Err(Problem::CutShort {
                        during: "within the pack",
                    });
                }
            }
        }
    }

    async fn ask(&mut self, ask: Vec<u8>, most: u64, what: &'static str) -> Result<()> {
        match &mut self.way {
            Way::Http(smart) => {
                let input = smart.post(ask.into(), self.version == Version::Two).await?;
                self.lines.switch(input);
            }
            Way::Ssh(writer) => writer.send(ask).await?,
        }
        self.lines.allow(most, what);
        Ok(())
    }

    /// Says goodbye, so that the server does not note a broken connection.
    pub(super) async fn end(self) {
        if let Way::Ssh(writer) = self.way {
            writer.end().await;
        }
    }

    fn can(&self, word: &str) -> bool {
        self.can.iter().any(|can| can == word)
    }
}

const GREETING: Problem = Problem::Protocol {
    problem: "its greeting is not well formed",
};

const NO_PACK: Problem = Problem::Protocol {
    problem: "its answer has no pack",
};

const BEFORE_PACK: Problem = Problem::CutShort {
    during: "before the pack",
};

fn trimmed(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

fn text(line: &[u8]) -> String {
    String::from_utf8_lossy(trimmed(line)).into_owned()
}

/// What stands before and behind the first space.
fn split(line: &[u8]) -> (&[u8], &[u8]) {
    let at = line.iter().position(|byte| *byte == b' ');
    let (head, rest) = line
        .split_at_checked(at.unwrap_or(line.len()))
        .unwrap_or_default();
    (head, rest.get(1..).unwrap_or_default())
}
