//! Shared parts of the tests: the corpus of real bundles, transcripts on pages, and servers to fetch bundles from.
//!
//! ```text
//!             TestCa (certificates)
//!     ┌───────────┼─────────────────────────────┐
//!  Registry    GitServer   FileServer   TokenServer        Sshd
//!     │           └───────────┼─────────────┘               │
//!  Process ── Provisioner   Site                     sshd, one per connection
//!  docker-registry,         hyper, in a thread
//!  tinyproxy (HttpProxy)
//! ```
//!
//! Every server is a value: it is ready after its construction, has a separate port, directory and credentials, and ends
//! when it is dropped or the tests are killed. Servers listen on [`address`].

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a server that cannot be started fails the test by panicking"
)]

use std::{
    ffi::OsString,
    fmt::Display,
    fs,
    io::Write as _,
    net::{IpAddr, Ipv4Addr},
    path::Path,
    process::{Command, Stdio},
};

use flate2::{Compression, write::GzEncoder};
use serde_json::{Value, json};

mod buildah;
mod ca;
mod command;
mod corpus;
mod database;
mod files;
pub mod fuzz;
mod git;
mod http_server;
mod opm;
mod process;
mod provisioner;
mod proxy;
mod registry;
mod script;
mod ssh;
pub mod table;
mod token_server;
mod transcript;

pub use buildah::Buildah;
pub use ca::TestCa;
pub use command::{Args, Out, Run};
pub use corpus::{Case, Corpus, corpus};
pub use database::{DATABASE_LABEL, DATABASE_TABLES};
pub use files::FileServer;
pub use git::{GitServer, Repository};
pub use http_server::Site;
pub use opm::{opm, opm_command};
pub use process::program;
pub use provisioner::Provisioner;
pub use proxy::HttpProxy;
pub use registry::{Auth, Registry, docker_config};
pub use script::{Answer, Port, Received, Script, ScriptedServer, counted};
pub use ssh::Sshd;
pub use table::{Cell, Values};
pub use token_server::TokenServer;
pub use transcript::{Names, Page, Step, root};

/// Returns `LLVM_PROFILE_FILE` and its value if `tests/coverage.sh` runs, for programs with an empty environment. Without
/// the variable, they write coverage data into their working directory.
pub fn profile_file() -> Option<(&'static str, OsString)> {
    let name = "LLVM_PROFILE_FILE";
    Some((name, std::env::var_os(name)?))
}

/// Returns the address that all servers listen on: `CLUSTER_ADDRESS`, which pods of a node can reach, or else `127.0.0.1`.
pub fn address() -> IpAddr {
    let named = std::env::var("CLUSTER_ADDRESS").unwrap_or_default();
    named.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// Compresses bytes as one gzip member.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

/// Writes a file below a directory, and creates its parent directories.
pub fn write(root: &Path, path: &str, bytes: impl AsRef<[u8]>) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Writes an executable script, and the directories above it. A shell writes the file: a child of another test would inherit
/// the open file from this process, and the kernel runs no file that is open for writing (`ETXTBSY`).
pub fn write_program(path: &Path, script: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut shell = Command::new("sh")
        .args(["-c", r#"cat >"$0" && chmod 755 "$0""#])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    stdin.write_all(script.as_bytes()).unwrap();
    drop(stdin);
    assert!(shell.wait().unwrap().success(), "{}", path.display());
}

/// Returns bytes that do not compress, deterministic for a seed.
pub fn noise(seed: u64, count: usize) -> Vec<u8> {
    fuzz::Random::new(seed).bytes(count)
}

/// Returns the message of an error and of all its causes, as users read it.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.extend([": ", &error.to_string()]);
        cause = error.source();
    }
    text
}

/// Returns the pairs of a text such as `key value, another value`.
pub fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(", ").map(|pair| pair.split_once(' ').unwrap())
}

/// Asserts that a text has a part. The message shows the beginning of the text, and the part.
#[track_caller]
pub fn assert_has(text: impl Display, part: &str) {
    let text = text.to_string();
    assert!(text.contains(part), "{part:?} is not in {text:.2000}");
}

/// Returns the metadata of a registry+v1 bundle with channels, the default of which is `stable`.
pub fn registry_annotations(package: &str, channels: &str) -> Value {
    let annotations = [
        ("mediatype", "registry+v1"),
        ("manifests", "manifests/"),
        ("metadata", "metadata/"),
        ("package", package),
        ("channels", channels),
        ("channel.default", "stable"),
    ];
    let key = |name: &str| format!("operators.operatorframework.io.bundle.{name}.v1");
    let annotations = annotations.map(|(name, value)| (key(name), value));
    json!({"annotations": Value::from_iter(annotations)})
}

/// A user of servers with accounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: &'static str,
    /// The user's password.
    pub password: &'static str,
    bcrypt: &'static str,
}

/// A user that may read and write all repositories.
pub const OWNER: User = User {
    name: "owner",
    password: "correct horse battery",
    bcrypt: "$2y$05$abcdefghijklmnopqrstuuD3mHdCr44zlIZ.VZCaYRpfQhXMYnEo.",
};

/// A user that may only read, and with tokens only repositories below `tenant/`.
pub const TENANT: User = User {
    name: "tenant",
    password: "other staple",
    bcrypt: "$2y$05$abcdefghijklmnopqrstuuIWf4k/fJhEiKtc94A0g88ldaCyjkWGe",
};

impl User {
    /// Returns the value of an `Authorization` header.
    pub fn basic(&self) -> String {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let pair = format!("{}:{}", self.name, self.password);
        format!("Basic {}", STANDARD.encode(pair))
    }

    fn from_header(header: &str) -> Option<Self> {
        let mut users = [OWNER, TENANT].into_iter();
        users.find(|user| user.basic() == header)
    }
}
