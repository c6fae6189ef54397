//! Servers and networks that fail for a moment.

use std::{
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use tests::{GitServer, Sshd};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, copy},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
};
use unpacker::{Access, Options, Progress};

use crate::shared::{brisk, commit, fetch, outcome, show, source, usual, with_key};

/// What happens to a connection.
#[derive(Debug, Clone, Copy)]
enum Fate {
    /// It is answered with this, and not let through.
    Refused(&'static str),
    /// Its answer is cut off after so many bytes.
    Cut(u64),
    Through,
}

/// Stands between, and does as a test wants to each connection, by its number and its first bytes.
struct Between {
    host: String,
    task: JoinHandle<()>,
}

impl Drop for Between {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Between {
    async fn to(server: String, fate: impl Fn(&[u8]) -> Fate + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let host = listener.local_addr().unwrap().to_string();
        let fate = Arc::new(fate);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, fate) = (server.clone(), Arc::clone(&fate));
                tokio::spawn(async move { connection(stream, &server, &*fate).await });
            }
        });
        Self { host, task }
    }
}

async fn connection(
    mut stream: TcpStream,
    server: &str,
    fate: &(impl Fn(&[u8]) -> Fate + Sync),
) -> Option<()> {
    let mut first = vec![0; 1 << 16];
    let count = stream.read(&mut first).await.ok()?;
    first.truncate(count);
    let most = match fate(&first) {
        Fate::Refused(answer) => return stream.write_all(answer.as_bytes()).await.ok(),
        Fate::Cut(most) => most,
        Fate::Through => u64::MAX,
    };
    // One request for each connection, so that each is judged.
    if let Some(at) = first.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
        let line = *b"\r\nConnection: close";
        first.splice(at..at, line);
    }
    let mut to = TcpStream::connect(server).await.ok()?;
    to.write_all(&first).await.ok()?;
    let (mut from_client, mut to_client) = stream.split();
    let (from_server, mut to_server) = to.split();
    let mut answer = from_server.take(most);
    tokio::select! {
        _ = copy(&mut answer, &mut to_client) => {}
        () = async {
            let _ = copy(&mut from_client, &mut to_server).await;
            std::future::pending::<()>().await;
        } => {}
    }
    Some(())
}

/// Does this to the first posts, so many of them, and lets the others through.
fn first(posts: usize, fate: Fate) -> (Arc<AtomicUsize>, impl Fn(&[u8]) -> Fate) {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&seen);
    let judge = move |head: &[u8]| {
        let is_hit = head.starts_with(b"POST") && count.fetch_add(1, Ordering::SeqCst) < posts;
        if is_hit { fate } else { Fate::Through }
    };
    (seen, judge)
}

/// A text that does not become small when it is packed.
fn large() -> String {
    (0..20_000u32).fold(String::new(), |mut text, n| {
        write!(text, "{:x}", n.wrapping_mul(2_654_435_761)).unwrap();
        text
    })
}

const BUSY: &str =
    "HTTP/1.1 503 Busy\r\nRetry-After: 0\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_busy_or_breaks_off_is_asked_again() {
    let server = GitServer::start(None, None);
    let (_, first_commit, _) = usual(&server);
    // The first post asks for branches, unless a commit is known.
    for fragment in ["main:bundle", &format!("{first_commit}:bundle")] {
        for (posts, fate) in [
            (1, Fate::Refused(BUSY)),
            (4, Fate::Refused(BUSY)),
            (2, Fate::Refused("")),
            (1, Fate::Cut(100)),
            (3, Fate::Cut(250)),
        ] {
            let (seen, judge) = first(posts, fate);
            let between = Between::to(server.host(), judge).await;
            let url = format!("http://{}/repo.git", between.host);
            let found = outcome(&url, fragment, &brisk()).await;
            assert!(found.starts_with("manifests/a.yaml="), "{fate:?}: {found}");
            assert!(seen.load(Ordering::SeqCst) > posts);
            let (_, judge) = first(posts, fate);
            let between = Between::to(server.host(), judge).await;
            let url = format!("http://{}/repo.git", between.host);
            unpacker::git::resolve(&source(&url, fragment), &brisk())
                .await
                .unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pack_that_is_cut_off_each_time_is_given_up_in_the_end() {
    let server = GitServer::start(None, None);
    let hash = commit(&server.repository("repo.git"), "main", &[("a", &large())]);
    let (seen, judge) = first(usize::MAX, Fate::Cut(30_000));
    let between = Between::to(server.host(), judge).await;
    let git = source(&format!("http://{}/repo.git", between.host), &hash);
    let found = show(fetch(&git, &brisk()).await);
    assert!(found.contains("broke off after"), "{found}");
    assert_eq!(seen.load(Ordering::SeqCst), 5);

    // What counts is what arrived of the pack that was taken.
    let counted = async |posts| {
        let (_, judge) = first(posts, Fate::Cut(30_000));
        let between = Between::to(server.host(), judge).await;
        let git = source(&format!("http://{}/repo.git", between.host), &hash);
        let progress = Progress::default();
        let options = Options::default();
        unpacker::git::fetch(&git, &brisk(), &options, &progress)
            .await
            .unwrap();
        progress.done()
    };
    assert_eq!(counted(2).await, counted(0).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ssh_connection_that_breaks_off_is_made_again() {
    let server = Sshd::start();
    commit(&server.repository("repo.git"), "main", &[("a", &large())]);
    let connections = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&connections);
    let judge = move |_: &[u8]| match count.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => Fate::Cut(30_000),
        _ => Fate::Through,
    };
    let between = Between::to(server.host(), judge).await;
    let path = server.url("repo.git");
    let url = path.replace(&server.host(), &between.host);
    let known_hosts = server.known_hosts();
    let (_, key) = known_hosts.split_once(' ').unwrap();
    let access = Access {
        patience: brisk().patience,
        ..with_key(server.key(), format!("127.0.0.1 {key}"))
    };
    let found = outcome(&url, "main", &access).await;
    assert!(found.starts_with("a="), "{found}");
    assert_eq!(connections.load(Ordering::SeqCst), 3);
}
