//! Revisions and directories of repositories, by every transport and both versions of the protocol.

use crate::*;

/// Repository, revision and directory, and the outcome: the commit and its files, or the message.
const REVISIONS: &str = r#"
    directory        | repo.git | :bundle | {second} manifests/a.yaml=two
    of a branch      | repo.git | main:bundle | {second} manifests/a.yaml=two
    of a light tag   | repo.git | light:bundle | {first} manifests/a.yaml=one
    of a tag         | repo.git | v1:bundle | {first} manifests/a.yaml=one
    of a tag's tag   | repo.git | again:bundle | {first} manifests/a.yaml=one
    of a commit      | repo.git | {first}:bundle | {first} manifests/a.yaml=one
    of the last one  | repo.git | {second}:bundle | {second} manifests/a.yaml=two
    other branch     | repo.git | dev | {first} README=r bundle/manifests/a.yaml=one
    no revision      | repo.git | mai | *branch or tag "mai" not found; use one of: main, *
    no repository    | none.git | main | *not found, or not visible with these credentials*
"#;

/// Revisions and directories that do not depend on the transport.
const MORE_REVISIONS: &str = r#"
    default branch   | repo.git | | {second} README=r bundle/manifests/a.yaml=two
    HEAD             | repo.git | HEAD | {second} README=r bundle/manifests/a.yaml=two
    full branch      | repo.git | refs/heads/main | {second} README=r bundle/manifests/a.yaml=two
    full tag         | repo.git | refs/tags/v1 | {first} README=r bundle/manifests/a.yaml=one
    two levels       | repo.git | v1:bundle/manifests | {first} a.yaml=one
    no directory     | repo.git | :nothing | *subdirectory "nothing" of commit {second}: the path does not exist; use one of: bundle
    deeper           | repo.git | :bundle/none | *subdirectory "bundle/none" of commit {second}: the path does not exist; use one of: manifests
    a file           | repo.git | :README | *subdirectory "README" of commit {second}: the path is a file; use one of: bundle
    a submodule      | repo.git | {module} | *"other" is a submodule, and submodules are not fetched*
    in a submodule   | repo.git | {module}:other/x | *"other" is a submodule*
    beside a submodule | repo.git | {module}:bundle | {module} manifests/a.yaml=two
    with a space     | names.git | main:my folder | {names} a=one
    escaped space    | names.git | main:my%20folder | {names} a=one
    other letters    | names.git | übung#1:größe/100% | {names} a=two
    escaped letters  | names.git | %C3%BCbung%231:gr%C3%B6%C3%9Fe/100%25 | {names} a=two
    no branch        | repo.git | refs/heads/v1 | *branch "v1" not found; use one of: both, dev, main*
    no tag           | repo.git | refs/tags/main | *tag "main" not found; use one of: again, at-{module}, both, light, tree, v1*
    ambiguous        | repo.git | both | *"both" is ambiguous; use refs/heads/both or refs/tags/both*
    unambiguous      | repo.git | refs/heads/both | {first} README=r bundle/manifests/a.yaml=one
    tag of a tree    | repo.git | tree | *is a tag of a tree, not of a commit*
    no commit        | repo.git | {digits*4} | *commit {digits*4} not found; check the hash*
    SHA-256          | repo.git | {hex*16} | *SHA-256 object names*
    short hash       | repo.git | 0123456 | *use all 40 digits*
    empty            | empty.git | | *HEAD does not point to a commit*
    nothing in it    | empty.git | main | *branch or tag "main" not found; check the name*
"#;

/// Creates the repositories of the tables, and returns their commits.
fn repositories(repository: impl Fn(&str) -> Repository) -> Values {
    let main = repository("repo.git");
    let (first, second) = fill(&main);
    let tree = main.git(&["rev-parse", "main:bundle"]);
    let listed = format!("040000 tree {tree}\tbundle\n160000 commit {first}\tother\n");
    let module = pipe(&main, &["mktree", "--missing"], listed.as_bytes());
    let module = commit_tree(&main, &module);
    main.git(&["tag", "both", &first]);
    main.git(&["branch", "both", &first]);
    main.git(&["tag", "tree", "main^{tree}"]);
    repository("empty.git");
    let named = repository("names.git");
    let files = [("my folder/a", "one"), ("größe/100%/a", "two")];
    let names = commit(&named, "main", &files);
    named.git(&["branch", "übung#1", &names]);
    let values = Values::default()
        .with("digits", "0123456789")
        .with("hex", "0123");
    let values = values.with("first", first).with("second", second);
    values.with("module", module).with("names", names)
}

/// Fetches the revisions of a table from the repositories at a URL.
async fn check(rows: &str, url: &str, access: &Access, commits: &Values) {
    let run = async |[repository, fragment]: &[Cell; 2]| {
        let git = source(&format!("{url}/{}", repository.raw()), &fragment.text());
        let fetched = match fetch(&git, access).await {
            Ok(fetched) => fetched,
            Err(error) => return chain(&error),
        };
        let Source::Git(resolved) = fetched.resolved.clone() else {
            panic!("{fetched:?}")
        };
        // Each connection starts an sshd.
        if access.ssh.is_none() || fragment.raw() == "dev" {
            assert_rows!(unpacker::git::resolve(&git, access).await.unwrap() => resolved);
        }
        match resolved.revision {
            Revision::Commit(commit) => format!("{commit} {}", describe(Ok(fetched))),
            revision => panic!("{revision:?}"),
        }
    };
    table::check(rows, commits, run).await;
}

// parity: rukpak-21
#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_resolved_by_http() {
    let server = GitServer::start(None, None);
    let commits = repositories(|name| server.repository(name));
    let (url, access) = (format!("http://{}", server.host()), Access::default());
    check(REVISIONS, &url, &access, &commits).await;
    check(MORE_REVISIONS, &url, &access, &commits).await;
    let old = front("nothing ~ pass without git-protocol", &server.host());
    check(REVISIONS, &old.url(""), &access, &commits).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn revisions_are_resolved_by_ssh() {
    let servers = "ed25519 AcceptEnv GIT_PROTOCOL, rsa AcceptEnv GIT_PROTOCOL, ecdsa AcceptEnv GIT_PROTOCOL, \
                   ed25519 AcceptEnv LANG, rsa PubkeyAcceptedAlgorithms rsa-sha2-256";
    for (kind, setting) in pairs(servers) {
        println!("{kind}, {setting}");
        let server = Sshd::with(kind, setting);
        let commits = repositories(|name| server.repository(name));
        let access = with_key(server.key(), server.known_hosts());
        let url = server.url("").trim_end_matches('/').to_owned();
        check(REVISIONS, &url, &access, &commits).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn version_1_finds_commits_in_the_history_of_branches() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    repository.git(&["config", "uploadpack.allowReachableSHA1InWant", "false"]);
    let commits = ["one", "two", "three"].map(|text| commit(&repository, "main", &[("a", text)]));
    let lost = commit(&repository, "lost", &[("a", "lost")]);
    repository.git(&["branch", "-D", "lost"]);
    let old = front("nothing ~ pass without git-protocol", &server.host());
    let (url, access) = (old.url("/repo.git"), Access::default());
    assert_eq!(outcome(&url, &commits[1], &access).await, "a=two");
    let found = outcome(&url, &lost, &access).await;
    let expected = format!("commit {lost} not found in the history of the branches and tags");
    assert_has(&found, &expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn https_needs_a_trusted_certificate_and_credentials() {
    let ca = tests::TestCa::default();
    let server = GitServer::start(Some(OWNER), Some(&ca));
    fill(&server.repository("repo.git"));
    let trusting = || with!(Trust, roots: ca.pem());
    let unchecked = with!(Trust, verify: Verify::Never);
    for (user, trust, expected) in tests::rows![
        Some(OWNER), trusting() => "manifests/a.yaml=two";
        Some(OWNER), unchecked => "manifests/a.yaml=two";
        Some(TENANT), trusting() => "the server rejected the credentials";
        None, trusting() => "credentials are required";
        Some(OWNER), Trust::default() => "is signed by an unknown CA";
    ] {
        let access = with!(user.map_or_else(Access::default, as_user) => trust: trust);
        let found = outcome(&server.url("repo.git"), ":bundle", &access).await;
        assert_has(&found, expected);
        assert_rows!([OWNER, TENANT].map(|user| found.contains(user.password)) => [false, false], "{found}");
    }
}
