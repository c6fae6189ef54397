//! Files of commits: modes, links, deltas and limits.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
};

use tests::{GitServer, chain, noise, write};
use unpacker::{Access, Error, Fetched, Limits, Options, Progress, Selection, Tree, git::fetch};

use crate::shared::{outcome, show, source};

/// Paths of entries that are not regular files.
fn irregular(tree: &Tree) -> Vec<&str> {
    tree.irregular().map(|(path, _)| path).collect()
}

/// Fetches a directory, and returns the bytes that were transferred, too.
async fn fetched(
    server: &GitServer,
    fragment: &str,
    options: &Options,
) -> (Result<Fetched, Error>, u64) {
    let (git, progress) = (
        source(&server.url("repo.git"), fragment),
        Progress::default(),
    );
    let fetched = fetch(&git, &Access::default(), options, &progress).await;
    (fetched, progress.done())
}

fn limited(limits: Limits) -> Options {
    Options {
        limits,
        ..Options::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_links_and_selections_are_those_of_a_directory() {
    let server = GitServer::start(None, None);
    let folder = tempfile::tempdir().unwrap();
    for (path, text) in [
        ("manifests/a.yaml", "a"),
        ("manifests/A.yaml", "A"),
        ("run", "#!"),
        ("docs/b", "b"),
    ] {
        write(folder.path(), path, text);
    }
    fs::set_permissions(folder.path().join("run"), fs::Permissions::from_mode(0o755)).unwrap();
    for (target, link) in [
        ("/etc/passwd", "manifests/link"),
        ("docs", "linked"),
        ("b", "docs/c"),
    ] {
        symlink(target, folder.path().join(link)).unwrap();
    }
    server.repository("repo.git").commit("main", folder.path());
    let all = fetched(&server, "", &Options::default()).await.0.unwrap();
    assert_eq!(irregular(&all.tree), ["docs/c", "linked", "manifests/link"]);
    let error = all.tree.ensure_regular().unwrap_err().to_string();
    let expected = "entry \"manifests/link\" is a symbolic link, not a regular file; ";
    assert!(error.starts_with(expected), "{error}");
    assert_eq!(
        show(Ok(all)),
        "docs/b=b manifests/A.yaml=A manifests/a.yaml=a run*=#!"
    );

    let select = Options {
        select: Selection::Only(vec!["manifests".to_owned()]),
        ..Options::default()
    };
    let (selected, done) = fetched(&server, "", &select).await;
    let selected = selected.unwrap();
    assert_eq!(irregular(&selected.tree), ["manifests/link"]);
    assert_eq!(selected.unselected, 3);
    assert_eq!(show(Ok(selected)), "manifests/A.yaml=A manifests/a.yaml=a");
    assert!(done > 100, "{done}");

    let found = outcome(&server.url("repo.git"), ":linked", &Access::default()).await;
    let expected = "it is a symbolic link, and those are not followed";
    assert!(found.contains(expected), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_are_deltas_and_count_only_within_the_directory() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    let folder = tempfile::tempdir().unwrap();
    // Noise that does not compress, and a few changes to it: git writes one as deltas of the other.
    let mut noise = noise(1, 3 << 20);
    for version in 0..20_u8 {
        noise[100_000 * usize::from(version)] ^= 0xff;
        write(folder.path(), &format!("large/{version}"), &noise);
    }
    write(folder.path(), "small/a", "a");
    repository.commit("main", folder.path());
    repository.git(&["repack", "-adf", "--depth=50", "--window=50"]);
    let wide = limited(Limits {
        total: 100 << 20,
        ..Limits::default()
    });
    let (large, done) = fetched(&server, ":large", &wide).await;
    let large = large.unwrap();
    assert!(done < 6 << 20, "whole files instead of deltas: {done}");
    assert_eq!(large.tree.len(), 20);
    let content = large.tree.into_content().unwrap();
    assert_eq!(*content.read("19").unwrap(), noise);
    assert_ne!(*content.read("18").unwrap(), noise);

    let tiny = limited(Limits {
        total: 10,
        file: 10,
        entries: 2,
        ..Limits::default()
    });
    assert_eq!(show(fetched(&server, ":small", &tiny).await.0), "a=a");
    let error = chain(&fetched(&server, "", &tiny).await.0.unwrap_err());
    assert_eq!(
        error,
        "content has more than 2 entries; remove some or raise --max-entries"
    );
    let flat = limited(Limits {
        file: 1 << 20,
        ..Limits::default()
    });
    let error = chain(&fetched(&server, ":large", &flat).await.0.unwrap_err());
    let expected = "file \"0\" is larger than the limit of 1048576 bytes";
    assert!(error.starts_with(expected), "{error}");
}
