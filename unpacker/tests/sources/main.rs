//! Untrusted directories and archives.

// clippy.toml allows the first lints in test functions, but not in shared helpers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]
#![allow(clippy::wildcard_imports)]

#[macro_use(assert_each, assert_rows, with)]
extern crate tests;

mod archives;
mod bombs;
mod directories;
mod fuzz;
mod irregular;
mod layers;
mod layouts;
mod packing;

use std::{
    ffi::OsStr,
    fs, io,
    io::Read,
    os::unix::{ffi::OsStrExt, fs::symlink},
    process::Command,
};

use flate2::read::GzDecoder;
use manifests::content::{File, Kind};
use serde_json::{Value, json};
use tar::Header;
use tempfile::TempDir;
use tests::{Cell, Values, assert_has, chain, fuzz::Random, gzip, pairs, table, write};
use unpacker::{
    Content, Digest, Error, Format, ImageLimits, Limits, Options, Result, Selection, Tree,
    Unpacked, layers::Layers, local, oci, oci::Document, open, open_tree, pack, source::Local,
    stream, stream_tree,
};

use bombs::{Counted, chained};

fn listed(content: &Content) -> Vec<(&str, &str)> {
    let text = |bytes| std::str::from_utf8(bytes).unwrap();
    content
        .files()
        .map(|(path, file)| (path, text(&file.bytes)))
        .collect()
}

/// Describes the outcome in one line: the paths and the number of irregular entries, or the error message.
fn outcome(result: Result<Unpacked, Error>) -> String {
    match result {
        Ok(Unpacked { content, .. }) => {
            let paths: Vec<_> = content.files().map(|(path, _)| path).collect();
            let irregular = content.irregular().count();
            format!("{} +{irregular} links", paths.join(" "))
        }
        Err(error) => chain(&error),
    }
}

fn only(paths: &[&str]) -> Selection {
    Selection::Only(paths.iter().map(|&path| path.to_owned()).collect())
}

fn kind(error: &Error) -> (&'static str, bool) {
    (error.reason(), error.is_terminal())
}

#[derive(Debug, Clone, Default)]
struct Tar(Vec<u8>);

fn tar() -> Tar {
    Tar::default()
}

/// Adds a link with its target in an extended header.
fn link(tar: Tar, kind: u8, name: &str, target: &str) -> Tar {
    tar.pax(b'x', &[("linkpath", target)]).with(kind, name, b"")
}

/// Corrects the checksum of each block that looks like a header.
fn fix_checksums(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(512) {
        if block.get(257..262) == Some(b"ustar") {
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
            block[148..155].copy_from_slice(format!("{sum:06o}\0").as_bytes());
        }
    }
}

impl Tar {
    /// Adds a header with any name, kind and size, and a body of any other size.
    fn entry(mut self, kind: u8, name: &[u8], size: u64, body: &[u8]) -> Self {
        let mut header = Header::new_ustar();
        header.as_mut_bytes()[..name.len()].copy_from_slice(name);
        header.as_mut_bytes()[156] = kind;
        header.set_mode(0o644);
        header.set_size(size);
        header.set_cksum();
        self.0.extend(header.as_bytes());
        self.0.extend(body);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    /// Adds a header, and the body that it declares.
    fn with(self, kind: u8, name: &str, body: &[u8]) -> Self {
        self.entry(kind, name.as_bytes(), body.len() as u64, body)
    }

    /// Adds entries with their kinds, names and bodies: `5 a/, 0 a/b text, 2 link`.
    fn entries(self, entries: &str) -> Self {
        entries.split(", ").fold(self, |tar, entry| {
            let (kind, rest) = entry.split_at(1);
            let (name, body) = rest[1..].split_once(' ').unwrap_or((&rest[1..], ""));
            tar.with(kind.as_bytes()[0], name, body.as_bytes())
        })
    }

    fn file(self, name: &str, text: &str) -> Self {
        self.with(b'0', name, text.as_bytes())
    }

    /// Adds an extended header with these records.
    fn pax(self, kind: u8, records: &[(&str, &str)]) -> Self {
        let record = |(key, value): &(&str, &str)| {
            let bare = key.len() + value.len() + 3;
            let length = (bare..bare + 9)
                .find(|length| length.to_string().len() + bare == *length)
                .unwrap();
            format!("{length} {key}={value}\n")
        };
        let body: String = records.iter().map(record).collect();
        self.with(kind, "pax", body.as_bytes())
    }

    /// Returns the bytes without an end marker.
    fn open(self) -> Vec<u8> {
        self.0
    }

    /// Returns the bytes with an end marker.
    fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}
