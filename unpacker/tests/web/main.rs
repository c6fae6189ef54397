//! Servers, proxies and networks as they are on bad days, and as attackers set them up.

// clippy.toml allows these in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod archives;
mod bodies;
mod certificates;
mod proxies;
mod redirects;
mod retries;
mod server;
mod tls;
mod withheld;

use std::{error::Error as StdError, fmt::Write as _, time::Duration};

use unpacker::{
    access::Trust,
    web::{Client, Patience, Proxies, Request, Response, Result},
};

/// As many tries as ever, without the waits between them.
fn brisk() -> Patience {
    Patience {
        connect: Duration::from_secs(5),
        idle: Duration::from_secs(5),
        total: Duration::from_secs(20),
        tries: 5,
        pause: Duration::from_millis(1),
    }
}

/// A client that no environment has a say in.
fn client(patience: &Patience) -> Client {
    Client::with_proxies(&Trust::default(), patience, &Proxies::default()).unwrap()
}

async fn get(url: &str) -> Result<Response> {
    client(&brisk())
        .send(&Request::get(url.parse().unwrap()))
        .await
}

/// The message with all its causes, as a user sees it.
fn chain(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        write!(text, ": {error}").unwrap();
        cause = error.source();
    }
    text
}
