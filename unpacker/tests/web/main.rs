//! Servers, proxies and networks on bad days, and as attackers set them up.

// clippy.toml allows these in functions marked as tests, and not in what the tests share.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]

mod archives;
mod proxies;
mod readers;
mod requests;
mod tls;
mod withheld;

use std::{error::Error as StdError, time::Duration};

use tests::{Authority, Cell, Received, chain};
use unpacker::{
    access::Trust,
    web::{Client, Patience, Proxies},
};

/// The password in headers and URLs of requests.
const SECRET: &str = "sesame";
/// A header with that password.
const BASIC: &str = "Basic bmFtZTpzZXNhbWU=";

/// As many tries as by default, without the waits between them.
fn brisk() -> Patience {
    Patience {
        connect: Duration::from_secs(5),
        idle: Duration::from_secs(5),
        total: Duration::from_secs(20),
        tries: 5,
        pause: Duration::from_millis(1),
    }
}

/// Reads `idle=MS`, `total=MS`, `tries=COUNT` and `endless`.
fn patience(settings: &Cell) -> Patience {
    let mut patience = brisk();
    for word in settings.words() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let milliseconds = || Duration::from_millis(value.parse().unwrap());
        match name {
            "idle" => patience.idle = milliseconds(),
            "total" => patience.total = milliseconds(),
            "tries" => patience.tries = value.parse().unwrap(),
            "endless" => {
                patience.connect = Duration::MAX;
                patience.idle = Duration::MAX;
                patience.total = Duration::MAX;
                patience.tries = u32::MAX;
            }
            _ => {}
        }
    }
    patience
}

/// A client that does not depend on the environment.
fn client(trust: &Trust, patience: &Patience) -> Client {
    Client::with_proxies(trust, patience, &Proxies::default()).unwrap()
}

fn trust(authority: &Authority) -> Trust {
    Trust {
        roots: authority.pem(),
        ..Trust::default()
    }
}

/// One line about an error, which must not repeat the password.
fn failure(reason: &str, is_terminal: bool, error: &impl StdError) -> String {
    let text = chain(error);
    for secret in [SECRET, BASIC.trim_start_matches("Basic "), "signature"] {
        let leaks = text.contains(secret) || format!("{error:?}").contains(secret);
        assert!(!leaks, "{secret} in {text} {error:?}");
    }
    let kind = if is_terminal { "terminal" } else { "transient" };
    format!("{reason}, {kind}: {text}")
}

/// Requests that a server received, equal ones counted: method, target, body, and `bare` if the credentials are missing.
fn trace(seen: &[Received]) -> String {
    let shown = |request: &Received| {
        let body = match String::from_utf8_lossy(&request.body) {
            body if body.is_empty() => String::new(),
            body => format!(" {body}"),
        };
        let credentials = ["authorization", "cookie"].map(|name| request.header(name));
        let bare = match credentials {
            [Some(BASIC), Some("session=sesame")] => "",
            [None, None] => " bare",
            _ => panic!("{credentials:?}"),
        };
        assert_eq!(request.header("accept"), Some("application/gzip"));
        let target = request.target.replace("?token=sesame", "");
        format!("{} {target}{body}{bare}", request.method)
    };
    let lines: Vec<_> = seen.iter().map(shown).collect();
    let counted = lines.chunk_by(PartialEq::eq).map(|lines| match lines {
        [line] => line.clone(),
        lines => format!("{} x {}", lines.len(), lines[0]),
    });
    counted.collect::<Vec<_>>().join(", ")
}
