//! The binary of unpack Jobs against good and bad receivers, and the receiver against good and bad senders.

// clippy.toml allows these in functions marked as tests, and not in what the tests share.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod command;
mod folders;
mod receiver;
mod senders;
mod sending;
mod tls;
mod uploads;

use std::path::Path;

use tests::{noise, write};
use unpacker::{Content, Digest, Format, Options};

/// A small bundle, and a file beside it that does not belong to it.
fn bundle() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("manifests/csv.yaml", "kind: ClusterServiceVersion\n"),
        ("manifests/deep/er.yaml", "kind: Role\n"),
        ("manifests/deep.yaml", "kind: RoleBinding\n"),
        ("metadata/annotations.yaml", "annotations: {}\n"),
        ("etc/shadow", "root:x\n"),
    ] {
        write(folder.path(), path, text);
    }
    folder
}

/// A bundle with so many mebibytes that do not compress.
fn large(mebibytes: usize) -> tempfile::TempDir {
    let bundle = bundle();
    write(bundle.path(), "tests/noise", noise(1, mebibytes << 20));
    bundle
}

/// The content of a bundle as it should arrive.
fn content(folder: &Path) -> Content {
    let select = ["manifests", "metadata", "tests"].map(str::to_owned);
    let options = Options {
        select: unpacker::Selection::Only(select.to_vec()),
        ..Options::default()
    };
    unpacker::open(folder, &options).unwrap().content
}

/// The tar of content, and its digest.
fn tar(content: &Content) -> (Vec<u8>, Digest) {
    let mut tar = Vec::new();
    let digest = unpacker::pack(content, Format::Tar, &mut tar).unwrap();
    (tar, digest)
}
