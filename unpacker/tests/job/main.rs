//! The binary of unpack Jobs against valid and failing receivers, and the receiver against valid and invalid senders.

// clippy.toml allows the first lints in test functions, but not in shared helpers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(clippy::panic, clippy::wildcard_imports)]

#[macro_use(assert_rows, with)]
extern crate tests;

mod command;
mod directories;
mod fake_receiver;
mod fake_sender;
mod sending;
mod tls;
mod uploads;

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs,
    io::Read as _,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::Request;
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tests::{
    Cell, Port, Received, Script, ScriptedServer, Values, assert_has, gzip, noise, pairs, table,
    write,
};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    process,
    process::Command,
    task::JoinHandle,
    time,
};
use tokio_rustls::TlsAcceptor;
use unpacker::{
    Content, Digest, Format, Limits, Options, Store,
    store::Budget,
    transfer,
    transfer::{Accepted, DeclaredUpload, Problem, ReceiveOptions, RequiredHeaders},
};

use command::{BINARY, Run, printed};
use fake_receiver::Receiver;
use fake_sender::{End, Sender};

/// Returns a directory with a small bundle and an unrelated file.
fn bundle() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    let files = "manifests/csv.yaml kind: ClusterServiceVersion, manifests/deep/er.yaml kind: Role, \
                 manifests/deep.yaml kind: RoleBinding, metadata/annotations.yaml annotations: {}, etc/shadow root:x";
    for (path, text) in pairs(files) {
        write(directory.path(), path, format!("{text}\n"));
    }
    directory
}

fn large(mebibytes: usize) -> tempfile::TempDir {
    let bundle = bundle();
    if mebibytes > 0 {
        write(bundle.path(), "tests/noise", noise(1, mebibytes << 20));
    }
    bundle
}

fn content(directory: &Path) -> Content {
    let select = ["manifests", "metadata", "tests"].map(str::to_owned);
    let options = with!(Options, select: unpacker::Selection::Only(select.to_vec()));
    unpacker::open(directory, &options).unwrap().content
}

fn tar(content: &Content) -> (Vec<u8>, Digest) {
    let mut tar = Vec::new();
    let digest = unpacker::pack(content, Format::Tar, &mut tar).unwrap();
    (tar, digest)
}
