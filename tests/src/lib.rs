//! What the tests share: the corpus of real bundles, and servers to fetch bundles from.
//!
//! ```text
//!             Authority (certificates)
//!     ┌───────────┼─────────────────────────────┐
//!  Registry    GitServer   FileServer   TokenServer        Sshd
//!     │           └───────────┼─────────────┘               │
//!  Process ── Provisioner   Site                     sshd, one a connection
//!  docker-registry,         hyper, in a thread
//!  tinyproxy (HttpProxy)
//! ```
//!
//! Every server is a value: it is ready when it exists, has a port, a folder and credentials of its own, and is gone
//! when it is dropped, even if that is because the tests were killed. They listen on [`address`].

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "a server that cannot be started fails the test by panicking"
)]

use std::net::{IpAddr, Ipv4Addr};

mod authority;
mod buildah;
mod corpus;
mod database;
mod files;
mod git;
mod opm;
mod process;
mod provisioner;
mod proxy;
mod registry;
mod site;
mod ssh;
mod tokens;

pub use authority::Authority;
pub use buildah::Buildah;
pub use corpus::{Case, Corpus, corpus};
pub use database::{DATABASE_LABEL, DATABASE_TABLES};
pub use files::FileServer;
pub use git::{GitServer, Repository};
pub use opm::{opm, opm_command};
pub use process::program;
pub use provisioner::Provisioner;
pub use proxy::HttpProxy;
pub use registry::{Auth, Registry, docker_config};
pub use site::Site;
pub use ssh::Sshd;
pub use tokens::{Grant, TokenServer};

/// Where all servers listen: the address that `CLUSTER_ADDRESS` names, which pods reach as well where there are pods, else
/// `127.0.0.1`.
pub fn address() -> IpAddr {
    let named = std::env::var("CLUSTER_ADDRESS").unwrap_or_default();
    named.parse().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

/// A user that servers with accounts know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: &'static str,
    /// Its password.
    pub password: &'static str,
    bcrypt: &'static str,
}

/// May read and write everything.
pub const OWNER: User = User {
    name: "owner",
    password: "correct horse battery",
    bcrypt: "$2y$05$abcdefghijklmnopqrstuuD3mHdCr44zlIZ.VZCaYRpfQhXMYnEo.",
};

/// May only read, and with tokens only repositories below `tenant/`.
pub const TENANT: User = User {
    name: "tenant",
    password: "other staple",
    bcrypt: "$2y$05$abcdefghijklmnopqrstuuIWf4k/fJhEiKtc94A0g88ldaCyjkWGe",
};

impl User {
    /// The value of an `Authorization` header.
    pub fn basic(&self) -> String {
        use base64::{Engine as _, engine::general_purpose::STANDARD};
        let pair = format!("{}:{}", self.name, self.password);
        format!("Basic {}", STANDARD.encode(pair))
    }

    /// The user of such a header.
    fn of(header: &str) -> Option<Self> {
        [OWNER, TENANT]
            .into_iter()
            .find(|user| user.basic() == header)
    }
}
