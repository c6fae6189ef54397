//! The binary of unpack Jobs against receivers as they should be and as they are on bad days, and the receiver
//! against senders of every kind.

// clippy.toml allows these in functions marked as tests, and not in what the tests share.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic
)]

mod claims;
mod command;
mod failures;
mod folders;
mod receiver;
mod senders;
mod sending;
mod slow;
mod tls;
mod uploads;

use std::{fs, path::Path};

use unpacker::{Content, Digest, Format, Options};

/// A file below a folder, and the folders above it.
fn write(root: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// A small bundle, and a file beside it that is none of its.
fn bundle() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "manifests/csv.yaml",
        "kind: ClusterServiceVersion\n",
    );
    write(folder.path(), "manifests/deep/er.yaml", "kind: Role\n");
    write(folder.path(), "manifests/deep.yaml", "kind: RoleBinding\n");
    write(
        folder.path(),
        "metadata/annotations.yaml",
        "annotations: {}\n",
    );
    write(folder.path(), "etc/shadow", "root:x\n");
    folder
}

/// What [`bundle`] should arrive as.
fn content(folder: &Path) -> Content {
    let select = ["manifests", "metadata", "tests"]
        .map(str::to_owned)
        .to_vec();
    let options = Options {
        select: unpacker::Selection::Only(select),
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
