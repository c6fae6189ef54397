//! Archives behind a URL: pinned, bounded, and rejected with a reason.

use crate::*;

fn archive(top: &str, format: Format) -> Vec<u8> {
    let mut files = manifests::content::Builder::new(Limits::default());
    for (path, text) in pairs("manifests/csv.yaml csv, metadata/annotations.yaml a: b") {
        let path = format!("{top}{path}");
        files.add(&path, 0o644, &mut text.as_bytes()).unwrap();
    }
    let mut bytes = Vec::new();
    pack(&files.finish(), format, &mut bytes).unwrap();
    bytes
}

/// Small limits, so that small archives exceed them.
fn small() -> Options {
    with!(Options::default() => limits.total: 1 << 18, limits.entries: 10)
}

/// Fetches an archive, and returns the number of requests, and the content with digest and progress or the error.
async fn outcome([script, pin]: &[Cell; 2]) -> String {
    let server = ScriptedServer::start(script.script());
    let mut http = Http {
        url: server.url("/b.tgz?signature=sesame").parse().unwrap(),
        sha256: (!pin.raw().is_empty()).then(|| pin.text().parse().unwrap()),
    };
    let access = with!(
        Access, basic: Some(Basic { username: "name".to_owned(), password: SECRET.to_owned().into() }), timeouts: brisk()
    );
    let progress = Progress::default();
    let result = match fetch(&http, &access, &small(), &progress).await {
        Ok(fetched) => {
            let digest = fetched.digest.unwrap();
            http.sha256 = Some(digest);
            assert_eq!(fetched.resolved, Source::Http(http.clone()));
            let content = fetched.tree.into_content().unwrap();
            let files = content.files().map(|(path, file)| {
                let text = String::from_utf8_lossy(&file.bytes);
                format!("{path}={text}")
            });
            let content = files.collect::<Vec<_>>().join(", ");
            assert_eq!(progress.done(), progress.total());
            format!("{content}, {digest}, {} bytes", progress.done())
        }
        Err(error) => failure(error.reason(), error.is_terminal(), &error),
    };
    let requests = server.seen();
    assert_rows!(requests.iter().all(|request: &Received| request.header("authorization") == Some(BASIC)) => true);
    let result = result.replace(&server.host(), "h");
    format!("{}: {result}", requests.len())
}

// parity: h4
#[tokio::test]
async fn archives_are_fetched_whole_or_rejected() {
    let (tar, tgz) = (archive("", Format::Tar), archive("", Format::TarGz));
    let directory = archive("bundle/", Format::TarGz);
    // Readers of tar ignore zero blocks and empty gzip members.
    let padded = [&*tar, &[0; 10 * 512]].concat();
    let members = [&*tgz, &gzip(b"")].concat();
    let limit = small().stream_limit();
    let mut values = Values::default()
        .with("files", "manifests/csv.yaml=csv, metadata/annotations.yaml=a: b")
        .with("other", Digest::sha256(b"another").to_string())
        .with("pinned", format!("but is pinned to {}; find out why it changed, and pin the new digest if it is correct", Digest::sha256(b"another")))
        .with("limit", limit.to_string())
        .with("too-long", (limit + 1).to_string())
        .with("members", gzip(b"").repeat(1000))
        .with("zeros", vec![0; 1 << 16])
        .with("bomb", gzip(&vec![0; usize::try_from(limit).unwrap() + (1 << 20)]))
        .with("half", &tgz[..tgz.len() / 2])
        .with("cut", &tgz[..tgz.len() - 20]);
    let html = b"<html>".repeat(100_000);
    for (name, bytes) in [
        ("tar", &*tar),
        ("tgz", &tgz),
        ("top", &directory),
        ("padded", &padded),
        ("two", &members),
        ("pages", &html),
        ("empty", b""),
    ] {
        values = values
            .with(name, bytes)
            .with(&format!("{name}-digest"), Digest::sha256(bytes).to_string())
            .with(&format!("{name}-size"), bytes.len().to_string());
    }
    let rows = r#"
        # script, pin, number of requests and outcome
        tar             | 200 << {tar}    | | 1: {files}, {tar-digest}, {tar-size} bytes
        tar.gz          | 200 << {tgz}    | | 1: {files}, {tgz-digest}, {tgz-size} bytes
        in a directory  | 200 << {top} | | 1: {files}, {top-digest}, {top-size} bytes
        padded tar      | 200 << {padded} | | 1: {files}, {padded-digest}, {padded-size} bytes
        two members     | 200 << {two}    | | 1: {files}, {two-digest}, {two-size} bytes
        pinned tar      | 200 << {tar}    | {tar-digest} | 1: {files}, {tar-digest}, {tar-size} bytes
        pinned tar.gz   | 200 << {tgz}    | {tgz-digest} | 1: {files}, {tgz-digest}, {tgz-size} bytes
        pinned directory | 200 << {top} | {top-digest} | 1: {files}, {top-digest}, {top-size} bytes
        other archive   | 200 << {tgz}    | {other} | 1: DigestMismatch, terminal: http://h/b.tgz provides {tgz-digest}, {pinned}
        other page      | 200 << {pages}  | {other} | 1: DigestMismatch, terminal: http://h/b.tgz provides {pages-digest}, {pinned}*not a tar archive*
        nothing         | 200             | {other} | 1: DigestMismatch, terminal: http://h/b.tgz provides {empty-digest}, {pinned}*the archive is empty*
        202 | 202 << {tgz} | | 1: UnexpectedStatus, terminal: GET http://h/b.tgz: unexpected status "202 Accepted"*check the address*
        204 | 204 << {tgz} | | 1: UnexpectedStatus, terminal: GET http://h/b.tgz: unexpected status "204 No Content"*check the address*
        206 | 206 << {tgz} | | 1: UnexpectedStatus, terminal: GET http://h/b.tgz: unexpected status "206 Partial Content"*check the address*
        304 | 304          | | 1: UnexpectedStatus, terminal: GET http://h/b.tgz: unexpected status "304 Not Modified"*check the address*
        page            | 200; Content-Type: text/html << \u{feff}\n <!DOCTYPE html><html>Log in, name sesame | | 1: UnknownFormat, terminal: *http://h/b.tgz*an HTML or XML page*
        JSON            | 200 << {"message": "no"} | | 1: UnknownFormat, terminal: *http://h/b.tgz*but JSON*
        empty           | 200 | | 1: ArchiveTruncated, transient: *http://h/b.tgz*the archive is empty*
        cut             | 200 << {cut} | | 1: ArchiveTruncated, transient: *http://h/b.tgz*truncated*
        no deflate      | 200 << \x1f\x8b\x08\0\0\0\0\0\0\0not deflate | | 1: ArchiveDamaged, *: *http://h/b.tgz*cannot be decompressed*
        too large by its head | 200; Content-Length: {too-long} ~ stall | | 1: LimitExceeded, terminal: *{limit}*
        endless members | 200; Content-Length: - ~ repeat {members} | | 1: LimitExceeded, terminal: *{limit}*
        endless zeros   | 200; Content-Length: - << {tar} ~ repeat {zeros} | | 1: LimitExceeded, terminal: *{limit}*
        bomb            | 200 << {bomb} | | 1: LimitExceeded, terminal: *{limit}*
        broken twice    | 2 x 200; Content-Length: {tgz-size} << {half} then 200 << {tgz} | {tgz-digest} | 3: {files}, {tgz-digest}, {tgz-size} bytes
        always broken   | 200; Content-Length: {tgz-size} << {half} | {tgz-digest} | 5: ConnectionBroken, transient: *
    "#;
    table::check(rows, &values, outcome).await;
}

#[tokio::test]
async fn credentials_in_a_url_are_rejected_without_them() {
    for user in ["name:word", "word"] {
        let url = format!("https://{user}@h.example/b.tgz").parse().unwrap();
        let http = Http { url, sha256: None };
        let (options, progress) = (Options::default(), Progress::default());
        let fetched = fetch(&http, &Access::default(), &options, &progress).await;
        let text = fetched.unwrap_err().to_string();
        assert_rows!(text.starts_with("https://h.example/b.tgz contains credentials; remove them") => true, "{text}");
        assert!(!text.replace("--password", "").contains("word"), "{text}");
    }
}
