//! Damaged content: bytes that differ from the written ones.

use crate::*;

const DAMAGES: [fn(&mut Vec<u8>); 5] = [
    |bytes| bytes[5000] ^= 1,
    |bytes| bytes.truncate(2048),
    Vec::clear,
    |bytes| bytes.extend([0; 512]),
    |bytes| *bytes = vec![0x1f, 0x8b, 8, 0, 0, 0],
];

fn damage(path: &Path, change: fn(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).unwrap();
    change(&mut bytes);
    fs::write(path, bytes).unwrap();
}

// parity: rukpak-39
#[test]
fn damaged_content_is_reported_removed_and_storable_again() {
    let reads: [fn(&Store, &Digest) -> Option<Error>; 3] = [
        |store, digest| store.get(digest, &Limits::default()).err(),
        |store, digest| store.reader(digest).err(),
        |store, digest| store.served(digest, Format::TarGz).err(),
    ];
    for change in DAMAGES {
        // Content that is stored again before it is read.
        let (directory, store) = fresh(1 << 20, 0);
        let stored = put(&store, 1, 20_000);
        damage(&file(directory.path(), &stored.digest), change);
        let again = put(&store, 1, 20_000);
        store.get(&again.digest, &Limits::default()).unwrap();
        assert_eq!((store.stats().written, store.stats().damaged), (2, 0));
        assert_whole(&open(directory.path(), 1 << 20, 0), directory.path());

        for read in reads {
            let (directory, store) = fresh(1 << 20, 0);
            let directory = directory.path();
            let key = key(&store, "b");
            let stored = put(&store, 1, 20_000);
            let none = SkippedEntries::default();
            store.remember(&key, &stored.digest, &none).unwrap();
            assert_eq!(store.find(&key).unwrap().0.digest, stored.digest);

            damage(&file(directory, &stored.digest), change);
            let error = read(&store, &stored.digest).unwrap();
            assert!(matches!(error, Error::Corrupt { digest } if digest == stored.digest));
            assert_rows!((error.reason(), error.is_terminal(), store.find(&key).is_none()) => ("ContentDamaged", false, true));
            let is_empty = |name| listed(directory, name).is_empty();
            assert!(is_empty("content") && is_empty("sources"));
            assert_rows!(matches!(read(&store, &stored.digest).unwrap(), Error::Missing { .. }) => true);
            assert_eq!((store.stats().damaged, store.stats().disk), (1, 0));

            // This works although the damaged file is still held.
            let again = put(&store, 1, 20_000);
            assert_eq!(again.digest, stored.digest);
            assert_rows!(*store.get(&again.digest, &Limits::default()).unwrap() => content(1, 20_000));
            let held = store.remove(&again.digest);
            assert!(matches!(held, Err(Error::InUse { .. })), "{held:?}");
            assert_whole(&store, directory);
        }
    }
}

#[test]
fn served_bytes_equal_the_stored_bytes() {
    let (_directory, store) = fresh(1 << 20, 0);
    let tree = tree(1, 200_000);
    let mut tar = Vec::new();
    let digest = tree.write_tar(&mut tar).unwrap();
    let stored = store.put(&tree).unwrap();
    assert_eq!((stored.digest, stored.size), (digest, tar.len() as u64));

    let mut reader = store.reader(&digest).unwrap();
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert!(bytes == tar);
    let places = [SeekFrom::End(-600), SeekFrom::Current(88)].map(|to| reader.seek(to).unwrap());
    assert_eq!(places, [stored.size - 600, stored.size - 512]);
    let mut end = Vec::new();
    reader.read_to_end(&mut end).unwrap();
    assert_eq!(end, [0; 512]);
    assert!(reader.seek(SeekFrom::Current(-1 << 40)).is_err());
    assert!(matches!(store.remove(&digest), Err(Error::InUse { .. })));

    for format in [Format::Tar, Format::TarGz] {
        let sent = || {
            let mut sent = Vec::new();
            let mut served = store.served(&digest, format).unwrap();
            served.read_to_end(&mut sent).unwrap();
            sent
        };
        assert_rows!(unpacker::stream(sent().as_slice(), &Options::default()).unwrap().content => content(1, 200_000));
        assert_eq!(sent(), sent());
    }
    assert_rows!(store.served(&digest, Format::Tar).unwrap().size() => Some(stored.size));
}
