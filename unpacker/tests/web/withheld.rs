//! Errors repeat the answers of a server for a local user, and withhold them from callers who ask for other users.

use unpacker::{
    Access, Digest, Options, Progress, Source,
    access::{Quotes, Trust, Verify},
};

use crate::{
    brisk, chain,
    server::{Answer, Seen, Server},
};

/// Text that only the server can have chosen. It fits into a reference, a URL and a header.
const REMOTE: &str = "remote-chosen";

const GREETING: &str = "application/x-git-upload-pack-advertisement";
const ANSWER: &str = "application/x-git-upload-pack-result";

/// The error for a source at this server.
async fn failure(source: &str, quotes: Quotes) -> String {
    let access = Access {
        trust: Trust {
            verify: Verify::Never,
            ..Trust::default()
        },
        patience: brisk(),
        quotes,
        ..Access::default()
    };
    let source = Source::parse(source, |_| false).unwrap();
    let (options, progress) = (Options::default(), Progress::default());
    let fetched = unpacker::fetch(&source, &access, &options, &progress).await;
    chain(&fetched.unwrap_err())
}

/// Checks that only a local user reads `secret`, and that both read what went wrong.
async fn is_withheld(
    source: &str,
    secret: &str,
    problem: &str,
    answer: impl Fn(&Seen) -> Answer + Send + Sync + 'static,
) {
    let server = Server::plain(answer).await;
    let source = source.replace("HOST", &server.address.to_string());
    let whole = failure(&source, Quotes::Shown).await;
    assert!(whole.contains(secret), "{source}: {whole}");
    let left = failure(&source, Quotes::Withheld).await;
    assert!(left.contains(problem), "{source}: {left}");
    assert!(!left.contains(secret), "{source}: {left}");
}

fn line(text: &str) -> Vec<u8> {
    format!("{:04x}{text}", text.len() + 4).into_bytes()
}

/// Greets in the protocol's version 2, and answers every question like this.
fn git(seen: &Seen, body: &[u8]) -> Answer {
    if seen.method == "GET" {
        let greeting = [line("version 2\n"), b"0000".to_vec()].concat();
        Answer::new("200 OK", &[("Content-Type", GREETING)], &greeting)
    } else {
        Answer::new("200 OK", &[("Content-Type", ANSWER)], body)
    }
}

#[tokio::test]
async fn the_digest_of_a_body_that_is_not_the_pinned_one_is_withheld() {
    let pinned = Digest::of(b"pinned");
    let source = format!("http://HOST/a.tgz#{pinned}");
    for body in [&b"internal document"[..], b"<html>internal</html>", b""] {
        let problem = format!("/a.tgz gives something else, but is pinned to {pinned}");
        let actual = Digest::of(body).to_string();
        is_withheld(&source, &actual, &problem, |_| Answer::ok(body)).await;
    }
    let image = format!("HOST/a@{pinned}");
    let actual = Digest::of(b"{}").to_string();
    let problem = "is not what its digest says";
    is_withheld(&image, &actual, problem, |_| Answer::ok(b"{}")).await;
}

#[tokio::test]
async fn bodies_and_targets_of_redirects_are_withheld() {
    let problem = "unexpected status \"403 Forbidden\"; check that these credentials may read it";
    is_withheld("http://HOST/a.tgz", REMOTE, problem, |_| {
        Answer::new("403 Forbidden", &[], REMOTE.as_bytes())
    })
    .await;
    let problem = "/a.tgz: the server rejects the request";
    is_withheld("http://HOST/a.tgz", "teapot", problem, |_| {
        Answer::new("418 Teapot", &[], b"")
    })
    .await;
    let problem = "/a.tgz (redirected): unexpected status \"404 Not Found\"";
    is_withheld("http://HOST/a.tgz", REMOTE, problem, |seen| {
        match seen.target.as_str() {
            "/a.tgz" => Answer::redirect(302, &format!("/{REMOTE}")),
            _ => Answer::new("404 Not Found", &[], b""),
        }
    })
    .await;
    let problem = "/a.tgz redirects to an address that is not followed";
    is_withheld("http://HOST/a.tgz", REMOTE, problem, |_| {
        Answer::redirect(302, &format!("{REMOTE}:8080"))
    })
    .await;
}

#[tokio::test]
async fn texts_and_names_of_git_servers_are_withheld() {
    let repository = "git+http://HOST/r.git#refs/heads/main";
    let refused = |text: String| [line(&text), b"0000".to_vec()].concat();
    for (body, problem) in [
        (
            refused(format!("ERR {REMOTE}\n")),
            "r.git: the server refuses; check",
        ),
        (
            refused(format!("ERR {REMOTE} not found\n")),
            "is hidden from who has no right to it; check",
        ),
        (
            refused(format!(
                "0123456789012345678901234567890123456789 refs/heads/{REMOTE}\n"
            )),
            "there is no branch \"main\"; check the name",
        ),
    ] {
        is_withheld(repository, REMOTE, problem, move |seen| git(seen, &body)).await;
    }
    let problem = "it answers with another kind of content";
    is_withheld(repository, REMOTE, problem, |_| {
        Answer::new("200 OK", &[("Content-Type", REMOTE)], b"")
    })
    .await;
    let problem = "is hidden from who has no right to it; check";
    is_withheld(repository, REMOTE, problem, |_| {
        Answer::new("404 Not Found", &[], REMOTE.as_bytes())
    })
    .await;
    let problem = "the server gives up; try again";
    let commit = "git+http://HOST/r.git#0123456789012345678901234567890123456789";
    is_withheld(commit, REMOTE, problem, |seen| {
        let sideband = line(&format!("\u{3}{REMOTE}"));
        let body = [line("packfile\n"), sideband, b"0000".to_vec()].concat();
        git(seen, &body)
    })
    .await;
}

#[tokio::test]
async fn documents_and_token_services_of_registries_are_withheld() {
    for (body, problem) in [
        (
            format!(r#"{{"schemaVersion": "{REMOTE}"}}"#),
            "the manifest is not well formed; check",
        ),
        (
            format!(r#"{{"mediaType": "{REMOTE}"}}"#),
            "this is neither a manifest nor an index; check",
        ),
    ] {
        is_withheld("HOST/a:v1", REMOTE, problem, move |_| {
            Answer::ok(body.as_bytes())
        })
        .await;
    }
    let challenge = |realm: &str| {
        let challenge = format!("Bearer realm=\"{realm}\"");
        let headers = [("WWW-Authenticate", challenge.as_str())];
        Answer::new("401 Unauthorized", &headers, b"")
    };
    let problem =
        "sends us to the token service that it chose, which is neither https:// nor http://";
    is_withheld("HOST/a:v1", REMOTE, problem, move |_| {
        challenge(&format!("ftp://{REMOTE}"))
    })
    .await;
    let problem = "failed to get a token for the registry";
    is_withheld("HOST/a:v1", REMOTE, problem, move |seen| {
        if seen.target.starts_with(&format!("/{REMOTE}")) {
            return Answer::new("404 Not Found", &[], b"");
        }
        let host = seen.header("host").unwrap_or_default();
        challenge(&format!("http://{host}/{REMOTE}"))
    })
    .await;
}
