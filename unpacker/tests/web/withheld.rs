//! Errors show responses of a server to a local user, and withhold them from callers that act for other users.

use crate::*;

/// Returns reason, finality and message of a failed fetch.
async fn failed(source: &str, quotes: Quotes) -> (&'static str, bool, String) {
    let access =
        with!(Access::default() => timeouts: brisk(), quotes: quotes, trust.verify: Verify::Never);
    let source = Source::parse(source, |_| false).unwrap();
    let (options, progress) = (Options::default(), Progress::default());
    let fetched = unpacker::fetch(&source, &access, &options, &progress).await;
    let error = fetched.unwrap_err();
    (error.reason(), error.is_terminal(), chain(&error))
}

/// Returns the message for other users, and checks that only a local user reads the text of the server.
async fn outcome([source, script, chosen]: &[Cell; 3]) -> String {
    let server = ScriptedServer::start(script.script());
    let source = source.text().replace("HOST", &server.host());
    let chosen = match chosen.raw() {
        "" => "remote-chosen".to_owned(),
        _ => chosen.text(),
    };
    let (reason, is_terminal, shown) = failed(&source, Quotes::Shown).await;
    assert_has(&shown, &chosen);
    let (withheld_reason, withheld_terminal, withheld) = failed(&source, Quotes::Withheld).await;
    assert_eq!((withheld_reason, withheld_terminal), (reason, is_terminal));
    assert!(!withheld.contains(&chosen), "{chosen} is in {withheld}");
    withheld
}

/// Encodes a line of git's protocol.
fn line(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

#[tokio::test]
async fn text_that_a_server_chose_is_withheld() {
    let (pinned, hash) = (Digest::sha256(b"pinned"), "0123456789".repeat(4));
    let branch = line(&format!("{hash} refs/heads/remote-chosen\n"));
    let values = Values::default()
        .with("pinned", pinned.to_string())
        .with("internal", Digest::sha256(b"internal document").to_string())
        .with("page", Digest::sha256(b"<html>internal</html>").to_string())
        .with("nothing", Digest::sha256(b"").to_string())
        .with("braces", Digest::sha256(b"{}").to_string())
        .with("greeting", line("version 2\n") + "0000")
        .with("git", "Content-Type: application/x-git-upload-pack")
        .with("hash", hash)
        .with("err", line("ERR remote-chosen\n"))
        .with("missing", line("ERR remote-chosen not found\n"))
        .with("branch", branch)
        .with("pack", line("packfile\n") + &line("\u{3}remote-chosen"));
    let rows = r#"
        # source, server, text that the server chose unless it is remote-chosen, message without that text
        pinned document | http://HOST/a.tgz#{pinned} | 200 << internal document | {internal}
          | *provides other content, but is pinned to {pinned}*
        pinned page     | http://HOST/a.tgz#{pinned} | 200 << <html>internal</html> | {page}
          | *provides other content, but is pinned to {pinned}*
        pinned nothing  | http://HOST/a.tgz#{pinned} | 200 | {nothing} | *provides other content, but is pinned to {pinned}*
        pinned image    | HOST/a@{pinned} | 200 << {} | {braces} | *digest mismatch for*
        body            | http://HOST/a.tgz | 403 << remote-chosen |
          | *unexpected status "403 Forbidden"; check that these credentials have read access*
        status          | http://HOST/a.tgz | 418 | teapot | */a.tgz: the server rejected the request*
        redirected      | http://HOST/a.tgz | /a.tgz => 302; Location: /remote-chosen && 404 |
          | */a.tgz (redirected): unexpected status "404 Not Found"*
        redirect        | http://HOST/a.tgz | 302; Location: remote-chosen:8080 | | */a.tgz redirects to a URL that is not followed; use the final URL*
        git error       | git+http://HOST/r.git#refs/heads/main | GET => 200; {git}-advertisement << {greeting} && 200; {git}-result << {err}0000 |
          | *r.git: the server rejected the request; check the URL, or contact the server administrator*
        git not found   | git+http://HOST/r.git#refs/heads/main | GET => 200; {git}-advertisement << {greeting} && 200; {git}-result << {missing}0000 |
          | *not found, or not visible with these credentials; check the URL and the credentials*
        git branch      | git+http://HOST/r.git#refs/heads/main | GET => 200; {git}-advertisement << {greeting} && 200; {git}-result << {branch}0000 |
          | *branch "main" not found; check the name*
        git type        | git+http://HOST/r.git#refs/heads/main | 200; Content-Type: remote-chosen |
          | *not a git server: unexpected content type; check that "git clone" accepts this URL*
        git page        | git+http://HOST/r.git#refs/heads/main | 404 << remote-chosen | | *not visible with these credentials; check*
        git sideband    | git+http://HOST/r.git#{hash} | GET => 200; {git}-advertisement << {greeting} && 200; {git}-result << {pack}0000 | | *the server aborted the request; try again*
        schema version  | HOST/a:v1 | 200 << {"schemaVersion": "remote-chosen"} | | *the manifest is malformed; check*
        media type      | HOST/a:v1 | 200 << {"mediaType": "remote-chosen"} | | *the document is neither a manifest nor an index; check*
        token service   | HOST/a:v1 | 401; WWW-Authenticate: Bearer realm="ftp://remote-chosen" |
          | *uses a token service, which is neither https:// nor http://*
        no token        | HOST/a:v1 | GET /remote-chosen => 404 && 401; WWW-Authenticate: Bearer realm="http://{host}/remote-chosen" |
          | *failed to get a token for the registry*
    "#;
    table::check(rows, &values, outcome).await;
}
