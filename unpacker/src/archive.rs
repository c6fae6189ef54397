//! Reader of tar archives, which may be compressed.
//!
//! The tar crate parses single headers. Its iterator is not used, because it reads extended headers of any declared
//! size completely. It also silently prefers one of two contradictory names or sizes.

use std::{io::Read, mem};

use manifests::content::{self, Irregular, Kind};
use tar::Header;

use crate::{
    Error, Options, Result,
    decompress::Decompressor,
    select::Select,
    spool::Storage,
    tar::{
        blocks::{Meter, TarBlocks, explain},
        pax::{self, PendingHeaders, to_utf8},
    },
    tree::{Builder, Tree},
};

/// Maximum size of an extended header, as in the tar reader of Go. The header is released as soon as its entry was
/// read.
pub(crate) const EXTENDED: u64 = 1 << 20;

/// Reads a stream to its end or to the limit.
pub(crate) fn read(
    reader: impl Read,
    options: &Options,
    storage: Storage,
) -> Result<(Tree, usize)> {
    let limit = options.stream_limit();
    // The compressed stream is limited, too, because gzip members without content could continue endlessly.
    let inflated = Decompressor::new(Meter::new(reader, limit))
        .map_err(|error| explain(error, "at its start".to_owned()))?;
    let wrapping = inflated.wrapping();
    let mut blocks = TarBlocks::new(inflated, wrapping, limit);
    let mut archive = Archive {
        select: Select::new(options)?,
        files: Builder::new(options.limits, storage),
        unselected: 0,
    };
    each(&mut blocks, options.limits.path as u64, |blocks, entry| {
        archive.entry(blocks, entry)
    })?;
    Ok((archive.files.finish(), archive.unselected))
}

/// An entry with the extended headers before it. The caller reads or skips its body.
pub(crate) struct Entry {
    pub(crate) header: Header,
    pub(crate) before: PendingHeaders,
    pub(crate) size: u64,
}

/// Reads a tar archive entry by entry. A name longer than `longest` is not read completely.
pub(crate) fn each<R: Read>(
    blocks: &mut TarBlocks<R>,
    longest: u64,
    mut visit: impl FnMut(&mut TarBlocks<R>, &Entry) -> Result<()>,
) -> Result<()> {
    let mut before = PendingHeaders::default();
    while let Some(header) = blocks.header()? {
        let Ok(size) = header.entry_size() else {
            return corrupt(blocks, "the size of an entry is not a number");
        };
        match header.entry_type().as_byte() {
            b'L' if before.long_name.is_none() => {
                before.long_name = Some(long_name(blocks, size, longest)?);
            }
            b'K' if before.long_link.is_none() => {
                before.long_link = Some(long_link(blocks, &header, size)?);
            }
            b'x' if before.extended.is_none() => {
                let body = extension(blocks, &header, size)?;
                match pax::parse(&body) {
                    Some(extended) => before.extended = Some(extended),
                    None => return corrupt(blocks, "an extended header is malformed"),
                }
            }
            b'L' | b'K' | b'x' => {
                return corrupt(blocks, "an entry has two extended headers of the same kind");
            }
            b'g' => global(blocks, &header, size)?,
            _ => {
                let before = mem::take(&mut before);
                let entry = Entry {
                    header,
                    before,
                    size,
                };
                visit(blocks, &entry)?;
            }
        }
        blocks.padding()?;
    }
    if before.is_pending() {
        return Err(Error::Truncated {
            at: "after an extended header".to_owned(),
        });
    }
    Ok(())
}

fn corrupt<T, R: Read>(blocks: &TarBlocks<R>, problem: &'static str) -> Result<T> {
    Err(Error::Corrupt {
        at: blocks.place(),
        problem,
        source: None,
    })
}

/// Reads the body of a GNU header with a long name.
fn long_name<R: Read>(blocks: &mut TarBlocks<R>, size: u64, longest: u64) -> Result<Vec<u8>> {
    let mut name = bytes(blocks, size.min(longest.saturating_add(2)))?;
    if name.last() == Some(&0) {
        name.pop();
    }
    if name.len() as u64 > longest {
        return Err(Error::Content(content::Error::PathTooLong {
            path: to_utf8(&name).chars().take(80).chain("…".chars()).collect(),
            limit: usize::try_from(longest).unwrap_or(usize::MAX),
            unit: "bytes",
            flag: "--max-path-length",
        }));
    }
    Ok(name)
}

/// Reads the body of a GNU header with the target of a link.
fn long_link<R: Read>(blocks: &mut TarBlocks<R>, header: &Header, size: u64) -> Result<Vec<u8>> {
    let mut target = extension(blocks, header, size)?;
    if target.last() == Some(&0) {
        target.pop();
    }
    Ok(target)
}

/// Reads the body of an extended header.
fn extension<R: Read>(blocks: &mut TarBlocks<R>, header: &Header, size: u64) -> Result<Vec<u8>> {
    if size > EXTENDED {
        return Err(Error::Refused {
            path: to_utf8(&header.path_bytes()),
            kind: "an extended header of more than 1 MiB",
            remedy: "pack the bundle without extended attributes",
        });
    }
    bytes(blocks, size)
}

/// Reads a header that applies to all following entries. Git writes one with the commit. Names and sizes are rejected
/// in it.
fn global<R: Read>(blocks: &mut TarBlocks<R>, header: &Header, size: u64) -> Result<()> {
    let body = extension(blocks, header, size)?;
    match pax::parse(&body) {
        Some(extended) if extended == pax::PaxHeader::default() => Ok(()),
        Some(_) => corrupt(
            blocks,
            "a global header sets one name or size for all entries",
        ),
        None => corrupt(blocks, "a global header is malformed"),
    }
}

fn bytes<R: Read>(blocks: &mut TarBlocks<R>, size: u64) -> Result<Vec<u8>> {
    let at = blocks.place();
    let mut bytes = Vec::new();
    match blocks.body(size).read_to_end(&mut bytes) {
        Ok(_) => Ok(bytes),
        Err(error) => Err(explain(error, at)),
    }
}

/// Rejects entries that readers interpret differently, or that content must not contain.
pub(crate) fn refuse<T>(path: &str, kind: &'static str, remedy: &'static str) -> Result<T> {
    Err(Error::Refused {
        path: to_utf8(path.as_bytes()),
        kind,
        remedy,
    })
}

impl Entry {
    /// Returns the kind of the entry. Early formats had no type for directories and used files with a trailing slash.
    pub(crate) fn kind(&self, path: &[u8]) -> u8 {
        match self.header.entry_type().as_byte() {
            0 | b'0' | b'7' if path.ends_with(b"/") => b'5',
            0 | b'7' => b'0',
            kind => kind,
        }
    }

    pub(crate) fn is_sparse(&self) -> bool {
        let extended = self.before.extended.as_ref();
        extended.is_some_and(|extended| extended.sparse)
    }

    pub(crate) fn mode(&self) -> u32 {
        self.header.mode().unwrap_or(0o644)
    }

    /// Rejects sizes that make readers disagree on the position of the next entry.
    pub(crate) fn check_size(&self, path: &str, kind: u8) -> Result<()> {
        let pax_size = self.before.extended.as_ref().and_then(|header| header.size);
        if pax_size.is_some_and(|pax_size| pax_size != self.size) {
            return refuse(
                path,
                "declared with two different sizes",
                "pack the bundle again with one tar program",
            );
        }
        // Readers disagree on whether a body follows an entry of these kinds.
        let kind = match kind {
            b'5' | b'2' if self.size > 0 => "a directory or a symbolic link with content",
            b'1' | b'3' | b'4' | b'6' if self.size > 0 => "a link or a device with content",
            _ => return Ok(()),
        };
        let remedy = "pack the bundle, or build the image, again with another program";
        refuse(path, kind, remedy)
    }

    /// Returns the kind of an entry that is neither a regular file nor a directory. Rejects kinds for which readers
    /// disagree on the start of the next entry.
    pub(crate) fn irregular(&self, path: &str, kind: u8) -> Result<Option<Kind>> {
        Ok(Some(match kind {
            _ if self.is_sparse() => Kind::Sparse,
            b'0' | b'5' => return Ok(None),
            b'1' => Kind::HardLink,
            b'2' => Kind::Symlink,
            b'3' | b'4' | b'6' => Kind::Special,
            b'S' => Kind::Sparse,
            _ => {
                let remedy = "pack the bundle with \"tar --format=ustar\"";
                return refuse(path, "of an unknown kind", remedy);
            }
        }))
    }

    /// Records an entry that is not a regular file, unless `link` adds the target of a hard link as a file.
    pub(crate) fn record(
        &self,
        files: &mut Builder,
        path: &str,
        kind: Kind,
        link: impl FnOnce(&mut Builder, &[u8]) -> Result<bool>,
    ) -> Result<()> {
        let entry = match kind {
            Kind::Symlink | Kind::HardLink => {
                let target = self.before.link(&self.header)?;
                if kind == Kind::HardLink && link(files, &target)? {
                    return Ok(());
                }
                match to_utf8(&target).as_str() {
                    "" => Irregular::new(kind),
                    target => Irregular::link(kind, target),
                }
            }
            Kind::Special | Kind::Sparse => Irregular::new(kind),
        };
        files.record(path, entry)
    }
}

/// Skips the body of an entry.
pub(crate) fn skip_body<R: Read>(blocks: &mut TarBlocks<R>, entry: &Entry, kind: u8) -> Result<()> {
    if kind == b'S' {
        // A GNU sparse file may have additional map blocks that its size does not include.
        const FIRST: usize = 482;
        const OTHERS: usize = 504;
        let mut more = entry.header.as_bytes().get(FIRST) == Some(&1);
        while more {
            let mut map = [0; 512];
            let at = blocks.place();
            blocks
                .body(512)
                .read_exact(&mut map)
                .map_err(|error| explain(error, at))?;
            more = map.get(OTHERS) == Some(&1);
        }
    }
    blocks.skip(entry.size)
}

/// Adds a regular file whose body follows.
pub(crate) fn add<R: Read>(
    files: &mut Builder,
    blocks: &mut TarBlocks<R>,
    path: &str,
    entry: &Entry,
) -> Result<()> {
    let added = files.add(path, entry.mode(), &mut blocks.body(entry.size));
    added.map_err(|error| match error {
        Error::Content(content::Error::Read { path, source }) => {
            explain(source, format!("in {path:?}"))
        }
        error => error,
    })
}

struct Archive {
    select: Select,
    files: Builder,
    unselected: usize,
}

impl Archive {
    fn entry<R: Read>(&mut self, blocks: &mut TarBlocks<R>, entry: &Entry) -> Result<()> {
        let path = text(entry.before.path(&entry.header)?)?;
        let kind = entry.kind(path.as_bytes());
        entry.check_size(&path, kind)?;
        let irregular = entry.irregular(&path, kind)?;
        if irregular.is_none() && kind == b'5' {
            return self.files.skip(&path);
        }
        let normal = content::normalize(&path)?;
        match irregular {
            None if self.select.matches(&normal) => add(&mut self.files, blocks, &path, entry),
            // A link in place of a directory hides selected files below it.
            Some(irregular) if self.select.descends_into(&normal) => {
                entry.record(&mut self.files, &path, irregular, |files, target| {
                    let target = str::from_utf8(target).ok();
                    match target.and_then(|target| content::normalize(target).ok()) {
                        Some(target) => files.link(&path, &target),
                        None => Ok(false),
                    }
                })?;
                skip_body(blocks, entry, kind)
            }
            _ => {
                self.unselected += 1;
                self.files.skip(&path)?;
                skip_body(blocks, entry, kind)
            }
        }
    }
}

/// Converts a name to text. Names must be UTF-8.
pub(crate) fn text(name: Vec<u8>) -> Result<String> {
    String::from_utf8(name).map_err(|error| Error::Name {
        path: to_utf8(error.as_bytes()),
    })
}
