//! Bytes that are not those that were written.

use std::{
    fs,
    io::{Read, Seek, SeekFrom},
    os::unix::fs::FileExt,
    path::Path,
};

use unpacker::{
    Access, Digest, Format, Limits, Options, SkippedEntries, Source, Store, store::Error,
};

use crate::{assert_whole, content, file, listed, open, tree};

fn flip(path: &Path) {
    let at = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let mut byte = [0];
    at.read_exact_at(&mut byte, 5000).unwrap();
    at.write_all_at(&[byte[0] ^ 1], 5000).unwrap();
}

fn cut(path: &Path) {
    fs::OpenOptions::new()
        .write(true)
        .open(path)
        .unwrap()
        .set_len(2048)
        .unwrap();
}

fn empty(path: &Path) {
    fs::File::create(path).unwrap();
}

fn extend(path: &Path) {
    let at = fs::OpenOptions::new().append(true).open(path).unwrap();
    std::io::Write::write_all(&mut &at, &[0; 512]).unwrap();
}

fn become_gzip(path: &Path) {
    fs::write(path, [0x1f, 0x8b, 8, 0, 0, 0]).unwrap();
}

#[test]
fn damaged_content_is_told_removed_and_can_be_stored_again() {
    let reads: [fn(&Store, &Digest) -> Option<Error>; 3] = [
        |store, digest| store.get(digest, &Limits::default()).err(),
        |store, digest| store.reader(digest).err(),
        |store, digest| store.served(digest, Format::TarGz).err(),
    ];
    for damage in [flip, cut, empty, extend, become_gzip] {
        for read in reads {
            let folder = tempfile::tempdir().unwrap();
            let folder = folder.path();
            let store = open(folder, 1 << 20, 0);
            let source = Source::parse(&format!("https://h/b#{}", Digest::of(b"")), |_| false);
            let (options, access) = (Options::default(), Access::default());
            let key = store.key(&source.unwrap(), &options, &access).unwrap();
            let stored = store.put(&tree(1, 20_000)).unwrap();
            let none = SkippedEntries::default();
            store.remember(&key, &stored.digest, &none).unwrap();
            assert_eq!(store.find(&key).unwrap().0.digest, stored.digest);

            damage(&file(folder, &stored.digest));
            let error = read(&store, &stored.digest).unwrap();
            assert!(matches!(error, Error::Damaged { digest } if digest == stored.digest));
            assert_eq!(
                (error.reason(), error.is_terminal()),
                ("ContentDamaged", false)
            );
            assert!(store.find(&key).is_none());
            assert!(listed(folder, "content").is_empty() && listed(folder, "sources").is_empty());
            let missing = read(&store, &stored.digest).unwrap();
            assert!(matches!(missing, Error::Missing { .. }));
            assert_eq!((store.stats().damaged, store.stats().disk), (1, 0));

            // Although the damaged file is still held.
            let again = store.put(&tree(1, 20_000)).unwrap();
            assert_eq!(again.digest, stored.digest);
            let found = store.get(&again.digest, &Limits::default()).unwrap();
            assert_eq!(*found, content(1, 20_000));
            assert!(matches!(
                store.remove(&again.digest),
                Err(Error::Held { .. })
            ));
            assert_whole(&store, folder);
        }
    }
}

#[test]
fn damaged_content_is_replaced_when_it_is_stored_again() {
    for damage in [flip, cut, empty, extend] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let store = open(folder, 1 << 20, 0);
        let stored = store.put(&tree(1, 20_000)).unwrap();
        damage(&file(folder, &stored.digest));
        let again = store.put(&tree(1, 20_000)).unwrap();
        store.get(&again.digest, &Limits::default()).unwrap();
        assert_eq!((store.stats().written, store.stats().damaged), (2, 0));
        assert_whole(&open(folder, 1 << 20, 0), folder);
    }
}

#[test]
fn what_is_served_is_what_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path(), 1 << 20, 0);
    let tree = tree(1, 200_000);
    let mut tar = Vec::new();
    let digest = tree.write_tar(&mut tar).unwrap();
    let stored = store.put(&tree).unwrap();
    assert_eq!((stored.digest, stored.size), (digest, tar.len() as u64));

    let mut reader = store.reader(&digest).unwrap();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert!(bytes == tar);
    assert_eq!(reader.seek(SeekFrom::End(-600)).unwrap(), stored.size - 600);
    assert_eq!(
        reader.seek(SeekFrom::Current(88)).unwrap(),
        stored.size - 512
    );
    let mut end = Vec::new();
    reader.read_to_end(&mut end).unwrap();
    assert_eq!(end, [0; 512]);
    assert!(reader.seek(SeekFrom::Current(-1 << 40)).is_err());
    assert!(matches!(store.remove(&digest), Err(Error::Held { .. })));

    for format in [Format::Tar, Format::TarGz] {
        let sent = || {
            let mut sent = Vec::new();
            store
                .served(&digest, format)
                .unwrap()
                .read_to_end(&mut sent)
                .unwrap();
            sent
        };
        let again = unpacker::stream(sent().as_slice(), &Options::default()).unwrap();
        assert_eq!(again.content, content(1, 200_000));
        assert_eq!(sent(), sent());
    }
    assert_eq!(
        store.served(&digest, Format::Tar).unwrap().size(),
        Some(stored.size)
    );
}
