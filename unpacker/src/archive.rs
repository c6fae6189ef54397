//! Reading a tar, which may be compressed with gzip.
//!
//! The tar crate parses single headers here. Its own iterator is not used: it reads extended headers whole, whatever
//! size they claim, and it prefers one of two contradicting names or sizes in silence.

use std::{io::Read, mem};

use flate2::read::MultiGzDecoder;
use manifests::content;
use tar::Header;

use crate::{
    Error, Limits, Options, Result, Skipped,
    block::{Blocks, Meter, Wrapping, explain, fill},
    pax::{self, Before, lossy},
    select::Select,
    spool::Room,
    tree::{Builder, Tree},
};

/// What Go's reader allows for one extended header. It is gone as soon as its entry is read.
const EXTENDED: u64 = 1 << 20;

/// Reads a stream to its end, or to the limit.
pub(crate) fn read(reader: impl Read, options: &Options, room: Room) -> Result<(Tree, Skipped)> {
    let limit = options.stream_limit();
    // Metered before it is inflated too: gzip members without content could go on for ever.
    let mut reader = Meter::new(reader, limit);
    let mut magic = [0; 2];
    let count =
        fill(&mut reader, &mut magic).map_err(|error| explain(error, "at its start".to_owned()))?;
    let head = magic.into_iter().take(count).collect::<Vec<_>>();
    let is_gzip = head == [0x1f, 0x8b];
    let whole = std::io::Cursor::new(head).chain(reader);
    if is_gzip {
        entries(
            Blocks::new(MultiGzDecoder::new(whole), Wrapping::Gzip, limit),
            options,
            room,
        )
    } else {
        entries(Blocks::new(whole, Wrapping::Plain, limit), options, room)
    }
}

fn entries<R: Read>(blocks: Blocks<R>, options: &Options, room: Room) -> Result<(Tree, Skipped)> {
    let mut archive = Archive {
        blocks,
        limits: options.limits,
        select: Select::new(options)?,
        files: Builder::new(options.limits, room),
        skipped: Skipped::default(),
    };
    let mut before = Before::default();
    while let Some(header) = archive.blocks.header()? {
        let Ok(size) = header.entry_size() else {
            return archive.corrupt("the size of an entry is not a number");
        };
        match header.entry_type().as_byte() {
            b'L' if before.long_name.is_none() => before.long_name = Some(archive.long_name(size)?),
            b'K' if !before.long_link => {
                before.long_link = true;
                archive.extension(&header, size)?;
            }
            b'x' if before.extended.is_none() => {
                let body = archive.extension(&header, size)?;
                match pax::parse(&body) {
                    Some(extended) => before.extended = Some(extended),
                    None => return archive.corrupt("an extended header is not well formed"),
                }
            }
            b'L' | b'K' | b'x' => {
                return archive.corrupt("an entry has two extended headers of one kind");
            }
            b'g' => archive.global(&header, size)?,
            _ => archive.entry(&header, &mem::take(&mut before), size)?,
        }
        archive.blocks.padding()?;
    }
    if before.is_pending() {
        return Err(Error::Truncated {
            at: "behind an extended header".to_owned(),
        });
    }
    Ok((archive.files.finish(), archive.skipped))
}

struct Archive<R> {
    blocks: Blocks<R>,
    limits: Limits,
    select: Select,
    files: Builder,
    skipped: Skipped,
}

impl<R: Read> Archive<R> {
    fn corrupt<T>(&self, problem: &'static str) -> Result<T> {
        Err(Error::Corrupt {
            at: self.blocks.place(),
            problem,
            source: None,
        })
    }

    /// The name that a GNU header holds as its body; one that no limit allows is not read to its end.
    fn long_name(&mut self, size: u64) -> Result<Vec<u8>> {
        let limit = self.limits.path as u64;
        let mut name = self.bytes(size.min(limit.saturating_add(2)))?;
        if name.last() == Some(&0) {
            name.pop();
        }
        if name.len() as u64 > limit {
            return Err(Error::Content(content::Error::PathTooLong {
                path: lossy(&name).chars().take(80).chain("…".chars()).collect(),
                limit: self.limits.path,
                unit: "bytes",
                flag: "--max-path-length",
            }));
        }
        Ok(name)
    }

    /// The body of an extended header.
    fn extension(&mut self, header: &Header, size: u64) -> Result<Vec<u8>> {
        if size > EXTENDED {
            return Err(Error::Refused {
                path: lossy(&header.path_bytes()),
                kind: "an extended header of more than 1 MiB",
                remedy: "pack the bundle without extended attributes",
            });
        }
        self.bytes(size)
    }

    /// A header about all entries that follow, as git writes one with the commit in it. Names and sizes have no
    /// place there.
    fn global(&mut self, header: &Header, size: u64) -> Result<()> {
        let body = self.extension(header, size)?;
        match pax::parse(&body) {
            Some(extended) if extended == pax::Extended::default() => Ok(()),
            Some(_) => self.corrupt("a global header gives all entries one name or size"),
            None => self.corrupt("a global header is not well formed"),
        }
    }

    fn bytes(&mut self, size: u64) -> Result<Vec<u8>> {
        let at = self.blocks.place();
        let mut bytes = Vec::new();
        match self.blocks.body(size).read_to_end(&mut bytes) {
            Ok(_) => Ok(bytes),
            Err(error) => Err(explain(error, at)),
        }
    }

    fn entry(&mut self, header: &Header, before: &Before, size: u64) -> Result<()> {
        let path = before.path(header)?;
        let extended = before.extended.as_ref();
        let refuse = |kind, remedy| {
            Err(Error::Refused {
                path: lossy(path.as_bytes()),
                kind,
                remedy,
            })
        };
        if extended.is_some_and(|extended| extended.sparse) {
            return refuse("a sparse file", "pack the bundle without --sparse");
        }
        if extended.is_some_and(|extended| extended.size.is_some_and(|stated| stated != size)) {
            return refuse(
                "given two sizes",
                "pack the bundle again with one tar program",
            );
        }
        match header.entry_type().as_byte() {
            // Before folders had a type of their own they were files with a slash at the end.
            b'0' | b'7' if !path.ends_with('/') => {
                self.file(&path, header.mode().unwrap_or(0o644), size)
            }
            // Readers differ in whether a body follows what needs none.
            b'0' | b'7' | b'5' | b'2' if size > 0 => refuse(
                "a folder or a symbolic link with content",
                "pack the bundle again with another tar program",
            ),
            b'0' | b'7' | b'5' => self.files.skip(&path),
            b'2' => {
                if self.select.takes(&content::normalise(&path)?) {
                    self.skipped.symlinks += 1;
                } else {
                    self.skipped.unselected += 1;
                }
                self.files.skip(&path)
            }
            b'1' => refuse(
                "a hard link",
                "pack the bundle with \"tar --hard-dereference\"",
            ),
            b'3' | b'4' => refuse("a device", "remove it from the bundle"),
            b'6' => refuse("a fifo", "remove it from the bundle"),
            b'S' => refuse("a sparse file", "pack the bundle without --sparse"),
            _ => refuse(
                "of an unknown kind",
                "pack the bundle with \"tar --format=ustar\"",
            ),
        }
    }

    fn file(&mut self, path: &str, mode: u32, size: u64) -> Result<()> {
        if !self.select.takes(&content::normalise(path)?) {
            self.files.skip(path)?;
            self.skipped.unselected += 1;
            return self.blocks.pass(size);
        }
        let added = self.files.add(path, mode, &mut self.blocks.body(size));
        added.map_err(|error| match error {
            Error::Content(content::Error::Read { path, source }) => {
                explain(source, format!("in {path:?}"))
            }
            error => error,
        })
    }
}
