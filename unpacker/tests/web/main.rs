//! Failing and hostile servers, proxies and networks.

// clippy.toml allows the first lints in test functions, but not in shared helpers.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic)]
#![allow(clippy::wildcard_imports)]

#[macro_use(assert_rows, with)]
extern crate tests;

mod archives;
mod proxies;
mod readers;
mod requests;
mod tls;
mod withheld;

use std::{
    cell::LazyCell,
    error::Error as StdError,
    io::Read as _,
    process::Command,
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use http::Method;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, date_time_ymd};
use rustls::ServerConfig;
use tests::{
    Cell, Port, Received, Script, ScriptedServer, TestCa, Values, assert_has, chain, counted, gzip,
    pairs, table,
};
use unpacker::{
    Access, Digest, Format, Limits, Options, Progress, Source,
    access::{Basic, Quotes, Secret, Trust, Verify},
    http_archive::fetch,
    http_client::{Client, Error, Proxies, Request, Timeouts, reader},
    pack,
    source::Http,
};
use url::Url;

/// The password in headers and URLs of requests.
const SECRET: &str = "sesame";
/// The `Authorization` header with that password.
const BASIC: &str = "Basic bmFtZTpzZXNhbWU=";

/// Returns settings with the default number of attempts and a delay of 1 ms.
fn brisk() -> Timeouts {
    let [five, twenty] = [5, 20].map(Duration::from_secs);
    with!(Timeouts::default() => connect: five, idle: five, total: twenty, attempts: 5, retry_delay: Duration::from_millis(1))
}

/// Reads `idle=MS`, `total=MS`, `attempts=COUNT` and `endless`.
fn timeouts(settings: &Cell) -> Timeouts {
    let mut timeouts = brisk();
    for word in settings.words() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let milliseconds = || Duration::from_millis(value.parse().unwrap());
        match name {
            "idle" => timeouts.idle = milliseconds(),
            "total" => timeouts.total = milliseconds(),
            "attempts" => timeouts.attempts = value.parse().unwrap(),
            "endless" => {
                (timeouts.connect, timeouts.idle) = (Duration::MAX, Duration::MAX);
                (timeouts.total, timeouts.attempts) = (Duration::MAX, u32::MAX);
            }
            _ => {}
        }
    }
    timeouts
}

/// Sends a request with a client that does not depend on the environment, and reads at most 1000 bytes of the answer.
async fn sent(client: &Client, request: &Request) -> Result<(Url, String), Error> {
    let response = client.send(request).await?;
    if response.status != 200 {
        return Err(response.into_error().await);
    }
    let (url, body) = (response.url.clone(), response.bytes(1000).await?);
    Ok((url, String::from_utf8(body.to_vec()).unwrap()))
}

fn client(trust: &Trust, timeouts: &Timeouts) -> Client {
    Client::with_proxies(trust, timeouts, &Proxies::default()).unwrap()
}

fn trust(ca: &TestCa) -> Trust {
    with!(Trust, roots: ca.pem())
}

/// Describes an error of the unpacker in one line, and checks that it does not contain the password.
fn failure(reason: &str, is_terminal: bool, error: &impl StdError) -> String {
    let text = chain(error);
    for secret in [SECRET, BASIC.trim_start_matches("Basic "), "signature"] {
        assert_rows!(text.contains(secret) || format!("{error:?}").contains(secret) => false, "{secret} in {text} {error:?}");
    }
    let kind = if is_terminal { "terminal" } else { "transient" };
    format!("{reason}, {kind}: {text}")
}

fn described(error: &Error) -> String {
    failure(error.reason(), error.is_terminal(), error)
}

/// Describes received requests, with equal ones counted: method, target, body, and `bare` without credentials.
fn trace(requests: &[Received]) -> String {
    counted(requests, |request| {
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
    })
}
