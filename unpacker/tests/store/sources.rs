//! Which content a source had, and who may know.

use std::{collections::BTreeSet, fs};

use unpacker::{
    Access, Options, Selection, SkippedEntries, Source, Store,
    access::{Basic, Ssh},
    registry::Credentials,
};

use crate::{open, tree};

fn source(text: &str) -> Source {
    Source::parse(text, |_| false).unwrap()
}

fn basic(username: &str, password: &str) -> Access {
    Access {
        basic: Some(Basic {
            username: username.to_owned(),
            password: password.to_owned().into(),
        }),
        ..Access::default()
    }
}

fn pull_secret(json: &str) -> Access {
    Access {
        registries: Credentials::from_docker_config(json.as_bytes()).unwrap(),
        ..Access::default()
    }
}

fn name(store: &Store, text: &str, access: &Access) -> Option<String> {
    let key = store.key(&source(text), &Options::default(), access)?;
    Some(format!("{key:?}"))
}

#[test]
fn only_what_can_never_change_has_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1 << 20, 0);
    let digest = unpacker::Digest::of(b"");
    for (text, is_pinned) in [
        ("quay.io/org/app:v1".to_owned(), false),
        (format!("quay.io/org/app@{digest}"), true),
        ("git+https://h/r#v1".to_owned(), false),
        (format!("git+https://h/r#{}", "a".repeat(40)), true),
        ("https://h/b.tgz".to_owned(), false),
        (format!("https://h/b.tgz#{digest}"), true),
        ("./folder".to_owned(), false),
    ] {
        let key = name(&store, &text, &Access::default());
        assert_eq!(key.is_some(), is_pinned, "{text}");
    }
}

#[test]
fn content_is_not_found_with_other_credentials_another_selection_or_in_another_store() {
    let folder = tempfile::tempdir().unwrap();
    let [store, other] = ["one", "two"].map(|name| open(&folder.path().join(name), 1 << 20, 0));
    let digest = unpacker::Digest::of(b"");
    let image = &format!("quay.io/org/app@{digest}");
    let http = &format!("https://h/b#{digest}");
    let [https, ssh] =
        ["https", "ssh"].map(|scheme| format!("git+{scheme}://h/r#{}", "a".repeat(40)));
    let with_key = |key: &str, passphrase: &str| Access {
        ssh: Some(Ssh {
            key: key.to_owned().into(),
            passphrase: Some(passphrase.to_owned().into()),
            known_hosts: String::new(),
        }),
        ..Access::default()
    };
    let quay = pull_secret(r#"{"auths":{"quay.io":{"auth":"YTpi"}}}"#);
    let names = [
        name(&store, image, &Access::default()),
        name(&other, image, &Access::default()),
        name(&store, image, &quay),
        name(
            &store,
            image,
            &pull_secret(r#"{"auths":{"quay.io":{"auth":"YTpj"}}}"#),
        ),
        name(
            &store,
            image,
            &pull_secret(r#"{"auths":{"quay.io":{"identitytoken":"b"}}}"#),
        ),
        name(
            &store,
            image,
            &pull_secret(r#"{"auths":{"quay.io":{"registrytoken":"b"}}}"#),
        ),
        name(&store, http, &Access::default()),
        name(&store, http, &basic("a", "b")),
        name(&store, http, &basic("ab", "")),
        name(&store, &https, &Access::default()),
        name(&store, &https, &basic("a", "b")),
        name(&store, &ssh, &Access::default()),
        name(&store, &ssh, &with_key("k", "")),
        name(&store, &ssh, &with_key("k", "p")),
        store
            .key(
                &source(http),
                &Options {
                    select: Selection::Only(vec!["a".to_owned()]),
                    ..Options::default()
                },
                &Access::default(),
            )
            .map(|key| format!("{key:?}")),
    ];
    let different: BTreeSet<_> = names.iter().flatten().collect();
    assert_eq!(different.len(), names.len());

    // What is for other sources makes no difference.
    let elsewhere = pull_secret(r#"{"auths":{"ghcr.io":{"auth":"YTpi"}}}"#);
    assert_eq!(name(&store, image, &elsewhere), names[0]);
    assert_eq!(name(&store, image, &basic("a", "b")), names[0]);
    assert_eq!(name(&store, http, &quay), names[6]);
    assert_eq!(name(&store, &ssh, &basic("a", "b")), names[11]);
    // A tag beside a digest says nothing.
    let tagged = format!("quay.io/org/app:v1@{digest}");
    assert_eq!(name(&store, &tagged, &quay), names[2]);
}

#[test]
fn urls_that_differ_in_what_is_not_displayed_are_two_sources() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1 << 20, 0);
    let pinned = |query: &str| format!("https://h/get?{query}#{}", unpacker::Digest::of(b""));
    let name = |query: &str| name(&store, &pinned(query), &Access::default());
    assert_eq!(name("file=a"), name("file=a"));
    assert_ne!(name("file=a"), name("file=b"));
}

#[test]
fn a_source_is_found_after_a_restart_until_its_content_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let store = open(folder, 1 << 20, 0);
    let text = format!("https://h/b#{}", unpacker::Digest::of(b""));
    let key = |store: &Store| {
        store
            .key(
                &source(&text),
                &Options::default(),
                &basic("tenant", "hunter2"),
            )
            .unwrap()
    };
    assert!(store.find(&key(&store)).is_none());
    let [first, second] = [1, 2].map(|seed| store.put(&tree(seed, 1000)).unwrap().digest);
    let skipped = |symlinks| SkippedEntries {
        symlinks,
        ..SkippedEntries::default()
    };
    for (digest, links) in [(first, 0), (second, 2), (second, 0), (first, 1)] {
        let noted = skipped(links);
        store.remember(&key(&store), &digest, &noted).unwrap();
        let (stored, found) = store.find(&key(&store)).unwrap();
        assert_eq!((stored.digest, found), (digest, noted));
    }
    drop(store);
    let store = open(folder, 1 << 20, 0);
    let (stored, found) = store.find(&key(&store)).unwrap();
    assert_eq!((stored.digest, found), (first, skipped(1)));
    // A link that dangles is a miss.
    fs::remove_file(crate::file(folder, &first)).unwrap();
    assert!(store.find(&key(&store)).is_none());
    let link = folder
        .join("sources")
        .read_dir()
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    // So is a file that is damaged, and a link that points anywhere else.
    fs::write(&link, "{").unwrap();
    assert!(store.find(&key(&store)).is_none());
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(crate::file(folder, &second), &link).unwrap();
    assert!(store.find(&key(&store)).is_none());
}

#[test]
fn links_do_not_pile_up_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1 << 20, 0);
    let digest = store.put(&tree(1, 10)).unwrap().digest;
    let key = |at: usize| {
        let text = format!("https://h/{at}#{}", unpacker::Digest::of(b""));
        store
            .key(&source(&text), &Options::default(), &Access::default())
            .unwrap()
    };
    for at in 0..10_100 {
        let none = SkippedEntries::default();
        store.remember(&key(at), &digest, &none).unwrap();
    }
    let count = fs::read_dir(folder.path().join("sources")).unwrap().count();
    assert!((9000..10_000).contains(&count), "{count}");
    assert!(store.find(&key(10_099)).is_some() && store.find(&key(0)).is_none());
}
