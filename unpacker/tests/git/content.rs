//! Files of commits: modes, links, deltas and limits.

use crate::*;

/// Fetches a directory, and returns the result and the number of transferred bytes.
async fn fetched(url: &str, part: &str, options: &Options) -> (Result<Fetched, Error>, u64) {
    let git = source(url, part);
    let progress = Progress::default();
    let fetched = unpacker::git::fetch(&git, &Access::default(), options, &progress).await;
    (fetched, progress.done())
}

fn limited(total: u64, file: u64, entries: usize) -> Options {
    with!(Options::default() => limits.total: total, limits.file: file, limits.entries: entries)
}

#[tokio::test(flavor = "multi_thread")]
async fn modes_links_and_selections_are_those_of_a_directory() {
    let server = GitServer::start(None, None);
    let directory = tempfile::tempdir().unwrap();
    let url = server.url("repo.git");
    let irregular = |tree: &Tree| {
        let entries = tree.irregular().map(|(path, _)| path.to_owned());
        entries.collect::<Vec<_>>()
    };
    for (path, text) in pairs("manifests/a.yaml a, manifests/A.yaml A, run #!, docs/b b") {
        write(directory.path(), path, text);
    }
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(directory.path().join("run"), executable).unwrap();
    for (target, link) in pairs("/etc/passwd manifests/link, docs linked, b docs/c") {
        symlink(target, directory.path().join(link)).unwrap();
    }
    let repository = server.repository("repo.git");
    repository.commit("main", directory.path());
    let all = fetched(&url, "", &Options::default()).await.0.unwrap();
    assert_eq!(irregular(&all.tree), ["docs/c", "linked", "manifests/link"]);
    let error = all.tree.ensure_regular().unwrap_err().to_string();
    assert_rows!(error.starts_with("entry \"manifests/link\" is a symbolic link, not a regular file; ") => true, "{error}");
    assert_rows!(describe(Ok(all)) => "docs/b=b manifests/A.yaml=A manifests/a.yaml=a run*=#!");

    let select = Selection::Only(vec!["manifests".to_owned()]);
    let options = with!(Options, select);
    let (selected, done) = fetched(&url, "", &options).await;
    let selected = selected.unwrap();
    assert_rows!((irregular(&selected.tree), selected.unselected) => (vec!["manifests/link".to_owned()], 3));
    assert_rows!(describe(Ok(selected)) => "manifests/A.yaml=A manifests/a.yaml=a");
    assert!(done > 100, "{done}");

    let found = outcome(&url, ":linked", &Access::default()).await;
    assert_has(&found, "the path is a symbolic link, which is not followed");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_files_are_deltas_and_count_only_within_the_directory() {
    let server = GitServer::start(None, None);
    let repository = server.repository("repo.git");
    let directory = tempfile::tempdir().unwrap();
    // Noise that does not compress, and a few changes to it: git writes one as deltas of the other.
    let mut noise = noise(1, 3 << 20);
    for version in 0..20_u8 {
        noise[100_000 * usize::from(version)] ^= 0xff;
        write(directory.path(), &format!("large/{version}"), &noise);
    }
    write(directory.path(), "small/a", "a");
    repository.commit("main", directory.path());
    repository.git(&["repack", "-adf", "--depth=50", "--window=50"]);
    let (url, limits) = (server.url("repo.git"), Limits::default());
    let wide = limited(100 << 20, limits.file, limits.entries);
    let (large, done) = fetched(&url, ":large", &wide).await;
    let large = large.unwrap();
    assert!(done < 6 << 20, "whole files instead of deltas: {done}");
    assert_eq!(large.tree.len(), 20);
    let content = large.tree.into_content().unwrap();
    assert_rows!(["19", "18"].map(|version| *content.read(version).unwrap() == noise) => [true, false]);

    let tiny = limited(10, 10, 2);
    let found = async |directory: &str, options: &Options| {
        describe(fetched(&url, directory, options).await.0)
    };
    assert_eq!(found(":small", &tiny).await, "a=a");
    assert_rows!(found("", &tiny).await => "content has more than 2 entries; remove some or raise --max-entries");
    let flat = found(":large", &limited(limits.total, 1 << 20, limits.entries)).await;
    assert_rows!(flat.starts_with("file \"0\" is larger than the limit of 1048576 bytes") => true, "{flat}");
}
