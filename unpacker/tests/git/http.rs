//! Over http and https, from `git http-backend`.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use tests::{Authority, GitServer, OWNER, TENANT};
use unpacker::{
    Access, Limits, Options, Progress, Selection, Source, Tree,
    access::{Trust, Verify},
    source::Revision,
};

use crate::shared::{
    as_user, believing, chain, commit, commit_of, fetch, outcome, show, source, usual, write,
};

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

#[tokio::test(flavor = "multi_thread")]
async fn a_subdirectory_is_the_root_of_the_content() {
    let server = GitServer::start(None, None);
    let (_, _, second) = usual(&server);
    let url = server.url("repo.git");
    let access = Access::default();
    for (fragment, expected) in [
        (":bundle", "manifests/a.yaml=two"),
        ("v1:bundle/manifests", "a.yaml=one"),
        (
            ":nothing",
            "subdirectory \"nothing\" of commit COMMIT: it does not exist; there is: bundle",
        ),
        (
            ":bundle/none",
            "subdirectory \"bundle/none\" of commit COMMIT: it does not exist; there is: manifests",
        ),
        (
            ":README",
            "subdirectory \"README\" of commit COMMIT: it is a file; there is: bundle",
        ),
    ] {
        let found = outcome(&url, fragment, &access).await;
        let found = found.replace(&second, "COMMIT");
        assert!(found.ends_with(expected), "{fragment}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn branches_and_folders_may_have_spaces_and_letters_of_all_languages() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    let files = [("my folder/a", "one"), ("größe/100%/a", "two")];
    let commit = commit(&repository, "main", &files);
    repository.git(&["branch", "übung#1", &commit]);
    let access = Access::default();
    for (fragment, expected) in [
        ("main:my folder", "a=one"),
        ("main:my%20folder", "a=one"),
        ("übung#1:größe/100%", "a=two"),
        ("%C3%BCbung%231:gr%C3%B6%C3%9Fe/100%25", "a=two"),
    ] {
        let found = outcome(&server.url("repo.git"), fragment, &access).await;
        assert_eq!(found, expected, "{fragment}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_do_not_exist_or_mean_two_things_are_told_with_those_that_do() {
    let server = GitServer::start(None, None);
    let (repository, first, _) = usual(&server);
    server.repository("empty.git");
    repository.git(&["tag", "both", &first]);
    repository.git(&["branch", "both", &first]);
    repository.git(&["tag", "tree", "main^{tree}"]);
    let access = Access::default();
    let none = "0123456789012345678901234567890123456789";
    for (name, fragment, expected) in [
        (
            "repo.git",
            "mai",
            "there is no branch or tag \"mai\"; there is: main, ",
        ),
        (
            "repo.git",
            "refs/heads/v1",
            "there is no branch \"v1\"; there is: both, dev, main",
        ),
        (
            "repo.git",
            "refs/tags/main",
            "there is no tag \"main\"; there is: again, both, light, tree, v1",
        ),
        (
            "repo.git",
            "both",
            "\"both\" is a branch and a tag; write refs/heads/both or refs/tags/both",
        ),
        (
            "repo.git",
            "refs/heads/both",
            "README=r bundle/manifests/a.yaml=one",
        ),
        ("repo.git", "tree", "is a tag of a tree, not of a commit"),
        (
            "repo.git",
            none,
            &format!("there is no commit {none}; check the hash"),
        ),
        ("repo.git", &"0123".repeat(16), "named by SHA-256"),
        ("repo.git", "0123456", "write all 40 digits of its hash"),
        ("empty.git", "", "it has no commit at its HEAD"),
        (
            "empty.git",
            "main",
            "there is no branch or tag \"main\"; check the name",
        ),
        (
            "none.git",
            "main",
            "it does not exist, or is hidden from who has no right to it",
        ),
    ] {
        let found = outcome(&server.url(name), fragment, &access).await;
        assert!(found.contains(expected), "{name} {fragment}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn https_with_a_private_authority_and_a_password_works_and_nothing_less_does() {
    let authority = Authority::default();
    let server = GitServer::start(Some(OWNER), Some(&authority));
    usual(&server);
    let url = server.url("repo.git");
    let owner = Access {
        trust: believing(authority.pem()).trust,
        ..as_user(OWNER)
    };
    let tenant = Access {
        trust: owner.trust.clone(),
        ..as_user(TENANT)
    };
    let unchecked = Access {
        trust: Trust {
            verify: Verify::Never,
            ..Trust::default()
        },
        ..as_user(OWNER)
    };
    for (access, expected) in [
        (owner, "manifests/a.yaml=two"),
        (unchecked, "manifests/a.yaml=two"),
        (tenant, "the server refuses these credentials"),
        (believing(authority.pem()), "it needs credentials"),
        (
            as_user(OWNER),
            "is signed by an authority that is not known here",
        ),
    ] {
        let found = outcome(&url, ":bundle", &access).await;
        assert!(found.contains(expected), "{found}");
        assert!(
            !found.contains(OWNER.password) && !found.contains(TENANT.password),
            "{found}"
        );
    }
}

/// Paths of entries that are not regular files.
fn irregular(tree: &Tree) -> Vec<&str> {
    tree.irregular().map(|(path, _)| path).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_run_links_and_parts_that_are_not_selected_are_what_they_are_in_a_folder() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "manifests/a.yaml", "a");
    write(folder.path(), "manifests/A.yaml", "A");
    write(folder.path(), "run", "#!");
    write(folder.path(), "docs/b", "b");
    fs::set_permissions(folder.path().join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    symlink("/etc/passwd", folder.path().join("manifests/link")).unwrap();
    symlink("docs", folder.path().join("linked")).unwrap();
    symlink("b", folder.path().join("docs/c")).unwrap();
    repository.commit("main", folder.path());
    let git = source(&server.url("repo.git"), "");
    let access = Access::default();
    let fetched = fetch(&git, &access).await.unwrap();
    let links = ["docs/c", "linked", "manifests/link"];
    assert_eq!(irregular(&fetched.tree), links);
    let error = fetched.tree.ensure_regular().unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("entry \"manifests/link\" is a symbolic link, not a regular file; "),
        "{error}"
    );
    assert_eq!(
        show(Ok(fetched)),
        "docs/b=b manifests/A.yaml=A manifests/a.yaml=a run*=#!"
    );

    let options = Options {
        select: Selection::Only(vec!["manifests".to_owned()]),
        ..Options::default()
    };
    let progress = Progress::default();
    let fetched = unpacker::git::fetch(&git, &access, &options, &progress)
        .await
        .unwrap();
    assert_eq!(irregular(&fetched.tree), ["manifests/link"]);
    assert_eq!(fetched.unselected, 3);
    assert_eq!(show(Ok(fetched)), "manifests/A.yaml=A manifests/a.yaml=a");
    assert!(progress.done() > 100, "{}", progress.done());

    let found = outcome(&server.url("repo.git"), ":linked", &access).await;
    assert!(
        found.contains("it is a symbolic link, and those are not followed"),
        "{found}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_submodule_matters_only_within_the_folder_that_is_wanted() {
    let server = GitServer::start(None, None);
    let (repository, first, _) = usual(&server);
    let tree = repository.git(&["rev-parse", "main:bundle"]);
    let listed = format!("040000 tree {tree}\tbundle\n160000 commit {first}\tother\n");
    let commit = commit_of(&repository, &listed);
    let url = server.url("repo.git");
    let access = Access::default();
    let inside = outcome(&url, &commit, &access).await;
    assert!(
        inside.contains("\"other\" is a submodule, and those are not fetched"),
        "{inside}"
    );
    let there = outcome(&url, &format!("{commit}:other/x"), &access).await;
    assert!(there.contains("\"other\" is a submodule"), "{there}");
    let beside = outcome(&url, &format!("{commit}:bundle"), &access).await;
    assert_eq!(beside, "manifests/a.yaml=two");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_are_deltas_or_whole_and_cost_nothing_outside_of_the_folder() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    let folder = tempfile::tempdir().unwrap();
    // Noise that does not compress, and a few changes to it: git writes one as deltas of the other.
    let mut noise = Vec::new();
    let mut state = 1_u32;
    while noise.len() < 3 << 20 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        noise.push(u8::try_from(state >> 24).unwrap());
    }
    for version in 0..20_u8 {
        noise[100_000 * usize::from(version)] ^= 0xff;
        fs::create_dir_all(folder.path().join("large")).unwrap();
        fs::write(folder.path().join(format!("large/{version}")), &noise).unwrap();
    }
    write(folder.path(), "small/a", "a");
    repository.commit("main", folder.path());
    repository.git(&["repack", "-adf", "--depth=50", "--window=50"]);
    let git = |fragment| source(&server.url("repo.git"), fragment);
    let access = Access::default();
    let limits = Limits {
        total: 100 << 20,
        ..Limits::default()
    };
    let progress = Progress::default();
    let options = Options {
        limits,
        ..Options::default()
    };
    let fetched = unpacker::git::fetch(&git(":large"), &access, &options, &progress)
        .await
        .unwrap();
    assert!(
        progress.done() < 6 << 20,
        "deltas were sent: {}",
        progress.done()
    );
    assert_eq!(fetched.tree.len(), 20);
    let content = fetched.tree.into_content().unwrap();
    assert_eq!(*content.read("19").unwrap(), noise);
    assert_ne!(*content.read("18").unwrap(), noise);

    // The limits are those of a tiny bundle.
    let limits = Limits {
        total: 10,
        file: 10,
        entries: 2,
        ..Limits::default()
    };
    let options = Options {
        limits,
        ..Options::default()
    };
    let small = unpacker::git::fetch(&git(":small"), &access, &options, &progress).await;
    assert_eq!(show(small), "a=a");
    let large = unpacker::git::fetch(&git(""), &access, &options, &progress).await;
    assert_eq!(
        chain(&large.unwrap_err()),
        "content has more than 2 entries; remove some or raise --max-entries"
    );
    let options = Options {
        limits: Limits {
            file: 1 << 20,
            ..Limits::default()
        },
        ..Options::default()
    };
    let large = unpacker::git::fetch(&git(":large"), &access, &options, &progress).await;
    let message = chain(&large.unwrap_err());
    assert!(
        message.starts_with("file \"0\" is larger than the limit of 1048576 bytes"),
        "{message}"
    );
}
