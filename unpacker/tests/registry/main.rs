//! Real, hostile and failing registries.

// clippy.toml allows the first lints in test functions, but not in shared helpers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::wildcard_imports)]

#[macro_use(assert_rows, with)]
extern crate tests;

mod attacks;
mod images;
mod mirrors;
mod push;
mod real;
mod tokens;
mod transfers;

use std::{
    collections::BTreeMap,
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use manifests::content::{Builder, Content, Limits};
use serde_json::{Value, json};
use tests::{
    Answer, Auth, Cell, OWNER, Port, Received, Script, ScriptedServer, TENANT, TestCa, TokenServer,
    Values, assert_has, chain, counted, docker_config, gzip, noise, pairs, table,
};
use unpacker::{
    Access, Digest, Error, Fetched, Options, Progress, Source,
    access::Verify,
    http_client::Timeouts,
    image,
    registry::{BundleImage, Credentials, Mirrors, push},
    source::Image,
};

use images::{INDEX, LAYER, MANIFEST, Registry, Store, descriptor, digest, layer};
use real::{bundle, pushed};

/// Returns settings with the default number of attempts and a delay of 1 ms.
fn brisk() -> Timeouts {
    let [ten, thirty] = [10, 30].map(Duration::from_secs);
    with!(Timeouts::default() => connect: ten, idle: ten, total: thirty, attempts: 4, retry_delay: Duration::from_millis(1))
}

/// Returns access to a registry over plain HTTP.
fn plain() -> Access {
    with!(trusting(String::new()) => trust.verify: Verify::Never)
}

/// Returns access to a registry with a certificate of these CAs.
fn trusting(roots: String) -> Access {
    with!(Access::default() => timeouts: brisk(), trust.roots: roots)
}

fn with(access: Access, docker_config: &str) -> Access {
    with!(Access, registries: Credentials::from_docker_config(docker_config.as_bytes()).unwrap(); ..access)
}

fn source(reference: &str) -> Image {
    Image {
        reference: reference.parse().unwrap(),
        platform: None,
    }
}

async fn pull(reference: &str, access: &Access) -> Result<Fetched, Error> {
    let (options, progress) = (Options::default(), Progress::default());
    image::fetch(&source(reference), access, &options, &progress).await
}

/// Returns paths and the start of each file, or the reason, the finality and the message chain of the error.
fn outcome(result: Result<Fetched, Error>) -> String {
    let content = match result.and_then(|fetched| fetched.tree.into_content()) {
        Ok(content) => content,
        Err(error) => {
            let kind = ["transient", "terminal"][usize::from(error.is_terminal())];
            return format!("{}, {kind}: {}", error.reason(), chain(&error));
        }
    };
    let files = content.files().map(|(path, file)| {
        let text = String::from_utf8_lossy(&file.bytes);
        format!("{path}={text:.20}")
    });
    files.collect::<Vec<_>>().join(" ")
}
