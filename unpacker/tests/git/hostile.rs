//! Repositories made to do harm, and servers that are not what they say.

use std::sync::{Arc, Mutex};

use tests::{GitServer, OWNER};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    task::JoinHandle,
};
use unpacker::Access;

use crate::shared::{as_user, brisk, commit, commit_raw, outcome};

/// A line of a folder, in the bytes of its object.
fn line(mode: &str, name: &str, hash: &str) -> Vec<u8> {
    let mut line = format!("{mode} {name}\0").into_bytes();
    for at in (0..40).step_by(2) {
        line.push(u8::from_str_radix(&hash[at..at + 2], 16).unwrap());
    }
    line
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_leave_their_folder_or_are_gits_own_are_refused() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    commit(&repository, "main", &[("folder/a", "a")]);
    let tree = repository.git(&["rev-parse", "main:folder"]);
    let blob = repository.git(&["rev-parse", "main:folder/a"]);
    for (mode, name, expected) in [
        ("40000", "..", "\"..\" leaves the folder that it is in"),
        ("100644", "..", "\"..\" leaves the folder that it is in"),
        ("40000", ".", "\".\" leaves the folder that it is in"),
        ("100644", "../../etc/passwd", "has a slash within a name"),
        ("100644", "/etc/passwd", "has a slash within a name"),
        (
            "40000",
            ".git",
            "\".git\" is a name that git keeps for itself",
        ),
        (
            "40000",
            ".GIT",
            "\".GIT\" is a name that git keeps for itself",
        ),
        ("100644", ".Git ", "is a name that git keeps for itself"),
        (
            "120000",
            ".git",
            "\".git\" is a name that git keeps for itself",
        ),
        (
            "120000",
            ".gIT",
            "\".gIT\" is a name that git keeps for itself",
        ),
        (
            "40000",
            "git~1",
            "\"git~1\" is a name that git keeps for itself",
        ),
        (
            "40000",
            ".g\u{200c}it",
            "is a name that git keeps for itself",
        ),
        ("100644", "a\\..\\b", "contains a backslash"),
        ("100644", "a\nb", "contains a control character"),
        ("100000", "a", "a folder is not well formed"),
    ] {
        let hash = if mode == "40000" { &tree } else { &blob };
        let commit = commit_raw(&repository, &line(mode, name, hash));
        let found = outcome(&server.url("repo.git"), &commit, &Access::default()).await;
        assert!(found.contains(expected), "{mode} {name}: {found}");
        assert!(!found.contains('\n'), "{found}");
    }
    let twice = [line("100644", "a", &blob), line("40000", "a", &tree)].concat();
    let found = outcome(
        &server.url("repo.git"),
        &commit_raw(&repository, &twice),
        &Access::default(),
    )
    .await;
    assert!(found.contains("a folder lists a name twice"), "{found}");
    let latin = [
        b"100644 caf\xe9\0".to_vec(),
        line("", "", &blob)[2..].to_vec(),
    ]
    .concat();
    let found = outcome(
        &server.url("repo.git"),
        &commit_raw(&repository, &latin),
        &Access::default(),
    )
    .await;
    assert!(found.contains("is not UTF-8"), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_differ_only_in_case_are_two_files() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    commit(&repository, "main", &[("a", "small"), ("A", "large")]);
    let found = outcome(&server.url("repo.git"), "", &Access::default()).await;
    assert_eq!(found, "A=large a=small");
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_that_hold_one_folder_many_times_or_go_too_deep_end_at_the_limits() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    commit(&repository, "main", &[("a", "a")]);
    let mut wide = repository.git(&["rev-parse", "main^{tree}"]);
    let mut deep = wide.clone();
    let (mut wide_commit, mut deep_commit) = (String::new(), String::new());
    for _ in 0..10 {
        let lines: Vec<u8> = (0..10)
            .flat_map(|n| line("40000", &format!("{n}"), &wide))
            .collect();
        wide_commit = commit_raw(&repository, &lines);
        wide = repository.git(&["rev-parse", &format!("{wide_commit}^{{tree}}")]);
    }
    for _ in 0..40 {
        deep_commit = commit_raw(&repository, &line("40000", "d", &deep));
        deep = repository.git(&["rev-parse", &format!("{deep_commit}^{{tree}}")]);
    }
    let access = Access::default();
    let found = outcome(&server.url("repo.git"), &wide_commit, &access).await;
    assert!(
        found.contains("content has more than 10000 entries"),
        "{found}"
    );
    let found = outcome(&server.url("repo.git"), &deep_commit, &access).await;
    assert!(found.contains("over the limit of 32 folders"), "{found}");
}

/// What a test's server sends: this, and then that without end.
struct Answer(Vec<u8>, &'static [u8]);

/// A server that answers each request as a test wants it to.
struct Server {
    host: String,
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    async fn start(answer: impl Fn(&str) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (Arc::clone(&seen), Arc::new(answer));
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                tokio::spawn(async move {
                    let mut buffer = vec![0; 1 << 16];
                    let count = stream.read(&mut buffer).await.unwrap_or(0);
                    let request = String::from_utf8_lossy(&buffer[..count]).into_owned();
                    let Answer(first, endless) = answer(&request);
                    log.lock().unwrap().push(request);
                    let _ = stream.write_all(&first).await;
                    let endless = endless.repeat(1000);
                    while !endless.is_empty() && stream.write_all(&endless).await.is_ok() {}
                });
            }
        });
        Self { host, seen, task }
    }

    fn url(&self) -> String {
        format!("http://{}/repo.git", self.host)
    }
}

fn ok(kind: &str, body: &[u8]) -> Answer {
    let kind = format!("application/x-git-upload-pack-{kind}");
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
    Answer([head.as_bytes(), body].concat(), b"")
}

/// A greeting to a GET, and this to anything else.
fn either(request: &str, other: Answer) -> Answer {
    if request.starts_with("GET") {
        ok("advertisement", GREETING)
    } else {
        other
    }
}

const LINE: &[u8] = b"00400123456789012345678901234567890123456789 refs/heads/another\n";
const OTHER: &[u8] = b"003e0123456789012345678901234567890123456789 refs/pull/1/head\n";
const GOOD: &str = "application/x-git-upload-pack-advertisement";
const CHATTER: &[u8] = b"0064\x02...............................................................................................";
const EMPTY: &[u8] = b"PACK\0\0\0\x02\0\0\0\0\x02\x9d\x08\x82\x3b\xd8\xa8\xea\xb5\x10\xad\x6a\xc7\x5c\x82\x3c\xfd\x3e\xd3\x1e";
const GREETING: &[u8] = b"000eversion 2\n000cls-refs\n0012fetch=shallow\n0000";

#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_branches_without_end_is_left_at_the_limit() {
    let old = Server::start(|_| Answer(ok("advertisement", b"").0, LINE)).await;
    let found = outcome(&old.url(), "main", &Access::default()).await;
    assert!(
        found.contains("its branches and tags exceed the limit of"),
        "{found}"
    );
    let new = Server::start(|request| either(request, Answer(ok("result", b"").0, LINE)));
    let found = outcome(&new.await.url(), "main", &Access::default()).await;
    assert!(
        found.contains("its branches and tags exceed the limit of"),
        "{found}"
    );
    // Heads of pull requests are not kept, and do not last for ever either.
    let other = Server::start(|_| Answer(ok("advertisement", b"").0, OTHER)).await;
    let found = outcome(&other.url(), "main", &Access::default()).await;
    assert!(
        found.contains("its branches and tags exceed the limit of"),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_redirected_to_gets_no_credentials() {
    let hash = "0123456789012345678901234567890123456789";
    let other =
        Server::start(move |request| either(request, ok("result", b"0010ERR go away\n"))).await;
    let to = other.url();
    let first = Server::start(move |_| {
        let head = format!(
            "HTTP/1.1 302 Found\r\nLocation: {to}/info/refs?service=git-upload-pack\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        );
        Answer(head.into_bytes(), b"")
    })
    .await;
    let found = outcome(&first.url(), hash, &as_user(OWNER)).await;
    assert!(
        found.contains("go away") || found.contains("there is no commit"),
        "{found}"
    );
    let has_credentials = |server: &Server| {
        server
            .seen
            .lock()
            .unwrap()
            .iter()
            .map(|head| head.to_lowercase().contains("authorization"))
            .collect::<Vec<_>>()
    };
    assert!(has_credentials(&first).iter().all(|has| *has));
    assert!(
        other
            .seen
            .lock()
            .unwrap()
            .iter()
            .any(|head| head.starts_with("POST"))
    );
    assert!(has_credentials(&other).iter().all(|has| !has));
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_do_not_speak_as_git_does_are_told_as_such() {
    let page = |kind: &'static str, body: &'static [u8]| {
        move |_: &str| {
            let head =
                format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n");
            Answer([head.as_bytes(), body].concat(), b"")
        }
    };
    for (kind, body, expected) in [
        (
            "text/html; charset=utf-8",
            &b"<html>"[..],
            "this is no git server: it answers with \"text/html; charset=utf-8\"",
        ),
        (
            "text/plain",
            b"0123456789012345678901234567890123456789\trefs/heads/main\n",
            "this is no git server",
        ),
        (GOOD, b"", "this is no git server: its answer is empty"),
        (GOOD, b"<html>", "something else than git's lines"),
        (
            GOOD,
            b"001e# service=git-upload-pack\n",
            "its greeting is not well formed",
        ),
        (
            GOOD,
            b"001e# service=git-upload-pack\n0000",
            "its answer is empty",
        ),
        (
            GOOD,
            b"000eversion 2\n0019object-format=sha256\n0000",
            "named by SHA-256",
        ),
        (GOOD, b"0009hello0000", "its greeting is not well formed"),
        (
            GOOD,
            b"002cERR no such repository \x1b[31m\xe2\x80\xaeor hidden",
            "it does not exist, or is hidden",
        ),
    ] {
        let server = Server::start(page(kind, body)).await;
        let found = outcome(&server.url(), "main", &Access::default()).await;
        assert!(found.contains(expected), "{expected}: {found}");
        assert!(!found.contains(['\x1b', '\u{202e}']), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_without_the_commit_that_was_asked_for_gives_nothing() {
    // An empty pack and its checksum.
    let hash = "0123456789012345678901234567890123456789";
    let mut answer = b"000dpackfile\n".to_vec();
    answer.extend(format!("{:04x}\x01", EMPTY.len() + 5).as_bytes());
    answer.extend(EMPTY);
    let whole = [&answer[..], b"0000"].concat();
    let told = b"000dpackfile\n000f\x03disk full\x070000".to_vec();
    let stuck = b"000dpackfile\n0006\x02.".to_vec();
    for (body, expected) in [
        (whole, "there is no commit"),
        (answer, "the connection ended within the pack"),
        (told, "the server gives up: disk full"),
        (b"0008NAK\n0000".to_vec(), "its answer has no pack"),
        (b"000dpackfile\n0006\x07x0000".to_vec(), "has no band"),
        (
            b"000dpackfile\n0009\x01PARK0000".to_vec(),
            "the connection ended within the pack",
        ),
    ] {
        let server = Server::start(move |request| either(request, ok("result", &body))).await;
        let found = outcome(&server.url(), hash, &brisk()).await;
        assert!(found.contains(expected), "{expected}: {found}");
    }
    let server =
        Server::start(move |request| either(request, Answer(ok("result", &stuck).0, CHATTER)))
            .await;
    let found = outcome(&server.url(), hash, &brisk()).await;
    assert!(
        found.contains("its messages beside the pack exceed the limit"),
        "{found}"
    );
}
