//! Registries: real ones, and what attackers and bad days make of them.

// clippy.toml allows these in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod attacks;
mod deadline;
mod images;
mod mirrors;
mod proofs;
mod pushes;
mod real;
mod transfers;

// What web tests are done with, too.
#[allow(dead_code)]
#[path = "../web/certificates.rs"]
mod certificates;
#[allow(dead_code)]
#[path = "../web/server.rs"]
mod server;

use std::{error::Error as StdError, fmt::Write as _, time::Duration};

use unpacker::{
    Access, Error, Options,
    access::{Trust, Verify},
    fetch::{Fetched, Progress},
    image,
    registry::Credentials,
    source::Image,
    web::Patience,
};

/// As many tries as ever, without the waits between them.
fn brisk() -> Patience {
    Patience {
        connect: Duration::from_secs(10),
        idle: Duration::from_secs(10),
        total: Duration::from_secs(30),
        tries: 4,
        pause: Duration::from_millis(1),
    }
}

/// For a registry that speaks plain HTTP.
fn plain() -> Access {
    Access {
        trust: Trust {
            verify: Verify::Never,
            ..Trust::default()
        },
        patience: brisk(),
        ..Access::default()
    }
}

/// For a registry with a certificate of this authority.
fn trusting(roots: String) -> Access {
    Access {
        trust: Trust {
            roots,
            ..Trust::default()
        },
        patience: brisk(),
        ..Access::default()
    }
}

fn with(access: Access, docker_config: &str) -> Access {
    Access {
        registries: Credentials::from_docker_config(docker_config.as_bytes()).unwrap(),
        ..access
    }
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

/// Paths and what is in them, or the reason and the message with all its causes.
fn outcome(result: Result<Fetched, Error>) -> Result<String, String> {
    let content = result.and_then(|fetched| fetched.tree.into_content());
    let content = content.map_err(|error| format!("{}: {}", error.reason(), chain(&error)))?;
    let files = content.files().map(|(path, file)| {
        let text = String::from_utf8_lossy(&file.bytes);
        format!("{path}={}", text.chars().take(20).collect::<String>())
    });
    Ok(files.collect::<Vec<_>>().join(" "))
}

fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(text, ": {error}").unwrap();
        cause = error.source();
    }
    text
}
