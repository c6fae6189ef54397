//! Small archives that claim or become large ones.

use std::{
    cell::Cell,
    io::{self, Read},
    rc::Rc,
};

use unpacker::{Error, Limits, Options, Selection, stream};

use crate::{
    chain,
    raw::{Tar, gzip},
};

/// Counts what was taken from it.
struct Counted<R> {
    reader: R,
    read: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        self.read.set(self.read.get() + count as u64);
        Ok(count)
    }
}

/// The same bytes again and again: gzip members make one stream, so this inflates without end.
pub(crate) struct Endless {
    bytes: Vec<u8>,
    at: usize,
}

impl Endless {
    pub(crate) fn of(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0 }
    }
}

impl Read for Endless {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = buffer.len().min(self.bytes.len() - self.at);
        buffer[..count].copy_from_slice(&self.bytes[self.at..self.at + count]);
        self.at = (self.at + count) % self.bytes.len();
        Ok(count)
    }
}

/// A reader, and how many bytes were read of it.
pub(crate) fn counted<R: Read>(reader: R) -> (impl Read, Rc<Cell<u64>>) {
    let read = Rc::new(Cell::new(0));
    let counted = Counted {
        reader,
        read: Rc::clone(&read),
    };
    (counted, read)
}

/// The message, and how many bytes were read to come to it.
fn refused(reader: impl Read, options: &Options) -> (String, u64) {
    let (counted, read) = counted(reader);
    let error = stream(counted, options).unwrap_err();
    assert!(
        error.is_terminal() || matches!(error, Error::Truncated { .. }),
        "{}",
        chain(&error)
    );
    (chain(&error), read.get())
}

#[test]
fn ten_gigabytes_of_zeros_in_one_file_are_refused_at_the_file_limit() {
    let header = Tar::default().entry(b'0', b"bomb", 10 << 30, b"").open();
    let (text, read) = refused(header.as_slice().chain(io::repeat(0)), &Options::default());
    assert!(
        text.contains("file \"bomb\" is larger than the limit of 16777216 bytes"),
        "{text}"
    );
    assert!(read <= (16 << 20) + 1024, "{read}");

    let zeros = gzip(&vec![0; 1 << 20]);
    let packed = gzip(&header);
    let (text, read) = refused(
        packed.as_slice().chain(Endless::of(zeros)),
        &Options::default(),
    );
    assert!(text.contains("file \"bomb\" is larger"), "{text}");
    assert!(read < 256 << 10, "{read} compressed bytes read");
}

#[test]
fn many_files_are_refused_at_the_limit_of_all_files() {
    let file = Tar::default().with(b'0', "a", &vec![b'x'; 600_000]).open();
    let mut number = 0;
    let mut files = Vec::new();
    while files.len() < 40 << 20 {
        number += 1;
        let name = format!("{number}");
        files.extend(
            Tar::default()
                .entry(b'0', name.as_bytes(), 600_000, &file[512..600_512])
                .open(),
        );
    }
    let (text, read) = refused(files.as_slice(), &Options::default());
    assert!(
        text.contains("content is larger than the limit of 33554432 bytes (reached in \"56\")"),
        "{text}"
    );
    assert!(read < (32 << 20) + (1 << 20), "{read}");
}

#[test]
fn a_bomb_outside_the_selection_or_behind_the_end_is_refused_at_the_stream_limit() {
    let options = Options {
        limits: Limits {
            total: 1 << 20,
            entries: 1000,
            ..Limits::default()
        },
        select: Selection::Only(vec!["manifests".to_owned()]),
        ..Options::default()
    };
    let limit = options.stream_limit();
    let bomb = Tar::default().entry(b'0', b"bomb", 10 << 30, b"").open();
    let end = Tar::default().file("a", "").end();
    for start in [bomb, end] {
        let (text, read) = refused(start.as_slice().chain(io::repeat(0)), &options);
        assert!(text.contains(&format!("more than {limit} bytes")), "{text}");
        assert!(read < limit + (64 << 10), "{read}");
        let zeros = Endless::of(gzip(&vec![0; 1 << 20]));
        let (text, read) = refused(gzip(&start).as_slice().chain(zeros), &options);
        assert!(text.contains(&format!("more than {limit} bytes")), "{text}");
        assert!(read < 256 << 10, "{read} compressed bytes read");
    }
}

#[test]
fn headers_that_claim_gigabytes_are_refused_unread() {
    for (kind, expected, most) in [
        (
            b'L',
            "is over the limit of 1024 bytes; shorten it or raise --max-path-length",
            4096,
        ),
        (b'K', "an extended header of more than 1 MiB", 1024),
        (b'x', "an extended header of more than 1 MiB", 1024),
        (b'g', "an extended header of more than 1 MiB", 1024),
    ] {
        let header = Tar::default().entry(kind, b"claim", 8 << 30, b"").open();
        let (text, read) = refused(
            header.as_slice().chain(io::repeat(b'a')),
            &Options::default(),
        );
        assert!(text.contains(expected), "{text}");
        assert!(read <= most, "{read} bytes read for {}", char::from(kind));
    }
}

#[test]
fn a_million_entries_and_endless_global_headers_are_refused() {
    let folder = Endless::of(Tar::default().with(b'5', "a/", b"").open());
    let (text, read) = refused(folder, &Options::default());
    assert!(text.contains("more than 10000 entries"), "{text}");
    assert!(read <= 10_001 * 512, "{read}");
    let options = Options {
        limits: Limits {
            total: 1 << 20,
            ..Limits::default()
        },
        ..Options::default()
    };
    let global = Endless::of(Tar::default().pax(b'g', &[("comment", "x")]).open());
    assert!(
        refused(global, &options)
            .0
            .contains("counting headers and what is skipped")
    );
}

#[test]
fn gzip_members_that_hold_nothing_do_not_go_on_for_ever() {
    let options = Options {
        limits: Limits {
            total: 1 << 10,
            entries: 100,
            ..Limits::default()
        },
        ..Options::default()
    };
    let (text, read) = refused(Endless::of(gzip(b"")), &options);
    assert!(
        text.contains("the archive has more than 413696 bytes"),
        "{text}"
    );
    assert!(read < options.stream_limit() + (64 << 10), "{read}");
}
