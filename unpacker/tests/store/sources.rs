//! Recorded content of sources, by source and credentials.

use crate::*;

/// Reads `basic=NAME:PASSWORD`, `pull-secret=REGISTRY:FIELD:VALUE` and `key=KEY:PASSPHRASE`.
fn access(settings: &Cell) -> Access {
    let mut access = Access::default();
    let text = settings.text();
    let (kind, value) = text.split_once('=').unwrap_or_default();
    let parts: Vec<_> = value.split(':').map(str::to_owned).collect();
    match (kind, &parts[..]) {
        ("basic", [name, password]) => access.basic = Some(basic(name, password)),
        ("pull-secret", [registry, field, value]) => {
            let json = format!(r#"{{"auths":{{"{registry}":{{"{field}":"{value}"}}}}}}"#);
            access.registries = Credentials::from_docker_config(json.as_bytes()).unwrap();
        }
        ("key", [key, passphrase]) => {
            access.ssh = Some(Ssh {
                key: key.clone().into(),
                passphrase: Some(passphrase.clone().into()),
                known_hosts: String::new(),
            });
        }
        _ => {}
    }
    access
}

#[test]
fn keys_distinguish_sources_credentials_selections_and_stores() {
    let (_first, store) = fresh(1 << 20, 0);
    let (_second, other) = fresh(1 << 20, 0);
    let values = Values::default()
        .with("digest", unpacker::Digest::sha256(b"").to_string())
        .with("commit", "a".repeat(40));
    let rows = "
        # source, settings, and the first source with the same key
        tag              | quay.io/org/app:v1       | | none
        branch           | git+https://h/r#v1       | | none
        archive          | https://h/b.tgz          | | none
        pinned archive   | https://h/b.tgz#{digest} | | 4
        directory        | ./folder                 | | none
        image            | quay.io/org/app@{digest} | | 6
        other store      | quay.io/org/app@{digest} | other-store | 7
        pull secret      | quay.io/org/app@{digest} | pull-secret=quay.io:auth:YTpi | 8
        other password   | quay.io/org/app@{digest} | pull-secret=quay.io:auth:YTpj | 9
        identity token   | quay.io/org/app@{digest} | pull-secret=quay.io:identitytoken:b | 10
        registry token   | quay.io/org/app@{digest} | pull-secret=quay.io:registrytoken:b | 11
        http             | https://h/b#{digest}     | | 12
        http, password   | https://h/b#{digest}     | basic=a:b | 13
        http, other name | https://h/b#{digest}     | basic=ab: | 14
        git              | git+https://h/r#{commit} | | 15
        git, password    | git+https://h/r#{commit} | basic=a:b | 16
        ssh              | git+ssh://h/r#{commit}   | | 17
        ssh, key         | git+ssh://h/r#{commit}   | key=k: | 18
        ssh, passphrase  | git+ssh://h/r#{commit}   | key=k:p | 19
        selection        | https://h/b#{digest}     | selection | 20
        query            | https://h/get?file=a#{digest} | | 21
        other query      | https://h/get?file=b#{digest} | | 22
        same query       | https://h/get?file=a#{digest} | | 21
        # Credentials for other sources make no difference, nor does a tag beside a digest.
        other registry   | quay.io/org/app@{digest} | pull-secret=ghcr.io:auth:YTpi | 6
        image, password  | quay.io/org/app@{digest} | basic=a:b | 6
        http, pull secret | https://h/b#{digest}    | pull-secret=quay.io:auth:YTpi | 12
        ssh, password    | git+ssh://h/r#{commit}   | basic=a:b | 17
        tag and digest   | quay.io/org/app:v1@{digest} | pull-secret=quay.io:auth:YTpi | 8
    ";
    let keys = RefCell::new(Vec::new());
    table::compare(rows, &values, |[text, settings]: &[Cell; 2]| {
        let store = [&store, &other][usize::from(settings.has("other-store"))];
        let mut options = Options::default();
        if settings.has("selection") {
            options.select = Selection::Only(vec!["a".to_owned()]);
        }
        let source = Source::parse(&text.text(), |_| false).unwrap();
        let key = store.key(&source, &options, &access(settings));
        let key = key.map(|key| format!("{key:?}"));
        let mut keys = keys.borrow_mut();
        keys.push(key.clone());
        let first = keys.iter().zip(1..).find(|(other, _)| **other == key);
        key.map_or("none".to_owned(), |_| first.unwrap().1.to_string())
    });
}

#[test]
fn source_is_found_after_a_restart_while_content_exists() {
    let (directory, store) = fresh(1 << 20, 0);
    let directory = directory.path();
    let key = |store: &Store| key(store, "b");
    assert!(store.find(&key(&store)).is_none());
    let [first, second] = [1, 2].map(|seed| put(&store, seed, 1000).digest);
    for (digest, links) in [(first, 0), (second, 2), (second, 0), (first, 1)] {
        let noted = skipped(links);
        store.remember(&key(&store), &digest, &noted).unwrap();
        let (stored, found) = store.find(&key(&store)).unwrap();
        assert_eq!((stored.digest, found), (digest, noted));
    }
    drop(store);
    let store = open(directory, 1 << 20, 0);
    let (stored, found) = store.find(&key(&store)).unwrap();
    assert_eq!((stored.digest, found), (first, skipped(1)));
    // A dangling link is a miss.
    fs::remove_file(crate::file(directory, &first)).unwrap();
    assert!(store.find(&key(&store)).is_none());
    let link = listed(directory, "sources").into_keys().next().unwrap();
    let link = directory.join("sources").join(link);
    // So are a malformed file and a link to another file.
    fs::write(&link, "{").unwrap();
    assert!(store.find(&key(&store)).is_none());
    fs::remove_file(&link).unwrap();
    symlink(crate::file(directory, &second), &link).unwrap();
    assert!(store.find(&key(&store)).is_none());
}

#[test]
fn number_of_links_is_bounded() {
    let (directory, store) = fresh(1 << 20, 0);
    let digest = put(&store, 1, 10).digest;
    let none = skipped(0);
    for at in 0..10_100 {
        store.remember(&key(&store, at), &digest, &none).unwrap();
    }
    let count = listed(directory.path(), "sources").len();
    assert!((9000..10_000).contains(&count), "{count}");
    assert_rows!([10_099, 0].map(|at| store.find(&key(&store, at)).is_some()) => [true, false]);
}

#[test]
fn links_to_removed_content_are_swept() {
    let (directory, store) = fresh(16 << 20, 0);
    let record = |at| {
        let (key, digest) = (key(&store, at), put(&store, at, 10).digest);
        store.remember(&key, &digest, &skipped(0)).unwrap();
        digest
    };
    let digests: Vec<_> = (0..300).map(record).collect();
    let links = || listed(directory.path(), "sources").len();
    let mut max = 0;
    for (left, digest) in (0..300).rev().zip(&digests) {
        store.remove(digest).unwrap();
        max = max.max(links() - left);
    }
    // At most a hundred links are unused, or as many as are used.
    assert!(max < 150 && links() < 100, "{max} {}", links());
    assert!((0..300).all(|at| store.find(&key(&store, at)).is_none()));
    drop(store);
    open(directory.path(), 16 << 20, 0);
    assert_eq!(links(), 0);
}
