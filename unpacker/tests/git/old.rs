//! Servers that speak the protocol's first version: our wish for the second one does not reach them.

use tests::GitServer;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use unpacker::Access;

use crate::shared::{commit, outcome, source, usual};

/// Passes everything on to a server, save that one header. Gives the URL to ask instead.
async fn deaf(to: String) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let server = TcpStream::connect(&to).await.unwrap();
            let (mut from_client, mut to_client) = client.into_split();
            let (mut from_server, mut to_server) = server.into_split();
            tokio::spawn(async move {
                let mut buffer = vec![0; 1 << 16];
                // Requests are small, and come in one piece.
                while let Ok(count @ 1..) = from_client.read(&mut buffer).await {
                    let mut bytes = buffer[..count].to_vec();
                    let name = b"git-protocol:";
                    let at = bytes
                        .windows(name.len())
                        .position(|part| part.eq_ignore_ascii_case(name));
                    if let Some(at) = at {
                        bytes[at] = b'x';
                    }
                    if to_server.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
            });
            tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
        }
    });
    url
}

#[tokio::test(flavor = "multi_thread")]
async fn an_old_server_gives_branches_tags_and_commits() {
    let server = GitServer::start(None, None);
    let (repository, first, second) = usual(&server);
    let url = format!("{}/repo.git", deaf(server.host()).await);
    let access = Access::default();
    for (fragment, text) in [
        (":bundle", "two"),
        ("main:bundle", "two"),
        ("light:bundle", "one"),
        ("again:bundle", "one"),
        (&format!("{first}:bundle"), "one"),
        (&format!("{second}:bundle"), "two"),
    ] {
        let found = outcome(&url, fragment, &access).await;
        assert_eq!(found, format!("manifests/a.yaml={text}"), "{fragment}");
    }
    let resolved = unpacker::git::resolve(&source(&url, "again"), &access)
        .await
        .unwrap();
    assert_eq!(resolved, source(&url, &first));
    let missing = outcome(&url, "mai", &access).await;
    assert!(
        missing.contains("no branch or tag \"mai\"; there is: main"),
        "{missing}"
    );
    drop(repository);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_an_old_server_does_not_offer_is_found_in_the_history_of_its_branches() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    repository.git(&["config", "uploadpack.allowReachableSHA1InWant", "false"]);
    let mut commits = Vec::new();
    for text in ["one", "two", "three"] {
        commits.push(commit(&repository, "main", &[("a", text)]));
    }
    let lost = commit(&repository, "lost", &[("a", "lost")]);
    repository.git(&["branch", "-D", "lost"]);
    let url = format!("{}/repo.git", deaf(server.host()).await);
    let access = Access::default();
    assert_eq!(outcome(&url, &commits[1], &access).await, "a=two");
    let found = outcome(&url, &lost, &access).await;
    let expected = format!("there is no commit {lost} in the history of its branches and tags");
    assert!(found.contains(&expected), "{found}");
}
