//! Malicious repositories, and servers that do not implement git's protocol.

use crate::*;

fn entry(mode: &str, name: &[u8], hash: &str) -> Vec<u8> {
    let digits = (0..20).map(|at| &hash[2 * at..2 * at + 2]);
    let hash = digits.map(|digits| u8::from_str_radix(digits, 16).unwrap());
    let entry = [mode.as_bytes(), b" ", name, b"\0"].concat().into_iter();
    entry.chain(hash).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_with_dangerous_names_are_rejected() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    commit(&repository, "main", &[("folder/a", "a")]);
    let tree = repository.git(&["rev-parse", "main:folder"]);
    let blob = repository.git(&["rev-parse", "main:folder/a"]);
    let rows = r#"
        # mode and name of the entries
        .git            | 40000 .git             | *".git" is a name reserved by git*
        link            | 120000 .git            | *".git" is a name reserved by git*
        backslash       | 100644 a\\..\\b        | *contains a backslash*
        line break      | 100644 a\nb            | *contains a control character*
        unknown mode    | 100000 a               | *a tree is malformed*
        no UTF-8        | 100644 caf\xe9         | *is not UTF-8*
        twice           | 100644 a, 40000 a      | *a tree lists a name twice*
    "#;
    table::check(rows, &Values::default(), async |[entries]: &[Cell; 1]| {
        let mut bytes = Vec::new();
        for text in entries.bytes().split(|byte| *byte == b',') {
            let text = text.strip_prefix(b" ").unwrap_or(text);
            let space = text.iter().position(|byte| *byte == b' ').unwrap();
            let mode = String::from_utf8(text[..space].to_vec()).unwrap();
            let hash = if mode == "40000" { &tree } else { &blob };
            bytes.extend(entry(&mode, &text[space + 1..], hash));
        }
        let commit = commit_raw(&repository, &bytes);
        let found = outcome(&server.url("repo.git"), &commit, &Access::default()).await;
        assert!(!found.contains('\n'), "{found}");
        found
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wide_and_deep_trees_end_at_the_limits() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    commit(&repository, "main", &[("a", "a")]);
    for (width, depth, expected) in [
        (10, 10, "content has more than 10000 entries"),
        (1, 40, "exceeds the limit of 32 directories"),
    ] {
        let mut tree = repository.git(&["rev-parse", "main^{tree}"]);
        let mut commit = String::new();
        for _ in 0..depth {
            let entries = (0..width).flat_map(|n| entry("40000", n.to_string().as_bytes(), &tree));
            commit = commit_raw(&repository, &entries.collect::<Vec<_>>());
            tree = repository.git(&["rev-parse", &format!("{commit}^{{tree}}")]);
        }
        let found = outcome(&server.url("repo.git"), &commit, &Access::default()).await;
        assert_has(&found, expected);
    }
}

const GREETING: &str = "000eversion 2\n000cls-refs\n0012fetch=shallow\n0000";
const HASH: &str = "0123456789012345678901234567890123456789";
/// The content type of answers, without `advertisement` or `result`.
const TYPE: &str = "Content-Type: application/x-git-upload-pack";
/// A pack without objects, and its checksum.
const EMPTY_PACK: &[u8] = b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";

#[tokio::test(flavor = "multi_thread")]
async fn malformed_answers_are_explained_and_endless_ones_end() {
    let pack = format!("000dpackfile\n{:04x}\x01", EMPTY_PACK.len() + 5);
    let many = |line: String| line.repeat(1000);
    let values = Values::default()
        .with("hash", HASH)
        .with("type", TYPE)
        .with("greeting", GREETING)
        .with("pack", [pack.as_bytes(), EMPTY_PACK].concat())
        .with("branches", many(format!("0040{HASH} refs/heads/another\n")))
        .with("pulls", many(format!("003e{HASH} refs/pull/1/head\n")))
        .with("chatter", many(format!("0064\x02{}", ".".repeat(95))));
    let rows = r#"
        # revision, script
        endless branches | main | 200; {type}-advertisement; Content-Length: - ~ repeat {branches} | *its branches and tags exceed the limit of*
        endless branches, v2 | main | GET => 200; {type}-advertisement << {greeting} && 200; {type}-result; Content-Length: - ~ repeat {branches}
          | *its branches and tags exceed the limit of*
        # Heads of pull requests are not recorded, but they count.
        endless pulls    | main | 200; {type}-advertisement; Content-Length: - ~ repeat {pulls} | *its branches and tags exceed the limit of*
        page             | main | 200; Content-Type: text/html\x3b charset=utf-8 << <html>
          | *not a git server: unexpected content type "text/html; charset=utf-8"*
        dumb server      | main | 200; Content-Type: text/plain << {hash}\trefs/heads/main\n | *not a git server*
        empty            | main | 200; {type}-advertisement | *not a git server: empty response*
        no flush         | main | 200; {type}-advertisement << 001e# service=git-upload-pack\n | *the greeting is malformed*
        nothing else     | main | 200; {type}-advertisement << 001e# service=git-upload-pack\n0000 | *empty response*
        SHA-256          | main | 200; {type}-advertisement << 000eversion 2\n0019object-format=sha256\n0000 | *SHA-256 object names*
        strange greeting | main | 200; {type}-advertisement << 0009hello0000 | *the greeting is malformed*
        error            | main | 200; {type}-advertisement << 002cERR no such repository \x1b[31m\u{202e}or hidden
          | *not found, or not visible*
        empty pack       | {hash} | GET => 200; {type}-advertisement << {greeting} && 200; {type}-result << {pack}0000 | *commit {hash} not found*
        cut pack         | {hash} | GET => 200; {type}-advertisement << {greeting} && 200; {type}-result << {pack}
          | *the connection ended within the pack*
        full disk        | {hash} | GET => 200; {type}-advertisement << {greeting} && 200; {type}-result << 000dpackfile\n000f\x03disk full\x070000
          | *the server aborted the request: disk full*
        no pack          | {hash} | GET => 200; {type}-advertisement << {greeting} && 200; {type}-result << 0008NAK\n0000
          | *the response has no pack*
        cut before it    | {hash} | GET => 200; {type}-advertisement << {greeting} && 200; {type}-result << 0008NAK\n
          | *the connection ended before the pack; try again*
        unknown band     | {hash} | GET => 200; {type}-advertisement << {greeting} && 200; {type}-result << 000dpackfile\n0006\x07x0000 | *has no sideband*
        damaged pack     | {hash} | GET => 200; {type}-advertisement << {greeting} && 200; {type}-result << 000dpackfile\n0009\x01PARK0000
          | *the connection ended within the pack*
        endless messages | {hash} | GET => 200; {type}-advertisement << {greeting} && 200; {type}-result; Content-Length: - << 000dpackfile\n0006\x02. ~ repeat {chatter}
          | *its progress messages exceed the limit*
    "#;
    table::check(rows, &values, async |[revision, script]: &[Cell; 2]| {
        let server = ScriptedServer::start(script.script());
        let found = outcome(&server.url("/repo.git"), &revision.text(), &brisk()).await;
        assert!(!found.contains(['\x1b', '\u{202e}']), "{found}");
        found
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redirected_requests_have_no_credentials() {
    let values = Values::default()
        .with("type", TYPE)
        .with("greeting", GREETING);
    let other = r"GET => 200; {type}-advertisement << {greeting} && 200; {type}-result << 0010ERR go away\n";
    let other = ScriptedServer::start(Script::new(other, &values));
    let redirect = "302; Location: http://{upstream}/repo.git/info/refs?service=git-upload-pack";
    let first = front(redirect, &other.host());
    let found = outcome(&first.url("/repo.git"), HASH, &as_user(OWNER)).await;
    assert_rows!(found.contains("go away") || found.contains(&format!("commit {HASH} not found")) => true, "{found}");
    let has_credentials = |request: &Received| request.header("authorization").is_some();
    assert!(first.seen().iter().all(has_credentials));
    assert!(other.seen().iter().any(|request| request.method == "POST"));
    assert!(!other.seen().iter().any(has_credentials));
}
