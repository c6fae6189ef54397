//! Over http and https, from `git http-backend`.

use tests::GitServer;
use unpacker::{Access, Source, source::Revision};

use crate::shared::{chain, fetch, source, usual};

#[tokio::test(flavor = "multi_thread")]
async fn branches_tags_commits_and_head_give_the_files_of_their_commit() {
    let server = GitServer::start(None, None);
    let (_, first, second) = usual(&server);
    let url = server.url("repo.git");
    let access = Access::default();
    for (fragment, commit, text) in [
        ("", &second, "two"),
        ("HEAD", &second, "two"),
        ("main", &second, "two"),
        ("refs/heads/main", &second, "two"),
        ("dev", &first, "one"),
        ("light", &first, "one"),
        ("v1", &first, "one"),
        ("refs/tags/v1", &first, "one"),
        ("again", &first, "one"),
        (&first, &first, "one"),
        (&second, &second, "two"),
    ] {
        let git = source(&url, fragment);
        let fetched = fetch(&git, &access)
            .await
            .unwrap_or_else(|e| panic!("{fragment}: {}", chain(&e)));
        let pinned = source(&url, commit);
        assert_eq!(fetched.resolved, Source::Git(pinned.clone()), "{fragment}");
        let content = fetched.tree.into_content().unwrap();
        let files: Vec<_> = content
            .files()
            .map(|(path, file)| (path, &*file.bytes))
            .collect();
        assert_eq!(
            files,
            [
                ("README", &b"r"[..]),
                ("bundle/manifests/a.yaml", text.as_bytes())
            ],
            "{fragment}"
        );
        let resolved = unpacker::git::resolve(&git, &access).await.unwrap();
        assert_eq!(resolved, pinned, "{fragment}");
        assert!(matches!(resolved.revision, Revision::Commit(_)));
    }
}
