use manifests::api::bundle::{BundleStatus, Phase, UploadSource};

use super::{
    chunks::{Index, belongs, chunk, chunk_map, chunk_name, index_name, is_ours},
    *,
};

fn bundle(uid: &str) -> Bundle {
    object!({"metadata": {"name": "etcd", "uid": uid}, "spec": {"source": {"type": "upload"}}})
}

#[test]
fn an_upload_must_have_the_digest_of_the_spec() {
    let (content, other) = (Digest::sha256(b"content"), Digest::sha256(b"other"));
    let with = |digest: Option<String>| with!(bundle("1") => spec.source.upload: Some(UploadSource { digest }));
    check(&bundle("1"), content).unwrap();
    check(&with(None), content).unwrap();
    check(&with(Some(content.to_string())), content).unwrap();
    let error = check(&with(Some(other.to_string())), content).unwrap_err();
    assert!(matches!(error, Error::Unexpected { .. }), "{error}");
    assert!(error.is_terminal());
    let (upper, longer) = (content.to_string().to_uppercase(), format!("{content}0"));
    for malformed in [String::new(), content.hex(), upper, longer] {
        let error = check(&with(Some(malformed)), content).unwrap_err();
        assert!(matches!(error, Error::InvalidDigest { .. }), "{error}");
    }
}

#[test]
fn unpacked_digest_is_kept_in_every_phase() {
    use Phase::{Failing, Pending, Unpacked, Unpacking};
    let (content, other) = (Digest::sha256(b"content"), Digest::sha256(b"other"));
    for phase in [Pending, Unpacking, Failing, Unpacked] {
        let mut bundle = bundle("1");
        let digest = Some(content.to_string());
        bundle.status = Some(with!(BundleStatus, phase: Some(phase), content_digest: digest));
        assert_eq!(expected(&bundle).unwrap(), Some(content));
        check(&bundle, content).unwrap();
        let error = check(&bundle, other).unwrap_err();
        assert!(matches!(error, Error::Unexpected { .. }), "{error}");
        // The spec comes first.
        let digest = Some(other.to_string());
        bundle.spec.source.upload = Some(UploadSource { digest });
        assert_eq!(expected(&bundle).unwrap(), Some(other));
    }
}

fn index(size: usize, chunks: usize) -> Index {
    Index {
        digest: Digest::sha256(b"content"),
        archive: Digest::sha256(b"archive"),
        size,
        chunks,
        skipped: SkippedEntries::default(),
    }
}

#[test]
fn index_round_trips() {
    let skipped = with!(index(1, 1) => skipped.symlinks: 2, skipped.paths: vec!["a".to_owned()]);
    let longest = index(LIMIT, MAX_CHUNKS);
    for index in [index(0, 0), index(1, 1), longest, skipped] {
        let map = index.to_config_map(&bundle("1"), "system");
        assert_eq!(map.name_any(), "etcd-upload");
        assert_eq!(map.immutable, Some(true));
        assert!(belongs(&map, "1") && is_ours(&map, "etcd"));
        assert_eq!(Index::read(&map), Ok(index));
    }
}

#[test]
fn altered_index_is_rejected() {
    let rows = "digest sha256:0,archive ,size -1,size 99999999999999999999999,size 8388609,chunks 2,chunks 1000000000";
    for (key, value) in rows.split(',').filter_map(|row| row.split_once(' ')) {
        let mut map = index(1, 1).to_config_map(&bundle("1"), "system");
        let data = map.data.as_mut().unwrap();
        data.insert(key.to_owned(), value.to_owned());
        assert!(Index::read(&map).is_err(), "{key}: {value}");
        map.data.as_mut().unwrap().remove(key);
        assert!(Index::read(&map).is_err(), "no {key}");
    }
}

#[test]
fn config_maps_of_a_former_bundle_are_ignored() {
    let map = chunk_map(&bundle("1"), "system", 3, b"bytes");
    assert_rows! {
        map.name_any() => chunk_name("etcd", 3);
        ["1", "2", ""].map(|uid| belongs(&map, uid)) => [true, false, false];
        ["etcd", "other"].map(|name| is_ours(&map, name)) => [true, false];
        chunk(map) => Some(b"bytes".to_vec());
    }
}

#[test]
fn bundles_share_no_config_map_names() {
    let bundles = "a a-upload a-upload-0 a-upload-0-upload a-upload-upload".split(' ');
    let names = bundles.flat_map(|bundle| {
        let chunks = [0, 10].map(|number| chunk_name(bundle, number));
        chunks.into_iter().chain([index_name(bundle)])
    });
    let names: Vec<_> = names.collect();
    assert_rows!(names.iter().collect::<std::collections::BTreeSet<_>>().len() => names.len());
}
