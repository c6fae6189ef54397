//! Registries: real ones, hostile ones, and ones on bad days.

// clippy.toml allows these in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod attacks;
mod images;
mod mirrors;
mod pushes;
mod real;
mod tokens;
mod transfers;

use std::time::Duration;

use tests::chain;
use unpacker::{
    Access, Error, Options,
    access::{Trust, Verify},
    fetch::{Fetched, Progress},
    image,
    registry::Credentials,
    source::Image,
    web::Patience,
};

/// As many tries as by default, without the waits between them.
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
        ..trusting(String::new())
    }
}

/// For a registry with a certificate of these authorities.
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

/// Paths and the start of each file, or the error: its reason, whether it is final, and its message with all causes.
fn outcome(result: Result<Fetched, Error>) -> String {
    let content = match result.and_then(|fetched| fetched.tree.into_content()) {
        Ok(content) => content,
        Err(error) => {
            let kind = if error.is_terminal() {
                "terminal"
            } else {
                "transient"
            };
            return format!("{}, {kind}: {}", error.reason(), chain(&error));
        }
    };
    let files = content.files().map(|(path, file)| {
        let text = String::from_utf8_lossy(&file.bytes);
        format!("{path}={}", text.chars().take(20).collect::<String>())
    });
    files.collect::<Vec<_>>().join(" ")
}
