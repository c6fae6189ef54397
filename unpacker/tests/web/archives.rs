//! Archives behind a URL: what is taken, what is refused, and what is said about it.

use std::{
    io::Write as _,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use unpacker::{
    Access, Content, Digest, Error, Fetched, Format, Limits, Options, Progress, Source,
    access::Basic, http::fetch, pack, source::Http, web,
};

use crate::{
    brisk,
    certificates::Authority,
    chain,
    server::{Answer, Server},
};

fn content(top: &str) -> Content {
    let mut files = manifests::content::Builder::new(Limits::default());
    for (path, text) in [
        ("manifests/csv.yaml", "csv"),
        ("metadata/annotations.yaml", "a: b"),
    ] {
        let path = format!("{top}{path}");
        files.add(&path, 0o644, &mut text.as_bytes()).unwrap();
    }
    files.finish()
}

fn archive(top: &str, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    pack(&content(top), format, &mut bytes).unwrap();
    bytes
}

fn access() -> Access {
    Access {
        basic: Some(Basic {
            username: "name".to_owned(),
            password: "pass:word".to_owned().into(),
        }),
        patience: brisk(),
        ..Access::default()
    }
}

/// Room for small bundles, so that archives are soon too large.
fn small() -> Options {
    let limits = Limits {
        total: 1 << 18,
        entries: 10,
        ..Limits::default()
    };
    Options {
        limits,
        ..Options::default()
    }
}

/// Fetches from a server, with a secret in the query too.
async fn from(server: &Server, sha256: Option<Digest>) -> Result<Fetched, Error> {
    let http = Http {
        url: server.url("/b.tgz?signature=pass:word").parse().unwrap(),
        sha256,
    };
    fetch(&http, &access(), &small(), &Progress::default()).await
}

/// The reason and the message, which must show no secret, whether the answer is pinned or not.
async fn refused(answer: Answer) -> (&'static str, String) {
    let server = Server::plain(move |_| answer.clone()).await;
    let error = from(&server, None).await.unwrap_err();
    let text = chain(&error).replace(&server.url(""), "http://h");
    for secret in ["pass:word", "bmFtZTpwYXNzOndvcmQ", "signature"] {
        let debug = format!("{error:?}");
        assert!(
            !text.contains(secret) && !debug.contains(secret),
            "{text} {debug}"
        );
    }
    (error.reason(), text)
}

#[tokio::test]
async fn archives_become_content_and_are_pinned() {
    for (top, format) in [
        ("", Format::Tar),
        ("", Format::TarGz),
        ("bundle/", Format::TarGz),
    ] {
        let bytes = archive(top, format);
        let answer = Answer::ok(&bytes);
        let server = Server::plain(move |_| answer.clone()).await;
        let progress = Progress::default();
        let mut http = Http {
            url: server.url("/b.tgz?x=1").parse().unwrap(),
            sha256: None,
        };
        let fetched = fetch(&http, &access(), &Options::default(), &progress).await;
        let fetched = fetched.unwrap();
        assert_eq!(fetched.tree.into_content().unwrap(), content(""));
        assert_eq!(fetched.digest, Some(Digest::of(&bytes)));
        http.sha256 = fetched.digest;
        assert_eq!(fetched.resolved, Source::Http(http.clone()));
        let size = bytes.len() as u64;
        assert_eq!((progress.done(), progress.total()), (size, size));

        let again = fetch(&http, &access(), &Options::default(), &progress).await;
        assert_eq!(again.unwrap().resolved, fetched.resolved);
        let basic = "Basic bmFtZTpwYXNzOndvcmQ=";
        assert!(
            server
                .seen()
                .iter()
                .all(|seen| seen.header("authorization") == Some(basic))
        );
    }
}

#[tokio::test]
async fn the_digest_is_of_the_whole_body() {
    // Empty gzip members and blocks of zeros change nothing for a reader of tar.
    let mut padded = archive("", Format::Tar);
    padded.resize(padded.len() + 10 * 512, 0);
    let mut gzip = archive("", Format::TarGz);
    let empty = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.extend(empty.finish().unwrap());
    for bytes in [padded, gzip] {
        let answer = Answer::ok(&bytes);
        let server = Server::plain(move |_| answer.clone()).await;
        let fetched = from(&server, None).await.unwrap();
        assert_eq!(fetched.digest, Some(Digest::of(&bytes)));
    }
}

#[tokio::test]
async fn what_is_not_what_was_pinned_is_refused_with_both_digests() {
    let expected = Digest::of(b"another");
    for (bytes, source) in [
        (archive("", Format::TarGz), ""),
        (b"<html>".repeat(100_000), "neither a tar"),
        (b"".to_vec(), "the archive is empty"),
    ] {
        let answer = Answer::ok(&bytes);
        let server = Server::plain(move |_| answer.clone()).await;
        let error = from(&server, Some(expected)).await.unwrap_err();
        let text = chain(&error);
        let start = format!(
            "{} gives {}, but is pinned to {expected}; find out who has changed it, and pin the new digest if it is right",
            server.url("/b.tgz"),
            Digest::of(&bytes)
        );
        assert!(text.starts_with(&start) && text.contains(source), "{text}");
        assert_eq!(
            (error.reason(), error.is_terminal()),
            ("DigestMismatch", true)
        );
    }
}

#[tokio::test]
async fn only_the_status_200_brings_an_archive() {
    let bytes = archive("", Format::TarGz);
    for (status, reason, remedy) in [
        ("202 Accepted", "UnexpectedStatus", "check the address"),
        ("204 No Content", "UnexpectedStatus", "check the address"),
        (
            "206 Partial Content",
            "UnexpectedStatus",
            "check the address",
        ),
        ("304 Not Modified", "UnexpectedStatus", "check the address"),
        ("401 Unauthorized", "Unauthorized", "check the credentials"),
        (
            "403 Forbidden",
            "Unauthorized",
            "these credentials may read it",
        ),
        ("404 Not Found", "NotFound", "check the address"),
        ("410 Gone", "NotFound", "check the address"),
        (
            "500 Internal Server Error",
            "UnexpectedStatus",
            "try again later",
        ),
        (
            "503 Service Unavailable",
            "UnexpectedStatus",
            "try again later",
        ),
    ] {
        let body = if status.starts_with("20") {
            &*bytes
        } else {
            b""
        };
        let (found, text) = refused(Answer::new(status, &[], body)).await;
        let start = format!("GET http://h/b.tgz: unexpected status \"{status}\"");
        assert!(text.starts_with(&start) && text.contains(remedy), "{text}");
        assert_eq!(found, reason);
    }
}

#[tokio::test]
async fn what_is_no_archive_is_refused_and_named() {
    let page = "\u{feff}\n <!DOCTYPE html><html>Log in, name pass:word";
    let page = [("Content-Type", "text/html")]
        .map(|header| Answer::new("200 OK", &[header], page.as_bytes()));
    let [page] = page;
    let mut cut = archive("", Format::TarGz);
    cut.truncate(cut.len() - 20);
    let damaged = b"\x1f\x8b\x08\0\0\0\0\0\0\0not deflate".to_vec();
    for (answer, reason, problem) in [
        (page, "UnknownFormat", "a page of HTML or XML"),
        (
            Answer::ok(b"<?xml"),
            "UnknownFormat",
            "a page of HTML or XML",
        ),
        (
            Answer::ok(b"{\"message\": \"no\"}"),
            "UnknownFormat",
            "but JSON",
        ),
        (Answer::ok(b"PK\x03\x04"), "UnknownFormat", "but a zip"),
        (Answer::ok(b""), "ArchiveTruncated", "the archive is empty"),
        (Answer::ok(&cut), "ArchiveTruncated", "cut short"),
        (
            Answer::ok(&damaged),
            "ArchiveDamaged",
            "cannot be decompressed",
        ),
    ] {
        let (found, text) = refused(answer).await;
        assert!(
            text.contains("http://h/b.tgz") && text.contains(problem),
            "{text}"
        );
        assert_eq!(found, reason, "{text}");
    }
}

#[tokio::test]
async fn a_body_larger_than_any_archive_allowed_is_not_read_to_its_end() {
    let limit = small().stream_limit();
    let stated = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", limit + 1);
    let open = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    let empty = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let empty = empty.finish().unwrap().repeat(1000);
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    for _ in 0..=limit >> 20 {
        bomb.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let start = [open.clone(), archive("", Format::Tar)].concat();
    for answer in [
        Answer::Stall(stated.into_bytes()),
        Answer::Endless(open, empty),
        Answer::Endless(start, vec![0; 1 << 16]),
        Answer::ok(&bomb.finish().unwrap()),
    ] {
        let (reason, text) = refused(answer).await;
        assert_eq!(reason, "LimitExceeded", "{text}");
        assert!(text.contains(&limit.to_string()), "{text}");
    }
}

#[tokio::test]
async fn limits_hold_for_archives_from_afar() {
    let answer = Answer::ok(&archive("", Format::TarGz));
    let server = Server::plain(move |_| answer.clone()).await;
    let http = Http {
        url: server.url("/").parse().unwrap(),
        sha256: None,
    };
    let limits = Limits {
        entries: 1,
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let error = fetch(&http, &access(), &options, &Progress::default()).await;
    let error = error.unwrap_err();
    assert!(chain(&error).contains("--max-entries"), "{}", chain(&error));
    assert_eq!(error.reason(), "LimitExceeded");
}

#[tokio::test]
async fn a_transfer_that_breaks_begins_again() {
    let bytes = archive("", Format::TarGz);
    let length = bytes.len().to_string();
    let broken = Answer::new(
        "200 OK",
        &[("Content-Length", &length)],
        &bytes[..bytes.len() / 2],
    );
    for (times, requests) in [(2, 3), (usize::MAX, 5)] {
        let (broken, whole, asked) = (broken.clone(), Answer::ok(&bytes), AtomicUsize::new(0));
        let server = Server::plain(move |_| {
            if asked.fetch_add(1, Ordering::Relaxed) < times {
                broken.clone()
            } else {
                whole.clone()
            }
        })
        .await;
        let http = Http {
            url: server.url("/b.tgz").parse().unwrap(),
            sha256: Some(Digest::of(&bytes)),
        };
        let progress = Progress::default();
        let fetched = fetch(&http, &access(), &Options::default(), &progress).await;
        assert_eq!(server.seen().len(), requests);
        match fetched {
            Ok(fetched) => {
                assert_eq!(fetched.tree.into_content().unwrap(), content(""));
                assert_eq!(progress.done(), bytes.len() as u64);
            }
            Err(error) => {
                assert_eq!(times, usize::MAX);
                assert_eq!(
                    (error.reason(), error.is_terminal()),
                    ("ConnectionBroken", false)
                );
            }
        }
    }
}

#[tokio::test]
async fn an_archive_that_drips_is_given_up() {
    // The beginning of a gzip, up to the name of its file.
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n\x1f\x8b\x08\x08\0\0\0\0\0\x03";
    let server = Server::plain(|_| Answer::Drip(head.to_vec())).await;
    let http = Http {
        url: server.url("/b.tgz").parse().unwrap(),
        sha256: None,
    };
    let mut access = access();
    access.patience.total = Duration::from_millis(300);
    let fetched = fetch(&http, &access, &Options::default(), &Progress::default()).await;
    let error = fetched.unwrap_err();
    assert!(
        matches!(error, Error::Web(web::Error::Slow { .. })),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_url_with_credentials_in_it_is_refused_without_them() {
    for url in [
        "https://name:word@h.example/b.tgz",
        "https://word@h.example/b.tgz",
    ] {
        let http = Http {
            url: url.parse().unwrap(),
            sha256: None,
        };
        let fetched = fetch(&http, &access(), &small(), &Progress::default()).await;
        let text = fetched.unwrap_err().to_string();
        let expected = "https://h.example/b.tgz is given with credentials in it; take them out";
        assert!(text.starts_with(expected), "{text}");
        assert!(!text.replace("--password", "").contains("word"), "{text}");
    }
}

#[tokio::test]
async fn credentials_go_to_the_server_of_the_url_alone() {
    let answer = Answer::ok(&archive("", Format::TarGz));
    let authority = Authority::new();
    let storage = Server::tls(authority.server(&["127.0.0.1"]), move |_| answer.clone()).await;
    let elsewhere = storage.url("/blob?signature=1");
    let server = Server::tls(authority.server(&["127.0.0.1"]), move |_| {
        Answer::redirect(302, &elsewhere)
    })
    .await;
    let http = Http {
        url: server.url("/b.tgz").parse().unwrap(),
        sha256: None,
    };
    let access = Access {
        trust: authority.trust(),
        ..access()
    };
    let fetched = fetch(&http, &access, &Options::default(), &Progress::default()).await;
    // What is pinned is where it was asked for, not where the bytes happened to lie.
    let Source::Http(resolved) = fetched.unwrap().resolved else {
        panic!("another source")
    };
    assert_eq!(resolved.url, http.url);
    assert!(server.seen()[0].header("authorization").is_some());
    assert_eq!(storage.seen()[0].header("authorization"), None);
}
